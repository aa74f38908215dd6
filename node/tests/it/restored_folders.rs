//! A folder is set back to an earlier copy: the node that is started with it has forgotten what it promised since, and is not listened to.

use crate::common::{Cluster, blank, pass_until};
use base::{BucketId, NodeId, PartitionId};
use node::ConnectionId;

pub const DEFAULT: PartitionId = PartitionId { bucket: BucketId(0), index: 0 };
/// A client that comes later.
const AGAIN: ConnectionId = ConnectionId(9);
/// Whose folder is set back.
const LATE: u16 = 2;

/// Nodes without keys, which believe what others say, and nodes that sign.
const BOTH: [bool; 2] = [false, true];

/// Three nodes with something in them, and a copy of the third's journal from before most of it.
fn three(are_keyed: bool) -> (Cluster, storage::Recovered) {
    let mut cluster = if are_keyed { Cluster::keyed(3) } else { Cluster::new(3) };
    cluster.ask(0, "SET first 1");
    settle(&mut cluster);
    let copy = cluster.journal(LATE);
    for number in 0..50 {
        assert_eq!(cluster.ask(number % 3, &format!("SET key:{number} {number}")), "+OK\r\n");
    }
    settle(&mut cluster);
    (cluster, copy)
}

/// Two seconds: all have said everything to all.
pub fn settle(cluster: &mut Cluster) {
    (0..400).for_each(|_| cluster.pass());
}

fn has_met(cluster: &mut Cluster, node: u16, probe: &str) -> bool {
    cluster.nodes[usize::from(node)].take_probes().iter().any(|(name, _)| *name == probe)
}

const OUTLIVED: &str = "node: has the folder of a life before";
const REFUSED: &str = "node: a node with an earlier copy of its folder refused";

#[test]
fn an_earlier_copy_is_refused_and_says_what_to_do() {
    for are_keyed in BOTH {
        let (mut cluster, copy) = three(are_keyed);
        cluster.may_end = true;
        cluster.restart(LATE, copy);
        pass_until(&mut cluster, "it ends", |cluster| cluster.fatal.is_some());
        let reason = cluster.fatal.take().expect("it has ended");
        assert!(
            reason.contains("it is an earlier copy") && reason.contains("start it with an empty folder"),
            "{reason}"
        );
        cluster.isolated.push(LATE);
        assert!(has_met(&mut cluster, 0, REFUSED) && has_met(&mut cluster, 1, REFUSED));
        assert_eq!(cluster.ask(0, "SET later 2"), "+OK\r\n");
        assert_eq!(cluster.ask(1, "GET key:49"), "$2\r\n49\r\n");
    }
}

#[test]
fn whoever_has_only_been_told_refuses_it_too() {
    for are_keyed in BOTH {
        let (mut cluster, copy) = three(are_keyed);
        // What it knew of the third's folder was in memory only; the second tells it.
        let journal = cluster.journal(0);
        cluster.isolated.push(LATE);
        cluster.restart(0, journal);
        settle(&mut cluster);
        // The third has a majority with it alone, if it is listened to: and what all three have acknowledged is in no copy of that majority but one.
        cluster.isolated = vec![1];
        cluster.may_end = true;
        cluster.restart(LATE, copy);
        pass_until(&mut cluster, "it ends", |cluster| cluster.fatal.is_some());
        settle(&mut cluster);
        assert!(has_met(&mut cluster, 0, REFUSED));
        let leader = cluster.nodes[0].leader(DEFAULT).map(|(leader, _)| leader);
        assert!(leader.is_none_or(|leader| leader == NodeId(1)), "nobody is elected by it: {leader:?}");
    }
}

#[test]
fn a_folder_as_it_was_left_is_welcome() {
    for are_keyed in BOTH {
        let (mut cluster, _) = three(are_keyed);
        for _ in 0..3 {
            let journal = cluster.journal(LATE);
            cluster.restart(LATE, journal);
            assert_eq!(cluster.ask(LATE, "GET key:49"), "$2\r\n49\r\n");
            assert_eq!(cluster.ask(LATE, "SET key:49 49"), "+OK\r\n");
            settle(&mut cluster);
        }
        assert_eq!(cluster.fatal, None);
        assert!(!has_met(&mut cluster, 0, REFUSED));
    }
}

/// The third's disk is not mounted: it starts with an empty folder.
fn start_without_its_disk(cluster: &mut Cluster) {
    cluster.restart_in(LATE, blank(7000));
}

/// Each two of the three elect, serve and have everything.
fn any_two_serve(cluster: &mut Cluster) {
    for away in 0..3_u16 {
        cluster.isolated = vec![away];
        // Longer than anybody is patient.
        settle(cluster);
        settle(cluster);
        let at = (away + 1) % 3;
        assert_eq!(cluster.ask(at, &format!("SET without:{away} 1")), "+OK\r\n", "without {away}");
        assert_eq!(cluster.ask(at, "GET key:49"), "$2\r\n49\r\n");
        cluster.isolated.clear();
        settle(cluster);
        settle(cluster);
    }
}

#[test]
fn a_folder_that_was_away_while_its_node_lived_without_it_recovers() {
    for are_keyed in BOTH {
        let (mut cluster, _) = three(are_keyed);
        let folder = cluster.journal(LATE);
        start_without_its_disk(&mut cluster);
        settle(&mut cluster);
        // The node closed connections from before it heard of the others.
        cluster.open(LATE, AGAIN);
        assert_eq!(cluster.ask_as(LATE, AGAIN, "SET meanwhile 1"), "+OK\r\n");
        cluster.restart(LATE, folder);
        settle(&mut cluster);
        assert_eq!(cluster.ask(LATE, "GET meanwhile"), "$1\r\n1\r\n");
        assert!(has_met(&mut cluster, LATE, OUTLIVED));
        any_two_serve(&mut cluster);
    }
}

#[test]
fn also_when_that_life_was_too_short_to_recover_in() {
    for are_keyed in BOTH {
        let (mut cluster, _) = three(are_keyed);
        let folder = cluster.journal(LATE);
        start_without_its_disk(&mut cluster);
        // It has asked, and gets no answer.
        (0..3).for_each(|_| cluster.pass());
        cluster.isolated = vec![LATE];
        settle(&mut cluster);
        cluster.isolated.clear();
        cluster.restart(LATE, folder);
        settle(&mut cluster);
        any_two_serve(&mut cluster);
    }
}

#[test]
fn also_when_all_have_been_started_again_since() {
    for are_keyed in BOTH {
        let (mut cluster, _) = three(are_keyed);
        let folder = cluster.journal(LATE);
        start_without_its_disk(&mut cluster);
        settle(&mut cluster);
        let journals = [cluster.journal(0), cluster.journal(1)];
        cluster.isolated = vec![0, 1, 2];
        cluster.restart(0, journals[0].clone());
        cluster.restart(1, journals[1].clone());
        cluster.isolated.clear();
        cluster.restart(LATE, folder);
        settle(&mut cluster);
        settle(&mut cluster);
        any_two_serve(&mut cluster);
    }
}

/// The roles that a node tells of its partitions.
fn roles(cluster: &mut Cluster, node: u16) -> Vec<String> {
    let status = cluster.ask(node, "DICTUM.STATUS");
    let partitions =
        status.split_once("\"partitions\":[").and_then(|(_, rest)| rest.split_once(']')).expect("a list").0;
    let of = |part: &str| part.split('"').next().unwrap_or_default().to_owned();
    partitions.split("\"role\":\"").skip(1).map(of).collect()
}

/// The role of a node, as a status tells it.
fn role_of_node<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = status.split_once(&format!("{{\"name\":\"{name}\""))?;
    rest.split_once("\"role\":\"")?.1.split('"').next()
}

/// Two folders were away at once. What both have is nowhere else: neither gives it up, and the two elect without the third one, who takes them for others.
#[test]
fn of_two_folders_that_were_away_neither_gives_up_what_it_has_before_the_others_are_there() {
    for are_keyed in BOTH {
        let (mut cluster, _) = three(are_keyed);
        // Acknowledged by these two alone.
        cluster.isolated = vec![0];
        settle(&mut cluster);
        settle(&mut cluster);
        assert_eq!(cluster.ask(1, "SET by two"), "+OK\r\n");
        let folders = [cluster.journal(1), cluster.journal(2)];
        cluster.isolated.clear();
        cluster.restart_in(1, blank(7000));
        cluster.restart_in(2, blank(8000));
        settle(&mut cluster);
        let [first, second] = folders;
        cluster.isolated = vec![0];
        cluster.restart(1, first);
        cluster.restart(2, second);
        settle(&mut cluster);
        settle(&mut cluster);
        settle(&mut cluster);
        assert_eq!(cluster.ask(1, "GET by"), "$3\r\ntwo\r\n");
        assert_eq!(cluster.ask(2, "SET by both"), "+OK\r\n");
        // One of them leads, and both are still to recover.
        let leader = cluster.nodes[1].leader(DEFAULT).expect("one of them leads").0;
        assert_ne!(leader, NodeId(0));
        // Where nodes sign, the word of one is not enough: both hear that they were outlived when the third one is there.
        if !are_keyed {
            for node in [1, 2] {
                assert_eq!(roles(&mut cluster, node), ["outlived"; 2], "its partitions");
                for other in ["n2", "n3"] {
                    let status = cluster.ask(node, "DICTUM.STATUS");
                    assert_eq!(role_of_node(&status, other), Some("outlived"), "{other} at n{}: {status}", node + 1);
                }
                assert!(cluster.ask(node, "INFO dictum").contains("dictum_role:outlived"));
            }
        }
        cluster.isolated.clear();
        settle(&mut cluster);
        settle(&mut cluster);
        assert_eq!(cluster.ask(0, "GET by"), "$4\r\nboth\r\n");
        any_two_serve(&mut cluster);
        for node in 0..3 {
            let roles = roles(&mut cluster, node);
            assert!(roles.iter().all(|role| role == "leader" || role == "follower"), "they have recovered: {roles:?}");
        }
    }
}

/// One comes back while another one's folder is away, and both wait for each other to be there: they recover one after the other.
#[test]
fn two_that_were_outlived_one_after_the_other_recover_in_turn() {
    for are_keyed in BOTH {
        let (mut cluster, _) = three(are_keyed);
        // The first one leads, and goes on leading.
        assert_eq!(cluster.nodes[0].leader(DEFAULT).map(|(leader, _)| leader), Some(NodeId(0)));
        let second = cluster.journal(1);
        cluster.restart_in(1, blank(7000));
        settle(&mut cluster);
        let third = cluster.journal(LATE);
        cluster.restart_in(LATE, blank(8000));
        settle(&mut cluster);
        // Both folders are back before either has heard of anything.
        cluster.isolated = vec![1, LATE];
        cluster.restart(1, second);
        cluster.restart(LATE, third);
        cluster.isolated.clear();
        settle(&mut cluster);
        settle(&mut cluster);
        assert!(has_met(&mut cluster, 1, OUTLIVED) && has_met(&mut cluster, LATE, OUTLIVED));
        any_two_serve(&mut cluster);
    }
}

/// On a connection of its own that has chosen the bucket `t`.
fn ask_in_t(cluster: &mut Cluster, node: u16, (line, answer): (&str, &str)) {
    let connection = ConnectionId(900 + u64::from(node));
    cluster.open(node, connection);
    assert_eq!(cluster.ask_as(node, connection, "SELECT t"), "+OK\r\n");
    assert_eq!(cluster.ask_as(node, connection, line), answer, "{line}");
}

/// A bucket was made while the third node was down, and that node then lived, and voted in it, without its folder. The folder knows nothing of the bucket, and the order
/// that made it names the memory of the folder: the replica that the folder makes has voted all the same (seed 8710 with folder-away).
#[test]
fn a_bucket_that_the_folder_does_not_know_may_have_had_its_vote() {
    for are_keyed in BOTH {
        let (mut cluster, _) = three(are_keyed);
        let folder = cluster.journal(LATE);
        cluster.isolated = vec![LATE];
        assert_eq!(cluster.ask(0, "DICTUM.BUCKET CREATE t"), "+OK\r\n");
        cluster.isolated.clear();
        cluster.restart_in(LATE, blank(7000));
        settle(&mut cluster);
        ask_in_t(&mut cluster, LATE, ("SET meanwhile 1", "+OK\r\n"));
        // The leader has a majority with the folder, and goes on leading.
        cluster.isolated = vec![1];
        settle(&mut cluster);
        cluster.restart(LATE, folder);
        settle(&mut cluster);
        settle(&mut cluster);
        cluster.isolated.clear();
        settle(&mut cluster);
        settle(&mut cluster);
        for away in 0..3_u16 {
            cluster.isolated = vec![away];
            settle(&mut cluster);
            settle(&mut cluster);
            ask_in_t(&mut cluster, (away + 1) % 3, ("GET meanwhile", "$1\r\n1\r\n"));
            cluster.isolated.clear();
            settle(&mut cluster);
        }
        any_two_serve(&mut cluster);
    }
}
