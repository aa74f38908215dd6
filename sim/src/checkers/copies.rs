//! Client-side caching: at the end, when nothing happens any more, nobody keeps a value that was overwritten: of whatever a client keeps on a connection that stands, nothing is older than the
//! last write that was acknowledged some time before.
//!
//! Each key has one writer, who writes growing numbers, one after the other, and leaves a key for ever when he does not know what became of a write.

use std::collections::BTreeMap;

use base::Rng;

use super::messages::Troubles;

/// A write of a key. Times are nanoseconds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Write {
    /// Which key.
    pub key: String,
    /// A number greater than all before.
    pub value: u64,
    /// When it was sent.
    pub asked: u64,
    /// When it was acknowledged.
    pub answered: Option<u64>,
}

/// What a client keeps on one connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cache {
    /// Whose it is.
    pub caller: u64,
    /// Who tells it of changes.
    pub node: u16,
    /// When the connection was made.
    pub from: u64,
    /// When it was given up, or known to be lost.
    pub until: Option<u64>,
    /// Keys with what they were when they were read; 0: not there.
    pub held: BTreeMap<String, u64>,
}

/// What callers wrote down.
#[derive(Clone, Debug, Default)]
pub struct Copies {
    /// In the order in which they were sent.
    pub writes: Vec<Write>,
    /// In the order of their connections.
    pub caches: Vec<Cache>,
    /// How often each writer has left its keys.
    pub generations: BTreeMap<u64, u64>,
}

impl Copies {
    /// A key that was written lately.
    #[must_use]
    pub fn draw_key(&self, rng: &mut Rng) -> Option<String> {
        let back = rng.below(12).min(self.writes.len() as u64);
        self.writes.iter().rev().nth(back as usize).map(|write| write.key.clone())
    }
}

/// How many violations are told.
const TOLD_MAX: usize = 5;

/// Judges what callers keep at the end. `settled`: what was acknowledged before must have been told.
#[must_use]
pub fn check(copies: &Copies, troubles: &Troubles, settled: u64) -> Vec<String> {
    let mut last: BTreeMap<&str, u64> = BTreeMap::new();
    let mut unknown: BTreeMap<&str, u64> = BTreeMap::new();
    for write in &copies.writes {
        match write.answered {
            Some(at) if at < settled => drop(last.insert(&write.key, write.value)),
            Some(_) => {}
            None => drop(unknown.insert(&write.key, write.value)),
        }
    }
    let mut found = Vec::new();
    // A connection to a process that has died stands until it is looked at.
    let stands = |cache: &&Cache| cache.until.is_none() && !troubles.dies(cache.node, cache.from);
    for cache in copies.caches.iter().filter(stands) {
        for (key, value) in &cache.held {
            let least = last.get(key.as_str()).copied().unwrap_or(0);
            if *value < least && !unknown.contains_key(key.as_str()) {
                let Cache { caller, node, from, .. } = cache;
                found.push(format!(
                    "caller {caller} (at n{} since {from}) keeps {value} of {key}, which was {least} long before the end",
                    node + 1
                ));
            }
        }
    }
    found.truncate(TOLD_MAX);
    found
}

/// How many values are kept on connections that stand: a run in which that is none has shown nothing.
#[must_use]
pub fn held_count(copies: &Copies) -> usize {
    copies.caches.iter().filter(|cache| cache.until.is_none()).map(|cache| cache.held.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(held: &[(&str, u64)], change: fn(&mut Copies, &mut Troubles)) -> Vec<String> {
        let write = |key: &str, value: u64, answered| Write { key: key.to_owned(), value, asked: value, answered };
        let writes =
            vec![write("a", 1, Some(10)), write("b", 2, Some(20)), write("a", 3, Some(30)), write("a", 4, Some(95))];
        let held = held.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect();
        let cache = Cache { caller: 1, node: 0, from: 5, until: None, held };
        let mut copies = Copies { writes, caches: vec![cache], ..Copies::default() };
        let mut troubles = Troubles::default();
        change(&mut copies, &mut troubles);
        check(&copies, &troubles, 90)
    }

    #[test]
    fn old_copies_are_seen() {
        assert_eq!(judged(&[("a", 3), ("b", 2)], |_, _| ()), [""; 0]);
        assert_eq!(judged(&[("a", 4)], |_, _| ()), [""; 0], "what was acknowledged at the very end may be known");
        assert_eq!(judged(&[("a", 1), ("b", 2)], |_, _| ()).len(), 1);
        assert_eq!(judged(&[("a", 0), ("b", 0)], |_, _| ()).len(), 2, "that there was nothing is kept, too");
    }

    #[test]
    fn what_nobody_keeps_or_knows_is_excused() {
        let old = [("a", 1)];
        assert!(judged(&old, |copies, _| copies.caches[0].until = Some(50)).is_empty());
        assert!(judged(&old, |_, troubles| troubles.died(0, 50)).is_empty());
        assert!(judged(&old, |copies, _| copies.writes[2].answered = None).is_empty());
        assert_eq!(judged(&old, |_, troubles| troubles.died(1, 50)).len(), 1);
    }
}
