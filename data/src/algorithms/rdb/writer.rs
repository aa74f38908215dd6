//! Writes an RDB file bit by bit: what stands around the values, and the parts of which values are made. ([`crate::rdb_file`] says which parts those are.)

use super::super::dump::{put_length, put_string};
use super::MAGIC;
use base::WallTime;
use base::checksum::Crc64Redis;

/// The version that a file says it has: that of Redis 7.0, the oldest with all that is written here but for fields that expire. Redis 7.4 and later read those from a
/// file of this version, too; a file that named 7.4's version would be refused by each earlier Redis, and by Valkey, whatever is in it.
const VERSION_WRITTEN: &[u8] = b"0010";
/// So many bytes are written together. A larger element of a value comes on top.
const TOGETHER_BYTES: usize = 64 * 1024;

const LIBRARY: u8 = 245;
const AUXILIARY: u8 = 250;
const COUNTS: u8 = 251;
const DEADLINE_MS: u8 = 252;
const DATABASE: u8 = 254;
const END: u8 = 255;

/// Writes a file, in the order of its functions: first what the file says of itself, then libraries, then for each database its keys. `sink` is given the bytes as they
/// come, some tens of kilobytes at a time; no value is held whole but for its largest element.
#[derive(Debug)]
pub struct RdbWriter<S> {
    sink: S,
    /// Bytes that the sink has not got yet.
    buffer: Vec<u8>,
    checksum: Crc64Redis,
}

impl<E, S: FnMut(&[u8]) -> Result<(), E>> RdbWriter<S> {
    /// Begins a file.
    #[must_use]
    pub fn new(sink: S) -> RdbWriter<S> {
        let buffer = [MAGIC, VERSION_WRITTEN].concat();
        RdbWriter { sink, buffer, checksum: Crc64Redis::new() }
    }

    /// Says something of the file: readers pass over names that they do not know.
    ///
    /// # Errors
    /// As of all functions of this type: the sink's.
    pub fn auxiliary(&mut self, name: &str, value: &str) -> Result<(), E> {
        self.buffer.push(AUXILIARY);
        put_string(&mut self.buffer, name.as_bytes());
        self.string(value.as_bytes())
    }

    /// Writes a library of functions.
    ///
    /// # Errors
    /// The sink's.
    pub fn library(&mut self, code: &[u8]) -> Result<(), E> {
        self.buffer.push(LIBRARY);
        self.string(code)
    }

    /// The keys from here on are in this database, about so many: a Redis makes room for them at once.
    ///
    /// # Errors
    /// The sink's.
    pub fn database(&mut self, number: u64, keys: u64) -> Result<(), E> {
        self.buffer.push(DATABASE);
        self.number(number)?;
        self.buffer.push(COUNTS);
        self.number(keys)?;
        // How many of them have deadlines is not known before they are written. It is a hint only.
        self.number(0)
    }

    /// Begins a key: its value has to follow.
    pub(crate) fn key(&mut self, name: &[u8], deadline: Option<WallTime>, kind: u8) -> Result<(), E> {
        if let Some(deadline) = deadline {
            self.buffer.push(DEADLINE_MS);
            self.buffer.extend(deadline.0.to_le_bytes());
        }
        self.buffer.push(kind);
        self.string(name)
    }

    /// A string of a value.
    pub(crate) fn string(&mut self, bytes: &[u8]) -> Result<(), E> {
        put_string(&mut self.buffer, bytes);
        self.pass_on()
    }

    /// A number of a value, in the form of lengths.
    pub(crate) fn number(&mut self, number: u64) -> Result<(), E> {
        put_length(&mut self.buffer, usize::try_from(number).unwrap_or(usize::MAX));
        self.pass_on()
    }

    /// Bytes of a value as they are.
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> Result<(), E> {
        self.buffer.extend_from_slice(bytes);
        self.pass_on()
    }

    /// Parts of a value that `put` appends to the buffer.
    pub(crate) fn parts(&mut self, put: impl FnOnce(&mut Vec<u8>)) -> Result<(), E> {
        put(&mut self.buffer);
        self.pass_on()
    }

    /// Ends the file. Without this it is none that a reader takes for whole.
    ///
    /// # Errors
    /// The sink's.
    pub fn end(mut self) -> Result<(), E> {
        self.buffer.push(END);
        self.write()?;
        (self.sink)(&self.checksum.value().to_le_bytes())
    }

    fn pass_on(&mut self) -> Result<(), E> {
        if self.buffer.len() < TOGETHER_BYTES { Ok(()) } else { self.write() }
    }

    fn write(&mut self) -> Result<(), E> {
        self.checksum.update(&self.buffer);
        let written = (self.sink)(&self.buffer);
        self.buffer.clear();
        // A very large element's room is not kept.
        self.buffer.shrink_to(2 * TOGETHER_BYTES);
        written
    }
}
