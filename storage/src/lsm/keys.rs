//! How the owner's keys lie in a keyspace next to the store's own.
//!
//! | bytes in the keyspace | what |
//! |---|---|
//! | `0`, … | the store's own |
//! | `1`, key | a key of the owner that is empty, or begins with `0` or `1` |
//! | key | any other |
//!
//! That keeps the order of the owner's keys, and no key is empty (fjall asserts that).

use std::borrow::Cow;
use std::ops::{Bound, Range};

use base::ordered::Space;
use byteview::ByteView;

/// Under this key, in every space, the number of the last batch that changed it.
pub(super) const SPACE_MARK: &[u8] = &[0];
/// Under this key, in the keyspace of marks, the number of the last batch of all. The journal's check looks for it.
pub(super) const LAST_MARK: &[u8] = &[0, b'n'];
/// The keyspace of marks.
pub(super) const MARKS_NAME: &str = "marks";

const ESCAPE: u8 = 1;

/// The bytes that stand for an owner's key.
pub(super) fn encode(key: &[u8]) -> Cow<'_, [u8]> {
    match key.first() {
        Some(first) if *first > ESCAPE => Cow::Borrowed(key),
        _ => {
            let mut bytes = Vec::with_capacity(key.len() + 1);
            bytes.push(ESCAPE);
            bytes.extend_from_slice(key);
            Cow::Owned(bytes)
        }
    }
}

/// As [`encode`], for a key that is a part of what fjall can share.
pub(super) fn encode_part(chunk: &ByteView, key: Range<usize>) -> ByteView {
    match chunk[key.clone()].first() {
        Some(first) if *first > ESCAPE => chunk.slice(key),
        _ => ByteView::fused(&[ESCAPE], &chunk[key]),
    }
}

/// The owner's key that `bytes` stand for.
pub(super) fn decode(bytes: &[u8]) -> Vec<u8> {
    bytes.strip_prefix(&[ESCAPE]).unwrap_or(bytes).to_vec()
}

/// Where a walk of the owner's keys begins, behind all of the store's own.
pub(super) fn encode_start(start: Bound<&[u8]>) -> Bound<Vec<u8>> {
    match start {
        Bound::Included(key) => Bound::Included(encode(key).into_owned()),
        Bound::Excluded(key) => Bound::Excluded(encode(key).into_owned()),
        Bound::Unbounded => Bound::Included(vec![ESCAPE]),
    }
}

/// The keyspace of a space.
pub(super) fn name(space: Space) -> String {
    format!("space-{:016x}", space.0)
}

/// The space of a keyspace; `None` for one that is none.
pub(super) fn space(name: &str) -> Option<Space> {
    let digits = name.strip_prefix("space-").filter(|digits| digits.len() == 16)?;
    u64::from_str_radix(digits, 16).ok().map(Space)
}

/// The name of the empty keyspace that is made before the keyspace with this number of fjall's is deleted.
pub(super) fn anchor_name(newest: u64) -> String {
    format!("anchor-{newest:016x}")
}

/// Whether a keyspace has such a name.
pub(super) fn is_anchor(name: &str) -> bool {
    name.starts_with("anchor-")
}

/// Where, in the keyspace of marks, the number of the last batch of a space is.
pub(super) fn mark_of(space: Space) -> Vec<u8> {
    let mut key = vec![0, b's'];
    key.extend_from_slice(&space.0.to_be_bytes());
    key
}

/// The space of such a key.
pub(super) fn space_of_mark(key: &[u8]) -> Option<Space> {
    let digits = key.strip_prefix(&[0, b's'])?;
    Some(Space(u64::from_be_bytes(digits.try_into().ok()?)))
}

/// The number under a mark.
pub(super) fn number(value: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(value.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_their_order_and_come_back() {
        let mut keys: Vec<Vec<u8>> = vec![vec![]];
        for first in 0..4 {
            keys.push(vec![first]);
            for second in 0..4 {
                keys.push(vec![first, second]);
                keys.push(vec![first, second, 0]);
            }
        }
        keys.sort();
        let encoded: Vec<Vec<u8>> = keys.iter().map(|key| encode(key).into_owned()).collect();
        assert!(encoded.is_sorted_by(|left, right| left < right));
        assert!(encoded.iter().all(|key| key.as_slice() > SPACE_MARK && key[0] > 0));
        let decoded: Vec<Vec<u8>> = encoded.iter().map(|key| decode(key)).collect();
        assert_eq!(decoded, keys);
        let same = |key: &Vec<u8>| {
            let chunk = ByteView::from([b"before", key.as_slice(), b"behind"].concat());
            *encode_part(&chunk, 6..6 + key.len()) == *encode(key)
        };
        assert!(keys.iter().chain([&vec![0; 40], &vec![7; 40]]).all(same));
    }

    #[test]
    fn spaces_and_their_names() {
        for number in [0, 1, 77, u64::MAX] {
            assert_eq!(space(&name(Space(number))), Some(Space(number)));
            assert_eq!(space_of_mark(&mark_of(Space(number))), Some(Space(number)));
        }
        assert_eq!(space(MARKS_NAME), None);
        assert_eq!(space_of_mark(LAST_MARK), None);
    }
}
