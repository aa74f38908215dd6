//! Property: a bucket's terms hold for its entries. Values that are too long are refused and no others, room is denied only where there is a
//! quota, and keys with a default time to live are over when it is.
//!
//! That a refused command changed nothing is for the search for an order to say, as is the shortest that such keys live. (Settings are known to
//! nodes late: whatever was asked for before may be what a node goes by.)

use std::collections::{BTreeMap, BTreeSet};

use crate::client::Record;
use crate::history::{Command, Op, Operation, Outcome, Reply, bucket_of};
use crate::settings::{Settings, Span, span_of};

/// What a bucket with a quota says when it is full, to the letter.
pub const NO_ROOM: &str = "OOM command not allowed when used memory > 'maxmemory'.";
/// What is said of a value that is longer than the bucket takes.
pub const TOO_LONG: &str = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";

/// A command that was refused by its bucket's terms.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// What was asked.
    pub command: Command,
    /// When it was asked, and when the refusal arrived, in nanoseconds.
    pub span: Span,
    /// Its text.
    pub text: String,
}

/// Whether an error is a refusal by a bucket's terms.
#[must_use]
pub fn is_refusal(text: &str) -> bool {
    text == NO_ROOM || text == TOO_LONG
}

/// What was found wrong. `clock_error`: how wrong two wall clocks together may be, in nanoseconds.
#[must_use]
pub fn check(history: &[Operation], record: &Record, settings: &Settings, clock_error: u64) -> Vec<String> {
    let mut violations = Vec::new();
    for Refusal { command, span, text } in &record.refusals {
        let (bucket, op) = (bucket_of(&command.key), command.op);
        let excuse = if text == NO_ROOM {
            command.needs_room() && settings.quota(bucket, *span).0.is_some()
        } else {
            let limit = settings.value_bytes_max(bucket, *span).0;
            limit.is_some_and(|limit| op == Op::Append || op.may_grow() && longest_word(command) > limit)
        };
        if !excuse {
            violations.push(format!("{op:?} {} was refused at {} for no reason: {text}", command.key, span.1));
        }
    }
    for operation in history.iter().filter(|operation| operation.outcome == Outcome::Done) {
        for (command, reply) in operation.commands.iter().zip(&operation.replies) {
            let until = operation.finish.unwrap_or(u64::MAX);
            let limit = settings.value_bytes_max(bucket_of(&command.key), span_of(operation)).1;
            let length = match (command.op, reply) {
                (_, Reply::Refused { .. }) => 0,
                (Op::Append, Reply::Integer(length)) => u64::try_from(*length).unwrap_or(0),
                (op, _) if op.may_grow() => longest_word(command),
                _ => 0,
            };
            if limit.is_some_and(|limit| length > limit) {
                violations.push(format!(
                    "{:?} {} made a value of {length} bytes at {until}, of which {limit:?} are allowed",
                    command.op, command.key
                ));
            }
        }
    }
    violations.extend(outlived(history, &record.scripted, settings, clock_error));
    violations
}

fn longest_word(command: &Command) -> u64 {
    let words = [&command.argument, &command.expected].into_iter().flatten();
    words.map(|word| word.chars().count() as u64).max().unwrap_or(0)
}

/// A command with its operation, and its reply if there is one.
type Use<'a> = (&'a Operation, &'a Command, Option<&'a Reply>);

/// Values that were read when their time was certainly over. Looked at are keys whose time to live nothing changes but writing them, and
/// reads that were not sent together with writes: one that stands before a write of its connection is answered before that is applied, and a key that
/// no entry has expired by then is there for everybody.
fn outlived(
    history: &[Operation],
    scripted: &BTreeSet<(u64, u64)>,
    settings: &Settings,
    clock_error: u64,
) -> Vec<String> {
    let mut keys: BTreeMap<&str, Vec<Use<'_>>> = BTreeMap::new();
    for operation in history.iter().filter(|operation| operation.outcome != Outcome::Failed) {
        for (place, command) in operation.commands.iter().enumerate() {
            keys.entry(&command.key).or_default().push((operation, command, operation.replies.get(place)));
        }
    }
    let reads = |command: &Command| matches!(command.op, Op::Get | Op::Exists | Op::Pttl);
    let writes = history.iter().filter(|operation| !operation.commands.iter().all(reads));
    let written_at = writes.map(|write| (write.client, write.invoke));
    // What is said in a script is a write to the node.
    let written_at: BTreeSet<(u64, u64)> = written_at.chain(scripted.iter().copied()).collect();
    let mut violations = Vec::new();
    for (key, uses) in keys {
        let given = |(operation, command, _): &Use<'_>| {
            let said = command.number.filter(|_| matches!(command.op, Op::SetPx | Op::Pexpire));
            let usual = settings.lifetime_of(command, operation).map_or(0, |it| it.most_ms);
            usual.max(said.and_then(|number| u64::try_from(number).ok()).unwrap_or(0))
        };
        let longest = uses.iter().map(given).max().unwrap_or(0);
        for (operation, command, reply) in &uses {
            if let (Op::Pttl, Some(Reply::Integer(left))) = (command.op, reply)
                && i64::try_from(longest).is_ok_and(|longest| *left > longest)
            {
                violations
                    .push(format!("{key} was to live for {left} ms at {}, not {longest} at most", operation.invoke));
            }
        }
        if uses.iter().any(|(_, command, _)| matches!(command.op, Op::Persist | Op::Pexpire | Op::Append | Op::Incr)) {
            continue;
        }
        // By value, each of which is written once: when it is certainly over.
        let mut over: BTreeMap<&str, u64> = BTreeMap::new();
        for (operation, command, _) in &uses {
            let (Some(value), Some(finish)) = (&command.argument, operation.finish) else { continue };
            let lifetime = match command.op {
                Op::SetPx => command.number.and_then(|number| u64::try_from(number).ok()),
                op if op.may_grow() => {
                    settings.lifetime_of(command, operation).filter(|it| it.certain).map(|it| it.most_ms)
                }
                _ => None,
            };
            if let Some(lifetime) = lifetime.filter(|_| operation.outcome == Outcome::Done) {
                over.insert(value, finish.saturating_add(lifetime.saturating_mul(1_000_000) + clock_error));
            }
        }
        for (operation, command, reply) in uses {
            if let (Op::Get, Some(Reply::Text(value))) = (command.op, reply)
                && let Some(end) = over.get(value.as_str())
                && *end < operation.invoke
                && !written_at.contains(&(operation.client, operation.invoke))
            {
                violations.push(format!("{key} had {value} at {}, though it was over by {end}", operation.invoke));
            }
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::answered;

    fn ok() -> Reply {
        Reply::Text("OK".into())
    }

    fn with_refusal(refusal: Refusal) -> Record {
        Record { refusals: vec![refusal], ..Record::default() }
    }

    #[test]
    fn values_are_as_long_as_they_may_be() {
        let mut settings = Settings::default();
        settings.made("t", "VALUE-BYTES-MAX 4 QUOTA 0");
        let set = |value: &str| Command::new(Op::Set, "t/k").with_argument(value);
        let append = Command::new(Op::Append, "t/k").with_argument("ab");
        let made = |operation: Operation| check(&[operation], &Record::default(), &settings, 0).len();
        assert_eq!((made(answered(set("abcd"), 0, ok())), made(answered(set("abcde"), 0, ok()))), (0, 1));
        let appended = |length| answered(append.clone(), 0, Reply::Integer(length));
        assert_eq!((made(appended(4)), made(appended(5))), (0, 1));
        let refused = |command: Command, text: &str| {
            check(&[], &with_refusal(Refusal { command, span: (5, 10), text: text.to_owned() }), &settings, 0).len()
        };
        assert_eq!((refused(set("abcd"), TOO_LONG), refused(set("abcde"), TOO_LONG)), (1, 0));
        assert_eq!(refused(append.clone(), TOO_LONG), 0, "nobody knows how long it would be");
        assert_eq!(refused(set("a"), NO_ROOM), 1, "there is no quota");
        settings.made("q", "KIND ephemeral QUOTA 100");
        let refused = |op: Op| {
            let command = Command::new(op, "q/k").with_argument("v");
            check(&[], &with_refusal(Refusal { command, span: (5, 10), text: NO_ROOM.to_owned() }), &settings, 0).len()
        };
        assert_eq!((refused(Op::Set), refused(Op::Del)), (0, 1));
    }

    #[test]
    fn keys_are_over_when_their_time_is() {
        const SECOND: u64 = 1_000_000_000;
        let mut settings = Settings::default();
        settings.made("t", "TTL 1");
        let write = answered(Command::new(Op::Set, "t/k").with_argument("v"), 0, ok());
        let read = |at: u64| answered(Command::new(Op::Get, "t/k"), at, Reply::Text("v".into()));
        let check = |read: Operation, more: Option<Operation>| {
            let history: Vec<Operation> = [write.clone(), read].into_iter().chain(more).collect();
            check(&history, &Record::default(), &settings, SECOND).len()
        };
        assert_eq!((check(read(2 * SECOND), None), check(read(2 * SECOND + 6), None)), (0, 1));
        let left = |left: i64| answered(Command::new(Op::Pttl, "t/k"), 10, Reply::Integer(left));
        assert_eq!((check(left(1000), None), check(left(1001), None)), (0, 1));
        let persist = answered(Command::new(Op::Persist, "t/k"), 10, Reply::Integer(1));
        assert_eq!(check(read(3 * SECOND), Some(persist)), 0);
        // Sent together with something in a script, it is answered before that.
        let history = [write.clone(), read(2 * SECOND + 6)];
        let scripted = [(history[1].client, history[1].invoke)].into();
        assert!(super::check(&history, &Record { scripted, ..Record::default() }, &settings, SECOND).is_empty());
    }
}
