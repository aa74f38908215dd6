//! The failure detector: suspects silent peers and rehabilitates them when they speak again.
//!
//! Phi-accrual (Hayashibara et al., "The φ accrual failure detector", SRDS 2004): from the gaps between a peer's last
//! signs of life it knows what gaps are usual, and suspects when the present one is improbable, with the logistic
//! approximation of the normal distribution. So a busy machine is given more time than a quiet one.

use std::collections::VecDeque;
use std::time::Duration;

use base::{NodeId, Time};

/// Gaps remembered per peer.
const SAMPLES_MAX: usize = 64;
/// Suspect when the chance of such a gap is below 10^-8.
const PHI_SUSPECT: f64 = 8.0;
/// A gap is never judged more finely than this, however regular the peer.
const DEVIATION_MIN: Duration = Duration::from_millis(25);
/// Added to the mean: a scheduler's hiccup is not a failure.
const PAUSE_ACCEPTED: Duration = Duration::from_millis(150);
/// Nobody is given more time than this.
const SILENCE_MAX: Duration = Duration::from_secs(2);

/// What is known of one peer's liveness.
#[derive(Debug)]
pub(crate) struct Detector {
    pub peer: NodeId,
    expected: Duration,
    gaps: VecDeque<Duration>,
    heard_at: Option<Time>,
    /// The link broke: dead until it speaks again.
    cut: bool,
    /// The peer said that it hears this node.
    hears_me: bool,
}

impl Detector {
    /// Nothing has been heard of `peer`, who is expected to speak once in each `expected`.
    pub(crate) fn new(peer: NodeId, expected: Duration) -> Detector {
        Detector { peer, expected, gaps: VecDeque::new(), heard_at: None, cut: false, hears_me: false }
    }

    pub(crate) fn on_heard(&mut self, now: Time, hears_me: bool) {
        if let Some(at) = self.heard_at
            && !self.cut
        {
            self.gaps.push_back(now.since(at).min(SILENCE_MAX));
            if self.gaps.len() > SAMPLES_MAX {
                self.gaps.pop_front();
            }
        }
        self.heard_at = Some(now);
        self.cut = false;
        self.hears_me = hears_me;
    }

    /// The link is gone. A live peer will be heard on a new one at once.
    pub(crate) fn on_cut(&mut self) {
        self.cut = true;
    }

    /// Whether the peer is heard.
    pub(crate) fn hears(&self, now: Time) -> bool {
        let Some(at) = self.heard_at else { return false };
        let silence = now.since(at);
        // A silence that is accepted anyway lies below the mean that phi compares it with: no need to work that out, many times a turn.
        !self.cut && (silence <= PAUSE_ACCEPTED || silence < SILENCE_MAX && self.phi(silence) < PHI_SUSPECT)
    }

    /// Whether both hear each other.
    pub(crate) fn is_up(&self, now: Time) -> bool {
        self.hears_me && self.hears(now)
    }

    /// How long ago it was heard.
    pub(crate) fn silence(&self, now: Time) -> Option<Duration> {
        self.heard_at.map(|at| now.since(at))
    }

    fn phi(&self, silence: Duration) -> f64 {
        let seconds = |duration: &Duration| duration.as_secs_f64();
        let count = self.gaps.len().max(1) as f64;
        let mean = if self.gaps.is_empty() {
            seconds(&self.expected)
        } else {
            self.gaps.iter().map(seconds).sum::<f64>() / count
        };
        let variance = self.gaps.iter().map(|gap| (seconds(gap) - mean).powi(2)).sum::<f64>() / count;
        let deviation = variance.sqrt().max(seconds(&DEVIATION_MIN));
        let y = (seconds(&silence) - mean - seconds(&PAUSE_ACCEPTED)) / deviation;
        let e = (-y * (1.5976 + 0.070566 * y * y)).exp();
        // The chance of a gap at least this long, without loss of digits on either side of the mean.
        let later = if y > 0.0 { e / (1.0 + e) } else { 1.0 - 1.0 / (1.0 + e) };
        if later <= f64::MIN_POSITIVE { f64::MAX } else { -later.log10() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Time {
        Time(milliseconds * 1_000_000)
    }

    fn heard_every(gap: u64, times: u64) -> (Detector, u64) {
        let mut detector = Detector::new(NodeId(1), Duration::from_millis(50));
        (0..=times).for_each(|i| detector.on_heard(at(i * gap), true));
        (detector, times * gap)
    }

    #[test]
    fn silence_is_suspicious_and_speech_rehabilitates() {
        let (mut detector, last) = heard_every(50, 100);
        assert!(detector.is_up(at(last + 200)));
        assert!(!detector.is_up(at(last + 600)));
        detector.on_heard(at(last + 700), true);
        assert!(detector.is_up(at(last + 750)));
    }

    #[test]
    fn an_irregular_peer_is_given_more_time_but_not_for_ever() {
        let mut detector = Detector::new(NodeId(1), Duration::from_millis(50));
        let mut now = 0;
        for i in 0..100 {
            now += if i % 5 == 0 { 400 } else { 50 };
            detector.on_heard(at(now), true);
        }
        assert!(detector.is_up(at(now + 600)));
        assert!(!detector.is_up(at(now + 2100)));
    }

    #[test]
    fn a_cut_link_is_suspected_at_once_and_a_deaf_peer_is_not_up() {
        let (mut detector, last) = heard_every(50, 10);
        detector.on_cut();
        assert!(!detector.hears(at(last + 1)));
        detector.on_heard(at(last + 10), false);
        assert!(detector.hears(at(last + 11)) && !detector.is_up(at(last + 11)));
    }
}
