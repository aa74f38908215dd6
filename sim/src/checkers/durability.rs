//! Property: what was acknowledged is still there at the end.
//!
//! Linearizability together with final reads says the same of every key. This says it of keys that are written once
//! (`s:…`, `z#…`, `y@…`, `j%…`) without any search, so that a lost write is told as what it is.

use std::collections::BTreeMap;

use super::scan::{LASTING_FIELDS, LASTING_MEMBERS, LASTING_PREFIX, LASTING_SCORED};
use crate::history::{Op, Operation, Outcome, Reply};

/// What was found wrong. The last definite read of each key counts.
#[must_use]
pub fn check(history: &[Operation]) -> Vec<String> {
    let mut last_reads: BTreeMap<&str, (u64, &Reply)> = BTreeMap::new();
    let mut acknowledged = Vec::new();
    for operation in history.iter().filter(|operation| operation.outcome == Outcome::Done) {
        for (command, reply) in operation.commands.iter().zip(&operation.replies) {
            let lasting = [LASTING_PREFIX, LASTING_FIELDS, LASTING_MEMBERS, LASTING_SCORED];
            if !lasting.iter().any(|prefix| command.key.starts_with(prefix)) {
                continue;
            }
            match command.op {
                Op::Set => acknowledged.push((operation, command)),
                Op::Get => {
                    let last = last_reads.entry(&command.key).or_insert((operation.invoke, reply));
                    if operation.invoke >= last.0 {
                        *last = (operation.invoke, reply);
                    }
                }
                _ => {}
            }
        }
    }
    let mut violations = Vec::new();
    for (operation, command) in acknowledged {
        if let Some((at, reply)) = last_reads.get(command.key.as_str())
            && *at > operation.finish.unwrap_or(u64::MAX)
            && **reply != Reply::Text(command.argument.clone().unwrap_or_default())
        {
            let key = &command.key;
            violations.push(format!("{key} was acknowledged at {:?} and read as {reply:?} at {at}", operation.finish));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Command, answered};

    #[test]
    fn a_lost_write_is_seen() {
        let write = answered(Command::new(Op::Set, "s:a").with_argument("v"), 0, Reply::Text("OK".into()));
        let read = |at: u64, reply: Reply| answered(Command::new(Op::Get, "s:a"), at, reply);
        assert!(check(&[write.clone(), read(10, Reply::Text("v".into()))]).is_empty());
        assert!(check(&[write.clone(), read(3, Reply::Nil)]).is_empty(), "concurrent");
        assert_eq!(check(&[write, read(10, Reply::Text("v".into())), read(20, Reply::Nil)]).len(), 1);
    }
}
