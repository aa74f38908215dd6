//! Subscriptions: clients are told every change of the keys that they ask for, in order, and none is left out silently (`DICTUM.SUBSCRIBE`).
//!
//! Every replica derives the same changes with the same revisions. So a subscription is a cursor into the changes of each partition, and any replica can go on where another one
//! has stopped.
//!
//! ```text
//! entry applied ─► records ─► ring of the partition (ring.rs)
//!                              │ live: found by the key (index.rs)      │ behind: cursor, read bit by bit
//!                              ▼                                        ▼
//!                             connections that have read most of what they were sent
//! ```
//! 1. A subscription is *live* in a partition if it was told everything that the partition's live subscriptions were told ([`Watched::told`]). Otherwise it is *behind*, and has a
//!    cursor of its own.
//! 2. A live one whose connection takes nothing now is behind from there on. Nobody waits for it: what it has not been told stays in the ring as long as there is room, and is told later.
//! 3. Each time that a subscription goes on, the node compares its cursor with the ring's floor. If the floor has passed it, the subscriber is told a gap.
//! 4. A turn tells so many messages and looks at so many records at the most; the next turn goes on.
//!
//! Changes are recorded while somebody subscribes: a subscription puts an entry into the partition's log that turns recording on for a while ([`LEASE`]), on every replica alike.
//! Why so: `docs/decisions/2026-11-30-subscriptions.md`.

pub(crate) mod command;
pub(crate) mod filter;
mod frames;
pub(crate) mod glue;
mod index;
mod ring;
mod token;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use base::{BucketId, PartitionId, Position, Revision, Time};
use data::{ChangeRecord, Reply};
use wire::Protocol;

use crate::door::{ConnectionId, Planted};
use filter::{Filter, Kinds};
use frames::{Bodies, Reason};
use index::{Index, Listener};
use ring::{Missed, Rings};
use token::Token;

/// For so long an entry turns recording on. Nodes with subscriptions renew it when half of it has passed.
pub(crate) const LEASE: Duration = Duration::from_secs(600);
/// The longest time that an entry may give, in milliseconds.
const LEASE_MS_MAX: u64 = 24 * 3600 * 1000;
/// Messages that a turn sends at the most: about a millisecond's work.
const TURN_MESSAGES_MAX: usize = 4096;
/// Records that a turn looks at for subscriptions that are behind.
const TURN_RECORDS_MAX: usize = 8192;
/// Records that one of them looks at before it is another one's turn.
const RECORDS_AT_ONCE: usize = 1024;
/// How often a subscription is told how far it is, if something has changed that it was not told.
pub(crate) const PROGRESS_EVERY: Duration = Duration::from_secs(5);

/// The words that say how far a subscription is.
const LIVE: &str = "dictum.live";
const PROGRESS: &str = "dictum.progress";

/// Numbers the subscriptions of a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct SubscriptionId(pub u64);

/// How far a subscription is in one partition.
#[derive(Clone, Copy, Debug)]
struct Place {
    partition: PartitionId,
    /// It was told everything up to here; of a live one see [`Watched::told`].
    at: Revision,
    is_live: bool,
    /// It cannot be told what comes next, and why.
    gap: Option<Reason>,
}

#[derive(Debug)]
struct Subscription {
    connection: ConnectionId,
    /// The number that its bucket was made with, the history, and how many partitions there are: what its tokens say.
    bucket: BucketId,
    history: u64,
    partitions: u16,
    filter: Arc<Filter>,
    with_values: bool,
    /// Those in which it may be told something, in their order.
    places: Vec<Place>,
    /// It was told that it is live.
    is_live: bool,
    /// The sum of the revisions that it was last told to be at, and when.
    told: u64,
    told_at: Time,
}

/// A partition with subscriptions.
#[derive(Debug, Default)]
struct Watched {
    /// All live ones were told everything up to here.
    told: Revision,
    /// The next change was told to those up to this one.
    within: Option<SubscriptionId>,
    live: Index,
    /// How many subscriptions have a place in it.
    count: usize,
}

/// Why a connection takes no message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoRoom {
    /// It does in a later turn.
    Later,
    /// It has not read what it was sent.
    Full,
    Gone,
}

/// Where messages go.
pub(crate) trait Sink {
    /// The protocol of a connection that takes messages now.
    fn protocol(&self, connection: ConnectionId) -> Result<Protocol, NoRoom>;
    /// Sends a message, in two parts.
    fn send(&mut self, connection: ConnectionId, parts: [&[u8]; 2]);
    /// The subscription is over: it is none of the connection's any more.
    fn over(&mut self, connection: ConnectionId);
}

/// What a turn has told.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Told {
    pub messages: usize,
    pub gaps: usize,
    /// Live subscriptions that fell behind, and others that have become live.
    pub fell_behind: usize,
    pub came_live: usize,
    pub progress: usize,
}

/// A subscription that waits until recording is on.
#[derive(Debug)]
struct Opening {
    asked: Asked,
    id: SubscriptionId,
}

/// What a client asks for.
#[derive(Debug)]
pub(crate) struct Asked {
    pub bucket: BucketId,
    pub history: u64,
    pub partitions: u16,
    pub filter: Filter,
    pub with_values: bool,
    /// Where each partition begins: behind this revision, or now.
    pub from: Vec<(PartitionId, Option<Revision>)>,
    /// The token is of another history.
    pub is_of_another: bool,
}

/// See the file's head.
#[derive(Debug)]
pub(crate) struct Subscriptions {
    rings: Rings,
    all: BTreeMap<SubscriptionId, Subscription>,
    watched: BTreeMap<PartitionId, Watched>,
    of_connection: BTreeMap<ConnectionId, Vec<SubscriptionId>>,
    opening: BTreeMap<(ConnectionId, u64), Opening>,
    /// Partitions in which there may be something that live ones were not told.
    dirty: BTreeSet<PartitionId>,
    /// Those that are behind, each in one of these three: it goes on, it goes on in a later turn, or it waits until its connection has read more.
    behind: VecDeque<(SubscriptionId, PartitionId)>,
    later: Vec<(SubscriptionId, PartitionId)>,
    stalled: BTreeMap<ConnectionId, Vec<(SubscriptionId, PartitionId)>>,
    last: SubscriptionId,
    /// The subscription that was last asked whether it has made progress.
    hand: SubscriptionId,
    /// Words and bytes of all filters.
    filter_words: usize,
    filter_bytes: usize,
    found: Vec<Listener>,
    head: Vec<u8>,
    bodies: Bodies,
    /// When the turn is.
    now: Time,
    /// This node knows how its cluster is called now: see [`glue::knows_history`].
    knows_history: bool,
    /// How far the council's log went at the start of this process.
    pub council_until: Position,
    planted: Option<Planted>,
}

impl Subscriptions {
    pub(crate) fn new(memory_bytes_max: usize, planted: Option<Planted>) -> Subscriptions {
        Subscriptions {
            rings: Rings::new(memory_bytes_max),
            all: BTreeMap::new(),
            watched: BTreeMap::new(),
            of_connection: BTreeMap::new(),
            opening: BTreeMap::new(),
            dirty: BTreeSet::new(),
            behind: VecDeque::new(),
            later: Vec::new(),
            stalled: BTreeMap::new(),
            last: SubscriptionId(0),
            hand: SubscriptionId(0),
            filter_words: 0,
            filter_bytes: 0,
            found: Vec::new(),
            head: Vec::new(),
            bodies: Bodies::default(),
            now: Time::default(),
            knows_history: false,
            council_until: Position(0),
            planted,
        }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    /// Those of a connection.
    pub(crate) fn of(&self, connection: ConnectionId) -> &[SubscriptionId] {
        self.of_connection.get(&connection).map_or(&[], Vec::as_slice)
    }

    /// How many a connection has, those that wait for recording among them.
    fn count_of(&self, connection: ConnectionId) -> usize {
        let opening = self.opening.range((connection, 0)..=(connection, u64::MAX)).count();
        self.of(connection).len() + opening
    }

    /// The partitions in which a subscription may be told something.
    fn partitions_of(&self, id: SubscriptionId) -> Vec<PartitionId> {
        let places = self.all.get(&id).map(|subscription| &subscription.places);
        places.into_iter().flatten().map(|place| place.partition).collect()
    }

    /// A subscription, for its client: number, state, token, and what it is for.
    fn describe(&self, id: SubscriptionId) -> Option<Reply> {
        let subscription = self.all.get(&id)?;
        let filter = &subscription.filter;
        let mut words = if filter.all { vec![Reply::bulk("ALL")] } else { Vec::new() };
        let mut name = |word: &str, value: &[u8]| words.extend([Reply::bulk(word), Reply::bulk(value)]);
        filter.keys.iter().for_each(|key| name("KEY", key));
        filter.prefixes.iter().for_each(|prefix| name("PREFIX", prefix));
        filter.patterns.iter().for_each(|pattern| name("MATCH", &pattern.text));
        if filter.kinds != Kinds::ALL {
            filter.kinds.names().for_each(|kind| name("KIND", kind.as_bytes()));
        }
        let state = if subscription.places.iter().all(|place| place.is_live) { "live" } else { "behind" };
        let token = self.token_of(subscription).map_or(Reply::Nil, |token| Reply::bulk(token.to_string().as_bytes()));
        Some(Reply::Array(vec![Reply::Integer(frames::number(id.0)), Reply::bulk(state), token, Reply::Array(words)]))
    }

    /// What is kept of a partition, and from behind which revision on.
    fn kept(&self, partition: PartitionId) -> Option<(Revision, impl Iterator<Item = &ring::Recorded>)> {
        self.rings.kept(partition)
    }

    /// Bytes of the changes that are kept.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.rings.bytes()
    }

    /// True if there is something to be told in the next turn.
    pub(crate) fn goes_on(&self) -> bool {
        !self.behind.is_empty() || !self.dirty.is_empty()
    }

    /// True if there may be something to be told, in the next turn or a later one.
    pub(crate) fn has_work(&self) -> bool {
        self.goes_on() || !self.later.is_empty()
    }

    /// True if nobody subscribes.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty() && self.opening.is_empty()
    }

    /// The partitions in which somebody wants to be told something.
    pub(crate) fn partitions(&self) -> impl Iterator<Item = PartitionId> {
        self.watched.keys().copied()
    }

    /// An entry was applied, with these changes, to a state that had this revision.
    pub(crate) fn recorded(
        &mut self,
        partition: PartitionId,
        (before, stamp): (Revision, u64),
        records: Vec<ChangeRecord>,
    ) {
        self.rings.push(partition, before, stamp, records);
        if self.watched.contains_key(&partition) {
            self.dirty.insert(partition);
        }
    }

    /// What has changed in a partition was not recorded, or its state is another one.
    pub(crate) fn unrecorded(&mut self, partition: PartitionId) {
        self.rings.forget(partition);
        if self.watched.contains_key(&partition) {
            self.dirty.insert(partition);
        }
    }

    /// The state of a partition has this revision, and its changes are recorded from here on.
    pub(crate) fn begin(&mut self, partition: PartitionId, revision: Revision) {
        if self.rings.head(partition).is_none() {
            self.recorded(partition, (revision, 0), Vec::new());
        }
    }

    /// Takes note of a subscription that begins once a slot of its connection has its answer.
    fn wait(&mut self, (connection, slot): (ConnectionId, u64), asked: Asked) -> SubscriptionId {
        let (words, bytes) = asked.filter.size();
        (self.filter_words, self.filter_bytes) = (self.filter_words + words, self.filter_bytes + bytes);
        self.last.0 += 1;
        let id = self.last;
        self.opening.insert((connection, slot), Opening { asked, id });
        id
    }

    /// Begins the subscription that waits for this slot; `revisions`: what its partitions have come to. None if nothing waits for it. Answers its number, and its token.
    fn open(
        &mut self,
        (connection, slot): (ConnectionId, u64),
        revisions: &[Option<Revision>],
    ) -> Option<(SubscriptionId, Token)> {
        let Opening { asked, id } = self.opening.remove(&(connection, slot))?;
        let Asked { bucket, history, partitions, filter, with_values, from, is_of_another } = asked;
        let places = from.into_iter().zip(revisions).map(|((partition, from), revision)| {
            let is_ahead = from.zip(*revision).is_some_and(|(from, revision)| from > revision);
            let believes = self.planted == Some(Planted::TokenOfAnotherHistory);
            let is_of_another = (is_of_another || is_ahead) && !believes;
            let at = from.or(*revision).unwrap_or_default();
            let at = if is_ahead && believes { revision.unwrap_or_default() } else { at };
            let at = if self.planted == Some(Planted::ResumesOneLate) && from.is_some() { at.next() } else { at };
            Place { partition, at, is_live: false, gap: is_of_another.then_some(Reason::BegunAnew) }
        });
        let places: Vec<Place> = places.collect();
        for place in &places {
            self.watched.entry(place.partition).or_default().count += 1;
            self.behind.push_back((id, place.partition));
        }
        let subscription = Subscription {
            connection,
            bucket,
            history,
            partitions,
            filter: Arc::new(filter),
            with_values,
            places,
            is_live: false,
            told: 0,
            told_at: Time::default(),
        };
        let token = self.token_of(&subscription)?;
        self.all.insert(id, subscription);
        self.of_connection.entry(connection).or_default().push(id);
        Some((id, token))
    }

    /// The subscription that waits for this slot will not begin.
    fn give_up(&mut self, connection: ConnectionId, slot: u64) {
        if let Some(Opening { asked, .. }) = self.opening.remove(&(connection, slot)) {
            self.forget_filter(&asked.filter);
        }
    }

    fn forget_filter(&mut self, filter: &Filter) {
        let (words, bytes) = filter.size();
        (self.filter_words, self.filter_bytes) = (self.filter_words - words, self.filter_bytes - bytes);
    }

    /// Ends a subscription, if its connection is this one.
    pub(crate) fn end(&mut self, connection: ConnectionId, id: SubscriptionId) -> bool {
        if self.all.get(&id).is_none_or(|subscription| subscription.connection != connection) {
            return false;
        }
        let Some(subscription) = self.all.remove(&id) else { return false };
        for place in &subscription.places {
            let Some(watched) = self.watched.get_mut(&place.partition) else { continue };
            watched.count -= 1;
            if watched.count == 0 {
                self.watched.remove(&place.partition);
                self.dirty.remove(&place.partition);
            } else if place.is_live {
                watched.live.remove(id, &subscription.filter);
            }
        }
        self.forget_filter(&subscription.filter);
        if let Some(ids) = self.of_connection.get_mut(&connection) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.of_connection.remove(&connection);
                self.stalled.remove(&connection);
            }
        }
        true
    }

    /// The connection is gone, or wants to be told nothing more.
    pub(crate) fn leave(&mut self, connection: ConnectionId) {
        for id in self.of(connection).to_vec() {
            self.end(connection, id);
        }
        let waiting = self.opening.range((connection, 0)..=(connection, u64::MAX));
        let slots: Vec<u64> = waiting.map(|((_, slot), _)| *slot).collect();
        slots.into_iter().for_each(|slot| self.give_up(connection, slot));
    }

    /// A connection has read what it was sent.
    pub(crate) fn on_room(&mut self, connection: ConnectionId) {
        if let Some(stalled) = self.stalled.remove(&connection) {
            self.behind.extend(stalled);
        }
    }

    /// Nothing more can be told of a partition, for this reason.
    pub(crate) fn end_partition(&mut self, partition: PartitionId, reason: Reason) {
        self.rings.forget(partition);
        if self.watched.contains_key(&partition) {
            self.dirty.insert(partition);
            for (id, subscription) in &mut self.all {
                if let Some(place) = subscription.places.iter_mut().find(|place| place.partition == partition) {
                    place.gap.get_or_insert(reason);
                    if !place.is_live {
                        self.behind.push_back((*id, partition));
                    }
                }
            }
        }
    }

    /// Tells what there is to be told, up to what a turn may cost.
    pub(crate) fn tell(&mut self, now: Time, sink: &mut impl Sink) -> Told {
        let mut told = Told::default();
        self.now = now;
        self.behind.extend(self.later.drain(..));
        for partition in std::mem::take(&mut self.dirty) {
            if !self.tell_live(partition, sink, &mut told) {
                self.dirty.insert(partition);
            }
        }
        let mut records = 0;
        for _ in 0..self.behind.len() {
            if told.messages >= TURN_MESSAGES_MAX || records >= TURN_RECORDS_MAX {
                break;
            }
            let Some(next) = self.behind.pop_front() else { break };
            self.go_on(next, sink, &mut records, &mut told);
        }
        told
    }

    /// Tells live subscriptions what has changed in a partition. False if more is left than this turn may tell.
    fn tell_live(&mut self, partition: PartitionId, sink: &mut impl Sink, told: &mut Told) -> bool {
        loop {
            let Some(watched) = self.watched.get_mut(&partition) else { return true };
            if watched.live.is_empty() {
                // Nobody has to be told, and whoever is behind finds his place in the ring.
                (watched.told, watched.within) = (self.rings.head(partition).unwrap_or(watched.told), None);
                return true;
            }
            let next = self.rings.after(partition, watched.told).map(|mut records| records.next());
            let recorded = match next {
                Ok(Some(recorded)) => recorded,
                Ok(None) => return true,
                // The ring has lost what they were not told, or is another one. Each finds out for itself.
                Err(_) => {
                    self.all_fall_behind(partition, told);
                    return true;
                }
            };
            watched.live.listeners(&recorded.record, &mut self.found);
            let first = watched.within.map_or(0, |last| self.found.partition_point(|listener| listener.id <= last));
            self.bodies.clear();
            for listener in &self.found[first..] {
                if told.messages >= TURN_MESSAGES_MAX {
                    return false;
                }
                watched.within = Some(listener.id);
                match sink.protocol(listener.connection) {
                    Ok(protocol) => {
                        self.head.clear();
                        frames::change_head(protocol, listener.id, &mut self.head);
                        let body = self.bodies.get(partition, recorded, (protocol, listener.with_values));
                        sink.send(listener.connection, [&self.head, body]);
                        told.messages += 1;
                    }
                    Err(NoRoom::Gone) => {}
                    Err(why) => {
                        let Some(subscription) = self.all.get_mut(&listener.id) else { continue };
                        watched.live.remove(listener.id, &subscription.filter);
                        let places = &mut subscription.places;
                        let Some(place) = places.iter_mut().find(|place| place.partition == partition) else {
                            continue;
                        };
                        (place.is_live, place.at) = (false, watched.told);
                        if self.planted == Some(Planted::SlowSkipsOne) {
                            place.at = recorded.record.revision;
                        }
                        told.fell_behind += 1;
                        let waiting = (listener.id, partition);
                        match why {
                            NoRoom::Full => self.stalled.entry(listener.connection).or_default().push(waiting),
                            _ => self.later.push(waiting),
                        }
                    }
                }
            }
            (watched.told, watched.within) = (recorded.record.revision, None);
        }
    }

    /// All live ones of a partition are behind from here on.
    fn all_fall_behind(&mut self, partition: PartitionId, told: &mut Told) {
        let Some(watched) = self.watched.get_mut(&partition) else { return };
        for (id, subscription) in &mut self.all {
            let place = subscription.places.iter_mut().find(|place| place.partition == partition && place.is_live);
            if let Some(place) = place {
                // A change that was told to some of them is in the ring no more.
                (place.is_live, place.at) = (false, watched.told);
                told.fell_behind += 1;
                self.behind.push_back((*id, partition));
            }
        }
        (watched.live, watched.within) = (Index::default(), None);
        watched.told = self.rings.head(partition).unwrap_or(watched.told);
    }

    /// One that is behind goes on.
    fn go_on(
        &mut self,
        (id, partition): (SubscriptionId, PartitionId),
        sink: &mut impl Sink,
        records: &mut usize,
        told: &mut Told,
    ) {
        let waiting = (id, partition);
        let Some(subscription) = self.all.get_mut(&id) else { return };
        let connection = subscription.connection;
        let Some(place) = subscription.places.iter_mut().find(|place| place.partition == partition) else { return };
        if place.is_live && place.gap.is_none() {
            return;
        }
        let protocol = match sink.protocol(connection) {
            Ok(protocol) => protocol,
            Err(NoRoom::Gone) => return,
            Err(NoRoom::Later) => return self.later.push(waiting),
            Err(NoRoom::Full) => return self.stalled.entry(connection).or_default().push(waiting),
        };
        if let Some(reason) = place.gap {
            let from = place.at;
            let to = self.rings.head(partition).unwrap_or(from);
            return self.tell_gap(waiting, protocol, ((from, to), reason), sink, told);
        }
        match self.rings.after(partition, place.at).err() {
            None => {}
            // This replica has not come so far, or nothing is recorded yet.
            Some(Missed::Ahead | Missed::Unrecorded) => return self.later.push(waiting),
            Some(Missed::Gone { floor }) if self.planted == Some(Planted::GapKeptQuiet) => {
                place.at = floor;
                return self.behind.push_back(waiting);
            }
            Some(Missed::Gone { floor }) => {
                let reason = if subscription.is_live { Reason::TooSlow } else { Reason::Retention };
                let span = (place.at, floor);
                return self.tell_gap(waiting, protocol, (span, reason), sink, told);
            }
        }
        let Ok(fitting) = self.rings.after(partition, place.at) else { return };
        let mut looked = 0;
        for recorded in fitting {
            if looked == RECORDS_AT_ONCE || told.messages >= TURN_MESSAGES_MAX {
                break;
            }
            looked += 1;
            if subscription.filter.wants(&recorded.record) {
                match sink.protocol(connection) {
                    Ok(protocol) => {
                        self.head.clear();
                        frames::change_head(protocol, id, &mut self.head);
                        self.bodies.clear();
                        let body = self.bodies.get(partition, recorded, (protocol, subscription.with_values));
                        sink.send(connection, [&self.head, body]);
                        told.messages += 1;
                    }
                    Err(NoRoom::Full) => {
                        *records += looked;
                        return self.stalled.entry(connection).or_default().push(waiting);
                    }
                    Err(_) => {
                        *records += looked;
                        return self.later.push(waiting);
                    }
                }
            }
            place.at = recorded.record.revision;
        }
        *records += looked.max(1);
        let is_at_head = self.rings.head(partition) == Some(place.at);
        let Some(watched) = self.watched.get_mut(&partition) else { return };
        if is_at_head && watched.live.is_empty() {
            // Nobody was told anything yet that this one was not.
            (watched.told, watched.within) = (place.at, None);
        }
        if !is_at_head || watched.told != place.at {
            return self.behind.push_back(waiting);
        }
        place.is_live = true;
        told.came_live += 1;
        let listener =
            Listener { id, connection, kinds: subscription.filter.kinds, with_values: subscription.with_values };
        watched.live.add(listener, &subscription.filter);
        if !subscription.is_live && subscription.places.iter().all(|place| place.is_live) {
            subscription.is_live = true;
            self.say_place(id, LIVE, sink);
        }
    }

    fn tell_gap(
        &mut self,
        (id, partition): (SubscriptionId, PartitionId),
        protocol: Protocol,
        (span, reason): ((Revision, Revision), Reason),
        sink: &mut impl Sink,
        told: &mut Told,
    ) {
        let Some(connection) = self.all.get(&id).map(|subscription| subscription.connection) else { return };
        let message = frames::gap(protocol, id, partition, span, (reason, "end"));
        sink.send(connection, [&message, &[]]);
        told.gaps += 1;
        self.end(connection, id);
        sink.over(connection);
    }

    /// Where a subscription is. None while a change is told to some live ones and not to others.
    fn token_of(&self, subscription: &Subscription) -> Option<Token> {
        let mut revisions = vec![None; usize::from(subscription.partitions)];
        for place in &subscription.places {
            let at = match self.watched.get(&place.partition).filter(|_| place.is_live) {
                Some(watched) if watched.within.is_some() => return None,
                Some(watched) => watched.told,
                None => place.at,
            };
            if let Some(revision) = revisions.get_mut(usize::from(place.partition.index)) {
                *revision = Some(at);
            }
        }
        Some(Token { bucket: subscription.bucket, history: subscription.history, revisions })
    }

    /// Tells a subscription how far it is. False if it cannot be told now, or there is nothing new to be told.
    fn say_place(&mut self, id: SubscriptionId, word: &str, sink: &mut impl Sink) -> bool {
        let Some(subscription) = self.all.get(&id) else { return false };
        let Ok(protocol) = sink.protocol(subscription.connection) else { return false };
        let Some(token) = self.token_of(subscription) else { return false };
        let sum = token.revisions.iter().flatten().fold(0_u64, |sum, revision| sum.wrapping_add(revision.0));
        let (now, word_is_due) = (self.now, word == LIVE);
        let Some(subscription) = self.all.get_mut(&id) else { return false };
        if !word_is_due && (subscription.told == sum || now.since(subscription.told_at) < PROGRESS_EVERY) {
            return false;
        }
        (subscription.told, subscription.told_at) = (sum, now);
        sink.send(subscription.connection, [&frames::place(protocol, word, id, &token), &[]]);
        true
    }

    /// Tells the next ones of so many parts of all how far they are, those that are live.
    pub(crate) fn tell_progress(&mut self, now: Time, part: usize, sink: &mut impl Sink) -> usize {
        self.now = now;
        let count = self.all.len().div_ceil(part);
        let behind = self.all.range(SubscriptionId(self.hand.0 + 1)..).chain(self.all.range(..=self.hand));
        let next: Vec<SubscriptionId> = behind.map(|(id, _)| *id).take(count).collect();
        self.hand = next.last().copied().unwrap_or_default();
        let is_live = |subscriptions: &Subscriptions, id: &SubscriptionId| {
            subscriptions.all.get(id).is_some_and(|subscription| subscription.is_live)
        };
        let mut told = 0;
        for id in next {
            if is_live(self, &id) && self.say_place(id, PROGRESS, sink) {
                told += 1;
            }
        }
        told
    }
}

/// The time in the body of an entry that has changes recorded, in milliseconds. None if it makes no sense.
pub(crate) fn lease_of(body: &[u8]) -> Option<u64> {
    let ms = u64::from_le_bytes(body.try_into().ok()?);
    (ms <= LEASE_MS_MAX).then_some(ms)
}

#[cfg(test)]
mod tests;
