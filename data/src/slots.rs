//! The hash slots that a state has the keys of. A bucket may be cut into partitions by them, each with a state of its own.
//!
//! Who sends a command sees to it that its keys are here. Scripts name keys as they go, and `SORT` makes names of what it finds: those are looked at here,
//! as a Redis Cluster does.

use crate::failure::Failure;
use crate::spec::Spec;
use base::limits::HASH_SLOTS;
use base::slots::hash_slot;

/// A range of hash slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slots {
    /// The first one.
    pub first: u16,
    /// Behind the last one.
    pub end: u16,
}

// Redis's texts.
const ELSEWHERE: Failure = Failure::Text("ERR Script attempted to access a non local key in a cluster node");
const BY_ELSEWHERE: Failure = Failure::Text(
    "ERR BY option of SORT denied in cluster mode when keys formed by the pattern may be in different slots.",
);
const GET_ELSEWHERE: Failure = Failure::Text(
    "ERR GET option of SORT denied in cluster mode when keys formed by the pattern may be in different slots.",
);

impl Slots {
    /// All of them.
    pub const ALL: Slots = Slots { first: 0, end: HASH_SLOTS };

    /// Whether a key belongs here.
    #[must_use]
    pub fn have(self, key: &[u8]) -> bool {
        self == Slots::ALL || (self.first..self.end).contains(&hash_slot(key))
    }

    /// Refuses what a script calls if it is about keys that are elsewhere.
    ///
    /// # Errors
    /// With Redis's texts.
    pub(crate) fn check(self, spec: &Spec, words: &[&[u8]]) -> Result<(), Failure> {
        if self == Slots::ALL {
            return Ok(());
        }
        if !spec.keys_of(words).into_iter().all(|key| self.have(key)) {
            return Err(ELSEWHERE);
        }
        check_patterns(spec, words)
    }
}

/// Refuses a `SORT` that makes names of keys which may be in other slots than its own key: where slots are apart, they would not be found.
///
/// # Errors
/// With Redis's texts.
pub fn check_patterns(spec: &Spec, words: &[&[u8]]) -> Result<(), Failure> {
    if !matches!(spec.name, "sort" | "sort_ro") {
        return Ok(());
    }
    let slot = hash_slot(words.get(1).copied().unwrap_or_default());
    let may_be_elsewhere = |pattern: &[u8]| {
        let Some(star) = pattern.iter().position(|byte| *byte == b'*') else { return false };
        let open = pattern.iter().position(|byte| *byte == b'{');
        let close = open.and_then(|open| Some(open + pattern[open..].iter().position(|byte| *byte == b'}')?));
        // A tag that says all of the slot, and that nothing is put into.
        let is_fixed = open.zip(close).is_some_and(|(open, close)| open + 1 < close && !(open..close).contains(&star));
        !is_fixed || hash_slot(pattern) != slot
    };
    for pair in words.windows(2).skip(1) {
        if pair[0].eq_ignore_ascii_case(b"by") && may_be_elsewhere(pair[1]) {
            return Err(BY_ELSEWHERE);
        }
        if pair[0].eq_ignore_ascii_case(b"get") && may_be_elsewhere(pair[1]) {
            return Err(GET_ELSEWHERE);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorting_by_keys_of_other_slots_is_refused() {
        let refused = |words: &[&str]| {
            let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            check_patterns(crate::lookup(words[0]).unwrap().spec, &words).is_err()
        };
        assert!(refused(&["sort", "k", "by", "w_*"]));
        assert!(refused(&["sort_ro", "k", "GET", "o_*->f"]));
        assert!(refused(&["sort", "{x}k", "by", "{y}w_*"]));
        assert!(refused(&["sort", "{x*}k", "by", "{x*}"]));
        assert!(!refused(&["sort", "{x}k", "by", "{x}w_*", "get", "#"]));
        assert!(!refused(&["sort", "k", "by", "nosort"]));
        assert!(!refused(&["lpush", "k", "by", "w_*"]));
    }

    #[test]
    fn a_range_has_its_keys() {
        // The slot of "foo" is 12182.
        assert!(Slots::ALL.have(b"foo"));
        assert!(Slots { first: 12182, end: 12183 }.have(b"foo"));
        assert!(!Slots { first: 12183, end: HASH_SLOTS }.have(b"foo") && !Slots { first: 0, end: 12182 }.have(b"foo"));
    }
}
