//! Bytes as they are kept: keys, and the values of strings.
//!
//! Three shapes behind one 24-byte type, because most keys and many values are short and a few values are huge:
//! - up to [`INLINE_BYTES_MAX`] bytes stand in place, without an allocation of their own;
//! - longer ones are shared by a reference count, so that a reply, a change and a snapshot cost no copy;
//! - one that a command edits (`APPEND`, `SETBIT`, …) has spare room, so that growing it byte by byte is not quadratic.
//!
//! Which shape a value has is not part of the state: equality, order, digests and sizes look at the bytes alone.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// Longest run of bytes that needs no allocation.
pub const INLINE_BYTES_MAX: usize = 22;

/// Immutable bytes that are cheap to clone, and can be edited by their only owner without a copy.
#[derive(Clone)]
pub struct Blob(Shape);

#[derive(Clone)]
enum Shape {
    Inline { length: u8, bytes: [u8; INLINE_BYTES_MAX] },
    Shared(Arc<[u8]>),
    Growing(Arc<Vec<u8>>),
}

const _: () = assert!(size_of::<Blob>() == 24, "records are counted in millions");

impl Blob {
    /// No bytes.
    pub const EMPTY: Blob = Blob(Shape::Inline { length: 0, bytes: [0; INLINE_BYTES_MAX] });

    /// A copy of `bytes`.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Blob {
        Blob(if bytes.len() <= INLINE_BYTES_MAX {
            let mut inline = [0; INLINE_BYTES_MAX];
            inline[..bytes.len()].copy_from_slice(bytes);
            Shape::Inline { length: bytes.len() as u8, bytes: inline }
        } else {
            Shape::Shared(Arc::from(bytes))
        })
    }

    /// The bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        match &self.0 {
            Shape::Inline { length, bytes } => &bytes[..usize::from(*length)],
            Shape::Shared(bytes) => bytes,
            Shape::Growing(bytes) => bytes,
        }
    }

    /// The bytes as a vector to edit in place: copied first if they are inline, or if someone else holds them too.
    pub fn edit(&mut self) -> &mut Vec<u8> {
        if !matches!(self.0, Shape::Growing(_)) {
            self.0 = Shape::Growing(Arc::new(self.as_slice().to_vec()));
        }
        match &mut self.0 {
            Shape::Growing(bytes) => Arc::make_mut(bytes),
            _ => unreachable!("the shape was just set"),
        }
    }

    /// Bytes allocated outside the 24 of the type itself, not counting spare room: the same on every replica.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        const REFERENCE_COUNTS: usize = 16;
        let length = self.len();
        if length <= INLINE_BYTES_MAX { 0 } else { length + REFERENCE_COUNTS }
    }
}

#[cfg(test)]
impl Blob {
    /// Bytes that are allocated for what may come.
    pub(crate) fn spare_bytes(&self) -> usize {
        if let Shape::Growing(bytes) = &self.0 { bytes.capacity() - bytes.len() } else { 0 }
    }
}

impl Default for Blob {
    fn default() -> Blob {
        Blob::EMPTY
    }
}

impl Deref for Blob {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl AsRef<[u8]> for Blob {
    fn as_ref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl Borrow<[u8]> for Blob {
    fn borrow(&self) -> &[u8] {
        self.as_slice()
    }
}

impl From<&[u8]> for Blob {
    fn from(bytes: &[u8]) -> Blob {
        Blob::new(bytes)
    }
}

impl<const N: usize> From<&[u8; N]> for Blob {
    fn from(bytes: &[u8; N]) -> Blob {
        Blob::new(bytes)
    }
}

impl From<&str> for Blob {
    fn from(text: &str) -> Blob {
        Blob::new(text.as_bytes())
    }
}

impl From<Vec<u8>> for Blob {
    /// Short vectors move inline, long ones keep their allocation.
    fn from(bytes: Vec<u8>) -> Blob {
        if bytes.len() <= INLINE_BYTES_MAX { Blob::new(&bytes) } else { Blob(Shape::Growing(Arc::new(bytes))) }
    }
}

impl From<String> for Blob {
    fn from(text: String) -> Blob {
        Blob::from(text.into_bytes())
    }
}

impl PartialEq for Blob {
    fn eq(&self, other: &Blob) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for Blob {}

impl PartialOrd for Blob {
    fn partial_cmp(&self, other: &Blob) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Blob {
    fn cmp(&self, other: &Blob) -> Ordering {
        self.as_slice().cmp(other.as_slice())
    }
}

impl Hash for Blob {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_slice().hash(state);
    }
}

impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.as_slice().escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_equal_by_their_bytes() {
        for length in [0, 1, INLINE_BYTES_MAX, INLINE_BYTES_MAX + 1, 1000] {
            let bytes = vec![7u8; length];
            let copied = Blob::new(&bytes);
            let moved = Blob::from(bytes.clone());
            let mut edited = Blob::new(&bytes);
            edited.edit();
            assert_eq!(copied, moved);
            assert_eq!(copied, edited);
            assert_eq!(copied.heap_bytes(), edited.heap_bytes());
            assert_eq!(&copied[..], &bytes[..]);
        }
    }

    #[test]
    fn editing_leaves_clones_alone() {
        let mut blob = Blob::from("a text that is longer than the inline shape");
        blob.edit();
        let before = blob.clone();
        blob.edit().push(b'!');
        assert_eq!(blob.len(), before.len() + 1);
    }
}
