//! Property: no group ever has two majorities that do not meet; who gets a vote has the log, who is removed has none; and once faults stop, those vote
//! who shall.
//!
//! A majority of one group and one of the next meet if they are majorities of one list of voters that both need. That is what joint groups are for; here
//! it is only said what must be true
//! 1. of any two groups that follow each other in a log;
//! 2. of all that any node has ever known to be decided: at one position there is one, and it meets its neighbours;
//! 3. of whoever is removed from the cluster: it has no vote in the last of them then, and gets none later;
//! 4. of whoever gets a vote: its disk has, or has had, all but the last entries of the log.

use std::collections::{BTreeMap, BTreeSet};

use base::limits::CLOSE_ENTRIES;
use base::{NodeId, PartitionId, Position};
use node::Voters;

/// What is wrong with two groups that follow each other; none if all is well.
#[must_use]
pub fn disjoint(voters: &Voters) -> Option<String> {
    let Voters { now, before, .. } = voters;
    (!meet(now, before))
        .then(|| format!("{now:?} votes after {before:?}, and a majority of one need not meet one of the other"))
}

fn meet(one: &[Vec<NodeId>], other: &[Vec<NodeId>]) -> bool {
    one.iter().any(|list| other.contains(list))
}

/// Whether those vote who shall, and no change is under way.
#[must_use]
pub fn settled(voters: &Voters) -> bool {
    voters.wanted.is_empty() || voters.now[..] == [voters.wanted.clone()]
}

/// Whether somebody has got a vote by the last entry whose disk never had the log before it; `of` says how far each one has been.
#[must_use]
pub fn too_soon(voters: &Voters, of: impl Fn(NodeId) -> Position) -> Option<String> {
    // The last entry is the one that gives the vote.
    let lacks = |id: &NodeId| of(*id).0 + CLOSE_ENTRIES + 1 < voters.at.0;
    let had = |id: &NodeId| voters.before.iter().flatten().any(|other| other == id);
    let id = voters.now.iter().flatten().find(|id| !had(id) && lacks(id))?;
    Some(format!("{id} has got a vote by {}, and its disk has never had more of the log than {}", voters.at, of(*id)))
}

/// Who votes: one list, or two of which a majority of each is needed.
type Lists = Vec<Vec<NodeId>>;

/// Every group that some node has known to be decided.
#[derive(Debug, Default)]
pub struct Groups {
    /// By partition and by the position of the entry that says so.
    chains: BTreeMap<PartitionId, BTreeMap<Position, Lists>>,
    /// Those behind the last of them that stand in somebody's log, and may come to be decided.
    under_way: BTreeMap<PartitionId, BTreeMap<Position, Vec<Lists>>>,
    /// Who was removed from the cluster.
    removed: BTreeSet<NodeId>,
    /// By partition what somebody who went on alone had of its log: behind that only he votes, whoever did before.
    alone: BTreeMap<PartitionId, Position>,
}

impl Groups {
    /// Takes what a node knows. What is wrong with it.
    pub fn observe(&mut self, partition: PartitionId, voters: &Voters) -> Option<String> {
        let is_of_before = |at: Position| self.alone.get(&partition).is_some_and(|last| at <= *last);
        if is_of_before(voters.at) {
            return None;
        }
        if is_of_before(voters.before_at) {
            return if voters.is_decided { self.decided(partition, voters.at, &voters.now) } else { None };
        }
        if let Some(text) = disjoint(voters) {
            return Some(text);
        }
        // A change begins when the one before it is decided.
        let before = self.decided(partition, voters.before_at, &voters.before);
        if before.is_some() {
            return before;
        }
        if !voters.is_decided {
            self.begins(partition, voters);
            return None;
        }
        self.decided(partition, voters.at, &voters.now)
    }

    /// Takes a change that is not decided, and may be so in the next moment.
    fn begins(&mut self, partition: PartitionId, voters: &Voters) {
        let last = self.chains.get(&partition).and_then(BTreeMap::last_key_value);
        if last.is_some_and(|(last, _)| voters.at <= *last) {
            return;
        }
        let others = self.under_way.entry(partition).or_default().entry(voters.at).or_default();
        if !others.contains(&voters.now) {
            others.push(voters.now.clone());
        }
    }

    fn decided(&mut self, partition: PartitionId, at: Position, lists: &[Vec<NodeId>]) -> Option<String> {
        let chain = self.chains.entry(partition).or_default();
        if let Some(known) = chain.get(&at) {
            return (known != lists).then(|| format!("by {at} both {known:?} and {lists:?} vote"));
        }
        let last = chain.last_key_value().map(|(last, _)| *last);
        let neighbours = [chain.range(..at).next_back(), chain.range(at..).next()];
        for (other, known) in neighbours.into_iter().flatten() {
            if !meet(known, lists) {
                return Some(format!(
                    "by {at} {lists:?} vote and by {other} {known:?}: their majorities need not meet"
                ));
            }
        }
        chain.insert(at, lists.to_vec());
        if let Some(under_way) = self.under_way.get_mut(&partition) {
            under_way.retain(|other, _| *other > at);
        }
        let gone = lists.iter().flatten().find(|id| self.removed.contains(id));
        let gone = gone.filter(|_| last.is_none_or(|last| last < at));
        gone.map(|gone| format!("by {at} {lists:?} vote, and {gone} was removed before"))
    }

    /// Somebody has gone on alone, with so much of each log: nobody else votes any more. He may have been removed, and not have heard of it.
    pub fn begin_anew(&mut self, survivor: NodeId, alone: BTreeMap<PartitionId, Position>) {
        self.chains.clear();
        self.under_way.clear();
        self.removed.remove(&survivor);
        self.alone = alone;
    }

    /// Whether these are a majority of no group that there has ever been.
    pub fn are_no_majority(&self, some: impl Fn(NodeId) -> bool) -> bool {
        let lists = self.chains.values().flat_map(BTreeMap::values).flatten();
        lists.into_iter().all(|list| 2 * list.iter().filter(|id| some(**id)).count() < list.len())
    }

    /// Whether a node has a vote in a partition by the last group that was ever decided.
    pub fn names(&self, partition: PartitionId, node: NodeId) -> bool {
        let last = self.chains.get(&partition).and_then(BTreeMap::last_key_value);
        last.is_some_and(|(_, lists)| lists.iter().flatten().any(|id| *id == node))
    }

    /// Whether every group can go on when these have lost their memory, and so can whatever it may be about to become.
    pub fn bear(&self, lost: impl Fn(NodeId) -> bool) -> bool {
        let last = self.chains.values().filter_map(|chain| chain.last_key_value());
        let under_way = self.under_way.values().flat_map(BTreeMap::values).flatten().flatten();
        last.flat_map(|(_, lists)| lists).chain(under_way).all(|list| {
            let count = list.iter().filter(|id| lost(**id)).count();
            count == 0 || 2 * count < list.len()
        })
    }

    /// A node was removed, while there were these partitions. What is wrong with that.
    pub fn remove(&mut self, node: NodeId, partitions: &[PartitionId]) -> Option<String> {
        if !self.removed.insert(node) {
            return None;
        }
        let last = |partition: &PartitionId| Some((*partition, self.chains.get(partition)?.last_key_value()?));
        let names = |(_, (_, lists)): &(PartitionId, (&Position, &Lists))| lists.iter().flatten().any(|id| *id == node);
        let (partition, (at, lists)) = partitions.iter().filter_map(last).find(names)?;
        Some(format!("{node} was removed while it had a vote in {partition}: by {at} {lists:?} vote"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn voters(now: &[&[u16]], before: &[&[u16]], wanted: &[u16]) -> Voters {
        let list = |list: &[u16]| list.iter().map(|node| NodeId(*node)).collect::<Vec<_>>();
        let lists = |lists: &[&[u16]]| lists.iter().map(|it| list(it)).collect();
        let (at, before_at) = (Position(2), Position(1));
        Voters { now: lists(now), before: lists(before), wanted: list(wanted), at, before_at, is_decided: true }
    }

    type Group = (Position, Lists);

    fn group(at: u64, lists: &[&[u16]]) -> Group {
        (Position(at), voters(lists, &[], &[]).now)
    }

    fn after(now: &Group, before: &Group, is_decided: bool) -> Voters {
        let ((at, now), (before_at, before)) = (now.clone(), before.clone());
        Voters { now, before, wanted: Vec::new(), at, before_at, is_decided }
    }

    #[test]
    fn a_group_follows_one_that_it_meets() {
        assert_eq!(disjoint(&voters(&[&[0, 1, 2]], &[&[0, 1, 2]], &[])), None);
        assert_eq!(disjoint(&voters(&[&[0, 1, 2], &[2, 3, 4]], &[&[0, 1, 2]], &[])), None);
        assert_eq!(disjoint(&voters(&[&[2, 3, 4]], &[&[0, 1, 2], &[2, 3, 4]], &[])), None);
        assert!(disjoint(&voters(&[&[2, 3, 4]], &[&[0, 1, 2]], &[])).is_some());
        assert!(disjoint(&voters(&[&[0, 1, 3]], &[&[0, 1, 2]], &[])).is_some());
    }

    #[test]
    fn a_change_under_way_is_not_settled() {
        assert!(settled(&voters(&[&[0, 1]], &[&[0, 1]], &[])) && settled(&voters(&[&[0, 1]], &[&[0, 1]], &[0, 1])));
        assert!(!settled(&voters(&[&[0, 1]], &[&[0, 1]], &[0, 2])));
        assert!(!settled(&voters(&[&[0, 1], &[0, 2]], &[&[0, 1]], &[0, 2])));
    }

    #[test]
    fn groups_of_two_nodes_that_do_not_meet_are_seen() {
        let partition = PartitionId::default();
        let (founded, joint) = (group(0, &[&[0, 1, 2]]), group(5, &[&[0, 1, 2], &[2, 3, 4]]));
        let mut groups = Groups::default();
        let mut is_wrong = |now: &Group, before: &Group| groups.observe(partition, &after(now, before, true)).is_some();
        assert!(!is_wrong(&joint, &founded));
        assert!(is_wrong(&group(5, &[&[0, 1, 2], &[0, 3, 4]]), &founded), "two at one place");
        assert!(is_wrong(&group(9, &[&[3, 4, 5]]), &founded), "another one is before it");
        assert!(is_wrong(&group(3, &[&[7, 8]]), &founded), "it meets neither of its neighbours");
        assert!(!is_wrong(&group(9, &[&[2, 3, 4]]), &joint));
        // What may be cut off again counts for nothing.
        assert_eq!(groups.observe(partition, &after(&group(9, &[&[0, 1, 2]]), &joint, false)), None);
    }

    /// Of three one may lose its memory; not any more when they are about to become two.
    #[test]
    fn what_a_group_is_about_to_become_has_to_bear_it_too() {
        let partition = PartitionId::default();
        let (three, joint, two) = (group(0, &[&[0, 1, 2]]), group(5, &[&[0, 1, 2], &[0, 1]]), group(6, &[&[0, 1]]));
        let mut groups = Groups::default();
        assert_eq!(groups.observe(partition, &after(&three, &three, true)), None);
        let bears = |groups: &Groups| [0, 1, 2].map(|lost| groups.bear(|id| id == NodeId(lost)));
        assert_eq!(bears(&groups), [true; 3]);
        assert_eq!(groups.observe(partition, &after(&joint, &three, false)), None);
        assert_eq!(bears(&groups), [false, false, true]);
        // It comes to nothing: something else is decided behind it.
        assert_eq!(groups.observe(partition, &after(&group(7, &[&[0, 1, 2]]), &three, true)), None);
        assert_eq!(bears(&groups), [true; 3]);
        assert_eq!(groups.observe(partition, &after(&two, &joint, false)), None, "somebody is behind");
        assert_eq!(bears(&groups), [true; 3]);
    }

    #[test]
    fn a_vote_of_one_that_was_removed_is_seen() {
        let partition = PartitionId::default();
        let (founded, joint) = (group(0, &[&[0, 1, 2]]), group(5, &[&[0, 1, 2], &[0, 1, 3]]));
        let (alone, again) = (group(6, &[&[0, 1, 3]]), group(9, &[&[0, 1, 3], &[1, 2, 3]]));
        let mut groups = Groups::default();
        assert_eq!(groups.observe(partition, &after(&joint, &founded, true)), None);
        let mut too_soon = Groups { chains: groups.chains.clone(), ..Groups::default() };
        assert!(too_soon.remove(NodeId(2), &[partition]).is_some());
        assert_eq!(groups.observe(partition, &after(&alone, &joint, true)), None);
        assert_eq!(groups.remove(NodeId(2), &[partition]), None);
        assert_eq!(groups.observe(partition, &after(&joint, &founded, true)), None, "somebody is behind");
        assert!(groups.observe(partition, &after(&again, &alone, true)).is_some());
    }

    #[test]
    fn a_group_of_two_bears_no_loss() {
        let (founded, joint) = (group(0, &[&[0, 1, 2]]), group(5, &[&[0, 1, 2], &[1, 2]]));
        let mut groups = Groups::default();
        assert_eq!(groups.observe(PartitionId::default(), &after(&founded, &founded, true)), None);
        assert!(groups.bear(|id| id == NodeId(1)) && !groups.bear(|id| id.0 < 2) && groups.bear(|id| id.0 > 2));
        assert_eq!(groups.observe(PartitionId::default(), &after(&joint, &founded, true)), None);
        assert!(!groups.bear(|id| id == NodeId(1)) && groups.bear(|id| id == NodeId(0)));
    }

    #[test]
    fn a_vote_of_one_without_the_log_is_seen() {
        let founded = group(0, &[&[0, 1, 2]]);
        let joint = after(&group(5000, &[&[0, 1, 2], &[1, 2, 3]]), &founded, false);
        let far = |third: u64| move |id: NodeId| Position(if id == NodeId(3) { third } else { 0 });
        assert_eq!(too_soon(&joint, far(4200)), None);
        assert!(too_soon(&joint, far(3000)).is_some());
        assert_eq!(too_soon(&after(&group(9000, &[&[0, 1, 2]]), &founded, false), far(0)), None, "nobody is new");
    }
}
