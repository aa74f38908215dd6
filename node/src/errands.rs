//! Commands for which one log is not enough: `COPY` and `MOVE` to another database, `MIGRATE` to another server.
//!
//! A command is one entry of one log, or one read. Two databases have two logs, and another server has its own. An **errand** is the conversation that carries
//! such a command out: with this node, as a client over a connection of its own, and with the target. [`relocation`] and [`migration`] decide what is said, step by
//! step; the owner of the node carries the words to and fro ([`crate::Outbox::errands`], [`Input::ErrandDone`](crate::Input::ErrandDone)), the server on a thread
//! and the simulator in its turns. The client's connection waits until the errand is over.
//!
//! At every moment, whichever process dies: a key is never lost, nothing is overwritten without `REPLACE`, and a good answer says that all of it is done. For a while
//! others can see a key in both places. (docs/decisions/2026-11-27-errands.md)

mod migration;
mod relocation;

use std::collections::BTreeSet;
use std::time::Duration;

use base::limits::ERRANDS_MAX;
use base::versions::command_since;
use data::{Failure, Reply};
use wire::{Value, encode_command};

use crate::bucket::Named;
use crate::door::ConnectionId;
use crate::node::Node;
use crate::session::{Block, Session};
use migration::Migration;
use relocation::{Relocation, Wish};

const TOO_MANY: Failure = Failure::Text(
    "CLUSTERDOWN too many keys are on their way to other databases or servers; the command was not done, try again later",
);

const NOT_YET: Failure = Failure::Text(
    "CLUSTERDOWN keys go to other databases and servers when every node of the cluster knows how, which is not so yet (dictum node list); try again",
);

/// Whom something is said to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// This node, over a connection for the source.
    Source,
    /// This node over a second connection, or the other server.
    Target,
}

/// Where the target is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// A database of this cluster: this node.
    Here,
    /// Another server.
    Server {
        /// Its name or address.
        host: String,
        /// Its port.
        port: u16,
        /// How long it may take to connect, and between an order and its answers.
        timeout: Duration,
    },
}

/// An answer of a side, or none.
#[derive(Debug)]
pub enum Heard {
    /// Nothing was said yet.
    Nothing,
    /// The replies to what was said last, in order.
    Replies(Vec<Value>),
    /// There is no connection to this side.
    NoConnection(Side),
    /// The connection to this side ended, or nothing came in time.
    NoAnswer(Side),
}

/// The next thing to do.
#[derive(Debug)]
pub enum Say {
    /// Send these commands, and wait for so many replies.
    To(Side, Vec<u8>, usize),
    /// The conversation is over, with this answer to the client.
    Done(ErrandAnswer),
}

/// The answer to the client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ErrandAnswer {
    /// A number.
    Integer(i64),
    /// A short text.
    Status(&'static str),
    /// An error with its code.
    Error(String),
}

/// See the file's head. Given to the owner.
#[derive(Debug)]
pub struct Errand {
    /// The connection of the command.
    pub connection: ConnectionId,
    /// Which of its commands; for [`crate::Input::ErrandDone`].
    pub slot: u64,
    work: Work,
}

#[derive(Debug)]
enum Work {
    Relocation(Relocation),
    Migration(Migration),
}

impl Errand {
    /// Where the second connection leads.
    #[must_use]
    pub fn target(&self) -> Target {
        match &self.work {
            Work::Relocation(_) => Target::Here,
            Work::Migration(migration) => migration.target(),
        }
    }

    /// Takes an answer, and gives the next thing to say.
    pub fn go_on(&mut self, heard: Heard) -> Say {
        match &mut self.work {
            Work::Relocation(relocation) => relocation.go_on(heard),
            Work::Migration(migration) => migration.go_on(heard),
        }
    }
}

/// The errands of a node's clients.
#[derive(Debug, Default)]
pub(crate) struct Errands {
    /// Those to other databases, by the client's connection and slot.
    relocations: BTreeSet<(ConnectionId, u64)>,
    /// Those to other servers, apart: they may take as long as a stranger likes.
    migrations: BTreeSet<(ConnectionId, u64)>,
    /// For the owner.
    pub new: Vec<Errand>,
}

impl Errands {
    fn of_kind(&mut self, migrates: bool) -> &mut BTreeSet<(ConnectionId, u64)> {
        if migrates { &mut self.migrations } else { &mut self.relocations }
    }
}

impl Node {
    /// `COPY … DB`, `MOVE`, `MIGRATE`: everything before them on the connection is answered. The work holds so many bytes of the command.
    fn begin_errand(&mut self, session: &mut Session, work: Work, bytes: usize) {
        let migrates = matches!(work, Work::Migration(_));
        if self.errands.of_kind(migrates).len() >= ERRANDS_MAX {
            return self.refuse(session, &TOO_MANY);
        }
        if self.entries_in < command_since("dictum.revision") {
            return self.refuse(session, &NOT_YET);
        }
        let slot = session.open_slot(bytes);
        self.errands.of_kind(migrates).insert((session.id, slot));
        session.block = Some(Block::Slot(slot));
        self.probe("node: errand");
        self.errands.new.push(Errand { connection: session.id, slot, work });
    }

    /// `COPY source destination DB n [REPLACE]`, `MOVE key n`. `to` is the target's key and the name of its database.
    pub(crate) fn relocate(
        &mut self,
        session: &mut Session,
        key: &[u8],
        (to_key, to): (&[u8], &[u8]),
        (removes, replaces): (bool, bool),
    ) {
        let from = match self.name_of_bucket(session) {
            Ok(from) => from,
            Err(failure) => return self.refuse(session, &failure),
        };
        let durability = session.levels.durability.map(Named::name);
        let wish = Wish { removes, replaces, durability };
        let work = Relocation::new((from.as_bytes(), key), (to, to_key), wish);
        self.begin_errand(session, Work::Relocation(work), key.len() + to_key.len());
    }

    /// `MIGRATE …`
    pub(crate) fn migrate(&mut self, session: &mut Session, words: &[&[u8]]) {
        let durability = session.levels.durability.map(Named::name);
        let parsed = self.name_of_bucket(session);
        match parsed.and_then(|from| Migration::parse(from.as_bytes(), durability, words)) {
            Ok(work) => {
                let bytes = words.iter().map(|word| word.len() + size_of::<Vec<u8>>()).sum();
                self.begin_errand(session, Work::Migration(work), bytes);
            }
            Err(failure) => self.refuse(session, &failure),
        }
    }

    /// The owner has held the conversation.
    pub(crate) fn on_errand_done(&mut self, connection: ConnectionId, slot: u64, answer: &ErrandAnswer) {
        self.errands.relocations.remove(&(connection, slot));
        self.errands.migrations.remove(&(connection, slot));
        let answer = match answer {
            ErrandAnswer::Integer(number) => Reply::Integer(*number),
            ErrandAnswer::Status("OK") => Reply::Ok,
            ErrandAnswer::Status(text) => Reply::Simple(text),
            ErrandAnswer::Error(text) => Reply::Error(Failure::built(text.as_bytes())),
        };
        self.deliver(connection, slot, &answer);
    }
}

/// The commands, one after the other.
fn orders(commands: &[&[&[u8]]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    commands.iter().for_each(|words| encode_command(&mut bytes, words.iter().copied()));
    bytes
}

/// The first commands to this node, and how many replies come to them. A bucket's usual reads may be of the past, and those of this connection would not even see
/// what the client has written; and what the client asks for its writes holds for those that are made for it.
fn greeting(database: &[u8], durability: Option<&'static str>) -> (Vec<u8>, usize) {
    let mut commands: Vec<[&[u8]; 2]> = vec![[b"SELECT", database], [b"DICTUM.CONSISTENCY", b"linearizable"]];
    commands.extend(durability.map(|level| [b"DICTUM.DURABILITY", level.as_bytes()]));
    let mut bytes = Vec::new();
    commands.iter().for_each(|words| encode_command(&mut bytes, words));
    (bytes, commands.len())
}

/// An error unless all of a [`greeting`] was taken.
fn greeted(replies: &[Value]) -> Result<(), String> {
    match replies.iter().find(|reply| !matches!(reply, Value::Simple(_))) {
        None => Ok(()),
        Some(Value::Error(text)) => Err(text.clone()),
        Some(_) => Err(strange()),
    }
}

/// A key as it was at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Seen {
    revision: i64,
    payload: Vec<u8>,
    /// In milliseconds since 1970; 0: none.
    deadline: i64,
}

/// So many replies come to one [`look_at`].
const LOOK_REPLIES: usize = 5;

/// Asks for a key's revision, value and deadline at one moment.
fn look_at(key: &[u8]) -> Vec<u8> {
    orders(&[&[b"MULTI"], &[b"DICTUM.REVISION", key], &[b"DUMP", key], &[b"PEXPIRETIME", key], &[b"EXEC"]])
}

/// The key by the replies to [`look_at`]; none if there is no such key.
fn seen(mut replies: Vec<Value>) -> Result<Option<Seen>, String> {
    match replies.pop() {
        Some(Value::Array(mut items)) => match items.as_mut_slice() {
            [Value::Integer(_), Value::Null, Value::Integer(_)] => Ok(None),
            [Value::Integer(revision), Value::Bulk(payload), Value::Integer(deadline)] => {
                Ok(Some(Seen { revision: *revision, payload: std::mem::take(payload), deadline: (*deadline).max(0) }))
            }
            items => Err(error_in(items).unwrap_or_else(strange)),
        },
        Some(Value::Error(text)) => Err(replies.iter().find_map(queued_error).unwrap_or(text)),
        _ => Err(strange()),
    }
}

/// Why a command could not be queued: more to the point than what `EXEC` says then.
fn queued_error(reply: &Value) -> Option<String> {
    match reply {
        Value::Error(text) => Some(text.clone()),
        _ => None,
    }
}

fn error_in(items: &[Value]) -> Option<String> {
    items.iter().find_map(queued_error)
}

fn strange() -> String {
    "ERR the errand was answered with something else than it asked for".to_owned()
}

#[cfg(test)]
mod tests;
