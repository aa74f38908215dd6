//! What the journal's bytes say after a crash: a pure reading of segments, in order, which never panics.
//!
//! The rule that everything follows from: a frame is written only after the one before it was synced with success.
//!
//! 1. Every block is classified by its own header: unwritten, written (by which frame), torn (its sectors say that its write was broken off), or damaged.
//! 2. A frame counts if all its blocks are there. Its payloads continue the numbering; where they do not, the numbers
//!    between are lost although they were acknowledged: damage of the past. Frames that were cut off as a torn tail
//!    and left lying leave no gap, because their numbers were given again.
//! 3. The first block of a frame whose rest is missing still proves that everything before it was acknowledged.
//! 4. A next frame that was acknowledged and then damaged, and a next frame that was being written when the power
//!    went, can start only right behind the last frame, or at the head of a later segment. So only there is asked:
//!    - the first block is unwritten and nothing of a frame lies behind it: there was none. Clean;
//!    - blocks of it are there and the others are unwritten, or have sectors that are: it was being written. Torn, never acknowledged;
//!    - its first block has sectors that were not written with the others: the same, whatever is damaged behind it;
//!    - there is a damaged block: it may have been either. Unprovable;
//!    - blocks are there of a frame that starts elsewhere: what stood before it was acknowledged. Unprovable too.
//! 5. Each block of an unprovable tail is at once written over with a frame without payloads, the last block first, and
//!    each of these leaves out as many numbers as a block can hold. From then on the hole in the numbering is what
//!    remembers it, as damage of the past, and step 4 starts from firm ground.
//!
//! Of the numbering one thing holds always: between two places of the journal no more numbers are given or left out
//! than the blocks between them can hold; and for a file that is gone, [`NUMBERS_PER_SEGMENT_MAX`]. So however much
//! rots, and however often, records of step 5 among it: counting what is in doubt never yields a number given before.

use std::ops::Range;

use bytes::Bytes;

use super::block::{self, BLOCK_BYTES, Block, FrameHeader, LENGTH_BYTES, Layout};

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

/// No frame has more payloads than this for each of its blocks: each payload takes the bytes of its length.
pub(crate) const NUMBERS_PER_BLOCK_MAX: u64 = (BLOCK_BYTES / LENGTH_BYTES) as u64;
/// The same for a whole segment, whatever its size: numbers left out for a file of which nothing is known.
pub(crate) const NUMBERS_PER_SEGMENT_MAX: u64 = 1 << 32;

/// Where a frame stands.
#[derive(Clone, Debug)]
pub(crate) struct LastFrame {
    pub sequence: u64,
    pub position: u32,
    pub blocks: Vec<u8>,
    pub layout: Layout,
}

/// What is known of a segment once all were read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentSummary {
    pub sequence: u64,
    /// Number of the first payload after its first frame's start; `None` if no frame starts in it.
    pub first_number: Option<u64>,
    /// How long it should be, in blocks.
    blocks: u32,
    /// How many of them the file really has.
    present: u32,
}

/// Blocks behind the last frame, side by side in one segment, that may have held acknowledged payloads.
#[derive(Clone, Debug)]
pub(crate) struct Doubtful {
    pub sequence: u64,
    /// Those of them that the file really has. Perhaps none.
    pub positions: Range<u32>,
    /// No payload before these blocks can have had this number or a higher one.
    pub first_number: u64,
}

impl Doubtful {
    /// What the record at one of these positions says: no payload up to it can have had this number or a higher one.
    pub fn number_behind(&self, position: u32) -> u64 {
        let blocks = u64::from(position.saturating_sub(self.positions.start)) + 1;
        self.first_number.saturating_add(blocks * NUMBERS_PER_BLOCK_MAX)
    }

    /// What the record at the last of these positions says.
    pub fn end_number(&self) -> u64 {
        self.first_number.saturating_add(self.positions.len() as u64 * NUMBERS_PER_BLOCK_MAX)
    }
}

/// What is in doubt behind the last frame, and what follows from it.
struct Doubts {
    blocks: Vec<Doubtful>,
    /// No payload can have had this number or a higher one.
    next_number: u64,
    /// Right behind all of it: the segment, counted in the order read, and the position in it.
    end: (usize, u32),
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
    /// Whole frames, those included whose payloads were given up since.
    pub frames: u64,
    pub(crate) next_frame: u64,
    pub(crate) write_sequence: Option<u64>,
    pub(crate) write_position: u32,
    /// Damaged blocks behind the last frame: segment and position. Once the tail has been judged they only confuse.
    pub(crate) damaged_blocks: Vec<(u64, u32)>,
    /// Blocks behind the last frame that are left of writes which were broken off. Where the next one is broken off as well, the two together would look like damage.
    pub(crate) leftover_blocks: Vec<(u64, u32)>,
    /// What an unprovable tail consists of, ascending.
    pub(crate) doubtful: Vec<Doubtful>,
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
        /// It can be put out in part without looking like damage.
        stamped: bool,
    },
    /// Was being written, by what its sectors say.
    Torn,
    Damaged,
}

/// What the notes of one segment say together.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// The next frame does not start here; damage lies in space never used.
    Unused,
    /// It was being written.
    Torn,
    Unprovable,
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
    /// Where the frame at the tail would have ended, if its first block can be read and the rest cannot; else 0.
    incomplete_end: u32,
    tail_segment: usize,
    tail_position: u32,
    notes: Vec<Note>,
    last_frame: Option<LastFrame>,
    segments: Vec<SegmentSummary>,
    unknown_version: Option<u16>,
    frames: u64,
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
            incomplete_end: 0,
            tail_segment: 0,
            tail_position: 0,
            notes: Vec::new(),
            last_frame: None,
            segments: Vec::new(),
            unknown_version: None,
            frames: 0,
        }
    }

    /// Reads a segment that should be `blocks` blocks long; what `bytes` lacks of that counts as damaged.
    ///
    /// Sequence numbers must ascend from call to call; a segment out of order is passed over.
    pub fn segment(&mut self, sequence: u64, blocks: u32, bytes: &[u8]) {
        if self.segments.last().is_some_and(|previous| sequence <= previous.sequence) {
            return;
        }
        let segment = self.segments.len();
        let present = u32::try_from(bytes.len() / BLOCK_BYTES).unwrap_or(u32::MAX).min(blocks);
        self.segments.push(SegmentSummary { sequence, first_number: None, blocks, present });
        let mut last_frame = None;
        let mut position = 0;
        while position < present {
            let block = block_at(bytes, position);
            let mut taken = 1;
            match block::classify(block, sequence, position) {
                Block::Unwritten { frame } => self.frame_max = self.frame_max.max(frame),
                Block::Damaged => self.note(segment, position, NoteKind::Damaged),
                Block::Torn => self.note(segment, position, NoteKind::Torn),
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
                        let stamped = block::is_stamped(block);
                        self.note(segment, position, NoteKind::New { start: position - index, stamped });
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
            let layout = block::frame_header(&blocks[..BLOCK_BYTES])
                .and_then(Result::ok)
                .map_or(Layout::default(), |it| it.layout);
            self.last_frame = Some(LastFrame { sequence, position, blocks, layout });
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
        self.incomplete_end = 0;
        if let Some((blocks, payloads)) =
            whole_frame(self.segments[segment].sequence, frame, position, present, bytes, header)
        {
            self.frames += 1;
            self.new_from_frame = frame.saturating_add(1);
            self.tail_position = position + blocks;
            self.expected = header.first_number + u64::from(header.count);
            self.payloads.extend((header.first_number..).zip(payloads));
            Some(blocks)
        } else {
            self.new_from_frame = frame;
            self.tail_position = position;
            let blocks = u32::try_from(block::blocks_for(header.content_bytes, header.layout)).unwrap_or(u32::MAX);
            self.incomplete_end = position.saturating_add(blocks).min(self.segments[segment].blocks);
            let stamped = header.layout == Layout::Stamped;
            self.note(segment, position, NoteKind::New { start: position, stamped });
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
        let doubts = match tail {
            Tail::Unprovable => self.doubts(),
            Tail::Clean | Tail::Torn => {
                let end = (self.tail_segment, self.tail_position);
                Doubts { blocks: Vec::new(), next_number: self.expected, end }
            }
        };
        let (write_segment, write_position) = doubts.end;
        let damaged = |note: &&Note| note.kind == NoteKind::Damaged;
        let place = |note: &Note| (self.segments[note.segment].sequence, note.position);
        let damaged_blocks = self.notes.iter().filter(damaged).map(place).collect();
        let is_left = |note: &&Note| matches!(note.kind, NoteKind::Torn | NoteKind::New { stamped: true, .. });
        let leftover_blocks = self.notes.iter().filter(is_left).map(place).collect();
        Findings {
            payloads: self.payloads,
            damage: self.damage,
            tail,
            next_number: doubts.next_number,
            floor,
            unknown_version: self.unknown_version,
            frames: self.frames,
            next_frame: self.frame_max.saturating_add(1),
            write_sequence: self.segments.get(write_segment).map(|segment| segment.sequence),
            write_position,
            damaged_blocks,
            leftover_blocks,
            doubtful: doubts.blocks,
            last_frame: self.last_frame,
            segments: self.segments,
        }
    }

    /// How many files are missing before each segment, of those at the tail and behind it.
    fn missing_files(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        // The newest frame's segment is never given up; so without any frame, the first segment must be the first.
        let first = if self.seen_frame == 0 { Some(0) } else { None };
        let behind = self.tail_segment + 1..self.segments.len();
        first.into_iter().chain(behind).filter_map(|index| {
            let before = if index == 0 { 0 } else { self.segments[index - 1].sequence };
            let missing = self.segments.get(index)?.sequence.saturating_sub(before + 1);
            (missing > 0).then_some((index, missing))
        })
    }

    /// All that may have been acknowledged behind the last frame.
    fn doubts(&self) -> Doubts {
        let mut blocks = Vec::new();
        let mut next_number = self.expected;
        let mut end = (self.tail_segment, self.tail_position);
        let mut missing_files = self.missing_files().peekable();
        for notes in self.notes.chunk_by(|a, b| a.segment == b.segment) {
            if self.verdict(notes) == Verdict::Unused {
                continue;
            }
            let segment = notes[0].segment;
            while let Some((_, missing)) = missing_files.next_if(|(index, _)| *index <= segment) {
                next_number = next_number.saturating_add(missing.saturating_mul(NUMBERS_PER_SEGMENT_MAX));
            }
            let start = self.start_in(segment);
            let last = notes.iter().map(|note| note.position + 1).max().unwrap_or(start);
            let incomplete = if segment == self.tail_segment { self.incomplete_end } else { 0 };
            let end_position = last.max(incomplete).max(start);
            let SegmentSummary { sequence, present, .. } = self.segments[segment];
            let positions = start..end_position.min(present).max(start);
            blocks.push(Doubtful { sequence, positions, first_number: next_number });
            next_number = next_number.saturating_add(u64::from(end_position - start) * NUMBERS_PER_BLOCK_MAX);
            end = (segment, end_position);
        }
        for (index, missing) in missing_files {
            next_number = next_number.saturating_add(missing.saturating_mul(NUMBERS_PER_SEGMENT_MAX));
            // Behind a lost file, so that it is not in doubt again next time.
            end = (index, 0);
        }
        Doubts { blocks, next_number, end }
    }

    /// Where the next frame starts if it is in this segment.
    fn start_in(&self, segment: usize) -> u32 {
        if segment == self.tail_segment { self.tail_position } else { 0 }
    }

    fn tail(&self) -> Tail {
        if self.missing_files().next().is_some() {
            return Tail::Unprovable;
        }
        let mut tail = Tail::Clean;
        for notes in self.notes.chunk_by(|a, b| a.segment == b.segment) {
            match self.verdict(notes) {
                Verdict::Unused => {}
                Verdict::Torn => tail = Tail::Torn,
                Verdict::Unprovable => return Tail::Unprovable,
            }
        }
        tail
    }

    /// Judges the notes of one segment, at least one.
    fn verdict(&self, notes: &[Note]) -> Verdict {
        let start = self.start_in(notes[0].segment);
        let (mut begun, mut damaged, mut first_is_torn) = (false, false, false);
        for note in notes {
            match note.kind {
                // Elsewhere it says nothing: it may be left from an attempt before the last one.
                NoteKind::Torn => first_is_torn |= note.position == start,
                NoteKind::New { start: own_start, .. } if own_start != start => return Verdict::Unprovable,
                NoteKind::New { .. } => begun = true,
                NoteKind::Damaged => {
                    damaged = true;
                    begun |= note.position == start;
                }
            }
        }
        match (begun, damaged) {
            // Nothing is ever written behind a frame that was not acknowledged.
            _ if first_is_torn => Verdict::Torn,
            (true, true) => Verdict::Unprovable,
            (true, false) => Verdict::Torn,
            (false, _) => Verdict::Unused,
        }
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
    let blocks = u32::try_from(block::blocks_for(header.content_bytes, header.layout)).ok()?;
    let end = position.checked_add(blocks).filter(|end| *end <= present)?;
    let whole = (1..blocks).all(|index| {
        let at = position + index;
        block::classify(block_at(bytes, at), sequence, at) == Block::Written { frame, index }
    });
    if !whole {
        return None;
    }
    let frame_bytes = &bytes[position as usize * BLOCK_BYTES..end as usize * BLOCK_BYTES];
    let mut content = Bytes::from(block::content(frame_bytes, &header)?);
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
