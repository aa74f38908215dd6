//! A caller that subscribes to changes, and goes on from where it was on its next connection.
//!
//! Some have a name that others have, too: each takes over from the one before, and goes on where something was acknowledged last.
//!
//! It wants the same keys for all its life. It keeps its place as any client would: the token that it was answered, and the revision of each change behind that. What it was told it
//! writes down for the checker (`checkers/subscriptions.rs`).

use std::collections::VecDeque;

use base::Rng;
use wire::{ReplyLimits, ReplyParser, Value, encode_command};

use crate::checkers::subscriptions::{Changes, Place, Stream, Told, Wanted};

/// The question of an answer.
#[derive(Clone, Debug)]
enum Asked {
    Hello,
    Subscribe { from: Option<Place>, restates: bool, at: u64 },
    Attach { restates: bool, at: u64 },
    Acknowledge(usize),
    Unsubscribe,
    Ping,
}

/// A connection that it has.
#[derive(Debug)]
struct Connection {
    parser: ReplyParser,
    resp3: bool,
    asked: VecDeque<Asked>,
    /// The subscription's number, and its place among all streams.
    stream: Option<(i64, usize)>,
    /// That of its attachment, if it has attached to its name.
    epoch: Option<i64>,
    /// Nothing can be told any more: it leaves.
    is_over: bool,
}

/// See the file's head.
#[derive(Debug)]
pub(super) struct Subscriber {
    wanted: Wanted,
    name: Option<String>,
    connection: Option<Connection>,
    pub(super) asked_at: u64,
    /// Where it is; none before the first answer, and behind a gap.
    place: Option<Place>,
}

impl Subscriber {
    pub(super) fn new(rng: &mut Rng) -> Subscriber {
        let wanted = match rng.below(8) {
            0 | 1 => Wanted::All,
            2 => Wanted::Prefix("k".to_owned()),
            3 => Wanted::Prefix(rng.pick(&["note:", "copy:", "c", "l"]).to_string()),
            4 => Wanted::Keys((0..4).map(|number| format!("k{number}")).collect()),
            5 => Wanted::Matching(rng.pick(&["k", "", "no"]).to_string(), rng.below(4).to_string()),
            6 => Wanted::Removals,
            _ => Wanted::Prefix(format!("k{}", rng.below(4))),
        };
        let name = rng.chance(1, 3).then(|| rng.pick(&["mail", "{k0}:mail"]).to_string());
        Subscriber { wanted, name, connection: None, asked_at: 0, place: None }
    }

    pub(super) fn is_connected(&self) -> bool {
        self.connection.is_some()
    }

    pub(super) fn connected(&mut self, now: u64, rng: &mut Rng, send: &mut Vec<u8>) {
        // In RESP2 a connection that subscribes cannot acknowledge.
        let resp3 = self.name.is_some() || rng.chance(2, 3);
        let mut asked = VecDeque::new();
        if resp3 {
            encode_command(send, ["HELLO", "3"]);
            asked.push_back(Asked::Hello);
        }
        self.asked_at = now;
        let parser = ReplyParser::new(ReplyLimits::default());
        self.connection = Some(Connection { parser, resp3, asked, stream: None, epoch: None, is_over: false });
    }

    /// Its connection is gone.
    pub(super) fn disconnected(&mut self, now: u64, changes: &mut Changes) {
        if let Some((_, stream)) = self.connection.take().and_then(|connection| connection.stream) {
            changes.streams[stream].until.get_or_insert(now);
        }
    }

    /// Something is awaited.
    pub(super) fn waits(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| !connection.asked.is_empty())
    }

    /// It has nothing more to hear on this connection.
    pub(super) fn is_over(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| connection.is_over)
    }

    pub(super) fn act(&mut self, now: u64, rng: &mut Rng, changes: &mut Changes, send: &mut Vec<u8>) {
        if self.waits() {
            return;
        }
        let Some(connection) = &mut self.connection else { return };
        self.asked_at = now;
        let Some((number, stream)) = connection.stream else {
            if let Some(name) = &self.name {
                let restates = self.wanted != Wanted::Removals && rng.chance(1, 2);
                let mut words = ["DICTUM.SUBSCRIBE", "NAME", name].map(str::to_owned).to_vec();
                words.extend(restates.then_some(["ON", "GAP", "RESTATE"]).into_iter().flatten().map(str::to_owned));
                self.wanted.say(&mut words);
                encode_command(send, words.iter().map(String::as_str));
                changes.names.ask(name, now);
                connection.asked.push_back(Asked::Attach { restates, at: now });
                return;
            }
            // Now and then it wants to hear of what is new alone.
            let from = self.place.clone().filter(|_| !rng.chance(1, 8));
            let mut words = vec!["DICTUM.SUBSCRIBE".to_owned()];
            // What is there can be asked for with changes of all kinds alone.
            let may_restate = self.wanted != Wanted::Removals;
            let with_state = may_restate && from.is_none() && rng.chance(1, 2);
            let restates = may_restate && (with_state || rng.chance(1, 2));
            if with_state {
                words.extend(["WITH", "STATE"].map(str::to_owned));
            } else {
                words.extend(["FROM".to_owned(), from.as_ref().map_or_else(|| "NOW".to_owned(), Place::to_string)]);
                words.extend(restates.then_some(["ON", "GAP", "RESTATE"]).into_iter().flatten().map(str::to_owned));
            }
            self.wanted.say(&mut words);
            encode_command(send, words.iter().map(String::as_str));
            connection.asked.push_back(Asked::Subscribe { from, restates, at: now });
            return;
        };
        if let (Some(name), Some(epoch), Some(place)) = (&self.name, connection.epoch, &self.place)
            && rng.chance(1, 3)
        {
            encode_command(send, ["DICTUM.ACK", name, &epoch.to_string(), &place.to_string()]);
            connection.asked.push_back(Asked::Acknowledge(changes.names.acknowledge(name, epoch, place, now)));
            return;
        }
        if rng.chance(1, 20) {
            encode_command(send, ["DICTUM.UNSUBSCRIBE", &number.to_string()]);
            connection.asked.push_back(Asked::Unsubscribe);
            // What is on its way is of no meaning any more.
            changes.streams[stream].until.get_or_insert(now);
        } else {
            encode_command(send, ["PING"]);
            connection.asked.push_back(Asked::Ping);
        }
    }

    /// Bytes have come.
    pub(super) fn on_bytes(
        &mut self,
        bytes: &[u8],
        (caller, node, now): (u64, u16, u64),
        changes: &mut Changes,
    ) -> Result<(), String> {
        let Some(connection) = &mut self.connection else { return Ok(()) };
        connection.parser.push(bytes);
        if let Some((_, stream)) = connection.stream {
            changes.streams[stream].heard = now;
        }
        while let Some(value) = connection.parser.next().map_err(|error| format!("not RESP: {error}"))? {
            let message = match &value {
                Value::Push(parts) if connection.resp3 => Some(parts),
                Value::Array(parts) if !connection.resp3 => Some(parts),
                _ => None,
            };
            let word = message.and_then(|parts| parts.first()?.as_bytes()).unwrap_or_default();
            if word == b"dictum.moved-away" {
                if let Some((_, stream)) = connection.stream {
                    changes.streams[stream].until.get_or_insert(now);
                }
                let name = self.name.as_deref().unwrap_or_default();
                changes.names.moved_away(name, connection.epoch.unwrap_or_default(), now);
                connection.is_over = true;
                continue;
            }
            if let Some(parts) = message.filter(|_| word.starts_with(b"dictum.")) {
                if connection.is_over {
                    continue;
                }
                let Some((number, stream)) = connection.stream else {
                    return Err(format!("told {value:?} without a subscription"));
                };
                let (told, is_over) = Told::read(parts, number, now)?;
                let stream = &mut changes.streams[stream];
                match (&told, &mut self.place) {
                    _ if stream.until.is_some() => {}
                    (Told::Live(to), place) => *place = Some(to.clone()),
                    // Until it is live again there is no place to go on from.
                    (Told::Gap { .. }, place) => *place = None,
                    (told, Some(place)) => told.move_place(place),
                    (_, None) => {}
                }
                if stream.until.is_none() {
                    stream.told.push(told);
                }
                if is_over {
                    stream.until.get_or_insert(now);
                    connection.is_over = true;
                }
                continue;
            }
            self.asked_at = now;
            match (connection.asked.pop_front().ok_or_else(|| format!("an answer to nothing: {value:?}"))?, &value) {
                (Asked::Hello, _) | (Asked::Ping, _) => {}
                // It stops, has no copy, is too busy, or does not know of subscriptions.
                (Asked::Acknowledge(ack), answer) => {
                    let is_taken = matches!(answer, Value::Integer(_));
                    changes.names.answer(ack, is_taken, now);
                    // A refused one has been taken over, and is told so; or nobody knows what has come of it.
                    connection.is_over |= !is_taken && connection.stream.is_none();
                }
                (_, Value::Error(_)) => connection.is_over = true,
                (Asked::Attach { restates, at }, Value::Array(parts)) => {
                    let [Value::Integer(number), token, Value::Integer(epoch), Value::Integer(_)] = parts.as_slice()
                    else {
                        return Err(format!("unexpected answer {value:?}"));
                    };
                    let token = token.as_bytes().map(|token| String::from_utf8_lossy(token).into_owned());
                    let Some(place) = token.map(|token| Place::parse(&token)).transpose()? else {
                        // What was acknowledged is of another history.
                        changes.names.nowhere(self.name.as_deref().unwrap_or_default(), now);
                        connection.is_over = true;
                        continue;
                    };
                    connection.stream = Some((*number, changes.streams.len()));
                    connection.epoch = Some(*epoch);
                    self.place = Some(place.clone());
                    let name = self.name.clone().unwrap_or_default();
                    changes.names.attach(&name, (*epoch, &place), (at, now), changes.streams.len());
                    changes.streams.push(Stream {
                        caller,
                        node,
                        wanted: self.wanted.clone(),
                        // Where it begins is judged by what was acknowledged.
                        from: Some(place.clone()),
                        restates,
                        began: Some(place),
                        asked: at,
                        answered: now,
                        heard: now,
                        told: Vec::new(),
                        until: None,
                    });
                }
                (Asked::Subscribe { from, restates, at }, Value::Array(parts)) => {
                    let [Value::Integer(number), token] = parts.as_slice() else {
                        return Err(format!("unexpected answer {value:?}"));
                    };
                    // One that begins with what is there is nowhere yet.
                    let token = token.as_bytes().map(|token| String::from_utf8_lossy(token).into_owned());
                    let place = token.map(|token| Place::parse(&token)).transpose()?;
                    connection.stream = Some((*number, changes.streams.len()));
                    self.place.clone_from(&place);
                    changes.streams.push(Stream {
                        caller,
                        node,
                        wanted: self.wanted.clone(),
                        from,
                        restates,
                        began: place,
                        asked: at,
                        answered: now,
                        heard: now,
                        told: Vec::new(),
                        until: None,
                    });
                }
                (Asked::Unsubscribe, Value::Simple(_)) => (connection.stream, connection.epoch) = (None, None),
                (asked, other) => return Err(format!("unexpected answer {other:?} to {asked:?}")),
            }
        }
        Ok(())
    }
}
