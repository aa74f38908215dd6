//! The end of a turn: what arrived in it is applied, answered, proposed, stored and sent, each once for all.

use base::limits::{ACCEPT_BYTES_TARGET, EXPIRE_BATCH_MAX};
use base::{NodeId, Position, Time, WallTime};
use bytes::Bytes;
use data::{Failure, Reply, View};
use paxos::{Input as Step, RoleName};
use std::time::Duration;

use crate::door::{ConnectionId, JournalWrite, Level, Outbox, Planted, SnapshotJob};
use crate::entry::{Kind, Origin};
use crate::node::{Node, PING_EVERY, Saving, Stopping, TICK_EVERY, news_of};
use crate::peer::{Forwarded, PeerMessage};
use crate::reply;
use crate::router::{ASK_AGAIN_AFTER, Asked, ReadBatch, ReadKind, SEND_AGAIN_AFTER, Waiter};
use crate::session::{Block, Read};
use crate::words::{self, Words};

/// How often the leader looks for keys whose time is up.
const EXPIRY_EVERY: Duration = Duration::from_millis(100);
/// How long after a failed snapshot the next is tried.
const SNAPSHOT_AGAIN_AFTER: Duration = Duration::from_secs(5);
/// How long a stopping node tries to hand over, and then to answer what it has taken.
const STOP_STEP_MAX: Duration = Duration::from_secs(2);
/// How often a leader with a full disk tries to give its leadership away.
const ESCAPE_EVERY: Duration = Duration::from_secs(1);
/// Records of a flushed store that are freed at each tick: some hundred microseconds' work.
const SWEEP_MAX: usize = 1000;
/// A turn settles within a few passes: each pass answers what the one before it made answerable.
const PASSES_MAX: usize = 8;

const PASSED: &str =
    "CLUSTERDOWN this node has caught up past the moment of this read; the command was not done, ask again";
const NO_LEADER: &str = "CLUSTERDOWN no leader with a majority was found in time; the command was not done";
const UNKNOWN: &str = "UNKNOWN the outcome was not known in time; the command may or may not have been done";

impl Node {
    pub(crate) fn end_turn(&mut self, out: &mut Outbox) {
        if self.now.time >= self.next_tick {
            self.tick();
        }
        for _ in 0..PASSES_MAX {
            self.apply_decided();
            self.settle_writes();
            self.settle_reads();
            self.look_at_waits();
            self.go_on();
            self.pump();
            self.step_replica(Step::Flush);
            if self.config.planted == Some(Planted::AnswerBeforeFsync) {
                self.pretend_persisted(out);
            }
            let settled = self.wishes.confirmed.is_none()
                && self.wishes.completed.is_empty()
                && self.resume.is_empty()
                && self.partition.applied >= self.decided_and_held();
            if settled {
                break;
            }
        }
        let mut wishes = std::mem::take(&mut self.wishes);
        self.partition.announce(&mut self.batch, &mut wishes);
        self.wishes = wishes;
        self.send_wishes();
        self.consider_snapshot(out);
        self.consider_stop();
        self.hand_out(out);
    }

    /// Applies what is decided. Reads that stand before one of the writes on its connection are served just before it.
    fn apply_decided(&mut self) {
        while let Some(next) = self.partition.next_entry() {
            if let Some(sequence) = self.partition.own_write(&next)
                && let Some(write) = self.router.get_mut(sequence)
                && write.reads_before
                && let Waiter::Client { connection, slot } = write.waiter
            {
                self.run_reads_before(connection, slot);
            }
            self.partition.apply(next, &mut self.wishes);
            if self.wishes.fatal.is_some() {
                return;
            }
        }
    }

    /// The last decided entry that can be applied: a hole in the log stops before it.
    fn decided_and_held(&self) -> Position {
        let replica = &self.partition.replica;
        match replica.log().hole() {
            Some((from, _)) if from <= replica.decided() => from.previous(),
            _ => replica.decided(),
        }
    }

    fn pretend_persisted(&mut self, out: &mut Outbox) {
        self.seal(out);
        let (time, number) = (self.now.time, self.next_number - 1);
        self.partition.on_persisted(time, number, &mut self.batch, &mut self.wishes);
    }

    fn tick(&mut self) {
        let time = self.now.time;
        self.next_tick = time + TICK_EVERY;
        self.tell_replica();
        self.step_replica(Step::Tick);
        if time >= self.next_ping {
            self.next_ping = time + PING_EVERY;
            let ping = PeerMessage::Ping(self.ping());
            for place in 0..self.detectors.len() {
                let peer = self.detectors[place].peer;
                self.send(peer, &ping);
            }
        }
        for (to, message) in self.transfers.tick(time, self.partition.id) {
            self.send(to, &message);
        }
        self.expire();
        self.refuse_overdue();
        if self.disk_full && self.partition.replica.leads().is_some() && time >= self.next_escape {
            self.next_escape = time + ESCAPE_EVERY;
            self.step_replica(Step::HandOver);
        }
        self.partition.tree.sweep(SWEEP_MAX);
        self.stats.sample(self.now);
    }

    /// The leader proposes the removal of keys whose time is up by its clock.
    fn expire(&mut self) {
        let (time, clock) = (self.now.time, self.now.wall);
        if time < self.next_expiry || self.partition.replica.leads().is_none() || self.disk_full {
            return;
        }
        self.next_expiry = time + EXPIRY_EVERY;
        if self.partition.tree.next_deadline().is_some_and(|deadline| deadline <= clock) {
            self.probe("node: key expired by the clock");
            self.propose_expiry(clock);
        }
    }

    /// Asks for an expiry entry of at least this time, unless one is under way. Returns its number.
    fn propose_expiry(&mut self, clock: WallTime) -> u64 {
        const _: () = assert!(EXPIRE_BATCH_MAX > 0);
        if let Some(number) = self.router.expiring {
            return number;
        }
        let body = Bytes::copy_from_slice(&clock.0.to_le_bytes());
        let deadline = self.now.time + self.config.request_timeout;
        let number = self.router.write(Kind::Expire, body, Waiter::Nobody, deadline);
        self.router.expiring = Some(number);
        number
    }

    /// Tells clients whose time is up.
    fn refuse_overdue(&mut self) {
        let time = self.now.time;
        while let Some(write) = self.router.writes.iter().find(|write| !write.done)
            && write.deadline <= time
        {
            let (sequence, sent) = (write.sequence, write.sent);
            self.probe(if sent { "node: write outcome unknown" } else { "node: write refused without a leader" });
            if let Some(Waiter::Client { connection, slot }) = self.router.finish(sequence) {
                self.deliver_error(connection, slot, if sent { UNKNOWN } else { NO_LEADER });
            }
        }
        // A read that waits for a write of this node is in no batch any more.
        let parked = self.router.parked.iter().copied();
        let waiting: Vec<ConnectionId> = self.router.overdue(time).into_iter().chain(parked).collect();
        for connection in waiting {
            loop {
                let session = self.sessions.get_mut(&connection).and_then(Option::as_mut);
                let Some(read) = session.and_then(|session| session.pop_read_if(|read| read.deadline <= time)) else {
                    break;
                };
                self.probe("node: read refused without a leader");
                self.deliver_error(connection, read.slot, NO_LEADER);
            }
        }
        self.run_parked();
    }

    fn deliver_error(&mut self, connection: ConnectionId, slot: u64, text: &'static str) {
        self.deliver(connection, slot, &Reply::Error(Failure::Text(text)));
    }

    /// Gives a client's command its reply.
    pub(crate) fn deliver(&mut self, connection: ConnectionId, slot: u64, answer: &Reply) {
        let Some(Some(session)) = self.sessions.get_mut(&connection) else { return };
        self.stats.errors += u64::from(matches!(answer, Reply::Error(_)));
        let blocked = session.block.is_some() || session.paused;
        match session.take_merge(slot) {
            Some(merge) => session.deliver(slot, |writer| crate::transaction::write_merged(writer, &merge, answer)),
            None => session.deliver(slot, |writer| reply::write(writer, answer)),
        }
        if !session.dirty {
            session.dirty = true;
            self.dirty.push(connection);
        }
        if (blocked || !session.backlog.is_empty() || session.closing) && !self.resume.contains(&connection) {
            self.resume.push(connection);
        }
    }

    /// Answers this node's writes that have been applied.
    fn settle_writes(&mut self) {
        if self.wishes.completed.is_empty() {
            return;
        }
        self.router.progress_at = self.now.time;
        let mut completed = std::mem::take(&mut self.wishes.completed);
        for done in completed.drain(..) {
            let Some(waiter) = self.router.finish(done.sequence) else { continue };
            if let Waiter::Client { connection, slot } = waiter {
                if let Some(Some(session)) = self.sessions.get_mut(&connection) {
                    session.last_position = done.position;
                }
                self.deliver(connection, slot, &done.reply);
            }
        }
        if self.wishes.completed.is_empty() {
            self.wishes.completed = completed;
        }
        self.run_parked();
    }

    /// Serves reads that are confirmed and whose position is applied.
    fn settle_reads(&mut self) {
        if let Some(confirmed) = self.wishes.confirmed.take() {
            self.on_reads_confirmed(confirmed);
        }
        if self.config.planted == Some(Planted::ReadWithoutConfirmation) {
            let (applied, clock) = (self.partition.applied, self.now.wall);
            let leads = self.partition.replica.leads();
            while let Some((Asked::Round { ballot, .. }, _, _)) = self.router.asked.front()
                && Some(*ballot) == leads
            {
                let Some((_, _, batch)) = self.router.asked.pop_front() else { break };
                self.router.ready.push_back((applied, clock, batch));
            }
        }
        while self.router.ready.front().is_some_and(|(position, _, _)| *position <= self.partition.applied) {
            let Some((_, clock, batch)) = self.router.ready.pop_front() else { break };
            for (connection, upto) in &batch.items {
                if let Some(Some(session)) = self.sessions.get_mut(connection) {
                    session.confirmed = session.confirmed.max(upto + 1);
                    session.clock = session.clock.max(clock);
                }
                self.run_reads(*connection);
            }
            self.router.recycle(batch);
        }
    }

    fn on_reads_confirmed(&mut self, confirmed: u64) {
        let leads = self.partition.replica.leads();
        let clock = self.now.wall;
        let mut place = 0;
        while place < self.router.asked.len() {
            match self.router.asked[place].0 {
                Asked::Round { ballot, round, position } if round <= confirmed && Some(ballot) == leads => {
                    if let Some((_, _, batch)) = self.router.asked.remove(place) {
                        self.router.ready.push_back((position, clock, batch));
                    }
                }
                _ => place += 1,
            }
        }
        let Some(ballot) = leads else { return self.queries.clear() };
        self.queries.retain(|query| query.ballot == ballot);
        while let Some(query) = self.queries.front().copied() {
            if query.round > confirmed {
                break;
            }
            self.queries.pop_front();
            let (partition, ticket, position) = (self.partition.id, query.ticket, query.position);
            // The asking node may not have heard yet that this much is decided.
            let decided = paxos::Message::Decided { ballot, decided: self.partition.replica.decided() };
            self.send(query.peer, &PeerMessage::Paxos { partition, message: decided });
            self.send(query.peer, &PeerMessage::ReadIndexReply { partition, ticket, position, clock, ballot });
        }
    }

    /// Serves a connection's confirmed reads, in order, until one that must wait for a write of this node.
    pub(crate) fn run_reads(&mut self, connection: ConnectionId) {
        loop {
            let floor = self.router.floor();
            let Some(Some(session)) = self.sessions.get_mut(&connection) else { return };
            let Some(read) = session.reads.front().copied() else { return };
            if read.slot >= session.confirmed || session.has_said_enough() {
                return;
            }
            let clock = session.clock;
            let waits_for = if read.after >= floor && self.router.get_mut(read.after).is_some() {
                Some(read.after)
            } else {
                self.run_read(connection, &read, clock)
            };
            if let Some(after) = waits_for {
                return self.park(connection, after);
            }
        }
    }

    /// Serves a connection's reads in slots before `slot`, whether confirmed or not: see the head of [`crate::router`].
    fn run_reads_before(&mut self, connection: ConnectionId, slot: u64) {
        loop {
            let session = self.sessions.get(&connection).and_then(Option::as_ref);
            let Some(read) = session.and_then(|session| session.reads.front().copied()) else { return };
            // The state's own time: a key that no entry has expired is there for everybody.
            if read.slot >= slot || self.run_read(connection, &read, WallTime(0)).is_some() {
                return;
            }
        }
    }

    /// Refuses the reads that stand before writes which an installed snapshot has completed (those from `from` on): the state
    /// that they should have seen was never here.
    fn refuse_reads_passed(&mut self, from: usize) {
        let passed: Vec<u64> = self.wishes.completed[from..].iter().map(|done| done.sequence).collect();
        for sequence in passed {
            let Some(write) = self.router.get_mut(sequence).filter(|write| write.reads_before) else { continue };
            let Waiter::Client { connection, slot } = write.waiter else { continue };
            loop {
                let session = self.sessions.get_mut(&connection).and_then(Option::as_mut);
                let Some(read) = session.and_then(|session| session.pop_read_if(|read| read.slot < slot)) else {
                    break;
                };
                self.deliver_error(connection, read.slot, PASSED);
            }
        }
    }

    /// The connection's next read waits for write `after`.
    fn park(&mut self, connection: ConnectionId, after: u64) {
        let Some(Some(session)) = self.sessions.get_mut(&connection) else { return };
        if let Some(read) = session.reads.front_mut() {
            read.after = after;
        }
        if !session.parked {
            session.parked = true;
            self.router.parked.push(connection);
        }
    }

    /// Looks again at connections whose reads wait for writes.
    fn run_parked(&mut self) {
        for connection in std::mem::take(&mut self.router.parked) {
            if let Some(Some(session)) = self.sessions.get_mut(&connection) {
                session.parked = false;
            }
            self.run_reads(connection);
        }
    }

    /// Serves the first read of a connection. If it has to wait for a write of this node first, returns that one's number.
    fn run_read(&mut self, connection: ConnectionId, read: &Read, clock: WallTime) -> Option<u64> {
        let Some(Some(session)) = self.sessions.get_mut(&connection) else { return None };
        let own_clock = self.config.planted == Some(Planted::ExpireByOwnClock);
        let clock = if own_clock { self.now.wall } else { clock };
        let view = View::new(&self.partition.tree, clock, self.rng.next_u64());
        let bytes = &session.read_bytes[read.start..read.end];
        let mut revisions = Vec::new();
        let answer = match read.kind {
            ReadKind::Command => Words::decode(bytes).map(|words| data::read(&view, words.as_slice())),
            ReadKind::Transaction => words::decode_transaction(bytes).map(|(watches, commands)| {
                let commands: Vec<&[&[u8]]> = commands.iter().map(Words::as_slice).collect();
                data::read_transaction(&view, &watches, &commands)
            }),
            ReadKind::Outcome => Ok(match data::outcome(&view, bytes) {
                Some(reply) => Reply::Array(vec![Reply::bulk(&b"applied"[..]), reply.clone()]),
                None => Reply::Nil,
            }),
            ReadKind::Revisions => Words::decode(bytes).map(|keys| {
                for key in keys.as_slice() {
                    revisions.push((key.to_vec(), data::watch_revision(&view, key)));
                }
                Reply::Ok
            }),
        };
        if view.met_expired() && !own_clock {
            // A key whose time is up by the leader's clock must be gone for everybody before anybody is told.
            self.probe("node: read met an expired key");
            return Some(self.propose_expiry(clock));
        }
        self.stats.reads += 1;
        session.watches.append(&mut revisions);
        session.pop_read_if(|_| true);
        let answer = answer.unwrap_or(Reply::Error(Failure::Text("ERR the command could not be read back")));
        self.deliver(connection, read.slot, &answer);
        None
    }

    /// Sends writes to the leader and asks it for read positions.
    fn pump(&mut self) {
        let time = self.now.time;
        let leader = self.partition.replica.leader();
        let ballot = leader.map(|(_, ballot)| ballot);
        if ballot.is_some() && ballot != self.router.leader {
            self.router.leader = ballot;
            self.router.send_again();
            self.router.progress_at = time;
        }
        let stale = |asked: &Asked, at: Time| match asked {
            Asked::Round { ballot: under, .. } => Some(*under) != ballot,
            Asked::Ticket { ballot: under, .. } => Some(*under) != ballot || time.since(at) >= ASK_AGAIN_AFTER,
        };
        if self.router.asked.iter().any(|(asked, at, _)| stale(asked, *at)) {
            self.probe("node: reads asked again");
            self.router.ask_again(stale);
        }
        if !self.router.writes.is_empty() && time.since(self.router.progress_at) >= SEND_AGAIN_AFTER {
            self.probe("node: writes sent again");
            self.router.progress_at = time;
            self.router.send_again();
        }
        let Some((leader, ballot)) = leader else { return };
        self.settle_life();
        if leader == self.config.me {
            self.propose_own();
            self.ask_own(ballot);
        } else {
            self.forward(leader);
            self.ask_leader(leader, ballot);
        }
    }

    /// Writes are numbered within a life, and later lives must compare greater. A node that finds out that its folder was
    /// lost gets an incarnation above all earlier ones while it recovers; until then it sends no writes.
    fn settle_life(&mut self) {
        if self.life_is_settled || self.partition.replica.role() == RoleName::Recovering {
            return;
        }
        self.life_is_settled = true;
        let incarnation = self.partition.replica.hard_state().incarnation;
        self.router.life.incarnation = incarnation;
        self.partition.life.incarnation = incarnation;
    }

    fn propose_own(&mut self) {
        if !self.router.has_unsent() || self.disk_full || !self.life_is_settled {
            return;
        }
        let (me, life, floor) = (self.config.me, self.router.life, self.router.floor());
        let (time, clock) = (self.now.time, self.now.wall);
        let mut next = None;
        for write in self.router.unsent() {
            if !write.done {
                let origin = Origin { node: me, life, sequence: write.sequence, floor };
                let seed = self.rng.next_u64();
                if !self.partition.propose(time, clock, seed, write.kind, origin, &write.body) {
                    break;
                }
                write.sent = true;
            }
            next = Some(write.sequence + 1);
        }
        self.router.send_from = next.unwrap_or(self.router.send_from);
    }

    /// The gathered batch, with what each of its connections has to be read by now.
    fn take_gathered(&mut self) -> ReadBatch {
        let mut batch = self.router.take_gathered();
        batch.items.retain_mut(|(connection, upto)| {
            let Some(Some(session)) = self.sessions.get_mut(connection) else { return false };
            session.gathered = false;
            session.reads.back().map(|read| *upto = read.slot).is_some()
        });
        batch
    }

    fn ask_own(&mut self, ballot: base::Ballot) {
        if self.router.gathering.items.is_empty() {
            return;
        }
        let replica = &mut self.partition.replica;
        let (Some(opening), decided) = (replica.opening(), replica.decided()) else { return };
        let Some(round) = replica.request_confirmation() else { return };
        let batch = self.take_gathered();
        let position = decided.max(opening);
        self.router.asked.push_back((Asked::Round { ballot, round, position }, self.now.time, batch));
    }

    fn forward(&mut self, leader: NodeId) {
        while self.router.has_unsent() && self.life_is_settled {
            let (life, floor) = (self.router.life, self.router.floor());
            let mut writes = Vec::new();
            let (mut bytes, mut next) = (0, None);
            for write in self.router.unsent() {
                if bytes >= ACCEPT_BYTES_TARGET {
                    break;
                }
                next = Some(write.sequence + 1);
                if !write.done {
                    bytes += write.body.len() + 32;
                    write.sent = true;
                    writes.push(Forwarded { kind: write.kind, sequence: write.sequence, body: write.body.clone() });
                }
            }
            let Some(next) = next else { return };
            self.router.send_from = next;
            let partition = self.partition.id;
            self.send(leader, &PeerMessage::Forward { partition, life, floor, writes });
        }
    }

    fn ask_leader(&mut self, leader: NodeId, ballot: base::Ballot) {
        // One question at a time: while it is under way the next batch gathers.
        if self.router.gathering.items.is_empty() || !self.router.asked.is_empty() {
            return;
        }
        let ticket = self.router.ticket();
        let batch = self.take_gathered();
        self.router.asked.push_back((Asked::Ticket { ballot, ticket }, self.now.time, batch));
        let partition = self.partition.id;
        self.send(leader, &PeerMessage::ReadIndex { partition, ticket });
    }

    fn send_wishes(&mut self) {
        let partition = self.partition.id;
        let mut send = std::mem::take(&mut self.wishes.send);
        for (to, message) in send.drain(..) {
            self.send(to, &PeerMessage::Paxos { partition, message });
        }
        self.wishes.send = send;
        for to in std::mem::take(&mut self.wishes.send_snapshot) {
            let time = self.now.time;
            let held = &self.partition;
            let start = || (held.applied, held.applied_ballot, held.image());
            if let Some(message) = self.transfers.start(time, partition, to, start) {
                let name = self.name_of(to);
                self.probe("node: snapshot sent");
                self.event(Level::Info, format!("sends {name} a snapshot: its log ends before ours begins"));
                self.send(to, &message);
            }
        }
    }

    fn consider_snapshot(&mut self, out: &mut Outbox) {
        if out.save_snapshot.is_some() {
            return;
        }
        if let Some(saving) = &self.saving {
            // A received state is saved as soon as no other snapshot is being written.
            if let Some(state) = &saving.install
                && !self.stats.snapshot_running
            {
                self.stats.snapshot_running = true;
                let image = crate::Image::new(state.position, state.ballot, &state.origins, &state.tree);
                let header = Bytes::copy_from_slice(&state.position.0.to_le_bytes());
                out.save_snapshot = Some(SnapshotJob { position: state.position, header, image });
            }
            return;
        }
        let partition = &self.partition;
        let due = partition.bytes_since_snapshot >= self.config.log_bytes_per_snapshot || partition.snapshot_wanted;
        if due && self.now.time >= self.next_snapshot && partition.applied > Position(0) && !self.disk_full {
            let position = partition.applied;
            let header = Bytes::copy_from_slice(&position.0.to_le_bytes());
            out.save_snapshot = Some(SnapshotJob { position, header, image: partition.image() });
            self.saving = Some(Saving { position, install: None });
            self.stats.snapshot_running = true;
            self.partition.bytes_since_snapshot = 0;
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
                    let before = self.wishes.completed.len();
                    self.partition.install(time, *state, &mut self.batch, &mut self.wishes);
                    if self.wishes.completed.len() > before {
                        self.probe("node: reply from an installed snapshot");
                    }
                    self.refuse_reads_passed(before);
                }
            }
            None => {
                let keep = self.config.log_entries_kept;
                self.step_replica(Step::SnapshotTaken { position, keep });
            }
        }
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
            self.partition.snapshot_wanted = true;
            self.next_snapshot = self.now.time + SNAPSHOT_AGAIN_AFTER;
        }
    }

    pub(crate) fn stop(&mut self) {
        if self.stopping.is_none() {
            self.stopping = Some(Stopping::HandingOver { until: self.now.time + STOP_STEP_MAX });
            self.step_replica(Step::HandOver);
        }
    }

    fn consider_stop(&mut self) {
        let time = self.now.time;
        let leads = self.partition.replica.leads().is_some();
        let alone = !self.detectors.iter().any(|detector| detector.is_up(time));
        match self.stopping {
            Some(Stopping::HandingOver { until }) => {
                if leads && !alone && !self.partition.replica.handing_over() {
                    self.step_replica(Step::HandOver);
                }
                if !leads || alone || time >= until {
                    self.stopping = Some(Stopping::Draining { until: time + STOP_STEP_MAX });
                }
            }
            Some(Stopping::Draining { until }) => {
                let pending = self.sessions.values().flatten().any(|session| session.pending() > 0);
                if !pending || time >= until {
                    self.probe("node: stopped in order");
                    self.stopping = Some(Stopping::Stopped);
                    let open: Vec<ConnectionId> = self.sessions.keys().copied().collect();
                    self.to_close.extend(open);
                }
            }
            Some(Stopping::Stopped) | None => {}
        }
    }

    /// Answers `WAIT`s that have what they want, or whose time is up.
    fn look_at_waits(&mut self) {
        let time = self.now.time;
        for connection in std::mem::take(&mut self.waits) {
            let Some(Some(session)) = self.sessions.get_mut(&connection) else { continue };
            let Some(Block::Copies { slot, wanted, timeout, mut until }) = session.block else { continue };
            if until.is_none() && session.pending_before(slot) == 0 {
                let forever = Time(u64::MAX);
                until = Some(if timeout == 0 { forever } else { time + Duration::from_millis(timeout) });
                session.block = Some(Block::Copies { slot, wanted, timeout, until });
            }
            let over = until.is_some_and(|until| until <= time);
            let position = session.last_position;
            let copies = self.replicas_with(position);
            if until.is_some() && (copies >= wanted || over) {
                self.deliver(connection, slot, &Reply::Integer(copies));
            } else {
                self.waits.push(connection);
            }
        }
    }

    /// How many replicas beside the leader are known to have the log up to `position` on their disks.
    pub(crate) fn replicas_with(&self, position: Position) -> i64 {
        let replica = &self.partition.replica;
        let copies = match replica.leader() {
            Some((leader, _)) if leader == self.config.me => replica.copies(),
            Some((leader, _)) => {
                let news = self.news.get(&leader).and_then(|ping| news_of(ping, self.partition.id));
                news.map(|news| news.copies.clone()).unwrap_or_default()
            }
            None => Vec::new(),
        };
        let leader = replica.leader().map(|(leader, _)| leader);
        copies.iter().filter(|(node, last)| Some(*node) != leader && *last >= position).count() as i64
    }

    fn seal(&mut self, out: &mut Outbox) {
        if self.partition.has_records() {
            let number = self.next_number;
            self.next_number += 1;
            self.partition.seal(number, &mut self.batch);
            out.journal.push(JournalWrite { number, payload: self.batch.take() });
        }
    }

    /// Moves everything that was gathered to the owner.
    fn hand_out(&mut self, out: &mut Outbox) {
        self.seal(out);
        for (place, bytes) in self.peers_out.iter_mut().enumerate() {
            if !bytes.is_empty() {
                let spare = out.spare.pop().unwrap_or_default();
                out.peers.push((NodeId(place as u16), std::mem::replace(bytes, spare)));
            }
        }
        for connection in self.dirty.drain(..) {
            if let Some(Some(session)) = self.sessions.get_mut(&connection) {
                session.dirty = false;
                if session.has_said_enough() {
                    self.resume.push(connection);
                }
                if !session.out.is_empty() {
                    session.bytes_out += session.out.len() as u64;
                    self.stats.bytes_out += session.out.len() as u64;
                    out.clients.push((connection, std::mem::take(&mut session.out)));
                }
                if session.closing && session.pending() == 0 {
                    out.close.push(connection);
                }
            }
        }
        out.close.append(&mut self.to_close);
        out.pause.append(&mut self.pauses);
        out.events.append(&mut self.wishes.events);
        if self.wishes.fatal.is_some() {
            out.fatal = self.wishes.fatal.take();
        }
        out.stopped = self.stopping == Some(Stopping::Stopped);
        out.wake_at = Some(if self.resume.is_empty() { self.next_tick } else { self.now.time });
    }
}
