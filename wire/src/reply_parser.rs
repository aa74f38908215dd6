//! Replies of a server, taken apart by clients: RESP2 and RESP3.
//!
//! The aggregates that are not complete stand on a stack, each with what it holds so far; a complete value goes into the
//! topmost one, which may thereby be complete itself. So a reply in pieces is never parsed twice, and depth costs
//! no stack of the thread.

use std::fmt;

use bytes::{Buf, BytesMut};

use crate::value::Value;
use base::number::parse_integer;

/// Bounds of one reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplyLimits {
    /// Aggregates within one another.
    pub depth_max: usize,
    /// Values of one reply, inner ones included.
    pub values_max: usize,
    /// Bytes of one reply, as sent.
    pub bytes_max: usize,
}

impl Default for ReplyLimits {
    /// 64 aggregates within one another, 16 Mi values, 1 GiB.
    fn default() -> ReplyLimits {
        ReplyLimits { depth_max: 64, values_max: 16 * 1024 * 1024, bytes_max: 1024 * 1024 * 1024 }
    }
}

/// Why a server's replies cannot be understood any further. The connection is to be closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReplyError {
    /// A reply begins with this byte, which means nothing.
    UnknownType(u8),
    /// A number or length is none, or a line or string does not end where it should.
    Malformed,
    /// A reply over a limit.
    TooLarge,
}

impl fmt::Display for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplyError::UnknownType(byte) => {
                write!(f, "the server's reply begins with '{}', which is not RESP", byte.escape_ascii())
            }
            ReplyError::Malformed => f.write_str("the server's reply is malformed"),
            ReplyError::TooLarge => f.write_str("the server's reply is too large"),
        }
    }
}

impl std::error::Error for ReplyError {}

/// What an incomplete aggregate will be.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Array,
    Set,
    Push,
    Map,
    /// Attributes; once they are complete, the value that they belong to is still to come.
    Attributes,
}

/// An aggregate that is not complete.
#[derive(Debug)]
enum Open {
    /// Its kind, how many values it lacks (of a map: keys and values), and those that it has.
    Aggregate(Kind, usize, Vec<Value>),
    /// Complete attributes that wait for their value.
    Attributed(Vec<(Value, Value)>),
}

/// A string whose length is known.
#[derive(Clone, Copy, Debug)]
struct Text {
    mark: u8,
    bytes: usize,
}

/// Takes one connection's bytes apart into replies.
#[derive(Debug)]
pub struct ReplyParser {
    limits: ReplyLimits,
    buffer: BytesMut,
    /// Bytes of the buffer that hold no end of line.
    scanned: usize,
    /// The string that is being waited for.
    text: Option<Text>,
    stack: Vec<Open>,
    /// Values of the current reply.
    values: usize,
    /// Bytes of the current reply that have been used.
    bytes: usize,
    failed: Option<ReplyError>,
}

impl Default for ReplyParser {
    fn default() -> ReplyParser {
        ReplyParser::new(ReplyLimits::default())
    }
}

impl ReplyParser {
    /// A parser at the beginning of a connection.
    #[must_use]
    pub fn new(limits: ReplyLimits) -> ReplyParser {
        ReplyParser {
            limits,
            buffer: BytesMut::new(),
            scanned: 0,
            text: None,
            stack: Vec::new(),
            values: 0,
            bytes: 0,
            failed: None,
        }
    }

    /// Adds bytes that have arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.failed.is_none() {
            self.buffer.extend_from_slice(bytes);
        }
    }

    /// Whether no reply is half read.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.buffer.is_empty() && self.stack.is_empty() && self.text.is_none()
    }

    /// The next reply, if it has arrived whole.
    ///
    /// # Errors
    /// A [`ReplyError`]: the connection is to be closed, and every later call says so again.
    #[allow(clippy::should_implement_trait, reason = "`None` here means not yet, not the end")]
    pub fn next(&mut self) -> Result<Option<Value>, ReplyError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        self.advance().inspect_err(|&error| {
            self.failed = Some(error);
            self.buffer = BytesMut::new();
            self.stack = Vec::new();
        })
    }

    fn advance(&mut self) -> Result<Option<Value>, ReplyError> {
        loop {
            let step = match self.text {
                Some(text) => self.read_text(text)?,
                None => self.read_line()?,
            };
            match step {
                Step::Wait => return Ok(None),
                Step::Opened => {}
                Step::Value(value) => {
                    if let Some(reply) = self.close(value) {
                        (self.values, self.bytes) = (0, 0);
                        return Ok(Some(reply));
                    }
                }
            }
        }
    }

    /// Puts a complete value where it belongs; the whole reply, once that is complete.
    fn close(&mut self, mut value: Value) -> Option<Value> {
        loop {
            match self.stack.pop() {
                None => return Some(value),
                Some(Open::Attributed(attributes)) => {
                    value = Value::Attributed { attributes, value: Box::new(value) };
                }
                Some(Open::Aggregate(kind, missing, mut values)) => {
                    values.push(value);
                    if missing > 1 {
                        self.stack.push(Open::Aggregate(kind, missing - 1, values));
                        return None;
                    }
                    value = match kind {
                        Kind::Array => Value::Array(values),
                        Kind::Set => Value::Set(values),
                        Kind::Push => Value::Push(values),
                        Kind::Map => Value::Map(pairs(values)),
                        Kind::Attributes => {
                            self.stack.push(Open::Attributed(pairs(values)));
                            return None;
                        }
                    };
                }
            }
        }
    }

    /// Counts used bytes and one value against the limits.
    fn spend(&mut self, bytes: usize) -> Result<(), ReplyError> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > self.limits.bytes_max { Err(ReplyError::TooLarge) } else { Ok(()) }
    }

    fn read_line(&mut self) -> Result<Step, ReplyError> {
        let Some(at) = memchr::memchr(b'\n', &self.buffer[self.scanned..]) else {
            self.scanned = self.buffer.len();
            return if self.bytes.saturating_add(self.scanned) > self.limits.bytes_max {
                Err(ReplyError::TooLarge)
            } else {
                Ok(Step::Wait)
            };
        };
        let line = self.buffer.split_to(self.scanned + at + 1);
        self.scanned = 0;
        self.spend(line.len())?;
        self.values += 1;
        if self.values > self.limits.values_max {
            return Err(ReplyError::TooLarge);
        }
        let Some((&mark, rest)) = line.strip_suffix(b"\r\n").and_then(<[u8]>::split_first) else {
            return Err(ReplyError::Malformed);
        };
        self.read_header(mark, rest)
    }

    /// Reads the first line of a value, without its mark and its end.
    fn read_header(&mut self, mark: u8, rest: &[u8]) -> Result<Step, ReplyError> {
        let lossy = || String::from_utf8_lossy(rest).into_owned();
        Ok(Step::Value(match mark {
            b'+' => Value::Simple(lossy()),
            b'-' => Value::Error(lossy()),
            b':' => Value::Integer(parse_integer(rest).ok_or(ReplyError::Malformed)?),
            b'_' if rest.is_empty() => Value::Null,
            b'#' => match rest {
                b"t" => Value::Boolean(true),
                b"f" => Value::Boolean(false),
                _ => return Err(ReplyError::Malformed),
            },
            b',' => Value::Double(parse_double(rest).ok_or(ReplyError::Malformed)?),
            b'(' => {
                let digits = rest.strip_prefix(b"-").unwrap_or(rest);
                if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
                    return Err(ReplyError::Malformed);
                }
                Value::BigNumber(lossy())
            }
            b'$' if rest == b"-1" => Value::Null,
            b'*' if rest == b"-1" => Value::NullArray,
            b'$' | b'!' | b'=' => {
                let bytes = parse_length(rest)?;
                if mark == b'=' && bytes < 4 {
                    return Err(ReplyError::Malformed);
                }
                self.spend(bytes.saturating_add(2))?;
                self.text = Some(Text { mark, bytes });
                return Ok(Step::Opened);
            }
            b'*' => return self.open(Kind::Array, parse_length(rest)?),
            b'~' => return self.open(Kind::Set, parse_length(rest)?),
            b'>' => return self.open(Kind::Push, parse_length(rest)?),
            b'%' => return self.open(Kind::Map, parse_length(rest)?.saturating_mul(2)),
            b'|' => return self.open(Kind::Attributes, parse_length(rest)?.saturating_mul(2)),
            b'_' => return Err(ReplyError::Malformed),
            other => return Err(ReplyError::UnknownType(other)),
        }))
    }

    /// Begins an aggregate of `missing` values.
    fn open(&mut self, kind: Kind, missing: usize) -> Result<Step, ReplyError> {
        if missing > self.limits.values_max - self.values || self.stack.len() >= self.limits.depth_max {
            return Err(ReplyError::TooLarge);
        }
        if missing > 0 {
            // The claim is believed only so far: the values have not arrived.
            self.stack.push(Open::Aggregate(kind, missing, Vec::with_capacity(missing.min(64))));
            return Ok(Step::Opened);
        }
        Ok(match kind {
            Kind::Array => Step::Value(Value::Array(Vec::new())),
            Kind::Set => Step::Value(Value::Set(Vec::new())),
            Kind::Push => Step::Value(Value::Push(Vec::new())),
            Kind::Map => Step::Value(Value::Map(Vec::new())),
            Kind::Attributes => {
                self.stack.push(Open::Attributed(Vec::new()));
                Step::Opened
            }
        })
    }

    /// Reads a string whose length is known.
    fn read_text(&mut self, text: Text) -> Result<Step, ReplyError> {
        let Text { mark, bytes } = text;
        if self.buffer.len() < bytes + 2 {
            return Ok(Step::Wait);
        }
        if &self.buffer[bytes..bytes + 2] != b"\r\n" {
            return Err(ReplyError::Malformed);
        }
        let content = &self.buffer[..bytes];
        let value = match mark {
            b'$' => Value::bulk(content),
            b'!' => Value::Error(String::from_utf8_lossy(content).into_owned()),
            _ => match content {
                [a, b, c, b':', text @ ..] => Value::Verbatim { format: [*a, *b, *c], text: text.to_vec() },
                _ => return Err(ReplyError::Malformed),
            },
        };
        self.buffer.advance(bytes + 2);
        self.text = None;
        Ok(Step::Value(value))
    }
}

/// What reading one line or string came to.
enum Step {
    /// More bytes are needed.
    Wait,
    /// An aggregate or a string has begun.
    Opened,
    /// A value is complete.
    Value(Value),
}

fn pairs(values: Vec<Value>) -> Vec<(Value, Value)> {
    let mut pairs = Vec::with_capacity(values.len() / 2);
    let mut values = values.into_iter();
    while let (Some(key), Some(value)) = (values.next(), values.next()) {
        pairs.push((key, value));
    }
    pairs
}

fn parse_length(digits: &[u8]) -> Result<usize, ReplyError> {
    parse_integer(digits).and_then(|length| usize::try_from(length).ok()).ok_or(ReplyError::Malformed)
}

fn parse_double(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    match text {
        "inf" => Some(f64::INFINITY),
        "-inf" => Some(f64::NEG_INFINITY),
        "nan" | "-nan" => Some(f64::NAN),
        // Rust would also take "infinity" and the like.
        _ if text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E')) => {
            text.parse().ok()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
