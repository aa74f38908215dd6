//! One node goes on alone: what was on its disk is there, and those that it has left behind are told so.

use std::collections::BTreeMap;

use crate::common::{Cluster, bulk, founders, pass_until};
use base::versions::NEWEST;
use base::{BucketId, NodeId, PartitionId, Position, Rng, WallTime};
use bytes::Bytes;
use node::alone::{Plan, Survivor, plan};
use node::{Input, LinkTerms, Member, Recovered};

/// What it would take for a node of a cluster of three founders, by its journal.
fn plan_of(journal: &storage::Recovered, me: u16) -> Result<Plan, String> {
    let founders = founders(3);
    let joined: Vec<_> = founders.iter().map(|it| (NodeId(3), it.clone())).take(usize::from(me == 3)).collect();
    let now = WallTime(1_700_000_000_000);
    let survivor = Survivor { me: NodeId(me), founders: &founders, joined: &joined, cluster: 77, now, planted: None };
    let incarnation = 100 + u64::from(me);
    let journal = journal.clone();
    plan(Recovered { incarnation, journal, snapshots: Vec::new(), snapshot_damaged: false, store: None }, &survivor)
}

/// The journal with one more payload.
fn with(mut journal: storage::Recovered, payload: Bytes) -> storage::Recovered {
    journal.payloads.push((journal.next_number, payload));
    journal.next_number += 1;
    journal
}

/// Three founders, with a bucket of four partitions, and one in memory only.
fn three() -> Cluster {
    let mut cluster = Cluster::new(3);
    assert_eq!(cluster.ask(0, "SET k 1"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "DICTUM.BUCKET CREATE b PARTITIONS 4"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "DICTUM.BUCKET CREATE e KIND ephemeral"), "+OK\r\n");
    for node in 0..3 {
        while cluster.nodes[usize::from(node)].partitions().len() < 7 {
            cluster.pass();
        }
        assert_eq!(cluster.ask(node, "SELECT b"), "+OK\r\n");
    }
    for number in 0..20 {
        assert_eq!(cluster.ask(number % 3, &format!("SET key:{number} {number}")), "+OK\r\n");
    }
    assert_eq!(cluster.ask(1, "SELECT e"), "+OK\r\n");
    assert_eq!(cluster.ask(1, "SET in memory"), "+OK\r\n");
    cluster
}

/// The other two are gone.
fn isolate_others(cluster: &mut Cluster) {
    for other in [1, 2] {
        cluster.isolated.push(other);
        cluster.give(0, Input::PeerDown { peer: NodeId(other) });
    }
}

#[test]
fn it_serves_what_it_has_and_leaves_the_others_behind() {
    let mut cluster = three();
    isolate_others(&mut cluster);
    let journal = cluster.journal(0);
    let planned = plan_of(&journal, 0).unwrap();
    assert_eq!(
        (planned.is_alone, planned.partitions.len(), planned.ephemeral.clone()),
        (false, 6, vec!["e".to_owned()])
    );
    for fate in &planned.partitions {
        assert_eq!((fate.voters.len(), fate.votes, fate.is_empty, fate.damage.len()), (3, true, false, 0), "{fate:?}");
        let behind: u64 = fate.undecided.values().sum();
        assert!(fate.last.0 > 0 && fate.decided.0 + behind == fate.last.0, "{fate:?}");
    }
    let alone = with(journal, planned.payload);
    assert!(plan_of(&alone, 0).unwrap().is_alone);
    cluster.restart(0, alone);
    assert_eq!(cluster.ask(0, "SELECT b"), "+OK\r\n");
    for number in 0..20 {
        let answer = cluster.ask(0, &format!("GET key:{number}"));
        assert_eq!(bulk(&answer), number.to_string());
    }
    assert_eq!(cluster.ask(0, "SET key:1 new"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "SELECT e"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "GET in"), "$-1\r\n");
    assert_eq!(cluster.ask(0, "SET in anew"), "+OK\r\n");
    let list = cluster.ask(0, "DICTUM.NODE LIST");
    assert_eq!((list.matches("$4\r\ndown\r\n").count(), list.matches("absent").count()), (2, 2), "{list}");

    // The others come back, one by one, and are told.
    for other in [1, 2] {
        cluster.isolated.retain(|node| *node != other);
        cluster.give(other, Input::PeerUp { peer: NodeId(0), terms: LinkTerms::default() });
        cluster.give(0, Input::PeerUp { peer: NodeId(other), terms: LinkTerms::default() });
        pass_until(&mut cluster, "it is told", |cluster| cluster.stopped.contains(&other));
    }
    assert!(cluster.nodes[1].is_removed() && cluster.nodes[2].is_removed() && !cluster.nodes[0].is_removed());
    assert_eq!(cluster.ask(0, "SELECT b"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "GET key:1"), "$3\r\nnew\r\n");
    for other in ["n2", "n3"] {
        assert_eq!(cluster.ask(0, &format!("DICTUM.NODE REMOVE {other} FORCE")), "+OK\r\n");
        while cluster.ask(0, "DICTUM.NODE LIST").contains(other) {
            cluster.pass();
        }
    }
    let token = cluster.ask(0, "DICTUM.NODE TOKEN");
    let welcome = cluster.ask(0, &format!("DICTUM.NODE JOIN {} n2 127.0.0.1:9009 5 \"\" {NEWEST}", bulk(&token)));
    assert!(welcome.starts_with("*6\r\n$2\r\nid\r\n:11\r\n"), "numbers of before are not given again: {welcome}");
}

/// A copy of one folder goes on alone beside the cluster, as in a rehearsal that has the same addresses: the others, a living majority, go on.
#[test]
fn a_living_majority_is_not_left_behind() {
    let mut cluster = three();
    // The cluster has a name from then on.
    assert!(cluster.ask(1, "DICTUM.NODE TOKEN").starts_with('$'));
    for _ in 0..100 {
        cluster.pass();
    }
    isolate_others(&mut cluster);
    cluster.isolated = vec![0];
    pass_until(&mut cluster, "the two have a leader", |cluster| {
        [1, 2]
            .iter()
            .all(|node| cluster.nodes[*node].leader(PartitionId::default()).is_some_and(|(id, _)| id != NodeId(0)))
    });
    let journal = cluster.journal(0);
    let planned = plan_of(&journal, 0).unwrap();
    cluster.restart(0, with(journal, planned.payload));
    cluster.isolated.clear();
    for other in [1, 2] {
        cluster.give(other, Input::PeerUp { peer: NodeId(0), terms: LinkTerms::default() });
        cluster.give(0, Input::PeerUp { peer: NodeId(other), terms: LinkTerms::default() });
    }
    for _ in 0..4000 {
        cluster.pass();
    }
    assert!(cluster.stopped.is_empty(), "{:?}", cluster.stopped);
    assert_eq!(cluster.ask(1, "SELECT b"), "+OK\r\n");
    assert_eq!(cluster.ask(1, "SET key:1 of-the-living"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "SELECT b"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "SET key:1 of-the-copy"), "+OK\r\n");
    assert_eq!(cluster.ask(2, "SELECT b"), "+OK\r\n");
    assert_eq!(bulk(&cluster.ask(2, "GET key:1")), "of-the-living");
    let probes = cluster.nodes[1].take_probes();
    assert!(probes.iter().any(|(name, _)| *name == "node: a claim to have been left behind ignored"), "{probes:?}");
}

/// Wherever the journal has a hole, and if its end cannot be proved: what is written behind that reads back without either.
#[test]
fn it_goes_on_with_what_a_damaged_disk_has() {
    let mut cluster = three();
    isolate_others(&mut cluster);
    cluster.standing_still.extend([1, 2]);
    let whole = cluster.journal(0);
    for lost in 1..whole.next_number {
        let mut journal = whole.clone();
        journal.payloads.retain(|(number, _)| *number != lost);
        if lost + 1 == whole.next_number {
            journal.tail = storage::Tail::Unprovable;
        }
        journal.damage.push(storage::Damage { after: lost - 1, before: lost + 1 });
        let planned = plan_of(&journal, 0).unwrap();
        let mut alone = with(journal, planned.payload);
        alone.tail = storage::Tail::Clean;
        let again = plan_of(&alone, 0).unwrap();
        assert!(again.is_alone, "without {lost}: {:?}", again.partitions);
        cluster.restart(0, alone);
        assert_eq!(cluster.ask(0, "SET k 2"), "+OK\r\n", "without {lost}");
    }
}

#[test]
fn who_has_no_vote_in_the_council_is_refused() {
    let mut cluster = three();
    assert_eq!(cluster.join(0), 3);
    while cluster.ask(3, "GET k") != "$1\r\n1\r\n" {
        cluster.pass();
    }
    // Four are there, and of an even number one does not vote.
    let refused = plan_of(&cluster.journal(3), 3).unwrap_err();
    assert!(refused.contains("no vote in the council"), "{refused}");
    assert!(plan_of(&storage::Recovered { payloads: Vec::new(), ..cluster.journal(0) }, 0).is_err());
}

/// The partition of a key in the bucket of four.
fn partition_of(key: &str) -> PartitionId {
    let index = u32::from(base::slots::hash_slot(key.as_bytes())) * 4 / u32::from(base::limits::HASH_SLOTS);
    PartitionId { bucket: BucketId(1), index: index as u16 }
}

/// What clients know of a key: the last value that was asked for, and each that was acknowledged, with an end of its partition's log that it is not behind.
#[derive(Default)]
struct Known {
    asked: u64,
    acknowledged: Vec<(u64, Position)>,
}

/// Clients write while the survivor is cut off now and then; then the others are gone for good. Whatever was acknowledged and stands in what the plan says that stays is
/// there, whatever is not there was said to be lost, and nothing is there that nobody wrote. Nodes that join take it over.
#[test]
fn what_is_lost_was_said_to_be_lost_and_the_rest_goes_on() {
    let mut lost = 0;
    for seed in 1..=12 {
        let mut rng = Rng::new(seed);
        let mut cluster = three();
        assert_eq!(cluster.ask(1, "SELECT b"), "+OK\r\n");
        let mut known: BTreeMap<String, Known> = BTreeMap::new();
        for _ in 0..80 {
            if rng.chance(1, 10) {
                let cut = cluster.isolated.pop().is_none();
                cluster.isolated.extend(cut.then_some(0));
            }
            let key = format!("key:{}", rng.below(12));
            let told = known.entry(key.clone()).or_default();
            told.asked += 1;
            // Whoever is cut off answers nobody in time.
            let at = if cluster.isolated.is_empty() { rng.below(3) } else { rng.between(1, 2) } as u16;
            if cluster.ask(at, &format!("SET {key} {}", 1000 + told.asked)) == "+OK\r\n" {
                let id = partition_of(&key);
                let ends = cluster.nodes.iter().filter_map(|node| Some(node.progress(id)?.decided));
                told.acknowledged.push((told.asked, ends.max().unwrap()));
            }
        }
        cluster.isolated.clear();
        isolate_others(&mut cluster);
        let journal = cluster.journal(0);
        let planned = plan_of(&journal, 0).unwrap();
        cluster.restart(0, with(journal, planned.payload));
        assert_eq!(cluster.ask(0, "SELECT b"), "+OK\r\n");
        let mut values = BTreeMap::new();
        for (key, told) in &known {
            let fate = planned.partitions.iter().find(|fate| fate.partition == partition_of(key)).unwrap();
            let answer = cluster.ask(0, &format!("GET {key}"));
            let value: u64 = bulk(&answer).parse().unwrap();
            let number = value.saturating_sub(1000);
            let stays = told.acknowledged.iter().filter(|(_, end)| *end <= fate.last).map(|(number, _)| *number).max();
            assert!(number <= told.asked, "seed {seed}: {key} = {value}, which nobody wrote");
            assert!(Some(number) >= stays, "seed {seed}: {key} = {value}, and {stays:?} was to stay: {fate:?}");
            let newest = told.acknowledged.last().map_or(0, |(number, _)| *number);
            if number < newest {
                lost += 1;
                assert!(fate.voters.len() > 1, "seed {seed}: {key}: nobody said that others may have more: {fate:?}");
            }
            values.insert(key.clone(), value);
        }
        if seed > 2 {
            continue;
        }
        for other in ["n2", "n3"] {
            assert_eq!(cluster.ask(0, &format!("DICTUM.NODE REMOVE {other} FORCE")), "+OK\r\n");
        }
        cluster.skip_to(11);
        let joined = [cluster.join(0), cluster.join(0)];
        assert_eq!(joined, [11, 12], "numbers of before are not given again");
        assert_eq!(cluster.ask(0, "DICTUM.NODE VOTERS 3"), "+OK\r\n");
        let wanted = [0, 11, 12].map(NodeId).to_vec();
        pass_until(&mut cluster, "the new ones vote", |cluster| {
            let votes = |index| cluster.nodes[11].voters(PartitionId { bucket: BucketId(1), index });
            (0..4).all(|index| votes(index).is_some_and(|told| told.now == [wanted.clone()] && told.is_decided))
        });
        // Now they can do without the one that had gone on alone.
        cluster.isolated.push(0);
        pass_until(&mut cluster, "others lead", |cluster| {
            let leader = |index| cluster.nodes[11].leader(PartitionId { bucket: BucketId(1), index });
            (0..4).all(|index| leader(index).is_some_and(|(leader, _)| leader != NodeId(0)))
        });
        assert_eq!(cluster.ask(11, "SELECT b"), "+OK\r\n");
        for (key, value) in values {
            assert_eq!(bulk(&cluster.ask(11, &format!("GET {key}"))), value.to_string(), "seed {seed}: {key}");
            assert_eq!(cluster.ask(11, &format!("SET {key} x")), "+OK\r\n");
        }
    }
    assert!(lost > 0, "nothing was ever lost: the test shows nothing");
}

/// It reads in the council's log of the time before the others were left behind, and is not one of them, however far it has come.
#[test]
fn a_new_node_is_not_taken_for_one_that_was_left_behind() {
    let mut cluster = three();
    // The cluster has a name from then on.
    assert!(cluster.ask(0, "DICTUM.NODE TOKEN").starts_with('$'));
    for _ in 0..100 {
        cluster.pass();
    }
    // What all had read before.
    let read = cluster.journal(1);
    isolate_others(&mut cluster);
    let journal = cluster.journal(0);
    let planned = plan_of(&journal, 0).unwrap();
    assert_eq!(planned.below, 11);
    cluster.restart(0, with(journal, planned.payload));
    assert_eq!(cluster.ask(0, "SELECT b"), "+OK\r\n");
    cluster.skip_to(planned.below);
    let me = cluster.join(0);
    cluster.restart(me, read);
    pass_until(&mut cluster, "it has read the rest", |cluster| {
        assert!(cluster.stopped.is_empty(), "it was told to go");
        cluster.nodes[usize::from(me)].placement().joined.iter().any(|(id, _)| *id == NodeId(me))
    });
    assert_eq!(cluster.ask(me, "SET k 2"), "+OK\r\n");
}

/// Its disk has lost that it went on alone. By what is left it is of the cluster as it was before; it is not one of those who were left behind, and has the rest repaired.
#[test]
fn the_survivor_is_known_though_its_disk_has_lost_that_it_went_on() {
    let mut cluster = three();
    // The cluster has a name from then on.
    assert!(cluster.ask(0, "DICTUM.NODE TOKEN").starts_with('$'));
    isolate_others(&mut cluster);
    let journal = cluster.journal(0);
    let (planned, said_in) = (plan_of(&journal, 0).unwrap(), journal.next_number);
    cluster.restart(0, with(journal, planned.payload));
    assert_eq!(cluster.ask(0, "SELECT b"), "+OK\r\n");
    cluster.skip_to(planned.below);
    let joined = [cluster.join(0), cluster.join(0)];
    assert_eq!(cluster.ask(0, "DICTUM.NODE VOTERS 3"), "+OK\r\n");
    let wanted = [NodeId(0), NodeId(joined[0]), NodeId(joined[1])].to_vec();
    pass_until(&mut cluster, "the new ones vote", |cluster| {
        let council = PartitionId { bucket: BucketId(u32::MAX), index: 0 };
        let votes = cluster.nodes[usize::from(joined[0])].voters(council);
        votes.is_some_and(|told| told.now == [wanted.clone()] && told.is_decided)
    });
    let mut journal = cluster.journal(0);
    journal.payloads.retain(|(number, _)| *number != said_in);
    journal.damage.push(storage::Damage { after: said_in - 1, before: said_in + 1 });
    cluster.restart(0, journal);
    for peer in joined {
        // They introduce themselves.
        let member = Member { name: format!("n{}", peer + 1), peer_address: format!("127.0.0.1:{}", 9001 + peer) };
        cluster.give(0, Input::Met { peer: NodeId(peer), member });
        cluster.give(0, Input::PeerUp { peer: NodeId(peer), terms: LinkTerms::default() });
    }
    pass_until(&mut cluster, "it has what it lacked", |cluster| {
        assert!(!cluster.stopped.contains(&0), "it was told to go");
        cluster.nodes[0].placement().joined.len() == 2
    });
}
