//! Clients that go while they wait: an element that was pushed some time later is taken for none of them.
//!
//! The search for an order lets a pop without an answer take effect at any time. This is sharper: the node hears within some time that its client is gone, and
//! what the pop has on its way then is over soon after. So of an element that was pushed later still, and that somebody looked for in vain, some other operation
//! must be able to say that it has taken it.

use std::collections::BTreeMap;

use super::waiting::{elements, may_remove};
use crate::history::{Op, Operation, Outcome, Reply, bucket_of};

/// How many violations are told.
const TOLD_MAX: usize = 5;

/// Judges a history. `gone`: operations whose client went before they were answered, with when. `is_calm` and `known_within` as in [`super::waiting::check`].
#[must_use]
pub fn check(
    history: &[Operation],
    gone: &BTreeMap<usize, u64>,
    is_calm: impl Fn(u64, u64) -> bool,
    known_within: u64,
) -> Vec<String> {
    // From when on nothing can be taken for a pop that is dead.
    let mut dead: BTreeMap<usize, u64> = BTreeMap::new();
    for (&place, &at) in gone {
        let Some(pop) = history.get(place) else { continue };
        let waits = pop.commands.len() == 1 && pop.commands[0].op == Op::Pop && pop.commands[0].argument.is_some();
        let over = at.saturating_add(known_within);
        if waits && is_calm(pop.invoke.saturating_sub(known_within), over) {
            dead.insert(place, over);
        }
    }
    let mut found = Vec::new();
    for (&place, &over) in &dead {
        let (pop, key) = (&history[place], history[place].commands[0].key.as_str());
        // Elsewhere keys may be removed to make room, or be forgotten.
        if !bucket_of(key).is_empty() {
            continue;
        }
        let of_key: Vec<(usize, &Operation)> =
            history.iter().enumerate().filter(|(_, it)| it.commands.iter().any(|command| command.key == key)).collect();
        let later = |it: &&(usize, &Operation)| it.1.outcome == Outcome::Done && it.1.invoke > over;
        for (_, push) in of_key.iter().filter(later) {
            for (_, element, _, known) in elements(push, key) {
                let missed = of_key.iter().find(|(_, look)| look.invoke > known && misses(look, key, element));
                let Some((_, look)) = missed else { continue };
                let until = look.finish.unwrap_or(u64::MAX);
                let is_dead = |other: usize| dead.get(&other).is_some_and(|over| *over < push.invoke);
                let mut others = of_key.iter().filter(|(other, _)| !is_dead(*other));
                if !others.any(|(_, it)| may_remove(it, key, element, push.invoke, until)) {
                    found.push(format!(
                        "{element} was pushed to {key} at {}, and is gone at {until}, though nobody has taken it but \
                         client {}, that waited there and went before {over}",
                        push.invoke, pop.client
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

/// Whether somebody has looked at all of a key, and not found an element.
fn misses(look: &Operation, key: &str, element: &str) -> bool {
    let [command] = &look.commands[..] else { return false };
    let all = look.outcome == Outcome::Done && command.op == Op::Get && command.key == key;
    all && match &look.replies[..] {
        [Reply::Nil] => true,
        [Reply::Text(text)] => !text.contains(element),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Command;

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

    /// A client waits and goes at 20; an element is pushed; somebody looks for it.
    fn violations(pushed: u64, seen: Reply, other: Option<Operation>, calm: bool) -> usize {
        let pop = Command::new(Op::Pop, "q0").with_argument("0.4");
        let pop = done(1, pop, Reply::Nil, (10, 20));
        let pop = Operation { outcome: Outcome::Maybe, replies: Vec::new(), finish: None, ..pop };
        let push = Command::new(Op::Append, "q0").with_argument("xx");
        let look = Command::new(Op::Get, "q0");
        let mut history = vec![
            pop,
            done(2, push, Reply::Integer(2), (pushed, pushed + 5)),
            done(2, look, seen, (pushed + 50, pushed + 60)),
        ];
        history.extend(other);
        check(&history, &BTreeMap::from([(0, 20)]), |_, _| calm, 10).len()
    }

    #[test]
    fn what_is_gone_was_taken_for_somebody() {
        let there = || Reply::Text("xx".to_owned());
        assert_eq!(violations(40, Reply::Nil, None, true), 1);
        assert_eq!(violations(40, there(), None, true), 0, "it is there");
        assert_eq!(violations(25, Reply::Nil, None, true), 0, "the pop may have been on its way");
        assert_eq!(violations(40, Reply::Nil, None, false), 0, "something has happened");
        let other = |op, reply| Some(done(3, Command::new(op, "q0"), reply, (50, 60)));
        assert_eq!(violations(40, Reply::Nil, other(Op::Pop, there()), true), 0, "another one has it");
        assert_eq!(violations(40, Reply::Nil, other(Op::Pop, Reply::Nil), true), 1);
        assert_eq!(violations(40, Reply::Nil, other(Op::Del, Reply::Integer(1)), true), 0);
    }
}
