//! A node alone and a cluster of three on a network and disks without faults: the first thing to look at when all is red.
//! Faults are the simulator's.

use std::collections::BTreeMap;
use std::time::Duration;

use base::{NodeId, Now, Time, WallTime};
use bytes::Bytes;
use node::{Config, ConnectionId, Input, Member, Node, Outbox, Recovered};

const CLIENT: ConnectionId = ConnectionId(1);

fn config(count: usize, me: u16) -> Config {
    let members = (1..=count).map(|i| Member { name: format!("n{i}"), peer_address: format!("127.0.0.1:900{i}") });
    Config {
        members: members.collect(),
        me: NodeId(me),
        resp_address: format!("127.0.0.1:700{}", me + 1),
        http_address: String::new(),
        process_id: 1,
        value_bytes_max: 1024 * 1024,
        request_timeout: Duration::from_secs(5),
        password: None,
        log_bytes_per_snapshot: u64::MAX,
        log_entries_kept: 1000,
        seed: u64::from(me) + 1,
        planted: None,
    }
}

fn blank(incarnation: u64) -> Recovered {
    let journal = storage::Recovered {
        payloads: Vec::new(),
        damage: Vec::new(),
        tail: storage::Tail::Clean,
        next_number: 1,
        floor: 1,
        fresh: true,
    };
    Recovered { incarnation, journal, snapshot: None, snapshot_damaged: false }
}

/// All nodes, and what was said to the client of each.
struct Cluster {
    nodes: Vec<Node>,
    now: Now,
    heard: Vec<Vec<u8>>,
    mail: Vec<(NodeId, NodeId, Bytes)>,
    persisted: BTreeMap<u16, u64>,
}

impl Cluster {
    fn new(count: usize) -> Cluster {
        let now = Now { time: Time(0), wall: WallTime(1_700_000_000_000) };
        let mut cluster = Cluster {
            nodes: Vec::new(),
            now,
            heard: vec![Vec::new(); count],
            mail: Vec::new(),
            persisted: BTreeMap::new(),
        };
        for me in 0..count as u16 {
            let mut out = Outbox::default();
            let node = Node::start(config(count, me), blank(100 + u64::from(me)), now, &mut out).unwrap();
            cluster.nodes.push(node);
            cluster.carry_out(me, out);
        }
        for me in 0..count as u16 {
            for peer in (0..count as u16).filter(|peer| *peer != me) {
                cluster.give(me, Input::PeerUp { peer: NodeId(peer) });
            }
            let address = String::from("client");
            cluster.give(me, Input::Opened { connection: CLIENT, address: address.clone(), local_address: address });
        }
        cluster
    }

    fn carry_out(&mut self, me: u16, out: Outbox) {
        assert_eq!(out.fatal, None);
        for (to, bytes) in out.peers {
            for frame in wire::split_frames(&bytes) {
                self.mail.push((NodeId(me), to, Bytes::copy_from_slice(frame.unwrap())));
            }
        }
        for (_, bytes) in out.clients {
            self.heard[usize::from(me)].extend_from_slice(&bytes);
        }
        if let Some(last) = out.journal.last() {
            self.persisted.insert(me, last.number);
        }
    }

    fn give(&mut self, me: u16, input: Input<'_>) {
        let mut out = Outbox::default();
        self.nodes[usize::from(me)].step(self.now, input, &mut out);
        self.nodes[usize::from(me)].step(self.now, Input::EndTurn, &mut out);
        self.carry_out(me, out);
    }

    /// Five milliseconds pass, in which everything that was sent arrives and everything stored is on disk.
    fn pass(&mut self) {
        self.now.time = self.now.time + Duration::from_millis(5);
        self.now.wall = WallTime(self.now.wall.0 + 5);
        for _ in 0..20 {
            for (me, number) in std::mem::take(&mut self.persisted) {
                self.give(me, Input::Persisted { number });
            }
            for (from, to, bytes) in std::mem::take(&mut self.mail) {
                self.give(to.0, Input::PeerMessage { peer: from, bytes });
            }
        }
        for me in 0..self.nodes.len() as u16 {
            self.give(me, Input::EndTurn);
        }
    }

    fn say(&mut self, me: u16, bytes: &[u8]) {
        self.give(me, Input::Received { connection: CLIENT, bytes });
    }

    /// What the client of node `me` has heard once it has heard something; taken away.
    fn hear(&mut self, me: u16) -> String {
        for _ in 0..2000 {
            if !self.heard[usize::from(me)].is_empty() {
                return String::from_utf8(std::mem::take(&mut self.heard[usize::from(me)])).unwrap();
            }
            self.pass();
        }
        panic!("node {me} says nothing");
    }

    fn ask(&mut self, me: u16, line: &str) -> String {
        self.say(me, format!("{line}\r\n").as_bytes());
        self.hear(me)
    }
}

#[test]
fn a_node_alone_serves() {
    let mut cluster = Cluster::new(1);
    assert_eq!(cluster.ask(0, "SET greeting hello"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "GET greeting"), "$5\r\nhello\r\n");
}

#[test]
fn any_of_three_serves_and_all_agree() {
    let mut cluster = Cluster::new(3);
    assert_eq!(cluster.ask(2, "SET a 1"), "+OK\r\n");
    assert_eq!(cluster.ask(1, "INCR a"), ":2\r\n");
    for me in 0..3 {
        assert_eq!(cluster.ask(me, "GET a"), "$1\r\n2\r\n");
    }
    assert_eq!(cluster.nodes[1].leader().map(|(id, _)| id), Some(NodeId(0)), "the preferred node leads");
    let digests: Vec<u64> = cluster.nodes.iter().map(Node::state_digest).collect();
    assert!(digests.iter().all(|digest| *digest == digests[0]));
}

#[test]
fn pipelined_commands_are_answered_in_order() {
    let mut cluster = Cluster::new(3);
    for me in 0..3 {
        let answer = cluster.ask(me, "SET k 1\r\nGET k\r\nPING\r\nINCR k\r\nGET k\r\nNOSUCH x");
        let mut answer = answer;
        while answer.matches("\r\n").count() < 8 {
            cluster.pass();
            answer += &cluster.hear(me);
        }
        assert_eq!(
            answer,
            "+OK\r\n$1\r\n1\r\n+PONG\r\n:2\r\n$1\r\n2\r\n-ERR unknown command 'NOSUCH', with args beginning with: 'x' \r\n"
        );
    }
}

#[test]
fn transactions_watch_and_merge() {
    let mut cluster = Cluster::new(3);
    assert_eq!(cluster.ask(0, "SET k 1"), "+OK\r\n");
    assert_eq!(cluster.ask(1, "WATCH k"), "+OK\r\n");
    assert_eq!(cluster.ask(1, "MULTI"), "+OK\r\n");
    assert_eq!(cluster.ask(1, "INCR k"), "+QUEUED\r\n");
    assert_eq!(cluster.ask(1, "PING"), "+QUEUED\r\n");
    assert_eq!(cluster.ask(1, "GET k"), "+QUEUED\r\n");
    assert_eq!(cluster.ask(1, "EXEC"), "*3\r\n:2\r\n+PONG\r\n$1\r\n2\r\n");
    assert_eq!(cluster.ask(1, "WATCH k"), "+OK\r\n");
    assert_eq!(cluster.ask(2, "SET k 7"), "+OK\r\n");
    assert_eq!(cluster.ask(1, "MULTI"), "+OK\r\n");
    assert_eq!(cluster.ask(1, "SET k 9"), "+QUEUED\r\n");
    assert_eq!(cluster.ask(1, "EXEC"), "*-1\r\n");
    assert_eq!(cluster.ask(0, "GET k"), "$1\r\n7\r\n");
}

#[test]
fn a_key_expires_for_everybody_at_once() {
    let mut cluster = Cluster::new(3);
    assert_eq!(cluster.ask(0, "SET k v PX 300"), "+OK\r\n");
    assert_eq!(cluster.ask(2, "GET k"), "$1\r\nv\r\n");
    for _ in 0..70 {
        cluster.pass();
    }
    for me in 0..3 {
        assert_eq!(cluster.ask(me, "GET k"), "$-1\r\n");
    }
}

#[test]
fn wait_and_once_tell_the_truth() {
    let mut cluster = Cluster::new(3);
    assert_eq!(cluster.ask(0, "DICTUM.ONCE id1 INCR n"), ":1\r\n");
    assert_eq!(cluster.ask(1, "DICTUM.ONCE id1 INCR n"), ":1\r\n");
    assert_eq!(cluster.ask(2, "DICTUM.OUTCOME id1"), "*2\r\n$7\r\napplied\r\n:1\r\n");
    assert_eq!(cluster.ask(2, "DICTUM.OUTCOME id2"), "$-1\r\n");
    assert_eq!(cluster.ask(0, "SET a 1"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "WAIT 2 0"), ":2\r\n");
}

#[test]
fn a_stopping_leader_hands_over() {
    let mut cluster = Cluster::new(3);
    assert_eq!(cluster.ask(0, "SET a 1"), "+OK\r\n");
    cluster.give(0, Input::Stop);
    for _ in 0..20 {
        cluster.pass();
    }
    assert_ne!(cluster.nodes[1].leader().map(|(id, _)| id), Some(NodeId(0)));
    assert_eq!(cluster.ask(1, "INCR a"), ":2\r\n");
}
