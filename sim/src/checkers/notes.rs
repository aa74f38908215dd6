//! Keyspace notifications: a listener is told of nothing that was not asked for, of nothing twice, and of everything that its node applies, in one order, which is
//! that of all listeners on all nodes; and at the end, when all replicas are the same, of all writes that were acknowledged.
//!
//! Keys are different from each other, made once, and expire. What an installed snapshot stands for is not told, nor what changes while another node begins to tell it.

use std::collections::{BTreeMap, BTreeSet};

use super::messages::Troubles;

/// A key that was made. Times are nanoseconds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Note {
    /// Different from every other.
    pub key: String,
    /// When it was sent.
    pub asked: u64,
    /// When it was acknowledged.
    pub answered: Option<u64>,
}

/// What one connection was told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Watch {
    /// Who listens.
    pub caller: u64,
    /// On which of its connections.
    pub number: u64,
    /// Who tells.
    pub node: u16,
    /// When the connection began: as of a subscription (`messages.rs`).
    pub opened: u64,
    /// When listening was confirmed.
    pub from: u64,
    /// When the connection was given up, or known to be lost.
    pub until: Option<u64>,
    /// Keys as they were told of: whether as expired (or as set).
    pub told: Vec<(bool, String)>,
}

/// What callers wrote down.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    /// In the order in which they were asked for.
    pub notes: Vec<Note>,
    /// In the order in which listening was confirmed.
    pub watches: Vec<Watch>,
}

/// How many violations are told.
const TOLD_MAX: usize = 5;

/// Judges what callers wrote down. `settled`: what was acknowledged before has been told at the end by every node, if that applies all entries.
#[must_use]
pub fn check(notes: &Notes, troubles: &Troubles, settled: u64, end: u64) -> Vec<String> {
    let mut found = Vec::new();
    let asked: BTreeSet<&str> = notes.notes.iter().map(|note| note.key.as_str()).collect();
    for watch in &notes.watches {
        let mut seen = BTreeSet::new();
        for (expired, key) in &watch.told {
            let what = if *expired { "expired" } else { "set" };
            if !asked.contains(key.as_str()) {
                found.push(format!("{} is told that {key} is {what}, which nobody asked for", who(watch)));
            }
            if !seen.insert((*expired, key.as_str())) {
                found.push(format!("{} is told twice that {key} is {what}", who(watch)));
            }
        }
        if watch.until.is_none()
            && troubles.applies_all(watch.node, watch.from, end)
            && !troubles.dies(watch.node, watch.opened)
        {
            let first = notes.notes.partition_point(|note| note.asked < watch.from);
            let known = |note: &&Note| note.answered.is_some_and(|at| at < settled);
            let missing =
                notes.notes[first..].iter().filter(known).find(|note| !seen.contains(&(false, note.key.as_str())));
            if let Some(note) = missing {
                found.push(format!(
                    "{} is never told that {} was set, asked for at {}",
                    who(watch),
                    note.key,
                    note.asked
                ));
            }
        }
    }
    for (place, watch) in notes.watches.iter().enumerate() {
        let all = |watch: &Watch| troubles.applies_all(watch.node, watch.from, watch.until.unwrap_or(end));
        for other in notes.watches[place + 1..].iter().filter(|other| all(watch) && all(other)) {
            found.extend(disagreement(watch, other));
        }
    }
    found.truncate(TOLD_MAX);
    found
}

/// Between the first and the last thing that both were told, both were told the same.
fn disagreement(one: &Watch, other: &Watch) -> Option<String> {
    let places: BTreeMap<&(bool, String), usize> =
        other.told.iter().enumerate().map(|(place, told)| (told, place)).collect();
    let common: Vec<usize> = (0..one.told.len()).filter(|place| places.contains_key(&one.told[*place])).collect();
    let (first, last) = (*common.first()?, *common.last()?);
    let (there_first, there_last) = (places[&one.told[first]], places[&one.told[last]]);
    let differs = there_first > there_last || one.told[first..=last] != other.told[there_first..=there_last];
    differs.then(|| {
        let pairs = one.told[first..=last].iter().zip(other.told.get(there_first..).unwrap_or_default());
        let at = pairs.clone().position(|(here, there)| here != there).unwrap_or_default();
        let at = pairs.clone().nth(at);
        format!("{} and {} are told differently: {at:?}", who(one), who(other))
    })
}

fn who(watch: &Watch) -> String {
    format!("watcher {} (connection {} to n{}, since {})", watch.caller, watch.number, watch.node + 1, watch.from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(node: u16, from: u64, told: &[&str]) -> Watch {
        let told = told.iter().map(|key| (key.starts_with('x'), key.trim_start_matches('x').to_owned())).collect();
        Watch { caller: 1, number: 1, node, opened: from, from, until: None, told }
    }

    fn judged(watches: Vec<Watch>, troubles: &Troubles) -> Vec<String> {
        let note =
            |number: u64| Note { key: format!("n{number}"), asked: number * 10, answered: Some(number * 10 + 5) };
        check(&Notes { notes: (1..=4).map(note).collect(), watches }, troubles, 1000, 2000)
    }

    #[test]
    fn what_is_right_is_right() {
        let calm = Troubles::default();
        let all = ["n1", "n2", "xn1", "n3", "n4"];
        assert_eq!(judged(vec![watch(0, 0, &all), watch(1, 0, &all), watch(2, 25, &all[2..])], &calm), [""; 0]);
        let mut left = watch(1, 0, &all[..2]);
        left.until = Some(25);
        assert_eq!(judged(vec![left, watch(0, 0, &all)], &calm), [""; 0]);
    }

    #[test]
    fn forged_notifications_are_seen() {
        let calm = Troubles::default();
        let is_told = |watches: Vec<Watch>, what: &str| {
            let found = judged(watches, &calm);
            assert!(found.iter().any(|text| text.contains(what)), "{what}: {found:?}");
        };
        let all = ["n1", "n2", "n3", "n4"];
        is_told(vec![watch(0, 0, &["n1", "n2", "n3", "n4", "n9"])], "nobody asked for");
        is_told(vec![watch(0, 0, &["n1", "n2", "n2", "n3", "n4"])], "twice");
        is_told(vec![watch(0, 0, &["n1", "n2", "n3"])], "never told");
        is_told(vec![watch(0, 0, &all), watch(1, 0, &["n1", "n3", "n2", "n4"])], "differently");
        is_told(vec![watch(0, 0, &["n1", "xn1", "n2", "n3", "n4"]), watch(1, 0, &all)], "differently");
    }

    #[test]
    fn what_a_snapshot_stands_for_is_excused() {
        let mut troubles = Troubles::default();
        troubles.installed(1, 22);
        assert_eq!(
            judged(vec![watch(1, 0, &["n1", "n4"]), watch(0, 0, &["n1", "n2", "n3", "n4"])], &troubles),
            [""; 0]
        );
        troubles.died(2, 30);
        assert_eq!(judged(vec![watch(2, 0, &["n1"])], &troubles), [""; 0]);
        assert_eq!(judged(vec![watch(0, 0, &["n1"])], &troubles).len(), 1);
    }
}
