//! Waiting: a pop that waits, or a read that waits for what is added, does not come back empty-handed while nothing happens to the cluster and there is an element all the time.
//!
//! That what it brings was there, and that it is brought once, is for the search for an order; nil it may always answer there, as the list was empty when it began to wait. Here it is asked what came later: an
//! element that was acknowledged some time before the pop gave up, and that nobody can have taken out before then, is one that somebody was not told of.

use std::collections::BTreeMap;

use crate::history::{Command, Op, Operation, Outcome, Reply, TOKEN_BYTES, bucket_of};

/// How many violations are told.
const TOLD_MAX: usize = 5;

/// Judges a history. `is_calm`: whether nothing happened to any node or link for all of a time; `known_within`: how long a node may need to hear of an element and to send for it. Times are nanoseconds.
#[must_use]
pub fn check(history: &[Operation], is_calm: impl Fn(u64, u64) -> bool, known_within: u64) -> Vec<String> {
    let mut by_key: BTreeMap<&str, Vec<&Operation>> = BTreeMap::new();
    for operation in history {
        let mut keys: Vec<&str> = operation.commands.iter().map(|command| command.key.as_str()).collect();
        keys.sort_unstable();
        keys.dedup();
        keys.into_iter().for_each(|key| by_key.entry(key).or_default().push(operation));
    }
    let mut found = Vec::new();
    for (key, operations) in by_key {
        // Elsewhere keys may be removed to make room, or be forgotten.
        if !bucket_of(key).is_empty() {
            continue;
        }
        for pop in &operations {
            let Some(until) = gave_up(pop) else { continue };
            let pushes = operations.iter().filter(|it| it.outcome == Outcome::Done);
            for (push, element, length, known) in pushes.flat_map(|push| elements(push, key)) {
                let (mut from, mut removed_from) = (known.saturating_sub(known_within), push.invoke);
                let command = &pop.commands[0];
                match command.number.filter(|_| command.op == Op::Tail) {
                    // What was there when it was asked is not meant, nor what a stream has that is made anew: it begins below the old end.
                    Some(-1) if push.invoke < pop.invoke.saturating_add(known_within) => continue,
                    Some(-1) => (from, removed_from) = (pop.invoke, pop.invoke),
                    Some(tokens) if length <= tokens * TOKEN_BYTES as i64 => continue,
                    _ => {}
                }
                if known.saturating_add(known_within) < until
                    && from >= pop.invoke
                    && !operations.iter().any(|it| may_remove(it, key, element, removed_from, until))
                    && is_calm(from, until)
                {
                    found.push(format!(
                        "client {} waited for {key} and gave up at {until}, though {element} was there since {known}",
                        pop.client
                    ));
                    break;
                }
            }
            if found.len() >= TOLD_MAX {
                return found;
            }
        }
    }
    found
}

/// When a pop or a read that waited came back with nothing.
fn gave_up(operation: &Operation) -> Option<u64> {
    let [Command { op: Op::Pop | Op::Tail, argument: Some(_), .. }] = &operation.commands[..] else { return None };
    if operation.replies == [Reply::Nil] { operation.finish } else { None }
}

/// What an acknowledged operation has added to a list or a stream, how long that was then if it says so, and when it was known.
pub(super) fn elements<'a>(
    operation: &'a Operation,
    key: &'a str,
) -> impl Iterator<Item = (&'a Operation, &'a str, i64, u64)> {
    let added = operation.commands.iter().zip(&operation.replies).filter(move |(command, _)| command.key == key);
    added.filter_map(move |(command, reply)| {
        let length = match (command.op, reply) {
            (Op::Append | Op::Prepend, Reply::Integer(length)) => *length,
            (Op::Push, Reply::Text(_)) => 0,
            _ => return None,
        };
        Some((operation, command.argument.as_deref()?, length, operation.finish?))
    })
}

/// Whether an operation may have taken an element out between two times.
pub(super) fn may_remove(operation: &Operation, key: &str, element: &str, from: u64, until: u64) -> bool {
    let meets = operation.invoke <= until && operation.finish.is_none_or(|finish| finish >= from);
    meets
        && operation.outcome != Outcome::Failed
        && operation.commands.iter().enumerate().any(|(place, command)| {
            let reply = operation.replies.get(place).filter(|_| operation.outcome == Outcome::Done);
            command.key == key
                && match (command.op, reply) {
                    (Op::Append | Op::Prepend | Op::Push | Op::Get | Op::Tail | Op::Exists, _) => false,
                    (Op::Pop | Op::GetDel, Some(Reply::Text(text))) => text.contains(element),
                    (Op::Pop | Op::GetDel, Some(Reply::Nil)) => false,
                    _ => true,
                }
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(client: u64, command: Command, reply: Reply, (invoke, finish): (u64, u64)) -> Operation {
        Operation {
            client,
            commands: vec![command],
            watched: Vec::new(),
            invoke,
            finish: Some(finish),
            outcome: Outcome::Done,
            replies: vec![reply],
        }
    }

    fn violations(between: Option<Operation>, pushed_at: u64, calm: bool) -> usize {
        let pop = Command::new(Op::Pop, "q0").with_argument("0.4");
        let push = Command::new(Op::Append, "q0").with_argument("xx");
        let mut history =
            vec![done(1, pop, Reply::Nil, (10, 100)), done(2, push, Reply::Integer(2), (pushed_at - 5, pushed_at))];
        history.extend(between);
        check(&history, |_, _| calm, 10).len()
    }

    #[test]
    fn what_was_there_all_the_time_is_missed() {
        assert_eq!(violations(None, 50, true), 1);
        assert_eq!(violations(None, 50, false), 0, "something happened");
        assert_eq!(violations(None, 95, true), 0, "too late");
    }

    #[test]
    fn a_read_waits_for_what_comes_behind_its_place() {
        let found = |number: i64, pushed_at: u64, length: i64| {
            let tail = Command::new(Op::Tail, "t0").with_number(number).with_argument("0.4");
            let push = Command::new(Op::Append, "t0").with_argument("xx");
            let push = done(2, push, Reply::Integer(length), (pushed_at - 5, pushed_at));
            check(&[done(1, tail, Reply::Nil, (10, 100)), push], |_, _| true, 10).len()
        };
        assert_eq!((found(2, 50, 30), found(3, 50, 30)), (1, 0));
        assert_eq!((found(-1, 50, 30), found(-1, 24, 30)), (1, 0), "it may have been there already");
        let tail = Command::new(Op::Tail, "t0").with_number(-1).with_argument("0.4");
        let push = Command::new(Op::Append, "t0").with_argument("xx");
        let history = [
            done(1, tail, Reply::Nil, (10, 100)),
            done(3, Command::new(Op::Del, "t0"), Reply::Integer(1), (15, 20)),
            done(2, push, Reply::Integer(10), (45, 50)),
        ];
        assert_eq!(
            check(&history, |_, _| true, 10).len(),
            0,
            "a stream that is made anew begins below the end of the old one"
        );
        let pop = Command::new(Op::Pop, "m0").with_argument("0.4");
        let push = Command::new(Op::Push, "m0").with_argument("xx");
        let history = [done(1, pop, Reply::Nil, (10, 100)), done(2, push, Reply::Text("OK".to_owned()), (45, 50))];
        assert_eq!(check(&history, |_, _| true, 10).len(), 1);
    }

    #[test]
    fn what_somebody_else_may_have_taken_is_not() {
        let other = |op, reply, times| Some(done(3, Command::new(op, "q0"), reply, times));
        assert_eq!(violations(other(Op::Pop, Reply::Text("xx".to_owned()), (60, 70)), 50, true), 0);
        assert_eq!(violations(other(Op::Pop, Reply::Text("yy".to_owned()), (60, 70)), 50, true), 1, "another element");
        assert_eq!(violations(other(Op::Pop, Reply::Text("xx".to_owned()), (110, 120)), 50, true), 1, "afterwards");
        assert_eq!(violations(other(Op::Del, Reply::Integer(1), (60, 70)), 50, true), 0);
        let unknown = done(3, Command::new(Op::Pop, "q0"), Reply::Nil, (60, 70));
        let unknown = Operation { outcome: Outcome::Maybe, replies: Vec::new(), finish: None, ..unknown };
        assert_eq!(violations(Some(unknown), 50, true), 0);
    }
}
