//! RDB files: all keys of a Redis, as it writes them to its disk and sends them to its replicas.
//!
//! ```text
//! "REDIS" | version: 4 digits | items | 255 | CRC-64 of all before (8, little-endian), or 0: none; since version 5
//!
//! 254 | database                                      what follows is in it; 0 before the first
//! 253 | seconds (4)   252 | milliseconds (8)          when the next key ceases to exist, little-endian
//! 249 | how often (1)   248 | seconds                 how the next key was used: nothing here
//! 251 | keys | keys with deadlines                    250 | name | value     244 | slot | keys | keys with deadlines
//! 247 | module | parts … | 0                          what a module keeps beside its keys
//! 245 | code                                          a library of functions
//! type | key | value                                  as in a payload of `DUMP` ([`super::dump`])
//! ```
//! Only keys are taken apart here. Of a value it is found out where it ends, and `RESTORE` reads it. (Redis's `rdb.c` and `rdb.h` are the description of this format.)

mod writer;

pub use writer::RdbWriter;

use super::dump::{VERSION_READ_MAX, sealed};
use super::lzf;
use base::WallTime;
use base::checksum::Crc64Redis;
use std::fmt;

const MAGIC: &[u8] = b"REDIS";
const HEADER_BYTES: usize = 9;
/// Longest item, in bytes.
const ITEM_BYTES_MAX: usize = 4 << 30;
/// Names and keys that are kept compressed are not longer than this.
const KEY_BYTES_MAX: usize = 512 << 20;
/// From so many bytes on an incomplete item is tried again only when half as much again has come.
const TRIED_AGAIN_FROM: usize = 1 << 20;
/// From this version on there is a checksum.
const CHECKSUM_SINCE: u16 = 5;

/// Something that a file holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Item {
    /// A key with its value.
    Key(Key),
    /// A library of functions: its code.
    Library(Vec<u8>),
}

/// A key with its value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Key {
    /// The number of its database.
    pub database: u64,
    /// Its name.
    pub name: Vec<u8>,
    /// When it ceases to exist.
    pub deadline: Option<WallTime>,
    /// Its value, as `RESTORE` takes it.
    pub payload: Vec<u8>,
}

/// Why a file cannot be read any further.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RdbError {
    /// Where that begins, in bytes from the beginning.
    pub offset: u64,
    /// The reason.
    pub text: &'static str,
}

impl fmt::Display for RdbError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: {}", self.offset, self.text)
    }
}

/// Reads a file that comes bit by bit.
#[derive(Debug, Default)]
pub struct RdbReader {
    /// Bytes from `at` on are not read yet.
    buffer: Vec<u8>,
    at: usize,
    /// Bytes before the buffer.
    before: u64,
    /// The file's version, once it is known.
    version: Option<u16>,
    database: u64,
    checksum: Crc64Redis,
    is_at_end: bool,
    /// An item was incomplete with so many bytes. It is read from its beginning, and so not tried again for each few more.
    tried: usize,
}

/// Why an item cannot be read.
enum Stop {
    /// Its end has not come yet.
    Incomplete,
    Malformed(&'static str),
}

enum Step {
    Item(Item),
    Database(u64),
    /// Something that means nothing here.
    Passed,
    End,
}

impl RdbReader {
    /// Further bytes have come.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.at > 0 && (self.at >= self.buffer.len() / 2 || self.buffer.len() + bytes.len() > self.buffer.capacity())
        {
            self.buffer.drain(..self.at);
            self.before += self.at as u64;
            self.at = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Bytes that have come and are not read yet.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.buffer.len() - self.at
    }

    /// Nothing further will come.
    pub fn end(&mut self) {
        self.tried = 0;
    }

    /// The whole file was read, and its checksum is right.
    #[must_use]
    pub fn is_at_end(&self) -> bool {
        self.is_at_end
    }

    /// The next item; none until more bytes have come, or at the end.
    ///
    /// # Errors
    /// It is no RDB file, one of a version that is not known, or damaged.
    #[allow(
        clippy::should_implement_trait,
        reason = "there is no item at the moment does not mean that there are no more"
    )]
    pub fn next(&mut self) -> Result<Option<Item>, RdbError> {
        if self.tried > TRIED_AGAIN_FROM && self.waiting() < self.tried + self.tried / 2 {
            return Ok(None);
        }
        self.tried = 0;
        while !self.is_at_end {
            let offset = self.before + self.at as u64;
            let mut cursor = Cursor { bytes: &self.buffer[self.at..], at: 0 };
            let step = match self.version {
                None => header(&mut cursor).map(|version| {
                    self.version = Some(version);
                    Step::Passed
                }),
                Some(version) => item(&mut cursor, self.database, version),
            };
            let read = match step {
                Err(Stop::Incomplete) => {
                    self.tried = self.waiting();
                    return Ok(None);
                }
                Err(Stop::Malformed(text)) => return Err(RdbError { offset, text }),
                Ok(Step::End) => {
                    let end = cursor.at;
                    let has_checksum = self.version.is_some_and(|version| version >= CHECKSUM_SINCE);
                    let said = match has_checksum.then(|| cursor.number(8)).transpose() {
                        Ok(said) => said.unwrap_or(0),
                        Err(_) => return Ok(None),
                    };
                    self.checksum.update(&cursor.bytes[..end]);
                    if said != 0 && said != self.checksum.value() {
                        return Err(RdbError { offset, text: "the checksum of the file is another one" });
                    }
                    self.at += cursor.at;
                    self.is_at_end = true;
                    return Ok(None);
                }
                Ok(step) => {
                    self.checksum.update(&cursor.bytes[..cursor.at]);
                    self.at += cursor.at;
                    step
                }
            };
            match read {
                Step::Item(item) => return Ok(Some(item)),
                Step::Database(number) => self.database = number,
                Step::Passed | Step::End => {}
            }
        }
        Ok(None)
    }
}

fn header(cursor: &mut Cursor<'_>) -> Result<u16, Stop> {
    let header = cursor.take(HEADER_BYTES)?;
    let version = header.strip_prefix(MAGIC).and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
    match version {
        Some(version) if (1..=VERSION_READ_MAX).contains(&version) => Ok(version),
        Some(_) => Err(Stop::Malformed("the file is of a version of Redis that is not known here")),
        None => Err(Stop::Malformed("this is no RDB file")),
    }
}

/// Reads up to the end of a key, or of something else.
fn item(cursor: &mut Cursor<'_>, database: u64, version: u16) -> Result<Step, Stop> {
    let mut deadline = None;
    loop {
        match cursor.byte()? {
            255 => return Ok(Step::End),
            254 => return cursor.length().map(Step::Database),
            253 => deadline = Some(WallTime(cursor.number(4)?.saturating_mul(1000))),
            252 => deadline = Some(WallTime(cursor.number(8)?)),
            251 => {
                cursor.length()?;
                cursor.length()?;
                return Ok(Step::Passed);
            }
            250 => {
                cursor.pass_string()?;
                cursor.pass_string()?;
                return Ok(Step::Passed);
            }
            249 => drop(cursor.take(1)?),
            248 => drop(cursor.length()?),
            247 => {
                cursor.length()?;
                cursor.pass_parts()?;
                return Ok(Step::Passed);
            }
            246 => return Err(Stop::Malformed("functions as a test version of Redis 7.0 had them")),
            245 => return cursor.string().map(|code| Step::Item(Item::Library(code))),
            244 => {
                (0..3).try_for_each(|_| cursor.length().map(drop))?;
                return Ok(Step::Passed);
            }
            kind if !is_known(kind) => return Err(Stop::Malformed("a value is of a type that is not known here")),
            kind => {
                let name = cursor.string()?;
                let start = cursor.at;
                cursor.pass_value(kind)?;
                let body = [&[kind], &cursor.bytes[start..cursor.at]].concat();
                return Ok(Step::Item(Item::Key(Key { database, name, deadline, payload: sealed(body, version) })));
            }
        }
    }
}

/// True if the length of a value of this type can be found out.
fn is_known(kind: u8) -> bool {
    matches!(kind, 0..=5 | 7 | 9..=21 | 24 | 25)
}

struct Cursor<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Cursor<'b> {
    fn take(&mut self, count: usize) -> Result<&'b [u8], Stop> {
        let end = self.at.checked_add(count).filter(|end| *end <= ITEM_BYTES_MAX);
        let end = end.ok_or(Stop::Malformed("an item is longer than 4 GiB, or says so"))?;
        let taken = self.bytes.get(self.at..end).ok_or(Stop::Incomplete)?;
        self.at = end;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, Stop> {
        Ok(self.take(1)?[0])
    }

    /// A number of so many bytes, at most eight, little-endian.
    fn number(&mut self, bytes: usize) -> Result<u64, Stop> {
        Ok(self.take(bytes)?.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// A length, or of a string the way in which it is kept.
    fn length_or_way(&mut self) -> Result<Result<u64, u8>, Stop> {
        let big = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        let first = self.byte()?;
        Ok(match first {
            0..=0x3f => Ok(u64::from(first)),
            0x40..=0x7f => Ok(u64::from(first & 0x3f) << 8 | u64::from(self.byte()?)),
            0x80 => Ok(big(self.take(4)?)),
            0x81 => Ok(big(self.take(8)?)),
            0xc0..=0xc3 => Err(first & 0x3f),
            _ => return Err(Stop::Malformed("a length is none")),
        })
    }

    fn length(&mut self) -> Result<u64, Stop> {
        self.length_or_way()?.map_err(|_| Stop::Malformed("a string stands where a length should be"))
    }

    fn take_long(&mut self, count: u64) -> Result<&'b [u8], Stop> {
        self.take(usize::try_from(count).unwrap_or(usize::MAX))
    }

    fn pass_string(&mut self) -> Result<(), Stop> {
        match self.length_or_way()? {
            Ok(length) => drop(self.take_long(length)?),
            Err(way @ 0..=2) => drop(self.take(1 << way)?),
            Err(_) => {
                let compressed = self.length()?;
                self.length()?;
                self.take_long(compressed)?;
            }
        }
        Ok(())
    }

    fn string(&mut self) -> Result<Vec<u8>, Stop> {
        Ok(match self.length_or_way()? {
            Ok(length) => self.take_long(length)?.to_vec(),
            Err(way @ 0..=2) => {
                let bytes = 1 << way;
                let shift = 64 - 8 * bytes as u32;
                let number = (self.number(bytes)? << shift) as i64 >> shift;
                number.to_string().into_bytes()
            }
            Err(_) => {
                let (compressed, length) = (self.length()?, self.length()?);
                let compressed = self.take_long(compressed)?;
                let length = usize::try_from(length).ok().filter(|length| *length <= KEY_BYTES_MAX);
                let text = length.and_then(|length| lzf::decompress(compressed, length));
                text.ok_or(Stop::Malformed("a compressed string is damaged"))?
            }
        })
    }

    fn pass_strings(&mut self, count: u64) -> Result<(), Stop> {
        (0..count).try_for_each(|_| self.pass_string())
    }

    /// The parts that a module has written, each behind its kind.
    fn pass_parts(&mut self) -> Result<(), Stop> {
        loop {
            match self.length()? {
                0 => return Ok(()),
                1 | 2 => drop(self.length()?),
                3 => drop(self.take(4)?),
                4 => drop(self.take(8)?),
                5 => self.pass_string()?,
                _ => return Err(Stop::Malformed("a module has written something unknown")),
            }
        }
    }

    fn pass_value(&mut self, kind: u8) -> Result<(), Stop> {
        match kind {
            0 | 9..=13 | 16 | 17 | 20 => self.pass_string(),
            1 | 2 | 14 => {
                let count = self.length()?;
                self.pass_strings(count)
            }
            3 => {
                for _ in 0..self.length()? {
                    self.pass_string()?;
                    match self.byte()? {
                        253..=255 => {}
                        length => drop(self.take(usize::from(length))?),
                    }
                }
                Ok(())
            }
            4 => {
                let count = self.length()?;
                self.pass_strings(count.saturating_mul(2))
            }
            5 => {
                for _ in 0..self.length()? {
                    self.pass_string()?;
                    self.take(8)?;
                }
                Ok(())
            }
            7 => {
                self.length()?;
                self.pass_parts()
            }
            15 | 19 | 21 => self.pass_stream(kind),
            18 => {
                for _ in 0..self.length()? {
                    self.length()?;
                    self.pass_string()?;
                }
                Ok(())
            }
            24 => {
                self.take(8)?;
                for _ in 0..self.length()? {
                    self.length()?;
                    self.pass_strings(2)?;
                }
                Ok(())
            }
            25 => {
                self.take(8)?;
                self.pass_string()
            }
            _ => Err(Stop::Malformed("a value is of a type that is not known here")),
        }
    }

    fn pass_stream(&mut self, kind: u8) -> Result<(), Stop> {
        let lengths = |it: &mut Self, count: usize| (0..count).try_for_each(|_| it.length().map(drop));
        let packs = self.length()?;
        self.pass_strings(packs.saturating_mul(2))?;
        lengths(self, if kind == 15 { 3 } else { 8 })?;
        for _ in 0..self.length()? {
            self.pass_string()?;
            lengths(self, if kind == 15 { 2 } else { 3 })?;
            for _ in 0..self.length()? {
                self.take(16 + 8)?;
                self.length()?;
            }
            for _ in 0..self.length()? {
                self.pass_string()?;
                self.take(if kind == 21 { 16 } else { 8 })?;
                for _ in 0..self.length()? {
                    self.take(16)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
