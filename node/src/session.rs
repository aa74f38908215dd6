//! One client connection: what it has said, and its replies in the order of its commands.
//!
//! Commands of a connection are taken in turn, but their outcomes arrive when they arrive. Every command gets a **slot**
//! when it is taken; a reply waits in its slot until all replies before it are out. What a command has on its way to a partition stands in that
//! partition's [`Lane`].
//!
//! A command that is done by several partitions has a slot with **parts**. A slot's number leaves room for theirs: part *i* is the slot's number and
//! *i* + 1.

use std::collections::VecDeque;
use std::sync::Arc;

use base::limits::{CONNECTION_PENDING_BYTES_MAX, CONNECTION_PENDING_MAX, TURN_OUTPUT_BYTES_MAX};
use base::{BucketId, PartitionId, Position, Revision, Time};
use data::Reply;
use wire::{Arguments, ArgumentsRef, Protocol, ReplyWriter, RequestLimits, RequestParser};

use crate::access::User;
use crate::backlog::Backlog;
use crate::choice::Choice;
use crate::copies::Wanted;
use crate::door::ConnectionId;
use crate::group::DEFAULT_PARTITION;
use crate::lane::{Lane, Lanes};
use crate::levels::Levels;
use crate::passwords::Settled;
use crate::pubsub::Subscriptions;
use crate::redirect::Redirected;
use crate::routing::Combine;
use crate::tracking::{Told, Tracked};
use crate::watches::Watches;

/// How far the numbers of slots lie apart: room for their parts.
const PARTS: u64 = 1 << 16;

/// Answers of partitions that make up one reply.
#[derive(Debug)]
struct Parts {
    /// By part; none where it is still to come.
    answers: Vec<Option<Reply>>,
    missing: usize,
    how: Combine,
}

/// What an answer is to its slot.
#[derive(Debug)]
pub(crate) enum Gathered {
    /// All of the reply.
    Whole,
    /// A part, and others are still to come.
    Waits,
    /// The last part: the reply for this slot.
    All(u64, Reply),
}

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
    /// The parts of the reply, if several partitions answer.
    parts: Option<Box<Parts>>,
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
    /// Until it is this large write's turn; its number among those that wait for that.
    Large { number: u64 },
    /// Until its host may guess passwords again; its place among those who wait for that.
    Guess { until: Time, number: u64 },
    /// Until the password that it shows has been tried; the number of that work.
    Password { number: u64 },
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
    /// It has shown a password, if its user needs one.
    pub has_logged_in: bool,
    /// Its user; `default` until it says another name.
    pub user: Arc<User>,
    /// Its user may not do everything: each of its commands is looked at.
    pub is_limited: bool,
    pub reply_mode: ReplyMode,
    pub no_evict: bool,
    pub no_touch: bool,
    pub queue: Option<Queue>,
    pub watches: Watches,
    pub parser: Option<Box<RequestParser>>,
    /// Bytes that are not looked at while the connection is blocked or has too much pending.
    pub backlog: Backlog,
    pub block: Option<Block>,
    /// The bucket that it has selected, and how.
    pub bucket: BucketId,
    pub choice: Choice,
    /// It routes by itself, and is told where to ask; none if its commands are forwarded.
    pub redirected: Option<Redirected>,
    /// It is a part of this process ([`crate::Listener::Inside`]).
    pub is_inside: bool,
    /// It is a part of this process that acts for one user, with the rights of that user ([`crate::Input::OpenedFor`]).
    pub acts_for_user: bool,
    /// From which slot on scripts run by the rights of which user: others may log in on the connection before they have run.
    script_users: Vec<(u64, Arc<User>)>,
    /// The version and the group of its TLS; none if it is in plain text.
    pub tls: Option<Box<str>>,
    /// The bucket, or the council, that its commands on their way are for. All of them are for one: for another the connection waits until they are
    /// answered.
    pub aim: BucketId,
    /// What it has on its way to each partition of that, and has had.
    pub lanes: Lanes,
    /// The command that waits for [`Block::Drain`].
    pub deferred: Option<Arguments>,
    /// What has come of work on passwords for the command that is deferred.
    pub settled: Option<Box<Settled>>,
    /// The council was asked on behalf of the command that is deferred: see [`crate::access::lease`].
    pub has_asked_for_lease: bool,
    /// The owner was asked to stop reading.
    pub paused: bool,
    /// No further commands; closed once all replies are out.
    pub closing: bool,
    /// Its client sends nothing more, and everything that it has sent is here.
    pub has_ended: bool,
    pub is_all_read: bool,
    /// Its last write that might have changed nothing did not.
    pub expects_nothing: bool,
    /// It is in the node's list of those that may go on.
    pub resumes: bool,
    /// What it asks of its writes and reads.
    pub levels: Levels,
    /// What it keeps and wants to be told of when it changes; none if it does not track.
    pub tracked: Option<Box<Tracked>>,
    /// What it is to be told, in order, each once everything before a slot is answered.
    pub invalidations: VecDeque<(u64, Told)>,
    /// What it listens to; none if that is nothing.
    pub subscriptions: Option<Box<Subscriptions>>,
    /// How many subscriptions to changes it has.
    pub subscribed_to_changes: u32,
    /// Messages for itself that its own command has published: they come behind the reply.
    pub afterwards: Vec<u8>,
    slots: VecDeque<Slot>,
    first_slot: u64,
    pending_bytes: usize,
    /// Bytes of the replies that came before their turn.
    ready_bytes: usize,
    /// Bytes of its replies that its client has not read, as the owner says, and in how many pieces; whether these are so many that it gets no more.
    pub unread: usize,
    pub unread_blocks: usize,
    pub clogged: bool,
    /// It was cut off; the owner closes it.
    pub is_cut: bool,
    /// The most bytes of replies that it had in one turn.
    pub out_peak: usize,
    pub out: Vec<u8>,
    /// It has something to be sent in this turn.
    pub dirty: bool,
    pub bytes_in: u64,
    pub bytes_out: u64,
}

impl Session {
    /// From now on it is this user.
    /// The next slot is a script's, which runs by the rights that the user has now.
    pub(crate) fn note_script(&mut self) {
        // Of those before the first slot that waits, the last one is enough. So there are no more of them than slots, whatever the client sends.
        let first = self.first_slot * PARTS;
        let passed = self.script_users.partition_point(|(from, _)| *from <= first);
        self.script_users.drain(..passed.saturating_sub(1));
        if self.script_users.last().is_none_or(|(_, user)| !Arc::ptr_eq(user, &self.user)) {
            let slot = (self.first_slot + self.slots.len() as u64) * PARTS;
            self.script_users.push((slot, Arc::clone(&self.user)));
        }
    }

    /// The user by whose rights the script of a slot has run.
    pub(crate) fn script_user(&self, slot: u64) -> Arc<User> {
        let noted = self.script_users.iter().rfind(|(from, _)| *from <= slot);
        Arc::clone(noted.map_or(&self.user, |(_, user)| user))
    }

    pub(crate) fn become_user(&mut self, user: Arc<User>) {
        self.is_limited = !user.rights.has_all();
        self.user = user;
    }

    /// It is a part of this process and speaks for no user: it judges its clients itself.
    pub(crate) fn is_own(&self) -> bool {
        self.is_inside && !self.acts_for_user
    }

    pub(crate) fn new(
        id: ConnectionId,
        (address, local_address): (String, String),
        limits: RequestLimits,
        (user, authenticated): (Arc<User>, bool),
        now: Time,
    ) -> Session {
        Session {
            is_limited: !user.rights.has_all(),
            user,
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
            has_logged_in: false,
            reply_mode: ReplyMode::On,
            no_evict: false,
            no_touch: false,
            queue: None,
            watches: Watches::default(),
            parser: Some(Box::new(RequestParser::new(limits))),
            backlog: Backlog::default(),
            block: None,
            bucket: DEFAULT_PARTITION.bucket,
            choice: Choice::usual(DEFAULT_PARTITION.bucket),
            redirected: None,
            is_inside: false,
            acts_for_user: false,
            script_users: Vec::new(),
            tls: None,
            aim: DEFAULT_PARTITION.bucket,
            lanes: Lanes::default(),
            deferred: None,
            settled: None,
            has_asked_for_lease: false,
            paused: false,
            closing: false,
            has_ended: false,
            is_all_read: false,
            expects_nothing: false,
            resumes: false,
            levels: Levels::default(),
            tracked: None,
            invalidations: VecDeque::new(),
            subscriptions: None,
            subscribed_to_changes: 0,
            afterwards: Vec::new(),
            slots: VecDeque::new(),
            first_slot: 0,
            pending_bytes: 0,
            ready_bytes: 0,
            unread: 0,
            unread_blocks: 0,
            clogged: false,
            is_cut: false,
            out_peak: 0,
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
        self.slots.push_back(Slot { protocol: self.protocol, silent, bytes, ..Slot::default() });
        self.pending_bytes += bytes;
        (self.first_slot + self.slots.len() as u64 - 1) * PARTS
    }

    /// How many slots were ever opened.
    pub(crate) fn opened(&self) -> u64 {
        self.first_slot + self.slots.len() as u64
    }

    /// The newest slot, if it was opened after there had been `opened`, and has no reply yet.
    pub(crate) fn awaits_since(&self, opened: u64) -> Option<u64> {
        let is_open = self.opened() > opened && self.slots.back().is_some_and(|slot| slot.ready.is_none());
        is_open.then(|| (self.opened() - 1) * PARTS)
    }

    /// Nobody is to see the reply of this slot.
    pub(crate) fn silence(&mut self, slot: u64) {
        if let Some(place) = self.slot_mut(slot) {
            place.silent = true;
        }
    }

    /// As [`Session::open_slot`], for a reply of `count` parts.
    pub(crate) fn open_parts(&mut self, bytes: usize, count: usize, how: Combine) -> u64 {
        let slot = self.open_slot(bytes);
        self.expect_parts(slot, count, how);
        slot
    }

    /// The reply of a slot that is open has so many parts from now on.
    pub(crate) fn expect_parts(&mut self, slot: u64, count: usize, how: Combine) {
        if let Some(place) = self.slot_mut(slot) {
            place.parts = Some(Box::new(Parts { answers: vec![None; count], missing: count, how }));
        }
    }

    /// The number under which part `place` of a slot's reply is answered.
    pub(crate) fn part_of(slot: u64, place: usize) -> u64 {
        slot + 1 + place as u64
    }

    /// Takes note of an answer that may be a part of a reply.
    pub(crate) fn gather(&mut self, slot: u64, answer: &Reply) -> Gathered {
        let Some(part) = (slot % PARTS).checked_sub(1) else { return Gathered::Whole };
        let whole = slot - slot % PARTS;
        let Some(place) = self.slot_mut(whole) else { return Gathered::Waits };
        let Some(parts) = &mut place.parts else { return Gathered::Waits };
        if let Some(empty) = parts.answers.get_mut(part as usize).filter(|place| place.is_none()) {
            *empty = Some(answer.clone());
            parts.missing -= 1;
        }
        if parts.missing > 0 {
            return Gathered::Waits;
        }
        let Parts { answers, how, .. } = *place.parts.take().expect("it was just there");
        let is_selection = how == Combine::Selected;
        let reply = how.combine(answers.into_iter().flatten().collect());
        match (is_selection, &reply) {
            (true, Reply::Integer(id)) => {
                self.has_selected(u32::try_from(*id).map_or(self.bucket, BucketId));
                Gathered::All(whole, Reply::Ok)
            }
            _ => Gathered::All(whole, reply),
        }
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
        let index = usize::try_from((slot / PARTS).checked_sub(self.first_slot)?).ok()?;
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
        last.map_or(self.first_slot, |last| self.first_slot + last as u64 + 1) * PARTS
    }

    /// Whether the replies of all slots before this one are out.
    pub(crate) fn has_answered(&self, slot: u64) -> bool {
        slot <= self.first_slot * PARTS
    }

    /// Whether its client has ended its side and everything that it has sent completely is answered.
    pub(crate) fn is_through(&self) -> bool {
        self.is_all_read
            && self.slots.is_empty()
            && self.backlog.is_empty()
            && self.deferred.is_none()
            && self.block.is_none()
    }

    /// Whether its client has asked to wait, for keys or for replicas.
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self.block, Some(Block::Waiting { .. } | Block::Copies { .. }))
    }

    /// Whether it may be told something without a further command: it listens, subscribes, waits, or tracks.
    pub(crate) fn is_told_unasked(&self) -> bool {
        self.listens() || self.subscribed_to_changes > 0 || self.is_waiting() || self.tracked.is_some()
    }

    /// Gives a slot its reply.
    pub(crate) fn deliver(&mut self, slot: u64, write: impl FnOnce(&mut ReplyWriter<'_>)) {
        let first = self.first_slot;
        let Some(place) = self.slot_mut(slot) else { return };
        let (protocol, silent) = (place.protocol, place.silent);
        if slot / PARTS != first {
            let mut bytes = Vec::new();
            if !silent {
                write(&mut ReplyWriter::new(&mut bytes, protocol));
            }
            let count = bytes.len();
            place.ready = Some(bytes);
            self.ready_bytes += count;
        } else {
            if !silent {
                write(&mut ReplyWriter::new(&mut self.out, protocol));
            }
            self.pop_slot();
            while let Some(bytes) = self.slots.front_mut().and_then(|slot| slot.ready.take()) {
                self.ready_bytes -= bytes.len();
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

    /// The last command is never answered: its client is gone.
    pub(crate) fn abandon(&mut self, slot: u64) {
        if slot / PARTS + 1 == self.first_slot + self.slots.len() as u64
            && let Some(slot) = self.slots.pop_back()
        {
            self.pending_bytes -= slot.bytes;
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

    /// Bytes of replies that wait for those before them.
    pub(crate) fn ready_bytes(&self) -> usize {
        self.ready_bytes
    }

    /// Bytes of commands that wait for their replies.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.pending_bytes
    }

    /// Turns to another bucket, if nothing is on its way. Whether `arguments` may be carried out now; if not, they are kept until
    /// then.
    pub(crate) fn aim_at(&mut self, bucket: BucketId, arguments: ArgumentsRef<'_>) -> bool {
        if self.aim == bucket {
            return true;
        }
        if self.slots.is_empty() {
            self.levels.turn();
            self.aim = bucket;
            for lane in self.lanes.iter() {
                self.levels.see(lane.partition, lane.seen);
            }
            // The routers may still have it in their lists; what they find there is not of their partition.
            self.lanes.clear();
            return true;
        }
        self.drain(arguments);
        false
    }

    /// What it has on its way to a partition; none if that is nothing, and never was anything.
    pub(crate) fn lane(&self, partition: PartitionId) -> Option<&Lane> {
        self.lanes.get(partition)
    }

    /// As [`Session::lane`].
    pub(crate) fn lane_mut(&mut self, partition: PartitionId) -> Option<&mut Lane> {
        self.lanes.get_mut(partition)
    }

    /// The lane for a command to a partition of what it is aimed at.
    pub(crate) fn open_lane(&mut self, partition: PartitionId) -> &mut Lane {
        if partition.bucket == self.aim { self.lanes.open(partition) } else { self.lanes.open_strange(partition) }
    }

    /// It has an answer from a partition's state of this revision, or a token that says so.
    pub(crate) fn see(&mut self, partition: PartitionId, revision: Revision) {
        match self.lane_mut(partition) {
            Some(lane) => lane.seen = lane.seen.max(revision),
            None => self.levels.see(partition, revision),
        }
    }

    /// What its next read of the level `session` must not be older than.
    pub(crate) fn seen(&self, partition: PartitionId) -> Revision {
        let seen = self.lane(partition).map_or(Revision(0), |lane| lane.seen);
        seen.max(self.levels.seen(partition))
    }

    /// A partition is gone for ever, with all that was seen of it.
    pub(crate) fn forget(&mut self, partition: PartitionId) {
        self.levels.forget(partition);
        if let Some(lane) = self.lane_mut(partition) {
            lane.seen = Revision(0);
        }
    }

    /// How many of its reads wait.
    pub(crate) fn reads_waiting(&self) -> usize {
        self.lanes.iter().map(|lane| lane.reads.len()).sum()
    }

    /// Bytes of the reads that wait.
    pub(crate) fn read_bytes(&self) -> usize {
        self.lanes.iter().map(|lane| lane.read_bytes.len()).sum()
    }

    /// Where its last writes were applied.
    pub(crate) fn last_positions(&self) -> impl Iterator<Item = (PartitionId, Position)> + '_ {
        self.lanes.iter().map(|lane| (lane.partition, lane.last_position)).filter(|(_, position)| position.0 > 0)
    }

    /// Keeps a command until everything before it is answered.
    pub(crate) fn drain(&mut self, arguments: ArgumentsRef<'_>) {
        self.deferred = Some(arguments.to_owned());
        self.block = Some(Block::Drain);
    }

    /// Commands before `slot` that wait for their replies.
    pub(crate) fn pending_before(&self, slot: u64) -> u64 {
        (slot / PARTS).saturating_sub(self.first_slot)
    }

    /// Whether the connection may take another command now.
    pub(crate) fn is_ready(&self) -> bool {
        self.block.is_none() && !self.closing && !self.is_full() && !self.has_said_enough() && !self.clogged
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
