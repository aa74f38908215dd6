//! The journal's bytes: 4 KiB blocks, each with a header of its own, and frames made of them.
//!
//! Drawn in `docs/formats.md`. Numbers are little-endian.
//!
//! A disk promises to write sectors of 512 bytes as a whole, not blocks of 4 KiB. After a power cut some sectors of a block may be new and others old, and its
//! checksum does not say whether it was damaged after it was acknowledged. So each sector of a stamped block ends with a stamp of its place ([`stamp`]). A sector that
//! is zero, or bears the stamp of an earlier life of the file, was not written with the others: then no sync has ever returned, and nothing of it was acknowledged.
//! The bytes that the stamps displace stand in the block's header.

use base::checksum::crc32c;

/// The unit of classification; a frame starts and ends at a multiple of it.
pub const BLOCK_BYTES: usize = 4096;
/// Checksum, position, segment, frame, index.
const BLOCK_HEADER_BYTES: usize = 32;
/// What the first block of a frame has besides.
const FRAME_HEADER_BYTES: usize = 40;
const MAGIC: [u8; 4] = *b"DICJ";
/// The newest version.
pub(crate) const VERSION: u16 = 2;
/// Disks write so many bytes as a whole.
const SECTOR_BYTES: usize = 512;
const SECTORS: usize = BLOCK_BYTES / SECTOR_BYTES;
const STAMP_BYTES: usize = 8;
/// In the header of a stamped block, in the place of zeros.
const STAMPED: [u8; 4] = [0xd1, 0x5c, 0x3a, 0xe7];

/// How the blocks of a frame are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Layout {
    /// Version 1: without stamps.
    #[default]
    Plain,
    /// Version 2.
    Stamped,
}

impl Layout {
    fn version(self) -> u16 {
        match self {
            Layout::Plain => 1,
            Layout::Stamped => 2,
        }
    }

    fn of(version: u16) -> Option<Layout> {
        [Layout::Plain, Layout::Stamped].into_iter().find(|layout| layout.version() == version)
    }

    /// Where a block's table of displaced bytes begins: behind its other headers.
    fn table_at(index: usize) -> usize {
        BLOCK_HEADER_BYTES + if index == 0 { FRAME_HEADER_BYTES } else { 0 }
    }

    /// Where the content of a block begins.
    fn content_at(self, index: usize) -> usize {
        let table = match self {
            Layout::Plain => 0,
            Layout::Stamped => SECTORS * STAMP_BYTES,
        };
        Layout::table_at(index) + table
    }
}
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
    /// A write of ours was under way and did not come to its end: some sectors are of it, and at least one was there before.
    Torn,
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
    pub layout: Layout,
}

/// The blocks that a frame with so much content takes.
pub(crate) fn blocks_for(content_bytes: u64, layout: Layout) -> u64 {
    let in_block = |index| (BLOCK_BYTES - layout.content_at(index)) as u64;
    1 + content_bytes.saturating_sub(in_block(0)).div_ceil(in_block(1))
}

/// The last bytes of a sector of a stamped block: the same for no other sector, nor for another life of the file. Never 0.
fn stamp(sequence: u64, position: u32, sector: usize) -> u64 {
    // The last steps of SplitMix64.
    let mut mixed = sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (u64::from(position) << 3 | sector as u64);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)) | 1
}

/// Whether a sector bears the stamp of its place in a segment before this one. A block may have been passed over in any number of lives of its file, so
/// the steps of [`stamp`] are gone back instead of trying them.
fn is_of_earlier_life(shown: u64, sequence: u64, position: u32, sector: usize) -> bool {
    // The lowest bit was set, whatever it was.
    [shown, shown ^ 1].into_iter().any(|mixed| {
        let mixed = (mixed ^ (mixed >> 31) ^ (mixed >> 62)).wrapping_mul(0x3196_42b2_d24d_8ec3);
        let mixed = (mixed ^ (mixed >> 27) ^ (mixed >> 54)).wrapping_mul(0x96de_1b17_3f11_9089);
        let mixed = mixed ^ (mixed >> 30) ^ (mixed >> 60);
        let life = (mixed ^ (u64::from(position) << 3 | sector as u64)).wrapping_mul(0xf1de_83e1_9937_733d);
        (1..sequence).contains(&life) && shown == stamp(life, position, sector)
    })
}

/// Whether a block that was written as a whole is one of version 2.
pub(crate) fn is_stamped(block: &[u8]) -> bool {
    block[28..32] == STAMPED
}

/// Whether a block whose checksum does not hold proves that its last write did not come to its end.
fn is_torn(block: &[u8], sequence: u64, position: u32) -> bool {
    let (mut is_begun, mut has_old) = (false, false);
    for (sector, bytes) in block.chunks_exact(SECTOR_BYTES).enumerate() {
        let shown = u64_at(bytes, SECTOR_BYTES - STAMP_BYTES);
        is_begun |= shown == stamp(sequence, position, sector);
        has_old |= bytes.iter().all(|byte| *byte == 0) || is_of_earlier_life(shown, sequence, position, sector);
    }
    is_begun && has_old
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
        return if is_torn(block, sequence, position) { Block::Torn } else { Block::Damaged };
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
    let Some(layout) = Layout::of(version) else { return Some(Err(version)) };
    if is_stamped(block) != (layout == Layout::Stamped) {
        return None;
    }
    let header = FrameHeader {
        first_number: u64_at(block, 40),
        floor: u64_at(block, 48),
        count: u32_at(block, 56),
        content_bytes: u64_at(block, 64),
        layout,
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
pub(crate) fn content(blocks: &[u8], header: &FrameHeader) -> Option<Vec<u8>> {
    let wanted = usize::try_from(header.content_bytes).ok()?;
    let mut content = Vec::with_capacity(wanted.min(blocks.len()));
    let mut whole = [0; BLOCK_BYTES];
    for (index, block) in blocks.chunks_exact(BLOCK_BYTES).enumerate() {
        let start = header.layout.content_at(index);
        let take = (wanted - content.len()).min(BLOCK_BYTES - start);
        whole.copy_from_slice(block);
        if header.layout == Layout::Stamped {
            if !is_stamped(block) {
                return None;
            }
            let table = Layout::table_at(index);
            for sector in 0..SECTORS {
                let (end, at) = ((sector + 1) * SECTOR_BYTES, table + sector * STAMP_BYTES);
                whole[end - STAMP_BYTES..end].copy_from_slice(&block[at..at + STAMP_BYTES]);
            }
        }
        content.extend_from_slice(&whole[start..start + take]);
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
    pub layout: Layout,
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
        let layout = place.layout;
        let blocks = blocks_for(content_bytes, layout) as usize;
        let bytes = self.aligned(blocks * BLOCK_BYTES);
        let mut writer = Writer { bytes, offset: BLOCK_HEADER_BYTES, layout };
        writer.put(&MAGIC);
        writer.put(&layout.version().to_le_bytes());
        writer.put(&[0; 2]);
        writer.put(&place.first_number.to_le_bytes());
        writer.put(&place.floor.to_le_bytes());
        writer.put(&(payloads.len() as u32).to_le_bytes());
        writer.put(&[0; 4]);
        writer.put(&content_bytes.to_le_bytes());
        writer.offset = layout.content_at(0);
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
            if layout == Layout::Stamped {
                stamp_sectors(block, index, place.sequence, place.position + index as u32);
            }
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

/// Puts stamps at the ends of a block's sectors, and what they displace into its table.
fn stamp_sectors(block: &mut [u8], index: usize, sequence: u64, position: u32) {
    block[28..32].copy_from_slice(&STAMPED);
    let table = Layout::table_at(index);
    for sector in 0..SECTORS {
        let (end, at) = ((sector + 1) * SECTOR_BYTES, table + sector * STAMP_BYTES);
        block.copy_within(end - STAMP_BYTES..end, at);
        block[end - STAMP_BYTES..end].copy_from_slice(&stamp(sequence, position, sector).to_le_bytes());
    }
}

/// Writes content across blocks, leaving room for their headers.
struct Writer<'a> {
    bytes: &'a mut [u8],
    offset: usize,
    layout: Layout,
}

impl Writer<'_> {
    fn put(&mut self, mut from: &[u8]) {
        while !from.is_empty() {
            if self.offset.is_multiple_of(BLOCK_BYTES) {
                self.offset += self.layout.content_at(self.offset / BLOCK_BYTES);
            }
            let room = BLOCK_BYTES - self.offset % BLOCK_BYTES;
            let (now, later) = from.split_at(from.len().min(room));
            self.bytes[self.offset..self.offset + now.len()].copy_from_slice(now);
            self.offset += now.len();
            from = later;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_tells_the_life_that_it_is_of() {
        for (life, position, sector) in [(1, 0, 0), (7, 4095, 7), (300, 1, 3), (1 << 40, u32::MAX, 5)] {
            let (shown, later) = (stamp(life, position, sector), life + 1000);
            assert!(is_of_earlier_life(shown, life + 1, position, sector), "{life}");
            assert!(is_of_earlier_life(shown, later, position, sector), "{life}");
            assert!(!is_of_earlier_life(shown, life, position, sector), "its own is no earlier one");
            assert!(!is_of_earlier_life(shown, later, position, sector ^ 1), "another sector");
            assert!(!is_of_earlier_life(shown, later, position ^ 1, sector), "another block");
        }
        assert!(!is_of_earlier_life(0, 1 << 40, 0, 0));
    }
}
