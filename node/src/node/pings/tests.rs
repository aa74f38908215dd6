//! Pings that are lost, repeated and overtaken, and what is known by them.

use base::{BucketId, Rng};

use super::*;

fn news(index: u16, decided: u64) -> PartitionNews {
    let partition = PartitionId { bucket: BucketId(1), index };
    PartitionNews { partition, decided: Position(decided), ..PartitionNews::default() }
}

/// A ping with the decided positions of partitions.
fn ping(life: u64, number: u64, since: u64, partitions: &[(u16, u64)]) -> Ping {
    let partitions = partitions.iter().map(|(index, decided)| news(*index, *decided)).collect();
    Ping { life, number, since, partitions, ..Ping::default() }
}

fn known(ping: &Ping) -> Vec<(u16, u64)> {
    ping.partitions.iter().map(|news| (news.partition.index, news.decided.0)).collect()
}

#[test]
fn what_comes_late_or_has_a_gap_before_it_tells_nothing() {
    let mut it = Ping::default();
    assert_eq!(it.take(ping(7, 4, 3, &[(2, 9)])), Taken::All, "it is not known what was before");
    assert_eq!((known(&it), it.number), (vec![], 0), "so it does not count as taken");
    assert_eq!(it.take(ping(7, 5, 0, &[(2, 9), (1, 5)])), Taken::All);
    assert_eq!(known(&it), [(1, 5), (2, 9)]);
    let changed = news(3, 1).partition;
    assert_eq!(it.take(ping(7, 7, 5, &[(3, 1)])), Taken::Some(vec![changed]));
    assert_eq!(it.take(ping(7, 6, 0, &[])), Taken::Late);
    assert_eq!(it.take(ping(7, 7, 5, &[(3, 1)])), Taken::Late, "twice");
    assert_eq!(it.take(ping(7, 9, 8, &[(1, 6)])), Taken::Nothing, "what ping 8 said is not known");
    assert_eq!((known(&it), it.number), (vec![(1, 5), (2, 9), (3, 1)], 7));
    assert_eq!(it.take(ping(8, 1, 0, &[(2, 1)])), Taken::All, "another life");
    assert_eq!(known(&it), [(2, 1)]);
    assert_eq!(it.take(ping(9, 5, 2, &[(2, 3)])), Taken::All);
    assert_eq!(known(&it), [], "what the life before has said is not true any more");
}

/// One says, another hears with losses, repetitions and delays. What it knows is what was so with the ping that it took last, but for positions where it is not
/// near: these are no older than when everybody was told last.
#[test]
fn what_is_known_was_all_said_at_once() {
    const FAR: NodeId = NodeId(2);
    for seed in 0..200 {
        let (mut rng, peer) = (Rng::new(seed), if seed % 2 == 0 { NodeId(1) } else { FAR });
        let mut sender = Pings::default();
        let mut heard = Ping::default();
        // With each ping: what was so, and what was so when everybody was told last.
        let (mut truth, mut told, mut then) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let mut under_way: Vec<Ping> = Vec::new();
        for decided in 1..200 {
            sender.number += 1;
            for _ in 0..rng.below(3) {
                let index = rng.below(6) as u16;
                let id = news(index, 0).partition;
                if rng.chance(1, 20) {
                    truth.remove(&index);
                    told.remove(&index);
                    sender.on_removed(id);
                    sender.number += 1;
                } else {
                    let voter = NodeId(u16::from(rng.chance(1, 8)));
                    let near = if rng.chance(1, 8) { FAR } else { NodeId(1) };
                    let news = PartitionNews { voters: vec![voter], ..news(index, decided) };
                    sender.note(id, news, || vec![near]);
                    // Who is near is looked at when there is something new.
                    truth.insert(index, (decided, voter, sender.said[&id].near[0]));
                }
            }
            if rng.chance(1, 10) {
                sender.tell_far();
                told.clone_from(&truth);
            }
            then.insert(sender.number, (truth.clone(), told.clone()));
            let since = sender.since(peer);
            let partitions = sender.news_since(peer, since);
            under_way.push(Ping { life: 1, number: sender.number, since, partitions, ..Ping::default() });
            while rng.chance(1, 2) && !under_way.is_empty() {
                let place = rng.below(under_way.len() as u64) as usize;
                let arrives = if rng.chance(1, 5) { under_way[place].clone() } else { under_way.swap_remove(place) };
                if !rng.chance(1, 5) {
                    heard.take(arrives);
                }
            }
            if rng.chance(1, 3) {
                sender.taken.insert(peer, heard.number);
            }
            let (so_then, told_then) = then.get(&heard.number).cloned().unwrap_or_default();
            let case = format!("seed {seed}, ping {}", heard.number);
            let known: BTreeSet<u16> = heard.partitions.iter().map(|news| news.partition.index).collect();
            assert!(known.iter().eq(so_then.keys()), "{case}");
            for news in &heard.partitions {
                let index = news.partition.index;
                let (decided, voter, near) = so_then[&index];
                assert_eq!(news.voters, [voter], "{case}");
                let least = told_then.get(&index).map_or(0, |(decided, ..)| *decided);
                let least = if near == peer { decided } else { least };
                assert!((least..=decided).contains(&news.decided.0), "{case}: {}, {least}", news.decided);
            }
        }
        assert!(heard.number > 0);
    }
}

#[test]
fn who_is_not_near_is_told_of_positions_alone_now_and_then() {
    let (near, far) = (NodeId(1), NodeId(2));
    let mut it = Pings { number: 1, ..Pings::default() };
    let id = news(3, 0).partition;
    it.note(id, news(3, 0), || vec![near]);
    let decided = |it: &Pings, peer, since| -> Vec<u64> {
        it.news_since(peer, since).iter().map(|news| news.decided.0).collect()
    };
    it.number = 2;
    it.note(id, news(3, 7), || vec![near]);
    assert_eq!((decided(&it, near, 1), decided(&it, far, 1)), (vec![7], vec![]));
    assert_eq!(decided(&it, far, 0), [7], "who lacks everything");
    it.number = 3;
    it.tell_far();
    assert_eq!((decided(&it, near, 2), decided(&it, far, 2)), (vec![], vec![7]));
    it.number = 4;
    it.note(id, PartitionNews { leads: Some(base::Ballot::default()), ..news(3, 8) }, || vec![near]);
    assert_eq!((decided(&it, near, 3), decided(&it, far, 3)), (vec![8], vec![8]), "it leads");
    it.number = 5;
    it.note(id, PartitionNews { applied: Position(1), leads: Some(base::Ballot::default()), ..news(3, 8) }, || {
        vec![near]
    });
    assert_eq!(decided(&it, far, 4), [8], "it has something");
    it.number = 6;
    it.note(COUNCIL, PartitionNews { partition: COUNCIL, ..news(0, 8) }, || vec![near]);
    it.number = 7;
    it.note(COUNCIL, PartitionNews { partition: COUNCIL, ..news(0, 9) }, || vec![near]);
    assert_eq!(decided(&it, far, 6), [9], "the council is everybody's");
}
