//! Nothing that a peer can send makes a node panic: real traffic between real nodes, with seeded damage that a checksum would
//! not show. A node may refuse to go on (two decided histories are a reason to stop), but it says so in order.

use crate::common::Cluster;
use base::Rng;
use bytes::Bytes;

/// Damages a message the way a program with a bug would: other numbers, other lengths, a part of another message.
fn damage(message: &Bytes, other: &Bytes, rng: &mut Rng) -> Bytes {
    let mut bytes = message.to_vec();
    for _ in 0..rng.between(1, 3) {
        let at = rng.below(bytes.len() as u64) as usize;
        match rng.below(6) {
            0 => bytes[at] ^= 1 << rng.below(8),
            1 => bytes[at] = rng.next_u64() as u8,
            2 => {
                // A number becomes as large as can be: sums with it must not overflow.
                let end = bytes.len().min(at + 8);
                bytes[at..end].fill(0xff);
            }
            3 => bytes.truncate(at.max(1)),
            4 => bytes.extend_from_slice(&other[..other.len().min(16)]),
            _ => {
                let end = other.len().min(bytes.len()).max(at + 1);
                let take = (end - at).min(other.len());
                bytes[at..at + take].copy_from_slice(&other[..take]);
            }
        }
    }
    Bytes::from(bytes)
}

fn run(seed: u64) -> (u64, bool) {
    let mut rng = Rng::new(seed);
    let mut cluster = Cluster::new(3);
    cluster.may_end = true;
    let mut sent = 0;
    for step in 0..60 {
        let me = rng.below(3) as u16;
        cluster.say(me, format!("SET k{} v{step}\r\nGET k1\r\nEXPIRE k2 1\r\n", rng.below(4)).as_bytes());
        let mail = cluster.mail.clone();
        for (from, to, bytes) in &mail {
            if rng.chance(1, 4) {
                let (_, _, other) = rng.pick(&mail);
                cluster.mail.push((*from, *to, damage(bytes, other, &mut rng)));
                sent += 1;
            }
        }
        cluster.pass();
        if cluster.fatal.is_some() {
            return (sent, true);
        }
    }
    (sent, false)
}

#[test]
fn damaged_messages_never_make_a_node_panic() {
    let (mut sent, mut ended) = (0, 0);
    for seed in 0..400 {
        let result = std::panic::catch_unwind(|| run(seed));
        let (damaged, end) = result.unwrap_or_else(|_| panic!("seed {seed}: a node panicked, see above"));
        sent += damaged;
        ended += u64::from(end);
    }
    assert!(sent > 10_000, "only {sent} damaged messages were sent");
    assert!(ended < 400, "some runs must go on to the end");
}

/// Somebody who has a member's key tells the others lies in its name, after its process has ended.
#[test]
fn lies_in_the_name_of_a_dead_member_harm_nobody() {
    for seed in 0..20 {
        let mut cluster = Cluster::keyed(3);
        for me in 0..3 {
            assert_eq!(cluster.ask(me, &format!("SET k{me} v")), "+OK\r\n");
        }
        // The first of them leads.
        cluster.stopped.push(2);
        let lies: Vec<Vec<Bytes>> = (0..2).map(|me| node::lies_of(&cluster.nodes[me], base::NodeId(2), seed)).collect();
        for (me, lies) in (0..).zip(lies) {
            for bytes in lies {
                cluster.give(me, node::Input::PeerMessage { peer: base::NodeId(2), bytes });
            }
        }
        for me in 0..2 {
            assert_eq!(cluster.ask(me, "INCR n"), format!(":{}\r\n", me + 1), "seed {seed}");
            assert_eq!(cluster.ask(me, "MGET k0 k1 k2"), "*3\r\n$1\r\nv\r\n$1\r\nv\r\n$1\r\nv\r\n");
        }
        let mut probes = Vec::new();
        for node in &mut cluster.nodes {
            probes.extend(node.take_probes());
        }
        for probe in ["node: a forwarded write refused", "paxos: a round out of reach ignored"] {
            assert!(probes.iter().any(|(name, _)| *name == probe), "{probe} {probes:?}");
        }
        assert_eq!(cluster.fatal, None);
    }
}
