//! One client connection: what it has said, and its replies in the order of its commands.
//!
//! Commands of a connection are taken in turn, but their outcomes arrive when they arrive. Every command gets a **slot**
//! when it is taken; a reply waits in its slot until all replies before it are out.

use std::collections::VecDeque;

use base::limits::{CONNECTION_PENDING_BYTES_MAX, CONNECTION_PENDING_MAX, TURN_OUTPUT_BYTES_MAX};
use base::{BucketId, PartitionId, Revision, Time, WallTime};
use data::Failure;
use wire::{Arguments, ArgumentsRef, Protocol, ReplyWriter, RequestLimits, RequestParser};

use crate::copies::Wanted;
use crate::door::ConnectionId;
use crate::group::DEFAULT_PARTITION;
use crate::levels::Levels;
use crate::pubsub::Subscriptions;
use crate::router::ReadKind;
use crate::tracking::{Told, Tracked};

/// Bytes of read commands that a session keeps room for.
const READ_BYTES_KEPT: usize = 64 * 1024;

/// What a slot needs beside its reply.
#[derive(Debug, Default)]
struct Slot {
    protocol: Protocol,
    /// The client does not want this reply.
    silent: bool,
    /// The reply, when it came before its turn.
    ready: Option<Vec<u8>>,
    /// Replies of a transaction's commands that were answered by the connection itself, with their places.
    merge: Option<Merge>,
    /// Its command is done, and the reply is held up.
    held: bool,
    /// Pending bytes that the command counts for.
    bytes: usize,
}

/// How a transaction's reply is put together.
#[derive(Debug, Default)]
pub(crate) struct Merge {
    /// How many commands the transaction has.
    pub count: usize,
    /// Encoded replies of commands that are not in the log, by place.
    pub local: Vec<(usize, Vec<u8>)>,
    /// Commands that wait until the rest is done: what they do must not be seen before, or if it is not done.
    pub later: Vec<(usize, Arguments)>,
}

/// One read that waits; its words are in the session's `read_bytes`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    pub slot: u64,
    pub kind: ReadKind,
    /// The client's command, as in the table.
    pub command: &'static str,
    pub start: usize,
    pub end: usize,
    /// It must see this write of this node (0: none).
    pub after: u64,
    /// The connection wants to be told when what it reads changes.
    pub tracks: bool,
    /// Not linearizable: served by this replica without asking anybody, once its state has come to this revision.
    pub floor: Option<Revision>,
    /// When its command was taken.
    pub arrived: Time,
    pub deadline: Time,
}

/// Which replies a client wants (`CLIENT REPLY`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum ReplyMode {
    #[default]
    On,
    Off,
    /// Off for the next command.
    SkipNext,
}

/// A transaction being queued.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    pub commands: Vec<Arguments>,
    pub bytes: usize,
    /// Some command of it publishes or subscribes.
    pub acts: bool,
    /// A command could not be queued: EXEC will refuse.
    pub broken: bool,
}

/// Why a connection takes no further commands for now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Block {
    /// Until the slot has its reply (WATCH: what comes next may depend on it).
    Slot(u64),
    /// `WAIT` and `WAITAOF`: until enough replicas have the connection's writes on disk, or the time (in milliseconds; 0: none) is up.
    /// It runs from when the writes are answered, as their positions are known then.
    Copies { slot: u64, wanted: Wanted, timeout: u64, until: Option<Time> },
    /// Until there is something for a command that waits, whose number is this one among those who wait.
    Waiting { slot: u64, number: u64 },
    /// Until the node's pause is over; its number among those who wait for that.
    Paused { number: u64 },
    /// Until everything is answered: the next command is for another partition, or about what the connection has seen.
    Drain,
}

/// The state of one connection.
#[derive(Debug)]
pub(crate) struct Session {
    pub id: ConnectionId,
    pub address: String,
    pub local_address: String,
    pub opened_time: Time,
    pub last_active: Time,
    pub name: Vec<u8>,
    pub library_name: Vec<u8>,
    pub library_version: Vec<u8>,
    pub last_command: &'static str,
    pub commands: u64,
    pub protocol: Protocol,
    pub authenticated: bool,
    pub reply_mode: ReplyMode,
    pub no_evict: bool,
    pub no_touch: bool,
    pub queue: Option<Queue>,
    pub watches: Vec<(Vec<u8>, Revision)>,
    pub parser: Option<Box<RequestParser>>,
    /// Bytes that are not looked at while the connection is blocked or has too much pending.
    pub backlog: Vec<u8>,
    pub block: Option<Block>,
    /// The bucket that it has selected.
    pub bucket: BucketId,
    /// The partition that its commands on their way are for. All of them are for one: for another the connection waits until they
    /// are answered, so that its replies and what it sees keep their order.
    pub aim: PartitionId,
    /// The command that waits for [`Block::Drain`].
    pub deferred: Option<Arguments>,
    /// The owner was asked to stop reading.
    pub paused: bool,
    /// No further commands; closed once all replies are out.
    pub closing: bool,
    /// The number of the last write, for reads that must see it.
    pub last_write: u64,
    /// Where the last write was applied, for WAIT.
    pub last_position: base::Position,
    /// Reads in the order of their slots.
    pub reads: VecDeque<Read>,
    pub read_bytes: Vec<u8>,
    /// How many of them are writes that look first.
    pub looks: usize,
    /// Its last write that might have changed nothing did not.
    pub expects_nothing: bool,
    /// The connection is in the batch of reads that is being gathered.
    pub gathered: bool,
    /// It waits for the next turn to read on: this one has read enough.
    pub reads_later: bool,
    /// Reads in slots below this are confirmed, by this clock of the leader.
    pub confirmed: u64,
    pub clock: WallTime,
    /// The connection is in the router's list of those that wait for a write.
    pub parked: bool,
    /// The connection is in the router's list of those with reads that need no confirmation.
    pub weak: bool,
    /// What it asks of its writes and reads.
    pub levels: Levels,
    /// What it keeps and wants to be told of when it changes; none if it does not track.
    pub tracked: Option<Box<Tracked>>,
    /// What it is to be told, in order, each once everything before a slot is answered.
    pub invalidations: VecDeque<(u64, Told)>,
    /// What it listens to; none if that is nothing.
    pub subscriptions: Option<Box<Subscriptions>>,
    /// Messages for itself that its own command has published: they come behind the reply.
    pub afterwards: Vec<u8>,
    slots: VecDeque<Slot>,
    first_slot: u64,
    pending_bytes: usize,
    pub out: Vec<u8>,
    /// It has something to be sent in this turn.
    pub dirty: bool,
    pub bytes_in: u64,
    pub bytes_out: u64,
}

impl Session {
    pub(crate) fn new(
        id: ConnectionId,
        (address, local_address): (String, String),
        limits: RequestLimits,
        authenticated: bool,
        now: Time,
    ) -> Session {
        Session {
            id,
            address,
            local_address,
            opened_time: now,
            last_active: now,
            name: Vec::new(),
            library_name: Vec::new(),
            library_version: Vec::new(),
            last_command: "NULL",
            commands: 0,
            protocol: Protocol::Resp2,
            authenticated,
            reply_mode: ReplyMode::On,
            no_evict: false,
            no_touch: false,
            queue: None,
            watches: Vec::new(),
            parser: Some(Box::new(RequestParser::new(limits))),
            backlog: Vec::new(),
            block: None,
            bucket: DEFAULT_PARTITION.bucket,
            aim: DEFAULT_PARTITION,
            deferred: None,
            paused: false,
            closing: false,
            last_write: 0,
            last_position: base::Position(0),
            reads: VecDeque::new(),
            read_bytes: Vec::new(),
            looks: 0,
            expects_nothing: false,
            gathered: false,
            reads_later: false,
            confirmed: 0,
            clock: WallTime(0),
            parked: false,
            weak: false,
            levels: Levels::default(),
            tracked: None,
            invalidations: VecDeque::new(),
            subscriptions: None,
            afterwards: Vec::new(),
            slots: VecDeque::new(),
            first_slot: 0,
            pending_bytes: 0,
            out: Vec::new(),
            dirty: false,
            bytes_in: 0,
            bytes_out: 0,
        }
    }

    /// A place among the replies for a command that has just been taken and holds `bytes` while it waits.
    pub(crate) fn open_slot(&mut self, bytes: usize) -> u64 {
        let silent = match self.reply_mode {
            ReplyMode::On => false,
            ReplyMode::Off => true,
            ReplyMode::SkipNext => {
                self.reply_mode = ReplyMode::On;
                true
            }
        };
        self.slots.push_back(Slot { protocol: self.protocol, silent, ready: None, merge: None, held: false, bytes });
        self.pending_bytes += bytes;
        self.first_slot + self.slots.len() as u64 - 1
    }

    pub(crate) fn set_merge(&mut self, slot: u64, merge: Merge) {
        if let Some(slot) = self.slot_mut(slot) {
            slot.merge = Some(merge);
        }
    }

    pub(crate) fn take_merge(&mut self, slot: u64) -> Option<Merge> {
        self.slot_mut(slot)?.merge.take()
    }

    fn slot_mut(&mut self, slot: u64) -> Option<&mut Slot> {
        let index = usize::try_from(slot.checked_sub(self.first_slot)?).ok()?;
        self.slots.get_mut(index)
    }

    /// The command of a slot is done; its reply comes later.
    pub(crate) fn hold(&mut self, slot: u64) {
        if let Some(slot) = self.slot_mut(slot) {
            slot.held = true;
        }
    }

    /// Behind the last slot whose command is done and whose reply is not out.
    pub(crate) fn last_done(&self) -> u64 {
        let last = self.slots.iter().rposition(|slot| slot.held || slot.ready.is_some());
        last.map_or(self.first_slot, |last| self.first_slot + last as u64 + 1)
    }

    /// Whether the replies of all slots before this one are out.
    pub(crate) fn has_answered(&self, slot: u64) -> bool {
        slot <= self.first_slot
    }

    /// Whether its client has asked to wait, for keys or for replicas.
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self.block, Some(Block::Waiting { .. } | Block::Copies { .. }))
    }

    /// Gives a slot its reply.
    pub(crate) fn deliver(&mut self, slot: u64, write: impl FnOnce(&mut ReplyWriter<'_>)) {
        let first = self.first_slot;
        let Some(place) = self.slot_mut(slot) else { return };
        let (protocol, silent) = (place.protocol, place.silent);
        if slot != first {
            let mut bytes = Vec::new();
            if !silent {
                write(&mut ReplyWriter::new(&mut bytes, protocol));
            }
            place.ready = Some(bytes);
        } else {
            if !silent {
                write(&mut ReplyWriter::new(&mut self.out, protocol));
            }
            self.pop_slot();
            while let Some(bytes) = self.slots.front_mut().and_then(|slot| slot.ready.take()) {
                self.out.extend_from_slice(&bytes);
                self.pop_slot();
            }
        }
        match self.block {
            Some(
                Block::Slot(blocking) | Block::Copies { slot: blocking, .. } | Block::Waiting { slot: blocking, .. },
            ) if blocking == slot => {
                self.block = None;
            }
            Some(Block::Drain) if self.slots.is_empty() => self.block = None,
            _ => {}
        }
    }

    fn pop_slot(&mut self) {
        if let Some(slot) = self.slots.pop_front() {
            self.pending_bytes -= slot.bytes;
            self.first_slot += 1;
        }
    }

    /// Answers a command at once, in its turn.
    pub(crate) fn reply(&mut self, write: impl FnOnce(&mut ReplyWriter<'_>)) {
        if self.slots.is_empty() && self.reply_mode == ReplyMode::On {
            write(&mut ReplyWriter::new(&mut self.out, self.protocol));
            return;
        }
        let slot = self.open_slot(0);
        self.deliver(slot, write);
    }

    /// Lets the connection hear what its own command has published.
    pub(crate) fn push_afterwards(&mut self) {
        if self.afterwards.is_empty() {
            return;
        }
        let messages = std::mem::take(&mut self.afterwards);
        self.out.extend_from_slice(&messages);
    }

    /// Commands that wait for their replies.
    pub(crate) fn pending(&self) -> usize {
        self.slots.len()
    }

    /// Bytes of commands that wait for their replies.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.pending_bytes
    }

    /// Turns to another bucket, from the next command on.
    pub(crate) fn select(&mut self, bucket: BucketId) -> Result<(), Failure> {
        if bucket != self.bucket && !self.watches.is_empty() {
            return Err(Failure::Text("ERR keys of the selected bucket are watched; UNWATCH them first"));
        }
        self.bucket = bucket;
        Ok(())
    }

    /// The partition of its bucket.
    pub(crate) fn selected(&self) -> PartitionId {
        PartitionId { bucket: self.bucket, index: 0 }
    }

    /// Turns to another partition, if nothing is on its way. Whether `arguments` may be carried out now; if not, they are kept until
    /// then.
    pub(crate) fn aim_at(&mut self, partition: PartitionId, arguments: ArgumentsRef<'_>) -> bool {
        if self.aim == partition {
            return true;
        }
        if self.slots.is_empty() {
            self.levels.turn(self.aim, partition);
            self.aim = partition;
            self.last_write = 0;
            self.last_position = base::Position(0);
            self.clock = WallTime(0);
            // The routers may still have it in their lists; what they find there is not of their partition.
            self.gathered = false;
            self.parked = false;
            self.weak = false;
            return true;
        }
        self.drain(arguments);
        false
    }

    /// Keeps a command until everything before it is answered.
    pub(crate) fn drain(&mut self, arguments: ArgumentsRef<'_>) {
        self.deferred = Some(arguments.to_owned());
        self.block = Some(Block::Drain);
    }

    /// Takes out the first read, if it is such a one.
    pub(crate) fn pop_read_if(&mut self, wanted: impl FnOnce(&Read) -> bool) -> Option<Read> {
        let read = self.reads.front().copied().filter(wanted)?;
        self.reads.pop_front();
        self.looks -= usize::from(read.kind == ReadKind::Look);
        match self.reads.front().map(|read| read.start) {
            None => {
                self.read_bytes.clear();
                self.read_bytes.shrink_to(READ_BYTES_KEPT);
            }
            // A client that never lets the queue run empty: drop the served half.
            Some(start) if start > READ_BYTES_KEPT && start * 2 > self.read_bytes.len() => {
                self.read_bytes.drain(..start);
                for read in &mut self.reads {
                    read.start -= start;
                    read.end -= start;
                }
            }
            Some(_) => {}
        }
        Some(read)
    }

    /// Takes out all writes that look first. `write` makes a write of one, given its bytes and whether reads stand before it, and returns its number; reads
    /// behind it have to see it.
    pub(crate) fn take_looks(&mut self, mut write: impl FnMut(&Read, &[u8], bool) -> Option<u64>) {
        let mut kept: VecDeque<Read> = VecDeque::with_capacity(self.reads.len());
        let mut last = 0;
        for mut read in std::mem::take(&mut self.reads) {
            if read.kind == ReadKind::Look {
                last = write(&read, &self.read_bytes[read.start..read.end], !kept.is_empty()).unwrap_or(last);
            } else {
                read.after = read.after.max(last);
                kept.push_back(read);
            }
        }
        self.last_write = self.last_write.max(last);
        self.looks = 0;
        self.reads = kept;
        if self.reads.is_empty() {
            self.read_bytes.clear();
            self.read_bytes.shrink_to(READ_BYTES_KEPT);
        }
    }

    /// Commands before `slot` that wait for their replies.
    pub(crate) fn pending_before(&self, slot: u64) -> u64 {
        slot.saturating_sub(self.first_slot)
    }

    /// Whether the connection may take another command now.
    pub(crate) fn is_ready(&self) -> bool {
        self.block.is_none() && !self.closing && !self.is_full() && !self.has_said_enough()
    }

    /// Whether the replies of this turn are so many bytes that the rest is left to the next.
    pub(crate) fn has_said_enough(&self) -> bool {
        self.out.len() >= TURN_OUTPUT_BYTES_MAX
    }

    /// Whether so much is pending that reading should pause.
    pub(crate) fn is_full(&self) -> bool {
        self.slots.len() >= CONNECTION_PENDING_MAX || self.pending_bytes >= CONNECTION_PENDING_BYTES_MAX
    }
}
