//! Which nodes shall vote in which partition, and who shall lead it: a map is made from the one before, so that nothing moves that need not.
//!
//! 1. Whoever votes and serves stays.
//! 2. A seat that is empty, or whose holder is to serve no more, goes to a zone that has the fewest of the partition's voters, and there to the node that
//!    has the fewest votes. If too few serve, holders stay all the same: nobody else could vote in their place.
//! 3. Seats go from zones that have more of a partition's voters than they need have to others ([`zones`]).
//! 4. Seats go from whoever has most to whoever has least until these differ by one, as far as zones allow: after a node has joined just its share moves
//!    to it ([`evening`]).
//! 5. Of each partition's voters one leads; leaderships are evened out in the same way. That moves no data.
//!
//! Step 4 is taken only where something is clearly uneven, and step 5 also where something has to move anyway: a bucket that comes or goes shall not set
//! all others moving, and a vote that moves costs a copy of the partition. Consistent hashing moves as little, but with 64 partitions on five nodes its
//! shares would be far from even (a test says so).

mod evening;
mod zones;

use std::collections::BTreeMap;

use base::{NodeId, PartitionId};

use crate::council::COUNCIL;
use evening::{Load, even_out};

/// By how many votes nodes may differ before votes move for that alone.
const VOTES_SLACK: usize = 2;
/// The same for leaderships. They move more easily, and whoever serves again shall lead again where few partitions are all there is.
const LEADS_SLACK: usize = 1;

/// All nodes in the order in which a partition that these have founded prefers them: the first is next in turn from partition to partition; the others
/// follow in steps whose length changes from round to round, so that what a node gives up is spread over all others.
pub(crate) fn order(partition: PartitionId, nodes: &[NodeId]) -> Vec<NodeId> {
    let count = nodes.len();
    if count < 2 {
        return nodes.to_vec();
    }
    // The council goes with the default bucket.
    let turn = if partition == COUNCIL { 0 } else { partition.bucket.0 as usize + usize::from(partition.index) };
    let steps: Vec<usize> = (1..count).filter(|step| are_coprime(*step, count)).collect();
    let step = steps[turn / count % steps.len()];
    (0..count).map(|place| nodes[(turn + place * step) % count]).collect()
}

/// Whether steps of this length come by every place of a circle.
fn are_coprime(step: usize, count: usize) -> bool {
    (2..=step).all(|divisor| !step.is_multiple_of(divisor) || !count.is_multiple_of(divisor))
}

/// One partition, as it is and as it shall be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Seats {
    pub partition: PartitionId,
    /// How many shall vote.
    pub count: usize,
    /// Who does by the map; the first leads.
    pub now: Vec<NodeId>,
}

/// What a plan is made for.
#[derive(Debug)]
pub(crate) struct Nodes<'a> {
    /// Who is there, ascending, and whether each serves.
    pub all: &'a [(NodeId, bool)],
    /// In which zone each is; who is not in here is a zone of its own.
    pub zones: &'a BTreeMap<NodeId, String>,
}

impl Nodes<'_> {
    fn serving(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.all.iter().filter(|(_, serves)| *serves).map(|(id, _)| *id)
    }

    fn serves(&self, id: NodeId) -> bool {
        self.all.iter().any(|(other, serves)| *other == id && *serves)
    }

    fn is_there(&self, id: NodeId) -> bool {
        self.all.iter().any(|(other, _)| *other == id)
    }
}

/// Seats as they shall be; the same as they were if nothing has to change.
pub(crate) fn plan(mut seats: Vec<Seats>, nodes: &Nodes<'_>) -> Vec<Seats> {
    let all_fit = seats.iter().all(|it| fits(it, nodes) && zones::are_even(&it.now, nodes));
    if !all_fit {
        fill(&mut seats, nodes);
    }
    let moved = even_out(&mut seats, nodes, Load::Votes, Some(VOTES_SLACK));
    even_out(&mut seats, nodes, Load::Leads, Some(LEADS_SLACK).filter(|_| all_fit && !moved));
    seats
}

/// Whether a partition has as many voters as it shall have and can have, and all of them serve that can. Who is only drained, and keeps its seat, keeps
/// its place in their order, too: it leads again when it serves again.
fn fits(it: &Seats, nodes: &Nodes<'_>) -> bool {
    let serving = nodes.serving().count();
    let serve = it.now.iter().filter(|id| nodes.serves(**id)).count();
    it.now.len() == it.count.min(nodes.all.len())
        && it.now.iter().all(|id| nodes.is_there(*id))
        && serve == it.count.min(serving)
}

/// Steps 1 to 3.
fn fill(seats: &mut [Seats], nodes: &Nodes<'_>) {
    for it in seats.iter_mut() {
        it.now.retain(|id| nodes.is_there(*id));
        while it.now.len() > it.count {
            // Who does not serve goes first, then whoever is not alone in its zone, whoever leads last.
            let idle = it.now.iter().rposition(|id| !nodes.serves(*id));
            let goes = idle.or_else(|| zones::most_crowded(&it.now, nodes));
            it.now.remove(goes.unwrap_or(it.now.len() - 1));
        }
    }
    let mut loads = votes(seats, nodes);
    for it in seats.iter_mut() {
        let lacks = |it: &Seats| it.now.iter().filter(|id| nodes.serves(**id)).count() < it.count;
        while lacks(it) {
            let Some(new) = zones::wanted(&it.now, nodes, &loads) else { break };
            *loads.entry(new).or_default() += 1;
            // Behind the others: it has a copy to make before it can lead.
            if it.now.len() >= it.count
                && let Some(place) = it.now.iter().position(|id| !nodes.serves(*id))
            {
                it.now.remove(place);
            }
            it.now.push(new);
        }
        zones::spread(&mut it.now, nodes, &mut loads);
        // Too few serve: others who are there vote, rather than nobody.
        for (id, _) in nodes.all {
            if it.now.len() < it.count && !it.now.contains(id) {
                it.now.push(*id);
            }
        }
    }
}

/// In how many partitions each node votes that serves.
fn votes(seats: &[Seats], nodes: &Nodes<'_>) -> BTreeMap<NodeId, usize> {
    count(seats.iter().filter(|it| it.partition != COUNCIL).flat_map(|it| it.now.iter().copied()), nodes)
}

/// How many partitions each node shall lead that serves.
fn leads(seats: &[Seats], nodes: &Nodes<'_>) -> BTreeMap<NodeId, usize> {
    count(seats.iter().filter(|it| it.partition != COUNCIL).filter_map(|it| it.now.first().copied()), nodes)
}

fn count(held: impl Iterator<Item = NodeId>, nodes: &Nodes<'_>) -> BTreeMap<NodeId, usize> {
    let mut loads: BTreeMap<NodeId, usize> = nodes.serving().map(|id| (id, 0)).collect();
    for id in held {
        if let Some(load) = loads.get_mut(&id) {
            *load += 1;
        }
    }
    loads
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod zone_tests;
