//! A caller that keeps what it reads, and forgets what it is told of: client-side caching.
//!
//! It does what a simple client library does: it keeps the value of an answer when that comes, and drops a key when it is told that this has changed, or everything when it is told so. What it
//! holds is written down for the checker (`checkers/copies.rs`).

use std::collections::VecDeque;

use base::Rng;
use wire::{ReplyLimits, ReplyParser, Value, encode_command};

use crate::checkers::copies::{Cache, Copies, Write};

/// Keys of each writer.
const KEYS: u64 = 3;
/// Most values of a key.
const VALUES_MAX: u64 = 1_000_000;

/// What an answer is to.
#[derive(Clone, Debug)]
enum Asked {
    Read(String),
    Other,
}

/// A connection that tracks.
#[derive(Debug)]
pub(super) struct Keeper {
    parser: ReplyParser,
    asked: VecDeque<Asked>,
    /// When the oldest of them was sent.
    pub(super) asked_at: u64,
    /// Its place among all caches.
    cache: usize,
}

/// The key of a writer in its present generation: after an unknown outcome it goes on with another.
fn key_of(writer: u64, generation: u64, place: u64) -> String {
    format!("copy:{writer}-{generation}-{}", place % KEYS)
}

impl Keeper {
    /// Begins on a new connection.
    pub(super) fn new(
        caller: u64,
        node: u16,
        now: u64,
        rng: &mut Rng,
        copies: &mut Copies,
        send: &mut Vec<u8>,
    ) -> Keeper {
        encode_command(send, ["HELLO", "3"]);
        if rng.chance(1, 3) {
            encode_command(send, ["CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "copy:"]);
        } else {
            encode_command(send, ["CLIENT", "TRACKING", "ON"]);
        }
        let mut asked = VecDeque::from([Asked::Other, Asked::Other]);
        // Then answers are held up now and then.
        if rng.chance(1, 3) {
            encode_command(send, ["DICTUM.DURABILITY", "all"]);
            asked.push_back(Asked::Other);
        }
        copies.caches.push(Cache { caller, node, from: now, until: None, held: Default::default() });
        Keeper {
            parser: ReplyParser::new(ReplyLimits::default()),
            asked,
            asked_at: now,
            cache: copies.caches.len() - 1,
        }
    }

    /// Something is awaited.
    pub(super) fn waits(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Reads what is not kept, sometimes behind a write of its own.
    pub(super) fn act(&mut self, caller: u64, now: u64, rng: &mut Rng, copies: &Copies, send: &mut Vec<u8>) {
        if self.waits() {
            return;
        }
        self.asked_at = now;
        if rng.chance(1, 6) {
            encode_command(send, ["SET", &format!("own:{caller}"), "x", "PX", "100"]);
            self.asked.push_back(Asked::Other);
        }
        for _ in 0..rng.between(1, 4) {
            let Some(key) = copies.draw_key(rng) else { return };
            if copies.caches[self.cache].held.contains_key(&key) {
                continue;
            }
            if rng.chance(1, 5) {
                encode_command(send, ["MULTI"]);
                encode_command(send, ["GET", &key]);
                encode_command(send, ["SET", &format!("own:{caller}"), "x", "PX", "100"]);
                encode_command(send, ["EXEC"]);
                self.asked.extend([Asked::Other, Asked::Other, Asked::Other]);
            } else {
                encode_command(send, ["GET", &key]);
            }
            self.asked.push_back(Asked::Read(key));
        }
    }

    /// Bytes have come.
    pub(super) fn on_bytes(&mut self, bytes: &[u8], now: u64, copies: &mut Copies) -> Result<(), String> {
        self.parser.push(bytes);
        while let Some(value) = self.parser.next().map_err(|error| format!("not RESP: {error}"))? {
            let cache = &mut copies.caches[self.cache];
            if let Value::Push(parts) = &value {
                match parts.as_slice() {
                    [word, Value::Array(keys)] if word.as_bytes() == Some(b"invalidate") => {
                        for key in keys.iter().filter_map(Value::as_bytes) {
                            cache.held.remove(&String::from_utf8_lossy(key).into_owned());
                        }
                    }
                    [word, nothing] if word.as_bytes() == Some(b"invalidate") && nothing.is_null() => {
                        cache.held.clear()
                    }
                    // A stopping node lets the listener go first: nothing more is told, so nothing may be kept.
                    [word, Value::Integer(_)] if word.as_bytes() == Some(b"tracking-redir-broken") => {
                        cache.held.clear()
                    }
                    other => return Err(format!("unexpected message {other:?}")),
                }
                continue;
            }
            let asked = self.asked.pop_front().ok_or("an answer to nothing")?;
            self.asked_at = now;
            let Asked::Read(key) = asked else { continue };
            // Of a transaction the first answer is that of the read.
            let answer = match &value {
                Value::Array(answers) => answers.first().cloned().unwrap_or(Value::Null),
                other => other.clone(),
            };
            match (&answer, answer.as_bytes()) {
                (Value::Error(_), _) => {}
                (Value::Null, _) => drop(cache.held.insert(key, 0)),
                (_, Some(text)) => {
                    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse::<u64>().ok());
                    let number = number.filter(|number| *number < VALUES_MAX);
                    let number = number.ok_or_else(|| format!("unexpected value {answer:?} of {key}"))?;
                    cache.held.insert(key, number);
                }
                _ => return Err(format!("unexpected answer {answer:?} to a GET of {key}")),
            }
        }
        Ok(())
    }

    /// The connection is gone.
    pub(super) fn end(&self, now: u64, copies: &mut Copies) {
        copies.caches[self.cache].until.get_or_insert(now);
    }
}

/// The next write of a writer: its place among all, and the command.
pub(super) fn write(writer: u64, rng: &mut Rng, now: u64, copies: &mut Copies, send: &mut Vec<u8>) -> usize {
    let generation = copies.generations.get(&writer).copied().unwrap_or(0);
    let key = key_of(writer, generation, rng.below(KEYS));
    let value = copies.writes.len() as u64 + 1;
    if rng.chance(1, 10) {
        encode_command(send, ["SET", &key, &value.to_string(), "EX", "3600"]);
    } else {
        encode_command(send, ["SET", &key, &value.to_string()]);
    }
    copies.writes.push(Write { key, value, asked: now, answered: None });
    copies.writes.len() - 1
}
