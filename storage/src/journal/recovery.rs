//! What the journal's bytes say after a crash: a pure reading of segments, in order, which never panics.
//!
//! The rule that everything follows from: a frame is written only after the one before it was synced with success.
//!
//! 1. Every block is classified by its own header: unwritten, written (by which frame), or damaged.
//! 2. A frame counts if all its blocks are there. Its payloads continue the numbering; where they do not, the numbers
//!    between are lost although they were acknowledged: damage of the past. Frames that were cut off as a torn tail
//!    and left lying leave no gap, because their numbers were given again.
//! 3. The first block of a frame whose rest is missing still proves that everything before it was acknowledged.
//! 4. A next frame that was acknowledged and then damaged, and a next frame that was being written when the power
//!    went, can start only right behind the last frame, or at the head of a later segment. So only there is asked:
//!    - the first block is unwritten and nothing of a frame lies behind it: there was none. Clean;
//!    - blocks of it are there and the others are unwritten: it was being written. Torn, never acknowledged;
//!    - there is a damaged block: it may have been either. Unprovable;
//!    - blocks are there of a frame that starts elsewhere: what stood before it was acknowledged. Unprovable too.
//! 5. Behind an unprovable tail some numbers are left out and a frame without payloads is written at once. From then
//!    on the hole in the numbering is what remembers it, as damage of the past, and step 4 starts from firm ground.

use bytes::Bytes;

use super::block::{self, BLOCK_BYTES, Block, FrameHeader, LENGTH_BYTES};

/// Payload numbers that were acknowledged and cannot be read: those strictly between `after` and `before`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The last number before the hole that is not missing.
    pub after: u64,
    /// The first number behind the hole.
    pub before: u64,
}

/// How the journal ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// With a whole frame, or with nothing at all.
    Clean,
    /// With the beginnings of a frame whose commit never returned. It is forgotten.
    Torn,
    /// With something unreadable that may have been acknowledged: what was promised last cannot be proved.
    Unprovable,
}

/// More payloads than a segment can hold: numbers left out for a file of which nothing is known.
const NUMBERS_OF_LOST_FILE: u64 = 1 << 32;

/// Where a frame stands.
#[derive(Clone, Debug)]
pub(crate) struct LastFrame {
    pub sequence: u64,
    pub position: u32,
    pub blocks: Vec<u8>,
}

/// What is known of a segment once all were read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentSummary {
    pub sequence: u64,
    /// Number of the first payload after its first frame's start; `None` if no frame starts in it.
    pub first_number: Option<u64>,
}

/// Everything that was read.
#[derive(Debug)]
pub struct Findings {
    /// Payloads with their numbers, ascending, none below `floor`.
    pub payloads: Vec<(u64, Bytes)>,
    /// What is missing among them, ascending.
    pub damage: Vec<Damage>,
    /// How the journal ends.
    pub tail: Tail,
    /// The number that the next payload gets.
    pub next_number: u64,
    /// Payloads below this number were given up.
    pub floor: u64,
    /// The version of frames that this program cannot read, if there are any; nothing else is then to be believed.
    pub unknown_version: Option<u16>,
    pub(crate) next_frame: u64,
    pub(crate) write_sequence: Option<u64>,
    pub(crate) write_position: u32,
    /// Damaged blocks behind the last frame: segment and position. Once the tail has been judged they only confuse.
    pub(crate) damaged_blocks: Vec<(u64, u32)>,
    pub(crate) last_frame: Option<LastFrame>,
    pub(crate) segments: Vec<SegmentSummary>,
}

/// A block behind the last frame that bears on the tail.
#[derive(Clone, Copy)]
struct Note {
    /// Which segment, counted in the order read.
    segment: usize,
    position: u32,
    kind: NoteKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum NoteKind {
    /// Belongs to a frame that is not whole and starts at this position.
    New {
        start: u32,
    },
    Damaged,
}

/// The reading in progress: feed it the segments in ascending order, then ask for the findings.
pub struct Scan {
    payloads: Vec<(u64, Bytes)>,
    damage: Vec<Damage>,
    /// The number that the next payload must have if nothing is missing.
    expected: u64,
    /// Number of the last frame whose first block was seen.
    seen_frame: u64,
    /// Blocks of frames with this number or a higher one, met behind it, are of a frame that is not whole.
    new_from_frame: u64,
    frame_max: u64,
    floor: u64,
    /// Payloads that the frame at the tail would have held, if its first block can be read and the rest cannot.
    incomplete_count: u32,
    tail_segment: usize,
    tail_position: u32,
    notes: Vec<Note>,
    last_frame: Option<LastFrame>,
    segments: Vec<SegmentSummary>,
    gap_behind: Option<usize>,
    unknown_version: Option<u16>,
}

impl Default for Scan {
    fn default() -> Scan {
        Scan::new()
    }
}

impl Scan {
    /// Nothing read yet.
    #[must_use]
    pub fn new() -> Scan {
        Scan {
            payloads: Vec::new(),
            damage: Vec::new(),
            expected: 1,
            seen_frame: 0,
            new_from_frame: 1,
            frame_max: 0,
            floor: 1,
            incomplete_count: 0,
            tail_segment: 0,
            tail_position: 0,
            notes: Vec::new(),
            last_frame: None,
            segments: Vec::new(),
            gap_behind: None,
            unknown_version: None,
        }
    }

    /// Reads a segment that should be `blocks` blocks long; what `bytes` lacks of that counts as damaged.
    ///
    /// Sequence numbers must ascend from call to call; a segment out of order is passed over.
    pub fn segment(&mut self, sequence: u64, blocks: u32, bytes: &[u8]) {
        if let Some(previous) = self.segments.last() {
            if sequence <= previous.sequence {
                return;
            }
            if sequence - previous.sequence > 1 {
                self.gap_behind = Some(self.segments.len() - 1);
            }
        }
        let segment = self.segments.len();
        self.segments.push(SegmentSummary { sequence, first_number: None });
        let present = u32::try_from(bytes.len() / BLOCK_BYTES).unwrap_or(u32::MAX).min(blocks);
        let mut last_frame = None;
        let mut position = 0;
        while position < present {
            let block = block_at(bytes, position);
            let mut taken = 1;
            match block::classify(block, sequence, position) {
                Block::Unwritten { frame } => self.frame_max = self.frame_max.max(frame),
                Block::Damaged => self.note(segment, position, NoteKind::Damaged),
                Block::Written { frame, index } => {
                    self.frame_max = self.frame_max.max(frame);
                    if index == 0 && frame > self.seen_frame {
                        match self.frame(segment, frame, position, present, bytes) {
                            Some(blocks) => {
                                last_frame = Some((position, blocks));
                                taken = blocks;
                            }
                            None if self.unknown_version.is_some() => return,
                            None => {}
                        }
                    } else if frame >= self.new_from_frame {
                        self.note(segment, position, NoteKind::New { start: position - index });
                    }
                }
            }
            position += taken;
        }
        if present < blocks {
            self.note(segment, present, NoteKind::Damaged);
            self.note(segment, blocks - 1, NoteKind::Damaged);
        }
        if let Some((position, blocks)) = last_frame {
            let start = position as usize * BLOCK_BYTES;
            let blocks = bytes[start..start + blocks as usize * BLOCK_BYTES].to_vec();
            self.last_frame = Some(LastFrame { sequence, position, blocks });
        }
    }

    fn note(&mut self, segment: usize, position: u32, kind: NoteKind) {
        self.notes.push(Note { segment, position, kind });
    }

    /// Takes in the frame whose first block stands at `position`. Answers its length in blocks if it is whole.
    fn frame(&mut self, segment: usize, frame: u64, position: u32, present: u32, bytes: &[u8]) -> Option<u32> {
        let header = match block::frame_header(block_at(bytes, position)) {
            Some(Ok(header)) if header.first_number >= self.expected => header,
            Some(Err(version)) => {
                self.unknown_version = Some(version);
                return None;
            }
            // The checksum holds and the fields contradict each other: no write of ours.
            _ => {
                self.note(segment, position, NoteKind::Damaged);
                return None;
            }
        };
        // Whether or not the rest is there: this frame was begun, so everything before it was acknowledged.
        self.missing_until(header.first_number);
        self.seen_frame = frame;
        self.floor = self.floor.max(header.floor);
        self.segments[segment].first_number.get_or_insert(header.first_number);
        self.notes.clear();
        self.tail_segment = segment;
        self.incomplete_count = 0;
        if let Some((blocks, payloads)) =
            whole_frame(self.segments[segment].sequence, frame, position, present, bytes, header)
        {
            self.new_from_frame = frame.saturating_add(1);
            self.tail_position = position + blocks;
            self.expected = header.first_number + u64::from(header.count);
            self.payloads.extend((header.first_number..).zip(payloads));
            Some(blocks)
        } else {
            self.new_from_frame = frame;
            self.tail_position = position;
            self.incomplete_count = header.count;
            self.note(segment, position, NoteKind::New { start: position });
            None
        }
    }

    /// Everything from the expected number up to `before` is missing.
    fn missing_until(&mut self, before: u64) {
        if before == self.expected {
            return;
        }
        let after = self.expected - 1;
        match self.damage.last_mut() {
            // Nothing readable lies between this hole and the last.
            Some(last) if last.before == self.expected => last.before = before,
            _ => self.damage.push(Damage { after, before }),
        }
        self.expected = before;
    }

    /// What it all means.
    #[must_use]
    pub fn finish(mut self) -> Findings {
        let tail = self.tail();
        let floor = self.floor;
        self.payloads.retain(|(number, _)| *number >= floor);
        self.damage.retain(|damage| damage.before > floor);
        if let Some(first) = self.damage.first_mut() {
            first.after = first.after.max(floor - 1);
        }
        let next_number = match tail {
            // The hole in the numbering keeps what happened on record: from now on it is damage of the past.
            Tail::Unprovable => self.expected.saturating_add(self.numbers_in_doubt()),
            Tail::Clean | Tail::Torn => self.expected,
        };
        let (write_segment, write_position) = self.write_place();
        let damaged = |note: &&Note| note.kind == NoteKind::Damaged;
        let place = |note: &Note| (self.segments[note.segment].sequence, note.position);
        let damaged_blocks = self.notes.iter().filter(damaged).map(place).collect();
        Findings {
            payloads: self.payloads,
            damage: self.damage,
            tail,
            next_number,
            floor,
            unknown_version: self.unknown_version,
            next_frame: self.frame_max.saturating_add(1),
            write_sequence: self.segments.get(write_segment).map(|segment| segment.sequence),
            write_position,
            damaged_blocks,
            last_frame: self.last_frame,
            segments: self.segments,
        }
    }

    /// No fewer than the payloads that what is unprovable at the tail can have held, and no fewer than one.
    fn numbers_in_doubt(&self) -> u64 {
        // Of a lost file not even the length is known.
        let lost = self.gap_behind.is_some() || self.seen_frame == 0 && self.notes.is_empty();
        let mut blocks = 0;
        for notes in self.notes.chunk_by(|a, b| a.segment == b.segment) {
            let start = if notes[0].segment == self.tail_segment { self.tail_position } else { 0 };
            let end = notes.iter().map(|note| note.position).max().unwrap_or(start);
            blocks += u64::from(end.saturating_sub(start)) + 1;
        }
        let most = blocks * (BLOCK_BYTES / LENGTH_BYTES) as u64 + u64::from(self.incomplete_count);
        if lost { most + NUMBERS_OF_LOST_FILE } else { most }
    }

    /// Where the next frame goes: the segment, counted in the order read, and the position in it.
    fn write_place(&self) -> (usize, u32) {
        let place = (self.tail_segment, self.tail_position);
        // Behind a lost file, so that it is not in doubt again next time.
        self.gap_behind.map_or(place, |segment| place.max((segment + 1, 0)))
    }

    fn tail(&self) -> Tail {
        // The newest frame's segment is never given up; so without any frame, the first segment must be the first.
        if self.seen_frame == 0 && self.segments.first().is_some_and(|first| first.sequence > 1) {
            return Tail::Unprovable;
        }
        if self.gap_behind.is_some_and(|segment| segment >= self.tail_segment) {
            return Tail::Unprovable;
        }
        let mut torn = false;
        for segment_notes in self.notes.chunk_by(|a, b| a.segment == b.segment) {
            let start = if segment_notes[0].segment == self.tail_segment { self.tail_position } else { 0 };
            let mut begun = false;
            let mut damaged = false;
            for note in segment_notes {
                match note.kind {
                    NoteKind::New { start: own_start } if own_start != start => return Tail::Unprovable,
                    NoteKind::New { .. } => begun = true,
                    NoteKind::Damaged => {
                        damaged = true;
                        begun |= note.position == start;
                    }
                }
            }
            if begun && damaged {
                return Tail::Unprovable;
            }
            torn |= begun;
        }
        if torn { Tail::Torn } else { Tail::Clean }
    }
}

fn block_at(bytes: &[u8], position: u32) -> &[u8] {
    let start = position as usize * BLOCK_BYTES;
    &bytes[start..start + BLOCK_BYTES]
}

/// The frame's length in blocks and its payloads, if every block of it is there.
fn whole_frame(
    sequence: u64,
    frame: u64,
    position: u32,
    present: u32,
    bytes: &[u8],
    header: FrameHeader,
) -> Option<(u32, Vec<Bytes>)> {
    let blocks = u32::try_from(block::blocks_for(header.content_bytes)).ok()?;
    let end = position.checked_add(blocks).filter(|end| *end <= present)?;
    let whole = (1..blocks).all(|index| {
        let at = position + index;
        block::classify(block_at(bytes, at), sequence, at) == Block::Written { frame, index }
    });
    if !whole {
        return None;
    }
    let frame_bytes = &bytes[position as usize * BLOCK_BYTES..end as usize * BLOCK_BYTES];
    let mut content = Bytes::from(block::content(frame_bytes, header.content_bytes)?);
    let mut payloads = Vec::with_capacity(header.count as usize);
    for _ in 0..header.count {
        let length = u32::from_le_bytes(*content.first_chunk::<LENGTH_BYTES>()?) as usize;
        if content.len() - LENGTH_BYTES < length {
            return None;
        }
        let mut payload = content.split_to(LENGTH_BYTES + length);
        payloads.push(payload.split_off(LENGTH_BYTES));
    }
    content.is_empty().then_some((blocks, payloads))
}

/// Reads bytes as the first segments of a journal, whatever they are.
#[must_use]
pub fn decode(segments: &[&[u8]]) -> Findings {
    let mut scan = Scan::new();
    for (sequence, bytes) in (1..).zip(segments) {
        let blocks = u32::try_from(bytes.len().div_ceil(BLOCK_BYTES)).unwrap_or(u32::MAX);
        scan.segment(sequence, blocks, bytes);
    }
    scan.finish()
}
