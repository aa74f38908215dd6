//! What is measured of a node's quickness in a window of half a second.
//!
//! - **A sync**: the median of what the owner says that syncs took ([`crate::Input::Synced`]). Not from when a payload leaves until it is
//!   [`crate::Input::Persisted`]: that counts how busy the loop is, too, and whoever leads is busier than the others. Where nothing
//!   has been synced for a window though something waits for it, it is how long that waits.
//! - **How late the loop is**: how long something that arrives at a moment that nobody has chosen waits until the loop looks at it, on average:
//!   Σ l² / 2T, if ticks are late by l in a time T. So one that stands still for 80 of each 100 ms is late by 32 ms, though most of its ticks are in time.
//! - **A message there and back**: the lower quartile of the ways to and from each peer, and of these that of the nearest ones with which this
//!   node is a majority. Pings tell it: each says which one of the receiver's was taken, and how long ago. Not the median: a ping waits behind large entries
//!   in the same queue, and for a processor that others use. Both add to many ways of a window, and to those of a leader most; a slow link adds to all.
//!
//! A loop that is at work takes nothing meanwhile: ticks and pings wait. That says nothing of the node's quickness. The leader has more work than the others, and a client
//! that sends costly commands makes one node work for seconds; the next leader would then be slow. So the owner says how long the loop had the
//! processor ([`crate::Input::Worked`]), and this time counts neither as late nor as on the way. What is left is time in which the loop did not run. An answer is written at the beginning
//! of a turn and leaves at its end, so the node that answers adds a turn's work to the time that it has had the ping.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use base::{NodeId, Time};

use super::Part;

/// How long a window is.
pub(crate) const WINDOW: Duration = Duration::from_millis(500);
/// Most syncs of a window that count; the others are left out.
const SYNCS_MAX: usize = 4096;
/// Pings whose departure is known: an answer that takes longer says nothing.
const SENT_MAX: usize = 512;

/// Times of work that are known: those of the last two windows, at the least.
const WORKS_MAX: usize = 256;

/// A turn of the loop lately was about as long as the next one may be.
const LATELY: Duration = Duration::from_millis(200);
/// Less between two times of work is no rest.
const REST: Duration = Duration::from_millis(6);

/// A time in which the loop had the processor for a while.
#[derive(Clone, Copy, Debug)]
struct Work {
    from: Time,
    until: Time,
    processor: Duration,
}

impl Work {
    /// How much of the work may lie between two moments: as much as possible.
    fn between(&self, from: Time, until: Time) -> Duration {
        let common = self.until.min(until).since(self.from.max(from));
        common.min(self.processor)
    }
}

/// See the file's head.
#[derive(Debug, Default)]
pub(crate) struct Measure {
    /// When the window began.
    began: Option<Time>,
    syncs: Vec<Duration>,
    /// The last payload that left for the journal.
    sealed: u64,
    /// Payloads wait for the journal, and it has taken none since then.
    waits_since: Option<Time>,
    /// Squares of what ticks were late, in seconds.
    late: f64,
    ways: BTreeMap<NodeId, Vec<Duration>>,
    /// The last pings, with when they left.
    sent: VecDeque<(u64, Time)>,
    /// Times at which the loop worked lately; newer ones behind.
    works: VecDeque<Work>,
}

impl Measure {
    /// A payload leaves for the journal.
    pub(crate) fn on_sealed(&mut self, number: u64, now: Time) {
        self.sealed = number;
        self.waits_since.get_or_insert(now);
    }

    /// Everything up to this payload is on disk.
    pub(crate) fn on_persisted(&mut self, number: u64, now: Time) {
        self.waits_since = (number < self.sealed).then_some(now);
    }

    /// The disk has taken so long for a sync.
    pub(crate) fn on_synced(&mut self, took: Duration) {
        if self.syncs.len() < SYNCS_MAX {
            self.syncs.push(took);
        }
    }

    /// The loop had the processor for so long of this time.
    pub(crate) fn on_worked(&mut self, from: Time, until: Time, processor: Duration) {
        if self.works.len() == WORKS_MAX {
            self.works.pop_front();
        }
        self.works.push_back(Work { from, until, processor });
    }

    /// How long the loop was at work between two moments, at the most.
    fn worked(&self, from: Time, until: Time) -> Duration {
        self.works.iter().rev().take_while(|work| work.until > from).map(|work| work.between(from, until)).sum()
    }

    /// Since when the loop has been at work without a rest, and for how long: something that it takes now may have come as long ago, and have waited behind what else
    /// came on that link.
    pub(crate) fn worked_until(&self, now: Time) -> Duration {
        let (mut began, mut sum) = (now, Duration::ZERO);
        for work in self.works.iter().rev() {
            let length = work.until.since(work.from);
            if began.since(work.until) > REST || work.processor * 2 < length {
                break;
            }
            (began, sum) = (work.from, sum + work.processor);
        }
        sum
    }

    /// The longest time at a stretch that the loop was at work lately. A ping is written at the beginning of a turn and leaves at its end: it may be as much later.
    pub(crate) fn longest_work(&self, now: Time) -> Duration {
        let lately = self.works.iter().rev().take_while(|work| now.since(work.until) < LATELY);
        lately.map(|work| work.processor).max().unwrap_or_default()
    }

    /// A tick came so late.
    pub(crate) fn on_tick(&mut self, late: Duration, now: Time) {
        let planned = Time(now.0.saturating_sub(u64::try_from(late.as_nanos()).unwrap_or(u64::MAX)));
        let late = late.saturating_sub(self.worked(planned, now));
        self.late += late.as_secs_f64().powi(2);
    }

    /// A ping leaves.
    pub(crate) fn on_ping(&mut self, number: u64, now: Time) {
        if self.sent.back().is_none_or(|(last, _)| *last != number) {
            self.sent.push_back((number, now));
        }
        if self.sent.len() > SENT_MAX {
            self.sent.pop_front();
        }
    }

    /// When this ping left; nothing if that is long ago.
    pub(crate) fn sent_at(&self, number: u64) -> Option<Time> {
        let place = self.sent.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        Some(self.sent[place].1)
    }

    /// A peer had this ping for so long before its answer left.
    pub(crate) fn on_answer(&mut self, peer: NodeId, number: u64, held: Duration, now: Time) {
        if let Ok(place) = self.sent.binary_search_by_key(&number, |(number, _)| *number) {
            // As if the peer had held it first: what was on the way while this loop worked may have waited for it alone.
            let left = self.sent[place].1 + held;
            let way = now.since(left).saturating_sub(self.worked(left, now));
            self.ways.entry(peer).or_default().push(way);
        }
    }

    /// Ends the window if it is over: what it has shown of each part, if anything. `peers`: how many other nodes there are.
    pub(crate) fn close(&mut self, now: Time, peers: usize) -> Option<[Option<Duration>; Part::ALL.len()]> {
        let began = *self.began.get_or_insert(now);
        let length = now.since(began);
        if length < WINDOW {
            return None;
        }
        self.began = Some(now);
        let waits = self.waits_since.map(|since| now.since(since)).filter(|waits| *waits >= WINDOW);
        let sync = quantile(&mut self.syncs, 2).or(waits);
        let late = Duration::from_secs_f64(std::mem::take(&mut self.late) / (2.0 * length.as_secs_f64()));
        let mut ways: Vec<Duration> = self.ways.values_mut().filter_map(|ways| quantile(ways, 4)).collect();
        ways.sort_unstable();
        let others = peers.div_ceil(2);
        let way = others.checked_sub(1).and_then(|place| ways.get(place).copied());
        Some([sync, Some(late), way])
    }
}

/// The one below which is one part of so many (2: the middle one; of two the lower), and none is left.
fn quantile(durations: &mut Vec<Duration>, parts: usize) -> Option<Duration> {
    let place = durations.len().checked_sub(1)? / parts;
    let (_, found, _) = durations.select_nth_unstable(place);
    let found = *found;
    durations.clear();
    Some(found)
}
