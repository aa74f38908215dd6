//! Reads: their batches are confirmed, and each is served from this node's own state once that has come far enough.
//! How they stand between the writes of their connection: [`crate::router`].

use std::time::Duration;

use base::limits::{OUTPUT_HELD_BYTES_MAX, TURN_READ_BYTES_MAX};
use base::{NodeId, Now, PartitionId, Position, Revision, WallTime};
use data::{Failure, Reply, View};
use paxos::RoleName;

use crate::access;
use crate::commands::nodes;
use crate::council::{self, COUNCIL};
use crate::door::{ConnectionId, Planted};
use crate::group::Group;
use crate::lane::Read;
use crate::node::{Node, place_of};
use crate::partition::Partition;
use crate::peer::PeerMessage;
use crate::registry::Registry;
use crate::router::{ASK_AGAIN_AFTER, Asked, ReadBatch, ReadKind, Ready, Waiter};
use crate::session::{Block, Session};
use crate::slow::Slow;
use crate::transfer::movement::Felt;
use crate::usage::Uses;
use crate::waiting::settled;
use crate::words::{self, Words};

/// How old a state may be said to be before it is asked for anew.
const AGE_EVERY: Duration = Duration::from_millis(100);

const TOO_MUCH_HELD: &str =
    "ERR more than 256 MiB of answers wait for this client to read them; the command was not done";
const _: () = assert!(OUTPUT_HELD_BYTES_MAX == 256 << 20, "the text says so");
const FALSE_TOKEN: &str = "ERR the token stands for a state that has never been";
const RECOVERING: &str =
    "CLUSTERDOWN this node's replica has lost its memory and is recovering; the command was not done, ask another node";
const PASSED: &str =
    "CLUSTERDOWN this node has caught up past the moment of this read; the command was not done, ask again";

impl Node {
    /// Serves reads that are confirmed and whose position is applied.
    pub(super) fn settle_reads(&mut self, g: usize) {
        if let Some(confirmed) = self.groups[g].wishes.confirmed.take() {
            self.on_reads_confirmed(g, confirmed);
        }
        if self.config.planted == Some(Planted::ReadWithoutConfirmation) {
            let Group { partition, router, .. } = &mut self.groups[g];
            let (applied, clock) = (partition.applied, self.now.wall);
            let leads = partition.replica.leads();
            while let Some((Asked::Round { ballot, .. }, _, _)) = router.asked.front()
                && Some(*ballot) == leads
            {
                let Some((_, asked_at, batch)) = router.asked.pop_front() else { break };
                router.ready.push_back(Ready { position: applied, clock, asked_at: Some(asked_at), batch });
            }
        }
        let (id, applied) = (self.groups[g].id(), self.groups[g].partition.applied);
        while self.groups[g].router.ready.front().is_some_and(|ready| ready.position <= applied) {
            let router = &mut self.groups[g].router;
            let Some(Ready { clock, asked_at, mut batch, .. }) = router.ready.pop_front() else { break };
            router.fresh_at = router.fresh_at.max(asked_at);
            if let Some(asked_at) = asked_at.filter(|_| id == COUNCIL) {
                self.access.lease.on_proof(asked_at);
            }
            for (connection, upto) in &batch.items {
                if let Some(Some(session)) = self.sessions.get_mut(connection)
                    && let Some(lane) = session.lane_mut(id)
                {
                    lane.confirmed = lane.confirmed.max(upto + 1);
                    lane.clock = lane.clock.max(clock);
                    self.run_reads(g, *connection);
                }
            }
            for guests in std::mem::take(&mut batch.guests) {
                self.serve_guests(g, guests, clock);
            }
            self.groups[g].router.recycle(batch);
        }
        self.settle_weak_reads(g);
    }

    /// Serves reads that need no confirmation: new ones, and those that wait until the state has come far enough.
    fn settle_weak_reads(&mut self, g: usize) {
        let Group { partition, router, .. } = &mut self.groups[g];
        if router.behind_at != partition.applied {
            router.weak.append(&mut router.behind);
            router.weak.sort_unstable();
            router.weak.dedup();
            router.behind_at = partition.applied;
        }
        if router.weak.is_empty() {
            return;
        }
        let is_stale = router.fresh_at.is_none_or(|at| self.now.time.since(at) >= AGE_EVERY);
        router.age_wanted = is_stale && router.asked.is_empty() && router.ready.is_empty();
        let (id, recovering) = (partition.id, partition.replica.role() == RoleName::Recovering);
        for connection in std::mem::take(&mut router.weak) {
            let Some(Some(session)) = self.sessions.get_mut(&connection) else { continue };
            let Some(lane) = session.lane_mut(id) else { continue };
            lane.weak = false;
            if let Some(read) = lane.pop_read_if(|read| recovering && read.floor == Some(Revision(0))) {
                self.deliver_error(connection, read.slot, RECOVERING);
                self.look_weakly(g, connection);
            } else {
                self.run_reads(g, connection);
            }
        }
    }

    /// If the connection's next read needs no confirmation, it is looked at in the next pass. It may be in a list already, which does no
    /// harm.
    pub(super) fn look_weakly(&mut self, g: usize, connection: ConnectionId) {
        if self.groups[g].elsewhere.is_some() {
            return self.gather_away(g, connection);
        }
        let id = self.groups[g].id();
        if let Some(Some(session)) = self.sessions.get_mut(&connection)
            && let Some(lane) = session.lane_mut(id)
        {
            lane.weak = lane.reads.front().is_some_and(|read| read.floor.is_some());
            if lane.weak {
                self.groups[g].router.weak.push(connection);
            }
        }
    }

    fn on_reads_confirmed(&mut self, g: usize, confirmed: u64) {
        let leads = self.groups[g].partition.replica.leads();
        let clock = self.now.wall;
        let router = &mut self.groups[g].router;
        let mut place = 0;
        while place < router.asked.len() {
            match router.asked[place].0 {
                Asked::Round { ballot, round, position } if round <= confirmed && Some(ballot) == leads => {
                    if let Some((_, asked_at, batch)) = router.asked.remove(place) {
                        router.ready.push_back(Ready { position, clock, asked_at: Some(asked_at), batch });
                    }
                }
                _ => place += 1,
            }
        }
        let Some(ballot) = leads else { return self.groups[g].queries.clear() };
        self.groups[g].queries.retain(|query| query.ballot == ballot);
        while let Some(query) = self.groups[g].queries.front().copied().filter(|query| query.round <= confirmed) {
            self.groups[g].queries.pop_front();
            self.answer_read_index(g, query);
        }
    }

    /// As [`Node::run_reads`], of all partitions.
    pub(crate) fn run_all_reads(&mut self, connection: ConnectionId) {
        let Some(Some(session)) = self.sessions.get_mut(&connection) else { return };
        let waiting = session.lanes.iter().filter(|lane| !lane.reads.is_empty()).map(|lane| lane.partition);
        let waiting: Vec<PartitionId> = waiting.collect();
        for partition in waiting {
            if let Some(g) = place_of(&self.groups, partition) {
                self.run_reads(g, connection);
            }
        }
    }

    /// Serves a connection's confirmed reads of a partition, in order, until one that must wait for a write of this node.
    pub(crate) fn run_reads(&mut self, g: usize, connection: ConnectionId) {
        if self.groups[g].elsewhere.is_some() {
            return;
        }
        let id = self.groups[g].id();
        loop {
            let Some(Some(session)) = self.sessions.get_mut(&connection) else { return };
            let says_enough = session.has_said_enough() || session.is_clogged();
            let Some(lane) = session.lane_mut(id) else { return };
            let Some(read) = lane.reads.front().copied() else { return };
            let floor = self.groups[g].router.floor();
            let waits_for_leader = read.floor.is_none() && read.slot >= lane.confirmed;
            if waits_for_leader || says_enough {
                return;
            }
            let clock = lane.clock;
            if self.read_bytes >= TURN_READ_BYTES_MAX {
                return self.resume(connection);
            }
            if let Some(floor) = read.floor
                && (self.groups[g].partition.tree.revision() < floor || self.groups[g].partition.applied == Position(0))
                && self.config.planted != Some(Planted::StaleSession)
            {
                if session.lane_mut(id).is_some_and(|lane| !std::mem::replace(&mut lane.weak, true)) {
                    self.groups[g].router.behind.push(connection);
                }
                return self.probe("node: read waited for its token");
            }
            let waits_for = if read.after >= floor && self.groups[g].router.get_mut(read.after).is_some() {
                Some(read.after)
            } else {
                self.run_read(g, connection, &read, clock)
            };
            if let Some(after) = waits_for {
                return self.park(g, connection, after);
            }
        }
    }

    /// Serves a connection's reads in slots before `slot`, whether confirmed or not: see the head of [`crate::router`].
    pub(super) fn run_reads_before(&mut self, g: usize, connection: ConnectionId, slot: u64) {
        if self.groups[g].elsewhere.is_some() {
            return;
        }
        let id = self.groups[g].id();
        loop {
            let Some(Some(session)) = self.sessions.get_mut(&connection) else { return };
            let held = session.out.len() + session.ready_bytes() + session.unread;
            let Some(lane) = session.lane_mut(id) else { return };
            let Some(read) = lane.reads.front().copied() else { return };
            if read.slot < slot && held > OUTPUT_HELD_BYTES_MAX {
                // It cannot be answered later, as the state will be another one.
                lane.pop_read_if(|_| true);
                self.probe("node: read refused as too many answers wait");
                self.deliver_error(connection, read.slot, TOO_MUCH_HELD);
                continue;
            }
            if let Some(floor) = read.floor.filter(|_| read.slot < slot)
                && self.groups[g].partition.tree.revision() < floor
            {
                // The write entered the log after this read had arrived with a token, and is past everything that a token can stand for.
                lane.pop_read_if(|_| true);
                self.deliver_error(connection, read.slot, FALSE_TOKEN);
                continue;
            }
            // The state's own time: a key that no entry has expired is there for everybody.
            if read.slot >= slot || self.run_read(g, connection, &read, WallTime(0)).is_some() {
                return;
            }
        }
    }

    /// Refuses the reads that stand before writes which an installed snapshot has completed (those from `from` on): the state
    /// that they should have seen was never here.
    pub(super) fn refuse_reads_passed(&mut self, g: usize, from: usize) {
        let id = self.groups[g].id();
        let passed: Vec<u64> = self.groups[g].wishes.completed[from..].iter().map(|done| done.sequence).collect();
        for sequence in passed {
            let Some(write) = self.groups[g].router.get_mut(sequence).filter(|write| write.reads_before) else {
                continue;
            };
            let Waiter::Client { connection, slot } = write.waiter else { continue };
            loop {
                let session = self.sessions.get_mut(&connection).and_then(Option::as_mut);
                let lane = session.and_then(|session| session.lane_mut(id));
                let Some(read) = lane.and_then(|lane| lane.pop_read_if(|read| read.slot < slot)) else { break };
                self.deliver_error(connection, read.slot, PASSED);
            }
        }
    }

    /// The connection's next read waits for write `after`.
    fn park(&mut self, g: usize, connection: ConnectionId, after: u64) {
        let id = self.groups[g].id();
        let Some(Some(session)) = self.sessions.get_mut(&connection) else { return };
        let Some(lane) = session.lane_mut(id) else { return };
        if let Some(read) = lane.reads.front_mut() {
            read.after = after;
        }
        if !std::mem::replace(&mut lane.parked, true) {
            self.groups[g].router.parked.push(connection);
        }
    }

    /// Looks again at connections whose reads wait for writes.
    pub(super) fn run_parked(&mut self, g: usize) {
        let id = self.groups[g].id();
        for connection in std::mem::take(&mut self.groups[g].router.parked) {
            if let Some(Some(session)) = self.sessions.get_mut(&connection)
                && let Some(lane) = session.lane_mut(id)
            {
                lane.parked = false;
            }
            self.run_reads(g, connection);
        }
    }

    /// Serves the first read of a connection from a partition. If it has to wait for a write of this node first, returns that one's number.
    fn run_read(&mut self, g: usize, connection: ConnectionId, read: &Read, clock: WallTime) -> Option<u64> {
        if read.kind == ReadKind::Look {
            self.look(g, connection, read, clock);
            return None;
        }
        if read.kind == ReadKind::Backup {
            let reply = self.freeze_for_backup(g, connection);
            let lane = self.sessions.get_mut(&connection).and_then(Option::as_mut);
            if let Some(lane) = lane.and_then(|session| session.lane_mut(self.groups[g].id())) {
                lane.pop_read_if(|_| true);
            }
            self.deliver(connection, read.slot, &reply);
            return None;
        }
        let standings = if read.kind == ReadKind::Nodes { self.standings() } else { Vec::new() };
        let Some(Some(session)) = self.sessions.get_mut(&connection) else { return None };
        // A partition that was asleep has not heard how late it is. (And one that is read is awake: see the end of the turn.)
        let Partition { last_uses, tree, .. } = &mut self.groups[g].partition;
        last_uses.turn(self.now.time, tree.len());
        let own_clock = self.config.planted == Some(Planted::ExpireByOwnClock);
        let clock = if own_clock { self.clock.own() } else { clock };
        let tree = &self.groups[g].partition.tree;
        // Nobody was asked for the leader's clock: this node's is near enough, but hides nothing that no entry has expired.
        let asked_nobody = read.floor.is_some();
        let clock = if asked_nobody { self.now.wall } else { clock };
        let touches = !session.no_touch;
        let partition = &self.groups[g].partition;
        let id = partition.id;
        let forgets = self.config.planted == Some(Planted::IdleForgetsReads);
        let uses = Uses { last: &partition.last_uses, evicting: partition.evicting.as_deref(), forgets };
        let slots = self.groups[g].bucket.slots_of(id);
        let (version, work_max) = (self.entries_in, self.groups[g].bucket.settings.work_max());
        // A client that was given more than all of them may hold would be cut off for it.
        let answer_max = match self.tunables.clients_limit.bytes(self.config.memory_bytes) {
            0 => u64::MAX,
            most => most,
        };
        let seen_at = |clock, seed| {
            let view = View::new(tree, clock, seed).with_usage(&uses, touches).within(slots);
            view.with_work_max(work_max).with_answer_max(answer_max).in_version(version)
        };
        let mut view = seen_at(clock, self.rng.next_u64());
        let shows = !self.monitors.is_empty();
        if shows {
            tree.called().begin(true);
        }
        let lane = session.lane(id)?;
        let bytes = lane.words_of(read);
        let mut revisions: Vec<(Vec<u8>, Revision)> = Vec::new();
        let mut selected = None;
        let answer = match read.kind {
            ReadKind::Command | ReadKind::Transaction | ReadKind::Outcome | ReadKind::Revisions | ReadKind::Look => {
                let mut of_each = Vec::new();
                let mut answer = look_up(read.kind, bytes, &view, &mut of_each);
                if asked_nobody && view.met_expired() {
                    tree.called().begin(shows);
                    view = seen_at(WallTime(0), self.rng.next_u64());
                    of_each.clear();
                    answer = look_up(read.kind, bytes, &view, &mut of_each);
                }
                if read.kind == ReadKind::Revisions {
                    let keys =
                        Words::decode(bytes).map(|keys| keys.as_slice().iter().map(|key| key.to_vec()).collect());
                    revisions = keys.unwrap_or_else(|_| Vec::new()).into_iter().zip(of_each).collect();
                }
                answer
            }
            ReadKind::Buckets => Ok(council::answer(&self.groups[g].partition.tree, bytes)),
            ReadKind::Nodes => Ok(match Registry::read(&self.groups[g].partition.tree) {
                Ok(registry) => {
                    let (me, detectors, time) = (self.config.me, &self.detectors, self.now.time);
                    let is_up = |id| id == me || detectors.iter().any(|it| it.peer == id && it.is_up(time));
                    let (news, own) = (&self.news, self.movement.moves);
                    let said = |id| news.get(&id).map(|ping| ping.moves).unwrap_or_default();
                    let moves = |id| if id == me { own } else { said(id) };
                    let (links, own_newest) = (&self.links, self.config.newest);
                    let newest = |id| if id == me { Some(own_newest) } else { Some(links.get(&id)?.newest) };
                    nodes::answer(&registry, &self.roll, &standings, is_up, moves, newest)
                }
                Err(_) => Reply::Error(Failure::Text("ERR the council's registry is malformed")),
            }),
            ReadKind::Select => {
                let found = self.buckets.find(bytes).map(|bucket| bucket.id);
                let selects = found.and_then(|id| session.may_select(id).map(|()| id));
                Ok(selects.map_or_else(Reply::Error, |id| {
                    selected = Some(id);
                    Reply::Ok
                }))
            }
            ReadKind::Backup => Err(wire::Malformed),
        };
        if view.met_expired() && !own_clock && !asked_nobody {
            // A key whose time is up by the leader's clock must be gone for everybody before anybody is told.
            tree.called().begin(false);
            self.probe("node: read met an expired key");
            if let Some(failure) = self.why_nothing_expires(g) {
                if let Some(Some(session)) = self.sessions.get_mut(&connection)
                    && let Some(lane) = session.lane_mut(id)
                {
                    lane.pop_read_if(|_| true);
                }
                self.deliver(connection, read.slot, &Reply::Error(failure));
                return None;
            }
            return Some(self.propose_expiry(g, clock));
        }
        let wants_misses = self.tunables.notify.wants_misses() && view.lookups().1 > 0;
        let keys: Vec<Vec<u8>> = if wants_misses || read.tracks {
            let keys = words::keys_read(read.kind, bytes);
            keys.into_iter().map(<[u8]>::to_vec).collect()
        } else {
            Vec::new()
        };
        let is_missing = |key: &&Vec<u8>| wants_misses && !view.exists(data::KeyRef::new(key));
        let waits = match (&answer, session.block) {
            (Ok(Reply::NilArray), Some(Block::Waiting { slot, number })) if slot == read.slot => {
                Some((number, settled(&view, bytes)))
            }
            _ => None,
        };
        let missing: Vec<Vec<u8>> = keys.iter().filter(is_missing).cloned().collect();
        self.stats.reads += 1;
        if matches!(read.kind, ReadKind::Command | ReadKind::Transaction) {
            let (hits, misses) = view.lookups();
            self.stats.keyspace_hits += hits;
            self.stats.keyspace_misses += misses;
            let partition = &mut self.groups[g].partition;
            if let Some(evicting) = partition.evicting.as_mut().filter(|_| hits > 0) {
                let tells = partition.replica.leads().is_none();
                evicting.touch_read(read.kind, bytes, &partition.tree, touches, tells);
            }
        }
        note_read(&mut self.slow, self.clock.latest(), session, id, read);
        session.see(id, self.groups[g].partition.tree.revision());
        session.levels.read_from(self.groups[g].router.fresh_at);
        if let Some(bucket) = selected {
            session.has_selected(bucket);
        }
        let took = self.now.time.since(read.arrived);
        session.watches.extend(revisions);
        if let Some(lane) = session.lane_mut(id) {
            lane.pop_read_if(|_| true);
        }
        let answer = answer.unwrap_or(Reply::Error(Failure::Text("ERR the command could not be read back")));
        let is_answered = waits.is_none();
        match waits {
            Some((number, words)) => self.read_found_nothing(number, words),
            None => {
                let said_before = session.out.len();
                self.deliver(connection, read.slot, &answer);
                let said =
                    self.sessions.get(&connection).and_then(Option::as_ref).map_or(0, |session| session.out.len());
                self.read_bytes += said.saturating_sub(said_before);
            }
        }
        if shows {
            self.show_called(g);
        }
        let refused = self.groups[g].partition.tree.under_way().take_refused();
        if !refused.is_empty() {
            access::note_calls(self, (connection, read.slot), refused);
        }
        if is_answered {
            self.slow.durations.note(read.command, took);
            if matches!(answer, Reply::Error(_)) {
                self.slow.durations.note_failure(read.command);
            }
            self.movement.feel(Felt::Reads, took);
        }
        if read.tracks && is_answered {
            self.remember_keys(id, keys.iter().map(Vec::as_slice), connection);
        }
        self.tell_misses(g, &missing);
        None
    }

    /// The gathered batch, with what each of its connections has to be read by now.
    pub(super) fn take_gathered(&mut self, g: usize) -> ReadBatch {
        let mut batch = self.groups[g].router.take_gathered();
        let id = self.groups[g].id();
        batch.items.retain_mut(|(connection, upto)| {
            let Some(Some(session)) = self.sessions.get_mut(connection) else { return false };
            let Some(lane) = session.lane_mut(id) else { return false };
            lane.gathered = false;
            lane.reads.back().map(|read| *upto = read.slot).is_some()
        });
        batch
    }

    pub(super) fn ask_own(&mut self, g: usize, ballot: base::Ballot) {
        let group = &mut self.groups[g];
        if group.router.gathering.is_empty() && !group.router.age_wanted {
            return;
        }
        let replica = &mut group.partition.replica;
        let (Some(opening), decided) = (replica.opening(), replica.decided()) else { return };
        let Some(round) = replica.request_confirmation() else { return };
        group.router.age_wanted = false;
        let batch = self.take_gathered(g);
        let position = decided.max(opening);
        let asked_at = self.now.time;
        self.groups[g].router.asked.push_back((Asked::Round { ballot, round, position }, asked_at, batch));
    }

    pub(super) fn ask_leader(&mut self, g: usize, leader: NodeId, ballot: base::Ballot) {
        // One question at a time: while it is under way the next batch gathers.
        let (time, id) = (self.now.time, self.groups[g].id());
        let router = &mut self.groups[g].router;
        if let Some((Asked::Ticket { ticket, .. }, ..)) = router.asked.front()
            && time.since(router.question_at) >= ASK_AGAIN_AFTER
        {
            router.question_at = time;
            let ticket = *ticket;
            self.probe("node: reads asked again");
            let vouches = self.groups[g].partition.replica.vouches_for();
            return self.send(leader, &PeerMessage::ReadIndex { partition: id, ticket, vouches });
        }
        if (router.gathering.is_empty() && !router.age_wanted) || !router.asked.is_empty() {
            return;
        }
        router.age_wanted = false;
        router.question_at = time;
        let ticket = router.ticket();
        let batch = self.take_gathered(g);
        let group = &mut self.groups[g];
        group.router.asked.push_back((Asked::Ticket { ballot, ticket }, time, batch));
        let vouches = group.partition.replica.vouches_for();
        self.send(leader, &PeerMessage::ReadIndex { partition: id, ticket, vouches });
    }
}

/// What a state answers to a read of a partition of keys; of WATCH the revisions of its keys go to `revisions`.
pub(super) fn look_up(
    kind: ReadKind,
    bytes: &[u8],
    view: &View<'_>,
    revisions: &mut Vec<Revision>,
) -> Result<Reply, wire::Malformed> {
    view.tree().under_way().set(words::permit_of_read(kind, bytes)?);
    match kind {
        ReadKind::Command => Words::decode(bytes).map(|words| data::read(view, words.as_slice())),
        ReadKind::Transaction => words::decode_transaction(bytes).map(|(watches, commands)| {
            let commands: Vec<&[&[u8]]> = commands.iter().map(Words::as_slice).collect();
            data::read_transaction(view, &watches, &commands)
        }),
        ReadKind::Outcome => Ok(match data::outcome(view, bytes) {
            Some(reply) => Reply::Array(vec![Reply::bulk(&b"applied"[..]), reply.clone()]),
            None => Reply::Nil,
        }),
        ReadKind::Revisions => Words::decode(bytes).map(|keys| {
            revisions.extend(keys.as_slice().iter().map(|key| data::watch_revision(view, key)));
            Reply::Ok
        }),
        // They have ways of their own.
        ReadKind::Look | ReadKind::Buckets | ReadKind::Nodes | ReadKind::Select | ReadKind::Backup => {
            Err(wire::Malformed)
        }
    }
}

/// Tells the log of slow commands of a read that is being answered and that the session still holds.
pub(crate) fn note_read(slow: &mut Slow, now: Now, session: &Session, partition: PartitionId, read: &Read) {
    let took = now.time.since(read.arrived);
    if slow.wants(took)
        && let Some(lane) = session.lane(partition)
    {
        let words = words::of_read(read.kind, lane.words_of(read));
        slow.note(now.wall, took, &words, &session.address, &session.name);
    }
}
