//! The journal: one per node, for all its partitions; one frame and one `fdatasync` per batch.
//!
//! ```text
//! journal-…0003-…   [frame 91][frame 92][frame 93][     zeros      ][·]   ← current; [·]: kept back, see below
//! journal-…0004-…   [                  zeros                       ][·]   ← ready: switching to it is free
//! journal-…0005-…   [                  zeros                       ][·]   ← ready too
//! journal-…0002-…   [frames whose payloads were all discarded      ][·]   ← free: becomes …0006 by renaming
//! ```
//!
//! The life of a commit: the payloads are put into one frame of 4 KiB blocks, written in place over preallocated
//! space, synced, and only then is the caller told. A frame is therefore only ever written when the one before it is
//! durable; recovery (`journal/opening.rs`, `journal/recovery.rs`) lives on that. Segments are zero-filled and synced
//! before they get a journal name, and [`Journal::discard_before`] gives old ones back for reuse. The last block of
//! each is kept back for the frame that this takes, so that it works on a full disk.
//!
//! The journal has one owner, on whatever thread. Only the zero-filling of a blank segment may run on another one:
//! [`Journal::preparation`] → [`Preparation::run`] → [`Journal::install`].

pub(crate) mod block;
pub(crate) mod opening;
mod recovery;

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::ops::Range;

use base::limits::{ENTRY_BYTES_MAX, SEGMENT_BYTES};
use bytes::Bytes;

use crate::disk::{Disk, DiskFile, is_full, is_out_of_files};
pub use block::BLOCK_BYTES;
use block::{FrameBuffer, FramePlace, LENGTH_BYTES, Layout};
pub use recovery::{Damage, Findings, Scan, Tail, decode};
use recovery::{NUMBERS_PER_BLOCK_MAX, NUMBERS_PER_SEGMENT_MAX};

/// Largest payload, in bytes: an entry and what its owner puts around it.
pub const PAYLOAD_BYTES_MAX: usize = ENTRY_BYTES_MAX + 1024 * 1024;
/// Most bytes of one frame. More in one batch is refused.
pub const FRAME_BYTES_MAX: u64 = 4 * PAYLOAD_BYTES_MAX as u64;
/// Bytes of a new folder's first segment, and of one that a commit has to wait for: small, to be ready at once.
pub const FIRST_SEGMENT_BYTES: u64 = 4 * 1024 * 1024;
/// How many segments are kept ready behind the current one, unless [`Journal::keep_ready`] says otherwise. With one
/// alone, heavy writing uses it up while the next is still being filled with zeros.
pub const READY_SEGMENTS: usize = 2;
/// Every segment keeps its last block for a frame without payloads, so that space can be given back on a full disk.
const RESERVED_BLOCKS: u32 = 1;
/// Most blocks of a segment (16 GiB): for a lost one, as many numbers are left out as it can have held.
const SEGMENT_BLOCKS_MAX: u32 = (NUMBERS_PER_SEGMENT_MAX / NUMBERS_PER_BLOCK_MAX) as u32;
const _: () = assert!(FRAME_BYTES_MAX / BLOCK_BYTES as u64 * 2 < SEGMENT_BLOCKS_MAX as u64);

const PREFIX: &str = "journal-";
pub(crate) const BLANK_PREFIX: &str = "journal-blank-";

/// How large segments are and how many are kept for reuse.
#[derive(Clone, Copy, Debug)]
pub struct JournalOptions {
    /// Bytes of a new folder's first segment, and of one that a commit has to wait for, rounded up to blocks.
    pub first_segment_bytes: u64,
    /// Bytes of every further segment, rounded up to blocks, unless one frame needs more.
    pub segment_bytes: u64,
    /// Most discarded segments kept for reuse; at least 1.
    pub free_segments_max: usize,
}

impl Default for JournalOptions {
    fn default() -> JournalOptions {
        JournalOptions { first_segment_bytes: FIRST_SEGMENT_BYTES, segment_bytes: SEGMENT_BYTES, free_segments_max: 4 }
    }
}

/// What [`Journal::open`] found.
#[derive(Clone, Debug)]
pub struct Recovered {
    /// Every payload from `floor` on that can be read, with its number, ascending.
    pub payloads: Vec<(u64, Bytes)>,
    /// Numbers that were acknowledged and cannot be read, ascending. Reported at every opening until they are
    /// discarded.
    pub damage: Vec<Damage>,
    /// How the journal ended. `Unprovable` is reported once, by the opening that finds it; from then on it is
    /// `damage`, of numbers that may never have been given. So both ask for the same: not to vote until what was
    /// promised is known again from others.
    pub tail: Tail,
    /// The number that the next payload gets. Behind an unprovable tail numbers are left out, as many as it can have
    /// held: none that was acknowledged is ever given again, however often the end rots.
    pub next_number: u64,
    /// The highest number that [`Journal::discard_before`] was given and has stored; 1 at first.
    pub floor: u64,
    /// There was no journal. Next to a stored identity this means that the journal was lost.
    pub fresh: bool,
}

impl Recovered {
    /// Nothing was ever committed, as far as can be seen: the journal is new, or was lost.
    #[must_use]
    pub fn holds_nothing(&self) -> bool {
        self.fresh || self.payloads.is_empty() && self.damage.is_empty() && self.next_number == 1
    }
}

/// Why a commit did not succeed.
#[derive(Debug)]
pub enum CommitError {
    /// There is no room for another segment. Nothing was written; the journal can be used, now or later.
    Full,
    /// No file can be opened for another segment: too many are open. Nothing was written; the journal can be used, now or later.
    NoFiles,
    /// The payloads are larger than a frame may be. Nothing was written; the journal can be used.
    TooLarge,
    /// The disk failed, now or earlier. Whether the payloads will be found again is unknown, and no further commit
    /// will be tried: what the disk holds after a failed write or sync is unknown.
    Broken(io::Error),
}

impl fmt::Display for CommitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommitError::Full => write!(f, "no room on the disk for another journal segment"),
            CommitError::NoFiles => write!(f, "too many files are open for another journal segment"),
            CommitError::TooLarge => write!(f, "more bytes than one journal frame may hold"),
            CommitError::Broken(error) => write!(f, "the journal's disk failed: {error}"),
        }
    }
}

impl std::error::Error for CommitError {}

/// The segment that frames go to.
#[derive(Debug)]
struct Segment<F> {
    sequence: u64,
    blocks: u32,
    file: F,
    /// Where the next frame goes, in blocks.
    position: u32,
}

/// A segment behind which the journal has moved on.
#[derive(Debug)]
struct Closed {
    name: String,
    blocks: u32,
    /// All its payloads are below this number.
    end_number: u64,
}

/// A file that may become a segment.
#[derive(Debug)]
struct Free {
    name: String,
    blocks: u32,
}

/// The journal of one node. See the file's head.
#[derive(Debug)]
pub struct Journal<D: Disk> {
    disk: D,
    options: JournalOptions,
    current: Segment<D::File>,
    /// Ascending; what lies before the current segment.
    closed: VecDeque<Closed>,
    /// Ascending; what lies behind it, unwritten.
    ready: VecDeque<Segment<D::File>>,
    /// How many of these there shall be. `>= 1`
    ready_wanted: usize,
    free: Vec<Free>,
    next_sequence: u64,
    next_frame: u64,
    next_number: u64,
    floor: u64,
    /// The floor that the last frame carries: what may be given up if the node crashes now. `<= floor`
    stored_floor: u64,
    next_blank: u64,
    preparing: bool,
    broken: Option<(io::ErrorKind, String)>,
    buffer: FrameBuffer,
    /// How frames are written from now on.
    layout: Layout,
}

/// A blank segment to be made, perhaps on another thread: zero-filling takes long. See [`Journal::preparation`].
#[derive(Debug)]
pub struct Preparation<D: Disk> {
    disk: D,
    name: String,
    blocks: u32,
}

/// A blank segment, for [`Journal::install`].
#[derive(Debug)]
pub struct Prepared {
    name: String,
    blocks: u32,
}

impl<D: Disk> Preparation<D> {
    /// Makes the blank segment: creates it, fills it with zeros, syncs it.
    ///
    /// # Errors
    /// Whatever the disk says; give it to [`Journal::install`] all the same.
    pub fn run(self) -> io::Result<Prepared> {
        let file = self.disk.create(&self.name, u64::from(self.blocks) * BLOCK_BYTES as u64)?;
        file.sync()?;
        Ok(Prepared { name: self.name, blocks: self.blocks })
    }
}

fn segment_name(sequence: u64, blocks: u32) -> String {
    format!("{PREFIX}{sequence:016x}-{blocks:08x}")
}

fn blocks_of(bytes: u64) -> u32 {
    let blocks = u32::try_from(bytes.div_ceil(BLOCK_BYTES as u64)).unwrap_or(u32::MAX);
    blocks.clamp(1 + RESERVED_BLOCKS, SEGMENT_BLOCKS_MAX)
}

impl<D: Disk> Journal<D> {
    /// Appends one frame with all the payloads and syncs it. They are durable on return, and have the numbers
    /// answered. Without payloads it does nothing.
    ///
    /// # Errors
    /// See [`CommitError`].
    pub fn commit<P: AsRef<[u8]>>(&mut self, payloads: &[P]) -> Result<Range<u64>, CommitError> {
        self.check()?;
        let first = self.next_number;
        if !payloads.is_empty() {
            self.append(payloads, RESERVED_BLOCKS)?;
        }
        Ok(first..self.next_number)
    }

    /// Gives up every payload below `number`: they will not be reported again, and segments without any other are
    /// reused or removed. Costs a sync of its own if, and only if, there is such a segment. The newest payload stays, and so
    /// does the newest frame's segment.
    ///
    /// # Errors
    /// See [`CommitError`]. After `Full` the payloads are given up all the same, but no space was gained.
    pub fn discard_before(&mut self, number: u64) -> Result<(), CommitError> {
        self.check()?;
        // The caller may count a payload that is not committed yet; what the newest committed one says must not go before that.
        self.floor = self.floor.max(number.min(self.next_number.saturating_sub(1).max(1)));
        let gain = self.closed.front().is_some_and(|closed| closed.end_number <= self.floor);
        if !gain {
            return Ok(());
        }
        if self.stored_floor < self.floor {
            // Before a segment goes, the journal must say that it may be missing.
            self.append::<&[u8]>(&[], 0)?;
        }
        self.release().map_err(|error| self.fail(error))
    }

    /// Moves segments that are not needed to the free ones, and removes what is too many of these.
    fn release(&mut self) -> io::Result<()> {
        while self.closed.front().is_some_and(|closed| closed.end_number <= self.stored_floor) {
            let Some(closed) = self.closed.pop_front() else { break };
            self.free.push(Free { name: closed.name, blocks: closed.blocks });
        }
        while self.free.len() > self.options.free_segments_max.max(1) {
            // Of an odd size first: the small first one, and those made for one huge frame.
            let regular = blocks_of(self.options.segment_bytes);
            let odd = self.free.iter().position(|free| free.blocks != regular).unwrap_or(0);
            let free = self.free.remove(odd);
            self.disk.remove(&free.name)?;
        }
        Ok(())
    }

    /// From now on frames are of version 2: a power cut in the middle of a block is told from damage. Programs that know version 1 alone do not read them.
    pub fn stamp_sectors(&mut self) {
        self.layout = Layout::Stamped;
    }

    /// Sets how many segments shall be ready behind the current one: at least 1, [`READY_SEGMENTS`] at first. What is
    /// ready already stays so.
    pub fn keep_ready(&mut self, segments: usize) {
        self.ready_wanted = segments.max(1);
    }

    /// Whether there are as many segments as there shall be, synced and ready, for when the current one is used up. If
    /// not, it is time for [`Journal::preparation`], or for [`Journal::prepare_next`].
    #[must_use]
    pub fn next_is_ready(&self) -> bool {
        self.ready.len() >= self.ready_wanted
    }

    /// Makes as many segments ready now as there shall be. May take as long as zero-filling them takes; right after
    /// [`Journal::preparation`] had nothing to do, it only renames files.
    ///
    /// # Errors
    /// See [`CommitError`]; `Full` is the early sign that commits will soon be refused: not even one is ready.
    pub fn prepare_next(&mut self) -> Result<(), CommitError> {
        self.check()?;
        while !self.next_is_ready() {
            match self.make_segment(1 + RESERVED_BLOCKS, blocks_of(self.options.segment_bytes)) {
                Ok(segment) => self.ready.push_back(segment),
                Err(CommitError::Full | CommitError::NoFiles) if !self.ready.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The slow part of [`Journal::prepare_next`], to be run elsewhere, its result handed to [`Journal::install`]. One
    /// at a time: if more segments are missing, ask again after that.
    ///
    /// `None` if nothing slow is to be done: enough segments are ready, or will be once discarded ones are reused (call
    /// [`Journal::prepare_next`]), another preparation is under way, or the journal is broken.
    pub fn preparation(&mut self) -> Option<Preparation<D>> {
        let blocks = blocks_of(self.options.segment_bytes);
        let discarded = self.closed.iter().filter(|closed| closed.end_number <= self.stored_floor);
        let at_hand = self.free.iter().map(|free| free.blocks).chain(discarded.map(|closed| closed.blocks));
        let reusable = at_hand.filter(|found| *found >= blocks).count();
        if self.preparing || self.broken.is_some() || self.ready.len() + reusable >= self.ready_wanted {
            return None;
        }
        self.preparing = true;
        Some(self.blank(blocks))
    }

    /// Takes over what a [`Preparation`] made, or hears that it failed. Discarded segments that can be reused for what
    /// is still missing become ready as well.
    ///
    /// # Errors
    /// See [`CommitError`].
    pub fn install(&mut self, prepared: io::Result<Prepared>) -> Result<(), CommitError> {
        self.check()?;
        self.preparing = false;
        let Prepared { name, blocks } = prepared.map_err(|error| self.fail(error))?;
        self.free.push(Free { name, blocks });
        let regular = blocks_of(self.options.segment_bytes);
        while !self.next_is_ready()
            && let Some(index) = self.free.iter().position(|free| free.blocks >= regular)
        {
            let segment = self.reuse(index)?;
            self.ready.push_back(segment);
        }
        Ok(())
    }

    /// Bytes that frames can still take without another segment having to be made.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        let current = self.current.blocks.saturating_sub(self.current.position);
        let ready = self.ready.iter().map(|segment| segment.blocks);
        let free = self.free.iter().map(|free| free.blocks);
        let blocks: u64 = std::iter::once(current)
            .chain(ready)
            .chain(free)
            .map(|b| u64::from(b.saturating_sub(RESERVED_BLOCKS)))
            .sum();
        blocks * BLOCK_BYTES as u64
    }

    /// Bytes of all the journal's files, used or not.
    #[must_use]
    pub fn bytes_on_disk(&self) -> u64 {
        let closed = self.closed.iter().map(|closed| closed.blocks);
        let ready = self.ready.iter().map(|segment| segment.blocks);
        let free = self.free.iter().map(|free| free.blocks);
        let blocks: u64 =
            std::iter::once(self.current.blocks).chain(closed).chain(ready).chain(free).map(u64::from).sum();
        blocks * BLOCK_BYTES as u64
    }

    /// The number that the next payload gets.
    #[must_use]
    pub fn next_number(&self) -> u64 {
        self.next_number
    }

    /// Payloads below this number were given up.
    #[must_use]
    pub fn floor(&self) -> u64 {
        self.floor
    }

    fn check(&self) -> Result<(), CommitError> {
        match &self.broken {
            None => Ok(()),
            Some((kind, text)) => Err(CommitError::Broken(io::Error::new(*kind, text.clone()))),
        }
    }

    /// Full stays full, and where no file can be opened another one may be closed; anything else breaks the journal for good.
    fn fail(&mut self, error: io::Error) -> CommitError {
        if is_full(&error) {
            CommitError::Full
        } else if is_out_of_files(&error) {
            CommitError::NoFiles
        } else {
            self.break_off(error)
        }
    }

    fn break_off(&mut self, error: io::Error) -> CommitError {
        self.broken = Some((error.kind(), error.to_string()));
        CommitError::Broken(error)
    }

    /// Writes and syncs a frame that leaves `reserved` blocks of its segment free.
    fn append<P: AsRef<[u8]>>(&mut self, payloads: &[P], reserved: u32) -> Result<(), CommitError> {
        let mut content_bytes = 0;
        for payload in payloads {
            let length = payload.as_ref().len();
            if length > PAYLOAD_BYTES_MAX {
                return Err(CommitError::TooLarge);
            }
            content_bytes += (length + LENGTH_BYTES) as u64;
        }
        if content_bytes > FRAME_BYTES_MAX || u32::try_from(payloads.len()).is_err() {
            return Err(CommitError::TooLarge);
        }
        let blocks = u32::try_from(block::blocks_for(content_bytes, self.layout)).map_err(|_| CommitError::TooLarge)?;
        if self.current.blocks - self.current.position < blocks + reserved {
            self.switch(blocks + RESERVED_BLOCKS)?;
        }
        let place = FramePlace {
            sequence: self.current.sequence,
            position: self.current.position,
            frame: self.next_frame,
            first_number: self.next_number,
            floor: self.floor,
            layout: self.layout,
        };
        let bytes = self.buffer.encode(place, payloads);
        let offset = u64::from(place.position) * BLOCK_BYTES as u64;
        let written = self.current.file.write_at(offset, bytes).and_then(|()| self.current.file.sync());
        // The space was there before; so even "full" would now mean that the frame is partly written.
        written.map_err(|error| self.break_off(error))?;
        self.current.position += blocks;
        self.next_frame += 1;
        self.next_number += payloads.len() as u64;
        self.stored_floor = self.floor;
        Ok(())
    }

    /// Goes on in a segment of at least `blocks` blocks.
    fn switch(&mut self, blocks: u32) -> Result<(), CommitError> {
        // Make sure of the segment first: on a full disk everything must stay as it is.
        if !self.ready.iter().any(|segment| segment.blocks >= blocks) {
            // A commit is waiting: a small one is zero-filled sooner, and the next may be under way elsewhere.
            let segment = self.make_segment(blocks, blocks_of(self.options.first_segment_bytes).max(blocks))?;
            self.ready.push_back(segment);
        }
        while let Some(next) = self.ready.pop_front() {
            let enough = next.blocks >= blocks;
            let left = std::mem::replace(&mut self.current, next);
            let name = segment_name(left.sequence, left.blocks);
            self.closed.push_back(Closed { name, blocks: left.blocks, end_number: self.next_number });
            if enough {
                break;
            }
        }
        Ok(())
    }

    /// A segment of `wanted` blocks or more, on a full disk of `least` or more: a discarded one under a new name, or a
    /// new one.
    fn make_segment(&mut self, least: u32, wanted: u32) -> Result<Segment<D::File>, CommitError> {
        // What was discarded while it was still the newest frame's segment can be had by now.
        self.release().map_err(|error| self.fail(error))?;
        if let Some(index) = self.free.iter().position(|free| free.blocks >= wanted) {
            return self.reuse(index);
        }
        match self.blank(wanted).run() {
            Ok(Prepared { name, blocks }) => {
                self.free.push(Free { name, blocks });
                self.reuse(self.free.len() - 1)
            }
            // Rather a small one than none.
            Err(error) if is_full(&error) => match self.free.iter().position(|free| free.blocks >= least) {
                Some(index) => self.reuse(index),
                None => Err(CommitError::Full),
            },
            Err(error) => Err(self.break_off(error)),
        }
    }

    fn blank(&mut self, blocks: u32) -> Preparation<D> {
        let name = format!("{BLANK_PREFIX}{}", self.next_blank);
        self.next_blank += 1;
        Preparation { disk: self.disk.clone(), name, blocks }
    }

    /// Gives a free file the next sequence number. What it holds is of earlier segments, and its blocks say so.
    fn reuse(&mut self, index: usize) -> Result<Segment<D::File>, CommitError> {
        let free = self.free.remove(index);
        let sequence = self.next_sequence;
        let name = segment_name(sequence, free.blocks);
        let renamed = self
            .disk
            .rename(&free.name, &name)
            .and_then(|()| self.disk.sync_folder())
            .and_then(|()| self.disk.open_for_blocks(&name));
        match renamed {
            Ok(file) => {
                self.next_sequence += 1;
                Ok(Segment { sequence, blocks: free.blocks, file, position: 0 })
            }
            Err(error) => Err(self.break_off(error)),
        }
    }
}
