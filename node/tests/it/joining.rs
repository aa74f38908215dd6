//! Nodes join and leave while clients go on: as these see it, and as the nodes' logs say it.

use crate::common::{Cluster, bulk, pass_until};
use base::{BucketId, NodeId, PartitionId};
use node::Input;

const DEFAULT: PartitionId = PartitionId { bucket: BucketId(0), index: 0 };

fn partition(index: u16) -> PartitionId {
    PartitionId { bucket: BucketId(1), index }
}

/// The nodes that vote in a partition, as one of them knows; of a joint group both lists.
fn voters(cluster: &Cluster, node: u16, partition: PartitionId) -> Vec<u16> {
    let voters = cluster.voters(node, partition);
    voters.map(|voters| voters.now.concat().into_iter().map(|id| id.0).collect()).unwrap_or_default()
}

/// Three founders, and a bucket of eight partitions with a key in each of many slots.
fn three() -> Cluster {
    let mut cluster = Cluster::new(3);
    assert_eq!(cluster.ask(0, "SET k 1"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "DICTUM.BUCKET CREATE b PARTITIONS 8"), "+OK\r\n");
    for node in 0..3 {
        pass_until(&mut cluster, "the bucket is everywhere", |cluster| {
            cluster.nodes[usize::from(node)].partitions().len() == 10
        });
        assert_eq!(cluster.ask(node, "SELECT b"), "+OK\r\n");
    }
    for number in 0..40 {
        assert_eq!(cluster.ask(number % 3, &format!("SET key:{number} {number}")), "+OK\r\n");
    }
    cluster
}

/// In how many partitions of the bucket a node votes.
fn votes(cluster: &Cluster, asked: u16, node: u16) -> usize {
    (0..8).filter(|index| voters(cluster, asked, partition(*index)).contains(&node)).count()
}

fn settled(cluster: &Cluster, asked: u16) -> bool {
    (0..8).all(|index| voters(cluster, asked, partition(index)).len() == 3)
}

#[test]
fn three_become_five_and_three_again() {
    let mut cluster = three();
    for node in [3, 4] {
        assert_eq!(cluster.join(node - 2), node);
        pass_until(&mut cluster, "it has its share", |cluster| settled(cluster, 0) && votes(cluster, 0, node) >= 4);
        assert_eq!(cluster.ask(node, "SELECT b"), "+OK\r\n");
        assert_eq!(cluster.ask(node, "GET key:7"), "$1\r\n7\r\n");
        assert_eq!(cluster.ask(node, &format!("SET key:7 {node}")), "+OK\r\n");
        assert_eq!(cluster.ask(0, "GET key:7"), format!("$1\r\n{node}\r\n"));
        assert_eq!(cluster.ask(0, "SET key:7 7"), "+OK\r\n");
    }
    pass_until(&mut cluster, "five vote in the council", |cluster| {
        let council = PartitionId { bucket: BucketId(u32::MAX), index: 0 };
        (0..5).all(|node| voters(cluster, node, council).len() == 5)
    });
    while cluster.ask(4, "DICTUM.NODE LIST").contains("down") {
        cluster.pass();
    }
    let list = cluster.ask(4, "DICTUM.NODE LIST");
    assert_eq!((list.matches("serves").count(), list.matches("$2\r\nup\r\n").count()), (5, 5), "{list}");
    for node in [0, 3] {
        assert_eq!(cluster.ask(1, &format!("DICTUM.NODE REMOVE n{}", node + 1)), "+OK\r\n");
        pass_until(&mut cluster, "it has gone", |cluster| cluster.stopped.contains(&node));
        assert!(cluster.nodes[usize::from(node)].is_removed());
        pass_until(&mut cluster, "it votes nowhere", |cluster| settled(cluster, 1) && votes(cluster, 1, node) == 0);
        let list = cluster.ask(1, "DICTUM.NODE LIST");
        assert!(!list.contains(&format!("$2\r\nn{}\r\n", node + 1)), "{list}");
    }
    for number in 0..40 {
        assert_eq!(
            cluster.ask(4, &format!("GET key:{number}")).trim().rsplit("\r\n").next(),
            Some(&*number.to_string())
        );
    }
    // Two of the three that are left are a majority.
    cluster.isolated.push(4);
    pass_until(&mut cluster, "others lead", |cluster| {
        (0..8).all(|index| cluster.nodes[1].leader(partition(index)).is_some_and(|(leader, _)| leader != NodeId(4)))
    });
    assert_eq!(cluster.ask(1, "SET key:7 8"), "+OK\r\n");
}

#[test]
fn a_bucket_made_afterwards_is_everywhere() {
    let mut cluster = Cluster::new(1);
    assert_eq!(cluster.ask(0, "SET k 1"), "+OK\r\n");
    for node in [1, 2] {
        assert_eq!(cluster.join(0), node);
    }
    assert_eq!(cluster.ask(0, "DICTUM.NODE VOTERS 3"), "+OK\r\n");
    pass_until(&mut cluster, "three vote", |cluster| (0..3).all(|node| voters(cluster, node, DEFAULT).len() == 3));
    for (name, kind) in [("p", "persistent"), ("e", "ephemeral")] {
        assert_eq!(cluster.ask(2, &format!("DICTUM.BUCKET CREATE {name} KIND {kind}")), "+OK\r\n");
        for node in 0..3 {
            pass_until(&mut cluster, "it is there", |cluster| {
                cluster.nodes[usize::from(node)].partitions().len() == if name == "p" { 3 } else { 4 }
            });
            assert_eq!(cluster.ask(node, &format!("SELECT {name}")), "+OK\r\n");
            assert_eq!(cluster.ask(node, &format!("SET k {node}")), "+OK\r\n");
        }
    }
    // Whoever joins knows those in memory, too.
    assert_eq!(cluster.join(2), 3);
    pass_until(&mut cluster, "it has all", |cluster| cluster.nodes[3].partitions().len() == 4);
    assert_eq!(cluster.ask(3, "SELECT e"), "+OK\r\n");
    assert_eq!(cluster.ask(3, "GET k"), "$1\r\n2\r\n");
}

#[test]
fn the_dead_are_replaced_by_one_command_or_by_none() {
    let mut cluster = three();
    assert_eq!(cluster.join(0), 3);
    pass_until(&mut cluster, "it has its share", |cluster| settled(cluster, 0) && votes(cluster, 0, 3) >= 5);
    // By none: others take its votes after a while, and it gets some again when it is back.
    assert_eq!(cluster.ask(0, "DICTUM.NODE AUTO-REPLACE 5"), "+OK\r\n");
    cluster.isolated.push(2);
    pass_until(&mut cluster, "others have its votes", |cluster| settled(cluster, 0) && votes(cluster, 0, 2) == 0);
    assert!(cluster.ask(0, "DICTUM.NODE LIST").contains("absent"));
    cluster.isolated.clear();
    pass_until(&mut cluster, "it is back", |cluster| settled(cluster, 0) && votes(cluster, 0, 2) >= 4);
    assert!(!cluster.ask(0, "DICTUM.NODE LIST").contains("absent"));
    // By one.
    assert_eq!(cluster.ask(0, "DICTUM.NODE AUTO-REPLACE 0"), "+OK\r\n");
    cluster.isolated.push(2);
    pass_until(&mut cluster, "it is seen to be down", |cluster| {
        (0..8).all(|index| cluster.nodes[0].leader(partition(index)).is_some_and(|(leader, _)| leader != NodeId(2)))
    });
    for _ in 0..600 {
        cluster.pass();
    }
    assert!(cluster.ask(0, "DICTUM.NODE REMOVE n3").contains("is down"));
    assert_eq!(cluster.ask(0, "DICTUM.NODE REMOVE n3 FORCE"), "+OK\r\n");
    pass_until(&mut cluster, "it is gone", |cluster| settled(cluster, 0) && votes(cluster, 0, 2) == 0);
    for node in [0, 1, 3] {
        while cluster.ask(node, "DICTUM.NODE LIST").contains("n3") {
            cluster.pass();
        }
    }
    // When it comes back it is told.
    cluster.isolated.clear();
    pass_until(&mut cluster, "it has been told", |cluster| cluster.stopped.contains(&2));
}

/// Whoever was removed shall vote nowhere, and does not, as each partition's leader knows; asked for once any node knows that it was removed.
#[track_caller]
fn has_left_nothing(cluster: &Cluster, gone: u16) {
    let there = || (0..cluster.nodes.len() as u16).filter(move |node| *node != gone);
    let told: Vec<_> = there().map(|node| cluster.nodes[usize::from(node)].placement()).collect();
    for told in told.iter().filter(|told| told.removed.contains(&NodeId(gone))) {
        assert!(told.partitions.iter().all(|placed| !placed.seats.contains(&NodeId(gone))), "it was to vote: {told:?}");
        for (node, index) in there().flat_map(|node| (0..8).map(move |index| (node, index))) {
            let leads = cluster.nodes[usize::from(node)].leader(partition(index)).is_some_and(|(id, _)| id.0 == node);
            assert!(!leads || !voters(cluster, node, partition(index)).contains(&gone), "it has a vote in {index}");
        }
    }
}

/// Whoever is to leave as soon as it was to have votes, while a node is far away: nobody is removed that the map names, or that some leader gives a vote.
#[test]
fn who_is_given_votes_and_is_to_leave_is_not_removed_before_all_know_it() {
    for (far, milliseconds) in [(3, 300), (1, 100), (1, 300), (2, 300)] {
        let mut cluster = three();
        cluster.distant = Some((far, std::time::Duration::from_millis(milliseconds)));
        assert_eq!(cluster.join(0), 3);
        let is_wanted = |cluster: &Cluster| {
            let told = cluster.nodes[0].placement();
            told.partitions.iter().any(|placed| placed.seats.contains(&NodeId(3)))
        };
        pass_until(&mut cluster, "it shall have votes", is_wanted);
        cluster.say(0, b"DICTUM.NODE REMOVE n4 FORCE\r\n");
        for _ in 0..4000 {
            cluster.pass();
            has_left_nothing(&cluster, 3);
        }
        assert!(cluster.stopped.contains(&3), "it has gone");
    }
}

/// A voter that is down does not know that a node shall have no votes any more. Once it is back it may lead, out of reach of who knows better, and give that node a
/// vote that nobody can use: so the node stays until it knows.
#[test]
fn nobody_is_removed_whom_a_voter_that_is_down_would_give_a_vote() {
    let mut cluster = three();
    for node in [3, 4] {
        assert_eq!(cluster.join(0), node);
    }
    assert_eq!(cluster.ask(0, "DICTUM.NODE VOTERS 5"), "+OK\r\n");
    pass_until(&mut cluster, "all vote, and all know that they shall", |cluster| {
        let all = |told: &node::Voters| told.now.concat().len() == 5 && told.wanted.len() == 5;
        let knows = |node: u16| {
            (0..8).all(|index| cluster.nodes[usize::from(node)].voters(partition(index)).is_some_and(|told| all(&told)))
        };
        (0..5).all(knows)
    });
    // One that is down, and one that is to leave meanwhile, far away as well.
    cluster.isolated.extend([1, 3]);
    assert_eq!(cluster.ask(0, "DICTUM.NODE REMOVE n4 FORCE"), "+OK\r\n");
    let is_removed = |cluster: &Cluster| cluster.nodes[0].placement().removed.contains(&NodeId(3));
    pass_until(&mut cluster, "its votes have gone to others", |cluster| {
        (0..8).all(|index| voters(cluster, 0, partition(index)) == [0, 1, 2, 4])
    });
    for _ in 0..1000 {
        cluster.pass();
        assert!(!is_removed(&cluster), "who is down would give it a vote");
    }
    cluster.isolated.retain(|node| *node != 1);
    pass_until(&mut cluster, "it is removed", is_removed);
    let wanted = cluster.nodes[1].voters(partition(0)).map(|told| told.wanted);
    assert_eq!(wanted, Some([0, 1, 2, 4].map(NodeId).to_vec()));
    has_left_nothing(&cluster, 3);
}

/// A bucket in memory only that was made while a node was about to leave has a part of its memory there: the node stays until another one has that.
#[test]
fn who_is_to_leave_stays_as_long_as_a_bucket_in_memory_needs_it() {
    let mut cluster = three();
    assert_eq!(cluster.join(0), 3);
    assert_eq!(cluster.ask(0, "DICTUM.NODE PAUSE"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "DICTUM.NODE REMOVE n3"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "DICTUM.BUCKET CREATE e KIND ephemeral"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "SELECT e"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "SET kept yes"), "+OK\r\n");
    // There is room elsewhere, and nobody who could go there at once.
    cluster.isolated.push(3);
    assert_eq!(cluster.ask(0, "DICTUM.NODE RESUME"), "+OK\r\n");
    for _ in 0..1000 {
        cluster.pass();
    }
    assert!(!cluster.stopped.contains(&2));
    cluster.isolated.clear();
    pass_until(&mut cluster, "it has gone", |cluster| cluster.stopped.contains(&2));
    assert_eq!(cluster.ask(0, "GET kept"), "$3\r\nyes\r\n");
}

#[test]
fn nothing_moves_in_a_pause() {
    let mut cluster = three();
    assert_eq!(cluster.ask(0, "DICTUM.NODE PAUSE"), "+OK\r\n");
    assert_eq!(cluster.join(0), 3);
    for _ in 0..2000 {
        cluster.pass();
    }
    assert_eq!((votes(&cluster, 0, 3), settled(&cluster, 0)), (0, true));
    assert_eq!(cluster.ask(1, "DICTUM.NODE RESUME"), "+OK\r\n");
    pass_until(&mut cluster, "it has its share", |cluster| settled(cluster, 0) && votes(cluster, 0, 3) >= 5);
}

#[test]
fn who_may_not_join_is_told_why() {
    let mut cluster = Cluster::new(2);
    let ask = |cluster: &mut Cluster, words: &str| cluster.ask(0, &format!("DICTUM.NODE {words}"));
    assert!(ask(&mut cluster, "JOIN none n9 h:1 5").contains("nobody may join with that token"));
    let token = ask(&mut cluster, "TOKEN");
    let token = bulk(&token).to_owned();
    assert_eq!(token.len(), 32);
    assert!(ask(&mut cluster, &format!("JOIN {token} n2 h:1 5")).contains("there is a node 'n2' already"));
    assert!(ask(&mut cluster, &format!("JOIN {token} n9 127.0.0.1:9002 5")).contains("has the address"));
    assert!(ask(&mut cluster, &format!("JOIN {token} n9 nowhere 5")).contains("write HOST:PORT"));
    assert!(ask(&mut cluster, &format!("JOIN {token} n9 h:1 5")).starts_with("*6\r\n$2\r\nid\r\n:2\r\n"));
    assert!(
        ask(&mut cluster, &format!("JOIN {token} n9 h:1 5")).starts_with("*6\r\n$2\r\nid\r\n:2\r\n"),
        "it asks again"
    );
    assert!(ask(&mut cluster, &format!("JOIN {token} n10 h:2 6")).contains("it was used"));
    let token = ask(&mut cluster, "TOKEN 1");
    for _ in 0..250 {
        cluster.pass();
    }
    assert!(ask(&mut cluster, &format!("JOIN {} n10 h:2 6", bulk(&token))).contains("too old"));
}

/// A member does not end by the word of another one, as long as it hears a majority.
#[test]
fn nobody_is_removed_by_the_word_of_one() {
    let mut cluster = three();
    let say = |cluster: &mut Cluster| {
        let words = node::farewell(&cluster.nodes[2]);
        cluster.give(2, Input::PeerMessage { peer: NodeId(1), bytes: words });
    };
    for _ in 0..1000 {
        cluster.pass();
        say(&mut cluster);
    }
    assert!(cluster.stopped.is_empty(), "five seconds of that end nobody");
    let probes = cluster.nodes[2].take_probes();
    let ignored = probes.iter().find(|(name, _)| *name == "node: a word that it was removed ignored");
    assert_eq!(ignored.map(|(_, count)| *count), Some(1), "its operator is told once");
    // One that hears nobody else ends, though not at once.
    cluster.isolated.push(2);
    for _ in 0..500 {
        cluster.pass();
        say(&mut cluster);
    }
    assert!(cluster.stopped.is_empty());
    for _ in 0..250 {
        cluster.pass();
        say(&mut cluster);
    }
    assert!(cluster.stopped.contains(&2));
}

/// The others listen to a node no more as soon as they know that it was removed, perhaps before it knows that itself. It hears so from most of them, and needs no three seconds.
#[test]
fn a_node_ends_by_the_word_of_most_at_once() {
    let mut cluster = three();
    let say = |cluster: &mut Cluster, by: u16| {
        let words = node::farewell(&cluster.nodes[2]);
        cluster.give(2, Input::PeerMessage { peer: NodeId(by), bytes: words });
        cluster.pass();
    };
    // Not by the words of one, however often, nor by words that were said at other times.
    for by in [0, 0, 1] {
        for _ in 0..300 {
            cluster.pass();
        }
        say(&mut cluster, by);
    }
    assert!(cluster.stopped.is_empty());
    say(&mut cluster, 0);
    assert!(cluster.stopped.contains(&2), "the other one has said so a moment ago");
}

/// Whoever has started since a node was removed knows no number as high as its: it is told all the same.
#[test]
fn a_removed_node_is_told_so_by_those_who_have_started_since() {
    let mut cluster = three();
    assert_eq!(cluster.join(0), 3);
    pass_until(&mut cluster, "it has its share", |cluster| settled(cluster, 0) && votes(cluster, 0, 3) >= 4);
    cluster.isolated.push(3);
    for _ in 0..600 {
        cluster.pass();
    }
    assert_eq!(cluster.ask(0, "DICTUM.NODE REMOVE n4 FORCE"), "+OK\r\n");
    pass_until(&mut cluster, "it is gone", |cluster| {
        (0..3).all(|node| cluster.nodes[node].placement().removed.contains(&NodeId(3)))
    });
    for node in 0..3 {
        let journal = cluster.journal(node);
        cluster.restart(node, journal);
    }
    cluster.isolated.clear();
    pass_until(&mut cluster, "it has been told", |cluster| cluster.stopped.contains(&3));
}
