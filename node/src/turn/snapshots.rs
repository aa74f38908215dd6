//! Snapshots of the state: when one is written, and what follows once it is on disk.

use base::{PartitionId, Position};
use bytes::Bytes;
use paxos::Input as Step;
use std::time::Duration;

use crate::Image;
use crate::door::{Level, Outbox, Planted, SnapshotContent, SnapshotJob};
use crate::group::{Group, Saving};
use crate::image::RestoredState;
use crate::node::{Node, place_of};

/// How long after a failed snapshot the next is tried.
const SNAPSHOT_AGAIN_AFTER: Duration = Duration::from_secs(5);

fn in_file(position: Position, image: Image) -> SnapshotContent {
    SnapshotContent::File { header: Bytes::copy_from_slice(&position.0.to_le_bytes()), image: Box::new(image) }
}

impl Node {
    /// Begins the next snapshot that is due, if none is being written. The groups take turns.
    pub(super) fn consider_snapshot(&mut self, out: &mut Outbox) {
        if out.save_snapshot.is_some() || self.stats.snapshot_running {
            return;
        }
        if let Some((partition, job)) = self.retired.pop() {
            let content = SnapshotContent::Store(Box::new(job));
            self.stats.snapshot_running = true;
            out.save_snapshot = Some(SnapshotJob { partition, position: Position(0), content });
            return;
        }
        let count = self.groups.len();
        let from = self.saved_last + 1;
        for g in (from..from + count).map(|place| place % count) {
            if !self.groups[g].partition.durable {
                self.cut_in_memory(g);
                continue;
            }
            let job = match self.groups[g].saving {
                Some(_) => self.save_received(g),
                None => self.save_own(g),
            };
            if job.is_some() {
                self.saved_last = g;
                self.stats.snapshot_running = true;
                out.save_snapshot = job;
                if self.config.planted == Some(Planted::CutBeforeStored)
                    && let Some(Saving { position, install: None }) = self.groups[g].saving
                {
                    let keep = self.config.log_entries_kept;
                    self.step_replica(g, Step::SnapshotTaken { position, keep });
                    self.discard_journal(out);
                }
                return;
            }
        }
    }

    /// A received state is saved as soon as no other snapshot is being written.
    fn save_received(&mut self, g: usize) -> Option<SnapshotJob> {
        let Group { partition, saving, .. } = &mut self.groups[g];
        let state = saving.as_mut()?.install.as_mut()?;
        let content = match partition.begin_flush_of(state) {
            Some(flush) => SnapshotContent::Store(Box::new(flush)),
            None => in_file(state.position, Image::new(state.position, state.ballot, &state.origins, &state.tree)),
        };
        Some(SnapshotJob { partition: partition.id, position: state.position, content })
    }

    fn save_own(&mut self, g: usize) -> Option<SnapshotJob> {
        let Group { partition, saving, next_snapshot, .. } = &mut self.groups[g];
        let due = partition.bytes_since_snapshot >= self.config.log_bytes_per_snapshot || partition.snapshot_wanted;
        if !due || self.now.time < *next_snapshot || partition.applied == Position(0) || self.disk_full {
            return None;
        }
        let position = partition.applied;
        let content = match partition.begin_flush() {
            Some(flush) => SnapshotContent::Store(Box::new(flush)),
            None => in_file(position, partition.image()),
        };
        *saving = Some(Saving { position, install: None });
        partition.bytes_since_snapshot = 0;
        partition.snapshot_wanted = false;
        Some(SnapshotJob { partition: partition.id, position, content })
    }

    pub(crate) fn on_snapshot_saved(&mut self, id: PartitionId, position: Position, out: &mut Outbox) {
        self.stats.snapshot_running = false;
        self.stats.last_snapshot = Some(self.now.wall);
        let Some(g) = place_of(&self.groups, id) else { return };
        let group = &mut self.groups[g];
        let Some(saving) = group.saving.take_if(|saving| saving.position == position) else { return };
        match saving.install {
            Some(state) => self.install(g, *state),
            None => {
                group.partition.tree.end_flush();
                let keep =
                    if std::mem::take(&mut group.partition.cut_wanted) { 0 } else { self.config.log_entries_kept };
                self.step_replica(g, Step::SnapshotTaken { position, keep });
            }
        }
        self.release_journal(g);
        self.discard_journal(out);
    }

    /// A peer's state becomes this one's: it is where it has to be.
    pub(crate) fn install(&mut self, g: usize, state: RestoredState) {
        let (time, position) = (self.now.time, state.position);
        if position > self.groups[g].partition.applied {
            self.probe("node: snapshot installed");
            self.event(Level::Info, format!("has the state of position {position} from a peer's snapshot"));
        }
        let group = &mut self.groups[g];
        let before = group.wishes.completed.len();
        group.partition.install(time, state, &mut self.batch, &mut group.wishes);
        if group.wishes.completed.len() > before {
            self.probe("node: reply from an installed snapshot");
        }
        self.refuse_reads_passed(g, before);
    }

    /// The group that has just been saved does not need the journal's beginning any more. Groups in which little happens would hold
    /// it back for ever: they are saved now, too, and do without old entries.
    fn release_journal(&mut self, saved: usize) {
        let Some(needed) = self.groups[saved].partition.entries_needed_from() else { return };
        for group in &mut self.groups {
            let partition = &mut group.partition;
            if partition.entries_needed_from().is_some_and(|number| number < needed) && !partition.snapshot_wanted {
                partition.snapshot_wanted = true;
                partition.cut_wanted = true;
            }
            if partition.state_needed_from().is_some_and(|number| number < needed) {
                partition.store_state();
                partition.settle(&mut self.batch, &mut group.wishes);
            }
        }
    }

    /// What nobody needs any more may go from the journal.
    fn discard_journal(&mut self, out: &mut Outbox) {
        let newest = self.next_number.saturating_sub(1);
        let needs = |group: &mut Group| {
            let partition = &mut group.partition;
            [partition.entries_needed_from(), partition.state_needed_from()].into_iter().flatten().min()
        };
        let needed = self.groups.iter_mut().filter_map(needs).min();
        out.discard_journal_before = Some(needed.unwrap_or(newest).min(newest));
    }

    /// The log of a group that is in memory only: its state is there, and old entries are of use only to those that are a little behind.
    fn cut_in_memory(&mut self, g: usize) {
        let partition = &mut self.groups[g].partition;
        if partition.bytes_since_snapshot >= self.config.log_bytes_per_snapshot {
            partition.bytes_since_snapshot = 0;
            let (position, keep) = (partition.applied, self.config.log_entries_kept);
            self.step_replica(g, Step::SnapshotTaken { position, keep });
        }
    }

    pub(crate) fn on_snapshot_failed(&mut self, id: PartitionId, position: Position, reason: &str) {
        self.stats.snapshot_running = false;
        self.probe("node: snapshot failed");
        self.event(Level::Warning, format!("a snapshot of position {position} could not be written: {reason}"));
        let Some(g) = place_of(&self.groups, id) else { return };
        let group = &mut self.groups[g];
        if group.saving.take_if(|saving| saving.position == position).is_some() {
            group.partition.tree.abort_flush();
            group.partition.snapshot_wanted = true;
            group.next_snapshot = self.now.time + SNAPSHOT_AGAIN_AFTER;
        }
    }
}
