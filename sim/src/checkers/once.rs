//! Property: a command happens once, however often it was forwarded, retried or repeated with `DICTUM.ONCE`.
//!
//! 1. Counters (`c…`) only grow by INCR: a definite read shows at least the sum of what was acknowledged before it,
//!    and at most that plus everything uncertain or under way.
//! 2. Appended tokens (`a…`) are unique: a value holds no token twice, none that failed, and every one that was
//!    acknowledged before the read began.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{Op, Operation, Outcome, Reply};

/// What was found wrong. Only keys that see nothing but INCR or APPEND and GET are looked at.
#[must_use]
pub fn check(history: &[Operation]) -> Vec<String> {
    let mut keys: BTreeMap<&str, Vec<&Operation>> = BTreeMap::new();
    for operation in history.iter().filter(|operation| operation.commands.len() == 1) {
        let command = &operation.commands[0];
        if command.key.starts_with('a') || command.key.starts_with('c') {
            keys.entry(&command.key).or_default().push(operation);
        }
    }
    let mut violations = Vec::new();
    for (key, operations) in keys {
        let only = |op: Op| operations.iter().all(|operation| [op, Op::Get].contains(&operation.commands[0].op));
        if only(Op::Incr) {
            check_counter(key, &operations, &mut violations);
        } else if only(Op::Append) {
            check_tokens(key, &operations, &mut violations);
        }
    }
    violations
}

/// Definite reads: operation and value.
fn reads<'a>(operations: &[&'a Operation]) -> Vec<(&'a Operation, &'a str)> {
    let mut reads = Vec::new();
    for operation in operations.iter().filter(|operation| operation.outcome == Outcome::Done) {
        if operation.commands[0].op == Op::Get {
            reads.push(match operation.replies.first() {
                Some(Reply::Text(value)) => (*operation, value.as_str()),
                _ => (*operation, ""),
            });
        }
    }
    reads
}

fn check_counter(key: &str, operations: &[&Operation], violations: &mut Vec<String>) {
    for (read, value) in reads(operations) {
        let value: i64 = if value.is_empty() { 0 } else { value.parse().unwrap_or(i64::MIN) };
        let (mut least, mut most) = (0i64, 0i64);
        for operation in operations.iter().filter(|operation| operation.commands[0].op == Op::Incr) {
            let addend = operation.commands[0].number.unwrap_or(1);
            if operation.outcome == Outcome::Done && operation.finish.is_some_and(|finish| finish <= read.invoke) {
                least += addend;
            }
            if operation.outcome != Outcome::Failed && operation.invoke <= read.finish.unwrap_or(u64::MAX) {
                most += addend;
            }
        }
        if value < least || value > most {
            violations.push(format!("{key} was {value} at {}, between {least} and {most} is possible", read.invoke));
        }
    }
}

fn check_tokens(key: &str, operations: &[&Operation], violations: &mut Vec<String>) {
    for (read, value) in reads(operations) {
        let mut tokens = BTreeSet::new();
        for token in value.split_inclusive(';') {
            if !tokens.insert(token) {
                violations.push(format!("{key} holds {token} twice at {}", read.invoke));
            }
        }
        for operation in operations.iter().filter(|operation| operation.commands[0].op == Op::Append) {
            let token = operation.commands[0].argument.as_deref().unwrap_or("");
            let found = tokens.contains(token);
            let before = operation.finish.is_some_and(|finish| finish <= read.invoke);
            if found && operation.outcome == Outcome::Failed {
                violations.push(format!("{key} holds {token} at {}, which was said not to be done", read.invoke));
            }
            if !found && operation.outcome == Outcome::Done && before {
                violations.push(format!("{key} lacks {token} at {}, which was acknowledged", read.invoke));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Command, answered};

    fn operation(command: Command, invoke: u64, outcome: Outcome, reply: Reply) -> Operation {
        let done = outcome == Outcome::Done;
        let replies = if done { vec![reply] } else { vec![] };
        Operation { outcome, replies, ..answered(command, invoke, Reply::Nil) }
    }

    #[test]
    fn counters_count_each_command_once() {
        let increment = |at: u64, outcome: Outcome, sum: i64| {
            operation(Command::new(Op::Incr, "c0"), at, outcome, Reply::Integer(sum))
        };
        let read = |value: &str| {
            let seen = operation(Command::new(Op::Get, "c0"), 100, Outcome::Done, Reply::Text(value.into()));
            check(&[
                increment(0, Outcome::Done, 1),
                increment(10, Outcome::Maybe, 0),
                increment(20, Outcome::Failed, 0),
                seen,
            ])
        };
        assert!(read("1").is_empty() && read("2").is_empty());
        assert_eq!(read("3").len(), 1, "applied twice");
        assert_eq!(read("0").len(), 1, "lost");
    }

    #[test]
    fn tokens_appear_once() {
        let append = |token: &str, outcome: Outcome| {
            operation(Command::new(Op::Append, "a0").with_argument(token), 0, outcome, Reply::Integer(2))
        };
        let read = |value: &str| {
            let seen = operation(Command::new(Op::Get, "a0"), 100, Outcome::Done, Reply::Text(value.into()));
            check(&[append("x;", Outcome::Done), append("y;", Outcome::Maybe), append("z;", Outcome::Failed), seen])
        };
        assert!(read("x;").is_empty() && read("y;x;").is_empty());
        assert_eq!(read("x;x;").len(), 1, "applied twice");
        assert_eq!(read("y;").len(), 1, "lost");
        assert_eq!(read("x;z;").len(), 1, "done though said not to be");
    }
}
