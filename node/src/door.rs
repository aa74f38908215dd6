//! The node's one door: what comes in, what goes out. Everything a server does to the world passes here.
//!
//! A **turn** is: any number of [`Input`]s, then [`Input::EndTurn`], then the owner carries out what lies in
//! the [`Outbox`]. Batching happens by turn and never by waiting: all commands that arrived in a turn share
//! one journal write, one message per peer and one write per connection.
//!
//! The owner (the server's loop, or the simulator) promises:
//! - [`Outbox::journal`] payloads are committed in their order; [`Input::Persisted`] is given only after they
//!   are on disk, and covers every earlier payload as well.
//! - [`Outbox::peers`] bytes may be sent at once: whatever had to wait for the disk was held back by the node.
//! - Everything given to the node about one connection is in order: opened, received …, closed.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use base::versions::NEWEST;
use base::{BucketId, NodeId, PartitionId, Position, Time};
use bytes::Bytes;

use crate::access::logins::Logins;
use crate::applying::Applying;
use crate::audit::AuditRecord;
use crate::below::{Below, FlushJob};
use crate::errands::{Errand, ErrandAnswer};
use crate::full_sync::FullSync;
use crate::image::Image;
pub use crate::large::LargeWriteSettings;
use crate::passwords::stored::Argon2Cost;
use crate::passwords::work::{PasswordOutcome, PasswordWork};
pub use crate::planted::Planted;
use crate::registry::{NodeKey, TrailMark};
pub use crate::subscriptions::SubscriptionSettings;
use crate::testimony::Signer;
use crate::transfer::jobs::{BlockJob, MadeBlock, ReceiveJob, TakenBlocks};
pub use crate::trimming::LogTrimSettings;

/// A client connection, numbered by the owner; never reused while the process lives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnectionId(pub u64);

/// What becomes of a client's commands for keys whose partition another node leads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Listener {
    /// They are forwarded: any node serves any key.
    #[default]
    Forwards,
    /// The client is told who leads and asks there, as in a Redis Cluster.
    Redirects,
    /// They are forwarded, and the client is a part of this process, as HTTP is: when the node stops it is told so, and tells it on in its own words.
    Inside,
}

/// The terms on which the two ends of a link speak: the version of messages between nodes (see [`base::versions`]), and whether strangers can read them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkTerms {
    /// That of all messages on this link.
    pub spoken: u16,
    /// The newest one that the other end speaks.
    pub newest: u16,
    /// The link is under TLS, and both ends have proved that they have the cluster's secret.
    pub is_secured: bool,
}

impl Default for LinkTerms {
    fn default() -> LinkTerms {
        LinkTerms { spoken: NEWEST, newest: NEWEST, is_secured: false }
    }
}

/// Something that happened.
#[derive(Debug)]
pub enum Input<'a> {
    /// A client connected.
    Opened {
        /// The new connection.
        connection: ConnectionId,
        /// Its address as people read it (`127.0.0.1:50312`), for `CLIENT LIST`.
        address: String,
        /// The local address that it connected to, for `CLIENT LIST`.
        local_address: String,
        /// Where it came in.
        listener: Listener,
    },
    /// As [`Input::Opened`] of [`Listener::Inside`], in the name of a user that the owner has let in itself, as HTTP does: the connection has that user's rights, whatever
    /// becomes of them, and ends with the user. Never for a connection whose bytes come from outside as they are.
    OpenedFor {
        /// The new connection.
        connection: ConnectionId,
        /// For `CLIENT LIST`.
        address: String,
        /// For `CLIENT LIST`.
        local_address: String,
        /// The user's name. If there is none of that name, or it is off, every command of the connection is refused.
        user: Arc<[u8]>,
    },
    /// A client's handshake of TLS is over. Given before what the client sends.
    Secured {
        /// Which.
        connection: ConnectionId,
        /// The version and the group for keys, for `CLIENT LIST`: `1.3/X25519MLKEM768`.
        terms: String,
        /// The name in the client's own certificate, which the owner has verified. If there is such a user, and it is on, the connection is that user's, as after `AUTH`.
        name: Option<String>,
    },
    /// Bytes arrived from a client, in order, cut anywhere.
    Received {
        /// From whom.
        connection: ConnectionId,
        /// What; copied only where a command is incomplete or has to be kept.
        bytes: &'a [u8],
    },
    /// The client has ended its side of the connection, and may still read. The node answers what was sent completely and then has the owner close the
    /// connection; a client that waits for keys or replicas is taken for one that is gone, as Redis does.
    Ended {
        /// Which.
        connection: ConnectionId,
        /// Everything that the client has sent was given to the node. False while the owner does not read on, as the node has paused the connection.
        all_read: bool,
    },
    /// So many bytes of what a connection was given wait for its client to read them. Told when that has changed by 64 KiB or more, and when nothing waits any more.
    Unread {
        /// Which.
        connection: ConnectionId,
        /// How many bytes wait.
        bytes: usize,
        /// In how many pieces.
        blocks: usize,
    },
    /// The client is gone, or the owner has closed the connection. Nothing more will be sent to it.
    Closed {
        /// Which.
        connection: ConnectionId,
    },
    /// A link to a peer works from now on. Messages sent before may be lost.
    PeerUp {
        /// The peer, by the name that its handshake proved.
        peer: NodeId,
        /// The terms that its handshake has come to.
        terms: LinkTerms,
    },
    /// Somebody who is of this cluster, and whom this node does not know, has made a link. It may have lost what it knew of the cluster, or not have heard
    /// yet. Given before [`Input::PeerUp`].
    Met {
        /// The number that the other has.
        peer: NodeId,
        /// How it is called, and reached.
        member: Member,
    },
    /// A link to a peer is gone: whatever was sent and not received is lost.
    PeerDown {
        /// The peer.
        peer: NodeId,
    },
    /// One whole message from a peer: the payload of one `wire` frame, its checksum already verified.
    PeerMessage {
        /// From whom.
        peer: NodeId,
        /// The payload.
        bytes: Bytes,
    },
    /// Every journal payload up to and including this number is on disk.
    Persisted {
        /// The payload's number, as the [`Outbox`] gave it.
        number: u64,
    },
    /// The journal's disk has taken so long for one sync, with what was written before it: for telling whether this node is slower than
    /// others. Nothing else comes of it; an owner may leave some out.
    Synced {
        /// As measured around the sync itself; nothing that waited before it counts.
        took: std::time::Duration,
    },
    /// The loop that steps this node has had the processor for `processor` of this time: so a loop that has much to do is told from one that gets no
    /// processor, and from links that are slow. Given before what else it takes at `until`. Nothing else comes of it; an owner may leave out times of less
    /// than [`base::limits::WORK_TOLD_FROM`].
    Worked {
        /// When the time began.
        from: base::Time,
        /// When it ended: now.
        until: base::Time,
        /// At most the time between.
        processor: std::time::Duration,
    },
    /// The conversation of [`Outbox::errands`] is over.
    ErrandDone {
        /// The connection of the command.
        connection: ConnectionId,
        /// Which of them.
        slot: u64,
        /// The answer to the client.
        answer: ErrandAnswer,
    },
    /// The work of one of [`Outbox::full_syncs`] is over, whatever came of it.
    FullSyncEnded {
        /// The connection of the command.
        connection: ConnectionId,
        /// Which of them.
        slot: u64,
        /// The answer to the client, if the owner has not taken the connection over.
        error: Option<&'static str>,
    },
    /// What has come of one of [`Outbox::password_work`].
    PasswordTried {
        /// Which of them.
        number: u64,
        /// The work as it was given.
        work: PasswordWork,
        /// What [`PasswordWork::run`] has returned.
        outcome: PasswordOutcome,
    },
    /// The password that clients must show from now on. Connections that have shown the former one stay.
    Password(String),
    /// True if the owner cannot write the audit trail: for the node's status.
    AuditFails(bool),
    /// The owner has signed the audit trail up to this record, and has it on disk. Not for the sake of records of the kind [`crate::TRAIL_NOTED`] alone.
    TrailSigned(TrailMark),
    /// There is so much room on the disk, which is more or less than before.
    Disk(DiskRoom),
    /// The snapshot that [`Outbox::save_snapshot`] asked for is on disk, named and synced.
    SnapshotSaved {
        /// Whose state it is.
        partition: PartitionId,
        /// Its position.
        position: Position,
    },
    /// The snapshot could not be written. The node goes on without and asks again later.
    SnapshotFailed {
        /// Whose state it is.
        partition: PartitionId,
        /// Its position.
        position: Position,
        /// What the disk said.
        reason: String,
    },
    /// What came of one of [`Outbox::make_blocks`].
    BlockMade(Box<MadeBlock>),
    /// What came of one of [`Outbox::take_blocks`].
    BlocksTaken(Box<TakenBlocks>),
    /// The node shall stop: it hands over its leadership and then sets [`Outbox::stopped`].
    Stop,
    /// The owner has nothing more for this turn: commit, send, reply.
    EndTurn,
}

/// One payload for the journal.
#[derive(Debug)]
pub struct JournalWrite {
    /// Its number: one more than that of the payload before it, for ever, across restarts.
    pub number: u64,
    /// What to store.
    pub payload: Bytes,
}

/// The state of one moment, to be brought to disk while the node goes on. Can be sent to another thread.
#[derive(Debug)]
pub struct SnapshotJob {
    /// Whose state it is.
    pub partition: PartitionId,
    /// The last entry that it contains.
    pub position: Position,
    /// What is to be written.
    pub content: SnapshotContent,
}

/// How a state gets to disk.
#[derive(Debug)]
pub enum SnapshotContent {
    /// All of it, into a file of its own.
    File {
        /// Opaque bytes for the file's header.
        header: Bytes,
        /// Yields the blocks.
        image: Box<Image>,
    },
    /// What has changed, into the store that the node was started with: the batch is applied as a whole and synced.
    Store(Box<FlushJob>),
}

/// How much room there is on a node's disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskRoom {
    /// Enough: so many bytes more than the mark below which nothing that grows is taken, if they are few enough to matter.
    Enough {
        /// `u64::MAX` if there are plenty.
        spare: u64,
    },
    /// Too little to grow: what frees room is taken, and nothing else. What is left is kept for that.
    Low {
        /// Bytes that have to be freed before everything is taken again.
        missing: u64,
    },
    /// None: nothing can be written.
    Full {
        /// The same, as far as it is known.
        missing: u64,
    },
}

impl Default for DiskRoom {
    fn default() -> DiskRoom {
        DiskRoom::Enough { spare: u64::MAX }
    }
}

impl DiskRoom {
    /// Nothing that grows is to be written.
    #[must_use]
    pub fn is_low(self) -> bool {
        !matches!(self, DiskRoom::Enough { .. })
    }

    /// Nothing can be written.
    #[must_use]
    pub fn is_full(self) -> bool {
        matches!(self, DiskRoom::Full { .. })
    }

    /// Bytes that have to be freed.
    #[must_use]
    pub fn missing(self) -> u64 {
        match self {
            DiskRoom::Enough { .. } => 0,
            DiskRoom::Low { missing } | DiskRoom::Full { missing } => missing,
        }
    }

    /// In a word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            DiskRoom::Enough { .. } => "ok",
            DiskRoom::Low { .. } => "low",
            DiskRoom::Full { .. } => "full",
        }
    }
}

/// How loudly an event is told.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// Of interest when looking for a cause.
    Debug,
    /// Of interest to an operator: leadership, membership, snapshots.
    Info,
    /// Something is wrong and the node copes.
    Warning,
    /// Something is wrong and somebody must look.
    Error,
}

/// What the owner shall do. The owner empties it after each turn and gives the same one again,
/// so that its buffers are reused.
#[derive(Default, Debug)]
pub struct Outbox {
    /// Reply bytes per connection, at most one item per connection and turn.
    pub clients: Vec<(ConnectionId, Vec<u8>)>,
    /// Connections to close once their reply bytes are written.
    pub close: Vec<ConnectionId>,
    /// Whether the owner shall stop (`true`) or go on (`false`) reading from a connection: its queue is full.
    pub pause: Vec<(ConnectionId, bool)>,
    /// Connections that may leave fewer bytes unread than others from now on, or (none) as many again.
    pub limits: Vec<(ConnectionId, Option<OutputLimit>)>,
    /// Framed messages per peer, at most one item per peer and turn; whole frames, back to back.
    pub peers: Vec<(NodeId, Vec<u8>)>,
    /// Emptied buffers of earlier [`Outbox::peers`], put here by the owner for the node to fill again: a turn's messages may be
    /// a megabyte, and fresh memory of that size costs more than what is written into it.
    pub spare: Vec<Vec<u8>>,
    /// Payloads to commit, in order.
    pub journal: Vec<JournalWrite>,
    /// Journal payloads with a lower number are not needed any more.
    pub discard_journal_before: Option<u64>,
    /// A snapshot to write. At most one is under way at a time.
    pub save_snapshot: Option<SnapshotJob>,
    /// Blocks of snapshots for peers, to be made in any order and answered by [`Input::BlockMade`]. At most one per peer is under way.
    pub make_blocks: Vec<BlockJob>,
    /// Blocks of snapshots from peers, to be written in this order and answered by [`Input::BlocksTaken`].
    pub take_blocks: Vec<ReceiveJob>,
    /// To be dropped, on another thread: freeing it may take long.
    pub rubbish: Vec<Rubbish>,
    /// What buckets may keep in memory of what is in the store; given when it has changed, and then all of them.
    pub caches: Option<Vec<CacheWish>>,
    /// Conversations that the owner shall hold, some at a time and the others after them, each answered by one [`Input::ErrandDone`].
    pub errands: Vec<Errand>,
    /// Passwords to be tried or hashed, on another thread, in any order, each answered by one [`Input::PasswordTried`]. At most a handful is under way.
    pub password_work: Vec<(u64, PasswordWork)>,
    /// Clients that are to be sent all keys as an RDB file, behind what [`Outbox::clients`] has for them. The owner takes their connections over ([`Input::Closed`]) and closes them
    /// at the end; each is answered by one [`Input::FullSyncEnded`], at most [`base::limits::FULL_SYNCS_MAX`] are under way.
    pub full_syncs: Vec<FullSync>,
    /// The nodes of the cluster, this one among them; given when they have changed, and then all of them.
    pub roll: Option<Nodes>,
    /// Most client connections that the owner may let in from now on; given when it has changed.
    pub clients_max: Option<usize>,
    /// The users, by which the owner judges the clients of HTTP; given when they have changed. Until then the password of the node is all that counts.
    pub logins: Option<Logins>,
    /// Whether the owner is to refuse clients of other machines from now on (protected mode, and no
    /// password is set); given when it has changed. At the start it is so if
    /// [`Config::refuses_other_machines`] says so.
    pub refuses_other_machines: Option<bool>,
    /// What an operator may want to read, in order.
    pub events: Vec<LogLine>,
    /// Records for the audit trail, in order. The owner takes them before it sends what [`Outbox::clients`] has.
    pub audit: Vec<AuditRecord>,
    /// When [`Input::EndTurn`] shall be given next even if nothing happens.
    pub wake_at: Option<Time>,
    /// Set once the node has handed over and answered what it could: the process may end.
    pub stopped: bool,
    /// Set with `stopped` when this node was removed from the cluster: it is not to be started again.
    pub removed: bool,
    /// Set when the node must not go on (a broken invariant, a proof of corruption). The process ends with this text.
    pub fatal: Option<String>,
}

/// The nodes of the cluster.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Nodes {
    /// Who is there, by number.
    pub members: Vec<(NodeId, Member)>,
    /// The numbers of those that were removed: whoever of them comes back is to be told.
    pub removed: Vec<NodeId>,
    /// The version of the cluster: with whoever speaks less no link is to be made.
    pub version: u16,
    /// By which keys nodes are known. A link of one of these under another key is not to be made.
    pub keys: Vec<(NodeId, Vec<NodeKey>)>,
}

/// What a connection may leave unread before the owner cuts it off; 0 bytes: as much as any other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutputLimit {
    /// Never more than so many bytes.
    pub hard_bytes: u64,
    /// More than so many bytes for no longer than `soft_for`.
    pub soft_bytes: u64,
    /// See `soft_bytes`.
    pub soft_for: std::time::Duration,
}

/// What a bucket may keep in memory of its values in the store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CacheWish {
    /// The bucket.
    pub bucket: BucketId,
    /// Bytes; none: as the owner thinks fit.
    pub quota_bytes: Option<u64>,
    /// `fifo`, `lru`, `lfu` or `s3-fifo`; none: as the owner thinks fit.
    pub policy: Option<&'static str>,
}

/// Memory that nobody needs any more, much of it perhaps: whoever drops it is held up.
pub struct Rubbish(#[expect(dead_code, reason = "it is there to be dropped")] Box<dyn Any + Send>);

impl Rubbish {
    pub(crate) fn new(rubbish: impl Send + 'static) -> Rubbish {
        Rubbish(Box::new(rubbish))
    }
}

impl fmt::Debug for Rubbish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rubbish")
    }
}

/// A line for the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogLine {
    /// How loud it is.
    pub level: Level,
    /// The partition that it is about, if it is about one: the name of its bucket, and its number.
    pub partition: Option<(String, u16)>,
    /// The words, which name the partition where people would ask for it.
    pub text: String,
}

/// How much is held in memory until it is on disk, and how states get there and to peers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SnapshotSettings {
    /// With a store below: bytes of changed records in memory after which they go to it.
    pub flush_bytes: u64,
    /// After this time they go there even if they are much fewer.
    pub flush_after: std::time::Duration,
    /// Most bytes of these, or of log, that the store does not have yet. Beyond, the node takes no more entries.
    pub unflushed_bytes_max: u64,
    /// Most bytes of a partition's entries that are not decided, of writes that wait for that, and at a follower of those that are not on its disk.
    pub undecided_bytes_max: usize,
    /// Bytes per second that are spent on sending snapshots to peers.
    pub bytes_per_second: u64,
    /// Bytes of a block that is sent to a peer, unless one record is larger.
    pub block_bytes: usize,
    /// How long the sender of a snapshot keeps its view for a receiver that says nothing, and a receiver what it has.
    pub held_for: std::time::Duration,
}

impl Default for SnapshotSettings {
    fn default() -> SnapshotSettings {
        SnapshotSettings {
            flush_bytes: base::limits::FLUSH_BYTES,
            flush_after: base::limits::FLUSH_AFTER,
            unflushed_bytes_max: base::limits::UNFLUSHED_BYTES_MAX,
            undecided_bytes_max: base::limits::UNDECIDED_BYTES_MAX,
            bytes_per_second: base::limits::SNAPSHOT_BYTES_PER_SECOND,
            block_bytes: base::limits::SNAPSHOT_BLOCK_BYTES_TARGET,
            held_for: base::limits::SNAPSHOT_HELD_FOR,
        }
    }
}

/// A member of the cluster, as configured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// Its name, unique in the cluster: `n1`.
    pub name: String,
    /// Where its peers reach it, `host:port`.
    pub peer_address: String,
}

/// What the process of a node takes, as the machine tells it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ProcessFigures {
    /// Bytes of memory that are there.
    pub resident_bytes: u64,
    /// The most that were there since the start.
    pub resident_peak_bytes: u64,
    /// Memory of the machine.
    pub system_memory_bytes: u64,
    /// Time of processors in the process's own code, in microseconds.
    pub user_micros: u64,
    /// The same in the system's.
    pub system_micros: u64,
}

/// What a node has to know before its first step.
#[derive(Clone, Debug)]
pub struct Config {
    /// The founders, sorted by name. The [`NodeId`] of a founder is its place in this list.
    pub members: Vec<Member>,
    /// Who has joined since, as far as is known; this node itself, if it has. Later ones are in the council's registry.
    pub joined: Vec<(NodeId, Member)>,
    /// Which of them all this node is.
    pub me: NodeId,
    /// The newest version that this node speaks, writes and applies: [`base::versions::NEWEST`], or less as long as it is to behave like an older one.
    pub newest: u16,
    /// The label of this node's zone; empty: it is a zone of its own.
    pub zone: String,
    /// Where the others reach this node from now on, if its operator has said so at its start.
    pub announce: Option<String>,
    /// The hash of this node's key for links under TLS; none without TLS.
    pub key: Option<NodeKey>,
    /// Signs with that key; none without one.
    pub signer: Option<Arc<dyn Signer>>,
    /// Unpredictable, and known to nobody else: of it tokens are made with which nodes join.
    pub secret: u128,
    /// Where clients reach this node, for `INFO` and errors; by member, empty where unknown.
    pub resp_address: String,
    /// HTTP address of this node, for `INFO`.
    pub http_address: String,
    /// Where clients that speak the Redis Cluster protocol reach this node, `host:port`; empty if it has no such listener.
    pub cluster_address: String,
    /// The bucket that these clients see, unless they name another one as their user.
    pub cluster_bucket: String,
    /// How many databases a client can select by their numbers, the default bucket among them.
    pub databases: u16,
    /// What the process takes, for `INFO`: asked when a client asks.
    pub process: fn() -> ProcessFigures,
    /// Process id, for `INFO`.
    pub process_id: u32,
    /// Longest value that a client may store, in bytes; at most [`base::limits::VALUE_BYTES_MAX`].
    pub value_bytes_max: usize,
    /// Most client connections that the owner lets in, unless `maxclients` says otherwise.
    pub clients_max: usize,
    /// Most client connections that the owner has file descriptors for, whatever `maxclients` says.
    pub clients_room: usize,
    /// What all clients together may hold of this node's memory, in bytes, unless `maxmemory-clients` says otherwise; 0: as much as they like.
    pub clients_bytes_max: u64,
    /// The memory that there is for this process, in bytes; 0 if that is not known.
    pub memory_bytes: u64,
    /// Threads of the owner for clients' sockets, for `INFO` and `CONFIG GET io-threads`.
    pub io_threads: usize,
    /// How often the council is told how far this node's audit trail is signed, if there is something new.
    pub trail_told_every: std::time::Duration,
    /// How long a request may wait for its outcome.
    pub request_timeout: std::time::Duration,
    /// Passwords that `ACL SETUSER` is given in the clear are kept under argon2id, at this cost.
    pub hashes_passwords: bool,
    /// See `hashes_passwords`.
    pub password_cost: Argon2Cost,
    /// Password for `AUTH`, if any.
    pub password: Option<String>,
    /// Without a password, clients of other machines are refused, unless `protected-mode` says otherwise.
    pub protected_mode: bool,
    /// Bytes of log after which the state is brought to disk: what has changed to the store, or all of it to a file.
    pub log_bytes_per_snapshot: u64,
    /// How states get to the store and to peers.
    pub snapshots: SnapshotSettings,
    /// Which writes wait for their turn, so that small ones do not wait for all of them.
    pub large_writes: LargeWriteSettings,
    /// Units of work after which a turn applies no further entry, but leaves the rest to the next one: [`base::limits::TURN_WORK_MAX`].
    pub turn_work_max: u64,
    /// How subscribers are told what changes.
    pub subscriptions: SubscriptionSettings,
    /// How often the states of each partition's replicas are compared, if anything was applied since; zero: never. [`base::limits::COMPARED_EVERY`].
    pub compared_every: std::time::Duration,
    /// Entries of log kept behind a snapshot.
    pub log_entries_kept: u64,
    /// When log is given back that all nodes have on their disks.
    pub log_trim: LogTrimSettings,
    /// Most bytes of log that are kept for peers that take a snapshot, or have taken one and not yet caught up.
    pub log_bytes_held: u64,
    /// How many entries a second the partitions that a node leads have at least before leaderships change hands for their load: see `heat.rs`.
    pub hot_entries_per_second: u64,
    /// The policy of buckets that evict and have none of their own: `fifo`, `lru`, `lfu` or `s3-fifo`.
    pub cache_policy: &'static str,
    /// Chance for elections' jitter and commands that draw; different for each start.
    pub seed: u64,
    /// Entries that are to be stepped over, by partition and position: the same on all nodes.
    pub step_over: Vec<(PartitionId, Position)>,
    /// Tells the owner which entry is being applied.
    pub applying: Arc<Applying>,
    /// A planted bug to prove that the simulator's alarm works; never set outside the simulator.
    pub planted: Option<Planted>,
}

impl Config {
    /// Whether clients of other machines are refused, as long as nobody sets `protected-mode`.
    #[must_use]
    pub fn refuses_other_machines(&self) -> bool {
        self.protected_mode && self.password.is_none()
    }

    /// This node as others know it.
    #[must_use]
    pub fn own(&self) -> Option<&Member> {
        let joined = || self.joined.iter().find(|(id, _)| *id == self.me).map(|(_, member)| member);
        self.members.get(usize::from(self.me.0)).or_else(joined)
    }
}

/// What the disk remembered, given to a node at its start.
#[derive(Debug)]
pub struct Recovered {
    /// This folder's incarnation: drawn when the folder was made, kept in the identity file.
    pub incarnation: u64,
    /// What the journal holds, in order.
    pub journal: storage::Recovered,
    /// Of each partition the newest snapshot that can be read.
    pub snapshots: Vec<RecoveredSnapshot>,
    /// A newer snapshot was there and is damaged, or the store was.
    pub snapshot_damaged: bool,
    /// The store that the state is in. Without one it is in memory, and snapshots of all of it go to files.
    pub store: Option<Below>,
}

/// A snapshot read back.
#[derive(Debug)]
pub struct RecoveredSnapshot {
    /// Whose state it is.
    pub partition: PartitionId,
    /// The last entry that it contains.
    pub position: Position,
    /// The opaque header bytes.
    pub header: Bytes,
    /// The state, restored by [`crate::Restorer`] from the blocks.
    pub restored: crate::Restorer,
}
