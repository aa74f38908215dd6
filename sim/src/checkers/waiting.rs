//! Waiting: a pop that waits does not come back empty-handed while nothing happens to the cluster and there is an element all the time.
//!
//! That what it brings was there, and that it is brought once, is for the search for an order; nil it may always answer there, as the list was empty when it began to wait. Here it is asked what came later: an
//! element that was acknowledged some time before the pop gave up, and that nobody can have taken out before then, is one that somebody was not told of.

use std::collections::BTreeMap;

use crate::history::{Command, Op, Operation, Outcome, Reply, bucket_of};

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
            for (push, element, known) in pushes.flat_map(|push| elements(push, key)) {
                let from = known.saturating_sub(known_within);
                if known.saturating_add(known_within) < until
                    && from >= pop.invoke
                    && !operations.iter().any(|it| may_remove(it, key, element, push.invoke, until))
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

/// When a pop that waited came back with nothing.
fn gave_up(operation: &Operation) -> Option<u64> {
    let [Command { op: Op::Pop, argument: Some(_), .. }] = &operation.commands[..] else { return None };
    if operation.replies == [Reply::Nil] { operation.finish } else { None }
}

/// What an acknowledged operation has added to a list, and when that was known.
fn elements<'a>(operation: &'a Operation, key: &'a str) -> impl Iterator<Item = (&'a Operation, &'a str, u64)> {
    let added = operation.commands.iter().zip(&operation.replies).filter(move |(command, reply)| {
        command.key == key && matches!(command.op, Op::Append | Op::Prepend) && matches!(reply, Reply::Integer(_))
    });
    added.filter_map(move |(command, _)| Some((operation, command.argument.as_deref()?, operation.finish?)))
}

/// Whether an operation may have taken an element out between two times.
fn may_remove(operation: &Operation, key: &str, element: &str, from: u64, until: u64) -> bool {
    let meets = operation.invoke <= until && operation.finish.is_none_or(|finish| finish >= from);
    meets
        && operation.outcome != Outcome::Failed
        && operation.commands.iter().enumerate().any(|(place, command)| {
            let reply = operation.replies.get(place).filter(|_| operation.outcome == Outcome::Done);
            command.key == key
                && match (command.op, reply) {
                    (Op::Append | Op::Prepend | Op::Get | Op::Exists, _) => false,
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
