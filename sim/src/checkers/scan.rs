//! Property: a complete SCAN reports every key that was there from its beginning to its end, and none that never was.
//!
//! Looked at are only keys that are written once and never removed (`s:…`): for those "was there" is easily said.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{Op, Operation, Outcome};

/// The prefix of fields of a hash that are written once and never removed; HSCAN reports them.
pub const LASTING_FIELDS: &str = "z#";
/// The prefix of members of a set that are added once and never removed; SSCAN reports them.
pub const LASTING_MEMBERS: &str = "y@";
/// The prefix of members of a sorted set that are added once and never removed; ZSCAN reports them.
pub const LASTING_SCORED: &str = "j%";
/// The prefix of keys that are written once and never removed.
pub const LASTING_PREFIX: &str = "s:";
/// The same in the bucket that may be cut into partitions.
pub const LASTING_PREFIX_PARTED: &str = "p/s:";

/// One SCAN from beginning to end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scan {
    /// When the first page was asked for, in nanoseconds.
    pub invoke: u64,
    /// When the last page had arrived, in nanoseconds.
    pub finish: u64,
    /// The keys of all pages.
    pub found: BTreeSet<String>,
}

/// What was found wrong with scans that look for keys with this prefix.
#[must_use]
pub fn check(history: &[Operation], scans: &[Scan], prefix: &str) -> Vec<String> {
    // By key: the earliest moment at which it can have been written, and the moment from which it certainly was.
    let mut written: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for operation in history.iter().filter(|operation| operation.outcome != Outcome::Failed) {
        for command in &operation.commands {
            if command.op == Op::Set && command.key.starts_with(prefix) {
                let certain = match (operation.outcome, operation.finish) {
                    (Outcome::Done, Some(finish)) => finish,
                    _ => u64::MAX,
                };
                written.insert(&command.key, (operation.invoke, certain));
            }
        }
    }
    let mut violations = Vec::new();
    for scan in scans {
        for (key, (_, certain)) in &written {
            if *certain <= scan.invoke && !scan.found.contains(*key) {
                violations.push(format!(
                    "SCAN from {} to {} lacks {key}, which was written by {certain}",
                    scan.invoke, scan.finish
                ));
            }
        }
        for key in &scan.found {
            if written.get(key.as_str()).is_none_or(|(earliest, _)| *earliest > scan.finish) {
                violations.push(format!("SCAN from {} to {} has {key}, which nobody wrote", scan.invoke, scan.finish));
            }
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Command, Reply};

    fn set(key: &str, finish: Option<u64>) -> Operation {
        Operation {
            client: 0,
            commands: vec![Command::new(Op::Set, key).with_argument("v")],
            watched: vec![],
            invoke: 10,
            finish,
            outcome: if finish.is_some() { Outcome::Done } else { Outcome::Maybe },
            replies: finish.iter().map(|_| Reply::Text("OK".into())).collect(),
        }
    }

    fn scan(found: &[&str]) -> Scan {
        Scan { invoke: 50, finish: 60, found: found.iter().map(ToString::to_string).collect() }
    }

    #[test]
    fn keys_that_are_there_are_found() {
        let history = [set("s:a", Some(20)), set("s:late", Some(55)), set("s:perhaps", None)];
        assert!(check(&history, &[scan(&["s:a"]), scan(&["s:a", "s:late", "s:perhaps"])], LASTING_PREFIX).is_empty());
        assert_eq!(check(&history, &[scan(&[])], LASTING_PREFIX).len(), 1, "one is missing");
        assert_eq!(check(&history, &[scan(&["s:a", "s:ghost"])], LASTING_PREFIX).len(), 1, "one was never there");
    }
}
