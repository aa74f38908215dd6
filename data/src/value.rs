//! What stands under a key: the record and its value.

use crate::blob::Blob;
use crate::failure::Failure;
use base::{Revision, WallTime};

/// A value. Each type of Redis that Dictum knows is one variant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// Any bytes; also numbers and bitmaps, as in Redis.
    String(Blob),
}

/// Everything that is known about a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// What the key holds.
    pub value: Value,
    /// The revision of the last change to the value or the deadline: what `WATCH` and HTTP's ETag compare.
    pub revision: Revision,
    /// The deadline, or [`NEVER`].
    expires_at: WallTime,
}

/// The deadline of a key that does not expire.
const NEVER: WallTime = WallTime(u64::MAX);

/// Bytes of one record in the store beside what key and value allocate: record, store key, share of the tree's nodes.
pub(crate) const RECORD_BYTES: u64 = (size_of::<Record>() + size_of::<crate::store::StoreKey>()) as u64 * 3 / 2;

const _: () = assert!(size_of::<Record>() == 40, "records are counted in millions");

impl Value {
    /// The type's name as `TYPE` answers it.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::String(_) => "string",
        }
    }

    /// The bytes of a string; an error for any other type.
    pub fn into_string(self) -> Result<Blob, Failure> {
        match self {
            Value::String(bytes) => Ok(bytes),
        }
    }

    /// Bytes that the value allocates outside its record.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        match self {
            Value::String(bytes) => bytes.heap_bytes(),
        }
    }
}

impl Record {
    /// A record that the store has not given a revision yet.
    #[must_use]
    pub fn new(value: Value, deadline: Option<WallTime>) -> Record {
        let mut record = Record { value, revision: Revision(0), expires_at: NEVER };
        record.set_deadline(deadline);
        record
    }

    /// When the key ceases to exist; `None` if it stays.
    #[must_use]
    pub fn deadline(&self) -> Option<WallTime> {
        (self.expires_at != NEVER).then_some(self.expires_at)
    }

    /// Sets or takes away the deadline.
    pub fn set_deadline(&mut self, deadline: Option<WallTime>) {
        self.expires_at = deadline.unwrap_or(NEVER);
    }

    /// Whether the key exists at `time`: a key is gone at its deadline, not only after it.
    #[must_use]
    pub fn is_alive(&self, time: WallTime) -> bool {
        self.expires_at > time
    }

    /// Approximate bytes that the record and its key occupy; the same on every replica.
    #[must_use]
    pub fn bytes(&self, key: &Blob) -> u64 {
        self.bytes_with_key(key.heap_bytes())
    }

    /// As [`Record::bytes`], given what the key allocates.
    pub(crate) fn bytes_with_key(&self, key_heap_bytes: usize) -> u64 {
        RECORD_BYTES + key_heap_bytes as u64 + self.value.heap_bytes() as u64
    }
}
