//! Snapshots of the states: when one is written or sent, and what follows once it is on disk.

use base::{Ballot, NodeId, PartitionId, Position};
use bytes::Bytes;
use paxos::Input as Step;
use std::time::Duration;

use crate::Image;
use crate::backup::Backups;
use crate::below::Retired;
use crate::comparison::Comparison;
use crate::door::{Level, Outbox, Planted, Rubbish, SnapshotContent, SnapshotJob};
use crate::group::{Group, Saving};
use crate::image::RestoredState;
use crate::node::{Node, place_of};
use crate::subscriptions;
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
    pub(super) fn consider_snapshots(&mut self, out: &mut Outbox) {
        let mut number = 0;
        while let Some(g) = self.groups.in_turn(number) {
            self.run_transfers(g, out);
            self.cut_log(g, out);
            self.hold_back_if_too_far_ahead(g);
            if !self.groups[g].partition.durable {
                self.cut_in_memory(g);
            }
            number += 1;
        }
        if out.save_snapshot.is_none() && !self.stats.snapshot_running {
            self.save_next(out);
        }
    }

    /// Begins the next snapshot that is due. The groups take turns.
    fn save_next(&mut self, out: &mut Outbox) {
        let may_go = |retired: &&Retired| retired.after <= self.persisted;
        let retired = self.retired.iter().rfind(may_go).filter(|_| self.now.time >= self.next_retirement);
        if let Some(Retired { partition, job, .. }) = retired {
            // It is kept until it is done: were it forgotten, the head would be found without what it tells of.
            let (partition, content) = (*partition, SnapshotContent::Store(Box::new(job.clone())));
            self.stats.snapshot_running = true;
            out.save_snapshot = Some(SnapshotJob { partition, position: Position(0), content });
            return;
        }
        // Whose snapshot is due is awake.
        let (awake, after) = (self.groups.awake_in_order(), self.saved_last);
        let later = awake.iter().filter(|g| **g > after).chain(awake.iter().filter(|g| **g <= after));
        for g in later.copied() {
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
        let state = saving.as_ref()?.install.as_ref()?;
        if self.persisted < partition.begun_in {
            return None;
        }
        let image = Image::new(state.position, state.ballot, &state.origins, &state.tree);
        Some(SnapshotJob { partition: partition.id, position: state.position, content: in_file(state.position, image) })
    }

    fn save_own(&mut self, g: usize) -> Option<SnapshotJob> {
        let Group { partition, saving, next_snapshot, .. } = &mut self.groups[g];
        let due = partition.snapshot_is_due(self.now.time, &self.config, &self.unflushed);
        let is_too_soon = self.now.time < *next_snapshot || self.persisted < partition.begun_in;
        // A flush lets the log go, and brings to the store what was removed. A file has the whole state, beside the one before it.
        let no_room = if partition.is_over_store() { self.disk.is_full() } else { self.disk.is_low() };
        if !due || is_too_soon || no_room || !partition.durable {
            return None;
        }
        let repeats = partition.has_flush();
        let (position, content) = match partition.begin_flush(self.now.time) {
            Some(flush) => (flush.position, SnapshotContent::Store(Box::new(flush))),
            None => {
                partition.bytes_since_snapshot = 0;
                (partition.applied, in_file(partition.applied, partition.image()))
            }
        };
        *saving = Some(Saving { position, install: None });
        partition.snapshot_wanted = false;
        let job = SnapshotJob { partition: partition.id, position, content };
        if repeats {
            self.probe("node: flush repeated");
        }
        Some(job)
    }

    /// The store below bounds how far the state may be ahead of it. And while a leader holds before an entry, what it takes would only wait.
    fn hold_back_if_too_far_ahead(&mut self, g: usize) {
        let partition = &mut self.groups[g].partition;
        let is_ahead = partition.ahead_bytes() >= self.unflushed.ahead_max(&self.config.snapshots);
        let held = is_ahead || (partition.replica.leads().is_some() && partition.stands_before().is_some());
        if held != partition.replica.is_held_back() {
            partition.replica.hold_back(held);
            if is_ahead {
                self.probe("node: store too far behind");
                let text = "the store does not keep up with what is written: no more is taken until it has";
                self.event_about(g, Level::Warning, text);
            }
        }
    }

    pub(crate) fn on_snapshot_saved(&mut self, id: PartitionId, position: Position, out: &mut Outbox) {
        self.stats.snapshot_running = false;
        self.stats.last_snapshot = Some(self.clock.own());
        self.snapshot_fails = false;
        self.retired.retain(|retired| retired.partition != id || position != Position(0));
        let Some(g) = place_of(&self.groups, id) else { return };
        let group = &mut self.groups[g];
        let Some(saving) = group.saving.take_if(|saving| saving.position == position) else { return };
        match saving.install {
            Some(state) => {
                self.install(g, *state);
                self.discard_journal(out);
            }
            None => {
                group.partition.end_flush();
                group.partition.cut_to = Some(position);
                group.partition.saved_at = position;
                self.cut_log(g, out);
            }
        }
    }

    /// Drops a part of the log before a snapshot that is on disk; freeing all of it would hold everything up.
    fn cut_log(&mut self, g: usize, out: &mut Outbox) {
        let partition = &mut self.groups[g].partition;
        let Some(position) = partition.cut_to else { return };
        let keep = if partition.cut_wanted { 0 } else { self.config.log_entries_kept };
        let keep = partition.all_have.map_or(keep, |all_have| keep.min(position.0.saturating_sub(all_have.0)));
        let base = partition.replica.log().base();
        let part = Position(base.0.saturating_add(CUT_ENTRIES_MAX));
        if let Some(wanted) = self.groups[g].log_wanted_behind(self.now.time, position) {
            if self.groups[g].partition.replica.log().bytes() <= self.config.log_bytes_held {
                self.probe("node: log held for a peer");
                // The rest follows when nobody wants it any more.
                let until = part.min(wanted).min(Position(position.0.saturating_sub(keep)));
                if until > base {
                    self.step_replica(g, Step::SnapshotTaken { position: until, keep: 0 });
                    self.discard_journal(out);
                }
                return;
            }
            self.probe("node: log not held any longer");
            let bytes = self.config.log_bytes_held;
            let text =
                "though a peer that takes a snapshot wants it: if it does not catch up, raise dictum-log-bytes-held";
            self.event_about(g, Level::Warning, &format!("the log has more than {bytes} bytes and is cut, {text}"));
        }
        if part.0.saturating_add(keep) < position.0 {
            self.step_replica(g, Step::SnapshotTaken { position: part, keep: 0 });
            if self.groups[g].partition.replica.log().base() == part {
                return;
            }
        }
        self.groups[g].partition.cut_to = None;
        self.groups[g].partition.cut_wanted = false;
        self.groups[g].partition.all_have = None;
        self.step_replica(g, Step::SnapshotTaken { position, keep });
        self.release_journal(g);
        self.discard_journal(out);
    }

    /// The log of a group that is in memory only: its state is there, and old entries are of use only to those that are a little behind.
    fn cut_in_memory(&mut self, g: usize) {
        let partition = &mut self.groups[g].partition;
        if partition.bytes_since_snapshot >= self.config.log_bytes_per_snapshot {
            partition.bytes_since_snapshot = 0;
            partition.cut_to = Some(partition.applied);
        }
    }

    /// A peer's state is where it has to be, and becomes that of this node.
    fn install(&mut self, g: usize, state: RestoredState) {
        let (time, position) = (self.now.time, state.position);
        if position > self.groups[g].partition.applied {
            self.probe("node: snapshot installed");
            self.installed += 1;
            self.tracking.forget_everything();
            self.waiting.touch_all(self.groups[g].id());
            self.event_about(g, Level::Info, &format!("has the state of position {position} from a peer's snapshot"));
        }
        let group = &mut self.groups[g];
        group.partition.cut_to = None;
        let before = group.wishes.completed.len();
        let is_installed = group.partition.install(time, state, &mut self.batch, &mut group.wishes);
        if group.wishes.completed.len() > before {
            self.probe("node: reply from an installed snapshot");
        }
        if is_installed {
            subscriptions::glue::installed(self, g);
        }
        self.refuse_reads_passed(g, before);
    }

    /// The group that has just been saved does not need the journal's beginning any more. Groups in which little happens would hold
    /// it back for ever: they are saved now, too, and do without old entries.
    fn release_journal(&mut self, saved: usize) {
        let Some(needed) = self.groups[saved].partition.entries_needed_from() else { return };
        let is_old = |number: Option<u64>| number.is_some_and(|number| number < needed);
        let holds_back = |group: &mut Group| {
            let held = [group.partition.entries_needed_from(), group.partition.state_needed_from()];
            held.into_iter().any(is_old).then(|| group.id())
        };
        let holding_back: Vec<PartitionId> = self.groups.iter_mut_unwoken().filter_map(holds_back).collect();
        for id in holding_back {
            let Some(g) = place_of(&self.groups, id) else { continue };
            let group = &mut self.groups[g];
            let partition = &mut group.partition;
            if is_old(partition.entries_needed_from()) && !partition.snapshot_wanted {
                partition.snapshot_wanted = true;
                partition.cut_wanted = true;
            }
            if is_old(partition.state_needed_from()) {
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
        let needed = self.groups.iter_mut_unwoken().filter(|group| group.partition.durable).filter_map(needs).min();
        out.discard_journal_before = Some(needed.unwrap_or(newest).min(newest));
    }

    pub(crate) fn on_snapshot_failed(&mut self, id: PartitionId, position: Position, reason: &str) {
        self.stats.snapshot_running = false;
        self.snapshot_fails = true;
        self.probe("node: snapshot failed");
        self.event(Level::Warning, format!("a snapshot of position {position} could not be written: {reason}"));
        self.next_retirement = self.now.time + SNAPSHOT_AGAIN_AFTER;
        let Some(g) = place_of(&self.groups, id) else { return };
        let group = &mut self.groups[g];
        if let Some(saving) = group.saving.take_if(|saving| saving.position == position) {
            // A state that a peer has sent may be large.
            group.wishes.rubbish.extend(saving.install.map(Rubbish::new));
            group.partition.snapshot_wanted = true;
            group.next_snapshot = self.now.time + SNAPSHOT_AGAIN_AFTER;
        }
    }

    /// A peer offers a snapshot.
    pub(crate) fn on_snapshot_offer(&mut self, g: usize, transfer: (NodeId, u64), place: (Position, Ballot)) {
        let time = self.now.time;
        let Group { partition, transfers, saving, .. } = &mut self.groups[g];
        // What has come before is being written to a file.
        let busy = saving.as_ref().is_some_and(|saving| saving.install.is_some());
        let refuses = busy || self.disk.is_low() && partition.durable;
        let (id, applied) = (partition.id, partition.applied);
        let answer = transfers.on_offer(time, id, transfer, place, (applied, refuses), || partition.new_incoming());
        if let Some(answer) = answer {
            self.send(transfer.0, &answer);
        }
    }

    /// Offers and asks again for what was not answered.
    pub(super) fn tick_transfers(&mut self, g: usize) {
        let (time, group) = (self.now.time, &mut self.groups[g]);
        let id = group.partition.id;
        let mut messages = group.transfers.offers(time, id);
        messages.extend(group.transfers.asks(time, id));
        if group.transfers.holds_back() && self.movement.may_ask(time) {
            messages.extend(self.groups[g].transfers.ask_on(time, id));
        }
        for (to, message) in messages {
            self.send(to, &message);
        }
    }

    /// Sends blocks that are due, and gives the owner the making and the taking of others.
    fn run_transfers(&mut self, g: usize, out: &mut Outbox) {
        if self.groups[g].transfers.is_idle() {
            return;
        }
        let time = self.now.time;
        // Whoever votes has to have its state: that repairs something, and does not wait.
        let paused = self.registry.paused;
        let Group { partition, transfers, .. } = &mut self.groups[g];
        let (id, members) = (partition.id, partition.replica.members());
        let waits = |node: NodeId| paused && !members.keeps(node);
        for (to, message) in transfers.due(time, id, &mut self.movement, waits) {
            self.send(to, &message);
        }
        let Group { partition, transfers, saving, wishes, .. } = &mut self.groups[g];
        out.make_blocks.extend(transfers.block_jobs(id));
        transfers.drop_overtaken(partition.applied);
        // The last blocks name the state that the store has. So does a flush: one after the other, and both behind what the journal tells of the replica.
        let is_told = !partition.durable || self.persisted >= partition.begun_in;
        let may_complete = saving.is_none() && !self.stats.snapshot_running && is_told;
        if let Some(mut job) = transfers.receive_job(id, may_complete) {
            if let Some(position) = transfers.completing() {
                *saving = Some(Saving { position, install: None });
                job.plant(self.config.planted);
            }
            out.take_blocks.push(job);
        }
        partition.tree.give_up(transfers.take_given_up());
        wishes.rubbish.extend(transfers.take_rubbish());
        for name in transfers.take_probes() {
            self.probe(name);
        }
    }

    pub(crate) fn on_block_made(&mut self, made: MadeBlock) {
        if Comparison::is_of(&made) {
            return self.on_block_compared(made);
        }
        if Backups::is_of(&made) {
            return self.backups.on_block(made);
        }
        let Some(g) = place_of(&self.groups, made.partition) else { return };
        if let Some(text) = self.groups[g].transfers.on_made(made) {
            self.event_about(g, Level::Warning, &format!("a snapshot for a peer cannot be read: {text}"));
        }
    }

    pub(crate) fn on_blocks_taken(&mut self, taken: TakenBlocks, out: &mut Outbox) {
        let Some(g) = place_of(&self.groups, taken.partition) else { return };
        let Group { partition, transfers, saving, .. } = &mut self.groups[g];
        let durable = partition.durable;
        let completed = transfers.completing().is_some();
        let (came, answer) = transfers.on_taken(self.now.time, taken);
        if completed && transfers.completing().is_none() {
            *saving = None;
        }
        match came {
            Came::Whole { state, stored } if stored || !durable => {
                self.probe("node: snapshot received");
                if stored {
                    self.stats.last_snapshot = Some(self.clock.own());
                }
                self.install(g, *state);
                self.discard_journal(out);
            }
            Came::Whole { state, .. } => {
                self.probe("node: snapshot received");
                self.groups[g].saving = Some(Saving { position: state.position, install: Some(state) });
            }
            Came::Useless(from, text) => {
                let name = self.name_of(from);
                self.event_about(g, Level::Error, &format!("the snapshot that {name} sends is of no use: {text}"));
            }
            Came::Unwritten(from, text) => {
                self.probe("node: reception not written");
                let name = self.name_of(from);
                self.event_about(
                    g,
                    Level::Warning,
                    &format!("the snapshot that {name} sends cannot be written: {text}"),
                );
            }
            Came::Nothing => {}
        }
        if let Some((to, message)) = answer {
            self.send(to, &message);
        }
    }
}
