//! The journal's bytes: 4 KiB blocks, each with a header of its own, and frames made of them.
//!
//! Drawn in `docs/formats.md`. Numbers are little-endian.

use base::checksum::crc32c;

/// The unit of classification; a frame starts and ends at a multiple of it.
pub const BLOCK_BYTES: usize = 4096;
/// Checksum, position, segment, frame, index.
const BLOCK_HEADER_BYTES: usize = 32;
/// What the first block of a frame has besides.
const FRAME_HEADER_BYTES: usize = 40;
const MAGIC: [u8; 4] = *b"DICJ";
/// The only version so far.
pub(crate) const VERSION: u16 = 1;
/// Bytes of content in the first block of a frame.
const FIRST_CONTENT_BYTES: usize = BLOCK_BYTES - BLOCK_HEADER_BYTES - FRAME_HEADER_BYTES;
/// Bytes of content in every further block of a frame.
const CONTENT_BYTES: usize = BLOCK_BYTES - BLOCK_HEADER_BYTES;
/// A payload's length goes before it.
pub(crate) const LENGTH_BYTES: usize = 4;
/// A larger buffer is given back after use.
const BUFFER_BYTES_KEPT: usize = 32 * 1024 * 1024;

const ZERO_BLOCK: [u8; BLOCK_BYTES] = [0; BLOCK_BYTES];

/// What a block turns out to be, read at a place of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Block {
    /// Never written in this life of the segment: zero, or left from when the file was an earlier segment.
    Unwritten {
        /// The frame it belonged to, 0 if it is zero.
        frame: u64,
    },
    /// Written here.
    Written {
        /// The frame it belongs to.
        frame: u64,
        /// Its place in the frame; 0 is the first block.
        index: u32,
    },
    /// Neither: its bytes are not what any write of ours put there.
    Damaged,
}

/// What the first block says about its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    /// Number of the first payload; of the next one to come if there are none.
    pub first_number: u64,
    /// Payloads below this number were given up before the frame was written.
    pub floor: u64,
    /// How many payloads.
    pub count: u32,
    /// Bytes of all payloads with their lengths.
    pub content_bytes: u64,
}

/// The blocks that a frame with so much content takes.
pub(crate) fn blocks_for(content_bytes: u64) -> u64 {
    1 + content_bytes.saturating_sub(FIRST_CONTENT_BYTES as u64).div_ceil(CONTENT_BYTES as u64)
}

fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(bytes[offset..offset + 4].try_into().expect("four bytes were cut out"))
}

fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(bytes[offset..offset + 8].try_into().expect("eight bytes were cut out"))
}

/// Says what a block is that stands at `position` (in blocks) of segment `sequence`.
pub(crate) fn classify(block: &[u8], sequence: u64, position: u32) -> Block {
    debug_assert_eq!(block.len(), BLOCK_BYTES);
    if block == ZERO_BLOCK {
        return Block::Unwritten { frame: 0 };
    }
    if u32_at(block, 0) != crc32c(&block[4..]) {
        return Block::Damaged;
    }
    let (own_position, segment, frame, index) =
        (u32_at(block, 4), u64_at(block, 8), u64_at(block, 16), u32_at(block, 24));
    if segment < sequence {
        Block::Unwritten { frame }
    } else if segment == sequence && own_position == position && index <= position && frame > 0 {
        Block::Written { frame, index }
    } else {
        // A whole block in a wrong place: the disk misdirected a write.
        Block::Damaged
    }
}

/// Reads the frame header of a block that [`classify`] called written with index 0.
///
/// `Err` is the version of a block that this program cannot read; `None` means that the fields contradict each other.
pub(crate) fn frame_header(block: &[u8]) -> Option<Result<FrameHeader, u16>> {
    if block[32..36] != MAGIC {
        return None;
    }
    let version = u16::from_le_bytes([block[36], block[37]]);
    if version != VERSION {
        return Some(Err(version));
    }
    let header = FrameHeader {
        first_number: u64_at(block, 40),
        floor: u64_at(block, 48),
        count: u32_at(block, 56),
        content_bytes: u64_at(block, 64),
    };
    let lengths = u64::from(header.count) * LENGTH_BYTES as u64;
    let sound = header.first_number > 0
        && header.first_number.checked_add(u64::from(header.count)).is_some_and(|next| next < u64::MAX)
        && header.floor <= header.first_number
        && header.content_bytes >= lengths
        && (header.count > 0 || header.content_bytes == 0);
    sound.then_some(Ok(header))
}

/// The content of a whole frame, headers taken out. `blocks` holds the frame's blocks and nothing else.
pub(crate) fn content(blocks: &[u8], content_bytes: u64) -> Option<Vec<u8>> {
    let wanted = usize::try_from(content_bytes).ok()?;
    let mut content = Vec::with_capacity(wanted.min(blocks.len()));
    for (index, block) in blocks.chunks_exact(BLOCK_BYTES).enumerate() {
        let start = if index == 0 { BLOCK_HEADER_BYTES + FRAME_HEADER_BYTES } else { BLOCK_HEADER_BYTES };
        let take = (wanted - content.len()).min(BLOCK_BYTES - start);
        content.extend_from_slice(&block[start..start + take]);
    }
    (content.len() == wanted).then_some(content)
}

/// Where a frame goes and how it is numbered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FramePlace {
    /// The segment's sequence number.
    pub sequence: u64,
    /// The first block's place in the segment, in blocks.
    pub position: u32,
    /// The frame's number.
    pub frame: u64,
    /// Number of the first payload.
    pub first_number: u64,
    /// Payloads below are given up.
    pub floor: u64,
}

/// A buffer, aligned to a block, in which frames are put together. Kept from frame to frame.
#[derive(Debug, Default)]
pub(crate) struct FrameBuffer {
    storage: Vec<u8>,
}

impl FrameBuffer {
    /// The frame's blocks, ready to be written.
    pub fn encode<P: AsRef<[u8]>>(&mut self, place: FramePlace, payloads: &[P]) -> &[u8] {
        let content_bytes: u64 = payloads.iter().map(|payload| (payload.as_ref().len() + LENGTH_BYTES) as u64).sum();
        let blocks = blocks_for(content_bytes) as usize;
        let bytes = self.aligned(blocks * BLOCK_BYTES);
        let mut writer = Writer { bytes, offset: BLOCK_HEADER_BYTES };
        writer.put(&MAGIC);
        writer.put(&VERSION.to_le_bytes());
        writer.put(&[0; 2]);
        writer.put(&place.first_number.to_le_bytes());
        writer.put(&place.floor.to_le_bytes());
        writer.put(&(payloads.len() as u32).to_le_bytes());
        writer.put(&[0; 4]);
        writer.put(&content_bytes.to_le_bytes());
        for payload in payloads {
            let payload = payload.as_ref();
            writer.put(&(payload.len() as u32).to_le_bytes());
            writer.put(payload);
        }
        let end = writer.offset;
        bytes[end..].fill(0);
        for (index, block) in bytes.chunks_exact_mut(BLOCK_BYTES).enumerate() {
            block[4..8].copy_from_slice(&(place.position + index as u32).to_le_bytes());
            block[8..16].copy_from_slice(&place.sequence.to_le_bytes());
            block[16..24].copy_from_slice(&place.frame.to_le_bytes());
            block[24..28].copy_from_slice(&(index as u32).to_le_bytes());
            block[28..32].fill(0);
            let crc = crc32c(&block[4..]);
            block[..4].copy_from_slice(&crc.to_le_bytes());
        }
        bytes
    }

    /// Bytes whose first one lies at a multiple of the block size. What they hold is left from before.
    pub fn aligned(&mut self, length: usize) -> &mut [u8] {
        let capacity = length + BLOCK_BYTES;
        if self.storage.len() > BUFFER_BYTES_KEPT && capacity < BUFFER_BYTES_KEPT {
            self.storage = Vec::new();
        }
        if self.storage.len() < capacity {
            self.storage.resize(capacity, 0);
        }
        // The largest value that align_offset may answer means "not known", which no platform of ours does.
        let start = self.storage.as_ptr().align_offset(BLOCK_BYTES).min(BLOCK_BYTES);
        &mut self.storage[start..start + length]
    }
}

/// Writes content across blocks, leaving room for their headers.
struct Writer<'a> {
    bytes: &'a mut [u8],
    offset: usize,
}

impl Writer<'_> {
    fn put(&mut self, mut from: &[u8]) {
        while !from.is_empty() {
            if self.offset.is_multiple_of(BLOCK_BYTES) {
                self.offset += BLOCK_HEADER_BYTES;
            }
            let room = BLOCK_BYTES - self.offset % BLOCK_BYTES;
            let (now, later) = from.split_at(from.len().min(room));
            self.bytes[self.offset..self.offset + now.len()].copy_from_slice(now);
            self.offset += now.len();
            from = later;
        }
    }
}
