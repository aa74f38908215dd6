//! What one connection has on its way to one partition. Commands for the same partition keep their order; those for different ones are about different
//! keys, and only their replies keep it (see [`crate::session`]).

use std::collections::VecDeque;

use base::limits::READS_BEFORE_WRITE_MAX;
use base::{PartitionId, Position, Revision, Time, WallTime};

use crate::router::ReadKind;

/// Bytes of read commands that a lane keeps room for.
const READ_BYTES_KEPT: usize = 64 * 1024;

/// One read that waits; its words are in the lane's `read_bytes`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    pub slot: u64,
    pub kind: ReadKind,
    /// The client's command, as in the table.
    pub command: &'static str,
    pub start: usize,
    pub end: usize,
    /// It must see this write of this node (0: none).
    pub after: u64,
    /// The connection wants to be told when what it reads changes.
    pub tracks: bool,
    /// Not linearizable: served by this replica without asking anybody, once its state has come to this revision.
    pub floor: Option<Revision>,
    /// When its command was taken.
    pub arrived: Time,
    pub deadline: Time,
}

/// The lanes of one connection, all to partitions of the bucket that it is aimed at; but for `FLUSHALL`, which is the only command on its way then.
///
/// Each command asks several times for its lane, and with many connections and partitions none of them is in the processor's cache: a lane is found by its
/// partition's number, as each step of a search would be another wait for memory.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    /// In the order in which they were opened.
    list: Vec<Lane>,
    /// By the partition's number: the place in `list`, plus one (0: there is none).
    places: Vec<u16>,
    /// Some are to partitions of other buckets.
    strange: bool,
}

impl Lanes {
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Lane> {
        self.list.iter()
    }

    pub(crate) fn clear(&mut self) {
        self.list.clear();
        self.places.clear();
        self.strange = false;
    }

    fn place_of(&self, partition: PartitionId) -> Option<usize> {
        let place = self.places.get(usize::from(partition.index)).and_then(|place| usize::from(*place).checked_sub(1));
        if !self.strange || place.is_some_and(|place| self.list[place].partition == partition) {
            return place;
        }
        self.list.iter().position(|lane| lane.partition == partition)
    }

    pub(crate) fn get(&self, partition: PartitionId) -> Option<&Lane> {
        self.list.get(self.place_of(partition)?).filter(|lane| lane.partition == partition)
    }

    pub(crate) fn get_mut(&mut self, partition: PartitionId) -> Option<&mut Lane> {
        let place = self.place_of(partition)?;
        self.list.get_mut(place).filter(|lane| lane.partition == partition)
    }

    /// The lane to a partition of another bucket than the others are to.
    pub(crate) fn open_strange(&mut self, partition: PartitionId) -> &mut Lane {
        self.strange = true;
        let place = self.place_of(partition).unwrap_or_else(|| {
            self.list.push(Lane::new(partition));
            self.list.len() - 1
        });
        &mut self.list[place]
    }

    /// The lane to a partition of the bucket that all others are to.
    pub(crate) fn open(&mut self, partition: PartitionId) -> &mut Lane {
        let place = self.place_of(partition).unwrap_or_else(|| {
            let index = usize::from(partition.index);
            if self.places.len() <= index {
                self.places.resize(index + 1, 0);
            }
            self.list.push(Lane::new(partition));
            // There are no more partitions than hash slots.
            self.places[index] = self.list.len() as u16;
            self.list.len() - 1
        });
        debug_assert_eq!(self.list[place].partition, partition, "commands on their way are all for one bucket");
        &mut self.list[place]
    }
}

/// See the file's head.
#[derive(Debug)]
pub(crate) struct Lane {
    pub partition: PartitionId,
    /// The number of the last write, for reads that must see it.
    pub last_write: u64,
    /// Where the last write was applied, for WAIT.
    pub last_position: Position,
    /// What the connection has seen of the partition. Here and not in its [`crate::levels::Levels`] until it turns to another bucket, as whoever answers has the
    /// lane at hand.
    pub seen: Revision,
    /// Reads in the order of their slots.
    pub reads: VecDeque<Read>,
    pub read_bytes: Vec<u8>,
    /// How many of them are writes that look first.
    pub looks: usize,
    /// The connection is in the batch of reads that is being gathered.
    pub gathered: bool,
    /// The connection is in the router's list of those that wait for a write.
    pub parked: bool,
    /// The connection is in the router's list of those with reads that need no confirmation.
    pub weak: bool,
    /// Reads in slots below this are confirmed, by this clock of the leader.
    pub confirmed: u64,
    pub clock: WallTime,
}

impl Lane {
    pub(crate) fn new(partition: PartitionId) -> Lane {
        Lane {
            partition,
            last_write: 0,
            last_position: Position(0),
            seen: Revision(0),
            reads: VecDeque::new(),
            read_bytes: Vec::new(),
            looks: 0,
            gathered: false,
            parked: false,
            weak: false,
            confirmed: 0,
            clock: WallTime(0),
        }
    }

    /// Whether so many reads wait that a write has to wait for them.
    pub(crate) fn has_many_reads(&self) -> bool {
        self.reads.len() >= READS_BEFORE_WRITE_MAX
    }

    /// The words of a read of this lane.
    pub(crate) fn words_of(&self, read: &Read) -> &[u8] {
        self.read_bytes.get(read.start..read.end).unwrap_or_default()
    }

    /// Takes out the first read, if it is such a one.
    pub(crate) fn pop_read_if(&mut self, wanted: impl FnOnce(&Read) -> bool) -> Option<Read> {
        let read = self.reads.front().copied().filter(wanted)?;
        self.reads.pop_front();
        self.looks -= usize::from(read.kind == ReadKind::Look);
        match self.reads.front().map(|read| read.start) {
            None => {
                self.read_bytes.clear();
                self.read_bytes.shrink_to(READ_BYTES_KEPT);
            }
            // A client that never lets the queue run empty: drop the served half.
            Some(start) if start > READ_BYTES_KEPT && start * 2 > self.read_bytes.len() => {
                self.read_bytes.drain(..start);
                for read in &mut self.reads {
                    read.start -= start;
                    read.end -= start;
                }
            }
            Some(_) => {}
        }
        Some(read)
    }

    /// Takes out all writes that look first. `write` makes a write of one, given its bytes and whether reads stand before it, and returns its number; reads
    /// behind it have to see it.
    pub(crate) fn take_looks(&mut self, mut write: impl FnMut(&Read, &[u8], bool) -> Option<u64>) {
        let mut kept: VecDeque<Read> = VecDeque::with_capacity(self.reads.len());
        let mut last = 0;
        for mut read in std::mem::take(&mut self.reads) {
            if read.kind == ReadKind::Look {
                last = write(&read, &self.read_bytes[read.start..read.end], !kept.is_empty()).unwrap_or(last);
            } else {
                read.after = read.after.max(last);
                kept.push_back(read);
            }
        }
        self.last_write = self.last_write.max(last);
        self.looks = 0;
        self.reads = kept;
        if self.reads.is_empty() {
            self.read_bytes.clear();
            self.read_bytes.shrink_to(READ_BYTES_KEPT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::BucketId;

    #[test]
    fn lanes_are_found_by_the_number_of_their_partition() {
        let of = |bucket, index| PartitionId { bucket: BucketId(bucket), index };
        let mut lanes = Lanes::default();
        for index in [63, 0, 7] {
            lanes.open(of(1, index)).last_write = u64::from(index);
        }
        lanes.open(of(1, 7)).last_write += 1;
        assert_eq!(lanes.len(), 3);
        assert_eq!([63, 0, 7].map(|index| lanes.get(of(1, index)).unwrap().last_write), [63, 0, 8]);
        lanes.open_strange(of(3, 7)).last_write = 5;
        lanes.open_strange(of(4, 2)).last_write = 6;
        lanes.open_strange(of(3, 7)).last_write += 1;
        assert_eq!(lanes.len(), 5);
        assert_eq!([of(3, 7), of(4, 2), of(1, 7)].map(|id| lanes.get(id).unwrap().last_write), [6, 6, 8]);
        lanes.open(of(1, 2)).last_write = 9;
        assert_eq!([of(1, 2), of(4, 2)].map(|id| lanes.get(id).unwrap().last_write), [9, 6]);
        for absent in [of(1, 1), of(1, 64), of(2, 7)] {
            assert!(lanes.get(absent).is_none() && lanes.get_mut(absent).is_none());
        }
        lanes.clear();
        assert!(lanes.get(of(1, 7)).is_none());
        assert_eq!(lanes.open(of(2, 7)).last_write, 0);
    }
}
