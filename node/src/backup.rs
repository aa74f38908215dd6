//! `DICTUM.BACKUP`: a client reads the state of one partition, as of one moment, block by block.
//!
//! ```text
//!   client:  OPEN partition ──►                   NEXT ──►          NEXT ──►        …  NEXT ──►
//!   node:                    ◄── its moment            ◄── block 0       ◄── block 1         ◄── block n, the last
//! ```
//! `OPEN` is a linearizable read, which freezes the state that it sees: all that was acknowledged before is in it. The blocks are those of a snapshot
//! ([`crate::image`]); what they hold is the same whichever replica gives them out. They are made outside of turns, one ahead of the client, and leave as fast as movement
//! may go ([`crate::transfer::movement`]).
//!
//! A connection has one frozen state at the most. It keeps the store from freeing what was overwritten since, so it is given up when nothing is asked of it for a
//! while, and a node holds few.
//!
//! `OPEN partition SINCE revision` gives out what has changed since the partition had this revision, and the names of the keys that have not ([`data::Image::since`]).
//!
//! This part owns the frozen states; the node answers the connections ([`Backups::due`]).

use std::collections::BTreeMap;
use std::time::Duration;

use base::{BucketId, Now, PartitionId, Revision, Time, WallTime};
use data::{Failure, Reply};

use crate::bucket::Bucket;
use crate::door::{ConnectionId, Level, Planted, Rubbish};
use crate::image::Image;
use crate::node::{Node, place_of};
use crate::reply;
use crate::router::ReadKind;
use crate::session::{Block as Blocked, Session};
use crate::transfer::jobs::{Block, BlockJob, MadeBlock};

/// States that are frozen for backups at the same time, on one node.
const STATES_MAX: usize = 4;
/// For so long nothing may be asked of a frozen state.
const HELD_FOR: Duration = Duration::from_secs(60);
/// Marks the number of a job that makes blocks for a backup, where others have that of a transfer.
pub(crate) const BACKS_UP: u64 = 1 << 62;

const TOO_MANY: Failure =
    Failure::Text("ERR this node gives out four backups already; ask another node, or try again later");
const NO_ROOM: Failure = Failure::Text(
    "MISCONF the disk of this node is full: it cannot keep what is overwritten while a backup is read; ask another node",
);
const NOTHING_OPEN: Failure = Failure::Text(
    "ERR this connection has no backup open: it was never opened, is at its end, or nothing was asked of it for a minute",
);
const NO_PARTITION: Failure = Failure::Text("ERR the bucket has no such partition");
const NO_SUCH_REVISION: Failure = Failure::Text(
    "ERR the partition has had fewer changes than that: the earlier backup is not of this state. Take a whole one",
);

/// One of the subcommands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wanted {
    Open,
    Next,
    Close,
}

/// A frozen state.
#[derive(Debug)]
struct Frozen {
    number: u64,
    connection: ConnectionId,
    partition: PartitionId,
    /// Away while a block is being made.
    image: Option<Box<Image>>,
    /// The next block, or why there is none.
    block: Option<Result<Block, String>>,
    /// The slot of a `NEXT` that waits.
    asked: Option<u64>,
    /// When it was last asked for something, or answered.
    heard_at: Time,
    answered_at: Time,
}

/// See the file's head.
#[derive(Debug, Default)]
pub(crate) struct Backups {
    frozen: Vec<Frozen>,
    /// How many were opened.
    opened: u64,
    rubbish: Vec<Rubbish>,
    /// Connections whose `OPEN` waits to be served, and since when they want to have what has changed.
    since: BTreeMap<ConnectionId, Revision>,
    /// When the last block of a partition of each bucket was last given out.
    ended: BTreeMap<BucketId, WallTime>,
}

/// An answer to a connection.
#[derive(Debug)]
pub(crate) struct Answer {
    pub connection: ConnectionId,
    pub slot: u64,
    pub reply: Reply,
}

impl Backups {
    /// When a partition of the bucket was last given out as a whole, in the life of this process.
    pub(crate) fn ended(&self, bucket: BucketId) -> Option<WallTime> {
        self.ended.get(&bucket).copied()
    }

    fn has_room(&self, connection: ConnectionId) -> bool {
        self.frozen.iter().filter(|frozen| frozen.connection != connection).count() < STATES_MAX
    }

    /// A state was frozen for a connection, in the place of what it may have had.
    fn open(&mut self, now: Time, connection: ConnectionId, partition: PartitionId, image: Image) {
        self.forget(connection);
        self.opened += 1;
        self.frozen.push(Frozen {
            number: self.opened,
            connection,
            partition,
            image: Some(Box::new(image)),
            block: None,
            asked: None,
            heard_at: now,
            answered_at: now,
        });
    }

    /// The client wants the next block, in this slot. False if it has nothing open.
    fn ask(&mut self, now: Time, connection: ConnectionId, slot: u64) -> bool {
        let found = self.frozen.iter_mut().find(|frozen| frozen.connection == connection);
        if let Some(frozen) = found {
            (frozen.asked, frozen.heard_at) = (Some(slot), now);
            return true;
        }
        false
    }

    /// True if a client waits for a block: the node has to look again soon, as the throttle is a matter of time.
    pub(crate) fn has_waiting(&self) -> bool {
        self.frozen.iter().any(|frozen| frozen.asked.is_some())
    }

    fn is_open(&self, connection: ConnectionId) -> bool {
        self.frozen.iter().any(|frozen| frozen.connection == connection)
    }

    /// The connection is gone, or wants no more. True if it had something open.
    pub(crate) fn forget(&mut self, connection: ConnectionId) -> bool {
        self.since.remove(&connection);
        let before = self.frozen.len();
        self.drop_if(|frozen| frozen.connection == connection);
        self.frozen.len() < before
    }

    fn drop_if(&mut self, goes: impl Fn(&Frozen) -> bool) {
        let rubbish = &mut self.rubbish;
        self.frozen.retain_mut(|frozen| {
            let goes = goes(frozen);
            if goes {
                rubbish.extend(frozen.image.take().map(Rubbish::new));
            }
            !goes
        });
    }

    /// Blocks to be made: the first, and while one is under way to the client the next.
    fn jobs(&mut self) -> Vec<BlockJob> {
        let mut jobs = Vec::new();
        for frozen in self.frozen.iter_mut().filter(|frozen| frozen.block.is_none()) {
            if let Some(image) = frozen.image.take() {
                let (partition, transfer) = (frozen.partition, BACKS_UP | frozen.number);
                jobs.push(BlockJob { partition, transfer, image });
            }
        }
        jobs
    }

    /// True if a block was made for a backup.
    pub(crate) fn is_of(made: &MadeBlock) -> bool {
        made.transfer & BACKS_UP != 0
    }

    /// Takes a block that was made.
    pub(crate) fn on_block(&mut self, made: MadeBlock) {
        let MadeBlock { transfer, image, block, .. } = made;
        let is_it = |frozen: &&mut Frozen| BACKS_UP | frozen.number == transfer && frozen.block.is_none();
        let Some(frozen) = self.frozen.iter_mut().find(is_it) else {
            return self.rubbish.push(Rubbish::new(image));
        };
        match &block {
            Ok(block) if block.ending.is_none() => frozen.image = Some(image),
            _ => self.rubbish.push(Rubbish::new(image)),
        }
        frozen.block = Some(block);
    }

    /// The answers that may leave now; `may_send` says if so many bytes may leave. Clients that were answered last come last.
    fn due(&mut self, now: Now, mut may_send: impl FnMut(usize) -> bool) -> Vec<Answer> {
        let mut answers = Vec::new();
        let mut ended = Vec::new();
        self.frozen.sort_by_key(|frozen| frozen.answered_at);
        for frozen in self.frozen.iter_mut().filter(|frozen| frozen.asked.is_some()) {
            let Some(made) = &frozen.block else { continue };
            if let Ok(block) = made
                && !may_send(block.bytes.len())
            {
                break;
            }
            let (Some(slot), Some(made)) = (frozen.asked.take(), frozen.block.take()) else { continue };
            (frozen.heard_at, frozen.answered_at) = (now.time, now.time);
            let reply = match made {
                Ok(Block { bytes, ending }) => {
                    if ending.is_some() {
                        self.ended.insert(frozen.partition.bucket, now.wall);
                        ended.push(frozen.connection);
                    }
                    Reply::Array(vec![Reply::bulk(&bytes[..]), Reply::Integer(i64::from(ending.is_none()))])
                }
                Err(text) => {
                    ended.push(frozen.connection);
                    Reply::Error(Failure::built(format!("ERR the state cannot be read: {text}").as_bytes()))
                }
            };
            answers.push(Answer { connection: frozen.connection, slot, reply });
        }
        for connection in ended {
            self.forget(connection);
        }
        answers
    }

    /// The node has no state of the partition any more, for this reason, which the next question is answered with.
    pub(crate) fn forget_partition(&mut self, partition: PartitionId, why: &str) {
        for frozen in self.frozen.iter_mut().filter(|frozen| frozen.partition == partition) {
            self.rubbish.extend(frozen.image.take().map(Rubbish::new));
            frozen.block = Some(Err(why.to_owned()));
        }
    }

    /// Gives up frozen states of which nothing is asked any more. Returns how many.
    fn give_up_silent(&mut self, now: Time) -> usize {
        let before = self.frozen.len();
        self.drop_if(|frozen| frozen.asked.is_none() && now.since(frozen.heard_at) >= HELD_FOR);
        before - self.frozen.len()
    }
}

impl Node {
    /// Carries `DICTUM.BACKUP` out, in the bucket that the connection has chosen.
    pub(crate) fn back_up(&mut self, session: &mut Session, wanted: Wanted, words: &[&[u8]]) {
        match wanted {
            Wanted::Open => self.open_backup(session, words[2], &words[3..]),
            Wanted::Next if !self.backups.is_open(session.id) => self.refuse(session, &NOTHING_OPEN),
            Wanted::Next => {
                let slot = session.open_slot(0);
                self.backups.ask(self.now.time, session.id, slot);
                session.block = Some(Blocked::Slot(slot));
            }
            Wanted::Close if self.backups.forget(session.id) => session.reply(|writer| writer.ok()),
            Wanted::Close => self.refuse(session, &NOTHING_OPEN),
        }
    }

    fn open_backup(&mut self, session: &mut Session, index: &[u8], since: &[&[u8]]) {
        let number = |word: &[u8]| std::str::from_utf8(word).ok()?.parse::<u64>().ok();
        let since = match since {
            [] => None,
            [word, revision] if word.eq_ignore_ascii_case(b"SINCE") => match number(revision) {
                Some(revision) => Some(Revision(revision)),
                None => return self.refuse(session, &Failure::NotAnInteger),
            },
            _ => return self.refuse(session, &Failure::Syntax),
        };
        let parsed = number(index).and_then(|index| index.try_into().ok());
        let partition = parsed.map(|index| PartitionId { bucket: session.bucket, index });
        let is_there = |bucket: &Bucket| partition.is_some_and(|it| bucket.partitions().any(|other| other == it));
        let (Some(partition), true) = (partition, self.buckets.of(session.bucket).is_none_or(is_there)) else {
            return self.refuse(session, &NO_PARTITION);
        };
        let Some(g) = place_of(&self.groups, partition) else { return self.refuse_without_group(session) };
        if self.groups[g].elsewhere.is_some() {
            let failure = self.who_has(g);
            return self.refuse(session, &failure);
        }
        if !self.backups.has_room(session.id) {
            return self.refuse(session, &TOO_MANY);
        }
        // Below the low mark a backup is wanted more than ever.
        if self.disk.is_full() {
            return self.refuse(session, &NO_ROOM);
        }
        self.backups.since.remove(&session.id);
        if let Some(revision) = since {
            self.backups.since.insert(session.id, revision);
        }
        if self.config.planted == Some(Planted::BackupUnconfirmed) {
            let reply = self.freeze_for_backup(g, session.id);
            return session.reply(|writer| reply::write(writer, &reply));
        }
        let submitted = self.submit_read(session, partition, ReadKind::Backup, |_| {});
        session.block = submitted.map(Blocked::Slot).or(session.block);
    }

    /// An error with the names of the nodes that have a copy of a partition, as this one has none.
    pub(crate) fn who_has(&self, g: usize) -> Failure {
        let group = &self.groups[g];
        let seats = group.roster.as_ref().map(|roster| [&roster.voters[..], &roster.learners[..]].concat());
        let names: Vec<&str> =
            seats.iter().flatten().filter_map(|id| Some(self.roll.get(*id)?.name.as_str())).collect();
        let index = group.id().index;
        Failure::built(
            format!("NOCOPY this node has no copy of partition {index}; these have: {}", names.join(" ")).as_bytes(),
        )
    }

    /// The read of an `OPEN` is served: what it sees is frozen.
    pub(crate) fn freeze_for_backup(&mut self, g: usize, connection: ConnectionId) -> Reply {
        if !self.backups.has_room(connection) {
            return Reply::Error(TOO_MANY);
        }
        let partition = &self.groups[g].partition;
        let (id, tree) = (partition.id, &partition.tree);
        let numbers = [partition.applied.0, tree.revision().0, tree.len(), tree.time().0];
        let image = match self.backups.since.remove(&connection) {
            Some(since) if since > tree.revision() => return Reply::Error(NO_SUCH_REVISION),
            Some(_) if self.config.planted == Some(Planted::BackupSinceNow) => partition.image().since(tree.revision()),
            Some(since) => partition.image().since(since),
            None => partition.image(),
        };
        self.probe("node: state frozen for a backup");
        self.backups.open(self.now.time, connection, id, image);
        Reply::Array(numbers.map(|number| Reply::Integer(i64::try_from(number).unwrap_or(i64::MAX))).to_vec())
    }

    /// This node gives up its state of a partition, or has none of it any more: backups of it end here, those that were not opened yet among them.
    pub(crate) fn end_backups_of(&mut self, g: usize) {
        let id = self.groups[g].id();
        self.backups.forget_partition(id, "this node has no copy of the partition any more; ask another node");
        let opens = |session: &Session| {
            let read = session.lane(id)?.reads.front().filter(|read| read.kind == ReadKind::Backup)?;
            Some((session.id, read.slot))
        };
        let waiting: Vec<(ConnectionId, u64)> =
            self.sessions.values().flatten().filter_map(|session| opens(session)).collect();
        for (connection, slot) in waiting {
            let lane = self.sessions.get_mut(&connection).and_then(Option::as_mut);
            if let Some(lane) = lane.and_then(|session| session.lane_mut(id)) {
                lane.pop_read_if(|_| true);
            }
            let failure = self.who_has(g);
            self.deliver(connection, slot, &Reply::Error(failure));
        }
    }

    /// Answers those that wait for blocks, as far as it may, and has the next blocks made. At the end of a turn.
    pub(crate) fn run_backups(&mut self, jobs: &mut Vec<BlockJob>) {
        if self.backups.frozen.is_empty() && self.backups.rubbish.is_empty() {
            return;
        }
        let time = self.now.time;
        let movement = &mut self.movement;
        for Answer { connection, slot, reply } in self.backups.due(self.now, |bytes| movement.sends(time, bytes)) {
            self.deliver(connection, slot, &reply);
        }
        jobs.extend(self.backups.jobs());
        if self.backups.give_up_silent(time) > 0 {
            self.probe("node: silent backup given up");
            let text = "a backup is given up: nothing was asked of it for a minute";
            self.event(Level::Warning, text);
        }
        self.rubbish.append(&mut self.backups.rubbish);
    }
}
