//! Many clients at work on a few keys, each operation recorded with what its client was told.
//!
//! Three kinds of keys: registers (`SET` of values that occur once, `GET`), counters (`INCR`, `GET`), and a group that
//! transactions write and read together. A set of ten keys serves for one fault, from the calm before it to the calm after
//! it; then the next set does, so that what stays unknown on one key remains little enough to be judged.

use std::io::{self, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use base::Rng;
use sim::history::{Command, Op, Operation, Outcome, Reply, text_of};
use wire::{Value, encode_command};

use super::cluster::{Cluster, NODES};
use crate::common::Client;
use crate::common::bell::Bell;

/// Connections at once.
pub const CLIENTS: usize = 12;
/// Keys of each kind, in each set of keys.
const REGISTERS: u64 = 5;
const COUNTERS: u64 = 2;

/// What clients and test share.
struct Shared {
    addresses: Vec<String>,
    bell: Arc<Bell>,
    /// When the clock of the history began.
    began: Instant,
    stop: AtomicBool,
    /// The set of keys in use.
    epoch: AtomicU64,
    acknowledged: AtomicU64,
    unacknowledged: AtomicU64,
    history: Mutex<Vec<Operation>>,
    /// The node and the socket of each client that has a connection.
    sockets: Vec<Mutex<Option<(usize, TcpStream)>>>,
}

/// The running clients. They end when this is dropped.
pub struct Load {
    shared: Arc<Shared>,
    clients: Vec<JoinHandle<()>>,
}

/// An operation that was asked, and not yet answered.
pub struct Waiting {
    connection: Client,
    client: usize,
    commands: Vec<Command>,
    invoke: u64,
    sent: io::Result<()>,
}

/// What a client was told.
enum Answer {
    Done(Vec<Reply>),
    Failed,
    Unknown,
}

impl Load {
    pub fn start(cluster: &Cluster) -> Load {
        let shared = Arc::new(Shared {
            addresses: cluster.addresses(),
            bell: Arc::clone(&cluster.bell),
            began: Instant::now(),
            stop: AtomicBool::new(false),
            epoch: AtomicU64::new(0),
            acknowledged: AtomicU64::new(0),
            unacknowledged: AtomicU64::new(0),
            history: Mutex::default(),
            sockets: (0..CLIENTS).map(|_| Mutex::default()).collect(),
        });
        let client = |number: usize| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || Worker::new(shared, number).work())
        };
        let clients = (0..CLIENTS).map(client).collect();
        Load { shared, clients }
    }

    /// Waits for so many more operations that succeed.
    pub fn wait_for_acknowledged(&self, cluster: &Cluster, count: u64) {
        self.wait_for_more(cluster, &self.shared.acknowledged, count, "acknowledged operations");
    }

    /// Waits for so many more operations that do not.
    pub fn wait_for_unacknowledged(&self, cluster: &Cluster, count: u64) {
        self.wait_for_more(cluster, &self.shared.unacknowledged, count, "refused operations");
    }

    fn wait_for_more(&self, cluster: &Cluster, counter: &AtomicU64, count: u64, what: &str) {
        let begin = counter.load(Ordering::SeqCst);
        cluster.wait_for(&format!("{count} {what}"), || {
            assert!(!self.clients.iter().any(JoinHandle::is_finished), "a client has failed");
            (counter.load(Ordering::SeqCst) >= begin + count).then_some(())
        });
    }

    /// The time on the history's clock, in nanoseconds.
    pub fn now(&self) -> u64 {
        self.shared.now()
    }

    /// Turns to the next set of keys.
    pub fn take_other_keys(&self) {
        self.shared.epoch.fetch_add(1, Ordering::SeqCst);
    }

    /// Cuts every second one of the connections to a node, with what was asked on them.
    pub fn cut_some(&self, node: usize) {
        for socket in self.shared.sockets.iter().step_by(2) {
            if let Some((_, socket)) = lock(socket).take_if(|(to, _)| *to == node) {
                let _ = socket.shutdown(Shutdown::Both);
            }
        }
    }

    /// Sends reads of all keys in use to a node that cannot answer now. They must not be answered from its past.
    pub fn ask_frozen(&self, address: &str) -> Vec<Waiting> {
        let ask = |(place, key)| {
            let mut connection = Client::connect(address).expect("the system takes connections for it");
            let (commands, invoke) = (vec![Command::new(Op::Get, key)], self.now());
            let sent = send(&mut connection, &commands);
            Waiting { connection, client: CLIENTS + NODES + place, commands, invoke, sent }
        };
        keys(self.shared.epoch.load(Ordering::SeqCst)).into_iter().enumerate().map(ask).collect()
    }

    /// Waits for the answers to what was asked.
    pub fn hear(&self, all: Vec<Waiting>) {
        for mut one in all {
            self.shared.end(&mut one.connection, one.client, one.commands, one.invoke, one.sent);
        }
    }

    /// Ends the load, writes once more through every node, and reads all keys through every node until all say the same.
    /// Returns the whole history.
    pub fn finish(mut self, cluster: &Cluster) -> Vec<Operation> {
        self.shared.stop.store(true, Ordering::SeqCst);
        for client in self.clients.drain(..) {
            client.join().expect("a client that had no reason to fail");
        }
        let epoch = self.shared.epoch.load(Ordering::SeqCst);
        for (index, node) in cluster.nodes.iter().enumerate() {
            let mut number = 0;
            cluster.wait_for(&format!("{} to take the last write", node.name), || {
                number += 1;
                let last = Command::new(Op::Set, register(epoch, 0)).with_argument(format!("last.{index}.{number}"));
                self.ask_alone(&node.resp, CLIENTS + index, last).ok()
            });
        }
        let keys: Vec<String> = (0..=epoch).flat_map(keys).collect();
        let read_all = |index: usize| -> Option<Vec<Reply>> {
            let read = |key: &String| {
                let get = Command::new(Op::Get, key.as_str());
                self.ask_alone(&cluster.nodes[index].resp, CLIENTS + index, get).ok()
            };
            keys.iter().map(read).collect()
        };
        // What was left unknown may still happen between two of these readings, but it comes to an end.
        cluster.wait_for("all nodes to show the same", || {
            let first = read_all(0)?;
            (1..cluster.nodes.len()).all(|index| read_all(index).as_ref() == Some(&first)).then_some(())
        });
        std::mem::take(&mut *lock(&self.shared.history))
    }

    /// One command on a connection of its own, recorded as well.
    fn ask_alone(&self, address: &str, client: usize, command: Command) -> Result<Reply, ()> {
        let mut connection = Client::connect(address).map_err(drop)?;
        let answer = self.shared.run(&mut connection, client, vec![command]);
        if let Answer::Done(mut replies) = answer { replies.pop().ok_or(()) } else { Err(()) }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // After `finish` nobody is left; after a failure the clients end as their connections do.
        self.shared.stop.store(true, Ordering::SeqCst);
    }
}

impl Shared {
    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).expect("a test does not run for centuries")
    }

    /// Asks, and records what came of it.
    fn run(&self, connection: &mut Client, client: usize, commands: Vec<Command>) -> Answer {
        let invoke = self.now();
        let sent = send(connection, &commands);
        self.end(connection, client, commands, invoke, sent)
    }

    /// Waits for the answer to what was asked, and records it.
    fn end(
        &self,
        connection: &mut Client,
        client: usize,
        commands: Vec<Command>,
        invoke: u64,
        sent: io::Result<()>,
    ) -> Answer {
        // What was cut may have arrived.
        let answer = sent.and_then(|()| receive(connection, commands.len())).unwrap_or(Answer::Unknown);
        let finish = self.now();
        let (outcome, finish, replies, counter) = match &answer {
            Answer::Done(replies) => (Outcome::Done, Some(finish), replies.clone(), &self.acknowledged),
            Answer::Failed => (Outcome::Failed, Some(finish), vec![], &self.unacknowledged),
            Answer::Unknown => (Outcome::Maybe, None, vec![], &self.unacknowledged),
        };
        let operation =
            Operation { client: client as u64, commands, watched: vec![], invoke, finish, outcome, replies };
        lock(&self.history).push(operation);
        counter.fetch_add(1, Ordering::SeqCst);
        self.bell.ring();
        answer
    }
}

/// One client: it stays with a node until that fails it.
struct Worker {
    shared: Arc<Shared>,
    number: usize,
    random: Rng,
    /// Values written so far: none is written twice.
    values: u64,
    target: usize,
}

impl Worker {
    fn new(shared: Arc<Shared>, number: usize) -> Worker {
        // Each run of a test meets other faults anyway; what the clients draw is the same in all of them.
        Worker { shared, number, random: Rng::new(number as u64), values: 0, target: number }
    }

    fn work(mut self) {
        let mut connection: Option<Client> = None;
        let mut refused = 0;
        while !self.shared.stop.load(Ordering::SeqCst) {
            let Some(open) = connection.as_mut() else {
                connection = self.connect();
                refused = if connection.is_some() { 0 } else { refused + 1 };
                if refused >= self.shared.addresses.len() {
                    // Nobody is there: something has to happen first.
                    self.shared.bell.wait();
                }
                continue;
            };
            let commands = self.draw();
            if !matches!(self.shared.run(open, self.number, commands), Answer::Done(_)) {
                connection = None;
                *lock(&self.shared.sockets[self.number]) = None;
                self.target += 1;
            }
        }
    }

    fn connect(&mut self) -> Option<Client> {
        let node = self.target % self.shared.addresses.len();
        let open = || {
            let mut client = Client::connect(&self.shared.addresses[node])?;
            let socket = client.stream().try_clone()?;
            io::Result::Ok((client, socket))
        };
        let Ok((client, socket)) = open() else {
            self.target += 1;
            return None;
        };
        *lock(&self.shared.sockets[self.number]) = Some((node, socket));
        Some(client)
    }

    fn draw(&mut self) -> Vec<Command> {
        let epoch = self.shared.epoch.load(Ordering::SeqCst);
        let register = register(epoch, self.random.below(REGISTERS));
        let counter = counter(epoch, self.random.below(COUNTERS));
        let [left, right, count] = joined(epoch);
        self.values += 1;
        let value = format!("v{}.{}", self.number, self.values);
        match self.random.below(100) {
            0..30 => vec![Command::new(Op::Set, register).with_argument(value)],
            30..55 => vec![Command::new(Op::Get, register)],
            55..70 => vec![Command::new(Op::Incr, counter)],
            70..78 => vec![Command::new(Op::Get, counter)],
            78..90 => vec![
                Command::new(Op::Set, left).with_argument(value.as_str()),
                Command::new(Op::Set, right).with_argument(value),
                Command::new(Op::Incr, count),
            ],
            _ => [left, right, count].map(|key| Command::new(Op::Get, key)).to_vec(),
        }
    }
}

fn register(epoch: u64, number: u64) -> String {
    format!("register.{epoch}.{number}")
}

fn counter(epoch: u64, number: u64) -> String {
    format!("counter.{epoch}.{number}")
}

/// The keys of transactions: the first two always have the same value, the third counts how often it changed.
fn joined(epoch: u64) -> [String; 3] {
    ["left", "right", "count"].map(|name| format!("{name}.{epoch}"))
}

fn keys(epoch: u64) -> Vec<String> {
    let registers = (0..REGISTERS).map(|number| register(epoch, number));
    registers.chain((0..COUNTERS).map(|number| counter(epoch, number))).chain(joined(epoch)).collect()
}

/// Sends one command, or several as a transaction.
fn send(connection: &mut Client, commands: &[Command]) -> io::Result<()> {
    let mut bytes = Vec::new();
    let mut add = |words: Vec<Vec<u8>>| encode_command(&mut bytes, words.iter().map(Vec::as_slice));
    let alone = commands.len() == 1;
    if !alone {
        add(vec![b"MULTI".to_vec()]);
    }
    commands.iter().for_each(|command| add(command.words()));
    if !alone {
        add(vec![b"EXEC".to_vec()]);
    }
    connection.stream().write_all(&bytes)
}

/// Reads the answer to one command, or to a transaction of several.
fn receive(connection: &mut Client, commands: usize) -> io::Result<Answer> {
    if commands == 1 {
        return Ok(understand(vec![connection.receive()?]));
    }
    for _ in 0..=commands {
        let queued = connection.receive()?;
        assert!(matches!(&queued, Value::Simple(text) if text == "OK" || text == "QUEUED"), "{queued:?}");
    }
    match connection.receive()? {
        Value::Array(replies) => {
            assert_eq!(replies.len(), commands);
            Ok(understand(replies))
        }
        other => Ok(understand(vec![other])),
    }
}

/// What replies mean. Nothing but what docs/operating.md tells clients to expect is accepted.
fn understand(replies: Vec<Value>) -> Answer {
    let mut understood = Vec::new();
    for reply in replies {
        understood.push(match reply {
            Value::Simple(text) => Reply::Text(text),
            Value::Bulk(bytes) => Reply::Text(text_of(&bytes)),
            Value::Integer(number) => Reply::Integer(number),
            Value::Null => Reply::Nil,
            Value::Error(text) if text.starts_with("CLUSTERDOWN ") => return Answer::Failed,
            Value::Error(text) if text.starts_with("UNKNOWN ") => return Answer::Unknown,
            other => panic!("not an answer that clients are told to expect: {other:?}"),
        });
    }
    Answer::Done(understood)
}

fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
