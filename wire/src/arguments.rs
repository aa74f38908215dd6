//! The words of one command.
//!
//! A command that has just been parsed borrows its words from the bytes that the socket gave (or, if it came in
//! pieces, from the parser's own buffer). What outlives the turn (a queue of MULTI, an entry of the log) is kept
//! in the canonical encoding, one piece of memory for all words:
//!
//! ```text
//! ┌───────────┬────────────┬───────┬────────────┬───────┬──
//! │ count u32 │ length u32 │ bytes │ length u32 │ bytes │ …      little-endian
//! └───────────┴────────────┴───────┴────────────┴───────┴──
//! ```
//!
//! Both forms read alike, through [`ArgumentsRef`].

use std::fmt;

use base::limits::ARGUMENTS_MAX;
use bytes::Bytes;

use crate::body::Malformed;
use crate::pretty::quote;

/// Where one word lies within the bytes of its command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) length: u32,
}

#[derive(Clone, Copy)]
enum Shape<'a> {
    /// The words lie anywhere in the bytes.
    Spans(&'a [Span]),
    /// The bytes are the canonical encoding without its count, which stands here.
    Encoded(u32),
}

/// The words of a command, borrowed. The first is the command's name.
///
/// Made by [`RequestParser::next`](crate::RequestParser::next), where [`get`](Self::get) takes constant time, or by
/// [`decode`](Self::decode), where it walks over the words before. [`iter`](Self::iter) is fast for both.
#[derive(Clone, Copy)]
pub struct ArgumentsRef<'a> {
    bytes: &'a [u8],
    shape: Shape<'a>,
}

impl<'a> ArgumentsRef<'a> {
    /// `spans` must lie within `bytes`.
    pub(crate) fn from_spans(bytes: &'a [u8], spans: &'a [Span]) -> ArgumentsRef<'a> {
        ArgumentsRef { bytes, shape: Shape::Spans(spans) }
    }

    /// Reads a canonical encoding that fills `bytes` entirely, without copying.
    ///
    /// # Errors
    /// If a count or length does not fit the bytes, more than [`ARGUMENTS_MAX`] words are claimed, or bytes are left.
    pub fn decode(bytes: &'a [u8]) -> Result<ArgumentsRef<'a>, Malformed> {
        match ArgumentsRef::decode_prefix(bytes)? {
            (arguments, []) => Ok(arguments),
            _ => Err(Malformed),
        }
    }

    /// Reads a canonical encoding at the beginning of `bytes` and returns it with what follows it.
    ///
    /// # Errors
    /// If a count or length does not fit the bytes, or more than [`ARGUMENTS_MAX`] words are claimed.
    pub fn decode_prefix(bytes: &'a [u8]) -> Result<(ArgumentsRef<'a>, &'a [u8]), Malformed> {
        let (count, words) = split_u32(bytes).ok_or(Malformed)?;
        if count as usize > ARGUMENTS_MAX {
            return Err(Malformed);
        }
        let mut rest = words;
        for _ in 0..count {
            rest = split_word(rest).ok_or(Malformed)?.1;
        }
        let used = words.len() - rest.len();
        Ok((ArgumentsRef { bytes: &words[..used], shape: Shape::Encoded(count) }, rest))
    }

    /// How many words there are.
    #[must_use]
    pub fn len(self) -> usize {
        match self.shape {
            Shape::Spans(spans) => spans.len(),
            Shape::Encoded(count) => count as usize,
        }
    }

    /// Whether there is not even a name. Never so for a command from [`RequestParser`](crate::RequestParser).
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The word at `index`, from 0 (the name).
    #[must_use]
    pub fn get(self, index: usize) -> Option<&'a [u8]> {
        match self.shape {
            Shape::Spans(spans) => spans.get(index).map(|&span| slice(self.bytes, span)),
            Shape::Encoded(_) => self.iter().nth(index),
        }
    }

    /// The words in order.
    #[must_use]
    pub fn iter(self) -> ArgumentsIter<'a> {
        ArgumentsIter { rest: self }
    }

    /// The bytes of all words together.
    #[must_use]
    pub fn payload_bytes(self) -> usize {
        match self.shape {
            Shape::Spans(spans) => spans.iter().map(|span| span.length as usize).sum(),
            Shape::Encoded(count) => self.bytes.len() - 4 * count as usize,
        }
    }

    /// How many bytes [`encode_into`](Self::encode_into) appends.
    #[must_use]
    pub fn encoded_bytes(self) -> usize {
        4 + 4 * self.len() + self.payload_bytes()
    }

    /// Appends the canonical encoding.
    pub fn encode_into(self, out: &mut Vec<u8>) {
        match self.shape {
            Shape::Spans(spans) => {
                out.reserve(self.encoded_bytes());
                out.extend_from_slice(&(spans.len() as u32).to_le_bytes());
                for &span in spans {
                    out.extend_from_slice(&span.length.to_le_bytes());
                    out.extend_from_slice(slice(self.bytes, span));
                }
            }
            Shape::Encoded(count) => {
                out.reserve(4 + self.bytes.len());
                out.extend_from_slice(&count.to_le_bytes());
                out.extend_from_slice(self.bytes);
            }
        }
    }

    /// A copy that stands on its own: one allocation, whatever the number of words.
    #[must_use]
    pub fn to_owned(self) -> Arguments {
        let mut encoding = Vec::with_capacity(self.encoded_bytes());
        self.encode_into(&mut encoding);
        Arguments { encoding: Bytes::from(encoding) }
    }
}

impl PartialEq for ArgumentsRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl Eq for ArgumentsRef<'_> {}

impl fmt::Debug for ArgumentsRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut list = f.debug_list();
        for word in self.iter() {
            list.entry(&format_args!("{}", quote(word)));
        }
        list.finish()
    }
}

impl<'a> IntoIterator for ArgumentsRef<'a> {
    type Item = &'a [u8];
    type IntoIter = ArgumentsIter<'a>;

    fn into_iter(self) -> ArgumentsIter<'a> {
        self.iter()
    }
}

/// Goes over the words of a command.
#[derive(Clone)]
pub struct ArgumentsIter<'a> {
    /// What has not been handed out.
    rest: ArgumentsRef<'a>,
}

impl<'a> Iterator for ArgumentsIter<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        match &mut self.rest.shape {
            Shape::Spans(spans) => {
                let (&span, rest) = spans.split_first()?;
                *spans = rest;
                Some(slice(self.rest.bytes, span))
            }
            Shape::Encoded(count) => {
                *count = count.checked_sub(1)?;
                let (word, rest) = split_word(self.rest.bytes)?;
                self.rest.bytes = rest;
                Some(word)
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.rest.len(), Some(self.rest.len()))
    }
}

impl ExactSizeIterator for ArgumentsIter<'_> {}

/// The words of a command, owned: the canonical encoding in one piece of shared memory, so that a clone is cheap.
#[derive(Clone)]
pub struct Arguments {
    /// Always a valid canonical encoding.
    encoding: Bytes,
}

impl Arguments {
    /// Copies the given words.
    ///
    /// # Panics
    /// If a word is longer than 4 GiB or there are more than [`ARGUMENTS_MAX`], which no limit of ours lets through.
    #[must_use]
    pub fn from_words<I>(words: I) -> Arguments
    where
        I: IntoIterator,
        I::Item: AsRef<[u8]>,
    {
        let mut encoding = vec![0; 4];
        let mut count = 0u32;
        for word in words {
            let word = word.as_ref();
            let length = u32::try_from(word.len()).expect("a word is far below 4 GiB");
            encoding.extend_from_slice(&length.to_le_bytes());
            encoding.extend_from_slice(word);
            count += 1;
        }
        assert!(count as usize <= ARGUMENTS_MAX, "too many words for one command");
        encoding[..4].copy_from_slice(&count.to_le_bytes());
        Arguments { encoding: Bytes::from(encoding) }
    }

    /// Takes over a canonical encoding without copying.
    ///
    /// # Errors
    /// As [`ArgumentsRef::decode`].
    pub fn decode(encoding: Bytes) -> Result<Arguments, Malformed> {
        ArgumentsRef::decode(&encoding)?;
        Ok(Arguments { encoding })
    }

    /// The words, to be read.
    #[must_use]
    pub fn as_ref(&self) -> ArgumentsRef<'_> {
        let (count, words) = split_u32(&self.encoding).expect("an encoding begins with its count");
        ArgumentsRef { bytes: words, shape: Shape::Encoded(count) }
    }

    /// The canonical encoding.
    #[must_use]
    pub fn encoding(&self) -> &Bytes {
        &self.encoding
    }
}

impl PartialEq for Arguments {
    fn eq(&self, other: &Self) -> bool {
        // The encoding is canonical: equal words, equal bytes.
        self.encoding == other.encoding
    }
}

impl Eq for Arguments {}

impl fmt::Debug for Arguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ref().fmt(f)
    }
}

fn slice(bytes: &[u8], span: Span) -> &[u8] {
    let start = span.start as usize;
    &bytes[start..start + span.length as usize]
}

fn split_u32(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<4>()?;
    Some((u32::from_le_bytes(*head), rest))
}

fn split_word(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = split_u32(bytes)?;
    rest.split_at_checked(length as usize)
}

#[cfg(test)]
mod tests;
