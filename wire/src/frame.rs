//! Frames between peers.
//!
//! ```text
//! ┌────────────┬────────────────────────┬─────────┐
//! │ length u32 │ CRC-32C of payload u32 │ payload │      little-endian; 1 ≤ length ≤ PEER_MESSAGE_BYTES_MAX
//! └────────────┴────────────────────────┴─────────┘
//! ```
//!
//! An empty payload is refused, so that a stretch of zeros is an error and not a row of frames. After any
//! error the stream has lost its step and the link must be closed.

use std::fmt;

use base::checksum::crc32c;
use base::limits::PEER_MESSAGE_BYTES_MAX;
use bytes::{Buf, Bytes, BytesMut};

/// Bytes before a frame's payload.
pub const FRAME_HEADER_BYTES: usize = 8;

/// Why a link must be closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameError {
    /// A length over the limit.
    TooLarge {
        /// The claimed length of the payload, in bytes.
        bytes: usize,
        /// The limit, in bytes.
        bytes_max: usize,
    },
    /// A length of 0.
    Empty,
    /// The payload is not what was sent.
    Checksum {
        /// What the header says.
        expected: u32,
        /// What the payload has.
        found: u32,
    },
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::TooLarge { bytes, bytes_max } => {
                write!(f, "a frame of {bytes} bytes, where {bytes_max} are allowed")
            }
            FrameError::Empty => f.write_str("a frame without payload"),
            FrameError::Checksum { expected, found } => {
                write!(f, "a damaged frame: checksum {found:08x} instead of {expected:08x}")
            }
        }
    }
}

impl std::error::Error for FrameError {}

/// Writes one frame at the end of a buffer: the payload in place, its header once the payload is known.
///
/// A frame that is dropped without [`finish`](Self::finish) is taken out of the buffer again.
#[derive(Debug)]
pub struct FrameWriter<'a> {
    out: &'a mut Vec<u8>,
    /// Where the payload begins.
    start: usize,
    finished: bool,
}

impl<'a> FrameWriter<'a> {
    /// Begins a frame at the end of `out`.
    pub fn begin(out: &'a mut Vec<u8>) -> FrameWriter<'a> {
        out.extend_from_slice(&[0; FRAME_HEADER_BYTES]);
        let start = out.len();
        FrameWriter { out, start, finished: false }
    }

    /// Appends a whole frame whose payload `write` writes.
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
    pub fn append(out: &'a mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), FrameError> {
        let mut frame = FrameWriter::begin(out);
        write(frame.payload());
        frame.finish()
    }

    /// The buffer, to append the payload to. What stands in it already must stay.
    pub fn payload(&mut self) -> &mut Vec<u8> {
        self.out
    }

    /// How long the payload is so far, in bytes.
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        self.out.len().saturating_sub(self.start)
    }

    /// Completes the frame.
    ///
    /// # Errors
    /// [`FrameError::Empty`] or [`FrameError::TooLarge`]; the frame is then taken out of the buffer.
    pub fn finish(mut self) -> Result<(), FrameError> {
        let payload = self.out.get(self.start..).unwrap_or_default();
        let length = check_length(payload.len(), PEER_MESSAGE_BYTES_MAX)?;
        let crc = crc32c(payload);
        let header = self.start - FRAME_HEADER_BYTES;
        self.out[header..header + 4].copy_from_slice(&length.to_le_bytes());
        self.out[header + 4..header + 8].copy_from_slice(&crc.to_le_bytes());
        self.finished = true;
        Ok(())
    }
}

impl Drop for FrameWriter<'_> {
    fn drop(&mut self) {
        if !self.finished {
            self.out.truncate(self.start - FRAME_HEADER_BYTES);
        }
    }
}

/// Takes a link's bytes apart into payloads.
#[derive(Debug)]
pub struct FrameReader {
    buffer: BytesMut,
    payload_bytes_max: usize,
    /// After an error nothing more is read.
    failed: Option<FrameError>,
}

impl Default for FrameReader {
    fn default() -> FrameReader {
        FrameReader::new()
    }
}

impl FrameReader {
    /// A reader at the beginning of a link, for payloads up to [`PEER_MESSAGE_BYTES_MAX`].
    #[must_use]
    pub fn new() -> FrameReader {
        FrameReader::with_limit(PEER_MESSAGE_BYTES_MAX)
    }

    /// A reader for payloads up to a lower limit, in bytes. Until a peer has shown who it is, it deserves little.
    #[must_use]
    pub fn with_limit(payload_bytes_max: usize) -> FrameReader {
        let payload_bytes_max = payload_bytes_max.min(PEER_MESSAGE_BYTES_MAX);
        FrameReader { buffer: BytesMut::new(), payload_bytes_max, failed: None }
    }

    /// Changes the limit for frames whose header has not been looked at.
    pub fn set_limit(&mut self, payload_bytes_max: usize) {
        self.payload_bytes_max = payload_bytes_max.min(PEER_MESSAGE_BYTES_MAX);
    }

    /// Adds bytes that have arrived. Memory is bounded if [`next`](Self::next) is called until it has nothing more.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.failed.is_none() {
            self.buffer.extend_from_slice(bytes);
        }
    }

    /// Bytes that have arrived and were not handed out.
    #[must_use]
    pub fn buffered_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// The next payload, if it has arrived whole. It shares the reader's memory: keeping a small part for long keeps
    /// what was read with it; copy such a part.
    ///
    /// # Errors
    /// A [`FrameError`]: the link is to be closed, and every later call says so again.
    #[allow(clippy::should_implement_trait, reason = "`None` here means not yet, not the end")]
    pub fn next(&mut self) -> Result<Option<Bytes>, FrameError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        match split_frame(&self.buffer, self.payload_bytes_max) {
            Ok(None) => Ok(None),
            Ok(Some((payload, _))) => {
                let length = payload.len();
                self.buffer.advance(FRAME_HEADER_BYTES);
                Ok(Some(self.buffer.split_to(length).freeze()))
            }
            Err(error) => {
                self.failed = Some(error);
                self.buffer = BytesMut::new();
                Err(error)
            }
        }
    }
}

/// Iterates over the frames at the beginning of `bytes`, up to the first that is not whole or not right.
#[must_use]
pub fn split_frames(bytes: &[u8]) -> Frames<'_> {
    Frames { rest: bytes, failed: false }
}

/// The payloads of complete frames, in order; ends at a frame that is not whole, or after an error.
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    rest: &'a [u8],
    failed: bool,
}

impl<'a> Frames<'a> {
    /// What was not handed out: the frame that is not whole, or the one that is wrong and all after it.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<&'a [u8], FrameError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        match split_frame(self.rest, PEER_MESSAGE_BYTES_MAX) {
            Ok(None) => None,
            Ok(Some((payload, rest))) => {
                self.rest = rest;
                Some(Ok(payload))
            }
            Err(error) => {
                self.failed = true;
                Some(Err(error))
            }
        }
    }
}

fn check_length(bytes: usize, bytes_max: usize) -> Result<u32, FrameError> {
    match u32::try_from(bytes) {
        Ok(0) => Err(FrameError::Empty),
        Ok(length) if bytes <= bytes_max => Ok(length),
        _ => Err(FrameError::TooLarge { bytes, bytes_max }),
    }
}

/// The payload of a frame and what follows it.
type Split<'a> = (&'a [u8], &'a [u8]);

/// The payload of the frame at the beginning of `bytes` and what follows; nothing if it is not whole. A wrong
/// length shows as soon as the length is there.
fn split_frame(bytes: &[u8], bytes_max: usize) -> Result<Option<Split<'_>>, FrameError> {
    let Some((length, after)) = bytes.split_first_chunk::<4>() else { return Ok(None) };
    let length = check_length(u32::from_le_bytes(*length) as usize, bytes_max)?;
    let Some((crc, after)) = after.split_first_chunk::<4>() else { return Ok(None) };
    let Some((payload, rest)) = after.split_at_checked(length as usize) else { return Ok(None) };
    let (expected, found) = (u32::from_le_bytes(*crc), crc32c(payload));
    if expected == found { Ok(Some((payload, rest))) } else { Err(FrameError::Checksum { expected, found }) }
}

#[cfg(test)]
mod tests;
