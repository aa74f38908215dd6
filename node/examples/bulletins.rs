//! What publishing costs: the node that is asked, another that nobody listens to, and one with listeners.
//!
//! `cargo run --release -p node --example bulletins`
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "an example that measures has a clock")]

#[path = "../tests/it/common/mod.rs"]
mod common;

use std::time::{Duration, Instant};

use common::Cluster;
use node::Input;

/// Messages in one turn, and how many turns.
const MESSAGES: u32 = 1_000;
const TURNS: u32 = 500;

fn main() {
    for (listeners, bytes) in [(0, 16), (0, 1024), (1, 16), (1, 1024)] {
        let mut cluster = Cluster::new(3);
        cluster.ask(0, "PING");
        if listeners > 0 {
            cluster.ask(1, "SUBSCRIBE news");
        }
        // Names that others listen to, so that there is something to look among.
        for number in 0..1_000 {
            cluster.ask(2, &format!("SUBSCRIBE other:{number}"));
        }
        for _ in 0..20 {
            cluster.pass();
        }
        let mut command = Vec::new();
        for _ in 0..MESSAGES {
            wire::encode_command(&mut command, [&b"PUBLISH"[..], b"news", &vec![b'x'; bytes]]);
        }
        let (mut published, mut heard) = (Duration::ZERO, Duration::ZERO);
        for _ in 0..TURNS {
            let start = Instant::now();
            cluster.say(0, &command);
            published += start.elapsed();
            let sent: Vec<_> = cluster.mail.drain(..).filter(|(_, to, _)| to.0 == 1).collect();
            let start = Instant::now();
            for (from, to, bytes) in sent {
                cluster.give(to.0, Input::PeerMessage { peer: from, bytes });
            }
            heard += start.elapsed();
            // What was heard is said in time, or the window would close.
            for _ in 0..11 {
                cluster.pass();
            }
            cluster.heard(0, common::CLIENT);
            cluster.heard(1, common::CLIENT);
        }
        let each = |all: Duration| all.as_nanos() / u128::from(MESSAGES * TURNS);
        println!(
            "{bytes} bytes, {listeners} listeners at the other node: {} ns to publish (to two nodes), {} ns to hear",
            each(published),
            each(heard)
        );
    }
}
