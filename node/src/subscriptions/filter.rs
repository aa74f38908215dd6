//! Which changes a subscriber is told.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use data::algorithms::glob::Glob;
use data::meter::Meter;
use data::named::RECORDS;
use data::{Blob, ChangeKind, ChangeRecord, KeyRef, StoreKey};

/// Units of work (`data/src/meter.rs`) that one pattern may cost for one key: more than a sane pattern needs. Beyond that nobody knows whether it fits, and the subscription
/// ends with a gap.
const MATCHING_WORK_MAX: u64 = 5_000;
/// The same of all patterns with which one key is compared: where there are many, each has its share.
const ALL_MATCHING_WORK_MAX: u64 = 1_000_000;

/// Whether a change is one that a subscriber wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fit {
    Yes,
    No,
    /// It would cost too much to find out.
    Undecided,
}

/// A pattern of keys.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    /// As it was given.
    pub text: Blob,
    /// All keys that fit begin with this, which tells most keys apart.
    prefix: Blob,
    glob: Glob,
}

impl Pattern {
    pub(crate) fn new(text: &[u8]) -> Pattern {
        let glob = Glob::new(text);
        Pattern { text: Blob::new(text), prefix: Blob::new(&glob.literal_prefix()), glob }
    }

    /// Whether a key fits, which is compared with so many patterns; adds the units of work that it takes to find out.
    pub(crate) fn fits(&self, key: &[u8], patterns: usize, work: &mut u64) -> Fit {
        *work += 1;
        if !key.starts_with(&self.prefix) {
            return Fit::No;
        }
        let meter = Meter::limited(MATCHING_WORK_MAX.min(ALL_MATCHING_WORK_MAX / patterns.max(1) as u64));
        let fits = self.glob.matches_within(key, &meter);
        *work += meter.spent();
        match fits {
            true => Fit::Yes,
            false if meter.is_over() => Fit::Undecided,
            false => Fit::No,
        }
    }

    /// The text that every key which fits begins with.
    pub(crate) fn prefix(&self) -> &[u8] {
        &self.prefix
    }
}

/// A set of kinds of changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Kinds(u8);

/// Their names, in `KIND` and in the messages.
const NAMES: [(&str, ChangeKind); 6] = [
    ("set", ChangeKind::Set),
    ("deadline", ChangeKind::Deadline),
    ("del", ChangeKind::Deleted),
    ("expire", ChangeKind::Expired),
    ("evict", ChangeKind::Evicted),
    ("flush", ChangeKind::Flushed),
];

/// The name of a kind in messages.
pub(crate) fn name_of(kind: ChangeKind) -> &'static str {
    NAMES.iter().find(|(_, of)| *of == kind).map_or("", |(name, _)| name)
}

impl Kinds {
    pub(crate) const ALL: Kinds = Kinds((1 << NAMES.len()) - 1);
    pub(crate) const NONE: Kinds = Kinds(0);

    /// With the kind of this name as well; none if there is no such kind.
    pub(crate) fn with(self, name: &[u8]) -> Option<Kinds> {
        let place = NAMES.iter().position(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name))?;
        Some(Kinds(self.0 | 1 << place))
    }

    pub(crate) fn has(self, kind: ChangeKind) -> bool {
        NAMES.iter().position(|(_, of)| *of == kind).is_some_and(|place| self.0 >> place & 1 == 1)
    }

    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        NAMES.iter().filter(move |(_, kind)| self.has(*kind)).map(|(name, _)| *name)
    }
}

/// Which keys, by any of these; and which kinds of changes.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    pub all: bool,
    pub keys: BTreeSet<Blob>,
    pub prefixes: BTreeSet<Blob>,
    pub patterns: Vec<Arc<Pattern>>,
    pub kinds: Kinds,
    /// The keys in the order of the store, if there is nothing but keys and somebody wants to know what is there: see [`Filter::sort_keys`].
    pub in_order: Option<Arc<[StoreKey]>>,
}

impl Default for Filter {
    fn default() -> Filter {
        Filter {
            all: false,
            keys: BTreeSet::new(),
            prefixes: BTreeSet::new(),
            patterns: Vec::new(),
            kinds: Kinds::ALL,
            in_order: None,
        }
    }
}

/// By their words, which make the rest.
impl PartialEq for Filter {
    fn eq(&self, other: &Filter) -> bool {
        let what = |of: &Filter| (of.all, of.kinds, of.keys.len(), of.prefixes.len(), of.patterns.len());
        what(self) == what(other) && self.words().eq(other.words())
    }
}

impl Filter {
    /// No key can fit.
    pub(crate) fn is_empty(&self) -> bool {
        !self.all && self.keys.is_empty() && self.prefixes.is_empty() && self.patterns.is_empty()
    }

    /// Each key is named: there is nothing that others could fit.
    pub(crate) fn names_all_keys(&self) -> bool {
        !self.all && self.prefixes.is_empty() && self.patterns.is_empty()
    }

    /// Finds out once where the keys stand in the store.
    pub(crate) fn sort_keys(&mut self) {
        if self.names_all_keys() {
            let order = |key: &Blob| StoreKey { order: KeyRef::new(key).order, key: key.clone() };
            let mut keys: Vec<StoreKey> = self.keys.iter().map(order).collect();
            keys.sort_unstable();
            self.in_order = Some(keys.into());
        }
    }

    /// How many words name its keys.
    pub(crate) fn words_count(&self) -> usize {
        self.keys.len() + self.prefixes.len() + self.patterns.len()
    }

    /// These words.
    pub(crate) fn words(&self) -> impl Iterator<Item = &Blob> {
        self.keys.iter().chain(&self.prefixes).chain(self.patterns.iter().map(|pattern| &pattern.text))
    }

    /// Adds a prefix, unless all of its keys are wanted for another one. None of those that are left is the beginning of another one.
    pub(crate) fn add_prefix(&mut self, prefix: Blob) {
        if self.prefix_of(&prefix).is_some() {
            return;
        }
        let begin = (Bound::Included(prefix.as_slice()), Bound::Unbounded);
        let longer = self.prefixes.range::<[u8], _>(begin).take_while(|other| other.starts_with(&prefix));
        for other in longer.cloned().collect::<Vec<Blob>>() {
            self.prefixes.remove(&other);
        }
        self.prefixes.insert(prefix);
    }

    /// The prefix that a key begins with: as none is the beginning of another one, it is the last one that is not behind the key.
    fn prefix_of(&self, key: &[u8]) -> Option<&Blob> {
        let until = (Bound::Unbounded, Bound::Included(key));
        self.prefixes.range::<[u8], _>(until).next_back().filter(|prefix| key.starts_with(prefix))
    }

    /// Whether a change is told, and adds the units of work that it takes to find out. A change of all keys (`FLUSHALL`) is one of every key.
    pub(crate) fn wants(&self, record: &ChangeRecord, work: &mut u64) -> Fit {
        match self.kinds.has(record.kind) {
            false => Fit::No,
            true if record.kind == ChangeKind::Flushed => Fit::Yes,
            true => self.has(&record.key, work),
        }
    }

    /// Whether it is for a key. Of the records of named subscriptions only those are told that a subscriber names: they change with each acknowledgement, and telling that would be
    /// the next thing to acknowledge.
    pub(crate) fn has(&self, key: &[u8], work: &mut u64) -> Fit {
        if key.starts_with(RECORDS) {
            return if self.keys.contains(key) { Fit::Yes } else { Fit::No };
        }
        if self.all || self.keys.contains(key) || self.prefix_of(key).is_some() {
            return Fit::Yes;
        }
        let mut fit = Fit::No;
        for pattern in &self.patterns {
            match pattern.fits(key, self.patterns.len(), work) {
                Fit::Yes => return Fit::Yes,
                Fit::Undecided => fit = Fit::Undecided,
                Fit::No => {}
            }
        }
        fit
    }
}

#[cfg(test)]
pub(super) mod tests {
    use base::Revision;
    use data::After;

    use super::*;

    pub(crate) fn record(revision: u64, kind: ChangeKind, key: &str) -> ChangeRecord {
        ChangeRecord {
            revision: Revision(revision),
            kind,
            event: Blob::EMPTY,
            key: Blob::new(key.as_bytes()),
            is_new: false,
            deadline: None,
            after: After::Gone,
        }
    }

    pub(crate) fn filter(words: &[(&str, &str)]) -> Filter {
        let mut filter = Filter::default();
        for (by, word) in words {
            let word = word.as_bytes();
            match *by {
                "key" => drop(filter.keys.insert(Blob::new(word))),
                "prefix" => filter.add_prefix(Blob::new(word)),
                "match" => filter.patterns.push(Arc::new(Pattern::new(word))),
                _ => filter.all = true,
            }
        }
        filter
    }

    #[test]
    fn filters_go_by_key_and_by_kind() {
        let is_told = |filter: &Filter, kind, key: &str| filter.wants(&record(1, kind, key), &mut 0) == Fit::Yes;
        let wants = |words: &[(&str, &str)], key: &str| is_told(&filter(words), ChangeKind::Set, key);
        assert!(wants(&[("all", "")], "any") && wants(&[("key", "a"), ("key", "b")], "b"));
        assert!(!wants(&[("key", "a"), ("key", "b")], "c"));
        assert!(wants(&[("prefix", "cart:"), ("prefix", "a")], "cart:1") && !wants(&[("prefix", "cart:")], "car"));
        let patterns = [("match", "cart:?"), ("match", "*:x")];
        assert!(wants(&patterns, "cart:1") && wants(&patterns, "q:x") && !wants(&patterns, "cart:12"));
        assert!(wants(&[("key", "a"), ("prefix", "b:")], "b:1") && wants(&[("key", "a"), ("prefix", "b:")], "a"));
        let kinds = Kinds::NONE.with(b"DEL").and_then(|kinds| kinds.with(b"expire")).expect("there are such kinds");
        assert_eq!(kinds.with(b"no"), None);
        assert_eq!(kinds.names().collect::<Vec<_>>(), ["del", "expire"]);
        let some = Filter { kinds, ..filter(&[("key", "a")]) };
        assert!(is_told(&some, ChangeKind::Deleted, "a") && is_told(&some, ChangeKind::Expired, "a"));
        assert!(!is_told(&some, ChangeKind::Set, "a"));
        // A change of all keys is told to all who want such changes.
        assert!(!is_told(&some, ChangeKind::Flushed, "") && is_told(&filter(&[("key", "a")]), ChangeKind::Flushed, ""));
        // A pattern that costs too much decides nothing, unless something else does.
        let (pattern, long) = (format!("*{}b", "a".repeat(200)), "a".repeat(4000));
        let costly = ("match", pattern.as_str());
        assert_eq!(filter(&[costly]).wants(&record(1, ChangeKind::Set, &long), &mut 0), Fit::Undecided);
        assert!(is_told(&filter(&[costly, ("prefix", "a")]), ChangeKind::Set, &long));
        assert!(NAMES.iter().all(|(name, kind)| name_of(*kind) == *name));
    }

    #[test]
    fn of_prefixes_those_are_kept_that_no_other_one_begins() {
        let prefixes = |words: &[&str]| {
            let words: Vec<(&str, &str)> = words.iter().map(|word| ("prefix", *word)).collect();
            let filter = filter(&words);
            let kept = filter.prefixes.iter().map(|prefix| String::from_utf8_lossy(prefix).into_owned());
            (kept.collect::<Vec<_>>(), filter)
        };
        assert_eq!(prefixes(&["ab", "a", "abc", "b"]).0, ["a", "b"]);
        assert_eq!(prefixes(&["abc", "ab", "ac"]).0, ["ab", "ac"]);
        assert_eq!(prefixes(&["x", "", "y"]).0, [""]);
        let (_, some) = prefixes(&["ab", "ac", "b"]);
        let fits = |key: &str| some.has(key.as_bytes(), &mut 0) == Fit::Yes;
        assert!(["ab", "abz", "ac", "b", "bz"].into_iter().all(fits));
        assert!(!["", "a", "aa", "ad", "c"].into_iter().any(fits));
    }

    #[test]
    fn a_filter_has_a_size() {
        assert!(Filter::default().is_empty() && !filter(&[("all", "")]).is_empty());
        let some = filter(&[("key", "abc"), ("prefix", "d"), ("match", "e*")]);
        let bytes: usize = some.words().map(|word| word.len()).sum();
        assert_eq!((some.words_count(), bytes), (3, 6));
    }
}
