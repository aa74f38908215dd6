//! Snapshots of the state: when one is written, and what follows once it is on disk.

use base::Position;
use bytes::Bytes;
use paxos::Input as Step;
use std::time::Duration;

use crate::Image;
use crate::door::{Level, Outbox, Planted, SnapshotContent, SnapshotJob};
use crate::node::{Node, Saving};

/// How long after a failed snapshot the next is tried.
const SNAPSHOT_AGAIN_AFTER: Duration = Duration::from_secs(5);

fn in_file(position: Position, image: Image) -> SnapshotContent {
    SnapshotContent::File { header: Bytes::copy_from_slice(&position.0.to_le_bytes()), image: Box::new(image) }
}

impl Node {
    pub(super) fn consider_snapshot(&mut self, out: &mut Outbox) {
        if out.save_snapshot.is_some() {
            return;
        }
        if let Some(saving) = &mut self.saving {
            // A received state is saved as soon as no other snapshot is being written.
            if let Some(state) = &mut saving.install
                && !self.stats.snapshot_running
            {
                self.stats.snapshot_running = true;
                let content = match self.partition.begin_flush_of(state) {
                    Some(flush) => SnapshotContent::Store(Box::new(flush)),
                    None => {
                        let image = Image::new(state.position, state.ballot, &state.origins, &state.tree);
                        in_file(state.position, image)
                    }
                };
                out.save_snapshot = Some(SnapshotJob { position: state.position, content });
            }
            return;
        }
        let partition = &self.partition;
        let due = partition.bytes_since_snapshot >= self.config.log_bytes_per_snapshot || partition.snapshot_wanted;
        if due && self.now.time >= self.next_snapshot && partition.applied > Position(0) && !self.disk_full {
            let position = partition.applied;
            let content = match self.partition.begin_flush() {
                Some(flush) => SnapshotContent::Store(Box::new(flush)),
                None => in_file(position, self.partition.image()),
            };
            out.save_snapshot = Some(SnapshotJob { position, content });
            self.saving = Some(Saving { position, install: None });
            self.stats.snapshot_running = true;
            self.partition.bytes_since_snapshot = 0;
            if self.config.planted == Some(Planted::CutBeforeStored) {
                let keep = self.config.log_entries_kept;
                self.step_replica(Step::SnapshotTaken { position, keep });
                self.discard_journal(out);
            }
            self.partition.snapshot_wanted = false;
        }
    }

    pub(crate) fn on_snapshot_saved(&mut self, position: Position, out: &mut Outbox) {
        self.stats.snapshot_running = false;
        self.stats.last_snapshot = Some(self.now.wall);
        if self.saving.as_ref().is_none_or(|saving| saving.position != position) {
            return;
        }
        let Some(saving) = self.saving.take() else { return };
        let time = self.now.time;
        match saving.install {
            Some(state) => {
                if state.position > self.partition.applied {
                    self.probe("node: snapshot installed");
                    self.event(Level::Info, format!("has the state of position {position} from a peer's snapshot"));
                }
                let before = self.wishes.completed.len();
                self.partition.install(time, *state, &mut self.batch, &mut self.wishes);
                if self.wishes.completed.len() > before {
                    self.probe("node: reply from an installed snapshot");
                }
                self.refuse_reads_passed(before);
            }
            None => {
                self.partition.tree.end_flush();
                let keep = self.config.log_entries_kept;
                self.step_replica(Step::SnapshotTaken { position, keep });
            }
        }
        self.discard_journal(out);
    }

    /// What the log does not need any more may go from the journal.
    fn discard_journal(&mut self, out: &mut Outbox) {
        let needed = self.partition.journal_needed_from();
        let newest = self.next_number.saturating_sub(1);
        out.discard_journal_before = Some(needed.unwrap_or(newest).min(newest));
    }

    pub(crate) fn on_snapshot_failed(&mut self, position: Position, reason: &str) {
        self.stats.snapshot_running = false;
        self.probe("node: snapshot failed");
        self.event(Level::Warning, format!("a snapshot of position {position} could not be written: {reason}"));
        if self.saving.as_ref().is_some_and(|saving| saving.position == position) {
            self.saving = None;
            self.partition.tree.abort_flush();
            self.partition.snapshot_wanted = true;
            self.next_snapshot = self.now.time + SNAPSHOT_AGAIN_AFTER;
        }
    }
}
