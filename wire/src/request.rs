//! Commands of clients, taken apart: RESP arrays of bulk strings, and inline commands.
//!
//! Two parsers live here and must agree (a property test compares them):
//!
//! 1. The quick one handles a whole, well-formed array that lies in the input. It copies nothing: the words are
//!    ranges of the input. Nearly all commands go this way.
//! 2. The patient one handles everything else: a command in pieces, inline commands, oversized words, errors. It
//!    copies each byte once into the parser's own buffer, remembers where it stands and never looks back, so that
//!    a large word in small pieces costs what its bytes cost.
//!
//! Whatever the quick one does not like it leaves untouched for the patient one, which alone says what is wrong.
//! Errors have the words of Redis 7 (`networking.c`) and come in the same cases; like Redis, the bytes after a
//! length or a word are taken for `\r\n` without a look. What counts as too long does not depend on how the input
//! was cut. A command may have as many words as in Redis 7; beyond [`ARGUMENTS_PLAIN_MAX`] each counts [`WORD_BYTES`] towards the command's bytes, as
//! that is what it takes to hold it.

use std::fmt;

use base::limits::{
    ARGUMENTS_MAX, ARGUMENTS_PLAIN_MAX, COMMAND_BYTES_MAX, INLINE_BYTES_MAX, VALUE_BYTES_DEFAULT, VALUE_BYTES_MAX,
    WORD_BYTES,
};

use crate::arguments::{ArgumentsRef, Span};
use crate::reply::{Protocol, ReplyWriter};
use crate::{http, inline};
use base::number::parse_integer;

/// Memory that a parser keeps between commands; what a larger one needed is given back.
const KEPT_BYTES_MAX: usize = 16 * 1024;
/// Most words of a command of a client that has not shown who it is: that of Redis.
const STRANGER_WORDS_MAX: usize = 10;
/// Longest word of such a command, in bytes: that of Redis.
const STRANGER_WORD_BYTES_MAX: usize = 16 * 1024;
/// What a word counts beside its bytes: its length, in an entry of the log.
const WORD_OVERHEAD_BYTES: usize = 4;
/// The first byte of a TLS connection (RFC 8446, 5.1). No command begins with it.
const TLS_HANDSHAKE: u8 = 0x16;
/// How far a claimed length is believed before its bytes arrive.
const TRUSTED_BYTES_MAX: usize = 64 * 1024;

/// Bounds of what one client may send in one command. Beyond them the command is refused and the connection kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestLimits {
    /// Longest word, in bytes; at most [`VALUE_BYTES_MAX`], beyond which a length is a protocol error. Inline
    /// commands have their own limit, [`INLINE_BYTES_MAX`], whatever stands here.
    pub argument_bytes_max: usize,
    /// Most bytes of all words together, with four more for each; at most [`COMMAND_BYTES_MAX`].
    pub command_bytes_max: usize,
    /// The client has not shown who it is: a command has 10 words at most, of 16 KiB each. Longer ones are protocol errors, as in Redis.
    pub is_for_strangers: bool,
}

impl Default for RequestLimits {
    /// Words up to [`VALUE_BYTES_DEFAULT`], commands up to [`COMMAND_BYTES_MAX`].
    fn default() -> RequestLimits {
        RequestLimits {
            argument_bytes_max: VALUE_BYTES_DEFAULT,
            command_bytes_max: COMMAND_BYTES_MAX,
            is_for_strangers: false,
        }
    }
}

/// One thing that a client asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request<'a> {
    /// A command: at least one word.
    Command(ArgumentsRef<'a>),
    /// A command that went over a limit. Its bytes have been skipped; the connection can go on after an error reply.
    TooLarge {
        /// The words before the first that did not fit; may be none.
        arguments: ArgumentsRef<'a>,
        /// The claimed length of the first word that did not fit, in bytes.
        bytes: usize,
        /// The limit that it went over, in bytes: of a word, or of the command.
        bytes_max: usize,
    },
}

/// Bytes that are not RESP. The connection gets the error and is closed, as Redis does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProtocolError {
    /// The count after `*` is no number or is over [`ARGUMENTS_MAX`].
    InvalidMultibulkLength,
    /// The length after `$` is no number, is negative or is over [`VALUE_BYTES_MAX`].
    InvalidBulkLength,
    /// A word does not begin with `$` but with this byte.
    ExpectedDollar(u8),
    /// No end of line within [`INLINE_BYTES_MAX`] bytes after `*`.
    TooBigMultibulkCount,
    /// No end of line within [`INLINE_BYTES_MAX`] bytes where a `$` line should be.
    TooBigBulkCount,
    /// A stranger's command has more than 10 words.
    UnauthenticatedMultibulkLength,
    /// A stranger's word has more than 16 KiB.
    UnauthenticatedBulkLength,
    /// An inline command over [`INLINE_BYTES_MAX`] bytes.
    TooBigInline,
    /// An inline command whose quotes do not match.
    UnbalancedQuotes,
    /// The other side speaks another protocol. The connection is closed without a reply, and
    /// nothing more of it is read. See [`Foreign`].
    Foreign(Foreign),
}

/// A protocol that a web page can make its visitor's browser speak to any port. Its lines must not
/// be taken for inline commands: the page chooses some of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Foreign {
    /// An inline command that is the first line of an HTTP request, or its line `Host:`.
    Http,
    /// A line that begins as a TLS handshake does. A server that the page's author owns can put
    /// lines of its choice into a handshake (the session ticket).
    Tls,
}

impl ProtocolError {
    /// Appends the error reply, to the letter that of Redis: it may quote a byte that is not text.
    pub fn encode(self, out: &mut Vec<u8>) {
        let mut writer = ReplyWriter::new(out, Protocol::Resp2);
        match self {
            ProtocolError::ExpectedDollar(got) => {
                let mut text = b"ERR Protocol error: expected '$', got '?'".to_vec();
                let quoted = text.len() - 2;
                text[quoted] = got;
                writer.error_bytes(&text);
            }
            other => writer.error(&other.to_string()),
        }
    }
}

impl fmt::Display for ProtocolError {
    /// The text of the error reply for a log: `ERR Protocol error: …`, what is not printable blanked out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ERR Protocol error: ")?;
        match *self {
            ProtocolError::InvalidMultibulkLength => f.write_str("invalid multibulk length"),
            ProtocolError::InvalidBulkLength => f.write_str("invalid bulk length"),
            ProtocolError::ExpectedDollar(got) => {
                let got = if got.is_ascii_graphic() { char::from(got) } else { ' ' };
                write!(f, "expected '$', got '{got}'")
            }
            ProtocolError::TooBigMultibulkCount => f.write_str("too big mbulk count string"),
            ProtocolError::TooBigBulkCount => f.write_str("too big bulk count string"),
            ProtocolError::UnauthenticatedMultibulkLength => f.write_str("unauthenticated multibulk length"),
            ProtocolError::UnauthenticatedBulkLength => f.write_str("unauthenticated bulk length"),
            ProtocolError::TooBigInline => f.write_str("too big inline request"),
            ProtocolError::UnbalancedQuotes => f.write_str("unbalanced quotes in request"),
            ProtocolError::Foreign(Foreign::Http) => f.write_str("HTTP at the port for RESP"),
            ProtocolError::Foreign(Foreign::Tls) => f.write_str("TLS at the port for plain RESP"),
        }
    }
}

impl std::error::Error for ProtocolError {}

/// Where the patient parser stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Before the first byte of a command. What `buffer` and `spans` hold was handed out and may go.
    Start,
    /// Within an inline command; `line` has its beginning.
    Inline,
    /// Within the line of `*`.
    Count,
    /// Within the line of `$`.
    Length,
    /// Within a word, this many bytes before its end.
    Word(usize),
    /// Within something to be passed over, this many bytes before its end: a word that is too large, or an end of line.
    Skip(usize),
    /// After an error nothing more is read.
    Failed(ProtocolError),
}

/// What the patient parser found.
enum Found {
    /// The input is used up.
    Nothing,
    /// A command lies in `buffer` and `spans`.
    Command,
    /// A command was passed over.
    TooLarge { bytes: usize, bytes_max: usize },
}

/// Takes one connection's bytes apart into commands.
///
/// Hand every piece of input to [`next`](Self::next) until it returns `None`. A command in pieces is gathered
/// inside; nothing else is copied.
#[derive(Debug)]
pub struct RequestParser {
    limits: RequestLimits,
    state: State,
    /// The line that is being read, without its beginning's `*` or `$` being special.
    line: Vec<u8>,
    /// Words of a command in pieces, one after another.
    buffer: Vec<u8>,
    /// Where the words lie: in `buffer`, or in the input for the quick parser.
    spans: Vec<Span>,
    /// Words that the command still lacks, the one being read included.
    words_left: usize,
    /// Set once a word of this command did not fit: its length and the limit.
    too_large: Option<(usize, usize)>,
}

impl Default for RequestParser {
    fn default() -> RequestParser {
        RequestParser::new(RequestLimits::default())
    }
}

impl RequestParser {
    /// A parser at the beginning of a connection. Limits beyond the hard ones are lowered to those.
    #[must_use]
    pub fn new(limits: RequestLimits) -> RequestParser {
        let mut parser = RequestParser {
            limits,
            state: State::Start,
            line: Vec::new(),
            buffer: Vec::new(),
            spans: Vec::new(),
            words_left: 0,
            too_large: None,
        };
        parser.set_limits(limits);
        parser
    }

    /// Changes the limits, from the next word on. Limits beyond the hard ones are lowered to those.
    pub fn set_limits(&mut self, limits: RequestLimits) {
        self.limits = RequestLimits {
            argument_bytes_max: limits.argument_bytes_max.min(VALUE_BYTES_MAX),
            command_bytes_max: limits.command_bytes_max.min(COMMAND_BYTES_MAX),
            ..limits
        };
    }

    /// The limits that hold.
    #[must_use]
    pub fn limits(&self) -> RequestLimits {
        self.limits
    }

    /// Whether no command is half read.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.state == State::Start
    }

    /// Memory that the parser holds, in bytes: what a command in pieces needs, or next to nothing.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.line.capacity() + self.buffer.capacity() + self.spans.capacity() * size_of::<Span>()
    }

    /// Takes the next command out of `input` and moves `input` past it.
    ///
    /// `None` means that the input is used up (`input` is empty) and the next piece is wanted. The command
    /// borrows from the input or the parser, so it must be done with before the next call.
    ///
    /// # Errors
    /// A [`ProtocolError`]: the connection cannot be understood any further, and every later call says so again.
    #[allow(clippy::should_implement_trait, reason = "the item borrows from the parser, which an iterator's cannot")]
    pub fn next<'a, 'i: 'a>(&'a mut self, input: &mut &'i [u8]) -> Result<Option<Request<'a>>, ProtocolError> {
        if self.state == State::Start {
            self.forget();
            let whole = *input;
            if let Some(used) = self.quick(whole) {
                *input = &whole[used..];
                return Ok(Some(Request::Command(ArgumentsRef::from_spans(whole, &self.spans))));
            }
            self.spans.clear();
        }
        let found = self.patient(input).inspect_err(|&error| self.state = State::Failed(error))?;
        let arguments = ArgumentsRef::from_spans(&self.buffer, &self.spans);
        Ok(match found {
            Found::Nothing => None,
            Found::Command => Some(Request::Command(arguments)),
            Found::TooLarge { bytes, bytes_max } => Some(Request::TooLarge { arguments, bytes, bytes_max }),
        })
    }

    /// Drops the command that was handed out, and memory that only a large one needs.
    fn forget(&mut self) {
        self.spans.clear();
        self.buffer.clear();
        if self.buffer.capacity() > KEPT_BYTES_MAX {
            self.buffer = Vec::new();
        }
        if self.spans.capacity() > KEPT_BYTES_MAX / size_of::<Span>() {
            self.spans = Vec::new();
        }
        if self.line.capacity() > KEPT_BYTES_MAX {
            self.line = Vec::new();
        }
    }

    /// The quick parser: the length of the whole command at the beginning of `input`, its words in `spans`; or
    /// nothing, if the command is not whole or in any way unusual.
    #[inline]
    fn quick(&mut self, input: &[u8]) -> Option<usize> {
        if input.len() > u32::MAX as usize {
            return None;
        }
        let (count, mut at) = quick_line(input, 0, b'*')?;
        if count == 0 || count > ARGUMENTS_MAX || (self.limits.is_for_strangers && count > STRANGER_WORDS_MAX) {
            return None;
        }
        let word_bytes_max = self.word_bytes_max();
        let mut total = 0;
        for word in 0..count {
            let (length, start) = quick_line(input, at, b'$')?;
            total += length + if word < ARGUMENTS_PLAIN_MAX { WORD_OVERHEAD_BYTES } else { WORD_BYTES };
            if length > word_bytes_max || total > self.limits.command_bytes_max {
                return None;
            }
            at = start + length + 2;
            if at > input.len() {
                return None;
            }
            self.spans.push(Span { start: start as u32, length: length as u32 });
        }
        Some(at)
    }

    /// Longest word that is taken.
    fn word_bytes_max(&self) -> usize {
        let RequestLimits { argument_bytes_max, is_for_strangers, .. } = self.limits;
        if is_for_strangers { argument_bytes_max.min(STRANGER_WORD_BYTES_MAX) } else { argument_bytes_max }
    }

    /// The patient parser.
    fn patient(&mut self, input: &mut &[u8]) -> Result<Found, ProtocolError> {
        while !input.is_empty() {
            match self.state {
                State::Failed(_) => break,
                State::Start => {
                    if input[0] == TLS_HANDSHAKE {
                        return Err(ProtocolError::Foreign(Foreign::Tls));
                    }
                    self.line.clear();
                    self.state = if input[0] == b'*' { State::Count } else { State::Inline };
                }
                State::Inline => {
                    if !self.take_until(input, b'\n').map_err(|TooLong| ProtocolError::TooBigInline)? {
                        break;
                    }
                    self.state = State::Start;
                    self.read_inline()?;
                    if !self.spans.is_empty() {
                        return Ok(self.finish());
                    }
                }
                State::Count => {
                    if !self.take_line(input).map_err(|TooLong| ProtocolError::TooBigMultibulkCount)? {
                        break;
                    }
                    let count = parse_integer(&self.line[1..])
                        .filter(|&count| count <= ARGUMENTS_MAX as i64)
                        .ok_or(ProtocolError::InvalidMultibulkLength)?;
                    self.line.clear();
                    if self.limits.is_for_strangers && count > STRANGER_WORDS_MAX as i64 {
                        return Err(ProtocolError::UnauthenticatedMultibulkLength);
                    }
                    self.words_left = usize::try_from(count).unwrap_or(0);
                    self.state = if self.words_left == 0 { State::Start } else { State::Length };
                }
                State::Length => {
                    if !self.take_line(input).map_err(|TooLong| ProtocolError::TooBigBulkCount)? {
                        break;
                    }
                    let length = read_length(&self.line)?;
                    self.line.clear();
                    if self.limits.is_for_strangers && length > STRANGER_WORD_BYTES_MAX {
                        return Err(ProtocolError::UnauthenticatedBulkLength);
                    }
                    self.begin_word(length);
                }
                State::Word(left) => {
                    let taken = left.min(input.len());
                    self.gather(&input[..taken], left);
                    *input = &input[taken..];
                    self.state = if taken == left { State::Skip(2) } else { State::Word(left - taken) };
                }
                State::Skip(left) => {
                    let taken = left.min(input.len());
                    *input = &input[taken..];
                    if taken < left {
                        self.state = State::Skip(left - taken);
                        break;
                    }
                    self.words_left -= 1;
                    if self.words_left == 0 {
                        return Ok(self.finish());
                    }
                    self.state = State::Length;
                }
            }
        }
        match self.state {
            State::Failed(error) => Err(error),
            _ => Ok(Found::Nothing),
        }
    }

    /// What words take beside their bytes: more each, if they are very many.
    fn extra_bytes(&self) -> usize {
        let words = self.spans.len() + 1;
        let many = words.saturating_sub(ARGUMENTS_PLAIN_MAX);
        (words - many) * WORD_OVERHEAD_BYTES + many * WORD_BYTES
    }

    /// Decides whether a word of this length is kept or passed over.
    fn begin_word(&mut self, length: usize) {
        let RequestLimits { argument_bytes_max, command_bytes_max, .. } = self.limits;
        if self.too_large.is_none() {
            if length > argument_bytes_max {
                self.too_large = Some((length, argument_bytes_max));
            } else if self.buffer.len() + length + self.extra_bytes() > command_bytes_max {
                self.too_large = Some((length, command_bytes_max));
            }
        }
        self.state = if self.too_large.is_some() {
            State::Skip(length + 2)
        } else {
            self.spans.push(Span { start: self.buffer.len() as u32, length: length as u32 });
            State::Word(length)
        };
    }

    /// Appends part of a word of which `left` bytes are to come, these included.
    fn gather(&mut self, bytes: &[u8], left: usize) {
        if self.buffer.capacity() - self.buffer.len() < bytes.len() {
            // A word longer than all before it gets what it needs and no more, as far as its claim is believed; short
            // ones share doubled room, so that there are few moves.
            let wanted = left.min(bytes.len().max(self.buffer.len()).max(TRUSTED_BYTES_MAX));
            let dominates = self.spans.last().is_some_and(|span| span.length as usize > self.buffer.len() / 2);
            if dominates { self.buffer.reserve_exact(wanted) } else { self.buffer.reserve(wanted) }
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Splits the inline command in `line` into words.
    fn read_inline(&mut self) -> Result<(), ProtocolError> {
        let line = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        let (buffer, spans) = (&mut self.buffer, &mut self.spans);
        inline::split(line, |word| {
            spans.push(Span { start: buffer.len() as u32, length: word.len() as u32 });
            buffer.extend_from_slice(word);
        })
        .map_err(|_| ProtocolError::UnbalancedQuotes)?;
        let words = ArgumentsRef::from_spans(&self.buffer, &self.spans);
        if http::is_line_of_a_request(words) { Err(ProtocolError::Foreign(Foreign::Http)) } else { Ok(()) }
    }

    /// Ends a command.
    fn finish(&mut self) -> Found {
        self.state = State::Start;
        match self.too_large.take() {
            Some((bytes, bytes_max)) => Found::TooLarge { bytes, bytes_max },
            None => Found::Command,
        }
    }

    /// Moves input to `line` up to `\r` and one byte more, which are dropped. True once the line is whole.
    fn take_line(&mut self, input: &mut &[u8]) -> Result<bool, TooLong> {
        if !self.line.ends_with(b"\r") {
            if !self.take_until(input, b'\r')? {
                return Ok(false);
            }
            self.line.push(b'\r');
        }
        if input.is_empty() {
            return Ok(false);
        }
        *input = &input[1..];
        self.line.pop();
        Ok(true)
    }

    /// Moves input to `line` up to `end`, which is dropped. True once `end` was there.
    fn take_until(&mut self, input: &mut &[u8], end: u8) -> Result<bool, TooLong> {
        let room = INLINE_BYTES_MAX + 1 - self.line.len().min(INLINE_BYTES_MAX + 1);
        let window = &input[..input.len().min(room)];
        if let Some(at) = memchr::memchr(end, window) {
            self.line.extend_from_slice(&window[..at]);
            *input = &input[at + 1..];
            return Ok(true);
        }
        self.line.extend_from_slice(window);
        *input = &input[window.len()..];
        if self.line.len() > INLINE_BYTES_MAX { Err(TooLong) } else { Ok(false) }
    }
}

/// A line went on for too long.
struct TooLong;

/// The length in a `$` line.
fn read_length(line: &[u8]) -> Result<usize, ProtocolError> {
    match line {
        [b'$', digits @ ..] => parse_integer(digits)
            .and_then(|length| usize::try_from(length).ok())
            .filter(|&length| length <= VALUE_BYTES_MAX)
            .ok_or(ProtocolError::InvalidBulkLength),
        // Redis looks at the byte where the `$` should be, which in an empty line is the end of the line.
        _ => Err(ProtocolError::ExpectedDollar(line.first().copied().unwrap_or(b'\r'))),
    }
}

/// Reads `mark`, up to nine digits and `\r\n` at `at`; returns the number and where the line ends.
#[inline]
fn quick_line(input: &[u8], at: usize, mark: u8) -> Option<(usize, usize)> {
    let line = input.get(at..)?;
    let (&first, rest) = line.split_first()?;
    if first != mark {
        return None;
    }
    let mut number = 0usize;
    for (index, &byte) in rest.iter().enumerate().take(10) {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            let whole = index > 0 && byte == b'\r' && rest.get(index + 1) == Some(&b'\n');
            let padded = index > 1 && rest[0] == b'0';
            return (whole && !padded).then_some((number, at + index + 3));
        }
        number = number * 10 + usize::from(digit);
    }
    None
}

#[cfg(test)]
mod tests;
