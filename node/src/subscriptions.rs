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
//! 4. One that wants to know what is there is told the keys in their order, each as it is at that moment (`walk.rs`); then it is as any other.
//! 5. A turn tells so many messages, and compares so many records with what is wanted, at the most; the next turn goes on. Partitions take turns, and those that are behind have a
//!    share of their own.
//!
//! Changes are recorded while somebody subscribes: a subscription puts an entry into the partition's log that turns recording on for a while ([`LEASE`]), on every replica alike.
//! Why so: `docs/decisions/2026-11-30-subscriptions.md`.

pub(crate) mod attaching;
pub(crate) mod command;
mod delivery;
pub(crate) mod feeding;
pub(crate) mod feeds;
pub(crate) mod filter;
pub(crate) mod frames;
pub(crate) mod glue;
mod index;
mod names;
mod opening;
pub(crate) mod pages;
mod ring;
mod size;
pub(crate) mod token;
mod waiting;
pub(crate) mod walk;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use base::limits::{CHANGE_MEMORY_BYTES, WALK_WORK, WALK_WORK_PER_TICK};
use base::{BucketId, PartitionId, Position, Revision, Time};
use data::{ChangeRecord, Reply, Tree};
use wire::Protocol;

use crate::door::{ConnectionId, Planted, Rubbish};
use delivery::TURN_MESSAGES_MAX;
use feeds::Feeds;
use filter::{Filter, Kinds};
use frames::{Bodies, Reason};
use index::{Index, Listener};
use names::Names;
use opening::Opening;
use ring::Rings;
use size::Size;
use waiting::Waiting;
use walk::{Walk, Walkers};

/// For so long an entry turns recording on. Nodes with subscriptions renew it when half of it has passed.
pub(crate) const LEASE: Duration = Duration::from_secs(600);
/// The longest time that an entry may give, in milliseconds.
pub(crate) const LEASE_MS_MAX: u64 = 24 * 3600 * 1000;
/// How often a subscription is told how far it is, if something has changed that it was not told.
pub(crate) const PROGRESS_EVERY: Duration = Duration::from_secs(5);

/// How subscribers are told what changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SubscriptionSettings {
    /// Bytes of memory in which changes are kept: [`base::limits::CHANGE_MEMORY_BYTES`].
    pub memory_bytes: usize,
    /// Units of work that a walk over what is there takes at a time, before it is another one's turn: [`base::limits::WALK_WORK`].
    pub walk_work: u64,
    /// The same of all walks together between two ticks, so that they leave most of the loop's time to others: [`base::limits::WALK_WORK_PER_TICK`].
    pub walk_work_per_tick: u64,
}

impl Default for SubscriptionSettings {
    fn default() -> SubscriptionSettings {
        SubscriptionSettings {
            memory_bytes: CHANGE_MEMORY_BYTES,
            walk_work: WALK_WORK,
            walk_work_per_tick: WALK_WORK_PER_TICK,
        }
    }
}

/// Numbers the subscriptions of a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct SubscriptionId(pub u64);

/// How far a subscription is in one partition.
#[derive(Debug)]
struct Place {
    partition: PartitionId,
    /// It was told everything up to here; of a live one see [`Watched::told`].
    at: Revision,
    is_live: bool,
    /// It is told what is there, in the order of the keys, and of changes those of keys that it has been told. See `walk.rs`.
    walk: Option<Walk>,
    /// It has been told so, and not yet that it is live.
    is_walked: bool,
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
    size: Size,
    with_values: bool,
    /// Behind a gap it is told what is there.
    restates: bool,
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

/// Where states are.
pub(crate) trait States {
    /// That of a partition; none if this node has none.
    fn tree(&self, partition: PartitionId) -> Option<&Tree>;
}

/// Bytes that a turn sends at the most, and one message more.
const TURN_BYTES_MAX: usize = 4 << 20;
/// In so many shares what a turn tells is divided.
const SHARES: usize = 8;

/// What a turn has told.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Told {
    pub messages: usize,
    pub bytes: usize,
    /// Keys that are there, to those who wanted to know; and partitions of which this is over.
    pub keys: usize,
    pub walked: usize,
    pub gaps: usize,
    /// Of these, those behind which is told what is there.
    pub restated: usize,
    /// Live subscriptions that fell behind, and others that have become live.
    pub fell_behind: usize,
    pub came_live: usize,
    /// Names that others have attached to.
    pub taken: usize,
}

impl Told {
    /// So much that the turn tells no more.
    fn is_enough(&self) -> bool {
        self.has(SHARES)
    }

    /// So many eighths of what a turn tells, in messages or in bytes.
    fn has(&self, shares: usize) -> bool {
        self.messages >= TURN_MESSAGES_MAX / SHARES * shares || self.bytes >= TURN_BYTES_MAX / SHARES * shares
    }

    /// Sends a message, and counts it.
    fn send(&mut self, sink: &mut impl Sink, connection: ConnectionId, parts: [&[u8]; 2]) {
        sink.send(connection, parts);
        self.messages += 1;
        self.bytes += parts[0].len() + parts[1].len();
    }
}

/// See the file's head.
#[derive(Debug)]
pub(crate) struct Subscriptions {
    rings: Rings,
    settings: SubscriptionSettings,
    /// So much work walks may take until the next tick; below zero what they have taken too much.
    walk_left: i64,
    all: BTreeMap<SubscriptionId, Subscription>,
    watched: BTreeMap<PartitionId, Watched>,
    of_connection: BTreeMap<ConnectionId, Vec<SubscriptionId>>,
    opening: BTreeMap<(ConnectionId, u64), Opening>,
    /// Partitions in which there may be something that live ones were not told.
    dirty: BTreeSet<PartitionId>,
    /// The one that was told of last: the next turn begins behind it.
    told_last: Option<PartitionId>,
    /// Those that are behind.
    waiting: Waiting,
    walkers: Walkers,
    feeds: Feeds,
    names: Names,
    /// Those that are live and were not told so yet.
    untold: BTreeSet<SubscriptionId>,
    /// The last of these that was asked whether its connection takes it.
    untold_hand: SubscriptionId,
    last: SubscriptionId,
    /// The subscription that was last asked whether it has made progress.
    hand: SubscriptionId,
    /// Of all together, those that have not begun among them.
    size: Size,
    found: Vec<Listener>,
    undecided: Vec<SubscriptionId>,
    head: Vec<u8>,
    bodies: Bodies,
    /// When the turn is.
    now: Time,
    /// This node knows how its cluster is called now: see [`glue::knows_history`].
    knows_history: bool,
    /// How far the council's log went at the start of this process.
    council_until: Position,
    planted: Option<Planted>,
}

impl Subscriptions {
    /// `council_until`: see the field.
    pub(crate) fn new(
        settings: SubscriptionSettings,
        council_until: Position,
        planted: Option<Planted>,
    ) -> Subscriptions {
        Subscriptions {
            rings: Rings::new(settings.memory_bytes),
            settings,
            walk_left: 0,
            all: BTreeMap::new(),
            watched: BTreeMap::new(),
            of_connection: BTreeMap::new(),
            opening: BTreeMap::new(),
            dirty: BTreeSet::new(),
            told_last: None,
            waiting: Waiting::default(),
            walkers: Walkers::default(),
            feeds: Feeds::default(),
            names: Names::default(),
            untold: BTreeSet::new(),
            untold_hand: SubscriptionId(0),
            last: SubscriptionId(0),
            hand: SubscriptionId(0),
            size: Size::default(),
            found: Vec::new(),
            undecided: Vec::new(),
            head: Vec::new(),
            bodies: Bodies::default(),
            now: Time::default(),
            knows_history: false,
            council_until,
            planted,
        }
    }

    /// `process`: another one for each start. Feeds are numbered from it on, so that none is taken for one of an earlier process.
    #[must_use]
    pub(crate) fn in_process(self, process: u64) -> Subscriptions {
        Subscriptions { feeds: Feeds::numbered_from(process), ..self }
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

    /// The filter of a subscription that is told the stored keys, now or next.
    fn walked(&self, id: SubscriptionId) -> Option<Arc<Filter>> {
        let subscription = self.all.get(&id)?;
        subscription.places.iter().any(|place| place.walk.is_some()).then(|| Arc::clone(&subscription.filter))
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
        let state = match &subscription.places[..] {
            places if places.iter().all(|place| place.is_live) => "live",
            places if places.iter().any(|place| place.walk.is_some()) => "walking",
            _ => "behind",
        };
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

    /// What is to be freed elsewhere.
    pub(crate) fn take_rubbish(&mut self) -> impl Iterator<Item = Rubbish> {
        self.rings.take_discarded().into_iter().map(Rubbish::new)
    }

    /// True if there is something to be told in the next turn.
    pub(crate) fn goes_on(&self) -> bool {
        let is_walking = self.walk_left > 0 && (!self.walkers.is_empty() || self.feeds.pages.are_wanted());
        is_walking || !self.waiting.behind.is_empty() || !self.dirty.is_empty() || self.feeds.goes_on()
    }

    /// True if there may be something to be told, in the next turn or a later one.
    pub(crate) fn has_work(&self) -> bool {
        self.goes_on()
            || !self.walkers.is_empty()
            || self.feeds.pages.are_wanted()
            || !self.waiting.later.is_empty()
            || !self.untold.is_empty()
            || self.names.has_taken()
    }

    /// True if no other node is told changes or stored keys here.
    pub(crate) fn is_followed_by_nobody(&self) -> bool {
        self.feeds.followed().next().is_none() && !self.feeds.pages.are_wanted()
    }

    /// True if nobody subscribes.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty() && self.opening.is_empty()
    }

    /// The partitions in which somebody here wants to be told something.
    pub(crate) fn partitions(&self) -> impl Iterator<Item = PartitionId> {
        self.watched.keys().copied()
    }

    /// Those in which a node without a state does.
    pub(crate) fn followed(&self) -> impl Iterator<Item = PartitionId> {
        self.feeds.followed()
    }

    /// An entry was applied, with these changes, to a state that had this revision.
    pub(crate) fn recorded(
        &mut self,
        partition: PartitionId,
        (before, stamp): (Revision, u64),
        records: Vec<ChangeRecord>,
    ) {
        self.names.note(partition, &records);
        self.rings.push(partition, before, stamp, records);
        self.feeds.note(partition);
        if self.watched.contains_key(&partition) {
            self.dirty.insert(partition);
        }
    }

    /// What has changed in a partition was not recorded, or its state is another one.
    pub(crate) fn unrecorded(&mut self, partition: PartitionId) {
        self.rings.forget(partition);
        self.feeds.note(partition);
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

    /// What the subscriptions of a connection count for, those that wait for recording among them.
    fn size_of(&self, connection: ConnectionId) -> Size {
        let begun = self.of(connection).iter().filter_map(|id| self.all.get(id)).map(|subscription| subscription.size);
        let opening = self.opening.range((connection, 0)..=(connection, u64::MAX)).map(|(_, opening)| opening.size);
        begun.chain(opening).fold(Size::default(), Size::plus)
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
        self.names.remove(id);
        self.size = self.size.minus(subscription.size);
        self.waiting.stalled.forget(connection, id);
        self.walkers.forget(connection, id);
        if let Some(ids) = self.of_connection.get_mut(&connection) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.of_connection.remove(&connection);
            }
        }
        true
    }

    /// The connection is gone.
    pub(crate) fn leave(&mut self, connection: ConnectionId) {
        self.reset(connection);
        self.names.leave(connection);
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
        self.waiting.behind.extend(self.waiting.stalled.take(connection));
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
                self.waiting.behind.push_back((*id, partition));
            }
        }
    }
}

/// The time in the body of an entry that has changes recorded, in milliseconds. None if it makes no sense.
pub(crate) fn lease_of(body: &[u8]) -> Option<u64> {
    let ms = u64::from_le_bytes(body.try_into().ok()?);
    (ms <= LEASE_MS_MAX).then_some(ms)
}

#[cfg(test)]
mod tests;
