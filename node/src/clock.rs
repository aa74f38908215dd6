//! The cluster's time: what entries carry, and what deadlines are compared with.
//!
//! No single clock decides it. Each node says in its pings what its own clock shows. A ping that says which ping of ours its sender has taken was at most as long on
//! the way as that one has been gone, so the sender's clock is known within that. A majority of the clocks agrees on bounds (`clock/agreement.rs`, Marzullo's algorithm, as in NTP and
//! in TigerBeetle's clock), and a node's cluster time is its own clock within these bounds.
//!
//! A time to live shall end when that much time has passed, also where clocks are set. So the cluster's time goes on by the time that has elapsed ([`Clock::advance`]):
//! - Where the clocks of a majority are up to [`FOLLOWED`] from it, it follows them at once.
//! - Where they are further away (all clocks were set, all machines were paused), it follows by [`SLEW`] of the elapsed time only, and says so. Nothing expires all at once.
//! - While no majority agrees it follows nobody.
//!
//! A node that starts takes over the time of those that run; the first ones take that of their clocks, once a majority agrees. Until then a node leads nothing
//! ([`Clock::is_set`]). If no majority agrees for [`GRACE`], the time begins at the earliest clock that is known, but not before what all logs have passed: keys live too long rather than too
//! short. A node whose own clock lies outside the bounds gives away what it leads, as far as others can lead.

mod agreement;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use base::{NodeId, Now, Time, WallTime};

use crate::door::Level;
use agreement::{Span, most_agreed};

/// How wrong a clock may be and count as right, either way: clocks that differ by twice as much still agree.
pub const TOLERATED: Duration = Duration::from_secs(2);
/// The cluster's time follows the clocks of a majority at once where they are at most so far from it: more than clocks that agree can differ.
const FOLLOWED: Duration = Duration::from_secs(5);
/// Beyond that, it follows by one part of the elapsed time in so many.
const SLEW: u64 = 100;
/// So long after an operator has set the cluster's time logs are brought back that are ahead of it.
const SET_FOR: Duration = Duration::from_secs(60);
/// Nobody has set the time so much more often than this node knows of: such a number is damage, and would be in the way for ever.
const SETTINGS_AHEAD_MAX: u64 = 10_000;
/// A peer's reading of its clock counts for so long.
const HEARD_FOR: Duration = Duration::from_secs(5);
/// A reading counts only if its ping was at most so long on the way: else the peer's clock is not known well enough.
const WAY_MAX: Duration = Duration::from_secs(1);
/// So long a node that starts waits for a majority of clocks that agree.
const GRACE: Duration = Duration::from_secs(3);
/// A wall clock that has come as far as the timers' clock, give or take one part in so many, was not set meanwhile.
const RATE: u64 = 8;
/// Nor if it is off by so many nanoseconds: its readings are in milliseconds.
const GRAIN: u64 = 2 * MS;
const MS: u64 = 1_000_000;

/// The clocks of a ping's sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Told {
    /// What the sender's own clock shows.
    pub own: WallTime,
    /// The cluster's time as the sender has it; 0: it has none, or nobody has agreed to it.
    pub cluster: WallTime,
    /// The sender's own clock is outside of what a majority agrees on.
    pub is_outside: bool,
    /// How often operators have set the cluster's time, as far as the sender knows.
    pub settings: u64,
}

/// The last reading of a peer's clocks.
#[derive(Clone, Copy, Debug)]
struct Heard {
    told: Told,
    at: Time,
    /// At most so long it was on the way.
    way: Duration,
}

impl Heard {
    /// Where a reading that it has told is now, if its clock goes on as ours.
    fn now(&self, reading: WallTime, now: Time) -> Span {
        let earliest = nanoseconds(reading).saturating_add(whole(now.since(self.at)));
        Span { from: earliest, until: earliest.saturating_add(whole(self.way)) }
    }
}

/// Where the cluster's time comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Source {
    /// From nowhere yet.
    #[default]
    None,
    /// From the earliest clock that is known here: no majority agrees.
    Earliest,
    /// From clocks of a majority, or from nodes that had it from there.
    Majority,
}

impl Source {
    /// As `dictum status` shows it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Source::None => "none",
            Source::Earliest => "earliest",
            Source::Majority => "majority",
        }
    }
}

/// Facts about the node and the cluster that a look needs.
pub(crate) struct Context<'a> {
    /// The other nodes of the cluster.
    pub peers: &'a [NodeId],
    /// The least time that a log of this node's partitions has come to: that one, at least, has passed. 0 if there is none.
    pub log_time: WallTime,
}

/// The part that keeps the cluster's time.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    heard: BTreeMap<NodeId, Heard>,
    source: Source,
    /// The cluster's time, in nanoseconds since the epoch, and this machine's clocks when it was that.
    time: u64,
    read: Now,
    /// This machine's clocks, as last read.
    latest: Now,
    /// When the node first looked.
    began: Option<Time>,
    /// An entry was stamped while the time came from the earliest clock: from then on it may not jump forward, or what was written would be over too soon.
    is_used: bool,
    /// The bounds on which a majority of the clocks agrees.
    agreed: Option<Span>,
    /// The own clock is outside of that.
    is_outside: bool,
    /// How often operators have set the cluster's time, and when this node last followed one; since when it is to follow, at the next look at which a majority agrees.
    settings: u64,
    set_at: Option<Time>,
    to_set_since: Option<Time>,
    /// How far the clocks of a majority are ahead of the cluster's time, in nanoseconds, where it does not follow them at once.
    ahead: i64,
}

impl Clock {
    /// One that knows this machine's clocks, and nothing of the cluster's time.
    pub(crate) fn new(now: Now) -> Clock {
        Clock { latest: now, ..Clock::default() }
    }

    /// Takes this machine's clocks as they are now.
    pub(crate) fn advance(&mut self, now: Now) {
        self.latest = now;
    }

    /// The cluster's time has gone on by what has elapsed. That is what the wall clock says, as it is kept right by others; where that differs too much from the
    /// timers' clock, it was set, and the timers' clock counts.
    fn reading(&self) -> u64 {
        let now = self.latest;
        let elapsed = whole(now.time.since(self.read.time));
        let by_wall = now.wall.0.checked_sub(self.read.wall.0).map(|ms| ms.saturating_mul(MS));
        let is_likely = |by_wall: &u64| by_wall.abs_diff(elapsed) <= elapsed / RATE + GRAIN;
        self.time.saturating_add(by_wall.filter(is_likely).unwrap_or(elapsed))
    }

    /// The cluster's time; nothing while it is not known.
    pub(crate) fn now(&self) -> Option<WallTime> {
        self.is_set().then(|| WallTime(self.reading() / MS))
    }

    /// This machine's clocks: what the node notes of itself is dated by them.
    pub(crate) fn latest(&self) -> Now {
        self.latest
    }

    /// This machine's own clock.
    pub(crate) fn own(&self) -> WallTime {
        self.latest.wall
    }

    /// Whether the cluster's time is known here, so that the node may lead.
    pub(crate) fn is_set(&self) -> bool {
        self.source != Source::None
    }

    /// Whether this machine's clock is outside of what a majority agrees on.
    pub(crate) fn is_outside(&self) -> bool {
        self.is_outside
    }

    /// Whether a majority of the clocks agrees.
    pub(crate) fn is_agreed(&self) -> bool {
        self.agreed.is_some()
    }

    /// Where the time comes from.
    pub(crate) fn source(&self) -> Source {
        self.source
    }

    /// By how many milliseconds the clocks of a majority are ahead of the cluster's time, where it does not follow them at once.
    pub(crate) fn ahead_ms(&self) -> i64 {
        self.ahead / MS as i64
    }

    /// An entry is stamped with the cluster's time.
    pub(crate) fn on_stamped(&mut self) {
        self.is_used |= self.source == Source::Earliest;
    }

    /// This node's clocks, for its pings.
    pub(crate) fn told(&self) -> Told {
        let known = self.source == Source::Majority;
        let cluster = self.now().filter(|_| known).unwrap_or_default();
        Told { own: self.latest.wall, cluster, is_outside: self.is_outside, settings: self.settings }
    }

    /// An operator wants the cluster's time to be what the clocks of a majority show, at once. Whether these agree: else nothing happens.
    pub(crate) fn set(&mut self) -> bool {
        if self.agreed.is_none() {
            return false;
        }
        self.settings = self.settings.saturating_add(1);
        self.to_set_since = Some(self.latest.time);
        true
    }

    /// Whether that was a short while ago.
    pub(crate) fn was_set_lately(&self, now: Time) -> bool {
        self.set_at.is_some_and(|at| now.since(at) < SET_FOR)
    }

    /// A peer's ping has come. `sent`: when the ping left that it says to have taken.
    pub(crate) fn on_told(&mut self, peer: NodeId, told: Told, sent: Time, now: Time) {
        if told.settings > self.settings && told.settings - self.settings <= SETTINGS_AHEAD_MAX {
            self.settings = told.settings;
            // One that has no time yet takes over what the others have.
            self.to_set_since = self.is_set().then_some(now);
        }
        let way = now.since(sent);
        if told.own != WallTime::default() && way <= WAY_MAX {
            self.heard.insert(peer, Heard { told, at: now, way });
        }
    }

    /// By how many milliseconds a peer's clock is ahead of this machine's, as last heard.
    pub(crate) fn offset_ms(&self, peer: NodeId) -> Option<i64> {
        let heard = self.heard.get(&peer).filter(|heard| self.latest.time.since(heard.at) < HEARD_FOR)?;
        let span = heard.now(heard.told.own, self.latest.time);
        Some((signed(span.middle()).saturating_sub(signed(nanoseconds(self.latest.wall)))) / MS as i64)
    }

    /// Compares the clocks, and sets the cluster's time by them. Returns what its operator should read of it.
    pub(crate) fn look(&mut self, context: &Context<'_>, name_of: impl Fn(NodeId) -> String) -> Vec<(Level, String)> {
        let time = self.latest.time;
        let began = *self.began.get_or_insert(time);
        self.heard.retain(|peer, heard| context.peers.contains(peer) && time.since(heard.at) < HEARD_FOR);
        let (reading, elapsed) = (self.reading(), time.since(self.read.time));
        self.time = reading;
        self.read = self.latest;
        let own = nanoseconds(self.latest.wall);
        let majority = context.peers.len().div_ceil(2) + 1;
        let clocks = self.heard.values().map(|heard| heard.now(heard.told.own, time)).chain([Span::at(own)]);
        let agreed = most_agreed(clocks.map(|span| span.wider(whole(TOLERATED))));
        let before = (self.agreed.is_some(), self.is_outside, self.source, self.ahead != 0);
        self.agreed = agreed.filter(|(_, count)| *count >= majority).map(|(span, _)| span);
        // One that was outside has to come nearer: at the edge, leaderships would come and go.
        let tolerated = if self.is_outside { TOLERATED / 2 } else { TOLERATED };
        self.is_outside = self.agreed.is_some_and(|agreed| !agreed.meets(Span::at(own).wider(whole(tolerated))));
        // One that is outside says nothing of where within the bounds the time is.
        let wanted = self.agreed.map(|agreed| match (self.is_outside, self.source) {
            (false, _) => own.clamp(agreed.from, agreed.until),
            (true, Source::None) => agreed.middle(),
            (true, _) => self.time.clamp(agreed.from, agreed.until),
        });
        // Those who have not followed an operator yet do not count.
        let is_running = |it: &&Heard| it.told.cluster != WallTime::default() && it.told.settings >= self.settings;
        let running = self.heard.values().filter(is_running);
        let running = running.map(|heard| heard.now(heard.told.cluster, time).wider(whole(TOLERATED)));
        // Long afterwards nobody expects it any more.
        self.to_set_since = self.to_set_since.filter(|since| time.since(*since) < SET_FOR);
        if let Some(wanted) = wanted.filter(|_| self.to_set_since.is_some()) {
            self.ahead = 0;
            (self.time, self.source, self.to_set_since, self.set_at) = (wanted, Source::Majority, None, Some(time));
        }
        match self.source {
            Source::Majority => {
                let with_own = running.chain([Span::at(self.time).wider(whole(TOLERATED))]);
                if let Some((shared, _)) = most_agreed(with_own).filter(|(_, count)| *count >= majority) {
                    self.time = self.time.clamp(shared.from, shared.until);
                }
                self.follow(wanted, elapsed);
            }
            Source::Earliest if self.is_used => {
                if wanted.is_some() {
                    self.source = Source::Majority;
                }
                self.follow(wanted, elapsed);
            }
            Source::None | Source::Earliest => {
                let taken_over = most_agreed(running);
                if let Some((shared, _)) = taken_over {
                    self.time = wanted.map_or(shared.middle(), |wanted| wanted.clamp(shared.from, shared.until));
                    self.source = Source::Majority;
                } else if let Some(wanted) = wanted {
                    self.time = wanted;
                    self.source = Source::Majority;
                } else if time.since(began) >= GRACE {
                    let known: Vec<u64> =
                        self.heard.values().map(|heard| heard.now(heard.told.own, time).from).chain([own]).collect();
                    let (least, most) =
                        known.iter().fold((own, own), |(least, most), it| (least.min(*it), most.max(*it)));
                    // A log that is ahead of all clocks was wrong itself, and must not end what is in others.
                    let log = Some(nanoseconds(context.log_time)).filter(|log| *log <= most);
                    let earliest = least.max(log.unwrap_or(0));
                    let goes_on = self.source == Source::Earliest;
                    self.time = if goes_on { self.time.min(earliest) } else { earliest };
                    self.source = Source::Earliest;
                }
            }
        }
        self.news(before, context, name_of)
    }

    /// Brings the cluster's time to where a majority wants it: at once, or by little.
    fn follow(&mut self, wanted: Option<u64>, elapsed: Duration) {
        let Some(wanted) = wanted else { return };
        self.ahead = 0;
        if wanted.abs_diff(self.time) <= whole(FOLLOWED) {
            self.time = wanted;
            return;
        }
        let step = (whole(elapsed) / SLEW).min(wanted.abs_diff(self.time));
        self.time = if wanted > self.time { self.time.saturating_add(step) } else { self.time.saturating_sub(step) };
        self.ahead = signed(wanted).saturating_sub(signed(self.time));
    }

    fn news(
        &self,
        before: (bool, bool, Source, bool),
        context: &Context<'_>,
        name_of: impl Fn(NodeId) -> String,
    ) -> Vec<(Level, String)> {
        let (agreed_before, outside_before, source_before, ahead_before) = before;
        let mut news = Vec::new();
        if self.is_outside != outside_before {
            news.push(if self.is_outside {
                let agreed = self.agreed.map_or(0, |agreed| signed(agreed.middle()));
                let off = seconds(signed(nanoseconds(self.latest.wall)).saturating_sub(agreed));
                let text = format!(
                    "this machine's clock is {off} off what a majority of the nodes agrees on: set it right. This node gives away what it leads; \
                     the cluster's time is that of the majority"
                );
                (Level::Error, text)
            } else {
                (Level::Info, "this machine's clock agrees with a majority of the nodes again".to_owned())
            });
        }
        let disagrees = self.agreed.is_none() && self.heard.len() >= context.peers.len().div_ceil(2);
        let begins = source_before != self.source && self.source == Source::Earliest;
        if begins || disagrees && agreed_before {
            let clocks = self.heard.keys().filter_map(|peer| {
                self.offset_ms(*peer).map(|ms| format!("{} {}", name_of(*peer), seconds(ms.saturating_mul(MS as i64))))
            });
            let clocks = clocks.collect::<Vec<_>>().join(", ");
            news.push((
                Level::Warning,
                format!(
                    "no majority of the nodes' clocks agrees (against this one's: {}); the cluster's time goes on by what elapses",
                    if clocks.is_empty() { "no other was heard" } else { &clocks }
                ),
            ));
        } else if self.agreed.is_some() && !agreed_before && source_before != Source::None {
            news.push((Level::Info, "a majority of the nodes' clocks agrees".to_owned()));
        }
        if (self.ahead != 0) != ahead_before {
            news.push(if self.ahead == 0 {
                (Level::Info, "the cluster's time has come to what the clocks of a majority show".to_owned())
            } else {
                let text = format!(
                    "the clocks of a majority are {} from the cluster's time: they were set, or all nodes stood still. Times to live go on by what elapses; \
                     the cluster's time follows by one part in {SLEW}",
                    seconds(self.ahead)
                );
                (Level::Warning, text)
            });
        }
        news
    }
}

/// A difference for people.
fn seconds(nanoseconds: i64) -> String {
    format!("{:+.1} s", nanoseconds as f64 / 1e9)
}

fn nanoseconds(wall: WallTime) -> u64 {
    wall.0.saturating_mul(MS)
}

fn whole(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn signed(nanoseconds: u64) -> i64 {
    i64::try_from(nanoseconds).unwrap_or(i64::MAX)
}
