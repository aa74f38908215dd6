//! How subscriptions are told what has changed: live ones by the index, others from their places in the rings, and each no more than a turn may cost.

use std::ops::Bound;
use std::sync::Arc;

use base::{PartitionId, Time};

use super::filter::Fit;
use super::frames::{self, Reason};
use super::index::{Index, Listener};
use super::ring::Missed;
use super::token::Token;
use super::walk::{Fetch, Outcome, Walk};
use super::{NoRoom, PROGRESS_EVERY, Place, SHARES, Sink, States, Subscription, SubscriptionId, Subscriptions, Told};
use crate::door::Planted;

/// Messages that a turn sends at the most: about a millisecond's work.
pub(super) const TURN_MESSAGES_MAX: usize = 4096;
/// Comparisons of changes with keys, prefixes and patterns that a turn makes for live subscriptions.
const TURN_COMPARISONS_MAX: usize = 100_000;
/// Records that a turn looks at for subscriptions that are behind.
const TURN_RECORDS_MAX: usize = 8192;
/// Subscriptions whose connections took nothing in an earlier turn, of which a turn asks again.
const TURN_ASKED_AGAIN_MAX: usize = 1024;
/// Looking at a record costs as much as so many units of work that patterns take.
const UNITS_PER_RECORD: usize = 12;
/// Units of work that a turn gives to walks over what is there: half a millisecond.
const TURN_WALK_WORK: i64 = 50_000;
/// Records that one of them looks at before it is another one's turn.
const RECORDS_AT_ONCE: usize = 1024;
/// The words that say how far a subscription is.
const LIVE: &str = "dictum.live";
const PROGRESS: &str = "dictum.progress";

impl Subscriptions {
    /// Tells what there is to be told, up to what a turn may cost.
    pub(crate) fn tell(&mut self, now: Time, sink: &mut impl Sink, states: &impl States) -> Told {
        let mut told = Told::default();
        self.now = now;
        for _ in 0..self.waiting.later.len().min(TURN_ASKED_AGAIN_MAX) {
            self.waiting.behind.extend(self.waiting.later.pop_front());
        }
        // Those that are behind have two shares at the least, and walks have one.
        let is_walking = self.walk_left > 0 && !self.walkers.is_empty();
        let for_behind = if is_walking { SHARES - 1 } else { SHARES };
        let for_live = if self.waiting.behind.is_empty() { for_behind } else { SHARES - 2 };
        let mut comparisons = 0;
        let dirty = std::mem::take(&mut self.dirty);
        let (first, behind_last): (Vec<_>, Vec<_>) = dirty.into_iter().partition(|it| Some(*it) <= self.told_last);
        for partition in behind_last.into_iter().chain(first) {
            if !self.tell_live(partition, (for_live, &mut comparisons), sink, &mut told) {
                self.dirty.insert(partition);
            }
        }
        let mut records = 0;
        for _ in 0..self.waiting.behind.len() {
            if told.has(for_behind) || records >= TURN_RECORDS_MAX {
                break;
            }
            let Some(next) = self.waiting.behind.pop_front() else { break };
            self.go_on((next, false), (sink, states), &mut records, &mut told);
        }
        // Half of it is for those whose nodes have no state.
        self.walk_for_others(states, self.walk_left.saturating_sub(TURN_WALK_WORK / 2).max(0));
        let walk_until = self.walk_left.saturating_sub(TURN_WALK_WORK / 2).max(0);
        let records_until = records + TURN_RECORDS_MAX / SHARES;
        while self.walk_left > walk_until && !told.is_enough() && records < records_until {
            let Some(next) = self.walkers.pop() else { break };
            self.go_on((next, true), (sink, states), &mut records, &mut told);
        }
        let behind = (Bound::Excluded(self.untold_hand), Bound::Unbounded);
        let untold = self.untold.range(behind).chain(self.untold.range(..=self.untold_hand));
        let untold: Vec<SubscriptionId> = untold.copied().take(TURN_ASKED_AGAIN_MAX).collect();
        for id in untold {
            self.untold_hand = id;
            self.say_live(id, sink);
        }
        told.taken = self.tell_taken(sink);
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
            if told.has(most) || *comparisons >= TURN_COMPARISONS_MAX {
                return false;
            }
            self.told_last = Some(partition);
            let work = watched.live.listeners(&recorded.record, &mut self.found, &mut self.undecided);
            *comparisons += watched.live.cost() + work as usize;
            for id in self.undecided.drain(..) {
                let Some(subscription) = self.all.get_mut(&id) else { continue };
                watched.live.remove(id, &subscription.filter);
                let Some(place) = subscription.place_mut(partition) else { continue };
                (place.is_live, place.at, place.gap) = (false, watched.told, Some(Reason::PatternTooCostly));
                self.waiting.behind.push_back((id, partition));
            }
            let first = watched.within.map_or(0, |last| self.found.partition_point(|listener| listener.id <= last));
            self.bodies.clear();
            for listener in &self.found[first..] {
                if told.has(most) {
                    return false;
                }
                watched.within = Some(listener.id);
                match sink.protocol(listener.connection) {
                    Ok(protocol) => {
                        self.head.clear();
                        frames::change_head(protocol, listener.id, &mut self.head);
                        let body = self.bodies.get(partition, recorded, (protocol, listener.with_values));
                        told.send(sink, listener.connection, [&self.head, body]);
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
                        self.waiting.put_off((listener.id, partition), listener.connection, why);
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
                self.waiting.behind.push_back((*id, partition));
            }
        }
        (watched.live, watched.within) = (Index::default(), None);
        watched.told = self.rings.head(partition).unwrap_or(watched.told);
    }

    /// One that is behind goes on; `may_walk`: its turn among the walks has come.
    fn go_on(
        &mut self,
        ((id, partition), may_walk): ((SubscriptionId, PartitionId), bool),
        (sink, states): (&mut impl Sink, &impl States),
        records: &mut usize,
        told: &mut Told,
    ) {
        let waiting = (id, partition);
        *records += 1;
        let planted = self.planted;
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
                if why == NoRoom::Full
                    && let Some(walk) = &mut place.walk
                {
                    walk.drop_page();
                }
                return self.waiting.put_off(waiting, connection, why);
            }
        };
        if let Some(reason) = place.gap {
            let from = place.at;
            let to = self.rings.head(partition).unwrap_or(from);
            let is_there = states.tree(partition).is_some() || self.is_walked_elsewhere(&filter);
            return self.tell_gap(waiting, protocol, ((from, to), reason), (sink, is_there), told);
        }
        if matches!(&place.walk, Some(Walk { fetch: Fetch::Asked(_), .. })) {
            // It goes on when the answer comes, or its time is up.
            return;
        }
        let page_at = place.walk.as_ref().and_then(Walk::page_revision);
        if page_at.is_none() && place.walk.as_ref().is_some_and(Walk::is_at_start) {
            // Whatever has changed so far, the walk will bring it.
            place.at = self.rings.head(partition).unwrap_or(place.at);
        }
        let at = place.at;
        let is_gone = matches!(self.rings.after(partition, at).err(), Some(Missed::Gone { .. }));
        if is_gone && states.tree(partition).is_none() && self.reaches_further(partition) {
            return self.waiting.later.push_back(waiting);
        }
        let Some(place) = self.all.get_mut(&id).and_then(|it| it.place_mut(partition)) else { return };
        match self.rings.after(partition, place.at).err() {
            None => {}
            // This replica has not come so far, or nothing is recorded yet.
            Some(Missed::Ahead | Missed::Unrecorded) => return self.waiting.later.push_back(waiting),
            Some(Missed::Gone { floor }) if self.planted == Some(Planted::GapKeptQuiet) => {
                place.at = floor;
                return self.waiting.behind.push_back(waiting);
            }
            Some(Missed::Gone { floor }) => {
                let reason = if place.was_full { Reason::TooSlow } else { Reason::Retention };
                let span = (place.at, floor);
                let is_there = states.tree(partition).is_some() || self.is_walked_elsewhere(&filter);
                return self.tell_gap(waiting, protocol, (span, reason), (sink, is_there), told);
            }
        }
        let Ok(fitting) = self.rings.after(partition, place.at) else { return };
        let (mut looked, mut refused) = (0, None);
        for recorded in fitting {
            let is_behind_page = page_at.is_some_and(|at| recorded.record.revision > at);
            if looked >= RECORDS_AT_ONCE || told.is_enough() || is_behind_page {
                break;
            }
            let mut work = 0;
            let fit = match (filter.wants(&recorded.record, &mut work), &place.walk) {
                (Fit::Yes, Some(walk)) if walk.leaves_out(&recorded.record, planted, &mut work) => Fit::No,
                (fit, _) => fit,
            };
            looked += 1 + work as usize / UNITS_PER_RECORD;
            match fit {
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
                        told.send(sink, connection, [&self.head, body]);
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
            return self.waiting.put_off(waiting, connection, why);
        }
        let mut is_at_head = self.rings.head(partition) == Some(at) && !is_over;
        if let Some(page_at) = page_at.filter(|_| !is_over) {
            if at < page_at && is_at_head {
                // This node was not told yet what has changed until then.
                return self.waiting.later.push_back(waiting);
            }
            if at >= page_at {
                match self.tell_page(waiting, at, sink, told) {
                    Outcome::AtEnd | Outcome::More => {}
                    Outcome::Refused(why) => return self.waiting.put_off(waiting, connection, why),
                    Outcome::Undecided => is_at_head = false,
                }
            }
            let Some(place) = self.all.get_mut(&id).and_then(|it| it.place_mut(partition)) else { return };
            if place.walk.is_some() {
                return self.waiting.behind.push_back(waiting);
            }
        } else if is_at_head && place.walk.is_some() && states.tree(partition).is_none() {
            return match self.ask_page(waiting) {
                true => {}
                false => self.waiting.later.push_back(waiting),
            };
        } else if is_at_head && place.walk.is_some() {
            // Of a state with changes that are not in the ring this cannot be told.
            let Some(tree) = states.tree(partition).filter(|tree| tree.revision() == at) else {
                return self.waiting.later.push_back(waiting);
            };
            if !may_walk {
                return self.walkers.push(connection, waiting);
            }
            match self.walk_on(waiting, tree, sink, told) {
                Outcome::AtEnd => {}
                Outcome::More => return self.walkers.push(connection, waiting),
                Outcome::Refused(why) => return self.waiting.put_off(waiting, connection, why),
                Outcome::Undecided => is_at_head = false,
            }
        }
        let Some(watched) = self.watched.get_mut(&partition) else { return };
        if is_at_head && watched.live.is_empty() {
            // Nobody was told anything yet that this one was not.
            (watched.told, watched.within) = (at, None);
        }
        if !is_at_head || watched.told != at {
            return self.waiting.behind.push_back(waiting);
        }
        told.came_live += 1;
        // Each word is an entry of the index.
        *records += filter.words_count();
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

    /// Tells a subscription that it is live, once its connection takes that.
    fn say_live(&mut self, id: SubscriptionId, sink: &mut impl Sink) {
        let is_gone = |subscription: &Subscription| sink.protocol(subscription.connection) == Err(NoRoom::Gone);
        if self.all.get(&id).is_none_or(is_gone) || self.say_place(id, LIVE, sink) {
            self.untold.remove(&id);
            let places = self.all.get_mut(&id).map(|subscription| &mut subscription.places);
            places.into_iter().flatten().for_each(|place| place.is_walked = false);
        }
    }

    /// Where a subscription is. None while a change is told to some live ones and not to others.
    pub(super) fn token_of(&self, subscription: &Subscription) -> Option<Token> {
        let mut revisions = vec![None; usize::from(subscription.partitions)];
        // Without what is there it can go on from nowhere, nor from a place in another history.
        let is_nowhere = |place: &Place| place.walk.is_some() || place.gap == Some(Reason::BegunAnew);
        if subscription.places.iter().any(is_nowhere) {
            return None;
        }
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

    /// A tick: walks may go on. What they have taken too much is taken off.
    pub(super) fn refill(&mut self) {
        let each = i64::try_from(self.settings.walk_work_per_tick).unwrap_or(i64::MAX);
        self.walk_left = self.walk_left.saturating_add(each).min(each);
    }

    /// A tick: tells the next ones of so many parts of all how far they are, those that are live.
    pub(crate) fn tell_progress(&mut self, now: Time, part: usize, sink: &mut impl Sink) -> usize {
        self.now = now;
        self.refill();
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
