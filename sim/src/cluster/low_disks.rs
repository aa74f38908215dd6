//! Disks with little room: they sink below the low mark, some fill up, and there is room again.
//!
//! What a node takes meanwhile is judged by [`rooms`](crate::checkers::rooms).

use base::{BucketId, NodeId, PartitionId, Rng};

use super::Cluster;
use crate::chaos::MS;
use crate::door::Door;
use crate::events::Event;
use crate::process::{Happening, name_of};

const DEFAULT_PARTITION: PartitionId = PartitionId { bucket: BucketId(0), index: 0 };

/// Names of what is counted here.
pub(crate) const PROBES: [&str; 4] = [MOST_LOW, LOW_FILLED, LOW_AT_START, REFUSED];
const MOST_LOW: &str = "sim: the disks of a majority are below their low marks";
const LOW_FILLED: &str = "sim: a disk below its low mark has filled up";
const LOW_AT_START: &str = "sim: a node was started on a disk below its low mark";
const REFUSED: &str = "sim: a command refused as a disk has too little room";

impl<N: Door> Cluster<N> {
    /// One disk sinks below its low mark, or those of more nodes at once. Some fill up, and empty to below the mark before there is enough again.
    pub(super) fn take_room(&mut self, node: NodeId, duration: u64, rng: &mut Rng) -> bool {
        let now = self.now;
        let members: Vec<NodeId> = self.members().collect();
        let count = match rng.below(4) {
            0 => members.len(),
            1 => members.len() / 2 + 1,
            _ => 1,
        };
        let first = members.iter().position(|member| *member == node).unwrap_or_default();
        for low in members.iter().copied().cycle().skip(first).take(count) {
            let (lasts, fills) = (duration + rng.below(500 * MS), rng.chance(1, 3));
            self.machine(low).low_until = now + lasts;
            self.tell_room(low);
            self.queue.push(now + lasts, Event::Room(low));
            if fills {
                self.queue.push(now + lasts / 3, Event::DiskFills(low));
                self.queue.push(now + lasts * 2 / 3, Event::RoomAgain(low));
            }
            self.trace.event(now, [30, u64::from(low.0), lasts, u64::from(fills)], || {
                format!("the disk of {} is below its low mark for {} ms", name_of(low), lasts / MS)
            });
        }
        if count * 2 > members.len() {
            *self.probes.entry(MOST_LOW).or_default() += 1;
        }
        true
    }

    /// A node hears how much room its disk has: with a change, and when it begins.
    pub(super) fn tell_room(&mut self, node: NodeId) {
        if self.record.rooms.is_watched {
            let is_low = self.machines[usize::from(node.0)].low_until > self.now;
            self.give(node, Happening::DiskLow(is_low));
        }
    }

    /// The same, to a process that has just begun.
    pub(super) fn tell_room_at_start(&mut self, node: NodeId) {
        if self.machines[usize::from(node.0)].low_until > self.now {
            *self.probes.entry(LOW_AT_START).or_default() += 1;
            self.tell_room(node);
        }
    }

    pub(super) fn fill_disk(&mut self, node: NodeId) {
        let is_low = self.machines[usize::from(node.0)].low_until > self.now;
        if is_low && !self.healed {
            *self.probes.entry(LOW_FILLED).or_default() += 1;
            self.machine(node).disk.set_full(true);
            self.give(node, Happening::DiskFull(true));
        }
    }

    /// A disk that was full has room, if only what it has below its low mark.
    pub(super) fn empty_disk(&mut self, node: NodeId) {
        self.machine(node).disk.set_full(false);
        if self.record.rooms.is_watched {
            self.give(node, Happening::DiskFull(false));
        }
    }

    /// A node has had a turn, or has ended: since when it takes nothing that grows.
    pub(super) fn note_room(&mut self, node: NodeId) {
        if !self.record.rooms.is_watched {
            return;
        }
        let running = self.machines[usize::from(node.0)].running.as_ref();
        // A node without a copy of the keys carries commands to who has one.
        let keeper = running.filter(|running| running.node.progress(DEFAULT_PARTITION).is_some());
        let since = keeper.and_then(|running| running.room.refuses_since);
        self.record.rooms.note(node.0, since, self.now);
    }

    /// Counts what was refused.
    pub(crate) fn count_refused_for_room(&mut self) {
        let count = self.record.rooms.refusals() as u64;
        if count > 0 {
            *self.probes.entry(REFUSED).or_default() += count;
        }
    }
}
