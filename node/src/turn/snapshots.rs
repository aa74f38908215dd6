//! Snapshots of the state: when one is written or sent, and what follows once it is on disk.

use base::{Ballot, NodeId, Position};
use bytes::Bytes;
use paxos::Input as Step;
use std::time::Duration;

use crate::Image;
use crate::door::{Level, Outbox, Planted, Rubbish, SnapshotContent, SnapshotJob};
use crate::image::RestoredState;
use crate::node::{Node, Saving};
use crate::transfer::jobs::{MadeBlock, TakenBlocks};
use crate::transfer::receiving::Came;

/// How long after a failed snapshot the next is tried.
const SNAPSHOT_AGAIN_AFTER: Duration = Duration::from_secs(5);
/// Entries of the log that are dropped in one turn: one or two milliseconds' work.
const CUT_ENTRIES_MAX: u64 = 10_000;

fn in_file(position: Position, image: Image) -> SnapshotContent {
    SnapshotContent::File { header: Bytes::copy_from_slice(&position.0.to_le_bytes()), image: Box::new(image) }
}

impl Node {
    /// What the owner is to do for snapshots, at the end of a turn.
    pub(super) fn consider_snapshot(&mut self, out: &mut Outbox) {
        self.run_transfers(out);
        self.cut_log(out);
        self.hold_back_if_too_far_ahead();
        if out.save_snapshot.is_some() {
            return;
        }
        if let Some(saving) = &mut self.saving {
            // A received state is saved as soon as no other snapshot is being written.
            if let Some(state) = &mut saving.install
                && !self.stats.snapshot_running
            {
                self.stats.snapshot_running = true;
                let image = Image::new(state.position, state.ballot, &state.origins, &state.tree);
                out.save_snapshot =
                    Some(SnapshotJob { position: state.position, content: in_file(state.position, image) });
            }
            return;
        }
        let due = self.partition.snapshot_is_due(self.config.log_bytes_per_snapshot, &self.config.snapshots);
        if due && self.now.time >= self.next_snapshot && !self.disk_full {
            if self.partition.has_flush() {
                self.probe("node: flush repeated");
            }
            let (position, content) = match self.partition.begin_flush() {
                Some(flush) => (flush.position, SnapshotContent::Store(Box::new(flush))),
                None => {
                    self.partition.bytes_since_snapshot = 0;
                    let position = self.partition.applied;
                    (position, in_file(position, self.partition.image()))
                }
            };
            out.save_snapshot = Some(SnapshotJob { position, content });
            self.saving = Some(Saving { position, install: None });
            self.stats.snapshot_running = true;
            if self.config.planted == Some(Planted::CutBeforeStored) {
                let keep = self.config.log_entries_kept;
                self.step_replica(Step::SnapshotTaken { position, keep });
                self.discard_journal(out);
            }
            self.partition.snapshot_wanted = false;
        }
    }

    /// The store below bounds how far the state may be ahead of it.
    fn hold_back_if_too_far_ahead(&mut self) {
        let held = self.partition.is_too_far_ahead(&self.config.snapshots);
        if held != self.partition.replica.is_held_back() {
            self.partition.replica.hold_back(held);
            if held {
                self.probe("node: store too far behind");
                self.event(
                    Level::Warning,
                    "the store does not keep up with what is written: no more is taken until it has",
                );
            }
        }
    }

    pub(crate) fn on_snapshot_saved(&mut self, position: Position, out: &mut Outbox) {
        self.stats.snapshot_running = false;
        self.stats.last_snapshot = Some(self.now.wall);
        self.snapshot_fails = false;
        if self.saving.as_ref().is_none_or(|saving| saving.position != position) {
            return;
        }
        let Some(saving) = self.saving.take() else { return };
        match saving.install {
            Some(state) => self.install(*state),
            None => {
                self.partition.end_flush();
                self.partition.cut_to = Some(position);
                return self.cut_log(out);
            }
        }
        self.discard_journal(out);
    }

    /// Drops a part of the log before a snapshot that is on disk; freeing all of it would hold everything up.
    fn cut_log(&mut self, out: &mut Outbox) {
        let Some(position) = self.partition.cut_to else { return };
        let keep = self.config.log_entries_kept;
        let part = Position(self.partition.replica.log().base().0.saturating_add(CUT_ENTRIES_MAX));
        if part.0.saturating_add(keep) < position.0 {
            self.step_replica(Step::SnapshotTaken { position: part, keep: 0 });
            if self.partition.replica.log().base() == part {
                return;
            }
        }
        self.partition.cut_to = None;
        self.step_replica(Step::SnapshotTaken { position, keep });
        self.discard_journal(out);
    }

    /// A peer's state is on disk, and becomes that of this node.
    fn install(&mut self, state: RestoredState) {
        if state.position > self.partition.applied {
            self.probe("node: snapshot installed");
            self.event(Level::Info, format!("has the state of position {} from a peer's snapshot", state.position));
        }
        self.partition.cut_to = None;
        let before = self.wishes.completed.len();
        self.partition.install(self.now.time, state, &mut self.batch, &mut self.wishes);
        if self.wishes.completed.len() > before {
            self.probe("node: reply from an installed snapshot");
        }
        self.refuse_reads_passed(before);
    }

    /// What the log does not need any more may go from the journal.
    fn discard_journal(&mut self, out: &mut Outbox) {
        let needed = self.partition.journal_needed_from();
        let newest = self.next_number.saturating_sub(1);
        out.discard_journal_before = Some(needed.unwrap_or(newest).min(newest));
    }

    pub(crate) fn on_snapshot_failed(&mut self, position: Position, reason: &str) {
        self.stats.snapshot_running = false;
        self.snapshot_fails = true;
        self.probe("node: snapshot failed");
        self.event(Level::Warning, format!("a snapshot of position {position} could not be written: {reason}"));
        if self.saving.as_ref().is_some_and(|saving| saving.position == position) {
            let saving = self.saving.take();
            // A state that a peer has sent may be large.
            self.wishes.rubbish.extend(saving.and_then(|saving| saving.install).map(Rubbish::new));
            self.partition.snapshot_wanted = true;
            self.next_snapshot = self.now.time + SNAPSHOT_AGAIN_AFTER;
        }
    }

    /// A peer offers a snapshot.
    pub(crate) fn on_snapshot_offer(&mut self, transfer: (NodeId, u64), place: (Position, Ballot)) {
        let (time, partition) = (self.now.time, &mut self.partition);
        // What has come before is being written to a file.
        let refuses = self.saving.as_ref().is_some_and(|saving| saving.install.is_some()) || self.disk_full;
        let (id, applied) = (partition.id, partition.applied);
        let answer =
            self.transfers.on_offer(time, id, transfer, place, (applied, refuses), || partition.new_incoming());
        if let Some(answer) = answer {
            self.send(transfer.0, &answer);
        }
    }

    /// Offers and asks again for what was not answered.
    pub(super) fn tick_transfers(&mut self) {
        let (time, partition) = (self.now.time, self.partition.id);
        let mut messages = self.transfers.offers(time, partition);
        messages.extend(self.transfers.asks(time, partition));
        for (to, message) in messages {
            self.send(to, &message);
        }
    }

    /// Sends blocks that are due, and gives the owner the making and the taking of others.
    fn run_transfers(&mut self, out: &mut Outbox) {
        let (time, partition) = (self.now.time, self.partition.id);
        for (to, message) in self.transfers.due(time, partition, &mut self.throttle) {
            self.send(to, &message);
        }
        out.make_blocks.extend(self.transfers.block_jobs(partition));
        self.transfers.drop_overtaken(self.partition.applied);
        // The last blocks name the state that the store has. So does a flush: one after the other.
        let may_complete = self.saving.is_none() && !self.stats.snapshot_running;
        if let Some(mut job) = self.transfers.receive_job(partition, may_complete) {
            if let Some(position) = self.transfers.completing() {
                self.saving = Some(Saving { position, install: None });
                job.unsynced = self.config.planted == Some(Planted::InstalledBeforeSynced);
            }
            out.take_blocks.push(job);
        }
        self.partition.tree.give_up(self.transfers.take_given_up());
        self.wishes.rubbish.extend(self.transfers.take_rubbish());
        for name in self.transfers.take_probes() {
            self.probe(name);
        }
    }

    pub(crate) fn on_block_made(&mut self, made: MadeBlock) {
        debug_assert_eq!(made.partition, self.partition.id);
        if let Some(text) = self.transfers.on_made(made) {
            self.event(Level::Warning, format!("a snapshot for a peer cannot be read: {text}"));
        }
    }

    pub(crate) fn on_blocks_taken(&mut self, taken: TakenBlocks, out: &mut Outbox) {
        let completed = self.transfers.completing().is_some();
        let (came, answer) = self.transfers.on_taken(self.now.time, taken);
        if completed && self.transfers.completing().is_none() {
            self.saving = None;
        }
        match came {
            Came::Whole { state, stored } => {
                self.probe("node: snapshot received");
                if stored {
                    self.stats.last_snapshot = Some(self.now.wall);
                    self.install(*state);
                    self.discard_journal(out);
                } else {
                    self.saving = Some(Saving { position: state.position, install: Some(state) });
                }
            }
            Came::Useless(from, text) => {
                let name = self.name_of(from);
                self.event(Level::Error, format!("the snapshot that {name} sends is of no use: {text}"));
            }
            Came::Unwritten(from, text) => {
                self.probe("node: reception not written");
                let name = self.name_of(from);
                self.event(Level::Warning, format!("the snapshot that {name} sends cannot be written: {text}"));
            }
            Came::Nothing => {}
        }
        if let Some((to, message)) = answer {
            self.send(to, &message);
        }
    }
}
