//! Clients that wait until there is something for them: `BLPOP` and the others that begin with `B`, `XREAD` and `XREADGROUP` with `BLOCK` (see `waiting/streams.rs`).
//!
//! Such a command goes into the log as any other, and what it finds there it takes. If it finds nothing, nobody but this node knows that somebody waits: it keeps the command, watches what it
//! applies, and when something has come to one of the keys the command goes into the log again. So waiting is not bound to a leader, nothing is taken for a client that is gone, and
//! of two nodes whose clients wait for the same element the log decides which one gets it; the other waits on.
//!
//! On one node those who have waited longest go first. As many are sent on their way at a time as there are elements for them.

mod streams;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base::limits::WAITING_BYTES_MAX;
use base::{PartitionId, Time};
use bytes::Bytes;
use data::room::is_growing;
use data::value::Kind as ValueKind;
use data::waiting::{Wait, offered};
use data::{Change, ChangeKind, Failure, Reply};

use crate::door::{ConnectionId, Planted};
use crate::entry::Kind;
use crate::node::{Node, place_of};
use crate::router::{Finished, Waiter};
use crate::session::{Block, Session};
use crate::tracking::Tracked;

pub(crate) use streams::settled;

const TOO_MANY: Failure = Failure::Text("ERR too many clients wait on this node; the command was not done");
/// Redis's text for clients that have to look elsewhere.
const STOPPING: Failure =
    Failure::Text("UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)");

/// Bytes that somebody who waits counts beside the command and the keys.
const OVERHEAD_BYTES: usize = 256;

/// How somebody stops waiting before there is something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unblock {
    /// As if the time were up.
    Timeout,
    /// `CLIENT UNBLOCK id ERROR`.
    Error,
}

/// One command that waits.
#[derive(Debug)]
struct Waiting {
    connection: ConnectionId,
    slot: u64,
    partition: PartitionId,
    wait: Wait,
    /// When the time is up; none: never.
    until: Option<Time>,
    /// Its entry, or the words of a read; none while that is on its way.
    body: Option<Bytes>,
    /// What it reads is noted, as its client keeps it.
    tracks: bool,
    on_all: bool,
    /// It has found nothing at least once.
    has_rested: bool,
    /// Something has come to one of its keys while its command was on its way: of a partition whose state is elsewhere.
    again: bool,
    unblock: Option<Unblock>,
    bytes: usize,
}

/// Who waits for a key, in the order in which they came: each kind of value has its own, so that an element of a list is not looked for among those who wait for
/// entries of a stream.
#[derive(Debug, Default)]
struct Waiters {
    lists: BTreeSet<u64>,
    sorted_sets: BTreeSet<u64>,
    streams: BTreeSet<u64>,
}

impl Waiters {
    fn of(&self, kind: ValueKind) -> &BTreeSet<u64> {
        match kind {
            ValueKind::SortedSet => &self.sorted_sets,
            ValueKind::Stream => &self.streams,
            _ => &self.lists,
        }
    }

    fn of_mut(&mut self, kind: ValueKind) -> &mut BTreeSet<u64> {
        match kind {
            ValueKind::SortedSet => &mut self.sorted_sets,
            ValueKind::Stream => &mut self.streams,
            _ => &mut self.lists,
        }
    }

    fn is_empty(&self) -> bool {
        self.lists.is_empty() && self.sorted_sets.is_empty() && self.streams.is_empty()
    }
}

/// Everybody who waits on this node.
#[derive(Debug, Default)]
pub(crate) struct WaitingRoom {
    /// In the order in which they came.
    all: BTreeMap<u64, Waiting>,
    by_key: BTreeMap<(PartitionId, Vec<u8>), Waiters>,
    by_time: BTreeSet<(Time, u64)>,
    /// Keys to look at: something has come to them, or somebody who could have taken it has not.
    touched: BTreeSet<(PartitionId, Vec<u8>)>,
    next: u64,
    bytes: usize,
}

impl WaitingRoom {
    /// Whether anybody waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// How many keys somebody waits for.
    pub(crate) fn keys(&self) -> usize {
        self.by_key.len()
    }

    /// Whether anybody waits for keys of a partition.
    pub(crate) fn is_for(&self, partition: PartitionId) -> bool {
        let from = (partition, Vec::new());
        self.by_key.range(from..).next().is_some_and(|((of, _), _)| *of == partition)
    }

    /// The partition whose keys somebody waits for.
    pub(crate) fn partition_of(&self, number: u64) -> Option<PartitionId> {
        self.all.get(&number).map(|waiting| waiting.partition)
    }

    /// Whether its command has found nothing before.
    pub(crate) fn has_rested(&self, number: u64) -> bool {
        self.all.get(&number).is_some_and(|waiting| waiting.has_rested)
    }

    fn enter(&mut self, waiting: Waiting) -> u64 {
        let number = self.next;
        self.next += 1;
        self.bytes += waiting.bytes;
        for key in &waiting.wait.keys {
            let waiters = self.by_key.entry((waiting.partition, key.clone())).or_default();
            waiters.of_mut(waiting.wait.kind).insert(number);
        }
        self.by_time.extend(waiting.until.map(|until| (until, number)));
        self.all.insert(number, waiting);
        number
    }

    /// Somebody waits no more. Others may get what he has not taken.
    pub(crate) fn leave(&mut self, number: u64) {
        let Some(waiting) = self.all.remove(&number) else { return };
        self.bytes -= waiting.bytes;
        if let Some(until) = waiting.until {
            self.by_time.remove(&(until, number));
        }
        let kind = waiting.wait.kind;
        for key in waiting.wait.keys {
            let place = (waiting.partition, key);
            if let Some(others) = self.by_key.get_mut(&place) {
                others.of_mut(kind).remove(&number);
                if others.is_empty() {
                    self.by_key.remove(&place);
                } else {
                    self.touched.insert(place);
                }
            }
        }
    }

    /// An entry has made changes.
    pub(crate) fn on_changes(&mut self, partition: PartitionId, changes: &[Change]) {
        if self.all.is_empty() {
            return;
        }
        for change in changes {
            match change.kind {
                ChangeKind::Flushed => return self.touch_all(partition),
                ChangeKind::Deadline => continue,
                // Who waits as a consumer of a group is told that this is gone with its key.
                ChangeKind::Set | ChangeKind::Deleted | ChangeKind::Expired | ChangeKind::Evicted => {}
            }
            let place = (partition, change.key.to_vec());
            if self.by_key.contains_key(&place) {
                self.touched.insert(place);
            }
        }
    }

    /// A partition has another state, and nobody knows what has changed.
    pub(crate) fn touch_all(&mut self, partition: PartitionId) {
        let keys = self.by_key.keys().filter(|(of, _)| *of == partition).cloned();
        self.touched.extend(keys);
    }

    /// Whose time is up and who can be told so.
    fn due(&self, now: Time) -> Vec<u64> {
        let up = self.by_time.iter().take_while(|(until, _)| *until <= now).map(|(_, number)| *number);
        up.filter(|number| self.all.get(number).is_some_and(|waiting| waiting.body.is_some())).collect()
    }
}

/// What somebody who waits takes, whose command takes so much.
fn bytes_of(wait: &Wait, bytes: usize) -> usize {
    let keys: usize = wait.keys.iter().map(|key| 2 * key.len() + OVERHEAD_BYTES).sum();
    OVERHEAD_BYTES + bytes + keys
}

impl Node {
    /// Carries out a command that waits if it finds nothing.
    pub(crate) fn submit_waiting(
        &mut self,
        session: &mut Session,
        partition: PartitionId,
        wait: Wait,
        body: Bytes,
        grows: bool,
    ) {
        let bytes = body.len();
        if !self.has_place_for(&wait, bytes) {
            return self.refuse(session, &TOO_MANY);
        }
        let Some(slot) = self.submit_write(session, partition, (Kind::Command, grows), body) else { return };
        self.let_wait(session, partition, wait, slot, bytes);
    }

    fn has_place_for(&self, wait: &Wait, bytes: usize) -> bool {
        self.waiting.bytes.saturating_add(bytes_of(wait, bytes)) <= WAITING_BYTES_MAX
    }

    /// What was just submitted waits if it finds nothing.
    fn let_wait(&mut self, session: &mut Session, partition: PartitionId, wait: Wait, slot: u64, bytes: usize) {
        let bytes = bytes_of(&wait, bytes);
        let timeout = Duration::from_millis(wait.timeout_ms);
        let until = (wait.timeout_ms > 0).then(|| self.now.time + timeout);
        let number = self.waiting.enter(Waiting {
            connection: session.id,
            slot,
            partition,
            wait,
            until,
            body: None,
            tracks: session.tracked.as_deref().is_some_and(Tracked::notes_reads),
            on_all: false,
            has_rested: false,
            again: false,
            unblock: None,
            bytes,
        });
        session.block = Some(Block::Waiting { slot, number });
    }

    /// A write of a connection has been applied: whether its client waits on, since it has found nothing.
    pub(crate) fn waits_on(&mut self, connection: ConnectionId, slot: u64, finished: &Finished, reply: &Reply) -> bool {
        let Some(Some(session)) = self.sessions.get(&connection) else { return false };
        let Some(Block::Waiting { slot: waiting, number }) = session.block else { return false };
        if waiting != slot || !matches!(reply, Reply::Nil | Reply::NilArray) {
            return false;
        }
        self.rest(number, finished.body.clone(), finished.on_all)
    }

    /// Somebody has found nothing, and waits with this. False if he does not wait at all.
    fn rest(&mut self, number: u64, body: Bytes, on_all: bool) -> bool {
        let Some(partition) = self.waiting.all.get(&number).map(|waiting| waiting.partition) else { return false };
        let is_away = self.is_elsewhere(partition);
        let Some(waiting) = self.waiting.all.get_mut(&number) else { return false };
        waiting.body = Some(body);
        waiting.on_all = on_all;
        waiting.has_rested = true;
        let connection = waiting.connection;
        // Something may have come since the entry was applied, and he has not taken what was there for somebody. (Of what is elsewhere only its leader knows.)
        if std::mem::take(&mut waiting.again) || !is_away {
            let places: Vec<_> = waiting.wait.keys.iter().map(|key| (waiting.partition, key.clone())).collect();
            self.waiting.touched.extend(places);
        }
        self.probe("node: client waits for a key");
        let is_over = self.waiting.all.get(&number).is_some_and(|waiting| {
            waiting.unblock.is_some() || waiting.until.is_some_and(|until| until <= self.now.time)
        });
        let session = self.sessions.get(&connection).and_then(Option::as_ref);
        if session.is_some_and(|session| session.has_ended) {
            // Its command has looked once, as any other that was sent before the end; it does not wait.
            self.let_go(connection);
        } else if is_over || self.stopping.is_some() {
            self.stop_waiting(number);
        }
        true
    }

    /// Answers somebody who has waited in vain.
    fn stop_waiting(&mut self, number: u64) {
        let Some(waiting) = self.waiting.all.get(&number) else { return };
        let (connection, slot) = (waiting.connection, waiting.slot);
        let answer = match waiting.unblock {
            Some(Unblock::Error) => Reply::Error(Failure::Text("UNBLOCKED client unblocked via CLIENT UNBLOCK")),
            None if self.stopping.is_some() => Reply::Error(STOPPING),
            _ => Reply::NilArray,
        };
        self.deliver(connection, slot, &answer);
    }

    /// `CLIENT UNBLOCK`. Whether the connection waits.
    pub(crate) fn unblock(&mut self, connection: ConnectionId, how: Unblock) -> bool {
        let Some(Some(session)) = self.sessions.get(&connection) else { return false };
        match session.block {
            Some(Block::Waiting { number, .. }) => {
                let Some(waiting) = self.waiting.all.get_mut(&number) else { return false };
                waiting.unblock = Some(how);
                if waiting.body.is_some() {
                    self.stop_waiting(number);
                }
                true
            }
            Some(Block::Copies { slot, wanted, .. }) => {
                let written: Vec<_> = session.last_positions().collect();
                let answer = match how {
                    Unblock::Timeout => wanted.reply(self.replicas_with(&written)),
                    Unblock::Error => Reply::Error(Failure::Text("UNBLOCKED client unblocked via CLIENT UNBLOCK")),
                };
                self.deliver(connection, slot, &answer);
                true
            }
            _ => false,
        }
    }

    /// Sends those on their way for whom there is something.
    pub(crate) fn serve_waiting(&mut self) {
        // What they take is a write.
        if self.waiting.touched.is_empty() || self.pausing.is_on() {
            return;
        }
        for (partition, key) in std::mem::take(&mut self.waiting.touched) {
            let place = (partition, key);
            if !self.waiting.by_key.contains_key(&place) {
                continue;
            }
            let Some(g) = place_of(&self.groups, partition) else { continue };
            self.groups.wake(g);
            if self.groups[g].elsewhere.is_some() {
                self.serve_elsewhere(g, &place);
                continue;
            }
            let streams = self.first_waiting(&place, ValueKind::Stream, usize::MAX);
            self.serve_streams(g, &place.1, &streams);
            // The keys of all of them may be the same, but not what they want to find there.
            for kind in [ValueKind::List, ValueKind::SortedSet] {
                if self.waiting.by_key.get(&place).is_none_or(|waiters| waiters.of(kind).is_empty()) {
                    continue;
                }
                let there = offered(&self.groups[g].partition.tree, &place.1, kind);
                let there = usize::try_from(there).unwrap_or(usize::MAX);
                // Those on their way already may be the ones who get it; if not, the key is looked at again.
                for number in self.first_waiting(&place, kind, there) {
                    if !self.is_forgotten(number) && !self.send_waiting(g, number) {
                        // Writes are refused just now: later.
                        self.waiting.touched.insert(place.clone());
                    }
                }
            }
        }
    }

    /// Who waits for a value of this kind under a key, in order, so many at most.
    fn first_waiting(&self, place: &(PartitionId, Vec<u8>), kind: ValueKind, most: usize) -> Vec<u64> {
        let waiters = self.waiting.by_key.get(place);
        waiters.map_or_else(Vec::new, |waiters| waiters.of(kind).iter().copied().take(most).collect())
    }

    /// Sends those on their way who wait for a key whose state is elsewhere: how much there is for them nobody knows here. Of a list or a sorted set the first
    /// one goes, and the next when it has got something; of a stream all of them.
    fn serve_elsewhere(&mut self, g: usize, place: &(PartitionId, Vec<u8>)) {
        let of_kind = |(kind, most)| self.first_waiting(place, kind, most);
        let numbers: Vec<Vec<u64>> =
            [(ValueKind::List, 1), (ValueKind::SortedSet, 1), (ValueKind::Stream, usize::MAX)].map(of_kind).into();
        for number in numbers.into_iter().flatten() {
            let Some(waiting) = self.waiting.all.get_mut(&number) else { continue };
            let kind = waiting.wait.kind;
            if waiting.body.is_none() {
                waiting.again = true;
            } else if kind == ValueKind::Stream && waiting.wait.group.is_none() {
                self.read_elsewhere(g, number);
            } else if !self.is_forgotten(number) && !self.send_waiting(g, number) {
                self.waiting.touched.insert(place.clone());
            }
        }
    }

    /// The planted bug.
    fn is_forgotten(&self, number: u64) -> bool {
        self.config.planted == Some(Planted::WaitingForgotten) && number.is_multiple_of(4)
    }

    /// Sends the command of somebody who waits into the log again, unless it is on its way. False if that cannot be done now.
    fn send_waiting(&mut self, g: usize, number: u64) -> bool {
        let command = self.waiting.all.get(&number).and_then(|it| self.sessions.get(&it.connection)?.as_ref());
        let command = command.map_or("", |session| session.last_command);
        let grows = data::lookup(command.as_bytes()).is_none_or(|it| is_growing(it.spec, command));
        let refused = self.refusal(g, grows).is_some();
        let Some(waiting) = self.waiting.all.get_mut(&number) else { return true };
        if waiting.body.is_none() {
            return true;
        }
        if refused {
            return false;
        }
        let Some(body) = waiting.body.take() else { return true };
        let (connection, slot, on_all) = (waiting.connection, waiting.slot, waiting.on_all);
        let (now, deadline) = (self.now.time, self.now.time + self.config.request_timeout);
        let id = self.groups[g].id();
        let router = &mut self.groups[g].router;
        let sequence = router.write(Kind::Command, body, Waiter::Client { connection, slot }, now, deadline);
        if let Some(write) = router.get_mut(sequence) {
            write.on_all = on_all;
        }
        if let Some(Some(session)) = self.sessions.get_mut(&connection) {
            let command = session.last_command;
            let lane = session.open_lane(id);
            lane.last_write = sequence;
            if let Some(write) = self.groups[g].router.get_mut(sequence) {
                write.command = command;
                write.reads_before = !lane.reads.is_empty();
            }
        }
        self.probe("node: waiting client found something");
        true
    }

    /// At every tick: tells those whose time is up, and all of them if the node stops.
    pub(crate) fn end_waits(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let over = match self.stopping {
            Some(_) => self.waiting.all.iter().filter(|(_, it)| it.body.is_some()).map(|(number, _)| *number).collect(),
            None => self.waiting.due(self.now.time),
        };
        for number in over {
            self.stop_waiting(number);
        }
    }

    /// A bucket is gone, and those who wait for its keys wait for nothing.
    pub(crate) fn end_waits_of(&mut self, partition: PartitionId, told: &Failure) {
        let waiting: Vec<_> = self.waiting.all.values().filter(|waiting| waiting.partition == partition).collect();
        let places: Vec<_> = waiting.iter().map(|waiting| (waiting.connection, waiting.slot)).collect();
        for (connection, slot) in places {
            self.deliver(connection, slot, &Reply::Error(told.clone()));
        }
    }
}
