//! Fields of peer messages: little-endian integers, variable-length integers, strings with their length before them.
//!
//! Every read is checked; a message that ends early, claims more than it has or goes on after its end is
//! [`Malformed`], which is all that there is to say of bytes whose checksum was right.

use std::fmt;

use base::{Ballot, BucketId, NodeId, PartitionId, Position, Revision};
use bytes::Bytes;

/// Bytes that do not mean what they should.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("malformed message")
    }
}

impl std::error::Error for Malformed {}

/// Appends fields to a buffer.
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> Writer<'a> {
    /// Appends to `out`.
    pub fn new(out: &'a mut Vec<u8>) -> Writer<'a> {
        Writer { out }
    }

    /// The buffer, for what is encoded elsewhere.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        self.out
    }

    /// One byte.
    pub fn u8(&mut self, value: u8) {
        self.out.push(value);
    }

    /// Two bytes.
    pub fn u16(&mut self, value: u16) {
        self.out.extend_from_slice(&value.to_le_bytes());
    }

    /// Four bytes.
    pub fn u32(&mut self, value: u32) {
        self.out.extend_from_slice(&value.to_le_bytes());
    }

    /// Eight bytes.
    pub fn u64(&mut self, value: u64) {
        self.out.extend_from_slice(&value.to_le_bytes());
    }

    /// One byte, 0 or 1.
    pub fn bool(&mut self, value: bool) {
        self.out.push(u8::from(value));
    }

    /// One to ten bytes, seven bits in each, the lowest first (LEB128).
    pub fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.out.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.out.push(value as u8);
    }

    /// A varint for a signed number: small magnitudes of either sign are short (zigzag).
    pub fn signed(&mut self, value: i64) {
        self.varint(((value << 1) ^ (value >> 63)) as u64);
    }

    /// A count of things that follow, as a varint.
    pub fn count(&mut self, count: usize) {
        self.varint(count as u64);
    }

    /// A string of bytes: its length as a varint, then the bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.out.extend_from_slice(bytes);
    }

    /// Bytes whose length the reader knows otherwise.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Whether something is there, and if so `write` writes it.
    pub fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.bool(value.is_some());
        if let Some(value) = value {
            write(self, value);
        }
    }

    /// A node.
    pub fn node(&mut self, node: NodeId) {
        self.u16(node.0);
    }

    /// A partition.
    pub fn partition(&mut self, partition: PartitionId) {
        self.u32(partition.bucket.0);
        self.u16(partition.index);
    }

    /// A ballot.
    pub fn ballot(&mut self, ballot: Ballot) {
        self.varint(ballot.round);
        self.node(ballot.node);
    }

    /// A position.
    pub fn position(&mut self, position: Position) {
        self.varint(position.0);
    }

    /// A revision.
    pub fn revision(&mut self, revision: Revision) {
        self.varint(revision.0);
    }
}

/// Takes fields out of a message, in the order they were written.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    /// The memory that `rest` is part of, if it can be shared.
    owner: Option<&'a Bytes>,
}

impl<'a> Reader<'a> {
    /// Reads a message whose strings can be kept without copying, by [`bytes`](Self::bytes).
    #[must_use]
    pub fn new(message: &'a Bytes) -> Reader<'a> {
        Reader { rest: message, owner: Some(message) }
    }

    /// Reads borrowed bytes; [`bytes`](Self::bytes) copies.
    #[must_use]
    pub fn from_slice(message: &'a [u8]) -> Reader<'a> {
        Reader { rest: message, owner: None }
    }

    /// What has not been read.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or(Malformed)?;
        self.rest = rest;
        Ok(*head)
    }

    /// One byte.
    ///
    /// # Errors
    /// At the end of the message.
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        self.take::<1>().map(|[byte]| byte)
    }

    /// Two bytes.
    ///
    /// # Errors
    /// If the message ends early.
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.take().map(u16::from_le_bytes)
    }

    /// Four bytes.
    ///
    /// # Errors
    /// If the message ends early.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.take().map(u32::from_le_bytes)
    }

    /// Eight bytes.
    ///
    /// # Errors
    /// If the message ends early.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.take().map(u64::from_le_bytes)
    }

    /// One byte, 0 or 1.
    ///
    /// # Errors
    /// If the message ends early or the byte is another.
    pub fn bool(&mut self) -> Result<bool, Malformed> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }

    /// A variable-length integer as [`Writer::varint`] writes it; only its shortest form is taken.
    ///
    /// # Errors
    /// If the message ends early, the number does not fit 64 bits or has a needless byte.
    pub fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && byte > 1 {
                return Err(Malformed);
            }
            value |= bits << shift;
            if byte < 0x80 {
                return if byte == 0 && shift > 0 { Err(Malformed) } else { Ok(value) };
            }
        }
        Err(Malformed)
    }

    /// A signed number as [`Writer::signed`] writes it.
    ///
    /// # Errors
    /// As [`varint`](Self::varint).
    pub fn signed(&mut self) -> Result<i64, Malformed> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// A count of things that follow, each of which takes at least `bytes_each_min` bytes: so a count that is
    /// returned may be allocated for. A `bytes_each_min` of 0 is taken for 1.
    ///
    /// # Errors
    /// If the message ends early or is too short for so many.
    pub fn count(&mut self, bytes_each_min: usize) -> Result<usize, Malformed> {
        let count = usize::try_from(self.varint()?).map_err(|_| Malformed)?;
        let count_max = self.rest.len() / bytes_each_min.max(1);
        if count > count_max { Err(Malformed) } else { Ok(count) }
    }

    /// A string of bytes, borrowed from the message.
    ///
    /// # Errors
    /// If the message ends early.
    pub fn slice(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.count(1)?;
        self.raw(length)
    }

    /// A string of bytes to keep: shares the message's memory if the reader was made by [`new`](Self::new).
    ///
    /// # Errors
    /// If the message ends early.
    pub fn bytes(&mut self) -> Result<Bytes, Malformed> {
        let slice = self.slice()?;
        Ok(self.keep(slice))
    }

    /// Bytes of a known number, borrowed from the message.
    ///
    /// # Errors
    /// If the message ends early.
    pub fn raw(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (head, rest) = self.rest.split_at_checked(length).ok_or(Malformed)?;
        self.rest = rest;
        Ok(head)
    }

    /// A slice that came out of this reader, to keep: shares the message's memory where that is possible.
    #[must_use]
    pub fn keep(&self, slice: &'a [u8]) -> Bytes {
        match self.owner {
            Some(owner) => owner.slice_ref(slice),
            None => Bytes::copy_from_slice(slice),
        }
    }

    /// A string of UTF-8 text, borrowed from the message.
    ///
    /// # Errors
    /// If the message ends early or the bytes are no UTF-8.
    pub fn text(&mut self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.slice()?).map_err(|_| Malformed)
    }

    /// What [`Writer::option`] wrote.
    ///
    /// # Errors
    /// If the message ends early, or what `read` returns.
    pub fn option<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Malformed>) -> Result<Option<T>, Malformed> {
        if self.bool()? { read(self).map(Some) } else { Ok(None) }
    }

    /// A node.
    ///
    /// # Errors
    /// If the message ends early.
    pub fn node(&mut self) -> Result<NodeId, Malformed> {
        self.u16().map(NodeId)
    }

    /// A partition.
    ///
    /// # Errors
    /// If the message ends early.
    pub fn partition(&mut self) -> Result<PartitionId, Malformed> {
        Ok(PartitionId { bucket: BucketId(self.u32()?), index: self.u16()? })
    }

    /// A ballot.
    ///
    /// # Errors
    /// As [`varint`](Self::varint).
    pub fn ballot(&mut self) -> Result<Ballot, Malformed> {
        Ok(Ballot { round: self.varint()?, node: self.node()? })
    }

    /// A position.
    ///
    /// # Errors
    /// As [`varint`](Self::varint).
    pub fn position(&mut self) -> Result<Position, Malformed> {
        self.varint().map(Position)
    }

    /// A revision.
    ///
    /// # Errors
    /// As [`varint`](Self::varint).
    pub fn revision(&mut self) -> Result<Revision, Malformed> {
        self.varint().map(Revision)
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// If bytes are left: the writer knew fields that we do not.
    pub fn finish(self) -> Result<(), Malformed> {
        if self.rest.is_empty() { Ok(()) } else { Err(Malformed) }
    }
}

#[cfg(test)]
mod tests;
