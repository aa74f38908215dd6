//! The failure detector: suspects silent peers and rehabilitates them when they speak again.
//!
//! Phi-accrual (Hayashibara et al., "The φ accrual failure detector", SRDS 2004): from the gaps between a peer's last
//! signs of life it knows what gaps are usual, and suspects when the present one is improbable, with the logistic
//! approximation of the normal distribution. So a busy machine is given more time than a quiet one.
//!
//! What is usual is told by gaps in which nobody was suspected. One that ended a suspicion was an outage, and outages
//! say nothing of the rhythm of a peer that is well: counted among its gaps, a single one would give the peer four times
//! as long at its next. Only if such gaps come again and again, with no time in between in which the peer is
//! well, has the rhythm itself changed; then they count. (docs/decisions/2026-11-24-suspicion.md)

use std::collections::VecDeque;
use std::time::Duration;

use base::{NodeId, Time};

/// Gaps remembered per peer: so many heartbeats after it is well again, nothing is left of a time in which it was slow.
const SAMPLES_MAX: usize = 64;
/// So many deviations above the mean φ is 8: the chance of a longer gap is 10^-8.
const DEVIATIONS: f64 = 5.22599;
/// A gap is never judged more finely than this, however regular the peer.
const DEVIATION_MIN: Duration = Duration::from_millis(25);
/// Added to the mean: a scheduler's hiccup is not a failure.
pub(crate) const PAUSE_ACCEPTED: Duration = Duration::from_millis(150);
/// Nobody is given more time than this.
const SILENCE_MAX: Duration = Duration::from_secs(2);
/// So many outages with no well time between them are a new rhythm.
const OUTAGES_OF_A_RHYTHM: usize = 3;
/// After so many heartbeats' time without an outage a peer is well, and what was before tells nothing about its next outage.
const HEARTBEATS_OF_THE_WELL: u32 = 8;

/// What is known of one peer's liveness.
#[derive(Debug)]
pub(crate) struct Detector {
    pub peer: NodeId,
    expected: Duration,
    /// The rhythm: the last gaps that count, oldest first.
    gaps: VecDeque<Duration>,
    /// Gaps that ended suspicions since the peer was last well: fewer than [`OUTAGES_OF_A_RHYTHM`].
    outages: Vec<Duration>,
    /// For how long it has been heard without an outage.
    well_for: Duration,
    /// Who is silent for so long is suspected. Follows from the gaps.
    patience: Duration,
    heard_at: Option<Time>,
    /// For how long this node has stood still since then: in that time it could hear nobody.
    stood_still: Duration,
    /// The link broke: dead until it speaks again.
    cut: bool,
    /// The peer said that it hears this node.
    hears_me: bool,
}

impl Detector {
    /// Nothing has been heard of `peer`, who is expected to speak once in each `expected`.
    pub(crate) fn new(peer: NodeId, expected: Duration) -> Detector {
        let gaps = VecDeque::new();
        Detector {
            peer,
            expected,
            patience: patience_with(&gaps, expected),
            gaps,
            outages: Vec::new(),
            well_for: Duration::ZERO,
            heard_at: None,
            stood_still: Duration::ZERO,
            cut: false,
            hears_me: false,
        }
    }

    pub(crate) fn on_heard(&mut self, now: Time, hears_me: bool) {
        if let Some(silence) = self.silence(now)
            && !self.cut
        {
            self.learn(silence);
        }
        self.heard_at = Some(now);
        self.stood_still = Duration::ZERO;
        self.cut = false;
        self.hears_me = hears_me;
    }

    /// The peer lives, and is at one long piece of work. Nothing follows about its rhythm, and nothing about a peer whose link is gone.
    pub(crate) fn on_busy(&mut self, now: Time) {
        if self.hears(now) {
            self.heard_at = Some(now);
            self.stood_still = Duration::ZERO;
        }
    }

    /// The link is gone. A live peer will be heard on a new one at once.
    pub(crate) fn on_cut(&mut self) {
        self.cut = true;
    }

    /// This node did nothing for so long, up to now: it was stopped, or had no processor, or one turn took that long.
    pub(crate) fn on_stood_still(&mut self, duration: Duration) {
        self.stood_still = self.stood_still.saturating_add(duration);
    }

    /// Whether the peer is heard.
    pub(crate) fn hears(&self, now: Time) -> bool {
        !self.cut && self.counted_silence(now).is_some_and(|silence| silence < self.patience)
    }

    /// When it will be suspected if it is not heard, and this node does not stand still.
    pub(crate) fn suspects_at(&self) -> Option<Time> {
        self.heard_at.map(|at| at + self.stood_still.saturating_add(self.patience))
    }

    /// Whether both hear each other.
    pub(crate) fn is_up(&self, now: Time) -> bool {
        self.hears_me && self.hears(now)
    }

    /// Why it is not up, for operators.
    pub(crate) fn why_down(&self, now: Time) -> String {
        let silence = self.silence(now).unwrap_or_default().as_millis();
        if self.cut {
            "the link is gone".to_owned()
        } else if self.hears(now) {
            "it does not hear this node".to_owned()
        } else {
            let (patience, still) = (self.patience.as_millis(), self.stood_still.as_millis());
            format!("not heard for {silence} ms, of which this node stood still for {still}; {patience} are usual")
        }
    }

    /// How long ago it was heard.
    pub(crate) fn silence(&self, now: Time) -> Option<Duration> {
        self.heard_at.map(|at| now.since(at))
    }

    /// The silence for which the peer is to blame.
    fn counted_silence(&self, now: Time) -> Option<Duration> {
        self.silence(now).map(|silence| silence.saturating_sub(self.stood_still))
    }

    /// The peer was silent for so long, and has been heard.
    fn learn(&mut self, silence: Duration) {
        let gap = silence.saturating_sub(self.stood_still);
        if gap < self.patience {
            // All of it: for a node that stands still most of the time nobody would ever be well.
            self.well_for = self.well_for.saturating_add(silence);
            if self.well_for >= self.expected * HEARTBEATS_OF_THE_WELL {
                self.outages.clear();
            }
            return self.count([gap]);
        }
        self.well_for = Duration::ZERO;
        // What nobody is given the time for is no rhythm, however often it happens.
        if gap < SILENCE_MAX {
            self.outages.push(gap);
        }
        if self.outages.len() >= OUTAGES_OF_A_RHYTHM {
            let outages = std::mem::take(&mut self.outages);
            self.count(outages);
        }
    }

    fn count(&mut self, gaps: impl IntoIterator<Item = Duration>) {
        self.gaps.extend(gaps);
        while self.gaps.len() > SAMPLES_MAX {
            self.gaps.pop_front();
        }
        self.patience = patience_with(&self.gaps, self.expected);
    }
}

/// How long a silence must be for φ to reach 8, with a peer that had these gaps and should have had `expected` ones.
fn patience_with(gaps: &VecDeque<Duration>, expected: Duration) -> Duration {
    let count = gaps.len().max(1) as f64;
    let mean = gaps.iter().map(Duration::as_secs_f64).sum::<f64>() / count;
    let variance = gaps.iter().map(|gap| (gap.as_secs_f64() - mean).powi(2)).sum::<f64>() / count;
    let deviation = variance.sqrt().max(DEVIATION_MIN.as_secs_f64());
    // Nobody speaks more often than expected: a mean below that comes from what a link kept back and gave out at once.
    let mean = mean.max(expected.as_secs_f64());
    let patience = Duration::try_from_secs_f64(mean + DEVIATIONS * deviation).unwrap_or(SILENCE_MAX);
    patience.saturating_add(PAUSE_ACCEPTED).min(SILENCE_MAX)
}

#[cfg(test)]
mod tests;
