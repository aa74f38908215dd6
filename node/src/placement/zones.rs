//! The rule of zones: of each partition's voters no zone has two more than another one that could have one more. So no two are in one zone as long as there
//! are as many zones that serve as voters are wanted, and otherwise no zone has more of them than it must.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use base::NodeId;

use super::Nodes;

/// What fails as one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Zone<'a> {
    Named(&'a str),
    /// Of a node without a label.
    Own(NodeId),
}

impl Nodes<'_> {
    pub(super) fn zone(&self, id: NodeId) -> Zone<'_> {
        self.zones.get(&id).map_or(Zone::Own(id), |name| Zone::Named(name))
    }

    /// How many of these serve, by their zones.
    fn crowds(&self, voters: &[NodeId]) -> BTreeMap<Zone<'_>, usize> {
        let mut crowds = BTreeMap::new();
        for id in voters.iter().filter(|id| self.serves(**id)) {
            *crowds.entry(self.zone(*id)).or_default() += 1;
        }
        crowds
    }

    /// Those that serve and are not among these.
    fn others(&self, voters: &[NodeId]) -> impl Iterator<Item = NodeId> {
        self.serving().filter(|id| !voters.contains(id))
    }
}

/// Whether the voters of a partition are spread as the rule says.
pub(super) fn are_even(voters: &[NodeId], nodes: &Nodes<'_>) -> bool {
    let crowds = nodes.crowds(voters);
    let most = crowds.values().max().copied().unwrap_or(0);
    nodes.others(voters).all(|id| most < crowds.get(&nodes.zone(id)).copied().unwrap_or(0) + 2)
}

/// The place of the last of the voters that shares its zone with most others.
pub(super) fn most_crowded(voters: &[NodeId], nodes: &Nodes<'_>) -> Option<usize> {
    let crowds = nodes.crowds(voters);
    let most = crowds.values().max()?;
    voters.iter().rposition(|id| crowds.get(&nodes.zone(*id)) == Some(most))
}

/// Who is to vote besides these: in a zone with as few of them as possible, whoever has the fewest votes.
pub(super) fn wanted(voters: &[NodeId], nodes: &Nodes<'_>, loads: &BTreeMap<NodeId, usize>) -> Option<NodeId> {
    let crowds = nodes.crowds(voters);
    let crowd = |id: &NodeId| crowds.get(&nodes.zone(*id)).copied().unwrap_or(0);
    nodes.others(voters).min_by_key(|id| (crowd(id), loads.get(id).copied().unwrap_or(0), *id))
}

/// Spreads the voters of a partition as the rule says: nobody goes who need not, and if there is a choice not whoever leads.
pub(super) fn spread(voters: &mut Vec<NodeId>, nodes: &Nodes<'_>, loads: &mut BTreeMap<NodeId, usize>) {
    while let Some(new) = wanted(voters, nodes, loads) {
        let crowds = nodes.crowds(voters);
        let crowd = |id: NodeId| crowds.get(&nodes.zone(id)).copied().unwrap_or(0);
        let load = |id: NodeId| loads.get(&id).copied().unwrap_or(0);
        let serving = voters.iter().enumerate().filter(|(_, id)| nodes.serves(**id));
        let goes = serving.max_by_key(|(place, id)| (crowd(**id), *place > 0, load(**id), Reverse(**id)));
        let Some((place, old)) = goes.map(|(place, id)| (place, *id)).filter(|(_, id)| crowd(*id) > crowd(new) + 1)
        else {
            return;
        };
        // Behind the others: it has a copy to make before it can lead.
        voters.remove(place);
        voters.push(new);
        for (id, change) in [(old, -1), (new, 1)] {
            let load = loads.entry(id).or_default();
            *load = load.saturating_add_signed(change);
        }
    }
}
