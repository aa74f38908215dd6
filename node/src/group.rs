//! One partition on this node with everything that belongs to it alone: the replica and its state, what this node's clients wait for
//! from it, transfers of its snapshots. What all partitions share (journal, links, connections, clocks) is the node's.

use std::collections::VecDeque;
use std::time::Duration;

use base::{Ballot, BucketId, NodeId, PartitionId, Position, Time};
use paxos::Input as Step;

use crate::bucket::Bucket;
use crate::copies::Copies;
use crate::council::COUNCIL;
use crate::entry::Life;
use crate::image::RestoredState;
use crate::journal::Batch;
use crate::partition::{Partition, Wishes};
use crate::router::Router;
use crate::transfer::Transfers;

/// The partition that everybody is in who has not chosen another: all hash slots of the default bucket.
pub(crate) const DEFAULT_PARTITION: PartitionId = PartitionId { bucket: BucketId(0), index: 0 };

/// A snapshot that is being written to disk.
#[derive(Debug)]
pub(crate) struct Saving {
    pub position: Position,
    /// It came from a peer and becomes the state once it is on disk.
    pub install: Option<Box<RestoredState>>,
}

/// A peer's question for a read position, waiting for confirmation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Query {
    /// The leadership that it was put to: rounds are counted anew under each.
    pub ballot: Ballot,
    pub round: u64,
    pub peer: NodeId,
    pub ticket: u64,
    pub position: Position,
}

/// See the file's head.
#[derive(Debug)]
pub(crate) struct Group {
    pub partition: Partition,
    /// What the council says of its bucket (the council's own: the default's).
    pub bucket: Bucket,
    pub router: Router,
    pub transfers: Transfers,
    /// Which replicas have how much, and who waits for that.
    pub copies: Copies,
    pub wishes: Wishes,
    /// The life under which writes are numbered is known for certain.
    pub life_is_settled: bool,
    /// What the replica was last told of each peer, in the detectors' order.
    pub told: Vec<(bool, Option<Ballot>)>,
    pub queries: VecDeque<Query>,
    /// The highest write number taken from each peer under this leadership.
    pub taken: Vec<(NodeId, Life, u64)>,
    pub taken_under: Option<Ballot>,
    pub saving: Option<Saving>,
    pub next_expiry: Time,
    pub next_snapshot: Time,
    pub next_escape: Time,
}

impl Group {
    /// A group of which nothing has been asked yet; `peers` others have replicas.
    pub(crate) fn new(
        partition: Partition,
        bucket: Bucket,
        peers: usize,
        (boot, held_for): (u64, Duration),
        now: Time,
    ) -> Group {
        Group {
            router: Router::new(partition.life, now),
            partition,
            bucket,
            transfers: Transfers::new(boot, held_for),
            copies: Copies::default(),
            wishes: Wishes::default(),
            life_is_settled: false,
            told: vec![(false, None); peers],
            queries: VecDeque::new(),
            taken: Vec::new(),
            taken_under: None,
            saving: None,
            next_expiry: now,
            next_snapshot: now,
            next_escape: now,
        }
    }

    pub(crate) fn id(&self) -> PartitionId {
        self.partition.id
    }

    /// The name of its bucket; the council is in none.
    pub(crate) fn name(&self) -> &str {
        if self.id() == COUNCIL { "council" } else { &self.bucket.name }
    }

    /// What stands before events about it: of the default bucket nothing.
    pub(crate) fn about(&self) -> String {
        match self.id() {
            DEFAULT_PARTITION => String::new(),
            COUNCIL => "council: ".to_owned(),
            id if self.bucket.settings.partitions > 1 => {
                format!("bucket {}, partition {}: ", self.bucket.name, id.index)
            }
            _ => format!("bucket {}: ", self.bucket.name),
        }
    }

    pub(crate) fn step(&mut self, now: Time, step: Step, batch: &mut Batch) {
        self.partition.step(now, step, batch, &mut self.wishes);
    }

    /// A peer that takes a snapshot, or has just taken one, wants the log behind this position. The last `keep` entries are there for whoever is a little behind.
    pub(crate) fn log_wanted_behind(&mut self, now: Time, keep: u64) -> Option<Position> {
        let replica = &self.partition.replica;
        let level = Position(replica.decided().0.saturating_sub(keep));
        self.transfers.wanted_behind(now, (replica.log().base(), level), |peer| replica.matched(peer))
    }

    /// The last decided entry that can be applied: a hole in the log stops before it.
    pub(crate) fn decided_and_held(&self) -> Position {
        let replica = &self.partition.replica;
        match replica.log().hole() {
            Some((from, _)) if from <= replica.decided() => from.previous(),
            _ => replica.decided(),
        }
    }

    /// Whether a turn's passes have nothing more to do here.
    pub(crate) fn is_settled(&self) -> bool {
        self.wishes.confirmed.is_none()
            && self.wishes.completed.is_empty()
            && self.partition.applied >= self.decided_and_held()
    }
}
