//! Opening a journal: reads its segments, has them judged (`recovery.rs`), and gets ready to write behind the last
//! frame.
//!
//! 1. Remove blank segments that were never finished.
//! 2. Read every segment in order and hear what they say.
//! 3. Write the last frame once more and sync it, so that what is reported is really on the disk.
//! 4. Put an unprovable tail on record, each block of it, and wipe damaged blocks in space never used, and what is left of writes that were broken off.

use std::collections::VecDeque;
use std::io;

use super::block::{self, BLOCK_BYTES, FrameBuffer, FramePlace, Layout};
use super::recovery::{Findings, LastFrame, Scan, Tail};
use super::{
    BLANK_PREFIX, Closed, CommitError, Journal, JournalOptions, PREFIX, Preparation, READY_SEGMENTS, RESERVED_BLOCKS,
    Recovered, Segment, blocks_of, segment_name,
};
use crate::disk::{Disk, DiskFile};

/// No segment, frame or payload ever comes near this number, so that sums of them cannot overflow.
const NUMBER_MAX: u64 = 1 << 62;
/// Read from the disk in pieces of this size.
const READ_BYTES: usize = 1024 * 1024;

/// The sequence number and the length in blocks that a name stands for.
pub(crate) fn parse_segment_name(name: &str) -> Option<(u64, u32)> {
    let (sequence, blocks) = name.strip_prefix(PREFIX)?.split_once('-')?;
    let parsed = (u64::from_str_radix(sequence, 16).ok()?, u32::from_str_radix(blocks, 16).ok()?);
    (segment_name(parsed.0, parsed.1) == name && parsed.0 > 0).then_some(parsed)
}

/// All of a file, as far as `blocks` and its length go. Blocks that the disk refuses to read come as `0xff`, which is
/// never valid.
pub(crate) fn read_segment<F: DiskFile>(file: &F, blocks: u32, buffer: &mut Vec<u8>) -> io::Result<()> {
    let length = file.length()?.min(u64::from(blocks) * BLOCK_BYTES as u64);
    let length = usize::try_from(length).map_err(|_| io::ErrorKind::OutOfMemory)? / BLOCK_BYTES * BLOCK_BYTES;
    buffer.resize(length, 0);
    for (index, chunk) in buffer.chunks_mut(READ_BYTES).enumerate() {
        let offset = (index * READ_BYTES) as u64;
        if file.read_at(offset, chunk).is_ok() {
            continue;
        }
        for (block_index, block) in chunk.chunks_mut(BLOCK_BYTES).enumerate() {
            if file.read_at(offset + (block_index * BLOCK_BYTES) as u64, block).is_err() {
                block.fill(0xff);
            }
        }
    }
    Ok(())
}

impl<D: Disk> Journal<D> {
    /// Opens the journal, or makes a new one, and reads everything in it.
    ///
    /// The last frame is written once more and synced before it is reported: a process that died between write and
    /// sync, or after a failed sync, leaves it readable in the page cache without its being on the disk.
    ///
    /// # Errors
    /// `StorageFull` if there is no room for a first segment; `Unsupported` if another version of Dictum wrote the
    /// journal; whatever else the disk says. Unreadable blocks are no error but damage.
    pub fn open(disk: D, options: JournalOptions) -> io::Result<(Journal<D>, Recovered)> {
        let mut found = Vec::new();
        for name in disk.list()? {
            if name.starts_with(BLANK_PREFIX) {
                disk.remove(&name)?;
            } else if let Some((sequence, blocks)) = parse_segment_name(&name) {
                found.push((sequence, blocks, name));
            }
        }
        // Sequence numbers have a fixed width, so the names' order is theirs; yet nothing here depends on the disk's.
        found.sort();
        let fresh = found.is_empty();
        let mut scan = Scan::new();
        let mut buffer = Vec::new();
        let mut short = Vec::new();
        for (sequence, blocks, name) in &found {
            let file = disk.open(name)?;
            read_segment(&file, *blocks, &mut buffer)?;
            if buffer.len() < *blocks as usize * BLOCK_BYTES {
                short.push(*sequence);
            }
            scan.segment(*sequence, *blocks, &buffer);
        }
        drop(buffer);
        let findings = scan.finish();
        if let Some(version) = findings.unknown_version {
            let text = format!(
                "the journal was written by another version of Dictum (format {version}, this one reads {}); start \
                 that version",
                block::VERSION
            );
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        let counted = found.last().map_or(0, |last| last.0).max(findings.next_frame).max(findings.next_number);
        if counted > NUMBER_MAX {
            let text = "the journal's numbers are used up: its files are not what Dictum wrote. Keep this folder as it is; if all other \
                 nodes are up and well, start this one with another folder, which is empty: it gets everything from them. \
                 Where two nodes have lost what they had, acknowledged writes may be lost for good";
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        if fresh {
            let blocks = blocks_of(options.first_segment_bytes);
            let name = segment_name(1, blocks);
            let blank = Preparation { disk: disk.clone(), name: format!("{BLANK_PREFIX}0"), blocks }.run()?;
            disk.rename(&blank.name, &name)?;
            disk.sync_folder()?;
            found.push((1, blocks, name));
        }
        let journal = Journal::assemble(disk, options, found, &short, &findings)?;
        let recovered = Recovered {
            payloads: findings.payloads,
            damage: findings.damage,
            tail: findings.tail,
            next_number: findings.next_number,
            floor: findings.floor,
            fresh,
        };
        Ok((journal, recovered))
    }

    /// Builds the journal from the segments found (`sequence, blocks, name`, ascending, at least one).
    fn assemble(
        disk: D,
        options: JournalOptions,
        found: Vec<(u64, u32, String)>,
        short: &[u64],
        findings: &Findings,
    ) -> io::Result<Journal<D>> {
        let write_sequence = findings.write_sequence.unwrap_or(1);
        let next_sequence = found.last().map_or(1, |last| last.0).saturating_add(1);
        let mut closed = VecDeque::new();
        let mut ready = VecDeque::new();
        let mut current = None;
        for (sequence, blocks, name) in found {
            let is_short = short.contains(&sequence);
            if sequence < write_sequence || (sequence > write_sequence && is_short) {
                let end_number = findings
                    .segments
                    .iter()
                    .filter(|later| later.sequence > sequence)
                    .find_map(|later| later.first_number)
                    .unwrap_or(findings.next_number);
                closed.push_back(Closed { name, blocks, end_number });
                continue;
            }
            let file = disk.open_for_blocks(&name)?;
            if sequence == write_sequence {
                // What is missing of a shortened file is not preallocated any more: go on in the next one.
                let position = if is_short { blocks } else { findings.write_position };
                current = Some(Segment { sequence, blocks, file, position });
            } else {
                ready.push_back(Segment { sequence, blocks, file, position: 0 });
            }
        }
        let current = current.ok_or_else(|| io::Error::other("the segment to write to was not among those read"))?;
        let mut journal = Journal {
            disk,
            options,
            current,
            closed,
            ready,
            ready_wanted: READY_SEGMENTS,
            free: Vec::new(),
            next_sequence,
            next_frame: findings.next_frame,
            next_number: findings.next_number,
            floor: findings.floor,
            stored_floor: findings.floor,
            next_blank: 1,
            preparing: false,
            broken: None,
            buffer: FrameBuffer::default(),
            layout: findings.last_frame.as_ref().map_or(Layout::default(), |last| last.layout),
        };
        if let Some(last) = &findings.last_frame {
            journal.rewrite(last)?;
        }
        let recorded = findings.tail != Tail::Unprovable || journal.record(findings)?;
        if recorded {
            journal.wipe(&findings.damaged_blocks)?;
        }
        if findings.tail != Tail::Unprovable {
            journal.wipe(&findings.leftover_blocks)?;
        }
        journal.release()?;
        Ok(journal)
    }

    /// Puts an unprovable tail on record: a frame without payloads over each doubtful block, so that each block leaves
    /// out the numbers that it can have held. False if there was no room: it stays unprovable until the first commit.
    ///
    /// From the last block to the first, each durable before the next: so a power cut leaves what was there, and behind
    /// it records without a gap, the last of which leaves out all the numbers. In any other order either the numbers
    /// could be too few, or an unwritten block could come to lie before records and pass for the journal's end.
    fn record(&mut self, findings: &Findings) -> io::Result<bool> {
        let count: u64 = findings.doubtful.iter().map(|doubtful| doubtful.positions.len() as u64).sum();
        let mut frame = self.next_frame + count;
        self.next_frame = frame;
        if findings.doubtful.last().is_none_or(|doubtful| doubtful.end_number() != self.next_number) {
            // What is missing at the very end cannot be written over.
            match self.append::<&[u8]>(&[], RESERVED_BLOCKS) {
                Ok(()) => {}
                Err(CommitError::Full | CommitError::NoFiles | CommitError::TooLarge) => return Ok(false),
                Err(CommitError::Broken(error)) => return Err(error),
            }
        }
        for doubtful in findings.doubtful.iter().rev() {
            let sequence = doubtful.sequence;
            let opened;
            let file = if sequence == self.current.sequence {
                &self.current.file
            } else if let Some(name) = self.closed_name(sequence) {
                opened = self.disk.open_for_blocks(name)?;
                &opened
            } else {
                continue;
            };
            for position in doubtful.positions.clone().rev() {
                frame -= 1;
                let first_number = doubtful.number_behind(position);
                let place =
                    FramePlace { sequence, position, frame, first_number, floor: self.floor, layout: self.layout };
                let bytes = self.buffer.encode::<&[u8]>(place, &[]);
                file.write_at(u64::from(position) * BLOCK_BYTES as u64, bytes)?;
                file.sync()?;
            }
        }
        Ok(true)
    }

    /// The name of a segment that lies behind the journal's end.
    fn closed_name(&self, sequence: u64) -> Option<&str> {
        let prefix = format!("{PREFIX}{sequence:016x}-");
        self.closed.iter().map(|closed| closed.name.as_str()).find(|name| name.starts_with(&prefix))
    }

    /// Zeroes blocks behind the last frame that are damaged, or left of writes that were broken off: they hold nothing, and the next frame may come to lie before them,
    /// or over them, and be broken off itself.
    fn wipe(&mut self, damaged: &[(u64, u32)]) -> io::Result<()> {
        let after_tail = std::iter::once(&self.current).chain(&self.ready);
        for segment in after_tail {
            let mut wiped = false;
            for (_, position) in damaged.iter().filter(|(sequence, _)| *sequence == segment.sequence) {
                let offset = u64::from(*position) * BLOCK_BYTES as u64;
                // A frame may just have been written over it.
                if *position >= segment.position {
                    let zeros = self.buffer.aligned(BLOCK_BYTES);
                    zeros.fill(0);
                    segment.file.write_at(offset, zeros)?;
                    wiped = true;
                }
            }
            if wiped {
                segment.file.sync()?;
            }
        }
        Ok(())
    }

    /// Writes the last frame again, as it is, and syncs it.
    fn rewrite(&mut self, last: &LastFrame) -> io::Result<()> {
        let opened;
        let file = if last.sequence == self.current.sequence {
            &self.current.file
        } else if let Some(name) = self.closed_name(last.sequence) {
            opened = self.disk.open_for_blocks(name)?;
            &opened
        } else {
            return Ok(());
        };
        let bytes = self.buffer.aligned(last.blocks.len());
        bytes.copy_from_slice(&last.blocks);
        file.write_at(u64::from(last.position) * BLOCK_BYTES as u64, bytes)?;
        file.sync()
    }
}
