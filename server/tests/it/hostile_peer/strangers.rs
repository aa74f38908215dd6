//! Strangers at the peers' ports: before TLS, and behind it without the cluster's secret. None is told anything of the cluster, and none is believed.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use base::Rng;

use super::damage::{damage, framed, garbage, random};
use super::speech::{Call, Caller, connect};

/// Strangers at once. Each makes one connection after the other.
const AT_ONCE: u64 = 4;
/// Connections that each of them holds open beside these, on which no more comes.
const HELD: usize = 50;
/// An alert, a part of a handshake: what TLS says to anybody.
const TLS_SAYS: [u8; 2] = [0x15, 0x16];
/// The node's answer to every caller in plain text, whose operator may have forgotten the secret.
const TOLD: &str = "links to this cluster are under TLS; give this node the cluster's --cluster-secret";

/// The answers that strangers got.
#[derive(Default, Debug)]
pub struct Heard {
    pub nothing: AtomicU64,
    pub alerts: AtomicU64,
    pub handshakes: AtomicU64,
    pub refusals: AtomicU64,
}

impl Heard {
    fn note(&self, heard: &[u8]) {
        let count = match heard.first() {
            None => &self.nothing,
            Some(0x15) => &self.alerts,
            Some(0x16) => &self.handshakes,
            Some(_) => &self.refusals,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Has several strangers send so many frames together, each with chance of its own.
fn share(frames: u64, rng: &mut Rng, send: impl Fn(u64, Rng) + Sync) {
    let send = &send;
    thread::scope(|scope| {
        for stranger in 0..AT_ONCE {
            let own = rng.fork();
            let count = (frames + stranger) / AT_ONCE;
            scope.spawn(move || send(count, own));
        }
    });
}

/// Strangers who do not come to the end of a handshake: greetings of TLS that are damaged, frames in plain text as those of real nodes, garbage.
pub fn before_tls(targets: &[String], frames: u64, plain: &[Vec<u8>], rng: &mut Rng) -> Heard {
    let heard = Heard::default();
    let caller = Caller::new(&tls::NodeKey::generate().expect("a key"));
    let (hello, other) = (caller.client_hello(), caller.client_hello());
    share(frames, rng, |count, mut rng| {
        let mut held: VecDeque<TcpStream> = VecDeque::new();
        for _ in 0..count {
            let bytes = match rng.below(10) {
                0..6 => damage(&hello, &other, &mut rng),
                6 | 7 => {
                    let message = framed(rng.pick(plain).as_slice());
                    let rest = framed(rng.pick(plain).as_slice());
                    if rng.chance(1, 2) { [message, rest].concat() } else { damage(&message, &rest, &mut rng) }
                }
                _ => garbage(&mut rng),
            };
            let target = rng.pick(targets);
            let mut socket = connect(target).expect("it listens");
            // The node may have closed it at the first byte.
            let _ = socket.write_all(&bytes);
            if rng.chance(1, 16) {
                held.push_back(socket);
                held.drain(..held.len().saturating_sub(HELD));
                continue;
            }
            let _ = socket.shutdown(Shutdown::Write);
            expect_nothing(&mut socket, &bytes, &heard);
        }
    });
    heard
}

fn expect_nothing(socket: &mut TcpStream, sent: &[u8], heard: &Heard) {
    let mut bytes = Vec::new();
    if let Err(error) = socket.read_to_end(&mut bytes) {
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "the node waits for a stranger for ever: {sent:?}");
    }
    let is_of_tls = bytes.first().is_none_or(|first| TLS_SAYS.contains(first));
    let text = String::from_utf8_lossy(&bytes);
    // A refusal of a greeting, or one of a node that wants to join.
    assert!(is_of_tls || text.trim_end().ends_with(TOLD) && text.len() < 120, "{sent:?} was answered {text:?}");
    heard.note(&bytes);
}

/// Strangers with a key of their own who come to the end of TLS, and have no proof that they know the secret. The test knows it, so that some come as near as can be.
pub fn before_the_proof(targets: &[String], frames: u64, plain: &[Vec<u8>], secret: &[u8; 32], rng: &mut Rng) {
    let caller = Caller::new(&tls::NodeKey::generate().expect("a key"));
    share(frames, rng, |count, mut rng| {
        let mut earlier = [0; 32];
        for _ in 0..count {
            let target = rng.pick(targets);
            let is_changed = rng.chance(1, 8);
            let call = caller.call_changing(target, |last| {
                if is_changed {
                    *last = damage(last, &[], &mut rng);
                }
            });
            // A node that has much to do may have closed it before.
            let Ok(mut call) = call else { continue };
            let proof = no_proof(&call, secret, earlier, plain, &mut rng);
            earlier = call.proof(secret);
            let _ = call.send(&proof);
            let heard = call.finish();
            assert!(heard.is_empty(), "{proof:?} in place of a proof was answered {heard:?}");
        }
    });
}

/// Bytes that are no proof of this session.
fn no_proof(call: &Call, secret: &[u8; 32], earlier: [u8; 32], plain: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
    let right = call.proof(secret);
    let mut proof = match rng.below(8) {
        // Of somebody who knows another secret.
        0 => call.proof(&[7; 32]).to_vec(),
        // The right one with a bit changed, or cut.
        1 | 2 => {
            let mut proof = right;
            proof[rng.below(32) as usize] ^= 1 << rng.below(8);
            proof.to_vec()
        }
        3 => right[..rng.below(32) as usize].to_vec(),
        // The proof of the other side, of another key, of an earlier session.
        4 => call.proof_of(secret, false, &[9; 32]).to_vec(),
        5 => earlier.to_vec(),
        // Frames as if there were no proof; and garbage.
        6 => framed(rng.pick(plain).as_slice()),
        _ => random(*rng.pick(&[1, 31, 32, 33, 5000, 70_000]), rng),
    };
    if proof.starts_with(&right) {
        proof[0] ^= 1;
    }
    // With what would follow on a right one.
    if proof.len() >= 32 && rng.chance(1, 2) {
        proof.extend(framed(rng.pick(plain).as_slice()));
    }
    proof
}
