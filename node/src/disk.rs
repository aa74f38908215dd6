//! What a node takes while its disk, or that of another, has too little room.
//!
//! There are two marks, and who owns the disk says on which side of them it is ([`DiskRoom`]):
//! - below the first one nothing is taken that may grow; what is left is kept for what frees room (`data::room` says what that is), for the removal of what
//!   has expired, for flushes and for compactions. So a disk that has filled can be emptied by commands;
//! - below the second one nothing is taken: what was promised to be kept could not be.
//!
//! It is decided before a write goes to the log, by the node that is asked, from its own disk and from what the others say in their pings. What is decided
//! already is applied everywhere, whatever the disks: replicas have to stay equal. A follower that has no room at all does not persist what it
//! gets, and so does not count for it; it goes on from there when there is room.

use std::time::Duration;

use base::limits::CLOSE_ENTRIES;
use base::{NodeId, PartitionId};
use data::{Failure, Spec};
use wire::ArgumentsRef;

use crate::bucket::BucketKind;
use crate::door::{DiskRoom, Level, Planted};
use crate::node::{Node, place_of};
use crate::words::Words;

/// So many bytes of room there have to be for each that is held in memory and not in the store: for the journal, twice for the store, and one for chance.
const ROOM_FOR_ONE: u64 = 4;
/// So much may be held however little room there is: a value of the largest size, and more.
const HELD_MIN: u64 = 64 << 20;
/// With too little room as few bytes of changes are flushed at once,
const FLUSHED_WHEN_LOW: u64 = 4 << 10;
/// and fewer after this time.
const FLUSHED_WHEN_LOW_AFTER: Duration = Duration::from_secs(1);

impl Node {
    /// There is more room on this node's disk, or less.
    pub(crate) fn on_disk(&mut self, room: DiskRoom) {
        let before = std::mem::replace(&mut self.disk, room);
        self.hold_less(room);
        if before.name() == room.name() {
            return;
        }
        // It matters to all of them.
        self.groups.iter_mut().for_each(drop);
        let (level, text) = match room {
            DiskRoom::Enough { .. } => (Level::Info, "the disk has room again: writes go on"),
            DiskRoom::Low { .. } => {
                (Level::Error, "the disk has too little room: only what frees room is taken; reads go on")
            }
            DiskRoom::Full { .. } => {
                (Level::Error, "the disk is full: no writes are taken until there is room; reads go on")
            }
        };
        self.probe("node: disk full");
        self.event(level, text);
    }

    /// Bytes that the store does not have yet are in the journal, and on their way to it they take room twice: in the store's own journal, and in a table. As
    /// many as there is room for are held, and then the store is waited for, as always when it does not keep up; so the disk does not fill by what was
    /// taken before. With too little room whatever is removed goes to the store at once: until then it takes room there, and the log of it does here.
    fn hold_less(&mut self, room: DiskRoom) {
        let usual = *self.usual_snapshots.get_or_insert((self.config.snapshots, self.config.log_bytes_per_snapshot));
        let (snapshots, log_bytes) = (&mut self.config.snapshots, &mut self.config.log_bytes_per_snapshot);
        (*snapshots, *log_bytes) = usual;
        match room {
            DiskRoom::Enough { spare } => {
                let held = (spare / ROOM_FOR_ONE).max(HELD_MIN);
                snapshots.unflushed_bytes_max = held.min(usual.0.unflushed_bytes_max);
                snapshots.flush_bytes = (held / 4).min(usual.0.flush_bytes);
                *log_bytes = (held / 4).min(usual.1);
            }
            DiskRoom::Low { .. } | DiskRoom::Full { .. } => {
                snapshots.unflushed_bytes_max = HELD_MIN.min(usual.0.unflushed_bytes_max);
                snapshots.flush_bytes = FLUSHED_WHEN_LOW.min(usual.0.flush_bytes);
                snapshots.flush_after = FLUSHED_WHEN_LOW_AFTER.min(usual.0.flush_after);
                *log_bytes = FLUSHED_WHEN_LOW.min(usual.1);
            }
        }
    }

    /// How much room a node's disk has, as far as this one knows.
    pub(crate) fn room_of(&self, node: NodeId) -> DiskRoom {
        if node == self.config.me {
            return self.disk;
        }
        self.news.get(&node).map_or(DiskRoom::default(), |ping| ping.disk.room())
    }

    /// Whether a command for a partition may make its state larger: asked only where that matters.
    pub(crate) fn needs_room(&self, partition: PartitionId, spec: &Spec, words: ArgumentsRef<'_>) -> bool {
        self.some_disk_is_low() && {
            let words = Words::new(words);
            self.words_need_room(partition, spec, words.as_slice())
        }
    }

    /// The same, of words that are there already.
    pub(crate) fn words_need_room(&self, partition: PartitionId, spec: &Spec, words: &[&[u8]]) -> bool {
        let group = place_of(&self.groups, partition).map(|g| &self.groups[g]);
        let tree = group.filter(|group| group.elsewhere.is_none()).map(|group| &group.partition.tree);
        self.some_disk_is_low() && data::room::needs_room(spec, words, tree)
    }

    fn some_disk_is_low(&self) -> bool {
        self.disk.is_low() || self.news.values().any(|ping| ping.disk.room().is_low())
    }

    /// Why a write cannot be taken for want of room, if so. `grows`: it may make the state larger.
    pub(crate) fn refusal_of_disks(&self, g: usize, grows: bool) -> Option<Failure> {
        if !self.some_disk_is_low() || self.config.planted == Some(Planted::LowDiskGrows) {
            return None;
        }
        let (me, group) = (self.config.me, &self.groups[g]);
        let leader = self.leader_of(g).map(|(leader, _)| leader);
        // A node without the partition only carries the command. One that follows, or may lead next, has to keep and to apply what it asks for.
        let own = group.elsewhere.is_none().then_some(me);
        let mut keepers = own.into_iter().chain(leader);
        if let Some(node) = keepers.clone().find(|node| self.room_of(*node).is_full()) {
            return Some(self.too_little_room(node));
        }
        let grows = grows || self.config.planted == Some(Planted::LowDiskFreesNothing);
        if !grows || group.bucket.settings.kind == BucketKind::Ephemeral {
            return None;
        }
        if let Some(node) = keepers.find(|node| self.room_of(*node).is_low()) {
            return Some(self.too_little_room(node));
        }
        // If most of those who vote ran full nothing could be decided any more, not even what frees room.
        let voters = self.voters_of(g);
        let mut low = voters.iter().filter(|node| self.room_of(**node).is_low());
        let count = low.clone().count();
        if count > 0 && (voters.len() - count) * 2 <= voters.len() {
            let names: Vec<String> = low.by_ref().map(|node| self.name_of(*node)).collect();
            return Some(Failure::built(
                format!(
                    "MISCONF the disks of {} have too little room, and without them there is no majority: the command was not done, as it may need more. \
                     Free room by DEL, UNLINK, FLUSHDB or dictum bucket drop, which are taken, or enlarge the disks; writes go on by themselves",
                    names.join(" and ")
                )
                .as_bytes(),
            ));
        }
        None
    }

    /// Why what has expired cannot be removed now, if so: a read that meets it can be answered neither as if it were there nor as if it were gone.
    pub(crate) fn why_nothing_expires(&self, g: usize) -> Option<Failure> {
        let (leader, _) = self.leader_of(g)?;
        self.room_of(leader).is_full().then(|| self.too_little_room(leader))
    }

    fn too_little_room(&self, node: NodeId) -> Failure {
        let (room, name) = (self.room_of(node), self.name_of(node));
        let much = match room.missing().div_ceil(1 << 20) {
            0 => "room".to_owned(),
            missing => format!("{missing} MiB"),
        };
        let role = if node == self.config.me { "this node" } else { "the leader" };
        let text = if room.is_full() {
            format!(
                "MISCONF the disk of {name}, {role}, is full: the command was not done. Free {much} on that disk or enlarge it; writes go on by themselves. \
                 Until then use another node"
            )
        } else {
            format!(
                "MISCONF the disk of {name}, {role}, has too little room: the command was not done, as it may need more. Free {much} by DEL, UNLINK, \
                 FLUSHDB or dictum bucket drop, which are taken, or enlarge the disk; writes go on by themselves"
            )
        };
        Failure::built(text.as_bytes())
    }

    /// Whether this node, which may lead a partition, should lead it no longer as its disk has too little room, and another one has more.
    pub(crate) fn escapes_its_disk(&self, g: usize) -> bool {
        match self.disk {
            DiskRoom::Enough { .. } => false,
            DiskRoom::Full { .. } => true,
            DiskRoom::Low { .. } => {
                let replica = &self.groups[g].partition.replica;
                let (last, members) = (replica.log().last(), replica.members());
                replica.copies().iter().any(|(id, matched)| {
                    let is_up = self.trusted.get(usize::from(id.0)).is_some_and(|trusted| *trusted);
                    is_up && members.keeps(*id) && !self.room_of(*id).is_low() && matched.0 + CLOSE_ENTRIES >= last.0
                })
            }
        }
    }
}
