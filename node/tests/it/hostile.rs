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
