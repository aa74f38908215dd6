//! Patience with peers: what outages, slowness and this node's own stalls make of it.

use super::*;

/// One peer, whose life is told in milliseconds.
struct Story {
    detector: Detector,
    now: u64,
}

impl Story {
    /// A peer that has been heard every 50 ms for 5 seconds.
    fn of_a_well_peer() -> Story {
        let mut story = Story { detector: Detector::new(NodeId(1), Duration::from_millis(50)), now: 0 };
        story.detector.on_heard(at(0), true);
        story.hear_every(50, 100);
        story
    }

    /// The peer is silent for `gap` and then heard.
    fn hear_after(&mut self, gap: u64) {
        self.now += gap;
        self.detector.on_heard(at(self.now), true);
    }

    fn hear_every(&mut self, gap: u64, times: u64) {
        (0..times).for_each(|_| self.hear_after(gap));
    }

    /// After how many milliseconds of silence from now on the peer would be suspected.
    fn patience(&self) -> u64 {
        let suspected = |silence: &u64| !self.detector.is_up(at(self.now + silence));
        (0..3000).find(suspected).expect("nobody is waited for so long")
    }

    /// How often the peer is suspected while it is heard at these gaps, one after the other.
    fn suspicions(&mut self, gaps: impl IntoIterator<Item = u64>) -> usize {
        let mut count = 0;
        for gap in gaps {
            count += usize::from(!self.detector.is_up(at(self.now + gap)));
            self.hear_after(gap);
        }
        count
    }
}

fn at(milliseconds: u64) -> Time {
    Time(milliseconds * 1_000_000)
}

#[test]
fn silence_is_suspicious_and_speech_rehabilitates() {
    let mut story = Story::of_a_well_peer();
    assert!(story.detector.is_up(at(story.now + 200)));
    assert!(!story.detector.is_up(at(story.now + 600)));
    story.hear_after(700);
    assert!(story.detector.is_up(at(story.now + 50)));
}

#[test]
fn an_outage_leaves_no_patience_behind() {
    let short = Story::of_a_well_peer().patience();
    for length in (short..5000).step_by(100) {
        let mut story = Story::of_a_well_peer();
        story.hear_after(length);
        assert_eq!(story.patience(), short, "right behind an outage of {length} ms");
        story.hear_every(50, 20);
        assert_eq!(story.patience(), short, "a second behind an outage of {length} ms");
    }
}

#[test]
fn outages_in_quick_succession_are_each_found_as_soon_as_the_first() {
    let mut story = Story::of_a_well_peer();
    let short = story.patience();
    for round in 0..200 {
        story.hear_after(short + round * 97 % 3000);
        story.hear_every(50, 8);
        assert_eq!(story.patience(), short, "after {} outages", round + 1);
    }
}

#[test]
fn outages_that_no_patience_would_bear_make_nobody_patient_however_close_they_follow() {
    let mut story = Story::of_a_well_peer();
    let short = story.patience();
    for _ in 0..50 {
        story.hear_after(2000);
        story.hear_after(50);
        assert_eq!(story.patience(), short);
    }
}

#[test]
fn what_a_link_kept_back_during_an_outage_is_no_rhythm() {
    let mut story = Story::of_a_well_peer();
    let short = story.patience();
    for _ in 0..10 {
        story.hear_after(1000);
        story.hear_every(0, 64);
        assert_eq!(story.patience(), short, "everything that was kept back came at once");
        story.hear_every(50, 8);
    }
    // Nor does it look like a time in which the peer was well.
    let mut story = Story::of_a_well_peer();
    for _ in 0..3 {
        story.hear_after(1000);
        story.hear_every(0, 20);
    }
    assert!(story.patience() > 1000);
}

#[test]
fn a_peer_that_becomes_slow_and_stays_so_is_suspected_a_few_times_and_then_waited_for() {
    for slow in [300, 350, 500, 800, 1200, 1600, 1900] {
        let mut story = Story::of_a_well_peer();
        let count = story.suspicions([slow; 200]);
        assert!(count <= 3, "suspected {count} times at {slow} ms");
        let patience = story.patience();
        assert!(patience > slow && patience <= 2000, "{patience} ms at {slow} ms");
    }
}

#[test]
fn a_peer_that_becomes_slow_bit_by_bit_is_never_suspected() {
    let mut story = Story::of_a_well_peer();
    assert_eq!(story.suspicions((50..1500).step_by(10)), 0);
    assert_eq!(story.suspicions([1500; 64]), 0);
}

#[test]
fn a_peer_that_is_slow_now_and_then_is_suspected_a_few_times_and_then_waited_for() {
    for every in 2..=8 {
        let mut story = Story::of_a_well_peer();
        let count = story.suspicions((1..1000).map(|i| if i % every == 0 { 400 } else { 50 }));
        assert!(count <= 3, "suspected {count} times when slow once in {every}");
    }
    let mut story = Story::of_a_well_peer();
    story.suspicions((1..=100).map(|i| if i % 5 == 0 { 400 } else { 50 }));
    assert!(story.detector.is_up(at(story.now + 600)));
    assert!(!story.detector.is_up(at(story.now + 2100)), "but not for ever");
}

#[test]
fn who_is_well_again_is_given_no_more_than_usual_after_64_heartbeats() {
    let short = Story::of_a_well_peer().patience();
    for slow in [300, 500, 1900] {
        let mut story = Story::of_a_well_peer();
        story.hear_every(slow, 100);
        story.hear_every(50, 64);
        assert_eq!(story.patience(), short, "after gaps of {slow} ms");
    }
}

#[test]
fn the_time_in_which_this_node_stood_still_is_no_silence_of_a_peer() {
    let mut story = Story::of_a_well_peer();
    let short = story.patience();
    for _ in 0..10 {
        story.now += 10_000;
        story.detector.on_stood_still(Duration::from_secs(10));
        assert!(story.detector.is_up(at(story.now)));
        assert_eq!(story.patience(), short, "it has as much time as ever");
        story.hear_after(30);
        assert_eq!(story.patience(), short, "and no more afterwards");
    }
    assert_eq!(story.detector.silence(at(story.now + 70)), Some(Duration::from_millis(70)));
    story.detector.on_stood_still(Duration::from_secs(10));
    assert_eq!(story.detector.silence(at(story.now + 10_070)), Some(Duration::from_millis(10_070)), "the truth");
}

#[test]
fn outages_are_independent_for_a_node_that_often_stands_still_too() {
    let mut story = Story::of_a_well_peer();
    let short = story.patience();
    for _ in 0..20 {
        story.hear_after(1000);
        for _ in 0..5 {
            story.detector.on_stood_still(Duration::from_millis(190));
            story.hear_after(200);
        }
        assert_eq!(story.patience(), short);
    }
}

#[test]
fn a_cut_link_is_suspected_at_once_and_a_deaf_peer_is_not_up() {
    let mut story = Story::of_a_well_peer();
    let short = story.patience();
    story.detector.on_cut();
    story.detector.on_stood_still(Duration::from_secs(1));
    assert!(!story.detector.hears(at(story.now + 1)));
    story.now += 1900;
    story.detector.on_heard(at(story.now), false);
    assert!(story.detector.hears(at(story.now + 1)) && !story.detector.is_up(at(story.now + 1)));
    story.hear_after(50);
    assert_eq!(story.patience(), short);
}

#[test]
fn patience_is_where_a_longer_gap_has_a_chance_of_one_in_a_hundred_million() {
    let y = DEVIATIONS;
    let e = (-y * (1.5976 + 0.070566 * y * y)).exp();
    let phi = -(e / (1.0 + e)).log10();
    assert!((phi - 8.0).abs() < 1e-4, "φ is {phi}");
}

#[test]
fn a_peer_that_says_it_is_busy_is_waited_for_and_its_rhythm_stays_what_it_was() {
    let mut story = Story::of_a_well_peer();
    let patience = story.patience();
    for _ in 0..200 {
        story.now += 50;
        story.detector.on_busy(at(story.now));
    }
    assert!(story.detector.is_up(at(story.now)), "ten seconds of work");
    assert_eq!(story.patience(), patience, "what it is given afterwards is no more than before");
    story.hear_after(50);
    assert_eq!(story.patience(), patience);
    // Who is gone is not brought back by it: only a ping tells what has become of the peer.
    story.now += 5_000;
    story.detector.on_busy(at(story.now));
    assert!(!story.detector.is_up(at(story.now)));
    story.hear_after(50);
    story.detector.on_cut();
    story.detector.on_busy(at(story.now));
    assert!(!story.detector.is_up(at(story.now)), "the link is gone");
}
