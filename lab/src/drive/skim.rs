//! Where a RESP reply ends and what kind it is, without building its values.
//!
//! A value is a line, or a line and a string of known length, or a line and a known number of values. So it suffices to count
//! how many values are still to come: an aggregate of n adds n, and the depth does not matter. What arrives in pieces is never
//! looked at twice, but for an unfinished line.

use wire::ReplyError;

/// Values of one reply, inner ones included.
const VALUES_MAX: u64 = 16 * 1024 * 1024;
/// Bytes of one string of a reply.
const STRING_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// Bytes of a line, by which a stream that is no RESP is known.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// What kind of answer it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Anything but the others.
    Value,
    /// Nothing: there is no such key, or a condition was not met.
    Nothing,
    /// An error.
    Error,
}

/// A complete reply at the beginning of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Its length in bytes.
    pub length: usize,
    /// Its kind.
    pub kind: Kind,
}

/// Looks for the end of one reply after the other.
#[derive(Debug, Default)]
pub struct Skimmer {
    /// Bytes of the current reply that have been passed over; may be more than have arrived.
    at: usize,
    /// Whether a reply has begun and has not been handed out.
    begun: bool,
    /// Values that the current reply lacks.
    lacking: u64,
    kind: Option<Kind>,
    values: u64,
}

impl Skimmer {
    /// The reply at the beginning of `bytes`, if all of it is there; none if more must arrive. The caller gives the same bytes
    /// again with what has arrived since, and takes a complete reply away before the next call.
    ///
    /// # Errors
    /// When the bytes are no RESP or over a limit: the connection is to be closed.
    pub fn next(&mut self, bytes: &[u8]) -> Result<Option<Reply>, ReplyError> {
        if !self.begun {
            *self = Skimmer { begun: true, lacking: 1, ..Skimmer::default() };
        }
        while self.lacking > 0 {
            let Some(rest) = bytes.get(self.at..).filter(|rest| !rest.is_empty()) else { return Ok(None) };
            let Some(line) = line_length(rest)? else { return Ok(None) };
            let mark = rest[0];
            let mut kind = Kind::Value;
            self.lacking -= 1;
            self.values += 1;
            self.at += line;
            match mark {
                b'+' | b':' | b',' | b'#' | b'(' => {}
                b'-' => kind = Kind::Error,
                b'_' => kind = Kind::Nothing,
                b'$' | b'=' | b'!' => {
                    match number(&rest[1..line - 2])? {
                        None => kind = Kind::Nothing,
                        Some(length) if length > STRING_BYTES_MAX => return Err(ReplyError::TooLarge),
                        Some(length) => self.at += length as usize + 2,
                    }
                    if mark == b'!' {
                        kind = Kind::Error;
                    }
                }
                b'*' | b'~' | b'>' | b'%' | b'|' => {
                    let count = number(&rest[1..line - 2])?;
                    if count.is_none() {
                        kind = Kind::Nothing;
                    }
                    let count = count.unwrap_or(0);
                    if count > VALUES_MAX {
                        return Err(ReplyError::TooLarge);
                    }
                    // Attributes do not stand for the value that is waited for: it is still to come.
                    self.lacking += match mark {
                        b'%' => count * 2,
                        b'|' => count * 2 + 1,
                        _ => count,
                    };
                }
                other => return Err(ReplyError::UnknownType(other)),
            }
            if self.values + self.lacking > VALUES_MAX {
                return Err(ReplyError::TooLarge);
            }
            self.kind.get_or_insert(kind);
        }
        if self.at > bytes.len() {
            // The last string has not arrived whole.
            return Ok(None);
        }
        let reply = Reply { length: self.at, kind: self.kind.unwrap_or(Kind::Value) };
        *self = Skimmer::default();
        Ok(Some(reply))
    }
}

/// The length of the first line with its end, if the end is there.
fn line_length(bytes: &[u8]) -> Result<Option<usize>, ReplyError> {
    // Lines are short: a loop is faster than a search that prepares itself.
    for (index, byte) in bytes.iter().enumerate().take(LINE_BYTES_MAX) {
        if *byte == b'\r' {
            return match bytes.get(index + 1) {
                None => Ok(None),
                Some(b'\n') => Ok(Some(index + 2)),
                Some(_) => Err(ReplyError::Malformed),
            };
        }
    }
    if bytes.len() >= LINE_BYTES_MAX { Err(ReplyError::TooLarge) } else { Ok(None) }
}

/// A length or count; none stands for -1.
fn number(digits: &[u8]) -> Result<Option<u64>, ReplyError> {
    if digits == b"-1" {
        return Ok(None);
    }
    if digits.is_empty() || digits.len() > 18 {
        return Err(ReplyError::Malformed);
    }
    let mut value = 0u64;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return Err(ReplyError::Malformed);
        }
        value = value * 10 + u64::from(digit - b'0');
    }
    Ok(Some(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each of these replies, however it is cut, is found with its length and kind.
    #[test]
    fn replies_are_found_in_whatever_pieces() {
        let replies: [(&[u8], Kind); 11] = [
            (b"+OK\r\n", Kind::Value),
            (b":-12\r\n", Kind::Value),
            (b"$3\r\na\rb\r\n", Kind::Value),
            (b"$0\r\n\r\n", Kind::Value),
            (b"$-1\r\n", Kind::Nothing),
            (b"*-1\r\n", Kind::Nothing),
            (b"*0\r\n", Kind::Value),
            (b"*3\r\n$1\r\na\r\n*2\r\n:1\r\n$-1\r\n$2\r\n\r\n\r\n", Kind::Value),
            (b"-ERR no such\r\n", Kind::Error),
            (b"%1\r\n+a\r\n*1\r\n_\r\n", Kind::Value),
            (b"!5\r\nERR x\r\n", Kind::Error),
        ];
        let whole: Vec<u8> = replies.iter().flat_map(|(bytes, _)| bytes.iter().copied()).collect();
        for piece in 1..whole.len() {
            let mut skimmer = Skimmer::default();
            let (mut buffer, mut found) = (Vec::new(), Vec::new());
            for bytes in whole.chunks(piece) {
                buffer.extend_from_slice(bytes);
                while let Some(reply) = skimmer.next(&buffer).unwrap() {
                    found.push((buffer[..reply.length].to_vec(), reply.kind));
                    buffer.drain(..reply.length);
                }
            }
            let expected: Vec<(Vec<u8>, Kind)> = replies.iter().map(|(bytes, kind)| (bytes.to_vec(), *kind)).collect();
            assert_eq!(found, expected, "in pieces of {piece}");
            assert!(buffer.is_empty());
        }
    }

    #[test]
    fn what_is_no_reply_is_an_error() {
        for bytes in [&b"HTTP/1.1 200\r\n"[..], b"$x\r\n", b"*99999999999\r\n", b"$\r\n", b"+a\rb", b"*-2\r\n"] {
            assert!(Skimmer::default().next(bytes).is_err(), "{}", bytes.escape_ascii());
        }
        assert_eq!(Skimmer::default().next(&vec![b'+'; LINE_BYTES_MAX]), Err(ReplyError::TooLarge));
    }
}
