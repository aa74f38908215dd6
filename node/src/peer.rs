//! Messages between nodes, as bytes. One frame of `wire` carries one of them.

pub(crate) mod carried;
mod changes;
mod coding;
mod ping;
mod protocol;

use base::versions::Feature;
use base::{Ballot, NodeId, PartitionId, Position, Revision, WallTime};
use bytes::Bytes;
use paxos::{Entry, Message};

use crate::entry::{Kind, Life};
use crate::image::Ending;
use crate::step_over::Said;
use crate::subscriptions::feeds::Stamped;
use crate::subscriptions::pages::PageQuestion;
use crate::subscriptions::walk::Page;
use crate::testimony::SignedClaim;
use carried::{CarriedAnswer, CarriedRead, FedEntry, Outcome};
pub(crate) use ping::{PartitionNews, Ping, ToldRoom};
pub(crate) use protocol::{decode_entries, decode_members, encode_entries, encode_members};

/// A write on its way to the leader.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Forwarded {
    pub kind: Kind,
    pub sequence: u64,
    pub body: Bytes,
}

/// A message between nodes.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum PeerMessage {
    Ping(Box<Ping>),
    Paxos {
        partition: PartitionId,
        message: Message,
    },
    /// Writes for the leader, in the order of their sequence numbers.
    Forward {
        partition: PartitionId,
        life: Life,
        floor: u64,
        /// The sender has no state that could tell it what becomes of them: it wants to be told.
        elsewhere: bool,
        writes: Vec<Forwarded>,
    },
    /// What became of such writes, as the leader has applied them.
    Outcomes {
        partition: PartitionId,
        life: Life,
        outcomes: Vec<Outcome>,
    },
    /// Writes of this life do not count: the receiver has had a later one.
    Outlived {
        partition: PartitionId,
        life: Life,
        by: Life,
    },
    /// Reads of a node that has no state to serve them from.
    Carry {
        partition: PartitionId,
        ticket: u64,
        reads: Vec<CarriedRead>,
    },
    /// The same for the leader, by way of the receiver, who is to vouch for it.
    CarryThrough {
        partition: PartitionId,
        ticket: u64,
        reads: Vec<CarriedRead>,
    },
    /// What such a receiver makes of it: reads of `asker`, whom the answers are for, with the ballot for which the sender vouches
    /// ([`paxos::confirm`]).
    CarryFor {
        partition: PartitionId,
        asker: NodeId,
        ticket: u64,
        vouches: Option<Ballot>,
        reads: Vec<CarriedRead>,
    },
    /// The answers to the first of them, to one at least, as of this revision or a later one.
    Carried {
        partition: PartitionId,
        ticket: u64,
        revision: Revision,
        answers: Vec<CarriedAnswer>,
    },
    /// "Tell me what changes, for a while": the feed of this number.
    Follow {
        partition: PartitionId,
        feed: u64,
    },
    /// What the entries behind `after` have changed, up to `until`.
    Feed {
        partition: PartitionId,
        feed: u64,
        after: Position,
        until: Position,
        entries: Vec<FedEntry>,
    },
    /// "Tell me the changes behind this revision, with values, for a while": see [`crate::subscriptions::feeds`].
    FollowChanges {
        partition: PartitionId,
        feed: u64,
        after: Revision,
    },
    /// The changes right behind `after`.
    FedChanges {
        partition: PartitionId,
        feed: u64,
        after: Revision,
        records: Vec<Stamped>,
    },
    /// "Tell me stored keys": see [`crate::subscriptions::pages`].
    WantPage {
        partition: PartitionId,
        question: Box<PageQuestion>,
    },
    /// Stored keys.
    Page {
        partition: PartitionId,
        ticket: u64,
        page: Box<Page>,
    },
    /// "At which position may I serve the reads that I have?" With the ballot for which the asking replica vouches ([`paxos::confirm`]).
    ReadIndex {
        partition: PartitionId,
        ticket: u64,
        vouches: Option<Ballot>,
    },
    /// The leader's answer, after a majority has confirmed it.
    ReadIndexReply {
        partition: PartitionId,
        ticket: u64,
        position: Position,
        clock: WallTime,
        ballot: Ballot,
        /// Everything up to the position is decided. Where it is not said, [`Message::Decided`] says it.
        is_decided: bool,
    },
    /// "Tell me which nodes have the log on their disks, until all have it up to `position`."
    CopiesQuestion {
        partition: PartitionId,
        position: Position,
    },
    /// The leader's answer, and again whenever it changes: up to where each node's disk has the log.
    Copies {
        partition: PartitionId,
        ballot: Ballot,
        copies: Vec<(NodeId, Position)>,
    },
    /// "I hold a snapshot of this position for you." `transfer` grows with each of a sender's transfers.
    SnapshotOffer {
        partition: PartitionId,
        transfer: u64,
        position: Position,
        ballot: Ballot,
    },
    /// One block of a snapshot; the last one with what the receiver must have come to.
    SnapshotBlock {
        partition: PartitionId,
        transfer: u64,
        index: u64,
        ending: Option<Ending>,
        block: Bytes,
    },
    /// What the receiver of a snapshot wants: it has all blocks before `index`.
    SnapshotWant {
        partition: PartitionId,
        transfer: u64,
        index: u64,
        wish: Wish,
    },
    /// Keys of a bucket that evicts, by their places in the store's order: clients have read them at the sender.
    Touched {
        partition: PartitionId,
        orders: Vec<u64>,
    },
    /// What was published at the sender, and how many listen there: see [`crate::pubsub`]. `anew`: forget what you know of the listeners.
    Bulletin {
        number: u64,
        anew: bool,
        items: Bytes,
    },
    /// "I have heard your bulletins up to this one; and I know all of your listeners."
    BulletinsHeard {
        number: u64,
        whole: bool,
    },
    /// "You were removed from this cluster."
    Farewell {
        cluster: u64,
    },
    /// "I have gone on without this cluster, which is yours": see [`crate::alone`].
    LeftBehind {
        cluster: u64,
    },
    /// The digest of the sender's state of a partition behind the entry at this position.
    Digest {
        partition: PartitionId,
        position: Position,
        ending: Ending,
    },
    /// A claim about a folder, signed by the folder's node: see [`crate::testimony`].
    SignedClaim(Box<SignedClaim>),
    /// How the sender stands to an entry that is to be stepped over: see [`crate::step_over`].
    Stand(Said),
    /// "I am alive, and at one long piece of work": sent by the node's owner while the node itself cannot. See [`busy_sign`].
    Busy,
}

/// The sign of life of a node whose loop is at one long piece of work, for its owner to send meanwhile on each link that is up: the payload of a frame. None on
/// a link of a version that does not know it. The owner vouches for the loop: it sends the sign while a step of [`crate::Node`] takes long, and stops after
/// [`base::limits::BUSY_MAX`], because a loop that hangs must be suspected.
#[must_use]
pub fn busy_sign(version: u16) -> Option<Vec<u8>> {
    let mut payload = Vec::new();
    PeerMessage::Busy.encode(version, &mut payload);
    Feature::Busy.is_in(version).then_some(payload)
}

/// What the receiver of a snapshot says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wish {
    /// Send the block.
    Next,
    /// Nothing now: it is still writing. The view is to be kept.
    Wait,
    /// Nothing more.
    Done,
}

impl PeerMessage {
    /// Which partition it is about, if it is about one.
    pub(crate) fn partition(&self) -> Option<PartitionId> {
        match self {
            PeerMessage::Ping(_)
            | PeerMessage::SignedClaim(_)
            | PeerMessage::Bulletin { .. }
            | PeerMessage::BulletinsHeard { .. }
            | PeerMessage::Farewell { .. }
            | PeerMessage::LeftBehind { .. }
            | PeerMessage::Stand(_)
            | PeerMessage::Busy => None,
            PeerMessage::Paxos { partition, .. }
            | PeerMessage::Forward { partition, .. }
            | PeerMessage::Outcomes { partition, .. }
            | PeerMessage::Outlived { partition, .. }
            | PeerMessage::Carry { partition, .. }
            | PeerMessage::CarryThrough { partition, .. }
            | PeerMessage::CarryFor { partition, .. }
            | PeerMessage::Carried { partition, .. }
            | PeerMessage::Follow { partition, .. }
            | PeerMessage::Feed { partition, .. }
            | PeerMessage::FollowChanges { partition, .. }
            | PeerMessage::FedChanges { partition, .. }
            | PeerMessage::WantPage { partition, .. }
            | PeerMessage::Page { partition, .. }
            | PeerMessage::ReadIndex { partition, .. }
            | PeerMessage::ReadIndexReply { partition, .. }
            | PeerMessage::CopiesQuestion { partition, .. }
            | PeerMessage::Copies { partition, .. }
            | PeerMessage::SnapshotOffer { partition, .. }
            | PeerMessage::SnapshotBlock { partition, .. }
            | PeerMessage::SnapshotWant { partition, .. }
            | PeerMessage::Touched { partition, .. }
            | PeerMessage::Digest { partition, .. } => Some(*partition),
        }
    }

    /// About so many bytes it takes, if these are many.
    pub(crate) fn bytes_expected(&self) -> usize {
        match self {
            PeerMessage::Paxos {
                message: Message::Accept { entries, .. } | Message::Fetched { entries, .. }, ..
            } => entries.iter().map(Entry::weight).sum(),
            PeerMessage::Bulletin { items, .. } => items.len(),
            _ => 0,
        }
    }
}
