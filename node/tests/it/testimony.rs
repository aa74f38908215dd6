//! One member says what is not so of the others' folders: nothing comes of it.

use base::NodeId;
use bytes::Bytes;
use node::{Input, lies_of};

use crate::common::{Cluster, pass_until};
use crate::restored_folders::{DEFAULT, settle};

const DEAD: u16 = 2;
const OUTLIVED: &str = "node: has the folder of a life before";
const REFUSED: &str = "node: a claim that its node has not signed refused";
const BELIEVED: &str = "node: a signed claim believed";

fn probes(cluster: &mut Cluster, node: u16) -> Vec<&'static str> {
    cluster.nodes[usize::from(node)].take_probes().into_iter().map(|(name, _)| name).collect()
}

/// A hundred times, to each node: most kinds of lies that there are, each time with other words.
fn lie(cluster: &mut Cluster) {
    for seed in 0..100 {
        for node in 0..DEAD {
            let lies: Vec<Bytes> = lies_of(&cluster.nodes[usize::from(node)], NodeId(DEAD), seed);
            for bytes in lies {
                cluster.give(node, Input::PeerMessage { peer: NodeId(DEAD), bytes });
            }
        }
        cluster.pass();
    }
}

#[test]
fn the_word_of_one_member_about_others_folders_does_no_harm() {
    let mut cluster = Cluster::keyed(3);
    cluster.ask(0, "SET first 1");
    settle(&mut cluster);
    cluster.isolated.push(DEAD);
    lie(&mut cluster);
    settle(&mut cluster);
    assert_eq!(cluster.fatal, None);
    for node in 0..DEAD {
        let met = probes(&mut cluster, node);
        assert!(met.contains(&REFUSED) && !met.contains(&OUTLIVED), "{met:?}");
        assert!(!cluster.nodes[usize::from(node)].is_outlived());
    }
    // The two hear each other, and elect: neither was taken for an earlier copy.
    pass_until(&mut cluster, "they have a leader", |cluster| cluster.nodes[0].leader(DEFAULT).is_some());
    assert_eq!(cluster.ask(0, "SET later 2"), "+OK\r\n");
    assert_eq!(cluster.ask(1, "GET later"), "$1\r\n2\r\n");
}

#[test]
fn nodes_hear_from_others_what_a_node_has_signed() {
    let mut cluster = Cluster::keyed(3);
    cluster.ask(0, "SET first 1");
    settle(&mut cluster);
    let journal = cluster.journal(0);
    cluster.isolated.push(DEAD);
    cluster.restart(0, journal);
    settle(&mut cluster);
    // It has not met the third one in this life.
    assert!(probes(&mut cluster, 0).contains(&BELIEVED));
    assert!(cluster.nodes[0].has_heard_of(NodeId(DEAD), 100 + u64::from(DEAD)) > 0);
}
