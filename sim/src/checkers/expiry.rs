//! Property: no replica shows a key as alive that another has shown as expired.
//!
//! Values are unique and each is written once. So once somebody was definitely told that a key does not hold a value
//! any more, after it had been written for certain, nobody who asks later may be told that it does.

use std::collections::BTreeMap;

use crate::history::{Op, Operation, Outcome, Reply};

/// A definite read: when it was asked and answered, and the value.
type Read<'a> = (u64, u64, Option<&'a str>);

/// What was found wrong.
#[must_use]
pub fn check(history: &[Operation]) -> Vec<String> {
    let done =
        || history.iter().filter(|operation| operation.outcome == Outcome::Done && operation.commands.len() == 1);
    // By key and value: when the write was over for certain.
    let mut written: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for operation in done() {
        let command = &operation.commands[0];
        if let (Op::Set | Op::SetPx, Some(value), Some(finish)) = (command.op, &command.argument, operation.finish) {
            written.insert((&command.key, value), finish);
        }
    }
    let mut reads: BTreeMap<&str, Vec<Read<'_>>> = BTreeMap::new();
    for operation in done().filter(|operation| operation.commands[0].op == Op::Get) {
        let value = match operation.replies.first() {
            Some(Reply::Text(value)) => Some(value.as_str()),
            _ => None,
        };
        let key = operation.commands[0].key.as_str();
        reads.entry(key).or_default().push((operation.invoke, operation.finish.unwrap_or(u64::MAX), value));
    }
    let mut violations = Vec::new();
    for (key, mut reads) in reads {
        reads.sort_unstable();
        // By value: the earliest end of a read that shows that it is over, among reads that began after it was written.
        let mut over: BTreeMap<&str, u64> = BTreeMap::new();
        for (_, value) in written.keys().filter(|(of, _)| *of == key) {
            let since = written[&(key, *value)];
            let end = reads.iter().filter(|(invoke, _, seen)| *invoke > since && *seen != Some(value));
            if let Some(end) = end.map(|(_, finish, _)| *finish).min() {
                over.insert(value, end);
            }
        }
        for (invoke, _, seen) in &reads {
            if let Some(end) = seen.and_then(|value| over.get(value))
                && *end < *invoke
            {
                violations.push(format!("{key} had {seen:?} at {invoke}, though it was shown to be over by {end}"));
            }
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Command, answered};

    #[test]
    fn an_expired_key_stays_expired() {
        let write = Command::new(Op::SetPx, "v0").with_argument("a").with_number(1);
        let write = answered(write, 0, Reply::Text("OK".into()));
        let read = |at: u64, reply: Reply| answered(Command::new(Op::Get, "v0"), at, reply);
        let alive = || Reply::Text("a".into());
        assert!(check(&[write.clone(), read(10, alive()), read(20, Reply::Nil)]).is_empty());
        assert!(check(&[write.clone(), read(20, Reply::Nil), read(22, alive())]).is_empty(), "at the same time");
        assert_eq!(check(&[write, read(20, Reply::Nil), read(30, alive())]).len(), 1);
    }
}
