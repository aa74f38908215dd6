//! One server without I/O: sessions, router, partitions.
//!
//! ```text
//!  client bytes ─► dispatch ─► router ─► partition ─► paxos ─► partition ─► data ─► router ─► session ─► reply bytes
//!                 (session)   (waits)   (propose)             (apply)
//! ```
//! The owner (the server's loop, or the simulator) speaks to [`Node`] through [`door`] alone.

mod access;
pub mod alone;
mod applying;
mod archive;
mod audit;
mod backlog;
mod backup;
mod below;
mod borne;
mod bucket;
mod burden;
mod choice;
mod clock;
mod commands;
mod comparison;
mod copies;
mod council;
mod databases;
mod departures;
mod detector;
mod disk;
mod dispatch;
pub mod door;
mod durations;
mod elsewhere;
mod entry;
mod errands;
mod eviction;
mod foreign;
mod forgery;
mod founding;
mod full_sync;
pub mod fuzzing;
mod group;
mod groups;
mod guesses;
mod heat;
mod idle;
mod image;
pub mod inspect;
mod intake;
mod journal;
mod keyring;
mod lane;
mod large;
mod levels;
mod lives;
mod looks;
mod memories;
mod monitor;
mod newcomers;
mod node;
mod notifications;
mod origins;
mod outcast;
mod outlived;
mod pace;
mod partition;
mod passwords;
mod pause;
mod peer;
mod placement;
mod planner;
mod planted;
mod probes;
mod pubsub;
mod redirect;
mod registry;
mod reply;
mod roll;
mod router;
mod routing;
mod session;
mod sessions;
mod settings;
mod slow;
mod stats;
mod status;
mod step_over;
mod submit;
mod subscriptions;
mod testimony;
mod topology;
mod tracking;
mod transaction;
mod transfer;
mod trimming;
mod tunables;
mod turn;
mod usage;
mod versions;
mod waiting;
mod watches;
mod words;

use base::{NodeId, Position};

pub use access::lease::MADE as CHANGE_MADE;
pub use access::logins::{Login, Logins, Verdict};
pub use access::roles::{NAMES as ROLES, role_of};
pub use access::rules::digest_of as password_digest;
pub use applying::Applying;
pub use archive::{Archive, ArchiveReader, RebuildError, Row};
pub use audit::{Actor, Allowance as AuditAllowance, AuditEvent, AuditRecord, TRAIL_NOTED};
pub use below::{Below, FlushJob};
pub use clock::TOLERATED as CLOCK_TOLERATED;
pub use commands::COMPATIBLE_VERSION;
pub use data::algorithms::rdb;
pub use data::rebuild::Manner;
pub use data::rows::HEADER as CSV_HEADER;
pub use data::token::Token as ChangesToken;
pub use door::{
    CacheWish, Config, ConnectionId, DiskRoom, Input, JournalWrite, LargeWriteSettings, Level, LinkTerms, Listener,
    LogLine, LogTrimSettings, Member, Nodes, Outbox, OutputLimit, Planted, ProcessFigures, Recovered,
    RecoveredSnapshot, Rubbish, SnapshotContent, SnapshotJob, SnapshotSettings, SubscriptionSettings,
};
pub use errands::{Errand, ErrandAnswer, Heard, Say, Side, Target};
pub use forgery::{PlainSigner, farewell, lies_of};
pub use full_sync::FullSync;
pub use guesses::HostFailures;
pub use image::{Image, Restorer};
pub use node::Node;
pub use passwords::stored::{Argon2Cost, is_password_hash, password_hash};
pub use passwords::work::{PasswordOutcome, PasswordWork};
pub use peer::busy_sign;
pub use probes::PROBES;
pub use registry::{NodeKey, TrailMark, is_zone};
pub use subscriptions::glue::{Recorded, RecordedChange, StoredKey, recorded, stored_key, stored_keys};
pub use testimony::Signer;
pub use transfer::jobs::{BlockJob, MadeBlock, ReceiveJob, TakenBlocks};
pub use versions::version_of_message;

/// The keys that a client's command names; none if it names none, or is not known here.
#[must_use]
pub fn keys_of<'a>(words: &[&'a [u8]]) -> Vec<&'a [u8]> {
    let entry = words.first().and_then(|name| data::lookup(name));
    entry.map_or_else(Vec::new, |entry| entry.spec.keys_of(words))
}

/// Why a node cannot start from what its folder holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartError(pub String);

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StartError {}

/// A replica of a bucket that evicts, as checkers see it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CacheNews {
    /// Whose it is.
    pub partition: base::PartitionId,
    /// The last entry of its log, decided or not.
    pub last: Position,
    /// Entries up to here are in the state.
    pub applied: Position,
    /// The bucket's name.
    pub bucket: String,
    /// Its quota.
    pub quota_bytes: u64,
    /// Bytes of all keys and values.
    pub bytes: u64,
    /// The most that this has been after any entry since the process started.
    pub bytes_most: u64,
    /// What the last turn has evicted: by which entry, and the key.
    pub evicted: Vec<(Position, Vec<u8>)>,
}

/// Positions of one replica: `applied <= decided`, `persisted` counts what its own disk has.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// Entries up to here are known to be decided.
    pub decided: Position,
    /// Entries up to here are on this node's disk.
    pub persisted: Position,
    /// Entries up to here are in the state.
    pub applied: Position,
    /// The first entry that the log still holds.
    pub first: Position,
    /// Something that it knew is lost: it does not vote until it has recovered, or has a hole in its log.
    pub lost: bool,
    /// The last write that was answered here as being on the disks of all voters.
    pub on_all: Position,
    /// Who voted then.
    pub all: Vec<NodeId>,
    /// The replica votes: it is founded, and has its memory or has recovered it; and that is on disk, with all else that it knows.
    pub votes: bool,
    /// It is on disk. One that is in memory only loses it with its process, and recovers from others.
    pub durable: bool,
}

/// Who votes in a partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Voters {
    /// By the last entry of this node's log that says so, decided or not: one list, sorted; of a joint group the old and the new one.
    pub now: Vec<Vec<NodeId>>,
    /// Who did before that.
    pub before: Vec<Vec<NodeId>>,
    /// Who shall; empty if that is not to change.
    pub wanted: Vec<NodeId>,
    /// Where the entry stands that says who does now; 0: they are the founders.
    pub at: Position,
    /// The same of those before.
    pub before_at: Position,
    /// This node knows that entry to be decided.
    pub is_decided: bool,
}

/// What the council's state says of nodes and votes, as far as a node has applied its log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Placement {
    /// The epoch of the cluster map.
    pub epoch: u64,
    /// The council, and every partition of every bucket.
    pub partitions: Vec<Placed>,
    /// Who has joined and was not removed since, with their names.
    pub joined: Vec<(NodeId, String)>,
    /// Who was removed.
    pub removed: Vec<NodeId>,
}

/// One partition in a [`Placement`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placed {
    /// Which.
    pub partition: base::PartitionId,
    /// Its hash slots: the first one, and the one behind the last; none of the council.
    pub slots: Option<(u16, u16)>,
    /// Who shall vote; whoever shall lead first.
    pub seats: Vec<NodeId>,
    /// Which order says so: the map's epoch, and of a bucket in memory the number of the last move of its voters.
    pub epoch: u64,
}
