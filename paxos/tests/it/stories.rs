//! The protocol as stories. Each file in `stories/` is prose with commands (`> …`) and, indented below each command, what
//! happened. `DICTUM_REWRITE=1 cargo test -p paxos --test it stories::` writes what happens into the files; read the
//! difference as prose before you commit it.
//!
//! # Commands
//! | command | what it does |
//! |---|---|
//! | `cluster 3 [new] [prefer n2]` | three replicas that trust each other; with `new` their folders are empty |
//! | `cluster 3 learners 1` | the same, and one more node that has nothing yet and no vote |
//! | `want n1 n2 n4` | every owner wants these to vote, and all others to learn |
//! | `elect n1` | lets time pass until n1 leads and everybody knows what is decided |
//! | `tick 50ms [n1]` | lets time pass (for n1 only); nothing is delivered |
//! | `run 200ms` | lets time pass in steps of 10 ms and delivers everything |
//! | `deliver [n1->n2] [Kind]` | delivers what is on the way now (`*` for any node); not what that gives rise to |
//! | `deliver all` | delivers until nothing is on the way |
//! | `drop`, `repeat`, `delay` with the same choice | loses messages, doubles them, puts them aside; `arrive` brings those back |
//! | `propose n1 "x" …` | proposes in one turn |
//! | `read n1` | a linearizable read asks for confirmation |
//! | `disk n2 slow`, `disk n2 fast` | a slow disk finishes only by `fsync n2`; a fast one at once |
//! | `crash n1`, `restart n1`, `wipe n1` | a crash loses what is not on disk; `wipe` empties the folder of a node that is down |
//! | `crash n1 torn` | the crash hits the disk in the middle of a write |
//! | `damage n1 2..3`, `damage n1 tail` | entries cannot be read any more; the end of the journal cannot |
//! | `suspect n1 [n2]`, `trust n1 [n2]` | the failure detectors change their minds: n1 and all others, or n1 and n2 |
//! | `cut n1->n2`, `mend` | a link that loses everything; all links work again |
//! | `snapshot n1 keep 1`, `ship n1->n3` | n1 snapshots what is decided and keeps one entry; n3 gets n1's snapshot |
//! | `hand over n1` | n1 shall give the leadership away |
//! | `show` | every replica in one line |
//! | `quietly …` | any command, without its transcript |

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::Position;
use bytes::Bytes;
use paxos::Input;
use paxos::replica::PROBES;

use crate::harness::disk::Disk;
use crate::harness::words::{message_words, node_name, replica_words};
use crate::harness::{Envelope, World};

/// One story under way.
struct Stage {
    world: World,
    aside: VecDeque<Envelope>,
    /// How many messages were on the way before the command that is performed, and still are.
    known: usize,
}

impl Stage {
    fn perform(&mut self, command: &str) -> Result<(), String> {
        let words: Vec<&str> = command.split_whitespace().collect();
        let Some((verb, rest)) = words.split_first() else { return Err("an empty command".to_owned()) };
        match (*verb, rest) {
            ("quietly", _) => {
                self.world.talks = false;
                let outcome = self.perform(command.trim_start_matches("quietly").trim());
                self.world.talks = true;
                outcome?;
            }
            ("cluster", [count, options @ ..]) => self.cluster(count, options)?,
            ("elect", [node]) => {
                let node = self.node(node)?;
                self.world.elect(node);
            }
            ("tick", [span]) => self.world.tick(duration(span)?),
            ("tick", [span, node]) => {
                let node = self.node(node)?;
                self.world.tick_only(node, duration(span)?);
            }
            ("run", [span]) => {
                self.known = 0;
                self.world.run(duration(span)?);
            }
            ("deliver", ["all"]) => {
                self.known = 0;
                self.world.deliver_all();
            }
            ("deliver", choice) => {
                for envelope in self.choose(choice)? {
                    self.world.deliver(envelope);
                }
            }
            ("drop", choice) => {
                for envelope in self.choose(choice)? {
                    self.world.say(format!("lost: {}", envelope_words(&envelope)));
                }
            }
            ("repeat", choice) => {
                let chosen = self.choose(choice)?;
                self.world.network.extend(chosen.iter().cloned().chain(chosen.iter().cloned()));
            }
            ("delay", choice) => {
                let chosen = self.choose(choice)?;
                for envelope in &chosen {
                    self.world.say(format!("delayed: {}", envelope_words(envelope)));
                }
                self.aside.extend(chosen);
            }
            ("arrive", []) => {
                for envelope in std::mem::take(&mut self.aside) {
                    self.world.deliver(envelope);
                }
            }
            ("propose", [node, ..]) => {
                let node = self.node(node)?;
                let payloads = command.split('"').skip(1).step_by(2);
                let inputs = payloads.map(|it| Input::Propose { payload: Bytes::from(it.to_owned()) }).collect();
                if !self.world.replica(node).can_propose() {
                    self.world.say(format!("{} takes no proposals", node_name(node)));
                }
                self.world.turn(node, inputs);
            }
            ("read", [node]) => self.read(node)?,
            ("fsync", [node]) => {
                let node = self.node(node)?;
                self.world.sync(node);
            }
            ("disk", [node, speed @ ("slow" | "fast")]) => {
                let node = self.node(node)?;
                self.world.nodes[node].fast = *speed == "fast";
                if *speed == "fast" {
                    self.world.sync(node);
                }
            }
            ("crash", [node, torn @ ..]) => self.crash(node, torn == ["torn"])?,
            ("restart", [node]) => self.restart(node)?,
            ("wipe", [node]) => {
                let node = self.node(node)?;
                let incarnation = self.world.nodes[node].disk.incarnation + 6;
                self.world.nodes[node].disk = Disk::empty(incarnation);
                self.world.disks_whole = false;
                self.world.say(format!("{}'s folder is empty now", node_name(node)));
            }
            ("damage", [node, "tail"]) => {
                let node = self.node(node)?;
                self.world.nodes[node].disk.durable.pop();
                self.world.nodes[node].disk.unprovable = true;
                self.world.disks_whole = false;
            }
            ("damage", [node, range]) => {
                let node = self.node(node)?;
                let (from, until) = range.split_once("..").ok_or("a range is from..until")?;
                let number = |text: &str| text.parse().map(Position).map_err(|_| "not a position".to_owned());
                self.world.nodes[node].disk.damaged = Some((number(from)?, number(until)?));
                self.world.disks_whole = false;
            }
            ("suspect" | "trust", [node, others @ ..]) => {
                let node = self.node(node)?;
                let others = match others {
                    [other] => vec![self.node(other)?],
                    _ => (0..self.world.nodes.len()).filter(|other| *other != node).collect(),
                };
                for other in others {
                    self.world.trust(node, other, *verb == "trust");
                }
            }
            ("cut", [link]) => {
                let (from, to) = self.link(link)?;
                for from in from {
                    for to in to.iter().filter(|to| **to != from) {
                        self.world.cuts.insert((from, *to));
                    }
                }
            }
            ("mend", []) => self.world.cuts.clear(),
            ("snapshot", [node, "keep", keep]) => {
                let node = self.node(node)?;
                let keep = keep.parse().map_err(|_| "keep how many?".to_owned())?;
                let position = self.world.replica(node).decided();
                let ballot = self.world.replica(node).log().ballot_at(position).ok_or("its ballot is unknown")?;
                self.world.nodes[node].disk.snapshot = Some((position, ballot));
                self.world.nodes[node].disk.members = self.world.members_at(position);
                self.world.turn(node, vec![Input::SnapshotTaken { position, keep }]);
            }
            ("ship", [link]) => self.ship(link)?,
            ("hand", ["over", node]) => {
                let node = self.node(node)?;
                self.world.turn(node, vec![Input::HandOver]);
            }
            ("want", nodes) => {
                let nodes: Result<Vec<usize>, String> = nodes.iter().map(|node| self.node(node)).collect();
                self.world.want(&nodes?);
            }
            ("leave", [node]) => {
                let node = self.node(node)?;
                self.world.turn(node, vec![Input::Leave]);
            }
            ("show", []) => self.show(),
            _ => return Err(format!("no such command: {command}")),
        }
        Ok(())
    }

    fn cluster(&mut self, count: &str, options: &[&str]) -> Result<(), String> {
        let count: usize = count.parse().map_err(|_| "how many replicas?".to_owned())?;
        let learners = options.iter().position(|word| *word == "learners").and_then(|place| options.get(place + 1));
        let learners = learners.map_or(Ok(0), |word| word.parse()).map_err(|_| "how many learners?".to_owned())?;
        self.world = if options.contains(&"new") {
            let mut world = World::new(count, 7);
            world.network.clear();
            world
        } else {
            World::with_learners(count, learners, 7)
        };
        if let Some(place) = options.iter().position(|word| *word == "prefer") {
            // The preference is a matter of configuration, so all are started anew.
            self.world.preferred = self.node(options.get(place + 1).ok_or("prefer whom?")?)?;
            for index in 0..count {
                self.world.crash(index);
            }
            self.world.network.clear();
            (0..count).for_each(|index| self.world.start(index));
            (0..count).for_each(|index| self.world.detect(index));
        }
        if options.contains(&"new") {
            // What they asked before the others were there is lost; they ask again.
            self.world.network.clear();
        }
        self.world.talks = true;
        Ok(())
    }

    fn read(&mut self, node: &str) -> Result<(), String> {
        let node = self.node(node)?;
        let name = node_name(node);
        let replica = self.world.nodes[node].replica.as_mut().ok_or("it is down")?;
        match (replica.request_confirmation(), replica.opening()) {
            (Some(round), Some(opening)) => {
                let position = replica.decided().max(opening);
                self.world.say(format!("a read of the state at {position} waits at {name} for round {round}"));
                self.world.turn(node, Vec::new());
            }
            _ => self.world.say(format!("{name} does not lead and confirms nothing")),
        }
        Ok(())
    }

    fn crash(&mut self, node: &str, torn: bool) -> Result<(), String> {
        let node = self.node(node)?;
        let name = node_name(node);
        let unsynced: Vec<u64> = self.world.nodes[node].disk.pending.iter().map(|batch| batch.token.0).collect();
        self.world.crash(node);
        if torn {
            self.world.say(format!("{name}'s journal ends in the middle of #{}", unsynced.first().unwrap_or(&0)));
        } else if let (Some(first), Some(last)) = (unsynced.first(), unsynced.last()) {
            let which = if first == last { format!("#{first}") } else { format!("#{first} to #{last}") };
            self.world.say(format!("{name} never got {which} to its disk"));
        }
        Ok(())
    }

    fn restart(&mut self, node: &str) -> Result<(), String> {
        let node = self.node(node)?;
        self.world.start(node);
        if self.world.nodes[node].fast {
            self.world.sync(node);
        }
        let words = replica_words(self.world.replica(node));
        self.world.say(format!("{} is back: {words}", node_name(node)));
        self.world.detect(node);
        Ok(())
    }

    fn ship(&mut self, link: &str) -> Result<(), String> {
        let (from, to) = self.link(link)?;
        let ([from], [to]) = (&from[..], &to[..]) else { return Err("from one node to one".to_owned()) };
        let (position, ballot) = self.world.nodes[*from].disk.snapshot.ok_or("it has no snapshot")?;
        self.world.nodes[*from].owes.remove(to);
        let members = self.world.nodes[*from].disk.members.clone();
        self.world.nodes[*to].disk.snapshot = Some((position, ballot));
        self.world.nodes[*to].disk.members = members.clone();
        self.world.say(format!("{}→{} the snapshot up to {position}", node_name(*from), node_name(*to)));
        self.world.turn(*to, vec![Input::SnapshotInstalled { position, ballot, members }]);
        Ok(())
    }

    fn show(&mut self) {
        for index in 0..self.world.nodes.len() {
            let words = match &self.world.nodes[index].replica {
                Some(replica) => replica_words(replica),
                None => "down".to_owned(),
            };
            self.world.say(format!("{} {words}", node_name(index)));
        }
    }

    fn node(&self, word: &str) -> Result<usize, String> {
        let number: usize = word.trim_start_matches('n').parse().map_err(|_| format!("not a node: {word}"))?;
        if (1..=self.world.nodes.len()).contains(&number) { Ok(number - 1) } else { Err(format!("no node {word}")) }
    }

    /// `n1->n2`, `*->n2`, `n1->*`.
    fn link(&self, word: &str) -> Result<(Vec<usize>, Vec<usize>), String> {
        let (from, to) = word.split_once("->").ok_or(format!("not a link: {word}"))?;
        let nodes = |word: &str| match word {
            "*" => Ok((0..self.world.nodes.len()).collect()),
            word => self.node(word).map(|node| vec![node]),
        };
        Ok((nodes(from)?, nodes(to)?))
    }

    /// Takes the messages that are meant out of the network.
    fn choose(&mut self, choice: &[&str]) -> Result<Vec<Envelope>, String> {
        let (mut link, mut kind) = (None, None);
        for word in choice {
            if word.contains("->") {
                link = Some(self.link(word)?);
            } else {
                kind = Some(*word);
            }
        }
        let meant = |envelope: &Envelope| {
            link.as_ref().is_none_or(|(from, to)| from.contains(&envelope.from) && to.contains(&envelope.to))
                && kind.is_none_or(|kind| {
                    message_words(&envelope.message).split([' ', ':']).next().is_some_and(|name| name == kind)
                })
        };
        let (chosen, rest): (Vec<Envelope>, Vec<Envelope>) = self.world.network.drain(..).partition(meant);
        self.known = rest.len();
        self.world.network.extend(rest);
        if chosen.is_empty() { Err(format!("no such message is on the way: {choice:?}")) } else { Ok(chosen) }
    }
}

fn envelope_words(envelope: &Envelope) -> String {
    format!("{}→{} {}", node_name(envelope.from), node_name(envelope.to), message_words(&envelope.message))
}

fn duration(word: &str) -> Result<Duration, String> {
    let milliseconds = word.strip_suffix("ms").and_then(|number| number.parse().ok());
    milliseconds.map(Duration::from_millis).ok_or(format!("not a duration in ms: {word}"))
}

/// The story as it happens: prose and commands as they are, outputs anew.
fn tell(text: &str, probes: &mut BTreeSet<&'static str>) -> String {
    let mut stage = Stage { world: World::founded(1, 0), aside: VecDeque::new(), known: 0 };
    let mut told = String::new();
    for line in text.lines() {
        if line.starts_with("    ") {
            continue;
        }
        told.push_str(line);
        told.push('\n');
        let Some(command) = line.strip_prefix("> ") else { continue };
        stage.known = stage.world.network.len();
        if let Err(error) = stage.perform(command) {
            stage.world.lines.push(format!("error: {error}"));
        }
        if !command.starts_with("quietly") {
            let fresh: Vec<String> = stage.world.network.iter().skip(stage.known).map(envelope_words).collect();
            stage.world.lines.extend(fresh.into_iter().map(|words| format!("on the way: {words}")));
        }
        for line in std::mem::take(&mut stage.world.lines) {
            told.push_str("    ");
            told.push_str(&line);
            told.push('\n');
        }
    }
    probes.extend(stage.world.probes);
    told
}

/// The lines around the first difference.
fn difference(expected: &str, happened: &str) -> String {
    let (expected, happened): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), happened.lines().collect());
    let same = expected.iter().zip(&happened).take_while(|(a, b)| a == b).count();
    let around = |lines: &[&str], sign: &str| -> String {
        lines.iter().skip(same).take(8).map(|line| format!("  {sign} {line}\n")).collect()
    };
    let context: String = expected[same.saturating_sub(4)..same].iter().map(|line| format!("    {line}\n")).collect();
    format!("from line {}:\n{context}{}{}", same + 1, around(&expected, "-"), around(&happened, "+"))
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/stories")
}

#[test]
#[expect(clippy::disallowed_methods, reason = "this test writes the story files anew when it is told to")]
fn every_story_goes_as_it_is_told() {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder()).expect("the stories are there").map(|it| it.expect("readable").path()).collect();
    files.sort();
    let count = files.len();
    let mut probes = BTreeSet::new();
    let mut complaints = String::new();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a story is text");
        println!("{}", file.display());
        let told = tell(&text, &mut probes);
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for error in told.lines().filter(|line| line.starts_with("    error: ")) {
            complaints.push_str(&format!("{name}: {error}\n"));
        }
        if told == text {
            continue;
        }
        if std::env::var_os("DICTUM_REWRITE").is_some() {
            std::fs::write(&file, told).expect("the story can be written");
        } else {
            complaints.push_str(&format!("{name} differs (- told, + happened) {}\n", difference(&text, &told)));
        }
    }
    assert!(complaints.is_empty(), "{complaints}");
    assert!(count >= 17, "some stories are missing");
    let untold: Vec<&&str> = PROBES.iter().filter(|probe| !probes.contains(*probe)).collect();
    assert!(probes.len() >= 12, "rare branches that no story comes by: {untold:?}");
}
