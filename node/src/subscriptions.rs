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
//! 4. A turn tells so many messages, and compares so many records with what is wanted, at the most; the next turn goes on. Partitions take turns, and those that are behind have a
//!    share of their own.
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
use filter::{Filter, Fit, Kinds};
use frames::{Bodies, Reason};
use index::{Index, Listener};
use ring::{Missed, Rings};
use token::Token;

/// For so long an entry turns recording on. Nodes with subscriptions renew it when half of it has passed.
pub(crate) const LEASE: Duration = Duration::from_secs(600);
/// The longest time that an entry may give, in milliseconds.
pub(crate) const LEASE_MS_MAX: u64 = 24 * 3600 * 1000;
/// Messages that a turn sends at the most: about a millisecond's work.
const TURN_MESSAGES_MAX: usize = 4096;
/// Of these, at least so many are for subscriptions that are behind, if there are any.
const BEHIND_MESSAGES_MIN: usize = TURN_MESSAGES_MAX / 4;
/// Comparisons of changes with keys, prefixes and patterns that a turn makes for live subscriptions.
const TURN_COMPARISONS_MAX: usize = 100_000;
/// Records that a turn looks at for subscriptions that are behind.
const TURN_RECORDS_MAX: usize = 8192;
/// Subscriptions whose connections took nothing in an earlier turn, of which a turn asks again.
const TURN_ASKED_AGAIN_MAX: usize = 1024;
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
    /// Its connection has left unread what it was sent.
    was_full: bool,
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
    /// It was told that it is live, or is to be.
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
    /// The subscriptions that have a place in it.
    subscribers: BTreeSet<SubscriptionId>,
}

impl Subscription {
    fn place_mut(&mut self, partition: PartitionId) -> Option<&mut Place> {
        let place = self.places.binary_search_by_key(&partition, |place| place.partition).ok()?;
        self.places.get_mut(place)
    }

    /// What it counts for among all: the more words and partitions, the more entries the indices have for it.
    fn weight(&self) -> usize {
        weight_of(&self.filter, self.places.len())
    }
}

/// See [`Subscription::weight`].
fn weight_of(filter: &Filter, partitions: usize) -> usize {
    (1 + filter.size().0) * partitions
}

/// Why a connection takes no message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoRoom {
    /// It has enough for this turn.
    NextTurn,
    /// An answer is held up, and the change that it is about must not come before.
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
    /// Its client has given it up meanwhile.
    is_given_up: bool,
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
    /// The one that was told of last: the next turn begins behind it.
    told_last: Option<PartitionId>,
    /// Those that are behind, each in one of these three: it goes on, it goes on in a later turn, or it waits until its connection has read more.
    behind: VecDeque<(SubscriptionId, PartitionId)>,
    later: VecDeque<(SubscriptionId, PartitionId)>,
    stalled: BTreeMap<ConnectionId, Vec<(SubscriptionId, PartitionId)>>,
    /// Those that are live and were not told so yet.
    untold: BTreeSet<SubscriptionId>,
    last: SubscriptionId,
    /// The subscription that was last asked whether it has made progress.
    hand: SubscriptionId,
    /// Of all filters together: their weight, their bytes, and how many patterns they have.
    weight: usize,
    filter_bytes: usize,
    patterns: usize,
    found: Vec<Listener>,
    undecided: Vec<SubscriptionId>,
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
            told_last: None,
            behind: VecDeque::new(),
            later: VecDeque::new(),
            stalled: BTreeMap::new(),
            untold: BTreeSet::new(),
            last: SubscriptionId(0),
            hand: SubscriptionId(0),
            weight: 0,
            filter_bytes: 0,
            patterns: 0,
            found: Vec::new(),
            undecided: Vec::new(),
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

    /// The changes that are kept of a partition, and the revision behind which they begin.
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
        self.goes_on() || !self.later.is_empty() || !self.untold.is_empty()
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
        self.weight += weight_of(&asked.filter, asked.from.len());
        self.filter_bytes += asked.filter.size().1;
        self.patterns += asked.filter.patterns.len();
        self.last.0 += 1;
        let id = self.last;
        self.opening.insert((connection, slot), Opening { asked, id, is_given_up: false });
        id
    }

    /// Begins the subscription that waits for this slot; `revisions`: what its partitions have come to. None if nothing waits for it. Answers its number, and its token.
    fn open(
        &mut self,
        (connection, slot): (ConnectionId, u64),
        revisions: &[Option<Revision>],
    ) -> Option<(SubscriptionId, Token)> {
        let Opening { asked, id, .. } = self.opening.remove(&(connection, slot))?;
        let Asked { bucket, history, partitions, filter, with_values, from, is_of_another } = asked;
        let places = from.into_iter().zip(revisions).map(|((partition, from), revision)| {
            let is_ahead = from.zip(*revision).is_some_and(|(from, revision)| from > revision);
            let believes = self.planted == Some(Planted::TokenOfAnotherHistory);
            let is_of_another = (is_of_another || is_ahead) && !believes;
            let at = from.or(*revision).unwrap_or_default();
            let at = if is_ahead && believes { revision.unwrap_or_default() } else { at };
            let at = if self.planted == Some(Planted::ResumesOneLate) && from.is_some() { at.next() } else { at };
            let gap = is_of_another.then_some(Reason::BegunAnew);
            Place { partition, at, is_live: false, was_full: false, gap }
        });
        let places: Vec<Place> = places.collect();
        for place in &places {
            self.watched.entry(place.partition).or_default().subscribers.insert(id);
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
            self.forget_filter(&asked.filter, asked.from.len());
        }
    }

    fn forget_filter(&mut self, filter: &Filter, partitions: usize) {
        self.weight -= weight_of(filter, partitions);
        self.filter_bytes -= filter.size().1;
        self.patterns -= filter.patterns.len();
    }

    /// What the subscriptions of a connection count for.
    fn weight_of(&self, connection: ConnectionId) -> usize {
        let own = self.of(connection).iter().filter_map(|id| self.all.get(id));
        own.map(Subscription::weight).sum()
    }

    /// Ends a subscription, if its connection is this one.
    pub(crate) fn end(&mut self, connection: ConnectionId, id: SubscriptionId) -> bool {
        if self.all.get(&id).is_none_or(|subscription| subscription.connection != connection) {
            return false;
        }
        let Some(subscription) = self.all.remove(&id) else { return false };
        for place in &subscription.places {
            let Some(watched) = self.watched.get_mut(&place.partition) else { continue };
            watched.subscribers.remove(&id);
            if watched.subscribers.is_empty() {
                self.watched.remove(&place.partition);
                self.dirty.remove(&place.partition);
            } else if place.is_live {
                watched.live.remove(id, &subscription.filter);
            }
        }
        self.untold.remove(&id);
        self.forget_filter(&subscription.filter, subscription.places.len());
        if let Some(stalled) = self.stalled.get_mut(&connection) {
            stalled.retain(|(other, _)| *other != id);
        }
        if let Some(ids) = self.of_connection.get_mut(&connection) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.of_connection.remove(&connection);
                self.stalled.remove(&connection);
            }
        }
        true
    }

    /// The connection is gone.
    pub(crate) fn leave(&mut self, connection: ConnectionId) {
        self.reset(connection);
        let waiting = self.opening.range((connection, 0)..=(connection, u64::MAX));
        let slots: Vec<u64> = waiting.map(|((_, slot), _)| *slot).collect();
        slots.into_iter().for_each(|slot| self.give_up(connection, slot));
    }

    /// The connection wants to be told nothing more. Those that have not begun yet are answered with an error.
    pub(crate) fn reset(&mut self, connection: ConnectionId) {
        for id in self.of(connection).to_vec() {
            self.end(connection, id);
        }
        for (_, opening) in self.opening.range_mut((connection, 0)..=(connection, u64::MAX)) {
            opening.is_given_up = true;
        }
    }

    /// A subscription can be told nothing of a partition.
    fn cannot_go_on(&mut self, id: SubscriptionId, partition: PartitionId, reason: Reason) {
        if let Some(place) = self.all.get_mut(&id).and_then(|subscription| subscription.place_mut(partition)) {
            place.gap.get_or_insert(reason);
        }
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
        let Some(watched) = self.watched.get(&partition) else { return };
        self.dirty.insert(partition);
        for id in &watched.subscribers {
            let Some(place) = self.all.get_mut(id).and_then(|subscription| subscription.place_mut(partition)) else {
                continue;
            };
            place.gap.get_or_insert(reason);
            if !place.is_live {
                self.behind.push_back((*id, partition));
            }
        }
    }

    /// Tells what there is to be told, up to what a turn may cost.
    pub(crate) fn tell(&mut self, now: Time, sink: &mut impl Sink) -> Told {
        let mut told = Told::default();
        self.now = now;
        for _ in 0..self.later.len().min(TURN_ASKED_AGAIN_MAX) {
            self.behind.extend(self.later.pop_front());
        }
        let for_live = TURN_MESSAGES_MAX - if self.behind.is_empty() { 0 } else { BEHIND_MESSAGES_MIN };
        let mut comparisons = 0;
        let dirty = std::mem::take(&mut self.dirty);
        let (first, behind_last): (Vec<_>, Vec<_>) = dirty.into_iter().partition(|it| Some(*it) <= self.told_last);
        for partition in behind_last.into_iter().chain(first) {
            if !self.tell_live(partition, (for_live, &mut comparisons), sink, &mut told) {
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
        let untold: Vec<SubscriptionId> = self.untold.iter().copied().take(TURN_ASKED_AGAIN_MAX).collect();
        for id in untold {
            self.say_live(id, sink);
        }
        told
    }

    /// Tells live subscriptions what has changed in a partition. False if more is left than this turn may tell.
    fn tell_live(
        &mut self,
        partition: PartitionId,
        (most, comparisons): (usize, &mut usize),
        sink: &mut impl Sink,
        told: &mut Told,
    ) -> bool {
        loop {
            let Some(watched) = self.watched.get_mut(&partition) else { return true };
            if watched.live.is_empty() {
                // Nobody has to be told, and a subscription that is behind finds its place in the ring.
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
            if told.messages >= most || *comparisons >= TURN_COMPARISONS_MAX {
                return false;
            }
            *comparisons += watched.live.cost();
            self.told_last = Some(partition);
            watched.live.listeners(&recorded.record, &mut self.found, &mut self.undecided);
            for id in self.undecided.drain(..) {
                let Some(subscription) = self.all.get_mut(&id) else { continue };
                watched.live.remove(id, &subscription.filter);
                let Some(place) = subscription.place_mut(partition) else { continue };
                (place.is_live, place.at, place.gap) = (false, watched.told, Some(Reason::PatternTooCostly));
                self.behind.push_back((id, partition));
            }
            let first = watched.within.map_or(0, |last| self.found.partition_point(|listener| listener.id <= last));
            self.bodies.clear();
            for listener in &self.found[first..] {
                if told.messages >= most {
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
                        let Some(place) = subscription.place_mut(partition) else { continue };
                        (place.is_live, place.at) = (false, watched.told);
                        if self.planted == Some(Planted::SlowSkipsOne) {
                            place.at = recorded.record.revision;
                        }
                        place.was_full |= why == NoRoom::Full;
                        told.fell_behind += 1;
                        // Falling behind takes about as long as being told.
                        told.messages += 1;
                        let waiting = (listener.id, partition);
                        match why {
                            NoRoom::Full => self.stalled.entry(listener.connection).or_default().push(waiting),
                            NoRoom::NextTurn => self.behind.push_back(waiting),
                            _ => self.later.push_back(waiting),
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
        for id in &watched.subscribers {
            let Some(place) = self.all.get_mut(id).and_then(|subscription| subscription.place_mut(partition)) else {
                continue;
            };
            if place.is_live {
                // Some were told one change more, or did not want it.
                let has_more = watched.within.is_some_and(|last| *id <= last);
                (place.is_live, place.at) = (false, if has_more { watched.told.next() } else { watched.told });
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
        *records += 1;
        let Some(subscription) = self.all.get_mut(&id) else { return };
        let connection = subscription.connection;
        let filter = Arc::clone(&subscription.filter);
        let with_values = subscription.with_values;
        let Some(place) = subscription.place_mut(partition).filter(|place| !place.is_live || place.gap.is_some())
        else {
            return;
        };
        let protocol = match sink.protocol(connection) {
            Ok(protocol) => protocol,
            Err(why) => {
                place.was_full |= why == NoRoom::Full;
                return self.put_off(waiting, connection, why);
            }
        };
        if let Some(reason) = place.gap {
            let from = place.at;
            let to = self.rings.head(partition).unwrap_or(from);
            return self.tell_gap(waiting, protocol, ((from, to), reason), sink, told);
        }
        match self.rings.after(partition, place.at).err() {
            None => {}
            // This replica has not come so far, or nothing is recorded yet.
            Some(Missed::Ahead | Missed::Unrecorded) => return self.later.push_back(waiting),
            Some(Missed::Gone { floor }) if self.planted == Some(Planted::GapKeptQuiet) => {
                place.at = floor;
                return self.behind.push_back(waiting);
            }
            Some(Missed::Gone { floor }) => {
                let reason = if place.was_full { Reason::TooSlow } else { Reason::Retention };
                let span = (place.at, floor);
                return self.tell_gap(waiting, protocol, (span, reason), sink, told);
            }
        }
        let Ok(fitting) = self.rings.after(partition, place.at) else { return };
        // A pattern costs as much as many records.
        let each = 1 + filter.patterns.len();
        let (mut looked, mut refused) = (0, None);
        for recorded in fitting {
            if looked >= RECORDS_AT_ONCE || told.messages >= TURN_MESSAGES_MAX {
                break;
            }
            looked += each;
            match filter.wants(&recorded.record) {
                Fit::No => {}
                Fit::Undecided => {
                    place.gap = Some(Reason::PatternTooCostly);
                    break;
                }
                Fit::Yes => match sink.protocol(connection) {
                    Ok(protocol) => {
                        self.head.clear();
                        frames::change_head(protocol, id, &mut self.head);
                        self.bodies.clear();
                        let body = self.bodies.get(partition, recorded, (protocol, with_values));
                        sink.send(connection, [&self.head, body]);
                        told.messages += 1;
                    }
                    Err(why) => {
                        place.was_full |= why == NoRoom::Full;
                        refused = Some(why);
                        break;
                    }
                },
            }
            place.at = recorded.record.revision;
        }
        *records += looked;
        let (at, is_over) = (place.at, place.gap.is_some());
        if let Some(why) = refused {
            return self.put_off(waiting, connection, why);
        }
        let is_at_head = self.rings.head(partition) == Some(at) && !is_over;
        let Some(watched) = self.watched.get_mut(&partition) else { return };
        if is_at_head && watched.live.is_empty() {
            // Nobody was told anything yet that this one was not.
            (watched.told, watched.within) = (at, None);
        }
        if !is_at_head || watched.told != at {
            return self.behind.push_back(waiting);
        }
        told.came_live += 1;
        // Each word is an entry of the index.
        *records += filter.size().0;
        watched.live.add(Listener { id, connection, kinds: filter.kinds, with_values }, &filter);
        let Some(subscription) = self.all.get_mut(&id) else { return };
        if let Some(place) = subscription.place_mut(partition) {
            (place.is_live, place.was_full) = (true, false);
        }
        if !subscription.is_live && subscription.places.iter().all(|place| place.is_live) {
            subscription.is_live = true;
            self.untold.insert(id);
            self.say_live(id, sink);
        }
    }

    /// One whose connection takes nothing now goes on another time.
    fn put_off(&mut self, waiting: (SubscriptionId, PartitionId), connection: ConnectionId, why: NoRoom) {
        match why {
            NoRoom::Gone => {}
            NoRoom::NextTurn => self.behind.push_back(waiting),
            NoRoom::Later => self.later.push_back(waiting),
            NoRoom::Full => self.stalled.entry(connection).or_default().push(waiting),
        }
    }

    /// Tells a subscription that it is live, once its connection takes that.
    fn say_live(&mut self, id: SubscriptionId, sink: &mut impl Sink) {
        let is_gone = |subscription: &Subscription| sink.protocol(subscription.connection) == Err(NoRoom::Gone);
        if self.all.get(&id).is_none_or(is_gone) || self.say_place(id, LIVE, sink) {
            self.untold.remove(&id);
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
        if word == PROGRESS && self.now.since(subscription.told_at) < PROGRESS_EVERY {
            return false;
        }
        let Ok(protocol) = sink.protocol(subscription.connection) else { return false };
        let Some(token) = self.token_of(subscription) else { return false };
        let sum = token.revisions.iter().flatten().fold(0_u64, |sum, revision| sum.wrapping_add(revision.0));
        let now = self.now;
        let Some(subscription) = self.all.get_mut(&id) else { return false };
        subscription.told_at = now;
        if std::mem::replace(&mut subscription.told, sum) == sum && word == PROGRESS {
            return false;
        }
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
            let is_live = subscriptions.all.get(id).is_some_and(|subscription| subscription.is_live);
            is_live && !subscriptions.untold.contains(id)
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
