//! Commands of many words and transactions of many commands: bounded by their bytes, as in a Redis.

use crate::common::{CLIENT, Cluster, pass_until};
use base::versions::NEWEST;
use node::Input;

fn three() -> Cluster {
    let mut cluster = Cluster::new(3);
    pass_until(&mut cluster, "the version has risen", |cluster| {
        cluster.nodes.iter().all(|node| node.cluster_version() == NEWEST)
    });
    cluster
}

/// Sends bytes and waits for an answer that ends so.
fn answer(cluster: &mut Cluster, node: u16, bytes: &[u8], end: &str) -> String {
    for piece in bytes.chunks(1 << 20) {
        cluster.give(node, Input::Received { connection: CLIENT, bytes: piece });
    }
    let mut heard = String::new();
    while !heard.ends_with(end) {
        heard.push_str(&cluster.hear(node));
    }
    heard
}

#[test]
fn a_transaction_of_seventy_thousand_commands_is_carried_out() {
    let mut cluster = three();
    let mut bytes = b"MULTI\r\n".to_vec();
    for number in 0..70_000 {
        bytes.extend_from_slice(format!("*3\r\n$3\r\nSET\r\n$9\r\nkey:{number:05}\r\n$1\r\n1\r\n").as_bytes());
    }
    bytes.extend_from_slice(b"EXEC\r\nPING\r\n");
    for node in [0, 1] {
        let heard = answer(&mut cluster, node, &bytes, "+PONG\r\n");
        assert_eq!(heard.matches("+QUEUED\r\n").count(), 70_000);
        assert!(heard.contains("*70000\r\n+OK\r\n"), "{}", &heard[heard.len() - 200..]);
        assert_eq!(cluster.ask(node, "DBSIZE"), ":70000\r\n");
    }
}

#[test]
fn a_command_of_more_than_a_million_words_is_carried_out() {
    let mut cluster = three();
    let mut bytes = b"*1100001\r\n$3\r\nDEL\r\n".to_vec();
    (0..1_100_000).for_each(|number| bytes.extend_from_slice(format!("$7\r\n{number:07}\r\n").as_bytes()));
    assert_eq!(cluster.ask(0, "SET 1099999 1"), "+OK\r\n");
    assert_eq!(answer(&mut cluster, 0, &bytes, "\r\n"), ":1\r\n");
}

/// An older node could not read the entry.
#[test]
fn while_older_nodes_are_there_a_command_has_a_million_words_at_the_most() {
    let mut cluster = Cluster::with(3, |config| config.newest = 7);
    let mut bytes = b"*1100001\r\n$3\r\nDEL\r\n".to_vec();
    (0..1_100_000).for_each(|_| bytes.extend_from_slice(b"$1\r\nk\r\n"));
    let heard = answer(&mut cluster, 0, &bytes, "\r\n");
    assert!(heard.starts_with("-ERR a command has 1048576 words at the most while nodes of earlier"), "{heard}");
}
