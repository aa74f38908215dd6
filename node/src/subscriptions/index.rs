//! Who is told of a change, among those who have all changes before it: found by the key, however many listen.

use std::collections::BTreeMap;
use std::sync::Arc;

use data::named::RECORDS;
use data::{Blob, ChangeKind, ChangeRecord};

use super::SubscriptionId;
use super::filter::{Filter, Fit, Kinds, Pattern};
use crate::door::ConnectionId;

/// A subscription, as far as it is needed to tell it a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Listener {
    pub id: SubscriptionId,
    pub connection: ConnectionId,
    pub kinds: Kinds,
    /// It wants values.
    pub with_values: bool,
}

/// Subscriptions that want the same, by their numbers.
type List = BTreeMap<SubscriptionId, Listener>;

/// See the file's head.
#[derive(Debug, Default)]
pub(crate) struct Index {
    all: List,
    keys: BTreeMap<Blob, List>,
    prefixes: BTreeMap<Blob, List>,
    /// How many of the prefixes have this length.
    lengths: BTreeMap<usize, usize>,
    patterns: BTreeMap<Blob, (Arc<Pattern>, List)>,
}

impl Index {
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty() && self.keys.is_empty() && self.prefixes.is_empty() && self.patterns.is_empty()
    }

    pub(crate) fn add(&mut self, listener: Listener, filter: &Filter) {
        if filter.all {
            self.all.insert(listener.id, listener);
        }
        for key in &filter.keys {
            self.keys.entry(key.clone()).or_default().insert(listener.id, listener);
        }
        for prefix in &filter.prefixes {
            let list = self.prefixes.entry(prefix.clone()).or_insert_with(|| {
                *self.lengths.entry(prefix.len()).or_default() += 1;
                List::new()
            });
            list.insert(listener.id, listener);
        }
        for pattern in &filter.patterns {
            let new = || (Arc::clone(pattern), List::new());
            let (_, list) = self.patterns.entry(pattern.text.clone()).or_insert_with(new);
            list.insert(listener.id, listener);
        }
    }

    /// Takes a subscription out; `filter`: the one that it was added with.
    pub(crate) fn remove(&mut self, id: SubscriptionId, filter: &Filter) {
        self.all.remove(&id);
        for key in &filter.keys {
            if let Some(list) = self.keys.get_mut(key) {
                list.remove(&id);
                if list.is_empty() {
                    self.keys.remove(key);
                }
            }
        }
        for prefix in &filter.prefixes {
            let Some(list) = self.prefixes.get_mut(prefix) else { continue };
            list.remove(&id);
            if list.is_empty() {
                self.prefixes.remove(prefix);
                if let Some(count) = self.lengths.get_mut(&prefix.len()) {
                    *count -= 1;
                    if *count == 0 {
                        self.lengths.remove(&prefix.len());
                    }
                }
            }
        }
        for pattern in &filter.patterns {
            if let Some((_, list)) = self.patterns.get_mut(&pattern.text) {
                list.remove(&id);
                if list.is_empty() {
                    self.patterns.remove(&pattern.text);
                }
            }
        }
    }

    /// How many things a change is compared with: what it costs to find out who is told.
    pub(crate) fn cost(&self) -> usize {
        1 + self.lengths.len() + self.patterns.len()
    }

    /// Puts into `found` the subscriptions that are told a change, in the order of their numbers, each once; and into `undecided` those of which that would cost too much to find out. Answers the units of work that patterns took.
    pub(crate) fn listeners(
        &self,
        record: &ChangeRecord,
        found: &mut Vec<Listener>,
        undecided: &mut Vec<SubscriptionId>,
    ) -> u64 {
        found.clear();
        undecided.clear();
        let mut work = 0;
        let mut sources = 0;
        let mut take = |list: &List| {
            let before = found.len();
            found.extend(list.values().filter(|listener| listener.kinds.has(record.kind)));
            sources += usize::from(found.len() > before);
        };
        if record.kind == ChangeKind::Flushed {
            take(&self.all);
            self.keys.values().chain(self.prefixes.values()).for_each(&mut take);
            self.patterns.values().for_each(|(_, list)| take(list));
        } else if record.key.starts_with(RECORDS) {
            self.keys.get(record.key.as_slice()).into_iter().for_each(&mut take);
        } else {
            take(&self.all);
            let key = record.key.as_slice();
            self.keys.get(key).into_iter().for_each(&mut take);
            for length in self.lengths.keys().take_while(|length| **length <= key.len()) {
                self.prefixes.get(&key[..*length]).into_iter().for_each(&mut take);
            }
            for (pattern, list) in self.patterns.values() {
                match pattern.fits(key, self.patterns.len(), &mut work) {
                    Fit::Yes => take(list),
                    Fit::No => {}
                    Fit::Undecided => {
                        let wanting = list.values().filter(|listener| listener.kinds.has(record.kind));
                        undecided.extend(wanting.map(|listener| listener.id));
                    }
                }
            }
        }
        if sources > 1 {
            found.sort_unstable_by_key(|listener| listener.id);
            found.dedup_by_key(|listener| listener.id);
        }
        undecided.retain(|id| found.binary_search_by_key(id, |listener| listener.id).is_err());
        work
    }
}

#[cfg(test)]
mod tests {
    use super::super::filter::tests::{filter, record};
    use super::*;

    fn listener(id: u64, kinds: Kinds) -> Listener {
        Listener { id: SubscriptionId(id), connection: ConnectionId(id), kinds, with_values: true }
    }

    fn told(index: &Index, kind: ChangeKind, key: &str) -> Vec<u64> {
        let mut found = Vec::new();
        index.listeners(&record(1, kind, key), &mut found, &mut Vec::new());
        found.iter().map(|listener| listener.id.0).collect()
    }

    #[test]
    fn listeners_are_those_whose_filters_want_a_change_each_once() {
        let deletions = Kinds::NONE.with(b"del").expect("there are deletions");
        let filters = [
            (1, filter(&[("key", "cart:1"), ("key", "x")])),
            (2, filter(&[("prefix", "cart:"), ("match", "*:1"), ("key", "cart:1")])),
            (3, filter(&[("all", "")])),
            (4, Filter { kinds: deletions, ..filter(&[("prefix", "")]) }),
            (5, filter(&[("match", "c*:?"), ("prefix", "ca")])),
            (6, filter(&[("key", "dictum.sub:{mail}"), ("prefix", "dictum"), ("match", "d*")])),
        ];
        let mut index = Index::default();
        for (id, filter) in &filters {
            index.add(listener(*id, filter.kinds), filter);
        }
        let kinds = [ChangeKind::Set, ChangeKind::Deleted, ChangeKind::Flushed];
        for key in ["cart:1", "cart:12", "x", "y:1", "", "ca", "dictum.sub:{mail}", "dictum.sub:{other}", "dictum"] {
            for kind in kinds {
                let expected =
                    filters.iter().filter(|(_, filter)| filter.wants(&record(1, kind, key), &mut 0) == Fit::Yes);
                let expected: Vec<u64> = expected.map(|(id, _)| *id).collect();
                assert_eq!(told(&index, kind, key), expected, "{kind:?} {key}");
            }
        }
        assert_eq!(told(&index, ChangeKind::Set, "cart:1"), [1, 2, 3, 5]);
        for (id, filter) in &filters {
            index.remove(SubscriptionId(*id), filter);
            assert!(!told(&index, ChangeKind::Flushed, "").contains(id));
        }
        assert!(index.is_empty() && index.lengths.is_empty());
    }
}
