//! What clients asked and what they were told: the input of the linearizability checker.
//!
//! A history is exchanged as JSON lines, one operation a line, so that tests with real processes and checkers
//! in other languages can read it:
//! ```text
//! {"client":3,"commands":[{"op":"SET","key":"k1","argument":"v17"}],"invoke":120,"return":450,"outcome":"done","replies":["OK"]}
//! {"client":4,"commands":[{"op":"INCR","key":"c1"}],"invoke":130,"return":null,"outcome":"maybe","replies":[]}
//! ```
//! - A key `hash#field` is a field of a hash, and a key that begins with `w` a hash of a fixed number of fields that all have the same value (`hashes.rs`).
//!   `set@member` says whether a set has a member, and a key that begins with `x` is a set of a fixed number of members, all there or none (`sets.rs`).
//!   `set%member` is the score of a member, and a key that begins with `i` a sorted set of a fixed number of members with one score (`sorted.rs`).
//!   `document$member` is a member of a JSON document, and a key that begins with `f` a document that is one text (`documents.rs`).
//!   A key that begins with `q` is a list, its value the text of all elements (`lists.rs`).
//!   A key that begins with `g` is a HyperLogLog that counts a fixed number of elements (`sketches.rs`). `set^member` is where a
//!   member is, as a score (`places.rs`).
//!   A key that begins with `t` is a stream, one that begins with `m` what a consumer group has still to be given of one; `stream~entry` is whose a pending entry is (`streams.rs`).
//! - `invoke`, `return`: nanoseconds on one clock shared by all clients; `return` is null when no answer came.
//! - `outcome`: `done` (as `replies` say), `failed` (it was not done), `maybe` (it may have been done, or may be later).
//! - Several `commands` are one transaction (MULTI … EXEC); `replies` has one item for each command.
//! - `watched`: what a transaction had read of the keys that it watched; executed means that they still had it.
//! - A reply is null, a number or a text; in texts each byte is the character of the same number (Latin-1). A command of a transaction
//!   that was refused, though the others were not, has the reply `{"refused":"OOM …"}`.
//! - `lifetime`: keys that the command makes without a deadline live for a while, because their bucket says so: at least `least` milliseconds;
//!   for ever, perhaps, if `certain` is false. `refusable`: the command may have been refused, for want of room, where nobody knows its reply.

use serde::{Deserialize, Serialize};

/// The length of an element of a list in a history, in bytes.
pub const TOKEN_BYTES: usize = 10;

/// What one command does. The names are those of RESP where there is one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Op {
    /// Reads the value.
    Get,
    /// Writes the value and makes the key permanent.
    Set,
    /// Writes the value with a time to live of `number` milliseconds.
    SetPx,
    /// Writes only where nothing is: 1 or 0.
    SetNx,
    /// Writes only where the value is `expected`: `OK` or null.
    SetIfEq,
    /// Writes and returns what was there before.
    GetSet,
    /// Reads and removes.
    GetDel,
    /// Appends; returns the new length.
    Append,
    /// Puts in front; returns the new length.
    Prepend,
    /// Appends; says nothing of the length.
    Push,
    /// Takes the first [`TOKEN_BYTES`] bytes out, or the last if `number` is −1, and returns them.
    Pop,
    /// Adds `number` (absent: 1) to a decimal number; returns the sum.
    Incr,
    /// Removes: 1 or 0.
    Del,
    /// Says whether the key is there: 1 or 0.
    Exists,
    /// Gives the key a time to live of `number` milliseconds: 1, or 0 where there is no key.
    Pexpire,
    /// Makes the key permanent: 1, or 0 where there is no key or no time to live.
    Persist,
    /// The time to live in milliseconds; −1 permanent, −2 not there.
    Pttl,
    /// Reads what stands behind the first `number` times [`TOKEN_BYTES`] bytes, null if that is nothing; with −1 what has been added since it was asked: some end of the value, or null.
    Tail,
}

impl Op {
    /// Whether it may make its key's value longer, or the key: what is refused where there is no room.
    #[must_use]
    pub fn may_grow(self) -> bool {
        use Op::{Append, GetSet, Incr, Prepend, Push, Set, SetIfEq, SetNx, SetPx};
        matches!(self, Set | SetPx | SetNx | SetIfEq | GetSet | Append | Prepend | Push | Incr)
    }
}

/// One command of an operation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Command {
    /// What to do.
    pub op: Op,
    /// With which key.
    pub key: String,
    /// The value, for commands that have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argument: Option<String>,
    /// The value that `SETIFEQ` compares with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// Milliseconds, or what `INCR` adds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<i64>,
    /// What keys live for that it makes without a deadline; absent: for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifetime: Option<DefaultLifetime>,
    /// It may be refused for want of room.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refusable: bool,
}

/// What keys live for that are made without a deadline.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DefaultLifetime {
    /// At least so many milliseconds.
    pub least: u64,
    /// Otherwise they may live for ever.
    pub certain: bool,
}

/// What the server said to one command.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Reply {
    /// A number.
    Integer(i64),
    /// `OK` or a value.
    Text(String),
    /// Nothing there, or not done because of a condition.
    Nil,
    /// This command of a transaction was refused and changed nothing.
    Refused {
        /// The error.
        refused: String,
    },
}

/// What is known of an operation's effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It took effect between `invoke` and `return`, and answered `replies`.
    Done,
    /// It has no effect, ever.
    Failed,
    /// It may take effect at any time after `invoke`, once, or never.
    Maybe,
}

/// What a transaction knew of a key that it watched.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Watched {
    /// The key.
    pub key: String,
    /// Its value, read after WATCH; null: not there.
    pub value: Option<String>,
}

/// One request of a client and its end.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Operation {
    /// Who asked. A client may have several operations at once (pipelining); they take effect in the order in which
    /// they stand in the history. What runs on several connections at once is several clients.
    pub client: u64,
    /// One command, or those of a transaction.
    pub commands: Vec<Command>,
    /// What an executed transaction requires of the keys that it watched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub watched: Vec<Watched>,
    /// When it was asked, in nanoseconds.
    pub invoke: u64,
    /// When its end was known, in nanoseconds.
    #[serde(rename = "return")]
    pub finish: Option<u64>,
    /// What is known of its effect.
    pub outcome: Outcome,
    /// One reply for each command if it is done; else empty.
    pub replies: Vec<Reply>,
}

impl Command {
    /// A command with nothing but a key.
    #[must_use]
    pub fn new(op: Op, key: impl Into<String>) -> Command {
        let key = key.into();
        Command { op, key, argument: None, expected: None, number: None, lifetime: None, refusable: false }
    }

    /// The same with a value.
    #[must_use]
    pub fn with_argument(mut self, argument: impl Into<String>) -> Command {
        self.argument = Some(argument.into());
        self
    }

    /// The same with the value to compare with.
    #[must_use]
    pub fn with_expected(mut self, expected: impl Into<String>) -> Command {
        self.expected = Some(expected.into());
        self
    }

    /// The same with milliseconds or an addend.
    #[must_use]
    pub fn with_number(mut self, number: i64) -> Command {
        self.number = Some(number);
        self
    }

    /// Whether it may be refused for want of room: it makes something longer, or gives a field a deadline, which takes room of its own.
    #[must_use]
    pub fn needs_room(&self) -> bool {
        self.op.may_grow() || self.op == Op::Pexpire && crate::hashes::field_of(&self.key).is_some()
    }

    /// The command's arguments as RESP has them.
    #[must_use]
    pub fn words(&self) -> Vec<Vec<u8>> {
        use crate::{documents, fading, hashes, lists, places, sets, sketches, sorted, streams};
        let of_types = [
            hashes::words,
            sets::words,
            sorted::words,
            documents::words,
            lists::words,
            sketches::words,
            places::words,
            fading::words,
            streams::words,
        ];
        if let Some(words) = of_types.iter().find_map(|words| words(self)) {
            return words;
        }
        let key = bytes_of(raw_key(&self.key));
        let argument = || bytes_of(self.argument.as_deref().unwrap_or(""));
        let number = |absent: i64| self.number.unwrap_or(absent).to_string().into_bytes();
        let word = |text: &str| text.as_bytes().to_vec();
        match self.op {
            Op::Get | Op::Tail => vec![word("GET"), key],
            Op::Set => vec![word("SET"), key, argument()],
            Op::SetPx => vec![word("SET"), key, argument(), word("PX"), number(1)],
            Op::SetNx => vec![word("SETNX"), key, argument()],
            Op::SetIfEq => {
                vec![word("SET"), key, argument(), word("IFEQ"), bytes_of(self.expected.as_deref().unwrap_or(""))]
            }
            Op::GetSet => vec![word("GETSET"), key, argument()],
            Op::GetDel => vec![word("GETDEL"), key],
            Op::Append => vec![word("APPEND"), key, argument()],
            Op::Prepend => vec![word("LPUSH"), key, argument()],
            Op::Push => vec![word("RPUSH"), key, argument()],
            Op::Pop => vec![word("LPOP"), key],
            Op::Incr => match self.number {
                None => vec![word("INCR"), key],
                Some(addend) => vec![word("INCRBY"), key, addend.to_string().into_bytes()],
            },
            Op::Del => vec![word("DEL"), key],
            Op::Exists => vec![word("EXISTS"), key],
            Op::Pexpire => vec![word("PEXPIRE"), key, number(1)],
            Op::Persist => vec![word("PERSIST"), key],
            Op::Pttl => vec![word("PTTL"), key],
        }
    }
}

/// The key itself, without the bucket that a history names before it (`bucket/key`; the default bucket is not named).
#[must_use]
pub fn raw_key(key: &str) -> &str {
    key.split_once('/').map_or(key, |(_, raw)| raw)
}

/// The bucket that a history's key is in; empty for the default bucket.
#[must_use]
pub fn bucket_of(key: &str) -> &str {
    key.split_once('/').map_or("", |(bucket, _)| bucket)
}

/// The bytes that a history's text stands for.
#[must_use]
pub fn bytes_of(text: &str) -> Vec<u8> {
    // Nearly all texts are ASCII, and some are long.
    if text.is_ascii() {
        return text.as_bytes().to_vec();
    }
    text.chars().map(|character| u8::try_from(u32::from(character)).unwrap_or(b'?')).collect()
}

/// The text by which a history names bytes.
#[must_use]
pub fn text_of(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if bytes.is_ascii() => text.to_owned(),
        _ => bytes.iter().map(|&byte| char::from(byte)).collect(),
    }
}

/// The history as JSON lines.
///
/// # Panics
/// Never: the types always have a JSON form.
#[must_use]
pub fn to_json_lines(history: &[Operation]) -> String {
    let mut lines = String::new();
    for operation in history {
        lines.push_str(&serde_json::to_string(operation).expect("plain data has a JSON form"));
        lines.push('\n');
    }
    lines
}

/// Reads a history from JSON lines; empty lines are skipped.
///
/// # Errors
/// The number of the line that cannot be read, and why.
pub fn from_json_lines(lines: &str) -> Result<Vec<Operation>, String> {
    let mut history = Vec::new();
    for (index, line) in lines.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let operation: Operation =
            serde_json::from_str(line).map_err(|error| format!("line {}: {error}", index + 1))?;
        if operation.outcome == Outcome::Done && operation.replies.len() != operation.commands.len() {
            return Err(format!(
                "line {}: {} commands have {} replies",
                index + 1,
                operation.commands.len(),
                operation.replies.len()
            ));
        }
        if operation.outcome == Outcome::Done && operation.finish.is_none() {
            return Err(format!("line {}: done, but it has no return time", index + 1));
        }
        history.push(operation);
    }
    Ok(history)
}

/// One command of client 0 that was answered five nanoseconds after it was asked: for the tests of checkers.
#[cfg(test)]
pub(crate) fn answered(command: Command, invoke: u64, reply: Reply) -> Operation {
    Operation {
        client: 0,
        commands: vec![command],
        watched: vec![],
        invoke,
        finish: Some(invoke + 5),
        outcome: Outcome::Done,
        replies: vec![reply],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_lines_round_trip() {
        let history = vec![
            Operation {
                client: 1,
                commands: vec![Command::new(Op::Set, "k").with_argument("a\u{ff}\"\n")],
                watched: vec![],
                invoke: 5,
                finish: Some(9),
                outcome: Outcome::Done,
                replies: vec![Reply::Text("OK".into())],
            },
            Operation {
                client: 2,
                commands: vec![Command::new(Op::Get, "k"), Command::new(Op::Incr, "c").with_number(-3)],
                watched: vec![Watched { key: "k".into(), value: None }],
                invoke: 6,
                finish: Some(10),
                outcome: Outcome::Done,
                replies: vec![Reply::Refused { refused: "OOM".into() }, Reply::Integer(-3)],
            },
            Operation {
                client: 3,
                commands: vec![Command {
                    lifetime: Some(DefaultLifetime { least: 5, certain: false }),
                    refusable: true,
                    ..Command::new(Op::Pexpire, "k").with_number(20)
                }],
                watched: vec![],
                invoke: 7,
                finish: None,
                outcome: Outcome::Maybe,
                replies: vec![],
            },
        ];
        let lines = to_json_lines(&history);
        assert_eq!(from_json_lines(&lines), Ok(history));
        assert!(lines.contains(r#""op":"PEXPIRE""#), "{lines}");
        assert!(from_json_lines("{\"client\":1}\n").is_err());
    }

    #[test]
    fn bytes_survive_as_text() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(bytes_of(&text_of(&bytes)), bytes);
    }
}
