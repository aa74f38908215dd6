//! Changes of partitions of which this node has no state: a node that has one tells them, with their values, and they go into the same rings. So subscriptions here are cursors
//! as everywhere.
//!
//! ```text
//!   here, no state                                         the source, any node with a state
//!   "feed 7, what comes behind 41"  ──────────────────►    reads its ring, as a subscriber that is behind does
//!                                   ◄──────────────────    "feed 7, behind 41: 42, 43, …"
//! ```
//! 1. Changes have numbers without gaps, so this node sees by the number alone whether something is missing. What begins elsewhere than its ring ends begins the ring anew, and
//!    subscribers find out as ever: each compares its place with the ring's floor.
//! 2. Each time that this node asks, which it does all the time, it says how far it has come. So many bytes may be on their way beyond that. A source that says nothing for a while is
//!    left for another one: one that does not hear the leader, or has not come so far itself, says nothing.
//! 3. A subscriber may want to go on from before this node's ring. Then everything that the source has is asked for, once: what it does not have either is a gap.
//! 4. The source keeps recording on, and ends a feed that is not asked for any more.
//! 5. What this node applies itself, as a replica that is yet to catch up, joins the ring where it fits.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use base::{NodeId, PartitionId, Revision, Time};
use data::ChangeRecord;

use super::pages::Pages;
use super::ring::Missed;
use super::{Reason, Subscriptions, pages};
use crate::door::Planted;

/// How often a feed is asked for; it ends where it has not been for four times as long.
const ASK_EVERY: Duration = Duration::from_millis(500);
/// A source of which nothing was heard for so long is left.
pub(super) const SILENT: Duration = Duration::from_secs(2);
/// All that a source has of a partition is fetched at the most so often.
const FETCH_EVERY: Duration = Duration::from_secs(5);
/// A state that has come further than the feed waits for it for so long.
const AHEAD_MAX: Duration = Duration::from_secs(5);
/// Greatest number of a change: what is beyond it no state has.
pub(super) const REVISION_MAX: u64 = i64::MAX as u64;
/// So many bytes a source has on their way to a follower.
const WINDOW_BYTES: usize = 1 << 20;
/// So many bytes of records a message has, and one record more.
const MESSAGE_BYTES: usize = 256 << 10;
/// So many a turn, and one message more.
const TURN_BYTES: usize = 1 << 20;

/// Records, each with the stamp of its entry.
pub(crate) type Stamped = (u64, ChangeRecord);

/// A partition whose changes this node is told.
#[derive(Debug)]
struct Following {
    feed: u64,
    source: NodeId,
    asked_at: Time,
    /// When the source said something last, or was chosen.
    heard_at: Time,
    is_heard: bool,
    /// The `after` of the first question.
    asked_after: Revision,
    /// Everything that the source has was asked for.
    has_all: bool,
    /// Since when this node's own state is ahead of what it was told.
    behind_since: Cell<Option<Time>>,
    /// Since the last question.
    bytes: usize,
}

/// A node that this one tells the changes of a partition.
#[derive(Debug)]
struct Followed {
    peer: NodeId,
    feed: u64,
    /// It was told everything up to here.
    at: Revision,
    /// Messages that the follower has not confirmed: the last change of each, and its bytes.
    under_way: VecDeque<(Revision, usize)>,
    wants_word: bool,
    until: Time,
}

impl Followed {
    /// How many bytes more may be sent.
    fn credit(&self) -> usize {
        WINDOW_BYTES.saturating_sub(self.under_way.iter().map(|(_, bytes)| bytes).sum())
    }
}

/// See the file's head.
#[derive(Debug, Default)]
pub(super) struct Feeds {
    following: BTreeMap<PartitionId, Following>,
    followed: BTreeMap<PartitionId, Vec<Followed>>,
    /// Partitions in which a follower may be told something.
    dirty: BTreeSet<PartitionId>,
    last: u64,
    /// Nodes without a state are told changes in this cluster.
    pub is_on: bool,
    /// Somebody wants to go on from before the ring.
    wants_all: BTreeSet<PartitionId>,
    /// When all was last fetched.
    fetched: BTreeMap<PartitionId, Time>,
    pub pages: Pages,
}

/// "Tell me what comes behind this."
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Question {
    pub to: NodeId,
    pub partition: PartitionId,
    pub feed: u64,
    pub after: Revision,
}

/// The answer to a [`Question`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Answer {
    pub to: NodeId,
    pub partition: PartitionId,
    pub feed: u64,
    pub after: Revision,
    pub records: Vec<Stamped>,
}

/// The follower's use of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Taken {
    /// It is none to what was asked last, or makes no sense.
    No,
    /// It goes on where the ring ends.
    Yes,
    /// The ring begins anew with it.
    Anew,
}

impl Feeds {
    pub(super) fn numbered_from(number: u64) -> Feeds {
        Feeds { last: number, ..Feeds::default() }
    }

    pub(super) fn goes_on(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// The partitions that others follow here.
    pub(super) fn followed(&self) -> impl Iterator<Item = PartitionId> {
        self.followed.keys().copied()
    }

    /// Something has changed in a partition.
    pub(super) fn note(&mut self, partition: PartitionId) {
        if self.followed.contains_key(&partition) {
            self.dirty.insert(partition);
        }
    }

    /// This node has no state to tell of any more.
    pub(super) fn end(&mut self, partition: PartitionId) {
        self.followed.remove(&partition);
        self.dirty.remove(&partition);
    }

    /// A node asks for what comes behind `after`.
    pub(super) fn ask(&mut self, partition: PartitionId, (peer, feed): (NodeId, u64), after: Revision, now: Time) {
        let all = self.followed.entry(partition).or_default();
        let until = now + ASK_EVERY * 4;
        let new = Followed { peer, feed, at: after, under_way: VecDeque::new(), wants_word: true, until };
        match all.iter_mut().find(|followed| followed.peer == peer) {
            Some(followed) if followed.feed == feed => {
                (followed.wants_word, followed.until) = (true, until);
                while followed.under_way.front().is_some_and(|(upto, _)| *upto <= after) {
                    followed.under_way.pop_front();
                }
            }
            Some(followed) => *followed = new,
            None => all.push(new),
        }
        self.dirty.insert(partition);
    }

    /// Ends feeds that nobody has asked for lately.
    fn expire(&mut self, now: Time) {
        self.followed.retain(|_, all| {
            all.retain(|followed| followed.until > now);
            !all.is_empty()
        });
        let Feeds { dirty, followed, .. } = self;
        dirty.retain(|partition| followed.contains_key(partition));
    }

    /// The link to a node is gone.
    pub(super) fn on_peer_down(&mut self, peer: NodeId) {
        for all in self.followed.values_mut() {
            all.retain(|followed| followed.peer != peer);
        }
        for following in self.following.values_mut().filter(|following| following.source == peer) {
            // Another one is chosen at the next tick.
            following.heard_at = Time::default();
        }
    }

    /// The node that tells the changes of a partition, if it does.
    pub(super) fn source(&self, partition: PartitionId) -> Option<NodeId> {
        self.following.get(&partition).filter(|it| it.is_heard).map(|it| it.source)
    }

    /// Another number.
    pub(super) fn number(&mut self) -> u64 {
        self.last = self.last.wrapping_add(1);
        self.last
    }

    pub(super) fn is_following(&self, partition: PartitionId) -> bool {
        self.following.contains_key(&partition)
    }
}

impl Subscriptions {
    /// True if another node tells this one the changes of a partition, and the ring here goes on from this revision.
    pub(super) fn is_fed(&self, partition: PartitionId, from: Revision) -> bool {
        let following = self.feeds.following.get(&partition).filter(|following| following.is_heard);
        let is_heard = following.is_some_and(|it| self.now.since(it.heard_at) < SILENT);
        is_heard && self.rings.after(partition, from).is_ok()
    }

    /// True if the replica here has applied more than its feed has brought. Subscribers would lose the changes between, so the replica waits: for a few seconds, as perhaps no source has
    /// them.
    pub(crate) fn is_fed_less_than(&self, partition: PartitionId, revision: Revision, now: Time) -> bool {
        let Some(following) = self.feeds.following.get(&partition) else { return false };
        if self.rings.head(partition).is_some_and(|head| head >= revision) {
            following.behind_since.set(None);
            return false;
        }
        let since = following.behind_since.get().unwrap_or(now);
        following.behind_since.set(Some(since));
        now.since(since) < AHEAD_MAX
    }

    /// True if the source may have changes from before the ring. The node then asks for all that the source has.
    pub(super) fn reaches_further(&mut self, partition: PartitionId) -> bool {
        if !self.feeds.is_on {
            return false;
        }
        let is_known_to_be_all = |it: &Following| it.has_all && it.is_heard;
        if self.feeds.following.get(&partition).is_some_and(is_known_to_be_all) {
            return false;
        }
        self.feeds.wants_all.insert(partition);
        true
    }

    /// Adds changes that the replica here has applied to the ring of its feed, where they join it.
    pub(super) fn join(
        &mut self,
        partition: PartitionId,
        (before, stamp): (Revision, u64),
        records: Vec<ChangeRecord>,
    ) {
        if self.rings.after(partition, before).is_ok() {
            self.recorded(partition, (before, stamp), records);
        }
    }

    /// The partition has a state here again, or nobody wants to be told of it.
    pub(super) fn stop_following(&mut self, partition: PartitionId) {
        self.feeds.following.remove(&partition);
        self.feeds.wants_all.remove(&partition);
    }

    /// A tick: of these partitions, of which this node has no state, those about which a question is due. `now` is that of the turn.
    pub(crate) fn due(&mut self, now: Time, wanted: &BTreeSet<PartitionId>) -> Vec<PartitionId> {
        self.now = now;
        self.feeds.expire(now);
        self.give_up_pages();
        let Feeds { following, wants_all, fetched, .. } = &mut self.feeds;
        following.retain(|partition, _| wanted.contains(partition));
        wants_all.retain(|partition| wanted.contains(partition));
        fetched.retain(|_, at| now.since(*at) < FETCH_EVERY);
        let is_due = |partition: &&PartitionId| match following.get(partition) {
            Some(it) => {
                let fetches = !it.has_all && wants_all.contains(partition) && !fetched.contains_key(partition);
                fetches || now.since(it.asked_at) >= ASK_EVERY || now.since(it.heard_at) >= SILENT
            }
            None => true,
        };
        wanted.iter().filter(is_due).copied().collect()
    }

    /// The question that is due about a partition, to one of those who may have a state of it.
    pub(crate) fn question(&mut self, partition: PartitionId, sources: &[NodeId]) -> Option<Question> {
        let now = self.now;
        let head = self.rings.head(partition);
        let watched = self.watched.get(&partition)?;
        // Where the one begins that is the furthest behind.
        let place_of = |id| {
            let places = &self.all.get(id)?.places;
            let place = places.binary_search_by_key(&partition, |place| place.partition).ok()?;
            places.get(place).map(|place| place.at)
        };
        let first = || watched.subscribers.iter().filter_map(place_of).min();
        let Feeds { following, last, wants_all, fetched, .. } = &mut self.feeds;
        let known = following.get_mut(&partition);
        let is_silent = known.as_ref().is_none_or(|it| now.since(it.heard_at) >= SILENT);
        let has_all = known.as_ref().is_some_and(|it| it.has_all);
        let fetches = !has_all && wants_all.contains(&partition) && !fetched.contains_key(&partition);
        if !is_silent
            && !fetches
            && let Some(it) = known
        {
            (it.asked_at, it.bytes) = (now, 0);
            let after = head.filter(|_| it.is_heard).unwrap_or(it.asked_after);
            return Some(Question { to: it.source, partition, feed: it.feed, after });
        }
        // Nothing lies before the first change, so a source tells all that it has.
        let after = if fetches { Revision(0) } else { head.or_else(first)? };
        let before = known.as_ref().map(|it| it.source);
        let source = match before.filter(|it| sources.contains(it)) {
            Some(source) if !is_silent => source,
            // They take turns.
            Some(silent) => {
                let place = sources.iter().position(|it| *it == silent).map_or(0, |at| at + 1);
                *sources.get(place % sources.len())?
            }
            None => *sources.get(usize::from(partition.index) % sources.len().max(1))?,
        };
        let behind_since = known.map_or_else(Cell::default, |it| it.behind_since.clone());
        if fetches {
            wants_all.remove(&partition);
            fetched.insert(partition, now);
        }
        *last = last.wrapping_add(1);
        let feed = *last;
        let new = Following {
            feed,
            source,
            asked_at: now,
            heard_at: now,
            is_heard: false,
            asked_after: after,
            has_all: has_all || fetches,
            behind_since,
            bytes: 0,
        };
        following.insert(partition, new);
        Some(Question { to: source, partition, feed, after })
    }

    /// The source has answered. Whether that was taken, and a question if it is to send more at once.
    pub(crate) fn take_fed(
        &mut self,
        (source, partition, feed): (NodeId, PartitionId, u64),
        after: Revision,
        records: Vec<Stamped>,
    ) -> (Taken, Option<Question>) {
        let now = self.now;
        let is_next = |(place, (_, record)): (u64, &Stamped)| record.revision.0 == after.0 + 1 + place;
        let is_sound = after.0.saturating_add(records.len() as u64) < REVISION_MAX && (0..).zip(&records).all(is_next);
        let following = self.feeds.following.get_mut(&partition);
        let Some(following) = following.filter(|it| is_sound && (it.source, it.feed) == (source, feed)) else {
            return (Taken::No, None);
        };
        (following.heard_at, following.is_heard) = (now, true);
        following.bytes += records.iter().map(|(_, record)| record.bytes()).sum::<usize>();
        let asks = following.bytes >= WINDOW_BYTES / 2;
        let mut taken = Taken::Yes;
        // `push` leaves out the changes that the ring has.
        if self.rings.after(partition, after).is_err() {
            taken = if self.rings.head(partition).is_some() { Taken::Anew } else { Taken::Yes };
            if taken == Taken::Anew {
                self.names.doubt(partition);
            }
            if self.planted == Some(Planted::FeedGapUnseen)
                && let Some(watched) = self.watched.get_mut(&partition)
            {
                watched.told = watched.told.max(after);
            }
            self.rings.forget(partition);
            self.recorded(partition, (after, 0), Vec::new());
        }
        let mut head = after;
        for (stamp, record) in records {
            let before = std::mem::replace(&mut head, record.revision);
            self.recorded(partition, (before, stamp), vec![record]);
        }
        let question = asks.then_some(Question { to: source, partition, feed, after: head });
        if let Some(following) = self.feeds.following.get_mut(&partition).filter(|_| asks) {
            (following.asked_at, following.bytes) = (now, 0);
        }
        (taken, question)
    }

    /// The next answers to all followers, within the budget of a turn.
    pub(crate) fn answers(&mut self) -> Vec<Answer> {
        let (mut answers, mut bytes, mut left) = (Vec::new(), 0, BTreeSet::new());
        for partition in std::mem::take(&mut self.feeds.dirty) {
            let Some(all) = self.feeds.followed.get_mut(&partition) else { continue };
            for followed in all {
                if bytes >= TURN_BYTES {
                    left.insert(partition);
                    break;
                }
                let mut records: Vec<Stamped> = Vec::new();
                let (mut taken, most) = (0, followed.credit().min(MESSAGE_BYTES));
                match self.rings.after(partition, followed.at) {
                    Ok(behind) => {
                        for recorded in behind {
                            if taken >= most {
                                break;
                            }
                            taken += recorded.record.bytes();
                            records.push((recorded.stamp, recorded.record.clone()));
                        }
                    }
                    // It sees by the number that something is missing.
                    Err(Missed::Gone { floor }) => (followed.at, followed.wants_word) = (floor, true),
                    // Nothing is recorded yet, or this replica has not come so far: there may be a better source.
                    Err(Missed::Unrecorded | Missed::Ahead) => continue,
                }
                if records.is_empty() && !followed.wants_word {
                    continue;
                }
                let after = followed.at;
                followed.wants_word = false;
                followed.at = records.last().map_or(after, |(_, record)| record.revision);
                if taken > 0 {
                    followed.under_way.push_back((followed.at, taken));
                }
                bytes += taken;
                if followed.credit() > 0 && self.rings.head(partition).is_some_and(|head| head > followed.at) {
                    left.insert(partition);
                }
                answers.push(Answer { to: followed.peer, partition, feed: followed.feed, after, records });
            }
        }
        self.feeds.dirty.append(&mut left);
        answers
    }

    /// The partition has no state here any more, and others tell its changes from here on. Those who are told its keys cannot go on.
    pub(crate) fn goes_on_elsewhere(&mut self, partition: PartitionId) {
        self.feeds.end(partition);
        let Some(watched) = self.watched.get(&partition) else { return };
        for id in &watched.subscribers {
            let Some(subscription) = self.all.get_mut(id) else { continue };
            let is_told_elsewhere = pages::may_be(&subscription.filter);
            let Some(place) = subscription.place_mut(partition) else { continue };
            if place.walk.is_some() && !is_told_elsewhere {
                place.gap.get_or_insert(Reason::Moved);
                self.waiting.behind.push_back((*id, partition));
            }
        }
    }
}

#[cfg(test)]
mod tests;
