//! Which nodes vote in which partition, and who leads when all is well. Every node computes the same from the council's registry.
//!
//! Each partition has an order of all nodes, in which it prefers them. The first is next in turn from partition to partition, so leaders are
//! spread evenly; the others follow in steps whose length changes from round to round, so that what a node gives up is spread over all others,
//! and not put on its neighbour. A node that is drained is passed over: nothing moves but what it had.

use base::{NodeId, PartitionId};

use crate::council::COUNCIL;

/// All nodes in the order in which a partition prefers them.
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

/// Who of these votes in a partition, sorted, and who is to lead it: of those that serve the first, and of the others only as many as are
/// missing.
pub(crate) fn voters(
    partition: PartitionId,
    nodes: &[NodeId],
    serves: impl Fn(NodeId) -> bool,
    count: usize,
) -> (Vec<NodeId>, NodeId) {
    let (serving, others): (Vec<NodeId>, Vec<NodeId>) = order(partition, nodes).into_iter().partition(|id| serves(*id));
    let all = || serving.iter().chain(&others).copied();
    let mut voters: Vec<NodeId> = all().take(count.max(1)).collect();
    let preferred = voters.first().copied().unwrap_or_default();
    voters.sort_unstable();
    (voters, preferred)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use base::BucketId;

    use super::*;

    fn nodes(count: u16) -> Vec<NodeId> {
        (0..count).map(NodeId).collect()
    }

    fn partitions() -> impl Iterator<Item = PartitionId> {
        (0..64).map(|index| PartitionId { bucket: BucketId(3), index })
    }

    /// How many votes, and how many leaderships, each node has.
    fn spread(count: u16, votes: usize, drained: &[u16]) -> (BTreeMap<NodeId, usize>, BTreeMap<NodeId, usize>) {
        let (mut voting, mut leading) = (BTreeMap::new(), BTreeMap::new());
        for partition in partitions() {
            let (voters, preferred) = voters(partition, &nodes(count), |id| !drained.contains(&id.0), votes);
            assert_eq!(voters.len(), votes.min(usize::from(count)));
            voters.into_iter().for_each(|id| *voting.entry(id).or_default() += 1);
            *leading.entry(preferred).or_default() += 1;
        }
        (voting, leading)
    }

    fn range(spread: &BTreeMap<NodeId, usize>) -> (usize, usize) {
        (spread.values().copied().min().unwrap(), spread.values().copied().max().unwrap())
    }

    #[test]
    fn votes_and_leaders_are_spread_evenly() {
        for count in 3..=9 {
            let (voting, leading) = spread(count, 3, &[]);
            let (ideal_votes, ideal_leads) = (64 * 3 / usize::from(count), 64 / usize::from(count));
            let (least, most) = range(&voting);
            assert!(least + 4 >= ideal_votes && most <= ideal_votes + 5, "{count} nodes: {voting:?}");
            let (least, most) = range(&leading);
            assert!(least >= ideal_leads && most <= ideal_leads + 1, "{count} nodes: {leading:?}");
        }
    }

    #[test]
    fn what_a_drained_node_had_is_spread_over_the_others_and_nothing_else_moves() {
        for count in [4, 5, 7] {
            let (_, leading) = spread(count, 3, &[1]);
            let (least, most) = range(&leading);
            let ideal = 64 / usize::from(count - 1);
            assert!(
                !leading.contains_key(&NodeId(1)) && least + 5 >= ideal && most <= ideal + 5,
                "{count}: {leading:?}"
            );
            for partition in partitions() {
                let with = |drained: Option<NodeId>| voters(partition, &nodes(count), |id| Some(id) != drained, 3);
                let ((before, led), (after, leads)) = (with(None), with(Some(NodeId(1))));
                let stay = before.iter().filter(|id| after.contains(id)).count();
                assert_eq!(stay, if before.contains(&NodeId(1)) { 2 } else { 3 });
                assert!(led == leads || led == NodeId(1));
            }
        }
    }

    #[test]
    fn who_does_not_serve_votes_where_too_few_are_left() {
        let (voting, leading) = spread(3, 3, &[0]);
        assert_eq!((voting.len(), leading.contains_key(&NodeId(0))), (3, false));
        assert_eq!(voters(COUNCIL, &nodes(1), |_| false, 3), (nodes(1), NodeId(0)));
    }
}
