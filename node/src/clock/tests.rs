//! Clocks of several nodes that tell each other what they show, with the true time beside them.

use std::time::Duration;

use base::{NodeId, Now, Time, WallTime};

use super::*;

const EPOCH: u64 = 1_790_000_000_000;
const DAY: i64 = 24 * 3600 * 1000;
/// Milliseconds from round to round, and how long a message is on the way there and back.
const ROUND: u64 = 50;
const WAY: Duration = Duration::from_millis(2);

struct Nodes {
    clocks: Vec<Option<Clock>>,
    /// By how many milliseconds each wall clock is wrong.
    off: Vec<i64>,
    /// True milliseconds since the beginning.
    at: u64,
    log_time: WallTime,
    events: Vec<(usize, Level, String)>,
}

impl Nodes {
    fn new(off: &[i64]) -> Nodes {
        let clocks = off.iter().map(|_| Some(Clock::default())).collect();
        Nodes { clocks, off: off.to_vec(), at: 1_000, log_time: WallTime::default(), events: Vec::new() }
    }

    fn now(&self, node: usize) -> Now {
        let wall = (EPOCH + self.at).saturating_add_signed(self.off[node]);
        // Origins of timers' clocks differ.
        Now { time: Time((self.at + 7_777 * node as u64) * MS), wall: WallTime(wall) }
    }

    /// Rounds in which all that run tell each other their clocks, and look.
    fn pass(&mut self, rounds: u64) {
        for _ in 0..rounds {
            self.at += ROUND;
            let ids: Vec<usize> = (0..self.clocks.len()).collect();
            for node in ids.clone() {
                let now = self.now(node);
                if let Some(clock) = &mut self.clocks[node] {
                    clock.advance(now);
                }
            }
            let told: Vec<_> = self.clocks.iter().map(|clock| clock.as_ref().map(Clock::told)).collect();
            for node in ids.clone() {
                let (now, log_time) = (self.now(node), self.log_time);
                let peers: Vec<NodeId> = ids.iter().filter(|id| **id != node).map(|id| NodeId(*id as u16)).collect();
                let Some(clock) = &mut self.clocks[node] else { continue };
                for peer in &peers {
                    if let Some(told) = told[usize::from(peer.0)] {
                        clock.on_told(*peer, told, now.time - WAY, now.time);
                    }
                }
                let news = clock.look(&Context { peers: &peers, log_time }, |id| format!("n{}", id.0));
                self.events.extend(news.into_iter().map(|(level, text)| (node, level, text)));
            }
        }
    }

    /// By how many milliseconds the cluster's time is ahead of the true one, as a node has it.
    fn error(&self, node: usize) -> Option<i64> {
        let shown = self.clocks[node].as_ref()?.now()?;
        Some(shown.0 as i64 - (EPOCH + self.at) as i64)
    }

    #[track_caller]
    fn all_within(&self, milliseconds: i64) {
        for node in 0..self.clocks.len() {
            let error = self.error(node).expect("it knows the time");
            assert!(error.abs() <= milliseconds, "node {node} is {error} ms off");
        }
    }

    fn said(&self, node: usize, what: &str) -> bool {
        self.events.iter().any(|(of, _, text)| *of == node && text.contains(what))
    }
}

#[test]
fn a_node_alone_goes_by_its_own_clock() {
    let mut nodes = Nodes::new(&[0]);
    nodes.pass(1);
    nodes.all_within(0);
    assert!(nodes.events.is_empty(), "{:?}", nodes.events);
}

#[test]
fn clocks_that_differ_a_little_are_all_right() {
    let mut nodes = Nodes::new(&[-900, 0, 900]);
    nodes.pass(3);
    assert_eq!([0, 1, 2].map(|node| nodes.error(node)), [Some(-900), Some(0), Some(900)]);
    assert!(nodes.events.is_empty(), "{:?}", nodes.events);
    // A clock that is set within that is followed at once.
    nodes.off = vec![900, 0, -900];
    nodes.pass(2);
    assert_eq!([0, 1, 2].map(|node| nodes.error(node)), [Some(900), Some(0), Some(-900)]);
    // Where they differ by more, they go by what all have in common.
    nodes.off = vec![1_900, 0, -1_900];
    nodes.pass(2);
    nodes.all_within(200);
}

#[test]
fn one_that_is_days_ahead_or_behind_is_outside_and_goes_by_the_others() {
    for off in [2 * DAY, -2 * DAY, 30_000, 73 * 365 * DAY, i64::MAX / 2] {
        let mut nodes = Nodes::new(&[0, off, 300]);
        nodes.pass(3);
        nodes.all_within(2_000 + ROUND as i64);
        let outside = |nodes: &Nodes| nodes.clocks.iter().flatten().map(Clock::is_outside).collect::<Vec<_>>();
        assert_eq!(outside(&nodes), [false, true, false], "{off}");
        assert!(nodes.said(1, "set it right"), "{:?}", nodes.events);
        nodes.off[1] = 0;
        nodes.pass(3);
        nodes.all_within(2_000);
        assert_eq!(outside(&nodes), [false, false, false]);
    }
}

#[test]
fn a_clock_that_stands_still_goes_on_and_is_outside_once_it_is_late() {
    let mut nodes = Nodes::new(&[0, 0, 0]);
    nodes.pass(3);
    for _ in 0..400 {
        nodes.off[2] -= ROUND as i64;
        nodes.pass(1);
        nodes.all_within(2_100);
    }
    assert!(nodes.clocks[2].as_ref().is_some_and(Clock::is_outside));
}

#[test]
fn all_clocks_are_set_by_an_hour_and_times_to_live_are_as_before() {
    for off in [3_600_000, -3_600_000] {
        let mut nodes = Nodes::new(&[0, 0, 0]);
        nodes.pass(3);
        nodes.off = vec![off; 3];
        nodes.pass(1);
        nodes.all_within(60);
        assert!(nodes.said(0, "part in 100"), "{:?}", nodes.events);
        // Ten minutes.
        nodes.pass(12_000);
        let error = nodes.error(1).expect("it knows the time");
        assert!((error - off.signum() * 6_000).abs() < 200, "{error}");
        assert!(nodes.clocks[1].as_ref().is_some_and(|clock| (clock.ahead_ms() - (off - error)).abs() < 10));
        // A node that starts takes over what the others have.
        nodes.clocks[0] = Some(Clock::default());
        nodes.pass(3);
        let late = nodes.error(0).expect("it knows the time");
        assert!((late - error).abs() < 2_200, "{late} and {error}");
    }
}

#[test]
fn no_majority_agrees_and_the_earliest_counts() {
    let mut nodes = Nodes::new(&[2 * DAY, 0, 9 * DAY]);
    nodes.clocks[2] = None;
    nodes.pass(10);
    assert_eq!((nodes.error(0), nodes.error(1)), (None, None), "it is waited for the third one");
    nodes.pass(60);
    let errors = [nodes.error(0), nodes.error(1)].map(|error| error.expect("it knows the time"));
    assert!(errors.iter().all(|error| error.abs() < 100), "{errors:?}");
    assert!(nodes.said(1, "no majority of the nodes' clocks agrees (against this one's: n0 +172800.0 s)"));
    // A third one that is right decides.
    (nodes.clocks[2], nodes.off[2]) = (Some(Clock::default()), 0);
    nodes.pass(5);
    nodes.all_within(2_100);
    assert!(nodes.clocks[0].as_ref().is_some_and(Clock::is_outside));
}

#[test]
fn the_earliest_clock_is_never_before_the_log_and_does_not_jump_once_it_was_used() {
    let mut nodes = Nodes::new(&[-5 * DAY, 2 * DAY, 0]);
    nodes.clocks[2] = None;
    nodes.log_time = WallTime(EPOCH - DAY as u64);
    nodes.pass(70);
    let error = nodes.error(0).expect("it knows the time");
    assert!((error + DAY).abs() < 5_000, "{error}");
    nodes.clocks.iter_mut().flatten().for_each(Clock::on_stamped);
    // Two of three agree now, a day later than what entries were stamped with.
    (nodes.clocks[2], nodes.off[0]) = (Some(Clock::default()), 0);
    nodes.pass(100);
    let error = nodes.error(0).expect("it knows the time");
    assert!((error + DAY).abs() < 5_000, "{error}");
    assert!(nodes.said(0, "one part in 100"), "{:?}", nodes.events);
}

#[test]
fn a_log_that_is_ahead_of_all_clocks_does_not_begin_the_time() {
    let mut nodes = Nodes::new(&[0, 2 * DAY, 0]);
    nodes.clocks[2] = None;
    nodes.log_time = WallTime(EPOCH + 73 * 365 * DAY as u64);
    nodes.pass(70);
    let error = nodes.error(0).expect("it knows the time");
    assert!(error.abs() < 5_000, "{error}");
}

/// A clock that goes to and fro where clocks begin to disagree.
#[test]
fn at_the_edge_a_node_does_not_come_and_go() {
    let mut nodes = Nodes::new(&[0, 4_300, 0]);
    nodes.pass(3);
    let outside = |nodes: &Nodes| nodes.clocks[1].as_ref().is_some_and(Clock::is_outside);
    assert!(outside(&nodes));
    for _ in 0..20 {
        nodes.off[1] = if nodes.off[1] == 3_700 { 4_300 } else { 3_700 };
        nodes.pass(2);
        assert!(outside(&nodes), "{}", nodes.off[1]);
    }
    nodes.off[1] = 2_500;
    nodes.pass(2);
    assert!(!outside(&nodes));
    nodes.off[1] = 3_700;
    nodes.pass(2);
    assert!(!outside(&nodes), "as long as they agree it is inside");
}

/// An operator sets the time, and a node hears of it at which no majority agrees: it does not jump when one does, an hour later.
#[test]
fn an_order_to_set_the_time_is_not_for_ever() {
    let mut nodes = Nodes::new(&[0, 0, 0]);
    nodes.pass(3);
    (nodes.clocks[1], nodes.clocks[2]) = (None, None);
    nodes.pass(200);
    let now = nodes.now(0);
    let clock = nodes.clocks[0].as_mut().expect("it is there");
    assert!(!clock.is_agreed());
    let told = Told { own: WallTime(0), settings: 1, ..Told::default() };
    clock.on_told(NodeId(1), told, now.time, now.time);
    nodes.pass(2_000);
    nodes.off = vec![3_600_000; 3];
    nodes.pass(1);
    let fresh = Clock { settings: 1, ..Clock::default() };
    nodes.clocks[1] = Some(fresh);
    nodes.pass(3);
    assert!(nodes.error(0).is_some_and(|error| error.abs() < 10_000), "{:?}", nodes.error(0));
}

#[test]
fn lost_agreement_is_no_good_news() {
    let mut nodes = Nodes::new(&[0, 0, 0]);
    nodes.pass(3);
    nodes.off = vec![3_600_000; 3];
    nodes.pass(3);
    (nodes.clocks[1], nodes.clocks[2]) = (None, None);
    nodes.pass(200);
    let clock = nodes.clocks[0].as_ref().expect("it is there");
    assert!(!clock.is_agreed() && clock.ahead_ms() > 3_000_000, "{}", clock.ahead_ms());
    assert!(!nodes.said(0, "has come to what"), "{:?}", nodes.events);
}

#[test]
fn what_a_peer_says_may_be_anything() {
    let mut clock = Clock::default();
    let now = Now { time: Time(9 << 40), wall: WallTime(EPOCH) };
    clock.advance(now);
    for (peer, reading) in [0, 1, u64::MAX, u64::MAX / MS, i64::MAX as u64].into_iter().enumerate() {
        let told = Told { own: WallTime(reading), cluster: WallTime(reading), is_outside: true, settings: reading };
        clock.on_told(NodeId(peer as u16), told, now.time, now.time);
    }
    let peers: Vec<NodeId> = (0..5).map(NodeId).collect();
    for _ in 0..100 {
        clock.look(&Context { peers: &peers, log_time: WallTime(u64::MAX) }, |id| id.to_string());
        let later = Now { time: clock.latest.time + Duration::from_millis(100), wall: WallTime(u64::MAX) };
        clock.advance(later);
        let _ = (clock.now(), clock.told(), clock.ahead_ms());
        assert!(peers.iter().all(|peer| clock.offset_ms(*peer) != Some(1)), "any answer will do");
    }
}
