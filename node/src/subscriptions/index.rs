//! Who is told of a change, among those who have all changes before it: found by the key, however many listen.

use std::collections::BTreeMap;

use data::{Blob, ChangeKind, ChangeRecord};

use super::SubscriptionId;
use super::filter::{Filter, Kinds, Pattern};
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

/// See the file's head. Each list ascends by the subscriptions' numbers.
#[derive(Debug, Default)]
pub(crate) struct Index {
    all: Vec<Listener>,
    keys: BTreeMap<Blob, Vec<Listener>>,
    prefixes: BTreeMap<Blob, Vec<Listener>>,
    /// How many of the prefixes have this length.
    lengths: BTreeMap<usize, usize>,
    patterns: BTreeMap<Blob, (Pattern, Vec<Listener>)>,
}

fn insert(list: &mut Vec<Listener>, listener: Listener) {
    if let Err(place) = list.binary_search_by_key(&listener.id, |other| other.id) {
        list.insert(place, listener);
    }
}

fn remove(list: &mut Vec<Listener>, id: SubscriptionId) {
    if let Ok(place) = list.binary_search_by_key(&id, |other| other.id) {
        list.remove(place);
    }
}

impl Index {
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty() && self.keys.is_empty() && self.prefixes.is_empty() && self.patterns.is_empty()
    }

    pub(crate) fn add(&mut self, listener: Listener, filter: &Filter) {
        if filter.all {
            insert(&mut self.all, listener);
        }
        for key in &filter.keys {
            insert(self.keys.entry(key.clone()).or_default(), listener);
        }
        for prefix in &filter.prefixes {
            let list = self.prefixes.entry(prefix.clone()).or_insert_with(|| {
                *self.lengths.entry(prefix.len()).or_default() += 1;
                Vec::new()
            });
            insert(list, listener);
        }
        for pattern in &filter.patterns {
            let (_, list) = self.patterns.entry(pattern.text.clone()).or_insert_with(|| (pattern.clone(), Vec::new()));
            insert(list, listener);
        }
    }

    /// Takes a subscription out; `filter`: the one that it was added with.
    pub(crate) fn remove(&mut self, id: SubscriptionId, filter: &Filter) {
        remove(&mut self.all, id);
        for key in &filter.keys {
            if let Some(list) = self.keys.get_mut(key) {
                remove(list, id);
                if list.is_empty() {
                    self.keys.remove(key);
                }
            }
        }
        for prefix in &filter.prefixes {
            let Some(list) = self.prefixes.get_mut(prefix) else { continue };
            remove(list, id);
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
                remove(list, id);
                if list.is_empty() {
                    self.patterns.remove(&pattern.text);
                }
            }
        }
    }

    /// Puts into `found` who is told of a change, in the order of their numbers, each once.
    pub(crate) fn listeners(&self, record: &ChangeRecord, found: &mut Vec<Listener>) {
        found.clear();
        let mut sources = 0;
        let mut take = |list: &[Listener]| {
            let before = found.len();
            found.extend(list.iter().filter(|listener| listener.kinds.has(record.kind)));
            sources += usize::from(found.len() > before);
        };
        take(&self.all);
        if record.kind == ChangeKind::Flushed {
            self.keys.values().chain(self.prefixes.values()).for_each(|list| take(list));
            self.patterns.values().for_each(|(_, list)| take(list));
        } else {
            let key = record.key.as_slice();
            self.keys.get(key).into_iter().for_each(|list| take(list));
            for length in self.lengths.keys().take_while(|length| **length <= key.len()) {
                self.prefixes.get(&key[..*length]).into_iter().for_each(|list| take(list));
            }
            let fitting = self.patterns.values().filter(|(pattern, _)| pattern.fits(key));
            fitting.for_each(|(_, list)| take(list));
        }
        if sources > 1 {
            found.sort_unstable_by_key(|listener| listener.id);
            found.dedup_by_key(|listener| listener.id);
        }
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
        index.listeners(&record(1, kind, key), &mut found);
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
        ];
        let mut index = Index::default();
        for (id, filter) in &filters {
            index.add(listener(*id, filter.kinds), filter);
        }
        let kinds = [ChangeKind::Set, ChangeKind::Deleted, ChangeKind::Flushed];
        for key in ["cart:1", "cart:12", "x", "y:1", "", "ca"] {
            for kind in kinds {
                let expected = filters.iter().filter(|(_, filter)| filter.wants(&record(1, kind, key)));
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
