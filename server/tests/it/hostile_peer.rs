//! A hostile peer against a cluster of real nodes: many damaged frames before and behind the handshake, while clients are served. It tries what everybody could do who
//! reached a node's port for peers before links were under TLS (docs/decisions/2026-11-28-peer-links.md).
//!
//! 1. *Strangers before TLS*: damaged greetings of TLS, frames in plain text, garbage.
//! 2. *Strangers behind TLS* with a key of their own: wrong proofs, frames in place of a proof.
//! 3. *A member that has gone wrong*: one node is killed, and somebody speaks with its key and the secret.
//!
//! `DICTUM_HOSTILE_FRAMES=100000` for the long run; `DICTUM_HOSTILE_SEED` draws the same damage again. (Keys and sessions of TLS are always new, and what nodes say
//! is theirs; so a run is not the same byte for byte.)

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests of real processes have clocks, threads and files"
)]

mod damage;
mod member;
mod messages;
mod one_member;
mod speech;
mod strangers;
mod witness;

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use base::{Ballot, NodeId, PartitionId, Position, Rng};
use node::fuzzing::fuzz_peer_message;
use rustix::process::Signal;
use tempfile::{TempDir, tempdir};
use wire::Value;

use crate::common::{Dev, NodeInfo, dictum, eventually, output, signal, wait_for, wait_for_end};
use member::{Filter, Member, greetings, join_request, secret_in, speaks};
use messages::{HOSTILE_KEY, News, PAXOS, PING, Ping, all_kinds};
use witness::{Clients, Watched, expect_kept};

const FRAMES: u64 = 3000;
const SEED: u64 = 36;
/// Of all frames so many in a hundred are sent before TLS, before the proof and as greetings; the rest is what a member says.
const BEFORE_TLS: u64 = 40;
const BEFORE_THE_PROOF: u64 = 5;
const GREETINGS: u64 = 3;
/// Nobody waits longer for an answer: far more than it should be, even on a busy machine.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// By no more does a node's memory grow.
const GROWTH_BYTES_MAX: u64 = 256 << 20;

fn setting(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// A cluster under attack.
struct Scene {
    frames: u64,
    seed: u64,
    rng: Rng,
    clients: Clients,
    watched: Watched,
    secret: [u8; 32],
    dev: Dev,
    folder: TempDir,
}

impl Scene {
    fn begin() -> Scene {
        let (frames, seed) = (setting("DICTUM_HOSTILE_FRAMES", FRAMES), setting("DICTUM_HOSTILE_SEED", SEED));
        println!("DICTUM_HOSTILE_FRAMES={frames} DICTUM_HOSTILE_SEED={seed}");
        let folder = tempdir().expect("a temporary folder");
        let dir = folder.path().join("dev");
        let dev = Dev::start(&dir, &[]);
        let watched = Watched::begin(&dev.nodes, &dir);
        let secret = secret_in(&dir.join("cluster.secret"));
        // The last node is to die, and is not asked.
        let clients = Clients::start(&dev.nodes[..2]);
        Scene { frames, seed, rng: Rng::new(seed), clients, watched, secret, dev, folder }
    }

    /// Those that live to the end.
    fn living(&self) -> &[NodeInfo] {
        &self.dev.nodes[..2]
    }

    fn part(&self, percent: u64) -> u64 {
        self.frames * percent / 100
    }

    fn names(&self) -> Vec<&str> {
        self.dev.nodes.iter().map(|node| node.name.as_str()).collect()
    }

    /// Kills the last node, once the cluster knows all by their keys, and speaks in its name.
    fn become_member(&mut self) -> Member {
        wait_for("the keys of all nodes", || {
            let listed = output(dictum(&["node", "list", "--json", "--at", &self.dev.nodes[0].resp]));
            let nodes: serde_json::Value = serde_json::from_slice(&listed.stdout).ok()?;
            let has_key = |node: &serde_json::Value| node["keys"].as_array().is_some_and(|keys| !keys.is_empty());
            nodes.as_array()?.iter().all(has_key).then_some(())
        });
        let last = &self.dev.nodes[2];
        signal(last.pid, Signal::KILL);
        assert!(wait_for_end(last.pid));
        // There is a leader, or another one now.
        for node in self.living() {
            eventually(&node.resp, &["SET", "beside", "the dead"]);
        }
        self.watched = Watched::begin(self.living(), &self.folder.path().join("dev"));
        Member::new(last, NodeId(2), &self.names(), self.secret)
    }

    /// All is well after a phase: the same processes, and clients that were served.
    fn expect_served(&self, phase: &str, begun: Instant) {
        let (took, served, growth) = (begun.elapsed(), self.clients.served(), self.watched.growth());
        println!(
            "{phase}: {took:.1?}; {served}; memory +{} KiB, logs {} KiB",
            growth >> 10,
            self.watched.logged() >> 10
        );
        self.watched.expect_well();
        assert!(served.answers > 0 && served.longest < LONGEST_WAIT, "{phase}: {served}");
        assert!(growth < GROWTH_BYTES_MAX, "{phase}: a node's memory has grown by {growth} bytes");
    }

    /// Ends the clients; what they were told is kept.
    fn expect_kept(&mut self, nodes: usize) {
        let kept: BTreeMap<String, String> = self.clients.stop();
        for node in &self.dev.nodes[..nodes] {
            expect_kept(node, &kept);
        }
    }

    /// No node has a key that frames of strangers would write.
    fn expect_unwritten(&self) {
        for node in &self.dev.nodes {
            assert_eq!(eventually(&node.resp, &["GET", HOSTILE_KEY]), Value::Null, "at {}", node.name);
        }
    }

    /// A member sends so many damaged frames to each living node.
    fn damaged_frames(&mut self, member: &Member, frames: u64, filter: Filter<'_>) {
        let rngs: Vec<Rng> = std::iter::repeat_with(|| self.rng.fork()).take(2).collect();
        let scene = &*self;
        let is_well = || scene.watched.ended().is_none();
        thread::scope(|scope| {
            for (node, mut rng) in scene.living().iter().zip(rngs) {
                let is_well = &is_well;
                scope.spawn(move || {
                    let sent = speaks(member, &node.peer, frames, filter, is_well, &mut rng);
                    println!(
                        "to {}: {} frames on {} links, {} of them messages",
                        node.name, sent.frames, sent.links, sent.readable
                    );
                    if !is_well() {
                        let file = env::temp_dir().join(format!("dictum-hostile-{}-{}.frames", scene.seed, node.name));
                        let hex = |frame: &Vec<u8>| frame.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
                        let lines: Vec<String> = sent.last.iter().map(hex).collect();
                        fs::write(&file, lines.join("\n")).expect("there is room");
                        println!("the last frames to {} are in {}", node.name, file.display());
                    }
                });
            }
        });
    }
}

/// First frames in plain text: what real nodes say, and any message of a member.
fn plain_frames(scene: &mut Scene) -> Vec<Vec<u8>> {
    let promised = Ballot { round: 1, node: NodeId(0) };
    let about = News { partition: PartitionId::default(), promised, decided: Position(9) };
    let mut frames = all_kinds(about, NodeId(2), &Ping::default(), &mut scene.rng);
    assert!(frames.iter().all(|frame| fuzz_peer_message(frame)), "they are messages");
    frames.push(Ping::default().payload());
    assert!(Ping::read(&frames[frames.len() - 1]).is_some(), "it is read as it is written");
    for (id, node) in (0..).map(NodeId).zip(&scene.dev.nodes) {
        let greeting = Member::new(node, id, &scene.names(), scene.secret).greeting();
        // As often as all others together, since nothing else is a first frame.
        frames.extend(vec![greeting; 10]);
    }
    let mut request = Vec::new();
    join_request(one_member::FORGED, &mut scene.rng).encode(&mut request);
    frames.extend(vec![request; 10]);
    frames
}

/// True if a member that otherwise keeps to the protocol may send this damaged message. The others do harm today, and `one_member` tries each kind:
/// replicas bear members that crash, and not members that lie about entries; a node believes a member about another's folder.
fn is_borne(payload: &[u8]) -> bool {
    match payload.first() {
        _ if !fuzz_peer_message(payload) => true,
        Some(&PAXOS) => false,
        Some(&PING) => Ping::read(payload).is_some_and(|ping| ping.lives.is_empty()),
        _ => true,
    }
}

#[test]
fn strangers_and_a_member_that_has_gone_wrong_harm_nobody() {
    let mut scene = Scene::begin();
    let plain = plain_frames(&mut scene);
    let targets: Vec<String> = scene.dev.nodes.iter().map(|node| node.peer.clone()).collect();

    let begun = Instant::now();
    let heard = strangers::before_tls(&targets, scene.part(BEFORE_TLS), &plain, &mut scene.rng.fork());
    println!("{heard:?}");
    scene.expect_served("before TLS", begun);

    let begun = Instant::now();
    let frames = scene.part(BEFORE_THE_PROOF);
    strangers::before_the_proof(&targets, frames, &plain, &scene.secret, &mut scene.rng.fork());
    scene.expect_served("before the proof", begun);
    scene.expect_kept(3);
    scene.expect_unwritten();

    let member = scene.become_member();
    scene.clients = Clients::start(scene.living());
    let begun = Instant::now();
    greetings(&member, &targets[..2], scene.part(GREETINGS), &mut scene.rng.fork());
    scene.expect_served("greetings of a member", begun);

    let begun = Instant::now();
    let frames = scene.part(100 - BEFORE_TLS - BEFORE_THE_PROOF - GREETINGS) / 2;
    scene.damaged_frames(&member, frames, &is_borne);
    scene.expect_served("messages of a member", begun);
    scene.expect_kept(2);
    for node in scene.living() {
        for word in ["this node was removed from the cluster", "the cluster has gone on without this node"] {
            // It waits for a moment whether others say so, too.
            let line = format!("n3 says that {word}");
            wait_for("a line about it", || scene.watched.log_of(node).contains(&line).then_some(()));
        }
    }
}
