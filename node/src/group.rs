//! One partition on this node with everything that belongs to it alone: the replica and its state, what this node's clients wait for
//! from it, transfers of its snapshots. What all partitions share (journal, links, connections, clocks) is the node's.

use std::collections::VecDeque;
use std::time::Duration;

use base::{Ballot, BucketId, NodeId, Now, PartitionId, Position, Time};
use paxos::{Input as Step, Roster};

use crate::bucket::Bucket;
use crate::copies::Copies;
use crate::council::COUNCIL;
use crate::door::{Config, Level, LogLine};
use crate::elsewhere::{Elsewhere, Follower};
use crate::entry::Life;
use crate::image::RestoredState;
use crate::journal::Batch;
use crate::partition::{Partition, Wishes};
use crate::router::Router;
use crate::transfer::Transfers;
use crate::turn::flushes::Unflushed;

/// The partition that everybody is in who has not chosen another: all hash slots of the default bucket.
pub(crate) const DEFAULT_PARTITION: PartitionId = PartitionId { bucket: BucketId(0), index: 0 };

/// However far away the next deadline of a key is, a leader looks so often.
const EXPIRY_SLEEP_MAX: Duration = Duration::from_secs(1);

/// Whether a peer is up, the ballot under which it leads, and how it rests.
pub(crate) type Told = (bool, Option<Ballot>, Option<(Ballot, Position)>);

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
    /// This node has no state of it to answer from.
    pub elsewhere: Option<Box<Elsewhere>>,
    /// This node shall have no copy of it.
    pub is_unseated: bool,
    /// Up to where this node's clients were told what becomes of keys, by others' words or its own state, when it last turned from one to the other.
    pub events_told: Position,
    /// Nodes that have none and are told what changes.
    pub followers: Vec<Follower>,
    pub transfers: Transfers,
    /// Which replicas have how much, and who waits for that.
    pub copies: Copies,
    pub wishes: Wishes,
    /// Who shall vote, as the replica was last told.
    pub roster: Option<Roster>,
    /// The leadership of this node under which it looked last who else has something of it.
    pub looked_under: Option<Ballot>,
    /// The last ballot under which another node has said that it leads.
    pub led_under: Option<Ballot>,
    /// The life under which writes are numbered is known for certain.
    pub life_is_settled: bool,
    /// What the replica was last told of each peer, in the detectors' order.
    pub told: Vec<Told>,
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
        mut partition: Partition,
        bucket: Bucket,
        peers: usize,
        (boot, held_for): (u64, Duration),
        now: Time,
    ) -> Group {
        // From now on its keys are idle, until they are used.
        partition.last_uses.turn(now, partition.tree.len());
        Group {
            router: Router::new(partition.life, now),
            elsewhere: (partition.replica.joins() && partition.id != COUNCIL).then(Box::default),
            is_unseated: false,
            events_told: Position(0),
            followers: Vec::new(),
            partition,
            bucket,
            transfers: Transfers::new(boot, held_for),
            copies: Copies::default(),
            wishes: Wishes::default(),
            roster: None,
            led_under: None,
            looked_under: None,
            life_is_settled: false,
            told: vec![(false, None, None); peers],
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

    /// This node has nothing of it: its replica is one that might come to have something.
    pub(crate) fn is_bare(&self) -> bool {
        self.elsewhere.is_some() && self.partition.applied == Position(0) && self.partition.is_new()
    }

    /// Who has founded it.
    pub(crate) fn founders(&self, config: &Config) -> Vec<NodeId> {
        self.bucket.founded_by(config.members.len())
    }

    /// Who votes, as the leader of this ballot says it; nobody while that is not decided, or is about to change.
    pub(crate) fn settled_voters(&self) -> Vec<NodeId> {
        let replica = &self.partition.replica;
        let members = replica.members();
        let opened = replica.opening().is_some_and(|opening| opening <= replica.decided());
        if !opened || members.is_joint() || members.at > replica.decided() { Vec::new() } else { members.nodes() }
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

    /// A line for the log about it.
    pub(crate) fn log_line(&self, level: Level, text: &str) -> LogLine {
        let partition = Some((self.name().to_owned(), self.id().index));
        LogLine { level, partition, text: format!("{}{text}", self.about()) }
    }

    pub(crate) fn step(&mut self, now: Time, step: Step, batch: &mut Batch) {
        self.partition.step(now, step, batch, &mut self.wishes);
    }

    /// A peer that takes a snapshot, or has just taken one, wants the log behind this position, which is before `cut`. The entries that a cut leaves for peers that are
    /// a little behind do not count: their bytes have a limit, so there may be few of them.
    pub(crate) fn log_wanted_behind(&mut self, now: Time, cut: Position) -> Option<Position> {
        let replica = &self.partition.replica;
        self.transfers.wanted_behind(now, (replica.log().base(), cut), |peer| replica.matched(peer))
    }

    /// The last decided entry that can be applied: a hole in the log stops before it, and an entry that is to be stepped over.
    pub(crate) fn decided_and_held(&self) -> Position {
        let replica = &self.partition.replica;
        if self.partition.stands_before().is_some() {
            return self.partition.applied;
        }
        match replica.log().hole() {
            Some((from, _)) if from <= replica.decided() => from.previous(),
            _ => replica.decided(),
        }
    }

    /// When this group has something to do, if nothing happens to it before: `now` while anything waits in it, none if nothing will ever be due.
    pub(crate) fn due(
        &self,
        now: Now,
        gives_way: bool,
        disk_full: bool,
        config: &Config,
        together: &Unflushed,
    ) -> Option<Time> {
        let Group { partition, bucket, router, .. } = self;
        let leads = partition.replica.leads().is_some();
        let has_asked = self.elsewhere.as_ref().is_some_and(|elsewhere| elsewhere.question.is_some());
        // It looks in every tick whether it can answer itself by now.
        let comes_home = self.elsewhere.is_some() && !self.is_unseated && partition.applied > Position(0);
        let is_elsewhere = has_asked || comes_home || !self.followers.is_empty();
        let is_idle = router.is_idle() && self.copies.is_idle() && self.transfers.is_idle() && self.saving.is_none();
        let waits = is_elsewhere || !is_idle;
        let evicts =
            leads && partition.evicting.is_some() && partition.tree.bytes() > bucket.settings.quota_of_partition();
        // While the disk is full, and when the node is drained, leaderships are given away.
        let is_busy = waits || evicts || !self.is_settled() || !self.life_is_settled || (leads && gives_way);
        if is_busy || !self.wishes.evicted.is_empty() {
            return Some(now.time);
        }
        let tells_read = partition.evicting.as_ref().and_then(|evicting| evicting.due());
        let expires = if leads && !disk_full { self.expiry_due(now) } else { None };
        [partition.replica.due(now.time), partition.due(now.time, config, together), tells_read, expires]
            .into_iter()
            .flatten()
            .min()
    }

    /// When a leader has to look for keys whose time is up, and for elements that nobody reaches.
    fn expiry_due(&self, now: Now) -> Option<Time> {
        let tree = &self.partition.tree;
        if tree.has_garbage() {
            return Some(now.time);
        }
        let in_ms = tree.next_deadline()?.0.saturating_sub(now.wall.0);
        // The wall's clock may be set.
        Some((now.time + Duration::from_millis(in_ms).min(EXPIRY_SLEEP_MAX)).max(self.next_expiry))
    }

    /// Whether a turn's passes have nothing more to do here.
    pub(crate) fn is_settled(&self) -> bool {
        self.wishes.confirmed.is_none()
            && self.wishes.completed.is_empty()
            && self.router.weak.is_empty()
            && self.partition.applied >= self.decided_and_held()
    }

    /// Whether the next turn has something to do here, even if nothing comes to it before.
    pub(crate) fn goes_on(&self) -> bool {
        !self.is_settled() || self.partition.cut_to.is_some() || !self.wishes.evicted.is_empty()
    }
}
