//! One simulated process: the node, its journal and its snapshots on a simulated disk. What the server does around
//! the node, in the same order, but in steps that the cluster schedules and may break off anywhere.

mod alone;
mod room;
mod starting;
mod store;

use std::collections::{BTreeMap, VecDeque};
use std::io;

use base::ordered::OrderedError;
use base::versions::Feature;
use base::{NodeId, PartitionId, Position, Revision};
use bytes::Bytes;
use node::{
    BlockJob, ConnectionId, ErrandAnswer, FlushJob, Image, Input, JournalWrite, LinkTerms, Listener, MadeBlock, Outbox,
    PasswordOutcome, PasswordWork, ReceiveJob, SnapshotContent, SnapshotJob, TakenBlocks, TrailMark,
};
use storage::{
    CommitError, Journal, SnapshotId, SnapshotWriter, list_snapshots, remove_snapshot, remove_unfinished_snapshots,
};

use crate::clock::Clock;
use crate::cluster::errands::Talks;
use crate::cluster::guests::Guests;
use crate::cluster::operator::member;
use crate::disk::SimDisk;
use crate::door::Door;

pub use alone::Alone;
pub(crate) use room::ToldRoom;
pub use starting::{Start, name_of, start};
pub(crate) use store::PROBES;
use store::ProcessStore;

/// A payload up to this size may be committed by the server's loop itself.
const COMMIT_HERE_BYTES_MAX: usize = 16 * 1024;
/// Finished snapshots that stay, as in the server.
const SNAPSHOTS_KEPT: usize = 2;

/// An input that waits for the next turn.
#[derive(Debug)]
pub enum Happening {
    /// See [`Input::Opened`].
    Opened(u64, Listener),
    /// See [`Input::OpenedFor`].
    OpenedFor(u64, String),
    /// See [`Input::Received`].
    Received(u64, Bytes),
    /// See [`Input::Ended`]; everything was read.
    Ended(u64),
    /// See [`Input::Unread`].
    Unread(u64, usize, usize),
    /// See [`Input::Closed`].
    Closed(u64),
    /// See [`Input::Met`].
    Met(NodeId),
    /// See [`Input::PeerUp`].
    PeerUp(NodeId, LinkTerms),
    /// See [`Input::PeerDown`].
    PeerDown(NodeId),
    /// See [`Input::PeerMessage`].
    PeerMessage(NodeId, Bytes),
    /// See [`Input::Persisted`].
    Persisted(u64),
    /// See [`Input::Synced`]; in nanoseconds.
    Synced(u64),
    /// See [`Input::Worked`]: since when until now, and how much of it, in nanoseconds.
    Worked(u64, u64),
    /// See [`Input::TrailSigned`].
    TrailSigned(TrailMark),
    /// See [`Input::PasswordTried`].
    PasswordTried(u64, PasswordWork, PasswordOutcome),
    /// See [`Input::ErrandDone`].
    ErrandDone(u64, u64, ErrandAnswer),
    /// See [`Input::FullSyncEnded`]: nobody here sends files.
    FullSyncRefused(u64, u64),
    /// See [`Input::Disk`]: the journal finds no room, or does again.
    DiskFull(bool),
    /// The same: it is below the low mark, or above it again.
    DiskLow(bool),
    /// See [`Input::SnapshotSaved`].
    SnapshotSaved(PartitionId, Position),
    /// See [`Input::SnapshotFailed`].
    SnapshotFailed(PartitionId, Position, String),
    /// See [`Input::BlockMade`].
    BlockMade(Box<MadeBlock>),
    /// See [`Input::BlocksTaken`].
    BlocksTaken(Box<TakenBlocks>),
    /// See [`Input::Stop`].
    Stop,
}

/// A process that is not running may be started again; it may also have died of something that must not be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Death {
    /// Its disk broke off, failed or was full: bad luck that the simulator arranged.
    Arranged(String),
    /// It cannot use its folder and says why; somebody has to do something about it.
    Refused(String),
    /// Nothing that was arranged explains it.
    Violation(String),
}

/// A running process.
#[derive(Debug)]
pub struct Running<N> {
    /// The node.
    pub node: N,
    /// Its clocks.
    pub clock: Clock,
    /// True time of the start, in nanoseconds.
    pub started_at: u64,
    /// What waits for the next turn, in order.
    pub inbox: Vec<Happening>,
    /// What the last turn wants done.
    pub outbox: Outbox,
    /// When the next turn is scheduled, if it is.
    pub turn_at: Option<u64>,
    /// When the node wants to be woken; a later wish replaces an earlier one.
    pub wake_at: Option<u64>,
    /// Decided positions up to here have been looked at.
    pub seen: BTreeMap<PartitionId, Position>,
    /// Up to where it followed the council's log when that was last looked at.
    pub council_seen: Position,
    /// Changes up to here have been looked at.
    pub changes_seen: BTreeMap<PartitionId, Revision>,
    /// Behind which revision changes were kept when that was last looked at, and how often the node had got another state until then.
    pub changes_kept: BTreeMap<PartitionId, (Revision, u64)>,
    /// Connections that it does not read from, with what they sent since.
    pub held: BTreeMap<u64, Vec<Bytes>>,
    /// Conversations that are held for its clients.
    pub talks: Talks,
    /// Those who log in as users that come and go.
    pub guests: Guests,
    /// Whether it was asked to stop.
    pub stopping: bool,
    /// How many spaces of its store nobody knew of at the start.
    pub spaces_dropped: usize,
    /// What its folder held at the start, for people.
    pub found: String,
    /// Without one states are in memory.
    store: Option<ProcessStore>,
    journal: Journal<SimDisk>,
    waiting: VecDeque<JournalWrite>,
    committing: Vec<JournalWrite>,
    /// A commit is under way.
    pub is_committing: bool,
    /// When the commit under way was begun, or is tried again.
    commit_began: u64,
    /// What the node was told of its disk's room.
    pub(crate) room: ToldRoom,
    full: bool,
    discard_before: Option<u64>,
    snapshot: Option<SnapshotTask>,
    /// Blocks to be made.
    blocks: VecDeque<BlockJob>,
    /// Passwords to be tried.
    password_work: VecDeque<(u64, PasswordWork)>,
    /// Blocks to be taken, in order.
    receptions: VecDeque<ReceiveJob>,
    reception_is_due: bool,
}

/// What a turn wants besides commits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DiskWork {
    /// A snapshot has to be written.
    pub snapshot: bool,
    /// So many passwords have to be tried.
    pub passwords: usize,
    /// So many blocks have to be made.
    pub blocks: usize,
    /// Blocks have to be taken, and nobody is about to.
    pub reception: bool,
}

/// A state on its way to disk.
#[derive(Debug)]
struct SnapshotTask {
    partition: PartitionId,
    position: Position,
    stage: Stage,
}

/// What is done next of it.
#[derive(Debug)]
enum Stage {
    Create { header: Bytes, image: Box<Image> },
    Write { writer: SnapshotWriter<SimDisk>, image: Box<Image> },
    Apply(Box<FlushJob>),
    Sync,
}

impl SnapshotTask {
    fn new(job: SnapshotJob) -> SnapshotTask {
        let stage = match job.content {
            SnapshotContent::File { header, image } => Stage::Create { header, image },
            SnapshotContent::Store(flush) => Stage::Apply(flush),
        };
        SnapshotTask { partition: job.partition, position: job.position, stage }
    }

    /// Does the next part. None when that was the last.
    fn go_on(self, disk: &SimDisk, store: Option<&ProcessStore>) -> io::Result<Option<SnapshotTask>> {
        let no_store = || io::Error::other("this process was started without a store");
        let SnapshotTask { partition, position, .. } = self;
        let next = match self.stage {
            Stage::Create { header, image } => {
                let id = SnapshotId { partition, position };
                Stage::Write { writer: SnapshotWriter::create(disk, id, &header)?, image }
            }
            Stage::Write { mut writer, mut image } => {
                let mut block = Vec::new();
                if !image.next_block(&mut block) {
                    writer.finish()?;
                    // Best effort, as in the server; unless it is this that the process dies of.
                    let _ = remove_old(disk);
                    return Ok(None);
                }
                writer.append(&block)?;
                Stage::Write { writer, image }
            }
            Stage::Apply(flush) => {
                let store = store.ok_or_else(no_store)?;
                let batch = flush.into_batch().map_err(as_io)?;
                store.apply(partition, &batch).map_err(as_io)?;
                Stage::Sync
            }
            Stage::Sync => return store.ok_or_else(no_store)?.sync().map_err(as_io).map(|()| None),
        };
        Ok(Some(SnapshotTask { partition, position, stage: next }))
    }
}

fn as_io(error: OrderedError) -> io::Error {
    if error.full { io::ErrorKind::StorageFull.into() } else { io::Error::other(error) }
}

/// What became of the commit under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Commit {
    /// It is on disk.
    Done,
    /// There is no room; it has to be tried again.
    Full,
}

impl<N: Door> Running<N> {
    /// One turn: every input that waits, then the end of the turn. What to do then lies in the outbox.
    pub fn turn(&mut self, at: u64) {
        let now = self.clock.now(at);
        for happening in std::mem::take(&mut self.inbox) {
            let node = &mut self.node;
            let out = &mut self.outbox;
            match happening {
                Happening::Opened(connection, listener) => node.step(
                    now,
                    Input::Opened {
                        connection: ConnectionId(connection),
                        address: format!("127.0.0.1:{}", 10_000 + connection % 50_000),
                        local_address: "127.0.0.1:7001".to_string(),
                        listener,
                    },
                    out,
                ),
                Happening::OpenedFor(connection, user) => node.step(
                    now,
                    Input::OpenedFor {
                        connection: ConnectionId(connection),
                        address: "http".to_owned(),
                        local_address: "127.0.0.1:7001".to_owned(),
                        user: user.into_bytes().into(),
                    },
                    out,
                ),
                Happening::Received(connection, bytes) => {
                    node.step(now, Input::Received { connection: ConnectionId(connection), bytes: &bytes }, out);
                }
                Happening::Ended(connection) => {
                    node.step(now, Input::Ended { connection: ConnectionId(connection), all_read: true }, out);
                }
                Happening::Unread(connection, bytes, blocks) => {
                    node.step(now, Input::Unread { connection: ConnectionId(connection), bytes, blocks }, out);
                }
                Happening::Closed(connection) => {
                    node.step(now, Input::Closed { connection: ConnectionId(connection) }, out);
                }
                Happening::Met(peer) => node.step(now, Input::Met { peer, member: member(peer) }, out),
                Happening::PeerUp(peer, terms) => node.step(now, Input::PeerUp { peer, terms }, out),
                Happening::PeerDown(peer) => node.step(now, Input::PeerDown { peer }, out),
                Happening::PeerMessage(peer, bytes) => node.step(now, Input::PeerMessage { peer, bytes }, out),
                Happening::Persisted(number) => node.step(now, Input::Persisted { number }, out),
                Happening::Synced(took) => {
                    node.step(now, Input::Synced { took: std::time::Duration::from_nanos(took) }, out);
                }
                Happening::Worked(since, processor) => {
                    let processor = std::time::Duration::from_nanos(processor);
                    let (from, until) = (self.clock.now(since).time, now.time);
                    node.step(now, Input::Worked { from, until, processor: processor.min(until.since(from)) }, out);
                }
                Happening::TrailSigned(mark) => node.step(now, Input::TrailSigned(mark), out),
                Happening::PasswordTried(number, work, outcome) => {
                    node.step(now, Input::PasswordTried { number, work, outcome }, out);
                }
                Happening::ErrandDone(connection, slot, answer) => {
                    node.step(now, Input::ErrandDone { connection: ConnectionId(connection), slot, answer }, out);
                }
                Happening::FullSyncRefused(connection, slot) => {
                    let error = Some("ERR there is nobody who sends files");
                    let connection = ConnectionId(connection);
                    node.step(now, Input::FullSyncEnded { connection, slot, error }, out);
                }
                Happening::DiskFull(full) => node.step(now, Input::Disk(self.room.on_full(full, at)), out),
                Happening::DiskLow(low) => node.step(now, Input::Disk(self.room.on_low(low, at)), out),
                Happening::SnapshotSaved(partition, position) => {
                    node.step(now, Input::SnapshotSaved { partition, position }, out);
                }
                Happening::SnapshotFailed(partition, position, reason) => {
                    node.step(now, Input::SnapshotFailed { partition, position, reason }, out);
                }
                Happening::BlockMade(made) => node.step(now, Input::BlockMade(made), out),
                Happening::BlocksTaken(taken) => node.step(now, Input::BlocksTaken(taken), out),
                Happening::Stop => node.step(now, Input::Stop, out),
            }
        }
        self.node.step(now, Input::EndTurn, &mut self.outbox);
    }

    /// Takes what the turn wants from the disk.
    pub fn take_disk_work(&mut self) -> DiskWork {
        self.waiting.extend(self.outbox.journal.drain(..));
        self.discard_before = self.discard_before.max(self.outbox.discard_journal_before.take());
        self.outbox.rubbish.clear();
        if let (Some(wishes), Some(store)) = (self.outbox.caches.take(), &mut self.store) {
            store.set_caches(&wishes);
        }
        let (blocks, passwords) = (self.outbox.make_blocks.len(), self.outbox.password_work.len());
        let mut work = DiskWork { blocks, passwords, ..DiskWork::default() };
        self.password_work.extend(self.outbox.password_work.drain(..));
        self.blocks.extend(self.outbox.make_blocks.drain(..));
        self.receptions.extend(self.outbox.take_blocks.drain(..));
        work.reception = !self.receptions.is_empty() && !std::mem::replace(&mut self.reception_is_due, true);
        self.reception_is_due = !self.receptions.is_empty();
        if let Some(job) = self.outbox.save_snapshot.take() {
            self.snapshot = Some(SnapshotTask::new(job));
            work.snapshot = true;
        }
        work
    }

    /// Tries the password that was given first; or says that there is no memory for it.
    pub fn try_password(&mut self, fails: bool) {
        let Some((number, work)) = self.password_work.pop_front() else { return };
        let outcome = if fails { PasswordOutcome::Failed } else { work.run() };
        self.inbox.push(Happening::PasswordTried(number, work, outcome));
    }

    /// True if the block that was asked for first is for a peer.
    pub fn makes_for_peer(&self) -> bool {
        self.blocks.front().is_some_and(BlockJob::is_for_peer)
    }

    /// True if blocks are to be made.
    pub fn has_blocks(&self) -> bool {
        !self.blocks.is_empty()
    }

    /// Makes the block that was asked for first; or says that it cannot be made.
    pub fn make_block(&mut self, fails: bool) {
        let Some(job) = self.blocks.pop_front() else { return };
        let made = if fails { job.fail("no thread can be started (simulated)".to_owned()) } else { job.make() };
        self.inbox.push(Happening::BlockMade(Box::new(made)));
    }

    /// Does the next part of what the blocks need that are taken first. True if there is more to do. If it `fails`, it is done
    /// all the same (`true`) or not.
    ///
    /// # Errors
    /// When the process dies of it.
    pub fn take_blocks(&mut self, disk: &SimDisk, fails: Option<bool>) -> Result<bool, Death> {
        let Some(job) = self.receptions.front_mut() else { return Ok(false) };
        if let Some(done) = fails {
            disk.fail_next_of_store(done);
        }
        let store = self.store.as_ref().map(|store| store.writer(job.partition(), &job.spaces()));
        let has_more = job.step(store);
        disk.fail_none_of_store();
        if disk.is_blown() {
            return Err(Death::Arranged("taking blocks".to_string()));
        }
        if has_more {
            return Ok(true);
        }
        if let Some(job) = self.receptions.pop_front() {
            let taken = job.done();
            self.inbox.push(Happening::BlocksTaken(Box::new(taken)));
        }
        self.reception_is_due = !self.receptions.is_empty();
        Ok(self.reception_is_due)
    }

    /// Begins a commit of everything that waits. False if there is nothing to commit, or one is under way.
    pub fn begin_commit(&mut self, at: u64) -> bool {
        if self.is_committing || (self.waiting.is_empty() && self.discard_before.is_none()) {
            return false;
        }
        self.committing.extend(self.waiting.drain(..));
        self.is_committing = true;
        self.commit_began = at;
        true
    }

    /// Whether exactly one small payload waits, and nothing else is asked of the journal: the server's loop may commit
    /// that itself.
    #[must_use]
    pub fn is_single_and_small(&self) -> bool {
        !self.is_committing
            && !self.full
            && self.discard_before.is_none()
            && self.waiting.len() == 1
            && self.waiting[0].payload.len() <= COMMIT_HERE_BYTES_MAX
    }

    /// How many payload bytes the commit under way has.
    #[must_use]
    pub fn commit_bytes(&self) -> u64 {
        self.committing.iter().map(|write| write.payload.len() as u64).sum()
    }

    /// Carries the commit under way out.
    ///
    /// # Errors
    /// When the process dies of it.
    pub fn commit(&mut self, disk: &SimDisk, at: u64) -> Result<Commit, Death> {
        let died = |error: CommitError| match error {
            CommitError::TooLarge => Death::Violation("a journal write beyond all limits".to_string()),
            other => Death::Arranged(format!("journal: {other}{}", if disk.is_blown() { " (broken off)" } else { "" })),
        };
        if let (Some(first), Some(last)) = (self.committing.first(), self.committing.last()) {
            if first.number != self.journal.next_number()
                || last.number - first.number + 1 != self.committing.len() as u64
            {
                return Err(Death::Violation(format!(
                    "journal payloads {} to {} are not the next {} after {}",
                    first.number,
                    last.number,
                    self.committing.len(),
                    self.journal.next_number()
                )));
            }
            if Feature::StampedSectors.is_in(self.node.cluster_version()) {
                self.journal.stamp_sectors();
            }
            let payloads: Vec<&Bytes> = self.committing.iter().map(|write| &write.payload).collect();
            let last = last.number;
            match self.journal.commit(&payloads) {
                Ok(_) => {
                    self.committing.clear();
                    self.inbox.push(Happening::Synced(at.saturating_sub(self.commit_began)));
                    self.inbox.push(Happening::Persisted(last));
                    if std::mem::take(&mut self.full) {
                        self.inbox.push(Happening::DiskFull(false));
                    }
                }
                Err(CommitError::Full) => {
                    self.commit_began = at;
                    if !std::mem::replace(&mut self.full, true) {
                        self.inbox.push(Happening::DiskFull(true));
                    }
                }
                Err(error) => return Err(died(error)),
            }
        }
        let chores = self
            .discard_before
            .take()
            .map_or(Ok(()), |number| self.journal.discard_before(number))
            .and_then(|()| if self.full { Ok(()) } else { self.journal.prepare_next() });
        match chores {
            Ok(()) | Err(CommitError::Full) => {}
            Err(error) => return Err(died(error)),
        }
        // On a full disk the same payloads are tried again, and nothing else is begun.
        self.is_committing = self.full;
        Ok(if self.full { Commit::Full } else { Commit::Done })
    }

    /// Writes the next part of the snapshot under way. True if there is more to write.
    ///
    /// # Errors
    /// When the process dies of it.
    pub fn write_snapshot(&mut self, disk: &SimDisk) -> Result<bool, Death> {
        let Some(task) = self.snapshot.take() else { return Ok(false) };
        let SnapshotTask { partition, position, .. } = task;
        let written = task.go_on(disk, self.store.as_ref());
        match written {
            Ok(Some(task)) => {
                self.snapshot = Some(task);
                Ok(true)
            }
            Ok(None) if disk.is_blown() => Err(Death::Arranged("removal of old snapshots".to_string())),
            Ok(None) => {
                self.inbox.push(Happening::SnapshotSaved(partition, position));
                Ok(false)
            }
            Err(error) if disk.is_blown() => Err(Death::Arranged(format!("snapshot: {error}"))),
            Err(error) => {
                // Best effort, as in the server: what is left is removed at the next start.
                let _ = remove_unfinished_snapshots(disk);
                self.inbox.push(Happening::SnapshotFailed(partition, position, error.to_string()));
                Ok(false)
            }
        }
    }

    /// More in memory than a quota allows, told for people.
    #[must_use]
    pub fn cache_over_quota(&self) -> Option<String> {
        self.store.as_ref()?.over_quota()
    }

    /// Gives the process up: what was counted about what it kept in memory.
    #[must_use]
    pub fn close(self) -> BTreeMap<&'static str, u64> {
        self.store.map(ProcessStore::close).unwrap_or_default()
    }

    /// Whether something is being written at this moment.
    #[must_use]
    pub fn is_writing(&self) -> bool {
        self.is_committing || self.snapshot.is_some() || !self.receptions.is_empty()
    }

    /// Lets what is being written get as far as the disk's fuse allows, before the process dies.
    pub fn write_last_words(&mut self, disk: &SimDisk) {
        // How far it gets is the fuse's business; nobody is left to hear of it.
        let _ = self.commit(disk, self.commit_began);
        for _ in 0..4 {
            if !matches!(self.write_snapshot(disk), Ok(true)) {
                break;
            }
        }
        for _ in 0..8 {
            if !matches!(self.take_blocks(disk, None), Ok(true)) {
                break;
            }
        }
    }
}

/// Keeps the newest finished snapshots.
fn remove_old(disk: &SimDisk) -> io::Result<()> {
    let found = list_snapshots(disk)?;
    let newer = |id: SnapshotId| found.iter().filter(|other| other.partition == id.partition && **other > id).count();
    found.iter().filter(|id| newer(**id) >= SNAPSHOTS_KEPT).try_for_each(|id| remove_snapshot(disk, *id))
}
