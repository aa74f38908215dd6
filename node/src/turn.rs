//! The end of a turn: what arrived in it is applied, answered, proposed, stored and sent, each once for all.

mod comparing;
mod copies;
mod elsewhere;
mod evictions;
mod feeds;
pub(crate) mod flushes;
mod guests;
pub(crate) mod reads;
mod rest;
mod snapshots;
mod stop;
mod writes;

use base::limits::PAYLOAD_BYTES_TARGET;
use base::{NodeId, WallTime};
use data::{Failure, Reply};
use paxos::Input as Step;
use std::time::Duration;

use crate::access::lease;
use crate::audit;
use crate::clock::{Context, Source};
use crate::council::COUNCIL;
use crate::door::{ConnectionId, JournalWrite, Level, Outbox, Planted, Rubbish};
use crate::entry::Kind;
use crate::group::Group;
use crate::keyring;
use crate::newcomers;
use crate::node::{Node, Stopping, TICK_EVERY};
use crate::outcast;
use crate::partition::Partition;
use crate::passwords;
use crate::peer::PeerMessage;
use crate::reply;
use crate::router::{Asked, ReadKind, SEND_AGAIN_AFTER, Waiter};
use crate::session::{Block, Gathered};
use crate::subscriptions;
use crate::subscriptions::attaching::Answered;
use crate::testimony;
use crate::trimming;
use crate::words::{self, Terms};

/// How often a leader with a full disk tries to give its leadership away.
const ESCAPE_EVERY: Duration = Duration::from_secs(1);
/// A turn settles within a few passes: each pass answers what the one before it made answerable.
const PASSES_MAX: usize = 8;

const NO_LEADER: &str = "CLUSTERDOWN no leader with a majority was found in time; the command was not done";
const NOT_SO_FAR: &str = "CLUSTERDOWN this node has not come as far as the token in time; the command was not done, ask again or another node";
const UNKNOWN: &str = "UNKNOWN the outcome was not known in time; the command may or may not have been done";

impl Node {
    pub(crate) fn end_turn(&mut self, out: &mut Outbox) {
        if self.now.time >= self.next_tick {
            self.tick();
        }
        self.turn_work = 0;
        for id in std::mem::take(&mut self.apply_later) {
            self.groups.place_of(id).into_iter().for_each(|g| self.groups.wake(g));
        }
        self.groups.for_each_in_turn(|group| group.wishes.evicted.clear());
        self.let_large_writes_go();
        // Before those whose reads are confirmed in this turn: else these would have all the room, again and again.
        self.go_on();
        for _ in 0..PASSES_MAX {
            self.for_each_in_pass(Node::settle_left);
            self.for_each_in_pass(Node::apply_decided);
            self.follow_council();
            self.for_each_in_pass(|node, g| {
                node.settle_writes(g);
                node.settle_copies(g);
                node.settle_reads(g);
            });
            lease::look(self);
            lease::settle_changes(self);
            self.look_at_waits();
            self.serve_waiting();
            self.let_large_writes_go();
            self.go_on();
            self.for_each_in_pass(|node, g| {
                node.pump(g);
                node.flush_proposed(g);
                let group = &mut node.groups[g];
                group.partition.settle_memory(node.now.time, &mut node.batch, &mut group.wishes);
            });
            if self.config.planted == Some(Planted::AnswerBeforeFsync) {
                self.pretend_persisted(out);
            }
            if !self.groups.next_pass() && self.resume.is_empty() {
                break;
            }
        }
        self.for_each_in_turn(|node, g| {
            let group = &mut node.groups[g];
            group.partition.announce(&mut node.batch, &mut group.wishes);
            group.partition.replica.end_turn();
            node.send_feeds(g);
            node.send_outcomes(g);
            node.send_wishes(g);
        });
        self.send_invalidations();
        subscriptions::glue::tell(self);
        self.send_bulletins();
        self.ride_along();
        self.consider_snapshots(out);
        self.compare(out);
        self.run_backups(&mut out.make_blocks);
        if let Some(trouble) = self.groups.iter_in_turn().find_map(|group| group.partition.tree.trouble()) {
            // What was read or applied since may be wrong: nothing of it leaves this node.
            self.fatal.get_or_insert_with(|| format!("the store cannot be read: {trouble}"));
        }
        self.consider_stop();
        self.hand_out(out);
        let (now, soon) = (self.now, self.now.time + TICK_EVERY);
        let gives_way =
            self.disk.is_low() || self.is_drained() || self.slow_part().is_some() || self.clock.is_outside();
        self.groups
            .end_turn(soon, |group| group.due(now, gives_way, self.disk.is_full(), &self.config, &self.unflushed));
        out.wake_at = Some(self.plan());
    }

    /// For those groups that are not done in this pass, and those that are touched meanwhile.
    fn for_each_in_pass(&mut self, what: impl Fn(&mut Node, usize)) {
        let mut number = 0;
        while let Some(g) = self.groups.in_pass(number) {
            what(self, g);
            number += 1;
        }
    }

    /// For those groups that were touched in this turn, and those that are touched meanwhile.
    fn for_each_in_turn(&mut self, what: impl Fn(&mut Node, usize)) {
        let mut number = 0;
        while let Some(g) = self.groups.in_turn(number) {
            what(self, g);
            number += 1;
        }
    }

    /// For those groups that have something to do, and those that wake meanwhile.
    fn for_each_awake(&mut self, what: impl Fn(&mut Node, usize)) {
        let mut number = 0;
        while let Some(g) = self.groups.awake(number) {
            what(self, g);
            number += 1;
        }
    }

    /// Applies what is decided, up to what a turn may cost. Reads that stand before one of the writes on its connection are served just before it.
    fn apply_decided(&mut self, g: usize) {
        let partition = &self.groups[g].partition;
        if partition.applied >= partition.replica.decided() {
            return;
        }
        let is_followed = !self.groups[g].followers.is_empty();
        // While it is elsewhere that clients are answered from, they are told there what changes, too.
        let is_home = self.groups[g].elsewhere.is_none();
        self.groups[g].partition.names_events = (is_home && self.wants_key_events()) || is_followed;
        let Partition { last_uses, tree, .. } = &mut self.groups[g].partition;
        last_uses.turn(self.now.time, tree.len());
        let eager = self.news.iter().filter(|(_, ping)| ping.waits).map(|(node, _)| *node);
        self.groups[g].partition.eager.clear();
        self.groups[g].partition.eager.extend(eager);
        let is_told = (is_home && (self.tracking.is_wanted() || !self.waiting.is_empty())) || is_followed;
        self.groups[g].partition.tells_changes = is_told && self.groups[g].id() != COUNCIL;
        while let Some(next) = self.groups[g].partition.next_entry() {
            if self.turn_work >= self.config.turn_work_max {
                self.probe("node: entries left to the next turn");
                let id = self.groups[g].id();
                if !self.apply_later.contains(&id) {
                    self.apply_later.push(id);
                }
                return;
            }
            let group = &mut self.groups[g];
            let own = group.partition.own_write(&next);
            if let Some(sequence) = own
                && let Some(write) = group.router.get_mut(sequence)
                && write.reads_before
                && let Waiter::Client { connection, slot } = write.waiter
            {
                self.run_reads_before(g, connection, slot);
            }
            let origin = next.origin();
            let shows = own.is_some() && !self.monitors.is_empty();
            let group = &mut self.groups[g];
            if shows {
                group.partition.tree.called().begin(true);
            }
            let applying = &self.config.applying;
            applying.begin(group.partition.id, group.partition.applied.next());
            group.partition.apply(next, &mut group.wishes);
            applying.end();
            if shows {
                self.show_called(g);
            }
            let group = &mut self.groups[g];
            let meter = group.partition.tree.meter();
            self.turn_work = self.turn_work.saturating_add(meter.spent());
            if meter.is_over() {
                self.probe("node: entry over its budget");
            }
            if is_followed {
                self.feed_applied(g, origin);
            }
            let group = &mut self.groups[g];
            if !is_home && !own.is_some_and(|sequence| group.router.waits_for(sequence)) {
                // Its client has its answer from elsewhere, and with it came what its script published.
                group.wishes.published.clear();
            }
            if !group.wishes.records.is_empty() || group.wishes.unrecorded {
                subscriptions::glue::applied(self, g);
            }
            if !self.groups[g].wishes.changes.is_empty() {
                self.invalidate_applied(g, own);
            }
            if self.groups[g].partition.tells_changes
                && let Some(sequence) = own
            {
                self.remember_transaction(g, sequence);
            }
            let group = &mut self.groups[g];
            if group.partition.applied <= group.events_told || !is_home {
                group.wishes.key_events.clear();
            }
            if !self.groups[g].wishes.key_events.is_empty() {
                self.tell_key_events(g);
            }
            self.publish_of_scripts(g);
            let group = &self.groups[g];
            if group.wishes.fatal.is_some() {
                return;
            }
        }
        self.note_held(g);
    }

    /// What an entry has changed is told to those who keep copies; `own`: the number of this node's write that it was.
    fn invalidate_applied(&mut self, g: usize, own: Option<u64>) {
        let write = own.and_then(|sequence| self.groups[g].router.get_mut(sequence));
        let writer = write.and_then(|write| match write.waiter {
            Waiter::Client { connection, .. } => Some(connection),
            Waiter::Nobody => None,
        });
        self.invalidate_changed(g, writer);
    }

    /// A transaction of this node has been applied: what it has read may be kept from here on.
    fn remember_transaction(&mut self, g: usize, sequence: u64) {
        let group = &mut self.groups[g];
        let partition = group.id();
        let Some(write) = group.router.get_mut(sequence).filter(|write| write.tracks) else { return };
        let (Waiter::Client { connection, .. }, body) = (write.waiter, write.body.clone()) else { return };
        if let Ok((_, body)) = Terms::split(Kind::Transaction, &body) {
            let keys = words::keys_read(ReadKind::Transaction, body);
            self.remember_keys(partition, keys.into_iter(), connection);
        }
    }

    fn pretend_persisted(&mut self, out: &mut Outbox) {
        self.seal();
        out.journal.append(&mut self.sealed);
        let (time, number) = (self.now.time, self.next_number - 1);
        self.groups.for_each_in_turn(|group| {
            group.partition.on_persisted(time, number, &mut self.batch, &mut group.wishes);
        });
    }

    fn tick(&mut self) {
        let time = self.now.time;
        self.tick_pace(time.since(self.next_tick));
        self.tick_movement();
        self.next_tick = time + TICK_EVERY;
        let is_round = self.tick_pings();
        if is_round || !self.clock.is_set() {
            self.look_at_clocks();
        }
        if is_round {
            self.weigh_changes();
            self.tick_outlived();
            trimming::tick(self);
            lease::tick(self);
            subscriptions::glue::keep_recording(self);
            self.tick_founding();
            self.tick_bulletins();
        }
        self.tell_replicas();
        self.follow_elsewhere();
        self.leave_partitions();
        self.lead_council();
        self.tick_step_over();
        self.tell_settled();
        newcomers::tick(self);
        testimony::tick(self);
        outcast::tick(self);
        self.tell_zone();
        self.tell_address();
        keyring::tell(self);
        self.tick_comparison();
        self.groups.wake_due(time);
        self.for_each_awake(Node::tick_group);
        self.look_at_pause();
        self.end_waits();
        self.look_at_guesses();
        passwords::tick(self);
        audit::tick(self);
        subscriptions::glue::tick(self);
        self.relieve();
        self.watch_contact();
        self.stats.sample(self.now);
    }

    /// Compares the nodes' clocks.
    pub(crate) fn look_at_clocks(&mut self) {
        let me = self.config.me;
        let peers: Vec<NodeId> =
            self.roll.iter().map(|(id, _)| id).filter(|id| *id != me && !self.registry.left_behind(*id)).collect();
        let (is_settled, was_set) = (self.clock.source() == Source::Majority, self.clock.is_set());
        let log_time = if is_settled {
            WallTime::default()
        } else {
            let logs = self.groups.iter().map(|group| group.partition.tree.time());
            logs.filter(|time| *time > WallTime::default()).min().unwrap_or_default()
        };
        let roll = &self.roll;
        let name_of = |id| roll.get(id).map_or_else(|| id.to_string(), |member| member.name.clone());
        let news = self.clock.look(&Context { peers: &peers, log_time }, name_of);
        for (level, text) in news {
            self.probe("node: clocks disagree");
            self.event(level, text);
        }
        self.tell_time();
        if !was_set && self.clock.is_set() {
            // Replicas may stand for elections from now on. Those that sleep have not been told of the time that has passed.
            self.groups.iter_mut().for_each(drop);
        }
        if self.clock.was_set_lately(self.now.time) {
            // Those whose logs are ahead have something to do, though nothing comes to them.
            for g in 0..self.groups.len() {
                if self.is_ahead(g) {
                    self.groups.wake(g);
                }
            }
        }
    }

    /// The cluster's time as this node has it from a majority, if it does; and the latest to which a log of its partitions has come.
    #[must_use]
    pub fn times(&self) -> (Option<WallTime>, WallTime) {
        (self.clock.now().filter(|_| self.clock.source() == Source::Majority), self.log_time())
    }

    pub(crate) fn log_time(&self) -> WallTime {
        self.groups.iter().map(|group| group.partition.tree.time()).max().unwrap_or_default()
    }

    /// Takes over what the cluster's time is now: no time at all while it is not known, and nothing is over then.
    pub(crate) fn tell_time(&mut self) {
        let own = self.config.planted == Some(Planted::OwnTime);
        self.now.wall = if own { self.clock.own() } else { self.clock.now().unwrap_or_default() };
    }

    fn tick_group(&mut self, g: usize) {
        let time = self.now.time;
        // A node that does not know the time yet stands for nothing.
        if self.clock.is_set() {
            self.step_replica(g, Step::Tick);
        }
        self.tick_transfers(g);
        self.expire(g);
        self.tell_read(g);
        self.come_home(g);
        self.refuse_overdue(g);
        self.forget_late_guests(g);
        self.refuse_held(g);
        let drained = self.is_drained();
        let escapes = self.escapes_its_disk(g);
        let group = &mut self.groups[g];
        let replica = &group.partition.replica;
        let stuck = escapes || (replica.is_held_back() && self.snapshot_fails);
        if (stuck || drained) && replica.leads().is_some() && time >= group.next_escape {
            group.next_escape = time + ESCAPE_EVERY;
            self.step_replica(g, Step::HandOver);
        } else if self.gives_way_to_quicker(g) {
            self.step_replica(g, Step::HandOver);
        }
    }

    /// Tells clients whose time is up.
    fn refuse_overdue(&mut self, g: usize) {
        let time = self.now.time;
        while let Some(write) = self.groups[g].router.writes.iter().find(|write| !write.done)
            && write.deadline <= time
        {
            let (sequence, sent) = (write.sequence, write.sent);
            self.probe(if sent { "node: write outcome unknown" } else { "node: write refused without a leader" });
            let Some(finished) = self.groups[g].router.finish(sequence) else { continue };
            if let Waiter::Client { connection, slot } = finished.waiter {
                self.note_write(connection, &finished);
                // A disk that is only low keeps nobody from leading: what grows was refused before it came to wait.
                let failure = match self.refusal_of_disks(g, false).filter(|_| !sent) {
                    Some(failure) => failure,
                    None if sent => Failure::Text(UNKNOWN),
                    None => self.no_leader(),
                };
                self.deliver(connection, slot, &Reply::Error(failure));
            }
        }
        // A read that waits for a write of this node is in no batch any more, and one that needs no confirmation never was.
        let id = self.groups[g].id();
        let router = &self.groups[g].router;
        let waiting: Vec<ConnectionId> =
            router.overdue(time).into_iter().chain(router.parked.iter().chain(&router.behind).copied()).collect();
        let waiting = waiting.into_iter().chain(self.carried_by(g));
        for connection in waiting.collect::<Vec<_>>() {
            let mut refused = false;
            while let Some(Some(session)) = self.sessions.get_mut(&connection)
                && let Some(read) = session.lane(id).and_then(|lane| lane.reads.front().copied())
                && read.deadline <= time
            {
                reads::note_read(&mut self.slow, self.clock.latest(), session, id, &read);
                if let Some(lane) = session.lane_mut(id) {
                    lane.pop_read_if(|_| true);
                }
                self.probe("node: read refused without a leader");
                let failure = if read.floor.is_some() { Failure::Text(NOT_SO_FAR) } else { self.no_leader() };
                self.deliver(connection, read.slot, &Reply::Error(failure));
                refused = true;
            }
            if refused {
                // What it waited for was for that read: the next one may have all that it wants.
                self.look_weakly(g, connection);
            }
        }
        self.run_parked(g);
    }

    /// Why there is no leader.
    fn no_leader(&self) -> Failure {
        match self.awaits_founders() {
            Some(text) => Failure::built(format!("CLUSTERDOWN {text}; the command was not done").as_bytes()),
            None => Failure::Text(NO_LEADER),
        }
    }

    fn deliver_error(&mut self, connection: ConnectionId, slot: u64, text: &'static str) {
        self.deliver(connection, slot, &Reply::Error(Failure::Text(text)));
    }

    /// Gives a client's command its reply.
    pub(crate) fn deliver(&mut self, connection: ConnectionId, slot: u64, answer: &Reply) {
        let token = self.token_made(connection, slot).filter(|_| *answer == Reply::Ok);
        let token = token.map(|token| Reply::bulk(token.as_bytes()));
        let answer = token.as_ref().unwrap_or(answer);
        let Some(Some(session)) = self.sessions.get_mut(&connection) else { return };
        let (slot, gathered) = match session.gather(slot, answer) {
            Gathered::Whole => (slot, None),
            Gathered::Waits => return,
            Gathered::All(slot, reply) => (slot, Some(reply)),
        };
        let answer = gathered.as_ref().unwrap_or(answer);
        if let Reply::Error(failure) = answer {
            self.stats.note_error(failure);
        }
        let waited = match session.block {
            Some(Block::Waiting { slot: waiting, number }) if waiting == slot => Some(number),
            _ => None,
        };
        let mut merge = session.take_merge(slot);
        let opened = match subscriptions::glue::answered(self, connection, slot, answer) {
            Answered::AsItIs => None,
            Answered::Instead(reply) => Some(reply),
            Answered::Later => return,
        };
        let answer = opened.as_ref().unwrap_or(answer);
        audit::answered(self, connection, slot, answer);
        if let Some(merge) = merge.as_mut().filter(|merge| !merge.later.is_empty() && matches!(answer, Reply::Array(_)))
        {
            self.run_later(connection, merge);
        }
        let Some(Some(session)) = self.sessions.get_mut(&connection) else { return };
        let blocked = session.block.is_some() || session.paused;
        match merge {
            Some(merge) => session.deliver(slot, |writer| crate::transaction::write_merged(writer, &merge, answer)),
            None => session.deliver(slot, |writer| reply::write(writer, answer)),
        }
        session.push_afterwards();
        if !session.dirty {
            session.dirty = true;
            self.dirty.push(connection);
        }
        if let Some(number) = waited {
            self.waiting.leave(number);
        }
        let Some(Some(session)) = self.sessions.get_mut(&connection) else { return };
        if blocked || !session.backlog.is_empty() || session.closing {
            self.resume(connection);
        }
    }

    /// The token that this reply stands for, if it stands for one.
    fn token_made(&mut self, connection: ConnectionId, slot: u64) -> Option<String> {
        let place = self.tokens_made.iter().position(|(of, at, _)| (*of, *at) == (connection, slot))?;
        Some(self.tokens_made.remove(place).2)
    }

    /// Sends writes to the leader and asks it for read positions.
    fn pump(&mut self, g: usize) {
        let time = self.now.time;
        let leader = self.leader_of(g);
        let router = &mut self.groups[g].router;
        let ballot = leader.map(|(_, ballot)| ballot);
        if ballot.is_some() && ballot != router.leader {
            router.leader = ballot;
            router.ask_again_confirmed();
            router.send_again();
            router.progress_at = time;
        }
        let is_gone =
            |(Asked::Round { ballot: under, .. } | Asked::Ticket { ballot: under, .. }): &Asked| Some(*under) != ballot;
        if router.asked.iter().any(|(asked, ..)| is_gone(asked)) {
            router.ask_anew(is_gone);
        }
        let sends_again = !router.writes.is_empty() && time.since(router.progress_at) >= SEND_AGAIN_AFTER;
        if sends_again {
            router.progress_at = time;
            router.send_again();
        }
        if sends_again {
            self.probe("node: writes sent again");
        }
        if self.groups[g].elsewhere.is_some() {
            self.carry_reads(g, leader.map(|(leader, _)| leader));
        }
        let Some((leader, ballot)) = leader else { return };
        self.settle_life(g);
        self.outlive_earlier_lives(g);
        if leader == self.config.me {
            self.evict(g);
            self.propose_own(g);
            self.ask_own(g, ballot);
            self.tell_copies(g, ballot);
        } else {
            self.forward(g, leader);
            if self.groups[g].elsewhere.is_none() {
                self.ask_leader(g, leader, ballot);
            }
            self.ask_for_copies(g, leader, ballot);
        }
    }

    fn send_wishes(&mut self, g: usize) {
        let group = &mut self.groups[g];
        let partition = group.partition.id;
        if !group.wishes.events.is_empty() {
            let events = std::mem::take(&mut group.wishes.events);
            self.events.extend(events.iter().map(|(level, text)| group.log_line(*level, text)));
        }
        self.fatal = self.fatal.take().or(group.wishes.fatal.take());
        let mut send = std::mem::take(&mut group.wishes.send);
        for (to, message) in send.drain(..) {
            self.send(to, &PeerMessage::Paxos { partition, message });
        }
        self.groups[g].wishes.send = send;
        for to in std::mem::take(&mut self.groups[g].wishes.send_snapshot) {
            let time = self.now.time;
            // It asks again when it is back; a view that waited for it would be an old one.
            if !self.detectors.iter().any(|detector| detector.peer == to && detector.is_up(time)) {
                continue;
            }
            let block_bytes = self.config.snapshots.block_bytes;
            let Group { partition: held, transfers, .. } = &mut self.groups[g];
            let start = || (held.applied, held.applied_ballot, held.image().with_block_bytes(block_bytes));
            if let Some(message) = transfers.start(time, partition, to, start) {
                let name = self.name_of(to);
                self.probe("node: snapshot sent");
                self.event(Level::Info, format!("sends {name} a snapshot: its log ends before ours begins"));
                self.send(to, &message);
            }
        }
    }

    /// Begins another payload of the journal, if what was gathered and so many bytes more are too much for one.
    pub(crate) fn seal_before(&mut self, bytes: usize) {
        if self.batch.len() > 0 && self.batch.len() + bytes > PAYLOAD_BYTES_TARGET {
            self.probe("node: several payloads in a turn");
            self.seal();
        }
    }

    fn seal(&mut self) {
        if self.groups.iter_in_turn().any(|group| group.partition.has_records()) {
            let number = self.next_number;
            self.next_number += 1;
            let batch = &mut self.batch;
            self.groups.for_each_in_turn(|group| group.partition.seal(number, batch));
            self.slow.on_sealed(number, self.now.time);
            self.quickness.measure.on_sealed(number, self.now.time);
            self.sealed.push(JournalWrite { number, payload: self.batch.take() });
        }
    }

    /// Moves everything that was gathered to the owner.
    fn hand_out(&mut self, out: &mut Outbox) {
        self.seal();
        out.journal.append(&mut self.sealed);
        for (place, bytes) in self.peers_out.iter_mut().enumerate() {
            if !bytes.is_empty() {
                let spare = out.spare.pop().unwrap_or_default();
                out.peers.push((NodeId(place as u16), std::mem::replace(bytes, spare)));
            }
        }
        for connection in self.dirty.drain(..) {
            if let Some(Some(session)) = self.sessions.get_mut(&connection) {
                session.dirty = false;
                if session.has_said_enough() && !std::mem::replace(&mut session.resumes, true) {
                    self.resume.push(connection);
                }
                session.closing |= session.is_through();
                if !session.out.is_empty() {
                    session.out_peak = session.out_peak.max(session.out.len());
                    session.bytes_out += session.out.len() as u64;
                    self.stats.bytes_out += session.out.len() as u64;
                    out.clients.push((connection, std::mem::take(&mut session.out)));
                }
                if session.closing && session.pending() == 0 {
                    out.close.push(connection);
                }
            }
        }
        self.read_bytes = 0;
        out.close.append(&mut self.to_close);
        out.pause.append(&mut self.pauses);
        out.errands.append(&mut self.errands.new);
        out.password_work.extend(self.passwords.take_new());
        out.full_syncs.append(&mut self.full_syncs.new);
        out.limits.append(&mut self.pubsub.limits);
        out.caches = self.tell_caches().or(out.caches.take());
        out.roll = self.tell_roll().or(out.roll.take());
        out.clients_max = self.tell_clients_max().or(out.clients_max.take());
        out.logins = self.access.tell().or(out.logins.take());
        out.refuses_other_machines = self.tell_protected().or(out.refuses_other_machines.take());
        out.events.append(&mut self.events);
        if self.stopping == Some(Stopping::Stopped) {
            audit::end(self);
        }
        self.audit.take(&mut out.audit);
        out.rubbish.append(&mut self.rubbish);
        out.rubbish.extend(self.subscriptions.take_rubbish());
        self.groups.for_each_in_turn(|group| {
            out.rubbish.append(&mut group.wishes.rubbish);
            out.rubbish.extend(group.partition.tree.take_trash().into_iter().map(Rubbish::new));
        });
        if self.fatal.is_some() {
            out.fatal = self.fatal.take();
        }
        out.stopped = self.stopping == Some(Stopping::Stopped);
        out.removed = self.is_removed;
    }
}
