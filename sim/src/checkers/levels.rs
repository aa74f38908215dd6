//! Each level of consistency gives what it promises, seen from outside: counters that only grow are counted up and read at every level.
//!
//! - A write counts once: no two are told the same sum, and no sum is larger than the number of attempts.
//! - `session`: a read with a token sees no less than anybody has seen whose token stands for no more.
//! - `session` and `local`: on one connection no value is smaller than one before it, its own writes included.
//! - `local`: a read that says how old it is at most sees every write that was answered before then.
//!
//! That a write of the durability `all` is on every disk when it is answered is seen from within: `cluster/watching.rs`.

use std::collections::{BTreeMap, BTreeSet};

use crate::chaos::MS;
use crate::history::raw_key;

/// What one operation on a counter was told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sight {
    /// The counter, with its bucket before it.
    pub key: String,
    /// Who asked.
    pub client: u64,
    /// On which of its connections.
    pub connection: u64,
    /// When it was asked, in nanoseconds.
    pub invoke: u64,
    /// When the answer was there, in nanoseconds.
    pub finish: u64,
    /// The counter's value; 0 where there is none.
    pub value: u64,
    /// What was asked.
    pub kind: Kind,
    /// What `DICTUM.TOKEN` answered behind it.
    pub token: Option<String>,
}

/// What was asked of a counter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    /// To count up by one.
    Count,
    /// To be read as `session`, with this token.
    Session(Option<String>),
    /// To be read as `local`; it was said to be no older than so many milliseconds.
    Local(Option<u64>),
}

/// What clients have seen of the counters.
#[derive(Debug, Default)]
pub struct Levels {
    /// In the order of the answers.
    pub sights: Vec<Sight>,
    /// When each counter was to be counted up, whatever became of it.
    pub attempts: BTreeMap<String, Vec<u64>>,
    /// Tokens that clients have been given, by bucket, the latest last.
    pub tokens: BTreeMap<String, Vec<String>>,
}

/// The part of a token that names a bucket's life, and the revision of the partition that a key is in: the token has one for each partition, which
/// have equally many hash slots.
fn parts<'a>(token: &'a str, key: &str) -> Option<(&'a str, u64)> {
    let (bucket, revisions) = token.split_once(':')?;
    let revisions: Vec<&str> = revisions.split(',').collect();
    let slot = usize::from(base::slots::hash_slot(raw_key(key).as_bytes()));
    let revision = revisions[slot * revisions.len() / usize::from(base::limits::HASH_SLOTS)];
    Some((bucket, revision.parse().ok()?))
}

/// Everything that contradicts the promises. `slowest_rate`: how fast the slowest clock runs, in millionths.
#[must_use]
pub fn check(levels: &Levels, slowest_rate: u64) -> Vec<String> {
    let mut violations = Vec::new();
    let mut of_key: BTreeMap<&str, Vec<&Sight>> = BTreeMap::new();
    for sight in &levels.sights {
        of_key.entry(&sight.key).or_default().push(sight);
    }
    for (key, sights) in of_key {
        let attempts = levels.attempts.get(key).map_or(&[][..], Vec::as_slice);
        check_sums(&sights, attempts, &mut violations);
        check_tokens(&sights, &mut violations);
        check_connections(&sights, &mut violations);
        check_ages(&sights, slowest_rate, &mut violations);
    }
    violations
}

fn check_sums(sights: &[&Sight], attempts: &[u64], violations: &mut Vec<String>) {
    let mut sums = BTreeSet::new();
    for sight in sights {
        if sight.kind == Kind::Count && !sums.insert(sight.value) {
            violations.push(format!("two writes were told the same sum: {sight:?}"));
        }
        let possible = attempts.iter().filter(|at| **at < sight.finish).count() as u64;
        if sight.value > possible {
            violations.push(format!("more was counted than the {possible} attempts: {sight:?}"));
        }
    }
}

fn check_tokens(sights: &[&Sight], violations: &mut Vec<String>) {
    for sight in sights {
        let Kind::Session(Some(floor)) = &sight.kind else { continue };
        let Some((bucket, revision)) = parts(floor, &sight.key) else {
            violations.push(format!("a token that cannot be read: {sight:?}"));
            continue;
        };
        let is_older = |other: &&&Sight| {
            let token = other.token.as_deref().and_then(|token| parts(token, &other.key));
            token.is_some_and(|(of, at)| of == bucket && at <= revision)
        };
        if let Some(other) = sights.iter().filter(is_older).find(|other| other.value > sight.value) {
            violations.push(format!("{sight:?} is older than its token: {other:?}"));
        }
    }
}

fn check_connections(sights: &[&Sight], violations: &mut Vec<String>) {
    let mut last: BTreeMap<(u64, u64), &Sight> = BTreeMap::new();
    for sight in sights {
        if let Some(before) = last.insert((sight.client, sight.connection), sight)
            && before.value > sight.value
        {
            violations.push(format!("a connection went back in time: {before:?}, then {sight:?}"));
        }
    }
}

fn check_ages(sights: &[&Sight], slowest_rate: u64, violations: &mut Vec<String>) {
    for sight in sights {
        let Kind::Local(Some(age_ms)) = sight.kind else { continue };
        // A clock that runs slow finds everything younger than it is.
        let age = (u128::from(age_ms * MS) * 1_000_000).div_ceil(u128::from(slowest_rate.max(1)));
        let fresh_at = u128::from(sight.invoke).saturating_sub(age);
        let counted = sights.iter().filter(|other| other.kind == Kind::Count && u128::from(other.finish) < fresh_at);
        if let Some(other) = counted.max_by_key(|other| other.value).filter(|other| other.value > sight.value) {
            violations.push(format!("{sight:?} is older than it says: {other:?}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sight(client: u64, at: u64, value: u64, kind: Kind, token: &str) -> Sight {
        let (invoke, finish) = (at * MS, at * MS + 1);
        let token = Some(token.to_owned());
        Sight { key: "l".to_owned(), client, connection: 0, invoke, finish, value, kind, token }
    }

    fn found(sights: Vec<Sight>, attempts: usize) -> usize {
        let attempts = BTreeMap::from([("l".to_owned(), vec![0; attempts])]);
        check(&Levels { sights, attempts, tokens: BTreeMap::new() }, 1_000_000).len()
    }

    #[test]
    fn a_stale_read_with_a_token_is_seen() {
        let session = |token: &str| Kind::Session(Some(token.to_owned()));
        let counted = sight(1, 1, 3, Kind::Count, "0:10");
        assert_eq!(found(vec![counted.clone(), sight(2, 2, 3, session("0:10"), "0:10")], 3), 0);
        assert_eq!(found(vec![counted.clone(), sight(2, 2, 2, session("0:9"), "0:9")], 3), 0, "an older token");
        assert_eq!(found(vec![counted.clone(), sight(2, 2, 2, session("1:10"), "1:10")], 3), 0, "another life");
        assert_eq!(found(vec![counted.clone(), sight(2, 2, 2, session("0:10"), "0:10")], 3), 1);
        assert_eq!(found(vec![counted, sight(2, 2, 2, Kind::Session(None), "0:10")], 3), 0, "nothing asked");
    }

    #[test]
    fn a_connection_that_goes_back_is_seen() {
        let local = Kind::Local(None);
        assert_eq!(found(vec![sight(1, 1, 3, local.clone(), "0:1"), sight(2, 2, 2, local.clone(), "0:1")], 3), 0);
        assert_eq!(found(vec![sight(1, 1, 3, local.clone(), "0:1"), sight(1, 2, 2, local, "0:1")], 3), 1);
    }

    #[test]
    fn an_age_that_is_too_young_is_seen() {
        let counted = sight(1, 100, 3, Kind::Count, "0:1");
        assert_eq!(found(vec![counted.clone(), sight(2, 200, 2, Kind::Local(Some(120)), "0:1")], 3), 0);
        assert_eq!(found(vec![counted, sight(2, 200, 2, Kind::Local(Some(90)), "0:1")], 3), 1);
    }

    #[test]
    fn counting_twice_is_seen() {
        assert_eq!(found(vec![sight(1, 1, 1, Kind::Count, "0:1"), sight(2, 2, 1, Kind::Count, "0:2")], 2), 1);
        assert_eq!(found(vec![sight(1, 1, 3, Kind::Count, "0:1")], 2), 1);
    }
}
