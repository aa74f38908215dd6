//! Events for the audit trail: logins, refusals, orders and their outcomes.
//!
//! ```text
//!   AUTH, HELLO, refusals ─┐
//!   orders and FLUSH… ─────┼─► Audit ─► Outbox::audit ─► the owner writes it (server/src/audit/)
//!   the council's log ─────┘
//! ```
//! The record of an answer stands in the same [`crate::Outbox`] as the answer, so an owner that takes records first never answers what it has no record of.
//!
//! 1. A login, a failed login and a refusal are told when they are answered. Each of these three kinds has an [`Allowance`], and so have orders, but for those about users, settings and buckets that are
//!    done: a client can cause all others without end, and must not fill its node's disk, nor push older records out of it. The events beyond an allowance are counted, and a record tells their number.
//! 2. An order (`ACL SETUSER`, `CONFIG SET`, `DICTUM.BUCKET …`, `DICTUM.NODE …`, `FLUSHALL`, …) is told with its outcome, at the node that its client is connected to.
//! 3. Reads and writes of keys are told if the setting `audit-keys` asks for them ([`accesses`]).
//! 4. How far a node has signed its trail stands in the council's registry and, by rule 5, in the trails of all others ([`marks`]).
//! 5. Every node records each change of the council's state as it follows the log: so the record stands on all disks, and not only on that of the node that was asked.

pub(crate) mod accesses;
mod allowance;
mod glue;
mod marks;
mod shown;

use std::collections::BTreeMap;

use base::{NodeId, PartitionId, Position, Time, WallTime};

use crate::door::ConnectionId;
use crate::registry::TrailMark;
use accesses::AuditedKeys;
pub use allowance::Allowance;
pub(crate) use glue::{
    answered, asked, closed, end, followed_buckets, followed_registry, followed_users, logged_in, login_failed,
    refused, tick, took,
};
pub(crate) use marks::signed;

/// Most orders whose answer is awaited; those beyond are told at once.
const PENDING_MAX: usize = 10_000;
/// Most names in one record.
const NAMES_MAX: usize = 64;

/// An event, and the machine's clock when it happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuditRecord {
    /// The machine's own clock, in milliseconds since the Unix epoch.
    pub at: WallTime,
    /// The event.
    pub event: AuditEvent,
}

/// The client behind an event.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Actor {
    /// The name of the user, escaped. After a failed login: the name that was tried.
    pub user: String,
    /// The address of the client, as `CLIENT LIST` has it.
    pub client: String,
}

/// Events for the audit trail. All texts are printable ASCII: bytes of clients are escaped as `wire::quote` does. None has a password.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AuditEvent {
    /// A client has shown a user's password.
    LoggedIn(Actor),
    /// A client has shown a wrong password, or the name of no user.
    LoginFailed(Actor),
    /// A command was refused by the rights of its user.
    Refused {
        /// The client.
        by: Actor,
        /// `command`, `key`, `channel` or `database`.
        reason: &'static str,
        /// The command, key, channel or bucket.
        object: String,
    },
    /// A command that reads or writes keys was carried out, as `audit-keys` asks to be told.
    Accessed {
        /// The client.
        by: Actor,
        /// The name of the command.
        command: &'static str,
        /// The bucket.
        bucket: String,
        /// `read`, `write` or both.
        access: &'static str,
        /// The keys that fit.
        keys: Vec<String>,
        /// How many more there were.
        more: usize,
    },
    /// An order was answered.
    Ordered {
        /// The client.
        by: Actor,
        /// The words of the command, shortened, without passwords.
        words: Vec<String>,
        /// `ok`, the error that the client was told, or why no answer is known.
        outcome: String,
    },
    /// This node goes by other users than before.
    UsersFollowed {
        /// The users that were made, changed or deleted.
        users: Vec<String>,
        /// How many more there were.
        more: usize,
    },
    /// The council has taken in a node.
    NodeJoined {
        /// Its number.
        node: NodeId,
        /// Its name.
        name: String,
        /// The address where other nodes reach it.
        address: String,
    },
    /// The council has removed a node.
    NodeRemoved {
        /// Its number.
        node: NodeId,
    },
    /// The council has a new bucket.
    BucketMade {
        /// Its name.
        name: String,
    },
    /// The council has changed the settings of a bucket.
    BucketChanged {
        /// Its name.
        name: String,
    },
    /// The council has dropped a bucket.
    BucketDropped {
        /// Its name.
        name: String,
    },
    /// The council was told of an entry that was stepped over.
    SteppedOver {
        /// The partition.
        partition: PartitionId,
        /// Where the entry stood in its log.
        position: Position,
        /// The checksum of the entry.
        digest: u64,
    },
    /// A node has gone on without all others (`dictum unsafe-recover`).
    WentAlone {
        /// The node.
        node: NodeId,
    },
    /// The council was told how far another node has signed its trail.
    TrailNoted {
        /// The name of that node.
        of: String,
        /// The last record of its trail at that time.
        mark: TrailMark,
    },
    /// Events of a kind were so many that not all of them were told.
    LeftOut {
        /// The kind, as [`AuditEvent::kind`] names it.
        of: &'static str,
        /// How many were left out since the last such record.
        count: u64,
    },
}

impl AuditEvent {
    /// The kind of the event, as it stands in records.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            AuditEvent::LoggedIn(_) => LOGIN,
            AuditEvent::LoginFailed(_) => LOGIN_FAILED,
            AuditEvent::Refused { .. } => REFUSED,
            AuditEvent::Accessed { .. } => ACCESS,
            AuditEvent::Ordered { .. } => ORDER,
            AuditEvent::UsersFollowed { .. } => "users-followed",
            AuditEvent::NodeJoined { .. } => "node-joined",
            AuditEvent::NodeRemoved { .. } => "node-removed",
            AuditEvent::BucketMade { .. } => "bucket-made",
            AuditEvent::BucketChanged { .. } => "bucket-changed",
            AuditEvent::BucketDropped { .. } => "bucket-dropped",
            AuditEvent::SteppedOver { .. } => "stepped-over",
            AuditEvent::WentAlone { .. } => "unsafe-recover",
            AuditEvent::TrailNoted { .. } => TRAIL_NOTED,
            AuditEvent::LeftOut { .. } => "left-out",
        }
    }
}

const LOGIN: &str = "login";
const LOGIN_FAILED: &str = "login-failed";
const REFUSED: &str = "refused";
const ORDER: &str = "order";
const ACCESS: &str = "access";
/// The kind of a record that notes another node's mark. It is no reason to tell the council of a new mark: two nodes would note each other's marks for ever.
pub const TRAIL_NOTED: &str = "trail-noted";

/// Orders that were taken together: one, or those of a transaction.
#[derive(Debug)]
pub(crate) struct Asked {
    by: Actor,
    /// The words of each, as they are shown.
    orders: Vec<Vec<String>>,
    /// They stand in a transaction, and are done all together or not at all.
    is_transaction: bool,
    /// How many slots the connection had opened before.
    opened: u64,
}

/// The audit trail of a node, until its owner has it.
#[derive(Debug, Default)]
pub(crate) struct Audit {
    /// The owner cannot write the trail.
    pub fails: bool,
    /// For the owner.
    new: Vec<AuditRecord>,
    logins: Allowance,
    failures: Allowance,
    refusals: Allowance,
    /// Of orders that are not the council's, or were refused at once.
    others: Allowance,
    /// Which reads and writes of keys are told.
    pub audited: AuditedKeys,
    accesses: Allowance,
    /// Orders that are on their way, by the slot of their answer.
    pending: BTreeMap<(ConnectionId, u64), Asked>,
    /// The command that is being carried out is an order; and the error that its client was told.
    is_asked: bool,
    error: Option<String>,
    /// The council's state was looked at once: what differs from then on is news.
    has_followed: bool,
    /// When the next look is due whether something was left out.
    next_report: Time,
    marks: marks::Marks,
}

impl Audit {
    /// The records since the last call, in order.
    pub(crate) fn take(&mut self, out: &mut Vec<AuditRecord>) {
        out.append(&mut self.new);
    }

    /// The client of the command that is being carried out was told an error.
    pub(crate) fn note_error(&mut self, error: &data::Failure) {
        if self.is_asked {
            self.error = Some(shown::error(error));
        }
    }

    fn push(&mut self, at: WallTime, event: AuditEvent) {
        self.new.push(AuditRecord { at, event });
    }
}
