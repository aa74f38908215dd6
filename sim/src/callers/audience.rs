//! The connection of a caller that publishes, listens or watches: what it asked for and listens to, and what it makes of what it hears.

use base::Rng;
use wire::{ReplyParser, Value, encode_command};

use crate::checkers::messages::{Kind, Messages, Subscription};
use crate::checkers::notes::Watch;
use crate::client::Wishes;

pub(super) const CHANNELS: [&str; 4] = ["c0", "c1", "d0", "d1"];
const PATTERNS: [&str; 4] = ["c*", "?0", "[cd]1", "*"];

/// Keys of which watchers are told begin so.
pub(super) const NOTED: &str = "note:";
/// What they are told of.
pub(super) const EVENTS: [&str; 2] = ["__keyevent@0__:set", "__keyevent@0__:expired"];

/// What an answer is to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Asked {
    Publication(usize),
    Note(usize),
    Write(usize),
}

/// See the file's head.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) parser: ReplyParser,
    /// Which of the caller's connections it is.
    pub(super) number: u64,
    pub(super) resp3: bool,
    /// The answer to HELLO, or to a watcher's CONFIG SET, is awaited.
    pub(super) greeting: bool,
    /// It was refused. A watcher may not be told of anything then, and tries again on another connection.
    pub(super) refused: bool,
    /// What was asked and not answered, in order; and when the first of it was.
    pub(super) asked: Vec<Asked>,
    pub(super) asked_at: u64,
    /// When it began.
    pub(super) opened: u64,
    /// What it is told of keys, by its place among all watches.
    pub(super) watch: Option<usize>,
    /// When a PING was sent that is not answered.
    pub(super) pinged_at: Option<u64>,
    /// What it listens to, by its place among all subscriptions; none while the confirmation is awaited.
    pub(super) listens: Vec<(Kind, String, Option<usize>)>,
}

/// Asks to listen to one more name, unless that is listened to.
pub(super) fn listen(connection: &mut Connection, rng: &mut Rng, wishes: &mut Wishes) {
    let (kind, names) = *rng.pick(&[
        (Kind::Channel, CHANNELS),
        (Kind::Pattern, PATTERNS),
        (Kind::Shard, CHANNELS),
        (Kind::Channel, CHANNELS),
    ]);
    let name = *rng.pick(&names);
    if connection.listens.iter().any(|(other, listened, _)| *other == kind && listened == name) {
        return;
    }
    let command = ["SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE"][kind as usize];
    encode_command(&mut wishes.send, [command, name]);
    connection.listens.push((kind, name.to_owned(), None));
}

/// Takes note of what a caller hears.
pub(super) fn heard(
    connection: &mut Connection,
    (caller, node): (u64, u16),
    value: &Value,
    now: u64,
    messages: &mut Messages,
) -> Result<(), String> {
    if connection.greeting && !matches!(value, Value::Push(_)) {
        connection.greeting = false;
        connection.refused = matches!(value, Value::Error(_));
        return Ok(());
    }
    let parts = match value {
        Value::Push(parts) if connection.resp3 => parts,
        Value::Array(parts) if !connection.resp3 && !connection.listens.is_empty() => parts,
        Value::Simple(pong) if pong == "PONG" => {
            connection.pinged_at = None;
            return Ok(());
        }
        Value::Integer(_) | Value::Simple(_) if !connection.asked.is_empty() => {
            match (connection.asked.remove(0), value) {
                (Asked::Publication(place), Value::Integer(_)) => messages.publications[place].answered = Some(now),
                (Asked::Note(place), Value::Simple(ok)) if ok == "OK" => {
                    messages.notes.notes[place].answered = Some(now)
                }
                (Asked::Write(place), Value::Simple(ok)) if ok == "OK" => {
                    messages.copies.writes[place].answered = Some(now);
                }
                (asked, other) => return Err(format!("unexpected answer {other:?} to {asked:?}")),
            }
            connection.asked_at = now;
            return Ok(());
        }
        // A node that stops, or is too busy, refuses.
        Value::Error(_) if !connection.asked.is_empty() => {
            if let Asked::Write(_) = connection.asked.remove(0) {
                // It may be done, or be done later.
                *messages.copies.generations.entry(caller).or_default() += 1;
            }
            connection.asked_at = now;
            return Ok(());
        }
        Value::Error(_) => return Ok(()),
        other => return Err(format!("unexpected answer {other:?}")),
    };
    let text =
        |place: usize| parts.get(place).and_then(Value::as_bytes).map(|it| String::from_utf8_lossy(it).into_owned());
    let (word, name) = (text(0).unwrap_or_default(), text(1).unwrap_or_default());
    let kind = match word.as_str() {
        "pong" => {
            connection.pinged_at = None;
            return Ok(());
        }
        "unsubscribe" | "punsubscribe" | "sunsubscribe" => return Ok(()),
        "subscribe" | "message" => Kind::Channel,
        "psubscribe" | "pmessage" => Kind::Pattern,
        "ssubscribe" | "smessage" => Kind::Shard,
        other => return Err(format!("unexpected message {other:?}")),
    };
    if EVENTS.contains(&name.as_str()) {
        if connection.refused {
            return Ok(());
        }
        return told(connection, (caller, node), &word, (name, text(2).unwrap_or_default()), now, messages);
    }
    let (number, opened) = (connection.number, connection.opened);
    let listened = connection.listens.iter_mut().find(|(other, known, _)| *other == kind && *known == name);
    if word.ends_with("subscribe") {
        if let Some((_, _, at @ None)) = listened {
            *at = Some(messages.subscriptions.len());
            let connection = (caller, number);
            let (from, until, heard) = (now, None, Vec::new());
            messages.subscriptions.push(Subscription { connection, node, kind, name, opened, from, until, heard });
        }
        return Ok(());
    }
    let (channel, message) = if kind == Kind::Pattern { (text(2), text(3)) } else { (text(1), text(2)) };
    let said = (channel.unwrap_or_default(), message.unwrap_or_default());
    // What becomes of keys fits `*` as well.
    if said.0.starts_with("__key") {
        return Ok(());
    }
    // What it does not listen to any more may be on its way to it.
    let connection = (caller, number);
    let of_name = |it: &&mut Subscription| it.connection == connection && it.kind == kind && it.name == name;
    match messages.subscriptions.iter_mut().rev().find(of_name) {
        Some(subscription) => subscription.heard.push(said),
        None => return Err(format!("hears {said:?} by {kind:?} {name}, which it does not listen to")),
    }
    Ok(())
}

/// Takes note of what a watcher hears.
fn told(
    connection: &mut Connection,
    (caller, node): (u64, u16),
    word: &str,
    (channel, key): (String, String),
    now: u64,
    messages: &mut Messages,
) -> Result<(), String> {
    let watches = &mut messages.notes.watches;
    match (word, connection.watch) {
        // Told from the last confirmation on.
        ("subscribe", _) if channel == EVENTS[1] => {
            connection.watch = Some(watches.len());
            let (number, opened) = (connection.number, connection.opened);
            watches.push(Watch { caller, number, node, opened, from: now, until: None, told: Vec::new() });
        }
        ("subscribe", _) => {}
        ("message", Some(place)) if key.starts_with(NOTED) => watches[place].told.push((channel == EVENTS[1], key)),
        // Before the first confirmation, or a key of others.
        ("message", _) => {}
        _ => return Err(format!("hears {word} of {channel}")),
    }
    Ok(())
}
