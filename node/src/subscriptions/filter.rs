//! Which changes a subscriber is told.

use std::collections::BTreeSet;

use data::algorithms::glob::Glob;
use data::meter::Meter;
use data::{Blob, ChangeKind, ChangeRecord};

/// Units of work (`data/src/meter.rs`) that one pattern may cost for one key: far more than a sane pattern needs. Past it the change is told: too much is no harm, and
/// silence is.
const MATCHING_WORK_MAX: u64 = 100_000;

/// Of which keys.
#[derive(Clone, Debug)]
pub(crate) enum Keys {
    All,
    /// Of these.
    Named(BTreeSet<Blob>),
    /// Of those that begin with one of these.
    Prefixed(BTreeSet<Blob>),
    /// Of those that fit one of these patterns. Each with the text that every key which fits begins with.
    Matching(Vec<(Blob, Glob)>),
}

/// A set of kinds of changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Kinds(u8);

/// Their names in `KINDS`.
const NAMES: [(&str, ChangeKind); 6] = [
    ("set", ChangeKind::Set),
    ("deadline", ChangeKind::Deadline),
    ("del", ChangeKind::Deleted),
    ("expire", ChangeKind::Expired),
    ("evict", ChangeKind::Evicted),
    ("flush", ChangeKind::Flushed),
];

/// What a kind is called in a change that is told.
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

    fn has(self, kind: ChangeKind) -> bool {
        NAMES.iter().position(|(_, of)| *of == kind).is_some_and(|place| self.0 >> place & 1 == 1)
    }
}

/// See the file's head.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    pub keys: Keys,
    pub kinds: Kinds,
}

impl Filter {
    /// Whether a change is told. One of all keys (`FLUSHALL`) is a change of every key that anybody may have asked for.
    pub(crate) fn wants(&self, record: &ChangeRecord) -> bool {
        self.kinds.has(record.kind) && (record.kind == ChangeKind::Flushed || self.keys.have(&record.key))
    }
}

impl Keys {
    pub(crate) fn matching<'a>(patterns: impl Iterator<Item = &'a [u8]>) -> Keys {
        let pattern = |text: &[u8]| {
            let glob = Glob::new(text);
            (Blob::new(&glob.literal_prefix()), glob)
        };
        Keys::Matching(patterns.map(pattern).collect())
    }

    fn have(&self, key: &[u8]) -> bool {
        match self {
            Keys::All => true,
            Keys::Named(keys) => keys.contains(key),
            // The only one that can be a prefix of the key stands right before it, or is a prefix of what stands there.
            Keys::Prefixed(prefixes) => prefixes.iter().any(|prefix| key.starts_with(prefix)),
            Keys::Matching(patterns) => patterns.iter().any(|(prefix, glob)| {
                let meter = Meter::limited(MATCHING_WORK_MAX);
                key.starts_with(prefix) && (glob.matches_within(key, &meter) || meter.is_over())
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use base::Revision;
    use data::After;

    use super::*;

    fn record(kind: ChangeKind, key: &str) -> ChangeRecord {
        ChangeRecord {
            revision: Revision(1),
            kind,
            event: Blob::EMPTY,
            key: Blob::new(key.as_bytes()),
            is_new: false,
            deadline: None,
            after: After::Gone,
        }
    }

    fn blobs(keys: &[&str]) -> BTreeSet<Blob> {
        keys.iter().map(|key| Blob::new(key.as_bytes())).collect()
    }

    #[test]
    fn filters_go_by_key_and_by_kind() {
        let wants = |keys: Keys, key: &str| Filter { keys, kinds: Kinds::ALL }.wants(&record(ChangeKind::Set, key));
        assert!(wants(Keys::All, "any") && wants(Keys::Named(blobs(&["a", "b"])), "b"));
        assert!(!wants(Keys::Named(blobs(&["a", "b"])), "c"));
        assert!(wants(Keys::Prefixed(blobs(&["cart:", "a"])), "cart:1") && !wants(Keys::Prefixed(blobs(&["cart:"])), "car"));
        let patterns = || Keys::matching([b"cart:?".as_slice(), b"*:x"].into_iter());
        assert!(wants(patterns(), "cart:1") && wants(patterns(), "q:x") && !wants(patterns(), "cart:12"));
        let kinds = Kinds::NONE.with(b"DEL").and_then(|kinds| kinds.with(b"expire")).expect("there are such kinds");
        assert_eq!(kinds.with(b"no"), None);
        let filter = Filter { keys: Keys::Named(blobs(&["a"])), kinds };
        assert!(filter.wants(&record(ChangeKind::Deleted, "a")) && filter.wants(&record(ChangeKind::Expired, "a")));
        assert!(!filter.wants(&record(ChangeKind::Set, "a")));
        // Of all keys: told to everybody who wants such changes at all.
        assert!(!filter.wants(&record(ChangeKind::Flushed, "")));
        assert!(Filter { keys: Keys::Named(blobs(&["a"])), kinds: Kinds::ALL }.wants(&record(ChangeKind::Flushed, "")));
        assert!(NAMES.iter().all(|(name, kind)| name_of(*kind) == *name));
    }
}
