//! Replies to clients, in RESP2 and RESP3, and commands to servers.

/// The dialect of a connection. Clients begin in RESP2 and may switch with `HELLO`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Protocol {
    /// What every client understands.
    #[default]
    Resp2,
    /// Adds maps, sets, doubles, booleans, nulls of one kind, pushed messages and attributes.
    Resp3,
}

impl Protocol {
    /// The number that `HELLO` names the dialect by.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Protocol::Resp2 => 2,
            Protocol::Resp3 => 3,
        }
    }

    /// The dialect that `HELLO` names by `number`.
    #[must_use]
    pub fn from_number(number: i64) -> Option<Protocol> {
        match number {
            2 => Some(Protocol::Resp2),
            3 => Some(Protocol::Resp3),
            _ => None,
        }
    }
}

/// Appends replies to a buffer, in the dialect of the connection.
///
/// The header of an aggregate ([`array`](Self::array), [`map`](Self::map), …) must be followed by as many replies as it
/// announces; nobody counts.
#[derive(Debug)]
pub struct ReplyWriter<'a> {
    out: &'a mut Vec<u8>,
    protocol: Protocol,
}

impl<'a> ReplyWriter<'a> {
    /// Appends to `out`.
    pub fn new(out: &'a mut Vec<u8>, protocol: Protocol) -> ReplyWriter<'a> {
        ReplyWriter { out, protocol }
    }

    /// The dialect.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// The buffer, for replies that were encoded before.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        self.out
    }

    /// `+OK`.
    pub fn ok(&mut self) {
        self.out.extend_from_slice(b"+OK\r\n");
    }

    /// A short text on one line. Ends of lines within it become spaces.
    pub fn simple(&mut self, text: &str) {
        line(self.out, b'+', text.as_bytes());
    }

    /// An error: `text` begins with its code in capitals (`ERR …`), without a `-`. Ends of lines within it become spaces.
    pub fn error(&mut self, text: &str) {
        line(self.out, b'-', text.as_bytes());
    }

    /// As [`error`](Self::error), of any bytes: errors may quote what a client sent.
    pub fn error_bytes(&mut self, text: &[u8]) {
        line(self.out, b'-', text);
    }

    /// An integer.
    pub fn integer(&mut self, number: i64) {
        header(self.out, b':', number);
    }

    /// A string of bytes.
    pub fn bulk(&mut self, bytes: &[u8]) {
        bulk(self.out, bytes);
    }

    /// A string of bytes, or [`null`](Self::null).
    pub fn bulk_or_null(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }

    /// Nothing, where a string might have been: RESP2 `$-1`, RESP3 `_`.
    pub fn null(&mut self) {
        self.out.extend_from_slice(match self.protocol {
            Protocol::Resp2 => b"$-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// Nothing, where an array might have been: RESP2 `*-1`, RESP3 `_`.
    pub fn null_array(&mut self) {
        self.out.extend_from_slice(match self.protocol {
            Protocol::Resp2 => b"*-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// The header of an array of `count` replies.
    pub fn array(&mut self, count: usize) {
        count_header(self.out, b'*', count);
    }

    /// The header of a map of `pairs` keys and values, alternating; in RESP2 an array of twice as many replies.
    pub fn map(&mut self, pairs: usize) {
        match self.protocol {
            Protocol::Resp2 => count_header(self.out, b'*', pairs * 2),
            Protocol::Resp3 => count_header(self.out, b'%', pairs),
        }
    }

    /// The header of a set of `count` replies; in RESP2 an array.
    pub fn set(&mut self, count: usize) {
        count_header(self.out, if self.protocol == Protocol::Resp2 { b'*' } else { b'~' }, count);
    }

    /// The header of a message of `count` parts that answers no command; in RESP2 an array, as pub/sub has it there.
    pub fn push(&mut self, count: usize) {
        count_header(self.out, if self.protocol == Protocol::Resp2 { b'*' } else { b'>' }, count);
    }

    /// The header of `pairs` attributes of the reply that follows them. RESP2 has no attributes: then nothing is
    /// written, the result is false, and the caller must leave the pairs out too.
    #[must_use]
    pub fn attribute(&mut self, pairs: usize) -> bool {
        if self.protocol == Protocol::Resp3 {
            count_header(self.out, b'|', pairs);
        }
        self.protocol == Protocol::Resp3
    }

    /// A floating-point number; in RESP2 a string. Written by [`format_double`](crate::format_double).
    pub fn double(&mut self, number: f64) {
        match self.protocol {
            Protocol::Resp2 => {
                let mut text = Vec::with_capacity(32);
                crate::format_double(&mut text, number);
                bulk(self.out, &text);
            }
            Protocol::Resp3 => {
                self.out.push(b',');
                crate::format_double(self.out, number);
                self.out.extend_from_slice(b"\r\n");
            }
        }
    }

    /// A truth value; in RESP2 1 or 0.
    pub fn boolean(&mut self, truth: bool) {
        self.out.extend_from_slice(match (self.protocol, truth) {
            (Protocol::Resp2, false) => b":0\r\n",
            (Protocol::Resp2, true) => b":1\r\n",
            (Protocol::Resp3, false) => b"#f\r\n",
            (Protocol::Resp3, true) => b"#t\r\n",
        });
    }

    /// An integer of any size, given as decimal digits; in RESP2 a string.
    pub fn big_number(&mut self, digits: &str) {
        match self.protocol {
            Protocol::Resp2 => bulk(self.out, digits.as_bytes()),
            Protocol::Resp3 => line(self.out, b'(', digits.as_bytes()),
        }
    }

    /// Text for people, with its format (`txt`, `mkd`); in RESP2 a string.
    pub fn verbatim(&mut self, format: [u8; 3], text: &[u8]) {
        match self.protocol {
            Protocol::Resp2 => bulk(self.out, text),
            Protocol::Resp3 => {
                count_header(self.out, b'=', text.len() + 4);
                self.out.extend_from_slice(&format);
                self.out.push(b':');
                self.out.extend_from_slice(text);
                self.out.extend_from_slice(b"\r\n");
            }
        }
    }
}

/// Appends a command as clients send it: an array of strings.
pub fn encode_command<I>(out: &mut Vec<u8>, words: I)
where
    I: IntoIterator,
    I::IntoIter: ExactSizeIterator,
    I::Item: AsRef<[u8]>,
{
    let words = words.into_iter();
    count_header(out, b'*', words.len());
    for word in words {
        bulk(out, word.as_ref());
    }
}

fn header(out: &mut Vec<u8>, mark: u8, number: i64) {
    // Most numbers have one digit: lengths of short names, counts, 0 and 1.
    if let digit @ 0..=9 = number {
        return out.extend_from_slice(&[mark, b'0' + digit as u8, b'\r', b'\n']);
    }
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(number).as_bytes();
    out.push(mark);
    out.extend_from_slice(digits);
    out.extend_from_slice(b"\r\n");
}

fn count_header(out: &mut Vec<u8>, mark: u8, count: usize) {
    header(out, mark, i64::try_from(count).expect("nothing in memory counts beyond 63 bits"));
}

fn bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    out.reserve(bytes.len() + 16);
    count_header(out, b'$', bytes.len());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

fn line(out: &mut Vec<u8>, mark: u8, text: &[u8]) {
    out.reserve(text.len() + 3);
    out.push(mark);
    let start = out.len();
    out.extend_from_slice(text);
    for byte in &mut out[start..] {
        if matches!(byte, b'\r' | b'\n') {
            *byte = b' ';
        }
    }
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests;
