//! Processes: their starts, their turns, what their turns want done, and their deaths.

use std::sync::Arc;

use base::NodeId;
use node::{Argon2Cost, Config, Level, LogLine, PlainSigner, SnapshotSettings};
use storage::JournalOptions;

use super::Cluster;
use super::operator::member;
use crate::chaos::{Chaos, Fault, MS, SECOND};
use crate::checkers::redirections::address_of;
use crate::clock::Clock;
use crate::door::Door;
use crate::events::Event;
use crate::process::{self, Commit, Death, Happening, name_of};
use crate::settings::DEFAULT;
use crate::trace::digest_of;

/// A process found spaces in its store that no partition knows.
pub(crate) const SPACES_DROPPED: &str = "sim: spaces that nobody knew dropped at a start";

impl<N: Door> Cluster<N> {
    pub(super) fn config(&mut self, node: NodeId) -> Config {
        let zone = self.label(node);
        Config {
            newest: self.machines[usize::from(node.0)].newest,
            members: self.founders().map(member).collect(),
            joined: self.machines[usize::from(node.0)].told.clone(),
            me: node,
            zone,
            // Its operator keeps it where a folder is emptied.
            key: Some(self.keys.of(node)),
            signer: Some(Arc::new(PlainSigner(self.keys.of(node)))),
            announce: self.chaos.addresses.then(|| self.addresses.of(node)),
            secret: u128::from(node.0),
            resp_address: format!("127.0.0.1:{}", 7001 + node.0),
            http_address: format!("127.0.0.1:{}", 8001 + node.0),
            cluster_address: if self.cast.listeners.get(usize::from(node.0)) == Some(&true) {
                address_of(node.0)
            } else {
                String::new()
            },
            process: node::ProcessFigures::default,
            databases: base::limits::DATABASES_DEFAULT,
            cluster_bucket: if self.cast.bucket.is_empty() { DEFAULT } else { self.cast.bucket }.to_owned(),
            process_id: 1000 + u32::from(node.0),
            value_bytes_max: base::limits::VALUE_BYTES_DEFAULT,
            clients_max: base::limits::CONNECTIONS_DEFAULT,
            clients_room: base::limits::CONNECTIONS_DEFAULT,
            clients_bytes_max: 0,
            memory_bytes: 0,
            io_threads: 1,
            trail_told_every: super::trails::TOLD_EVERY,
            request_timeout: std::time::Duration::from_millis(self.chaos.request_timeout_ms),
            hashes_passwords: false,
            password_cost: Argon2Cost::LEAST,
            password: None,
            protected_mode: true,
            log_bytes_per_snapshot: self.chaos.log_bytes_per_snapshot,
            snapshots: SnapshotSettings {
                flush_bytes: self.chaos.log_bytes_per_snapshot,
                flush_after: std::time::Duration::from_secs(4),
                // Less than the largest entries would hold everybody back for ever.
                unflushed_bytes_max: (8 * self.chaos.log_bytes_per_snapshot).max(256 << 10),
                undecided_bytes_max: self.chaos.undecided_bytes_max,
                bytes_per_second: self.chaos.snapshot_bytes_per_second,
                block_bytes: self.chaos.snapshot_block_bytes,
                held_for: std::time::Duration::from_nanos(self.chaos.snapshot_held_for),
            },
            large_writes: self.chaos.large_writes,
            turn_work_max: self.chaos.turn_work_max,
            subscriptions: self.chaos.subscriptions,
            compared_every: self.chaos.compared_every,
            log_entries_kept: self.chaos.log_entries_kept,
            log_trim: self.chaos.log_trim,
            log_bytes_held: self.chaos.log_bytes_held,
            // Simulated clients are few: what matters here is that leaderships change hands at all.
            hot_entries_per_second: 5,
            cache_policy: "s3-fifo",
            seed: self.rng.next_u64(),
            step_over: self.steps_of(node),
            applying: std::sync::Arc::default(),
            planted: self.planted,
        }
    }

    pub(super) fn start_in(&mut self, delay: u64, node: NodeId) {
        if !std::mem::replace(&mut self.machine(node).start_is_due, true) {
            let at = self.now + delay;
            self.queue.push(at, Event::Start(node));
        }
    }

    pub(super) fn on_start(&mut self, node: NodeId) {
        let now = self.now;
        self.machine(node).start_is_due = false;
        let waits = self.waits_for_operator(node);
        let machine = self.machine(node);
        if machine.running.is_some() || waits || !machine.is_member || (machine.is_gone && !machine.returns) {
            return;
        }
        self.upgrade_at_start(node);
        let config = self.config(node);
        let mut rng = self.rng.fork();
        let origin = rng.below(1000 * SECOND);
        let machine = self.machine(node);
        machine.life += 1;
        machine.dark = false;
        (machine.paused_until, machine.busy_until) = (now, now);
        machine.disk.repair();
        if let Some(fuse) = machine.fuse_at_start.take() {
            machine.disk.light_fuse(fuse);
        }
        let mut clock = Clock::new(now, origin, machine.clock_rate, machine.clock_offset);
        clock.set(machine.clock_offset, machine.clock_stopped);
        let start = self.start_with(config, clock);
        let has_cache = start.cache.is_some();
        let machine = self.machine(node);
        let started = process::start::<N>(&machine.disk, start, &mut rng);
        let life = machine.life;
        self.trace.event(now, [2, u64::from(node.0), life, u64::from(started.is_ok())], || match &started {
            Ok(running) => format!("{} starts, life {life}: {}", name_of(node), running.found),
            Err(death) => format!("{} fails to start: {death:?}", name_of(node)),
        });
        match started {
            Ok(running) => {
                if has_cache {
                    *self.injected.entry(Fault::ValueCache).or_default() += 1;
                }
                if running.spaces_dropped > 0 {
                    *self.probes.entry(SPACES_DROPPED).or_default() += 1;
                }
                self.machine(node).running = Some(running);
                self.tell_room_at_start(node);
                self.carry_out(node);
                self.watch(node);
                for peer in self.nodes() {
                    self.want_link(node, peer);
                }
            }
            Err(Death::Arranged(_)) => {
                let power = self.rng.chance(1, 2);
                let delay = self.rng.between(10 * MS, 500 * MS);
                let machine = self.machine(node);
                if machine.disk.is_blown() && power {
                    machine.disk.lose_power();
                }
                machine.disk.repair();
                self.start_in(delay, node);
            }
            Err(Death::Refused(text)) => self.on_refusal(node, &text),
            Err(Death::Violation(text)) => self.violate("start", format!("{}: {text}", name_of(node))),
        }
        if std::mem::take(&mut self.machine(node).reads_again) {
            self.machine(node).disk.read_again();
        }
    }

    /// The settings with which a process of this run starts.
    pub(super) fn start_with(&self, config: Config, clock: Clock) -> process::Start {
        let Chaos { segment_bytes, uses_store, cache, .. } = self.chaos;
        let journal = JournalOptions { first_segment_bytes: 64 << 10, segment_bytes, free_segments_max: 2 };
        process::Start { config, journal, uses_store, cache: cache.filter(|_| uses_store), clock, now: self.now }
    }

    /// Lets a node have a turn soon.
    pub(super) fn poke(&mut self, node: NodeId) {
        // The time until the loop gets round to it: most of the time at once, sometimes other work is before it.
        let delay = if self.rng.chance(1, 8) { self.rng.below(2 * MS) } else { self.rng.below(60_000) };
        let at = self.now + delay;
        let machine = self.machine(node);
        let life = machine.life;
        if let Some(running) = &mut machine.running
            && running.turn_at.is_none()
        {
            running.turn_at = Some(at);
            self.queue.push(at, Event::Turn(node, life));
        }
    }

    pub(super) fn give(&mut self, node: NodeId, happening: Happening) {
        if let Some(running) = &mut self.machine(node).running {
            running.inbox.push(happening);
            self.poke(node);
        }
    }

    pub(super) fn on_wake(&mut self, node: NodeId, life: u64) {
        let now = self.now;
        if let Some(running) = self.process(node, life)
            && running.wake_at.is_some_and(|at| at <= now)
        {
            running.wake_at = None;
            self.poke(node);
        }
    }

    pub(super) fn on_turn(&mut self, node: NodeId, life: u64) {
        if self.put_off(node, Event::Turn(node, life)) {
            return;
        }
        let now = self.now;
        let worked = self.machine(node).worked.take().filter(|(whose, ..)| *whose == life);
        let Some(running) = self.process(node, life) else { return };
        running.turn_at = None;
        // Before what came meanwhile.
        running.inbox.splice(..0, worked.map(|(_, since, duration)| Happening::Worked(since, duration)));
        let inputs = running.inbox.len() as u64;
        running.turn(now);
        // Before anything of it leaves: with this turn the process may end.
        if !self.machine(node).returns {
            self.note_dropped(node);
            self.note_decided(node);
            self.watch_caches(node);
        }
        self.trace
            .event(now, [3, u64::from(node.0), life, inputs], || format!("{} turn, {inputs} inputs", name_of(node)));
        self.note_room(node);
        self.carry_out(node);
        self.watch(node);
    }

    /// Does what lies in a node's outbox.
    pub(super) fn carry_out(&mut self, node: NodeId) {
        let now = self.now;
        let machine = self.machine(node);
        let life = machine.life;
        let Some(running) = &mut machine.running else { return };
        let mut clients = std::mem::take(&mut running.outbox.clients);
        let mut close = std::mem::take(&mut running.outbox.close);
        let mut pause = std::mem::take(&mut running.outbox.pause);
        let errands = std::mem::take(&mut running.outbox.errands);
        let full_syncs = std::mem::take(&mut running.outbox.full_syncs);
        let peers = std::mem::take(&mut running.outbox.peers);
        let events = std::mem::take(&mut running.outbox.events);
        let stopped = std::mem::take(&mut running.outbox.stopped);
        let (removed, roll) = (running.outbox.removed, running.outbox.roll.take());
        let fatal = running.outbox.fatal.take();
        let wake = running.outbox.wake_at.take().map(|time| running.clock.when(time).max(now));
        let work = running.take_disk_work();
        if let Some(at) = wake
            && running.wake_at.is_none_or(|known| known > at || known < now)
        {
            running.wake_at = Some(at);
            self.queue.push(at, Event::Wake(node, life));
        }
        for LogLine { level, text, .. } in events {
            let number = digest_of(text.as_bytes());
            self.trace.event(now, [4, u64::from(node.0), number, level as u64], || {
                format!("{} {} {text}", name_of(node), level_name(level))
            });
        }
        if let Some(text) = fatal {
            // What a node finds out about its own damaged disk may be a reason to end; otherwise nothing is.
            // Nor does it surprise where its folder was set back, even if that has taken nothing of the logs.
            let is_set_back = self.set_back.is_some_and(|(set_back, _)| set_back == node);
            let has_double = self.ends_for_double(node);
            if self.machine(node).damaged_until.is_none() && !is_set_back && !has_double {
                self.violate("no node breaks", format!("{}: {text}", name_of(node)));
            }
            self.die(node, false, "its own verdict");
            self.empty_if_set_back(node, &text);
            if has_double {
                return;
            }
            let delay = self.rng.between(100 * MS, SECOND);
            self.start_in(delay, node);
            return;
        }
        for (peer, bytes) in peers {
            self.send_to_peer(node, peer, &bytes);
        }
        for sync in full_syncs {
            self.give(node, Happening::FullSyncRefused(sync.connection.0, sync.slot));
        }
        self.hear_guests(node, &mut clients, &mut close, &mut pause);
        self.hold_errands(node, errands, &mut clients, &mut close, &mut pause);
        self.serve_clients(node, clients, close, pause);
        self.begin_commit(node, true);
        for _ in 0..work.passwords {
            let at = now + self.rng.between(100_000, 30 * MS);
            self.queue.push(at, Event::PasswordTried(node, life));
        }
        if work.snapshot {
            let at = now + self.rng.between(100_000, 5 * MS);
            self.queue.push(at, Event::SnapshotPart(node, life));
        }
        for _ in 0..work.blocks {
            let at = self.after_reading();
            self.queue.push(at, Event::BlockMade(node, life));
        }
        if work.reception {
            let at = self.after_reading();
            self.queue.push(at, Event::ReceptionPart(node, life));
        }
        if let Some(roll) = roll {
            self.keys.note(node, &roll);
            self.end_links_of_strangers(node);
            self.addresses.note(node, roll);
            for peer in self.nodes() {
                self.want_link(node, peer);
            }
        }
        if stopped && removed {
            self.judge_end_beside_copy(node);
            self.die(node, false, "it was removed");
            self.on_removed(node);
        } else if stopped {
            self.die(node, false, "it stopped as asked");
            let delay = self.rng.between(10 * MS, 2 * SECOND);
            self.start_in(delay, node);
        }
    }

    /// A node has begun to write to its journal, and there its power goes; or that of all.
    fn lose_power_in_write(&mut self, node: NodeId, duration: u64, all: bool) {
        for other in self.nodes().filter(|other| all || *other == node).collect::<Vec<_>>() {
            self.die(other, true, "power lost in a write");
            let delay = self.rng.below(duration.max(1));
            self.start_in(delay, other);
        }
    }

    /// Commits whatever waits. `in_turn`: the loop has it in its hands at this moment, and may do it itself.
    pub(super) fn begin_commit(&mut self, node: NodeId, in_turn: bool) {
        let now = self.now;
        let machine = self.machine(node);
        let life = machine.life;
        let Some(running) = &mut machine.running else { return };
        let small =
            in_turn && running.is_single_and_small() && machine.stalled_until <= now && machine.slow_until <= now;
        if running.begin_commit(now) {
            if self.is_bearable(Fault::PowerCut)
                && let Some((duration, all)) = self.machine(node).cut_in_write.take()
            {
                return self.lose_power_in_write(node, duration, all);
            }
            if small && self.chaos.commit_here > 0 && self.rng.below(1_000_000) < self.chaos.commit_here {
                *self.injected.entry(Fault::CommitHere).or_default() += 1;
                self.on_commit(node, life);
                return;
            }
            let Some(running) = &self.machine(node).running else { return };
            let bytes = running.commit_bytes();
            let mut time = self.chaos.sync_min + self.rng.below(self.chaos.sync_jitter.max(1)) + 2 * bytes;
            if self.rng.below(1_000_000) < self.chaos.sync_slow && !self.healed {
                time *= self.rng.between(2, 100);
                *self.injected.entry(Fault::SlowSync).or_default() += 1;
            }
            time += self.slowness_of_disk(node);
            let at = (self.now + time).max(self.machine(node).stalled_until);
            self.queue.push(at, Event::Commit(node, life));
        }
    }

    pub(super) fn on_commit(&mut self, node: NodeId, life: u64) {
        if self.put_off(node, Event::Commit(node, life)) {
            return;
        }
        let now = self.now;
        let disk = self.machine(node).disk.clone();
        let Some(running) = self.process(node, life) else { return };
        let result = running.commit(&disk, now);
        self.trace.event(now, [5, u64::from(node.0), life, u64::from(result.is_ok())], || {
            format!("{} commit: {result:?}", name_of(node))
        });
        match result {
            Ok(Commit::Done) => {
                self.poke(node);
                self.begin_commit(node, false);
            }
            Ok(Commit::Full) => {
                self.poke(node);
                self.queue.push(now + 100 * MS, Event::Commit(node, life));
            }
            Err(death) => self.on_death(node, death),
        }
    }

    pub(super) fn on_snapshot_part(&mut self, node: NodeId, life: u64) {
        if self.put_off(node, Event::SnapshotPart(node, life)) {
            return;
        }
        let now = self.now;
        let disk = self.machine(node).disk.clone();
        let Some(running) = self.process(node, life) else { return };
        let result = running.write_snapshot(&disk);
        self.trace.event(now, [6, u64::from(node.0), life, u64::from(result == Ok(true))], || {
            format!("{} snapshot: {result:?}", name_of(node))
        });
        match result {
            Ok(true) => {
                let at = now + self.rng.between(100_000, 10 * MS);
                self.queue.push(at, Event::SnapshotPart(node, life));
            }
            Ok(false) => self.poke(node),
            Err(death) => self.on_death(node, death),
        }
    }

    /// When something is done that reads or writes the store: soon, or when the disk gets round to it.
    fn after_reading(&mut self) -> u64 {
        let longest = if self.rng.chance(1, 32) && !self.healed { 800 * MS } else { 5 * MS };
        self.now + self.rng.between(50_000, longest)
    }

    /// Now and then a process does not survive a step of a transfer.
    fn crashes_in_transfer(&mut self, node: NodeId, life: u64) -> bool {
        let spared = self.healed || !self.is_bearable(Fault::TransferCrash);
        let chance = if spared { 0 } else { self.chaos.transfer_crash };
        if chance == 0 || self.rng.below(1_000_000) >= chance || self.process(node, life).is_none() {
            return false;
        }
        *self.injected.entry(Fault::TransferCrash).or_default() += 1;
        let (power, delay) = (self.rng.chance(1, 2), self.rng.between(10 * MS, 2 * SECOND));
        self.die(node, power, "killed in a transfer");
        self.start_in(delay, node);
        true
    }

    pub(super) fn on_block_made(&mut self, node: NodeId, life: u64) {
        let fails = self.rng.chance(1, 200) && !self.healed;
        if self.put_off(node, Event::BlockMade(node, life)) {
            return;
        }
        // One for a comparison is no step of a transfer.
        let is_for_peer = self.process(node, life).is_some_and(|running| running.makes_for_peer());
        if is_for_peer && self.crashes_in_transfer(node, life) {
            return;
        }
        let now = self.now;
        if let Some(running) = self.process(node, life) {
            running.make_block(fails);
            self.trace.event(now, [16, u64::from(node.0), life, u64::from(fails)], || {
                format!("{} has {}made a block", name_of(node), if fails { "not " } else { "" })
            });
            self.poke(node);
        }
    }

    pub(super) fn on_password_tried(&mut self, node: NodeId, life: u64) {
        let fails = self.rng.chance(1, 50) && !self.healed;
        if self.put_off(node, Event::PasswordTried(node, life)) {
            return;
        }
        let now = self.now;
        if let Some(running) = self.process(node, life) {
            running.try_password(fails);
            self.trace.event(now, [31, u64::from(node.0), life, u64::from(fails)], || {
                format!("{} has {}tried a password", name_of(node), if fails { "not " } else { "" })
            });
            self.poke(node);
        }
    }

    pub(super) fn on_reception_part(&mut self, node: NodeId, life: u64) {
        if self.put_off(node, Event::ReceptionPart(node, life)) {
            return;
        }
        let now = self.now;
        if self.machine(node).stalled_until > now {
            let at = self.machine(node).stalled_until;
            return self.queue.push(at, Event::ReceptionPart(node, life));
        }
        if self.crashes_in_transfer(node, life) {
            return;
        }
        let fails = if self.rng.chance(1, 100) && !self.healed { Some(self.rng.chance(1, 2)) } else { None };
        let disk = self.machine(node).disk.clone();
        let Some(running) = self.process(node, life) else { return };
        let result = running.take_blocks(&disk, fails);
        self.trace.event(now, [17, u64::from(node.0), life, u64::from(result == Ok(true))], || {
            format!("{} takes blocks: {result:?}", name_of(node))
        });
        match result {
            Ok(more) => {
                self.poke(node);
                if more {
                    let at = self.after_reading();
                    self.queue.push(at, Event::ReceptionPart(node, life));
                }
            }
            Err(death) => self.on_death(node, death),
        }
    }

    /// A process ends because of what its disk did.
    pub(super) fn on_death(&mut self, node: NodeId, death: Death) {
        match death {
            Death::Violation(text) | Death::Refused(text) => {
                self.violate("journal order", format!("{}: {text}", name_of(node)));
            }
            Death::Arranged(text) => {
                self.die(node, false, &text);
                let delay = self.rng.between(10 * MS, SECOND);
                self.start_in(delay, node);
            }
        }
    }

    /// Ends a process. With `power`, its machine loses what was not synced.
    pub(super) fn die(&mut self, node: NodeId, power: bool, reason: &str) {
        let now = self.now;
        let mut fuse = self.rng.below(8) as u32;
        let tears = power && self.chaos.torn_sectors;
        let machine = self.machine(node);
        let Some(mut running) = machine.running.take() else { return };
        if tears && running.is_committing {
            // Written, and not synced.
            fuse = 1;
        }
        if running.is_writing() && !machine.disk.is_blown() {
            machine.disk.light_fuse(fuse);
            running.write_last_words(&machine.disk);
        }
        let probes = running.node.take_probes();
        let counted = running.close();
        if power {
            machine.disk.lose_power();
        }
        machine.disk.repair();
        machine.life += 1;
        machine.installed = 0;
        machine.disturbed_at = now;
        machine.dark = power;
        for (probe, count) in probes.into_iter().chain(counted) {
            *self.probes.entry(probe).or_default() += count;
        }
        self.network.troubles.died(node.0, now);
        self.addresses.forget(node);
        self.keys.forget(node);
        self.note_room(node);
        let number = digest_of(reason.as_bytes());
        self.trace.event(now, [7, u64::from(node.0), u64::from(power), number], || {
            format!("{} ends: {reason}{}", name_of(node), if power { ", power lost" } else { "" })
        });
        for peer in self.nodes() {
            if peer != node && self.network.break_link(node, peer, now) {
                // A killed process's peers hear of it at once, those of a dark machine when they lose patience.
                let delay = if power { self.rng.between(200 * MS, 3 * SECOND) } else { self.rng.below(2 * MS) };
                self.queue.push(now + delay, Event::LinkDown(peer, node));
            }
            self.network.forget(node, peer);
        }
        self.drop_connections_of(node, power);
    }
}

fn level_name(level: Level) -> &'static str {
    match level {
        Level::Debug => "debug",
        Level::Info => "info",
        Level::Warning => "warning",
        Level::Error => "error",
    }
}
