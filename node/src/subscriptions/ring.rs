//! The newest changes of each partition, in memory: what live subscribers are told, and what others go on from.
//!
//! Every replica derives the same changes with the same revisions, so any of them can go on for a subscriber of another one, as far back as its ring reaches.
//!
//! 1. A ring has every change behind its floor, up to its head: no revision is missing in between. A change that comes with a hole before it begins the ring anew; one that is there already is left out.
//! 2. All rings together have a budget. Past it the ring with the most bytes loses its oldest records: a busy partition takes nothing from a quiet one.

use std::collections::{BTreeMap, VecDeque};

use base::{PartitionId, Revision};
use data::ChangeRecord;

/// Where the budget is used up, one part of so many is freed.
const ROOM_MADE: usize = 64;

/// A change as it is kept.
#[derive(Debug)]
pub(crate) struct Recorded {
    /// The stamp of the entry that made it.
    pub stamp: u64,
    pub record: ChangeRecord,
}

/// The records of one partition.
#[derive(Debug, Default)]
struct Ring {
    /// Everything after this revision is here.
    floor: Revision,
    records: VecDeque<Recorded>,
    bytes: usize,
}

impl Ring {
    fn head(&self) -> Revision {
        Revision(self.floor.0 + self.records.len() as u64)
    }

    fn drop_oldest(&mut self) -> usize {
        let Some(oldest) = self.records.pop_front() else { return 0 };
        self.floor = oldest.record.revision;
        let bytes = oldest.record.bytes();
        self.bytes -= bytes;
        bytes
    }
}

/// A subscriber wants to go on from a place that is not there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Missed {
    /// The changes up to this revision are gone.
    Gone {
        /// The revision behind which everything is there.
        floor: Revision,
    },
    /// The place lies ahead of the partition: it is of another history, or this replica has not come so far yet.
    Ahead,
    /// Nothing is recorded.
    Unrecorded,
}

/// See the file's head.
#[derive(Debug)]
pub(crate) struct Rings {
    rings: BTreeMap<PartitionId, Ring>,
    bytes: usize,
    bytes_max: usize,
    /// Records of rings that are no more: freeing many of them takes longer than a turn may.
    discarded: Vec<VecDeque<Recorded>>,
}

impl Rings {
    pub(crate) fn new(bytes_max: usize) -> Rings {
        Rings { rings: BTreeMap::new(), bytes: 0, bytes_max, discarded: Vec::new() }
    }

    /// Bytes that the records take; never more than the budget once a call is over.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds the changes of one entry, to a partition that had this revision before them. Without any, a partition that has no ring gets one from here on.
    pub(crate) fn push(&mut self, partition: PartitionId, before: Revision, stamp: u64, records: Vec<ChangeRecord>) {
        let ring = self.rings.entry(partition).or_insert_with(|| Ring { floor: before, ..Ring::default() });
        let mut records = records;
        if ring.floor <= before && before < ring.head() {
            // This node was told of them before it had a state of its own, and now its state comes to them.
            let known = ring.head();
            records.retain(|record| record.revision > known);
            if records.is_empty() {
                return;
            }
        } else if ring.head() != before {
            self.bytes -= ring.bytes;
            let Ring { records, .. } = std::mem::replace(ring, Ring { floor: before, ..Ring::default() });
            self.discarded.extend(Some(records).filter(|records| !records.is_empty()));
        }
        for record in records {
            debug_assert_eq!(record.revision, ring.head().next(), "revisions count without gaps");
            let bytes = record.bytes();
            (ring.bytes, self.bytes) = (ring.bytes + bytes, self.bytes + bytes);
            ring.records.push_back(Recorded { stamp, record });
            // One entry may have more than there is room for.
            while ring.bytes > self.bytes_max {
                self.bytes -= ring.drop_oldest();
            }
        }
        if self.bytes > self.bytes_max {
            self.make_room();
        }
    }

    /// Drops records of the largest rings until the budget has some room again, so that this is done once for many changes.
    fn make_room(&mut self) {
        let most = self.bytes_max - self.bytes_max / ROOM_MADE;
        while self.bytes > most {
            let Some(largest) = self.rings.values_mut().max_by_key(|ring| ring.bytes) else { break };
            let least =
                largest.bytes.saturating_sub((self.bytes - most).div_ceil(2).max(self.bytes_max / ROOM_MADE / 8));
            while largest.bytes > least {
                self.bytes -= largest.drop_oldest();
            }
            if largest.records.capacity() > 1024 && largest.records.len() < largest.records.capacity() / 4 {
                largest.records.shrink_to(2 * largest.records.len());
            }
        }
    }

    /// Nothing is recorded of a partition any more: nobody watches, or its state is another one.
    pub(crate) fn forget(&mut self, partition: PartitionId) {
        if let Some(ring) = self.rings.remove(&partition) {
            self.bytes -= ring.bytes;
            self.discarded.extend(Some(ring.records).filter(|records| !records.is_empty()));
        }
    }

    /// What is to be freed elsewhere.
    pub(crate) fn take_discarded(&mut self) -> Vec<VecDeque<Recorded>> {
        std::mem::take(&mut self.discarded)
    }

    /// The records of a partition, and the revision behind which they begin.
    pub(crate) fn kept(&self, partition: PartitionId) -> Option<(Revision, impl Iterator<Item = &Recorded>)> {
        let ring = self.rings.get(&partition)?;
        Some((ring.floor, ring.records.iter()))
    }

    /// Up to which revision the ring of a partition goes.
    pub(crate) fn head(&self, partition: PartitionId) -> Option<Revision> {
        self.rings.get(&partition).map(Ring::head)
    }

    /// The changes of a partition after a revision, the oldest first.
    ///
    /// # Errors
    /// See [`Missed`]. It is looked at each time that somebody goes on, not only when it begins: the floor rises meanwhile.
    pub(crate) fn after(
        &self,
        partition: PartitionId,
        revision: Revision,
    ) -> Result<impl Iterator<Item = &Recorded>, Missed> {
        let ring = self.rings.get(&partition).ok_or(Missed::Unrecorded)?;
        if revision < ring.floor {
            return Err(Missed::Gone { floor: ring.floor });
        }
        if revision > ring.head() {
            return Err(Missed::Ahead);
        }
        Ok(ring.records.range((revision.0 - ring.floor.0) as usize..))
    }
}

#[cfg(test)]
mod tests {
    use base::BucketId;
    use data::{After, Blob, ChangeKind};

    use super::*;

    const BUSY: PartitionId = PartitionId { bucket: BucketId(0), index: 0 };
    const QUIET: PartitionId = PartitionId { bucket: BucketId(1), index: 0 };

    fn record(revision: u64) -> ChangeRecord {
        ChangeRecord {
            revision: Revision(revision),
            kind: ChangeKind::Set,
            event: Blob::new(b"set"),
            key: Blob::new(b"k"),
            is_new: false,
            deadline: None,
            after: After::String(Blob::new(&[b'v'; 100])),
        }
    }

    fn after(rings: &Rings, partition: PartitionId, revision: u64) -> Result<Vec<u64>, Missed> {
        rings.after(partition, Revision(revision)).map(|records| records.map(|it| it.record.revision.0).collect())
    }

    #[test]
    fn what_follows_is_there_without_a_hole() {
        let mut rings = Rings::new(1 << 20);
        assert_eq!(after(&rings, BUSY, 0), Err(Missed::Unrecorded));
        rings.push(BUSY, Revision(6), 0, vec![record(7), record(8)]);
        rings.push(BUSY, Revision(8), 0, vec![record(9)]);
        assert_eq!(after(&rings, BUSY, 6), Ok(vec![7, 8, 9]));
        assert_eq!(after(&rings, BUSY, 8), Ok(vec![9]));
        assert_eq!(after(&rings, BUSY, 9), Ok(vec![]));
        assert_eq!(after(&rings, BUSY, 5), Err(Missed::Gone { floor: Revision(6) }));
        assert_eq!(after(&rings, BUSY, 10), Err(Missed::Ahead));
        // Some of it was told before.
        rings.push(BUSY, Revision(7), 0, vec![record(8), record(9)]);
        rings.push(BUSY, Revision(8), 0, vec![record(9)]);
        assert_eq!(after(&rings, BUSY, 6), Ok(vec![7, 8, 9]));
        // Something came that was not recorded.
        rings.push(BUSY, Revision(11), 0, vec![record(12)]);
        assert_eq!(after(&rings, BUSY, 9), Err(Missed::Gone { floor: Revision(11) }));
        assert_eq!((after(&rings, BUSY, 11), rings.head(BUSY)), (Ok(vec![12]), Some(Revision(12))));
        rings.forget(BUSY);
        assert_eq!((rings.bytes(), rings.head(BUSY)), (0, None));
    }

    #[test]
    fn a_busy_partition_takes_nothing_from_a_quiet_one() {
        let mut rings = Rings::new(10 * record(1).bytes());
        rings.push(QUIET, Revision(0), 0, vec![record(1), record(2)]);
        for revision in 0..100 {
            rings.push(BUSY, Revision(revision), 0, vec![record(revision + 1)]);
            assert!(rings.bytes() <= 10 * record(1).bytes());
        }
        assert_eq!(after(&rings, QUIET, 0), Ok(vec![1, 2]));
        assert_eq!(after(&rings, BUSY, 0), Err(Missed::Gone { floor: Revision(92) }));
        assert_eq!(after(&rings, BUSY, 92).map(|all| all.len()), Ok(8));
        // One record alone may be larger than the budget: nothing is kept then, and nothing is forgotten silently.
        let mut small = Rings::new(10);
        small.push(BUSY, Revision(0), 0, vec![record(1)]);
        assert_eq!((small.bytes(), after(&small, BUSY, 0)), (0, Err(Missed::Gone { floor: Revision(1) })));
    }
}
