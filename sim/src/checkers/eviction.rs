//! Property: a key vanishes by itself only by an eviction entry.
//!
//! The linearizability checker says so, which is told of each eviction as of a removal that found its key: at some moment between the first one
//! at which any log was so long as to hold the entry, and the first one at which any replica had applied it.

use std::collections::{BTreeMap, BTreeSet};

use base::{PartitionId, Position};
use node::CacheNews;

use crate::history::{Command, Op, Operation, Outcome, Reply, text_of};

/// Evictions are operations of clients that nobody else is: nothing orders them but time.
const CLIENTS_FROM: u64 = 1 << 32;

/// What was evicted so far.
#[derive(Debug, Default)]
pub struct Evictions {
    /// Of each partition: when any log was first seen to have so many entries.
    held: BTreeMap<PartitionId, Vec<u64>>,
    seen: BTreeSet<(PartitionId, u64, Vec<u8>)>,
}

impl Evictions {
    /// Somebody has gone on alone: of each partition only so much is remembered.
    pub fn retain(&mut self, until: impl Fn(PartitionId) -> Position) {
        self.held.iter_mut().for_each(|(partition, held)| held.truncate(until(*partition).0 as usize + 1));
        self.seen.retain(|(partition, position, _)| *position <= until(*partition).0);
    }

    /// A node has had a turn. Returns the evictions that nobody has shown before, as operations for the history.
    pub fn observe(&mut self, now: u64, news: &CacheNews) -> Vec<Operation> {
        let held = self.held.entry(news.partition).or_default();
        while held.len() as u64 <= news.last.0 {
            held.push(now);
        }
        let mut operations = Vec::new();
        for (position, key) in &news.evicted {
            if self.seen.insert((news.partition, position.0, key.clone())) {
                operations.push(Operation {
                    client: CLIENTS_FROM + self.seen.len() as u64,
                    commands: vec![Command::new(Op::Del, format!("{}/{}", news.bucket, text_of(key)))],
                    watched: Vec::new(),
                    invoke: held.get(position.0 as usize).copied().unwrap_or(0),
                    finish: Some(now),
                    outcome: Outcome::Done,
                    replies: vec![Reply::Integer(1)],
                });
            }
        }
        operations
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::linearizability::{Limits, check};
    use crate::history::answered;

    #[test]
    fn a_key_that_vanishes_without_an_eviction_is_seen() {
        let write = answered(Command::new(Op::Set, "c/r0").with_argument("a"), 0, Reply::Text("OK".into()));
        let read = |at: u64, reply: Reply| answered(Command::new(Op::Get, "c/r0"), at, reply);
        let there = || Reply::Text("a".into());
        let fails = |history: &[Operation]| !check(history, Limits::default()).violations.is_empty();
        assert!(fails(&[write.clone(), read(50, Reply::Nil)]));
        // A log got so long at 20 as to hold the entry, and a replica had applied it at 40; another one later.
        let news = |last: u64, evicted: &[(u64, &str)]| CacheNews {
            bucket: "c".to_owned(),
            last: Position(last),
            evicted: evicted.iter().map(|(at, key)| (Position(*at), key.as_bytes().to_vec())).collect(),
            ..CacheNews::default()
        };
        let mut evictions = Evictions::default();
        evictions.observe(10, &news(6, &[]));
        evictions.observe(20, &news(7, &[]));
        let mut removals = evictions.observe(40, &news(7, &[(7, "r0")]));
        removals.extend(evictions.observe(60, &news(8, &[(7, "r0")])));
        assert_eq!(removals.len(), 1);
        let with = |reads: &[Operation]| [std::slice::from_ref(&write), &removals, reads].concat();
        assert!(!fails(&with(&[read(10, there()), read(30, Reply::Nil), read(50, Reply::Nil)])));
        assert!(!fails(&with(&[read(30, there()), read(50, Reply::Nil)])));
        assert!(fails(&with(&[read(10, Reply::Nil)])), "before it was proposed");
        assert!(fails(&with(&[read(50, there())])), "after it was applied");
    }
}
