//! The cluster's time is that of a majority: one wrong clock ends no key too soon, keeps none too long, and leads nothing.

use std::time::Duration;

use base::PartitionId;

use crate::common::{Cluster, bulk, field, pass_until};

const DAY: i64 = 24 * 3600 * 1000;

fn leader(cluster: &Cluster, seen_by: usize) -> Option<u16> {
    cluster.nodes[seen_by].leader(PartitionId::default()).map(|(node, _)| node.0)
}

fn pass_for(cluster: &mut Cluster, time: Duration) {
    let until = cluster.now.time + time;
    while cluster.now.time < until {
        cluster.pass();
    }
}

fn figure(cluster: &mut Cluster, node: u16, name: &str) -> String {
    let answer = cluster.ask(node, "INFO dictum");
    field(bulk(&answer), name).unwrap_or_default().to_owned()
}

fn left_ms(cluster: &mut Cluster, node: u16, key: &str) -> i64 {
    let answer = cluster.ask(node, &format!("PTTL {key}"));
    answer.trim_start_matches(':').trim_end().parse().unwrap_or_else(|_| panic!("{answer}"))
}

#[test]
fn a_leader_two_days_ahead_ends_no_key_and_leads_no_longer() {
    for off in [2 * DAY, -2 * DAY, 73 * 365 * DAY] {
        let mut cluster = Cluster::new(3);
        assert_eq!(cluster.ask(0, "SET before v EX 3600"), "+OK\r\n");
        let wrong = leader(&cluster, 0).expect("somebody leads");
        cluster.clocks_off.insert(wrong, off);
        for key in ["at-once", "later"] {
            assert_eq!(cluster.ask(wrong, &format!("SET {key} v EX 3600")), "+OK\r\n");
            pass_for(&mut cluster, Duration::from_millis(500));
        }
        let other = (wrong + 1) % 3;
        pass_until(&mut cluster, "another leader", |cluster| {
            leader(cluster, usize::from(other)).is_some_and(|leader| leader != wrong)
        });
        for key in ["before", "at-once", "later"] {
            let left = left_ms(&mut cluster, other, key);
            assert!((3_580_000..=3_603_000).contains(&left), "{key} has {left} ms left, with a clock {off} ms off");
        }
        assert_eq!(figure(&mut cluster, wrong, "dictum_clock"), "outside");
        assert_eq!(figure(&mut cluster, other, "dictum_clock"), "ok");
        assert_eq!(figure(&mut cluster, other, "dictum_time_log_ahead_ms"), "0");
        let status = cluster.ask(other, "DICTUM.STATUS");
        assert_eq!(status.matches("\"clock\":\"outside\"").count(), 1, "{status}");
        // Right again, it may lead again; and a time to live ends when it should.
        cluster.clocks_off.remove(&wrong);
        pass_for(&mut cluster, Duration::from_secs(2));
        assert_eq!(figure(&mut cluster, wrong, "dictum_clock"), "ok");
        assert_eq!(cluster.ask(wrong, "SET short v PX 1000"), "+OK\r\n");
        pass_for(&mut cluster, Duration::from_millis(900));
        assert_eq!(cluster.ask(other, "EXISTS short"), ":1\r\n");
        pass_for(&mut cluster, Duration::from_millis(200));
        assert_eq!(cluster.ask(other, "EXISTS short"), ":0\r\n");
    }
}

#[test]
fn all_clocks_are_set_and_times_to_live_follow_what_elapses() {
    for off in [DAY, -DAY] {
        let mut cluster = Cluster::new(3);
        assert_eq!(cluster.ask(0, "SET k v PX 10000"), "+OK\r\n");
        pass_for(&mut cluster, Duration::from_secs(2));
        cluster.clocks_off = (0..3).map(|node| (node, off)).collect();
        pass_for(&mut cluster, Duration::from_secs(2));
        let left = left_ms(&mut cluster, 0, "k");
        assert!((5_800..=6_200).contains(&left), "{left} ms are left after clocks were set by {off} ms");
        let ahead: i64 = figure(&mut cluster, 1, "dictum_time_majority_ahead_ms").parse().expect("a number");
        assert!((ahead - off).abs() < 1_000, "{ahead}");
        pass_for(&mut cluster, Duration::from_millis(6_300));
        assert_eq!(cluster.ask(0, "EXISTS k"), ":0\r\n");
    }
}

#[test]
fn a_node_that_starts_does_not_bring_the_time_of_clocks_that_were_set() {
    let mut cluster = Cluster::new(3);
    assert_eq!(cluster.ask(0, "SET k v EX 3600"), "+OK\r\n");
    pass_for(&mut cluster, Duration::from_secs(1));
    cluster.clocks_off = (0..3).map(|node| (node, DAY)).collect();
    pass_for(&mut cluster, Duration::from_secs(1));
    for node in 0..3 {
        let journal = cluster.journal(node);
        cluster.restart(node, journal);
        pass_for(&mut cluster, Duration::from_secs(3));
        let left = left_ms(&mut cluster, node, "k");
        assert!((3_580_000..=3_601_000).contains(&left), "{left} ms are left behind the restart of {node}");
    }
}

#[test]
fn two_that_disagree_go_on_by_the_earlier_clock() {
    let mut cluster = Cluster::new(3);
    assert_eq!(cluster.ask(0, "SET k v EX 3600"), "+OK\r\n");
    cluster.isolated = vec![2];
    cluster.clocks_off.insert(1, 2 * DAY);
    for node in [0, 1] {
        let journal = cluster.journal(node);
        cluster.restart(node, journal);
    }
    pass_until(&mut cluster, "a leader", |cluster| leader(cluster, 0).is_some() && leader(cluster, 1).is_some());
    assert_eq!(cluster.ask(0, "SET l v EX 3600"), "+OK\r\n");
    for key in ["k", "l"] {
        let left = left_ms(&mut cluster, 1, key);
        assert!((3_500_000..=3_600_000).contains(&left), "{key} has {left} ms left");
    }
    assert_eq!(figure(&mut cluster, 0, "dictum_time_source"), "earliest");
    cluster.isolated.clear();
    pass_for(&mut cluster, Duration::from_secs(3));
    assert_eq!(figure(&mut cluster, 0, "dictum_time_source"), "majority");
    assert_eq!(figure(&mut cluster, 1, "dictum_clock"), "outside");
}

/// A cluster of an earlier version in which a leader with a clock of 2099 has stamped entries.
fn with_a_log_in_the_future() -> Cluster {
    let mut cluster = Cluster::new(3);
    // All are wrong from their start: there is nobody to tell that by.
    cluster.clocks_off = (0..3).map(|node| (node, 73 * 365 * DAY)).collect();
    for node in 0..3 {
        let journal = cluster.journal(node);
        cluster.restart(node, journal);
    }
    pass_for(&mut cluster, Duration::from_secs(5));
    assert_eq!(cluster.ask(0, "SET lasting v"), "+OK\r\n");
    cluster.clocks_off.clear();
    for node in 0..3 {
        let journal = cluster.journal(node);
        cluster.restart(node, journal);
    }
    pass_for(&mut cluster, Duration::from_secs(5));
    cluster
}

#[test]
fn a_log_in_the_future_is_told_and_one_command_brings_it_back() {
    let mut cluster = with_a_log_in_the_future();
    let ahead: i64 = figure(&mut cluster, 1, "dictum_time_log_ahead_ms").parse().expect("a number");
    assert!((ahead - 73 * 365 * DAY).abs() < 60_000, "{ahead}");
    // As it was: nothing is over before 2099.
    assert_eq!(cluster.ask(0, "SET k v PX 500"), "+OK\r\n");
    pass_for(&mut cluster, Duration::from_secs(2));
    assert_eq!(cluster.ask(0, "EXISTS k"), ":1\r\n");
    let answer = cluster.ask(2, "DICTUM.SETTIME");
    let time: u64 = answer.trim_start_matches(':').trim_end().parse().unwrap_or_else(|_| panic!("{answer}"));
    assert!(time.abs_diff(cluster.now.wall.0) < 2_100, "{time}");
    for _ in 0..40 {
        cluster.ask(1, "INCR busy");
    }
    pass_for(&mut cluster, Duration::from_secs(2));
    for node in 0..3 {
        assert_eq!(figure(&mut cluster, node, "dictum_time_log_ahead_ms"), "0", "at {node}");
    }
    assert_eq!(cluster.ask(0, "SET l v PX 500"), "+OK\r\n");
    pass_for(&mut cluster, Duration::from_secs(1));
    assert_eq!(cluster.ask(0, "EXISTS l"), ":0\r\n");
    assert_eq!(cluster.ask(0, "GET lasting"), "$1\r\nv\r\n");
    // One that starts does not bring it forward again.
    let journal = cluster.journal(0);
    cluster.restart(0, journal);
    pass_for(&mut cluster, Duration::from_secs(3));
    assert_eq!(figure(&mut cluster, 0, "dictum_time_log_ahead_ms"), "0");
}

#[test]
fn clocks_that_were_set_are_followed_at_once_where_an_operator_says_so() {
    let mut cluster = Cluster::new(3);
    pass_for(&mut cluster, Duration::from_secs(1));
    cluster.clocks_off = (0..3).map(|node| (node, DAY)).collect();
    pass_for(&mut cluster, Duration::from_secs(1));
    assert_ne!(figure(&mut cluster, 1, "dictum_time_majority_ahead_ms"), "0");
    assert!(cluster.ask(2, "DICTUM.SETTIME").starts_with(':'));
    pass_for(&mut cluster, Duration::from_secs(1));
    for node in 0..3 {
        assert_eq!(figure(&mut cluster, node, "dictum_time_majority_ahead_ms"), "0", "at {node}");
        let time = cluster.ask(node, "TIME");
        let seconds = (cluster.now.wall.0 as i64 + DAY) / 1000;
        assert!([seconds, seconds - 1].iter().any(|it| time.contains(&it.to_string())), "{time}");
    }
}

#[test]
fn without_a_majority_of_clocks_nothing_is_set() {
    let mut cluster = Cluster::new(3);
    cluster.isolated = vec![1, 2];
    pass_for(&mut cluster, Duration::from_secs(6));
    let answer = cluster.ask(0, "DICTUM.SETTIME");
    assert!(answer.starts_with("-ERR no majority of the nodes' clocks agrees"), "{answer}");
}
