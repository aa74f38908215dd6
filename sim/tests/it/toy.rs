//! The simulator with something small behind the door: a server that stands alone and logs every command.
//!
//! On one node it is right, and the simulator must find nothing; every way of being wrong that is built into it must
//! be found. So the alarm is tested without the shipping node.

use std::collections::BTreeMap;

use base::{Ballot, NodeId, Now, PartitionId, Position, Revision, Rng, WallTime};
use bytes::Bytes;
use data::{Reply, Tree};
use node::{Config, ConnectionId, Input, JournalWrite, Outbox, Planted, Progress, Recovered};
use serde::{Deserialize, Serialize};
use sim::chaos::{Fault, Options};
use sim::door::Door;
use sim::run::{Outcome, run_door};
use wire::{Protocol, ReplyWriter, Request, RequestLimits, RequestParser};

#[derive(Serialize, Deserialize)]
struct Entry {
    time: u64,
    seed: u64,
    once: Option<Vec<u8>>,
    watched: Vec<(Vec<u8>, u64)>,
    transaction: bool,
    commands: Vec<Vec<Vec<u8>>>,
}

#[derive(Default)]
struct Session {
    parser: Option<RequestParser>,
    resp3: bool,
    queued: Option<Vec<Vec<Vec<u8>>>>,
    watched: Vec<(Vec<u8>, u64)>,
}

/// A server on its own.
struct Toy {
    tree: Tree,
    entries: u64,
    persisted: u64,
    sessions: BTreeMap<ConnectionId, Session>,
    /// Replies that wait for the payload with this number.
    waiting: Vec<(u64, ConnectionId, Vec<u8>)>,
    rng: Rng,
    planted: Option<Planted>,
}

fn write(writer: &mut ReplyWriter<'_>, reply: &Reply) {
    match reply {
        Reply::Ok => writer.ok(),
        Reply::Nil => writer.null(),
        Reply::NilArray => writer.null_array(),
        Reply::Integer(number) => writer.integer(*number),
        Reply::Bulk(bytes) => writer.bulk(bytes),
        Reply::Error(failure) => writer.error(&failure.to_string()),
        Reply::Array(items) => {
            writer.array(items.len());
            items.iter().for_each(|item| write(writer, item));
        }
        other => panic!("the workload asks for nothing that answers {other:?}"),
    }
}

impl Toy {
    fn apply(&mut self, entry: &Entry) -> Reply {
        let (time, seed) = (WallTime(entry.time), entry.seed);
        let context = data::EntryContext { time, seed, ..data::EntryContext::default() };
        data::expire_due(&mut self.tree, &context, 1000);
        let commands: Vec<Vec<&[u8]>> =
            entry.commands.iter().map(|words| words.iter().map(Vec::as_slice).collect()).collect();
        match (&entry.once, entry.transaction) {
            (Some(_), _) if self.planted == Some(Planted::ApplyRetryTwice) => {
                data::apply(&mut self.tree, &context, &commands[0]).reply
            }
            (Some(id), _) => data::apply_once(&mut self.tree, &context, id, &commands[0]).reply,
            (None, true) => {
                let watched: Vec<(&[u8], Revision)> =
                    entry.watched.iter().map(|(key, revision)| (key.as_slice(), Revision(*revision))).collect();
                let commands: Vec<&[&[u8]]> = commands.iter().map(Vec::as_slice).collect();
                data::apply_transaction(&mut self.tree, &context, &watched, &commands).reply
            }
            (None, false) => data::apply(&mut self.tree, &context, &commands[0]).reply,
        }
    }

    fn log(&mut self, now: Now, session: &mut Session, connection: ConnectionId, mut entry: Entry, out: &mut Outbox) {
        entry.time = now.wall.0.max(self.tree.time().0);
        entry.seed = self.rng.next_u64();
        self.entries += 1;
        let payload = Bytes::from(serde_json::to_vec(&entry).expect("plain data"));
        out.journal.push(JournalWrite { number: self.entries, payload });
        let reply = self.apply(&entry);
        let mut bytes = Vec::new();
        let protocol = if session.resp3 { Protocol::Resp3 } else { Protocol::Resp2 };
        write(&mut ReplyWriter::new(&mut bytes, protocol), &reply);
        let after = if self.planted == Some(Planted::AnswerBeforeFsync) { 0 } else { self.entries };
        self.waiting.push((after, connection, bytes));
    }

    fn on_command(&mut self, now: Now, session: &mut Session, on: ConnectionId, words: Vec<Vec<u8>>, out: &mut Outbox) {
        let name = String::from_utf8_lossy(&words[0]).to_uppercase();
        let entry = |commands| Entry { time: 0, seed: 0, once: None, watched: vec![], transaction: false, commands };
        let mut simple = |text: &str| self.waiting.push((self.entries, on, format!("+{text}\r\n").into_bytes()));
        match (name.as_str(), &mut session.queued) {
            ("EXEC", queued @ Some(_)) => {
                let commands = queued.take().unwrap_or_default();
                let watched = std::mem::take(&mut session.watched);
                self.log(now, session, on, Entry { watched, transaction: true, ..entry(commands) }, out);
            }
            (_, Some(queued)) => {
                queued.push(words);
                simple("QUEUED");
            }
            ("MULTI", queued) => {
                *queued = Some(Vec::new());
                simple("OK");
            }
            ("WATCH", _) => {
                simple("OK");
                let revision = |key: &Vec<u8>| (key.clone(), self.tree.watch_revision(key).0);
                session.watched.extend(words[1..].iter().map(revision));
            }
            ("UNWATCH", _) => {
                session.watched.clear();
                simple("OK");
            }
            ("HELLO", _) => {
                session.resp3 = true;
                simple("OK");
            }
            ("DICTUM.ONCE", _) => {
                let once = Some(words[1].clone());
                self.log(now, session, on, Entry { once, ..entry(vec![words[2..].to_vec()]) }, out);
            }
            _ => self.log(now, session, on, entry(vec![words]), out),
        }
    }
}

impl Door for Toy {
    const HAS_BUCKETS: bool = false;

    fn spaces(&self) -> Vec<base::ordered::Space> {
        Vec::new()
    }

    fn start(config: Config, recovered: Recovered, now: Now, _: &mut Outbox) -> Result<Toy, String> {
        let mut toy = Toy {
            tree: Tree::new(),
            entries: recovered.journal.next_number - 1,
            persisted: recovered.journal.next_number - 1,
            sessions: BTreeMap::new(),
            waiting: Vec::new(),
            rng: Rng::new(config.seed),
            planted: config.planted,
        };
        if !recovered.journal.damage.is_empty() {
            return Err("the journal is damaged".to_string());
        }
        let skipped = usize::from(toy.planted == Some(Planted::DamageIsTheEnd));
        let count = recovered.journal.payloads.len();
        for (_, payload) in &recovered.journal.payloads[..count.saturating_sub(skipped)] {
            toy.apply(&serde_json::from_slice(payload).map_err(|error| error.to_string())?);
        }
        let _ = now;
        Ok(toy)
    }

    fn step(&mut self, now: Now, input: Input<'_>, out: &mut Outbox) {
        match input {
            Input::Opened { connection, .. } => {
                let parser = Some(RequestParser::new(RequestLimits::default()));
                self.sessions.insert(connection, Session { parser, ..Session::default() });
            }
            Input::Ended { connection, .. } => out.close.push(connection),
            Input::Closed { connection } => {
                self.sessions.remove(&connection);
            }
            Input::Received { connection, bytes } => {
                let Some(mut session) = self.sessions.remove(&connection) else { return };
                let mut parser = session.parser.take().expect("it is put back below");
                let mut input = bytes;
                while let Ok(Some(Request::Command(arguments))) = parser.next(&mut input) {
                    let words = arguments.iter().map(<[u8]>::to_vec).collect();
                    self.on_command(now, &mut session, connection, words, out);
                }
                session.parser = Some(parser);
                self.sessions.insert(connection, session);
            }
            Input::Persisted { number } => self.persisted = number,
            Input::Stop => out.stopped = true,
            Input::EndTurn => {
                let (persisted, sessions) = (self.persisted, &self.sessions);
                let mut replies: BTreeMap<ConnectionId, Vec<u8>> = BTreeMap::new();
                self.waiting.retain(|(after, connection, bytes)| {
                    if *after <= persisted && sessions.contains_key(connection) {
                        replies.entry(*connection).or_default().extend_from_slice(bytes);
                    }
                    *after > persisted
                });
                out.clients.extend(replies);
            }
            _ => {}
        }
    }

    fn partitions(&self) -> Vec<PartitionId> {
        vec![PartitionId::default()]
    }

    fn leader(&self, _: PartitionId) -> Option<(NodeId, Ballot)> {
        Some((NodeId(0), Ballot { round: 1, node: NodeId(0) }))
    }

    fn progress(&self, _: PartitionId) -> Option<Progress> {
        let at = Position(self.persisted);
        Some(Progress {
            decided: at,
            persisted: at,
            applied: at,
            first: Position(1),
            lost: false,
            votes: true,
            on_all: Default::default(),
            all: Vec::new(),
            durable: true,
        })
    }

    fn state_digest(&self, _: PartitionId) -> Option<u64> {
        Some(self.persisted)
    }

    fn decided_entry_digest(&self, _: PartitionId, _: Position) -> Option<u64> {
        None
    }

    fn take_probes(&mut self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

fn options(seed: u64, planted: Option<Planted>) -> Options {
    Options { seed, nodes: Some(1), chaos_ms: Some(8_000), planted, without: vec![Fault::BitRot], ..Options::default() }
}

fn run(seed: u64, planted: Option<Planted>) -> Outcome {
    run_door::<Toy>(&options(seed, planted), false)
}

#[test]
fn a_server_that_stands_alone_and_is_right_is_found_to_be_right() {
    let (mut acknowledged, mut injected) = (0, 0);
    for seed in 0..30 {
        let outcome = run(seed, None);
        assert_eq!(outcome.violations, [], "seed {seed}");
        acknowledged += outcome.acknowledged;
        injected += outcome.injected.values().sum::<u64>();
    }
    assert!(acknowledged > 5_000 && injected > 50, "{acknowledged} {injected}");
}

#[test]
fn runs_are_deterministic() {
    for seed in [3, 8] {
        let (first, second) = (run(seed, None), run_door::<Toy>(&options(seed, None), true));
        assert_eq!((first.digest, first.events), (second.digest, second.events));
        assert_eq!(second.lines.len() as u64, second.events);
    }
    assert_ne!(run(3, None).digest, run(4, None).digest);
}

#[test]
fn every_way_of_being_wrong_is_found() {
    for (planted, within) in
        [(Planted::AnswerBeforeFsync, 60), (Planted::ApplyRetryTwice, 60), (Planted::DamageIsTheEnd, 20)]
    {
        let found = (0..within).find(|&seed| !run(seed, Some(planted)).violations.is_empty());
        assert!(found.is_some(), "{planted:?} is not found within {within} seeds");
    }
}

#[test]
fn servers_that_do_not_talk_to_each_other_are_found() {
    let found = (0..5).find(|&seed| {
        let options = Options { nodes: Some(3), ..options(seed, None) };
        run_door::<Toy>(&options, false).violations.iter().any(|found| found.property == "linearizability")
    });
    assert!(found.is_some());
}
