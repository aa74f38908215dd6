//! One node goes on alone: what was on its disk is there, and those that it has left behind are told so.

mod common;

use base::{NodeId, WallTime};
use bytes::Bytes;
use common::{Cluster, bulk, founders};
use node::alone::{Plan, Survivor, plan};
use node::{Input, Recovered};

/// What it would take for a node of a cluster of three founders, by its journal.
fn plan_of(journal: &storage::Recovered, me: u16) -> Result<Plan, String> {
    let founders = founders(3);
    let joined: Vec<_> = founders.iter().map(|it| (NodeId(3), it.clone())).take(usize::from(me == 3)).collect();
    let now = WallTime(1_700_000_000_000);
    let survivor = Survivor { me: NodeId(me), founders: &founders, joined: &joined, cluster: 77, now };
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

    // The others, who are a majority of what was, come back; and one by one they are told.
    cluster.isolated.clear();
    for other in [1, 2] {
        cluster.give(other, Input::PeerUp { peer: NodeId(0) });
        cluster.give(0, Input::PeerUp { peer: NodeId(other) });
    }
    while cluster.stopped.len() < 2 {
        cluster.pass();
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
    let welcome = cluster.ask(0, &format!("DICTUM.NODE JOIN {} n2 127.0.0.1:9009 5", bulk(&token)));
    assert!(welcome.starts_with("*6\r\n$2\r\nid\r\n:11\r\n"), "numbers of before are not given again: {welcome}");
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
