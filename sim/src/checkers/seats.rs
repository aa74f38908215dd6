//! Property: at any epoch of the cluster map each hash slot of a bucket belongs to exactly one group, and those who shall vote in it are in the cluster.
//!
//! 1. The partitions of a bucket have every hash slot once.
//! 2. Nobody shall vote twice in a partition, and nobody that was removed.
//! 3. Of one epoch there is one map: whatever two nodes say under the same epoch of a partition is the same.
//! 4. A number is given once: what has joined under it has one name, and does not come back when it was removed.
//!
//! That a group is one, whoever votes in it meanwhile, says the checker of [`super::voters`].

use std::collections::{BTreeMap, BTreeSet};

use base::limits::HASH_SLOTS;
use base::{BucketId, NodeId, PartitionId};
use node::Placement;

/// What nodes have said so far.
#[derive(Debug, Default)]
pub struct Maps {
    /// By epoch and partition who shall vote; whoever leads first.
    seats: BTreeMap<(u64, PartitionId), Vec<NodeId>>,
    /// By number who has joined under it.
    names: BTreeMap<NodeId, String>,
}

impl Maps {
    /// Takes what a node's council says now. What is wrong with it.
    pub fn observe(&mut self, told: &Placement) -> Option<String> {
        check_slots(told).or_else(|| self.check_seats(told)).or_else(|| self.check_numbers(told))
    }

    /// Somebody has gone on alone, perhaps without the newest maps: other ones may have their numbers. Those of nodes are not given again.
    pub fn begin_anew(&mut self) {
        self.seats.clear();
    }

    fn check_seats(&mut self, told: &Placement) -> Option<String> {
        for placed in &told.partitions {
            let (epoch, partition, seats) = (placed.epoch, placed.partition, &placed.seats);
            let all: BTreeSet<NodeId> = seats.iter().copied().collect();
            if all.is_empty() || all.len() < seats.len() {
                return Some(format!("epoch {epoch}: {seats:?} shall vote in {partition}"));
            }
            if let Some(gone) = seats.iter().find(|id| told.removed.contains(id)) {
                return Some(format!("epoch {epoch}: {gone} shall vote in {partition} ({seats:?}), and was removed"));
            }
            let before = self.seats.entry((epoch, partition)).or_insert_with(|| seats.clone());
            if before != seats {
                return Some(format!("epoch {epoch}: {before:?} and {seats:?} shall vote in {partition}"));
            }
        }
        None
    }

    fn check_numbers(&mut self, told: &Placement) -> Option<String> {
        for (id, name) in &told.joined {
            let before = self.names.entry(*id).or_insert_with(|| name.clone());
            if before != name {
                return Some(format!("{before} and {name} have joined as {id}"));
            }
            if told.removed.contains(id) {
                return Some(format!("{id} was removed, and is there again"));
            }
        }
        None
    }
}

/// The partitions of each bucket, laid side by side.
fn check_slots(told: &Placement) -> Option<String> {
    let mut ends: BTreeMap<BucketId, u16> = BTreeMap::new();
    let mut placed: Vec<_> = told.partitions.iter().filter(|placed| placed.slots.is_some()).collect();
    placed.sort_by_key(|placed| (placed.partition.bucket, placed.slots));
    for (partition, (first, end)) in placed.iter().filter_map(|placed| Some((placed.partition, placed.slots?))) {
        let next = ends.insert(partition.bucket, end).unwrap_or(0);
        if first != next || end <= first {
            return Some(format!("{partition} has the hash slots from {first} to {end} where {next} comes next"));
        }
    }
    let (bucket, end) = ends.into_iter().find(|(_, end)| *end != HASH_SLOTS)?;
    Some(format!("nobody has hash slot {end} of bucket {}", bucket.0))
}

#[cfg(test)]
mod tests {
    use node::Placed;

    use super::*;

    fn placed(index: u16, slots: (u16, u16), seats: &[u16]) -> Placed {
        let partition = PartitionId { bucket: BucketId(1), index };
        Placed { partition, slots: Some(slots), seats: seats.iter().map(|id| NodeId(*id)).collect(), epoch: 0 }
    }

    fn told(epoch: u64, mut partitions: Vec<Placed>) -> Placement {
        partitions.iter_mut().for_each(|placed| placed.epoch = epoch);
        Placement { epoch, partitions, ..Placement::default() }
    }

    #[test]
    fn slots_without_a_group_and_with_two_are_seen() {
        let wrong = |first: (u16, u16), second: (u16, u16)| {
            let partitions = vec![placed(0, first, &[0]), placed(1, second, &[1])];
            Maps::default().observe(&told(1, partitions)).is_some()
        };
        assert!(!wrong((0, 100), (100, HASH_SLOTS)) && !wrong((100, HASH_SLOTS), (0, 100)));
        assert!(wrong((0, 99), (100, HASH_SLOTS)), "a hole");
        assert!(wrong((0, 101), (100, HASH_SLOTS)), "one in two partitions");
        assert!(wrong((0, 100), (100, HASH_SLOTS - 1)) && wrong((1, 100), (100, HASH_SLOTS)), "an end");
        assert!(wrong((0, HASH_SLOTS), (0, HASH_SLOTS)));
    }

    #[test]
    fn two_maps_of_one_epoch_are_seen() {
        let all = |seats: &[u16]| vec![placed(0, (0, HASH_SLOTS), seats)];
        let mut maps = Maps::default();
        assert_eq!(maps.observe(&told(1, all(&[0, 1, 2]))), None);
        assert_eq!(maps.observe(&told(2, all(&[0, 1, 3]))), None);
        assert_eq!(maps.observe(&told(1, all(&[0, 1, 2]))), None, "somebody is behind");
        assert!(maps.observe(&told(2, all(&[0, 1, 2]))).is_some());
        assert!(maps.observe(&told(3, all(&[0, 1, 0]))).is_some());
        assert!(maps.observe(&told(4, all(&[]))).is_some());
        let gone = Placement { removed: vec![NodeId(1)], ..told(5, all(&[0, 1, 2])) };
        assert!(maps.observe(&gone).is_some());
    }

    #[test]
    fn a_number_that_is_given_twice_is_seen() {
        let joined = |name: &str, removed: &[u16]| Placement {
            joined: vec![(NodeId(3), name.to_owned())],
            removed: removed.iter().map(|id| NodeId(*id)).collect(),
            ..Placement::default()
        };
        let mut maps = Maps::default();
        assert_eq!(maps.observe(&joined("n4", &[])), None);
        assert_eq!(maps.observe(&Placement { removed: vec![NodeId(3)], ..Placement::default() }), None);
        assert_eq!(maps.observe(&joined("n4", &[2])), None, "somebody is behind");
        assert!(maps.observe(&joined("n5", &[])).is_some() && maps.observe(&joined("n4", &[3])).is_some());
    }
}
