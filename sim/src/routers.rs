//! Clients that route by themselves, as libraries for a Redis Cluster do: they come in at the listener that redirects.
//!
//! Each keeps a connection to every node that it needs, and a picture of who has which hash slots (`CLUSTER SLOTS`, `CLUSTER SHARDS`).
//! 1. A command goes to whom the picture names, or to any node while there is none; now and then to any node all the same, as by a library that has just begun.
//! 2. `MOVED`: it goes to whom that names, and a new picture is asked for; after [`REDIRECTIONS_MAX`] of them it is given up.
//! 3. `CLUSTERDOWN`, `TRYAGAIN` and whatever else says that nothing was done: again, a while later, and at whom the picture names then.
//! 4. A connection is lost or cannot be had: another node is asked, and a new picture asked for. What was under way may have been done, or not.
//!
//! They work on the keys of the listener's bucket together with the clients that have selected it, and their operations stand in the same history. What a replica
//! answers under `READONLY` is not in it, but among what is known of the level `session` (`checkers/levels.rs`). What they are told of the cluster is for
//! `checkers/redirections.rs`.

mod answers;
mod errands;
mod pictures;

use std::collections::{BTreeMap, VecDeque};

use base::Rng;
use wire::{ReplyLimits, ReplyParser, Value, encode_command};

use crate::chaos::{Chaos, MS};
use crate::client::{Record, Wishes};
use crate::scripts::Scripts;
use crate::workload::{DROPPED, IN_MEMORY, Mix, PLAIN};
use errands::Errand;
pub(crate) use errands::PROBES;

/// After so many a command is given up, as libraries do.
const REDIRECTIONS_MAX: usize = 5;
/// How long a connection is waited for.
const CONNECTING_MAX: u64 = 500 * MS;
/// Tells routers from clients in histories: behind all of them there is room for as many commands at once as a router has under way.
const FIRST_ID: u64 = 20;

/// Which routers a run has.
#[derive(Clone, Debug, Default)]
pub struct Cast {
    /// The listener's bucket; empty: the default one.
    pub bucket: &'static str,
    /// By node whether it has the listener; none has without routers.
    pub listeners: Vec<bool>,
    seed: Option<u64>,
}

impl Cast {
    /// Draws from a run's chaos. A bucket that has clients of its own is also there some time.
    #[must_use]
    pub fn draw(chaos: &Chaos, mix: &Mix) -> Cast {
        let nodes = usize::from(chaos.nodes);
        let Some(seed) = chaos.routers_seed else {
            return Cast { bucket: "", listeners: vec![false; nodes], seed: None };
        };
        let mut rng = Rng::new(seed);
        let made = mix.buckets.iter().take((mix.clients as usize).saturating_sub(1)).map(|(name, _)| *name);
        let mut buckets: Vec<&'static str> = made.filter(|it| [PLAIN, IN_MEMORY, DROPPED].contains(it)).collect();
        // More often one with partitions, if there is one: else one node leads everything.
        buckets.extend(buckets.contains(&PLAIN).then_some(PLAIN).filter(|_| mix.parted));
        buckets.push("");
        let bucket = *rng.pick(&buckets);
        let mut listeners = vec![true; nodes];
        if nodes > 1 && rng.chance(1, 6) {
            listeners[rng.below(nodes as u64) as usize] = false;
        }
        Cast { bucket, listeners, seed: Some(rng.next_u64()) }
    }

    /// The routers, which wait `timeout` nanoseconds for an answer.
    #[must_use]
    pub fn routers(&self, mix: &Mix, timeout: u64) -> Vec<Router> {
        let Some(seed) = self.seed else { return Vec::new() };
        let mut rng = Rng::new(seed);
        let mix = if self.bucket.is_empty() { mix.clone() } else { mix.of_bucket(self.bucket) };
        (0..rng.between(1, 3)).map(|id| Router::new(FIRST_ID + id, rng.fork(), mix.clone(), self, timeout)).collect()
    }
}

/// A connection to a node, or none.
#[derive(Debug, Default)]
enum Link {
    #[default]
    Gone,
    Connecting {
        since: u64,
    },
    Open(Box<Connection>),
}

#[derive(Debug)]
struct Connection {
    parser: ReplyParser,
    /// Which of the router's connections it is.
    number: u64,
    /// For each answer that is awaited the errand that it belongs to; none if it belongs to nothing.
    awaited: VecDeque<Option<usize>>,
    /// When the oldest of them was asked for.
    asked_at: u64,
}

/// What a router wants from the world.
#[derive(Debug, Default)]
pub struct Wants {
    /// By node.
    pub of: BTreeMap<u16, Wishes>,
    /// Wake the router at this time, with [`Router::timer`]'s number.
    pub wake_at: Option<u64>,
}

impl Wants {
    fn at(&mut self, node: u16) -> &mut Wishes {
        self.of.entry(node).or_default()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Working,
    /// Finishes what it has begun.
    Draining,
    /// Looks at every node in the calm at the end.
    Looking,
}

/// One of them.
#[derive(Debug)]
pub struct Router {
    id: u64,
    rng: Rng,
    mix: Mix,
    bucket: &'static str,
    listeners: Vec<bool>,
    timeout: u64,
    timer: u64,
    values: u64,
    connections: u64,
    scripts: Scripts,
    mode: Mode,
    links: Vec<Link>,
    /// The last picture: ranges of slots, first and last, and who has them.
    picture: Vec<(u16, u16, u16)>,
    /// What it has been told since.
    moved: BTreeMap<u16, u16>,
    wants_picture: bool,
    /// What it is about; the next begins when all are done.
    errands: Vec<Errand>,
    next_at: u64,
    /// What it knows of values, by raw key.
    seen: BTreeMap<String, String>,
    /// The connection to this node may not be in the mode that it should be in.
    spoiled: Option<u16>,
}

impl Router {
    fn new(id: u64, rng: Rng, mix: Mix, cast: &Cast, timeout: u64) -> Router {
        let scripts = Scripts::new(mix.scripts.0 ^ id, mix.scripts.1);
        Router {
            id,
            rng,
            mix,
            bucket: cast.bucket,
            listeners: cast.listeners.clone(),
            timeout,
            timer: 0,
            values: 0,
            connections: 0,
            scripts,
            mode: Mode::Working,
            links: cast.listeners.iter().map(|_| Link::Gone).collect(),
            picture: Vec::new(),
            moved: BTreeMap::new(),
            wants_picture: true,
            errands: Vec::new(),
            next_at: 0,
            seen: BTreeMap::new(),
            spoiled: None,
        }
    }

    /// The number of the timer that counts.
    #[must_use]
    pub fn timer(&self) -> u64 {
        self.timer
    }

    /// From now on it begins nothing new.
    pub fn drain(&mut self) {
        self.mode = Mode::Draining;
    }

    /// Whether it has finished everything that it was told to do.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.mode != Mode::Working && self.errands.iter().all(|errand| errand.done)
    }

    /// Lets it look at every node, and ask any of them, now that nothing happens.
    pub fn look_around(&mut self, now: u64, record: &mut Record, wants: &mut Wants) {
        self.mode = Mode::Looking;
        self.errands.clear();
        self.draw_looks(now, record);
        self.go_on(now, wants);
    }

    /// Its timer is due.
    pub fn on_wake(&mut self, now: u64, record: &mut Record, wants: &mut Wants) {
        for node in 0..self.links.len() as u16 {
            match &self.links[usize::from(node)] {
                Link::Connecting { since } if now - since >= CONNECTING_MAX => {
                    wants.at(node).close = true;
                    self.lose(node, "no connection in time", now, record);
                }
                Link::Open(connection)
                    if !connection.awaited.is_empty() && now - connection.asked_at >= self.timeout =>
                {
                    *wants.at(node) =
                        Wishes { close: true, overdue: Some(now - connection.asked_at), ..Wishes::default() };
                    self.lose(node, "no answer in time", now, record);
                }
                _ => {}
            }
        }
        if self.mode == Mode::Working && now >= self.next_at && self.errands.iter().all(|errand| errand.done) {
            // Libraries close what they have not used for long, and begin anew.
            let node = self.rng.below(self.links.len() as u64) as u16;
            if self.rng.chance(1, 40) && matches!(self.links[usize::from(node)], Link::Open(_)) {
                wants.at(node).close = true;
                self.links[usize::from(node)] = Link::Gone;
            }
            self.draw_errands(now, record);
        }
        self.go_on(now, wants);
    }

    /// The connection to a node stands.
    pub fn on_connected(&mut self, node: u16, now: u64, wants: &mut Wants) {
        self.connections += 1;
        let mut awaited = VecDeque::new();
        if self.rng.chance(1, 3) {
            encode_command(&mut wants.at(node).send, ["HELLO", "3"]);
            awaited.push_back(None);
        }
        let parser = ReplyParser::new(ReplyLimits::default());
        let connection = Connection { parser, number: self.connections, awaited, asked_at: now };
        self.links[usize::from(node)] = Link::Open(Box::new(connection));
        self.go_on(now, wants);
    }

    /// The connection to a node is gone, or could not be had.
    pub fn on_closed(&mut self, node: u16, now: u64, record: &mut Record, wants: &mut Wants) {
        self.lose(node, "the connection was closed", now, record);
        self.go_on(now, wants);
    }

    /// Bytes have arrived from a node.
    pub fn on_bytes(&mut self, node: u16, bytes: &[u8], now: u64, record: &mut Record, wants: &mut Wants) {
        if let Link::Open(connection) = &mut self.links[usize::from(node)] {
            connection.parser.push(bytes);
        }
        while let Link::Open(connection) = &mut self.links[usize::from(node)] {
            match connection.parser.next() {
                Ok(None) => break,
                Ok(Some(Value::Push(_))) => {}
                Ok(Some(value)) => {
                    connection.asked_at = now;
                    match connection.awaited.pop_front() {
                        Some(Some(errand)) => self.on_answer((node, errand), value, now, record),
                        Some(None) => {}
                        None => {
                            record.unexpected.push(format!("router {}: an answer to nothing: {value:?}", self.id));
                            break;
                        }
                    }
                }
                Err(error) => {
                    record.unexpected.push(format!("router {}: not RESP: {error}", self.id));
                    break;
                }
            }
        }
        if let Some(node) = self.spoiled.take() {
            wants.at(node).close = true;
            self.lose(node, "READWRITE was refused", now, record);
        }
        self.go_on(now, wants);
    }

    /// A connection is gone, or was not to be had.
    fn lose(&mut self, node: u16, reason: &str, now: u64, record: &mut Record) {
        let link = std::mem::take(&mut self.links[usize::from(node)]);
        self.moved.retain(|_, at| *at != node);
        self.wants_picture = true;
        for place in 0..self.errands.len() {
            let errand = &self.errands[place];
            if errand.node == Some(node) && !errand.done {
                record.last_failure = now;
                record.last_failure_reason = format!("router {} at node {node}: {reason}", self.id);
                let was_sent = errand.is_out && matches!(link, Link::Open(_));
                self.on_lost(place, was_sent, now, record);
            }
        }
    }

    /// Sends what is due, and says when it wants to go on.
    fn go_on(&mut self, now: u64, wants: &mut Wants) {
        for place in 0..self.errands.len() {
            let errand = &self.errands[place];
            if errand.done || errand.is_out || errand.due > now {
                continue;
            }
            let node = match errand.node {
                Some(node) => node,
                None => self.choose(errand.slot),
            };
            self.errands[place].node = Some(node);
            match &mut self.links[usize::from(node)] {
                link @ Link::Gone => {
                    *link = Link::Connecting { since: now };
                    wants.at(node).connect = Some(node);
                }
                Link::Connecting { .. } => {}
                Link::Open(connection) => {
                    if connection.awaited.is_empty() {
                        connection.asked_at = now;
                    }
                    let errand = &mut self.errands[place];
                    connection.awaited.extend(std::iter::repeat_n(Some(place), errand.answers));
                    errand.begin(connection.number);
                    wants.at(node).send.extend_from_slice(&errand.bytes);
                }
            }
        }
        let all_done = self.errands.iter().all(|errand| errand.done);
        if all_done && self.mode == Mode::Working && self.next_at <= now {
            self.next_at = now + self.rng.between(MS, self.mix.pause_max);
        }
        if !all_done || self.mode == Mode::Working {
            let waits = self.rng.between(MS, 20 * MS);
            let at = if all_done { self.next_at } else { now + waits };
            self.timer += 1;
            wants.wake_at = Some(at);
        }
    }

    /// Any node with the listener.
    fn anybody(&mut self) -> u16 {
        let all: Vec<u16> = (0..).zip(&self.listeners).filter(|(_, has)| **has).map(|(node, _)| node).collect();
        *self.rng.pick(&all)
    }

    /// Whom it asks about a slot.
    fn choose(&mut self, slot: u16) -> u16 {
        if self.rng.chance(1, 8) {
            return self.anybody();
        }
        let shown = self.picture.iter().find(|(first, last, _)| (*first..=*last).contains(&slot));
        match self.moved.get(&slot).copied().or(shown.map(|(_, _, node)| *node)) {
            Some(node) if self.listeners.get(usize::from(node)) == Some(&true) => node,
            _ => self.anybody(),
        }
    }
}
