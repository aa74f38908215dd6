//! `MIGRATE`: keys go to another server, a Redis or a Dictum.
//!
//! As Redis does: the target's `RESTORE` first, then the removal here. Between the two a key is in both places; here it is removed only if it is what was sent.

use std::time::Duration;

use base::limits::{MIGRATION_BYTES_TARGET, MIGRATION_TIMEOUT_MAX};
use data::Failure;
use data::args::parse_integer;
use wire::{Value, encode_command};

use super::{ErrandAnswer, Heard, LOOK_REPLIES, Say, Seen, Side, Target, greeted, greeting, look_at, seen};

/// So many keys are on their way at once, unless they are large ([`MIGRATION_BYTES_TARGET`]).
const BATCH: usize = 16;
/// Most keys of one command.
const KEYS_MAX: usize = 65_536;
/// Unless the client says how long. As in a Redis.
const TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Begin,
    SourceSelected,
    Looked,
    Greeted,
    Sent,
    Removed,
}

/// See the file's head.
#[derive(Debug)]
pub(super) struct Migration {
    from: Vec<u8>,
    durability: Option<&'static str>,
    host: String,
    port: u16,
    timeout: Duration,
    database: Vec<u8>,
    /// The words of `AUTH`; empty: none.
    login: Vec<Vec<u8>>,
    keeps: bool,
    replaces: bool,
    keys: Vec<Vec<u8>>,
    /// Keys up to here were looked at.
    next: usize,
    /// Those of this batch that are there, and whether the target has taken each.
    batch: Vec<(Vec<u8>, Seen, bool)>,
    batch_bytes: usize,
    found_any: bool,
    is_greeted: bool,
    /// The first refusal of the target, or the first key that could not be removed here.
    complaint: Option<String>,
    step: Step,
}

impl Migration {
    /// `MIGRATE host port key|"" destination-db timeout [COPY] [REPLACE] [AUTH password | AUTH2 username password] [KEYS key [key …]]`
    pub(super) fn parse(from: &[u8], durability: Option<&'static str>, words: &[&[u8]]) -> Result<Migration, Failure> {
        let text = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
        let (mut keeps, mut replaces, mut login, mut keys) = (false, false, Vec::new(), vec![words[3].to_vec()]);
        let mut place = 6;
        while let Some(word) = words.get(place) {
            let rest = words.len() - place - 1;
            match word.to_ascii_lowercase().as_slice() {
                b"copy" => keeps = true,
                b"replace" => replaces = true,
                b"auth" if rest >= 1 => {
                    login = vec![words[place + 1].to_vec()];
                    place += 1;
                }
                b"auth2" if rest >= 2 => {
                    login = vec![words[place + 1].to_vec(), words[place + 2].to_vec()];
                    place += 2;
                }
                b"keys" if !words[3].is_empty() => {
                    return Err(Failure::Text(
                        "ERR When using MIGRATE KEYS option, the key argument must be set to the empty string",
                    ));
                }
                b"keys" => {
                    keys = words[place + 1..].iter().map(|key| key.to_vec()).collect();
                    place = words.len();
                }
                _ => return Err(Failure::Syntax),
            }
            place += 1;
        }
        if keys.len() > KEYS_MAX {
            return Err(Failure::Text("ERR MIGRATE takes 65536 keys at the most: send them as several"));
        }
        let not_a_number = Failure::Text("ERR value is not an integer or out of range");
        let timeout = parse_integer(words[5]).ok_or_else(|| not_a_number.clone())?;
        parse_integer(words[4]).ok_or(not_a_number)?;
        let port = parse_integer(words[2]).and_then(|port| u16::try_from(port).ok());
        Ok(Migration {
            from: from.to_vec(),
            durability,
            host: text(words[1]),
            port: port.ok_or(Failure::Text("ERR Invalid TCP port specified"))?,
            timeout: u64::try_from(timeout)
                .ok()
                .filter(|it| *it > 0)
                .map_or(TIMEOUT, Duration::from_millis)
                .min(MIGRATION_TIMEOUT_MAX),
            database: words[4].to_vec(),
            login,
            keeps,
            replaces,
            keys,
            next: 0,
            batch: Vec::new(),
            batch_bytes: 0,
            found_any: false,
            is_greeted: false,
            complaint: None,
            step: Step::Begin,
        })
    }

    pub(super) fn target(&self) -> Target {
        Target::Server { host: self.host.clone(), port: self.port, timeout: self.timeout }
    }

    pub(super) fn go_on(&mut self, heard: Heard) -> Say {
        let replies = match heard {
            Heard::Nothing => Vec::new(),
            Heard::Replies(replies) => replies,
            Heard::NoConnection(Side::Target) => {
                return error("IOERR error or timeout connecting to the client".to_owned());
            }
            Heard::NoAnswer(Side::Target) => {
                return error("IOERR error or timeout reading to target instance".to_owned());
            }
            Heard::NoConnection(Side::Source) | Heard::NoAnswer(Side::Source) => {
                return error("UNKNOWN the node broke it off; keys may be in both places, and none is lost".to_owned());
            }
        };
        match self.step {
            Step::Begin => {
                let (bytes, count) = greeting(&self.from, self.durability);
                self.say(Side::Source, bytes, count, Step::SourceSelected)
            }
            Step::SourceSelected => match greeted(&replies) {
                Ok(()) => self.look(),
                Err(text) => error(text),
            },
            Step::Looked => {
                match seen(replies) {
                    Ok(Some(seen)) => {
                        self.found_any = true;
                        self.batch_bytes += seen.payload.len();
                        self.batch.push((self.keys[self.next].clone(), seen, false));
                    }
                    Ok(None) => {}
                    Err(text) => return error(text),
                }
                self.next += 1;
                self.look()
            }
            Step::Greeted => match replies.iter().find(|reply| matches!(reply, Value::Error(_))) {
                Some(Value::Error(text)) => error(refused(text)),
                _ => {
                    self.is_greeted = true;
                    self.send()
                }
            },
            Step::Sent => {
                for ((_, _, taken), reply) in self.batch.iter_mut().zip(&replies) {
                    // A key is removed here only if the target has plainly said that it has it.
                    let text = match reply {
                        Value::Simple(text) if text == "OK" => {
                            *taken = true;
                            continue;
                        }
                        Value::Error(text) => text,
                        _ => "it is no OK",
                    };
                    self.complaint.get_or_insert_with(|| refused(text));
                }
                self.batch.retain(|(_, _, taken)| *taken);
                if self.keeps || self.batch.is_empty() { self.look_anew() } else { self.remove() }
            }
            Step::Removed => {
                for ((key, ..), reply) in self.batch.iter().zip(&replies) {
                    let why = match reply {
                        Value::Integer(_) => continue,
                        Value::Null => "ERR it was changed meanwhile",
                        Value::Error(text) => text,
                        _ => "ERR",
                    };
                    let key = String::from_utf8_lossy(key);
                    let place = if why.starts_with("UNKNOWN") { "perhaps still here" } else { "still here" };
                    let text = format!("{why}: the key \"{key}\" is at the target, and {place}");
                    self.complaint = self.complaint.take().or(Some(text));
                }
                self.look_anew()
            }
        }
    }

    fn say(&mut self, side: Side, bytes: Vec<u8>, replies: usize, next: Step) -> Say {
        self.step = next;
        Say::To(side, bytes, replies)
    }

    /// The next batch.
    fn look_anew(&mut self) -> Say {
        self.batch.clear();
        self.batch_bytes = 0;
        self.look()
    }

    /// The next key, or what was found so far goes to the target, or all is done. One key after the other: nobody knows how large the next one is.
    fn look(&mut self) -> Say {
        let is_full = self.batch.len() >= BATCH || self.batch_bytes >= MIGRATION_BYTES_TARGET;
        match self.keys.get(self.next).filter(|_| !is_full) {
            Some(key) => self.say(Side::Source, look_at(key), LOOK_REPLIES, Step::Looked),
            None if !self.batch.is_empty() && self.is_greeted => self.send(),
            None if !self.batch.is_empty() => self.greet(),
            None => Say::Done(match (self.complaint.take(), self.found_any) {
                (Some(text), _) => ErrandAnswer::Error(text),
                (None, true) => ErrandAnswer::Status("OK"),
                (None, false) => ErrandAnswer::Status("NOKEY"),
            }),
        }
    }

    fn greet(&mut self) -> Say {
        let mut bytes = Vec::new();
        if !self.login.is_empty() {
            let words: Vec<&[u8]> = std::iter::once(&b"AUTH"[..]).chain(self.login.iter().map(Vec::as_slice)).collect();
            encode_command(&mut bytes, words);
        }
        encode_command(&mut bytes, [&b"SELECT"[..], &self.database]);
        let count = usize::from(!self.login.is_empty()) + 1;
        self.say(Side::Target, bytes, count, Step::Greeted)
    }

    fn send(&mut self) -> Say {
        let mut bytes = Vec::new();
        for (key, seen, _) in &mut self.batch {
            let deadline = seen.deadline.to_string();
            let payload = std::mem::take(&mut seen.payload);
            let mut words: Vec<&[u8]> = vec![b"RESTORE", key, deadline.as_bytes(), &payload, b"ABSTTL"];
            words.extend(self.replaces.then_some(&b"REPLACE"[..]));
            encode_command(&mut bytes, words);
        }
        let count = self.batch.len();
        self.say(Side::Target, bytes, count, Step::Sent)
    }

    fn remove(&mut self) -> Say {
        let mut bytes = Vec::new();
        for (key, seen, _) in &self.batch {
            let revision = seen.revision.to_string();
            encode_command(&mut bytes, [&b"DICTUM.DEL"[..], key, b"IFREVISION", revision.as_bytes()]);
        }
        let count = self.batch.len();
        self.say(Side::Source, bytes, count, Step::Removed)
    }
}

fn error(text: String) -> Say {
    Say::Done(ErrandAnswer::Error(text))
}

fn refused(text: &str) -> String {
    format!("ERR Target instance replied with error: {text}")
}
