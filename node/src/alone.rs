//! A node goes on alone: what `dictum unsafe-recover` writes to the journal of a stopped one, and what is lost by it.
//!
//! A majority of those who vote is gone for good, and nothing can be decided any more. One of those who are left is made the only voter of
//! everything that it has. That breaks the promise of all the protocol: what others have decided without this node is lost. So nothing of this
//! happens by itself, and what is written is as little out of the ordinary as can be:
//! - The end of each log is taken for decided, whether it was or not: who was told that something is done may have been told so of this.
//! - Behind it stands an entry that names this node as the only voter, under a ballot far above all that this node knows of.
//! - Behind that, in the council's log, an order (`Order::Alone`): the cluster has another name from there on, all others are absent, and no
//!   number that any of these may have will be given again. Whoever comes back with such a number is not listened to (it may have promised and
//!   decided what never was, for this cluster), and is told so.
//!
//! All of it is one payload of the journal, so a crash leaves all or nothing of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::limits::NODES_EVER_MAX;
use base::versions::{NEWEST, OLDEST};
use base::{Ballot, NodeId, PartitionId, Position, WallTime};
use bytes::Bytes;
use data::{EntryContext, Tree};
use paxos::{Entry, HardState, Log, Member as Voter, Members, Membership, Record};

use crate::bucket::{Bucket, BucketKind};
use crate::council::{self, Buckets, COUNCIL, Order};
use crate::door::{Member, Planted, Recovered};
use crate::entry::{self, Header, Kind, Life, Origin};
use crate::group::DEFAULT_PARTITION;
use crate::image::RestoredState;
use crate::inspect::kind_of;
use crate::journal::{self, Batch, Rebuilt};
use crate::registry::Registry;
use crate::words::Terms;

/// By how much the new ballot is above all that this node knows of: the others have gone further, perhaps, but not so far.
const ROUNDS_AHEAD: u64 = 1 << 20;
/// So many numbers of nodes that the others have let in, perhaps, without this node's knowing.
const NUMBERS_SPARED: u16 = 8;

/// What has to be known besides what the disk remembers.
#[derive(Clone, Debug)]
pub struct Survivor<'a> {
    /// The node that goes on.
    pub me: NodeId,
    /// Who has founded the cluster, by their numbers.
    pub founders: &'a [Member],
    /// Who has joined since, as far as the node was told.
    pub joined: &'a [(NodeId, Member)],
    /// The new name of the cluster: chance.
    pub cluster: u64,
    /// What the clock says.
    pub now: WallTime,
    /// A mistake that the simulator's checkers have to find; none everywhere else.
    pub planted: Option<Planted>,
}

/// What will be so, and what has to be written for it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    /// All nodes that there are, by their numbers.
    pub nodes: BTreeMap<NodeId, Member>,
    /// The council, and every partition of every bucket that is on disks.
    pub partitions: Vec<Fate>,
    /// Buckets in memory only: they begin anew, empty.
    pub ephemeral: Vec<String>,
    /// The node votes alone everywhere: there is nothing to do.
    pub is_alone: bool,
    /// The first number that will be given to a node that joins; 0 where there is nothing to do.
    pub below: u16,
    /// The next payload of the journal.
    pub payload: Bytes,
}

/// What becomes of one partition.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Fate {
    /// Which one.
    pub partition: PartitionId,
    /// It is the council.
    pub is_council: bool,
    /// The name of its bucket; empty for the council, and where the council does not know it.
    pub bucket: String,
    /// Who votes, by this node's log; while that changes, the old ones and the new ones.
    pub voters: Vec<NodeId>,
    /// Whether this node is one of them. If not, nothing that was acknowledged had to reach it.
    pub votes: bool,
    /// The disk has nothing of it: it begins empty.
    pub is_empty: bool,
    /// Up to where the state on the disk has it.
    pub state: Position,
    /// Known to be decided.
    pub decided: Position,
    /// The last entry that stays. Of several survivors the one has most whose `ballot` is greatest, and among equals whose `last` is.
    pub last: Position,
    /// The ballot of that.
    pub ballot: Ballot,
    /// The highest ballot that this node has promised.
    pub promised: Ballot,
    /// Entries behind the decided ones, by kind: taken for decided, and perhaps they never were.
    pub undecided: BTreeMap<&'static str, u64>,
    /// What the disk has lost of it, in words: nobody is left to give it back.
    pub damage: Vec<String>,
}

/// What is known of one partition before anything is decided about it.
struct Known {
    bucket: String,
    members: Members,
    hard: Option<HardState>,
    log: Log,
    state: Position,
    /// The highest incarnation of this node in the state.
    lived: u64,
    is_lost: bool,
    cut: Option<(Position, Position)>,
}

/// What it would take for `survivor` to go on alone.
///
/// # Errors
/// What the disk holds is not of this version, or this node cannot be the one; the text says why.
pub fn plan(mut recovered: Recovered, survivor: &Survivor<'_>) -> Result<Plan, String> {
    let stored = crate::node::states(&mut recovered)?;
    let (mut states, journal) = (stored.states, recovered.journal);
    let expected: Vec<PartitionId> = [DEFAULT_PARTITION, COUNCIL].into_iter().chain(states.keys().copied()).collect();
    let place = |id: PartitionId| states.get(&id).map(|state: &RestoredState| (state.position, state.ballot));
    let mut rebuilt = journal::rebuild(&expected, &journal, place, recovered.incarnation, false)?;

    let me = survivor.me;
    let (mut tree, mut at) = (Tree::new(), Position(0));
    let council_state = states.remove(&COUNCIL);
    let council = rebuilt.remove(&COUNCIL).unwrap_or_default();
    let council = Known::new(String::new(), council, council_state.as_ref(), survivor, None);
    if let Some(state) = council_state {
        (tree, at) = (state.tree, state.position);
    }
    apply_orders(&mut tree, &council.log, at);
    let of_other_version = |_| "the council's state is not of this version".to_owned();
    let buckets = Buckets::read(&tree).map_err(of_other_version)?;
    let registry = Registry::read(&tree).map_err(of_other_version)?;
    may_go_on(&council, &registry, me)?;

    let mut known = BTreeMap::from([(COUNCIL, council)]);
    let lasting = |bucket: &&Bucket| bucket.settings.kind != BucketKind::Ephemeral;
    let listed = buckets.list.iter().filter(lasting).flat_map(Bucket::partitions);
    let mut ids: BTreeSet<PartitionId> = listed.collect();
    // Of a bucket that this node's council does not know yet, or any more because of damage.
    ids.extend(rebuilt.keys().filter(|id| !buckets.has_dropped(id.bucket)));
    for id in ids {
        let bucket = buckets.of(id.bucket);
        let name = bucket.map(|bucket| bucket.name.clone()).unwrap_or_default();
        let (rebuilt, state) = (rebuilt.remove(&id).unwrap_or_default(), states.remove(&id));
        known.insert(id, Known::new(name, rebuilt, state.as_ref(), survivor, bucket));
    }

    let mut nodes: BTreeMap<NodeId, Member> = survivor.joined.iter().cloned().collect();
    nodes.extend(survivor.founders.iter().enumerate().map(|(number, it)| (NodeId(number as u16), it.clone())));
    nodes.extend(registry.joined.iter().map(|joined| (joined.id, joined.member.clone())));
    nodes.retain(|id, _| !registry.removed.contains(id));

    let is_alone = known.values().all(|it| it.is_alone(me));
    let (mut batch, mut below) = (Batch::default(), 0);
    if !is_alone {
        let highest = nodes.keys().chain(&registry.removed).map(|id| id.0 + 1).max().unwrap_or_default();
        let given = highest.max(registry.alone.last().map_or(0, |alone| alone.below));
        below = given.saturating_add(NUMBERS_SPARED).min(NODES_EVER_MAX);
        let others = nodes.keys().copied().filter(|id| *id != me).collect();
        let order = Order::Alone { node: me, others, below, cluster: survivor.cluster };
        let incarnation = known.get(&COUNCIL).map_or(1, |council| council.incarnation(recovered.incarnation));
        for (id, it) in &known {
            let life = Life { incarnation, boot: journal.next_number };
            let header = Header {
                // Whoever it is, reads that.
                version: OLDEST,
                kind: Kind::Council,
                time: survivor.now,
                seed: survivor.cluster,
                origin: Origin { node: me, life, sequence: 1, floor: 1 },
            };
            let order = (*id == COUNCIL).then(|| entry::encode(&header, &order.encode()));
            it.write(*id, me, it.incarnation(incarnation), order, &mut batch);
        }
    }
    let ephemeral = buckets.list.iter().filter(|bucket| bucket.settings.kind == BucketKind::Ephemeral);
    Ok(Plan {
        nodes,
        ephemeral: ephemeral.map(|bucket| bucket.name.clone()).collect(),
        is_alone,
        below,
        payload: batch.take(),
        partitions: known.into_iter().map(|(id, it)| it.fate(id, me)).collect(),
    })
}

/// Carries out the orders in the council's log behind the state, decided or not.
fn apply_orders(tree: &mut Tree, log: &Log, state: Position) {
    let mut at = state.max(log.base());
    while at < log.last() {
        at = at.next();
        let Some(entry) = log.get(at) else { return };
        let Ok((header, body)) = Header::decode(&entry.payload, NEWEST) else { continue };
        if let Ok((_, order)) = Terms::split(header.kind, body)
            && header.kind == Kind::Council
        {
            let context = EntryContext { time: header.time, seed: header.seed, ..EntryContext::default() };
            // A start finds out about a malformed one.
            let _ = council::apply(tree, &context, at, order);
        }
    }
}

fn may_go_on(council: &Known, registry: &Registry, me: NodeId) -> Result<(), String> {
    if registry.removed.contains(&me) {
        return Err(
            "this node was removed from the cluster: what it holds may be old, and nobody waits for it".to_owned()
        );
    }
    let Some(hard) = &council.hard else {
        return Err("this node has no replica of the council, or has lost what that promised: so nobody knows what buckets and nodes there are. \
                    Choose another survivor, or restore a backup"
            .to_owned());
    };
    if hard.incarnations.is_empty() && !hard.joins && !hard.recovering {
        return Err("this cluster was not founded when this node stopped: nothing was ever written to it, as far as this folder tells. If the folders of all other nodes say the same (try them first), keep them and start anew, with empty ones".to_owned());
    }
    if hard.joins || !council.members.names(me) {
        return Err("this node has no vote in the council: whatever was decided there, above all what buckets and nodes there are, had to reach others, \
                    and not this one. Choose a survivor that votes, or restore a backup"
            .to_owned());
    }
    Ok(())
}

impl Known {
    fn new(
        name: String,
        rebuilt: Rebuilt,
        state: Option<&RestoredState>,
        survivor: &Survivor<'_>,
        bucket: Option<&Bucket>,
    ) -> Known {
        let restored = rebuilt.restored;
        let (hard, mut log) = (restored.state, restored.log);
        let hole = log.hole();
        let last = log.last();
        if let Some((from, _)) = hole {
            log.truncate_after(Position(from.0 - 1));
        }
        let all = || (0..survivor.founders.len() as u16).map(NodeId).collect::<Vec<NodeId>>();
        let founders = bucket.map_or_else(all, |bucket| bucket.founded_by(survivor.founders.len()));
        let stored = hard.as_ref().and_then(|hard| hard.membership.as_deref());
        let members = match stored {
            Some(Membership { now, before }) if now.at > log.last() => before.clone(),
            Some(Membership { now, .. }) => now.clone(),
            None => Members::founders(&founders),
        };
        if survivor.planted == Some(Planted::AloneWithTheDecided) {
            let known = hard.as_ref().map_or(Position(0), |hard| hard.decided);
            log.truncate_after(known.min(log.last()).max(log.base()));
        }
        let of_state = state.and_then(|state| state.origins.members.clone());
        let members = of_state.filter(|it| it.at > members.at || stored.is_none()).unwrap_or(members);
        let lived = state.and_then(|state| state.origins.life_of(survivor.me)).map_or(0, |life| life.incarnation);
        let is_lost = restored.unprovable || hard.as_ref().is_some_and(|hard| hard.recovering);
        Known {
            bucket: name,
            lived: lived.max(members.admitted(survivor.me).unwrap_or_default()),
            members,
            hard,
            state: state.map_or(Position(0), |state| state.position),
            is_lost,
            cut: hole.map(|(from, _)| (from, last)),
            log,
        }
    }

    fn is_alone(&self, me: NodeId) -> bool {
        let votes = self.hard.as_ref().is_some_and(|hard| !hard.joins && !hard.incarnations.is_empty());
        votes && self.members.nodes() == [me] && !self.is_lost && self.cut.is_none()
    }

    fn decided(&self) -> Position {
        let hard = self.hard.as_ref().map_or(Position(0), |hard| hard.decided);
        hard.max(self.state).min(self.log.last()).max(self.log.base())
    }

    /// Under which incarnation it votes from now on; `own`: that of a replica which has nothing. A memory that was lost does not live on.
    fn incarnation(&self, own: u64) -> u64 {
        let known = self.hard.as_ref().map_or(own, |hard| hard.incarnation).max(self.lived);
        known + u64::from(self.is_lost)
    }

    /// What makes this node the only voter, for the journal. Behind it may stand an order.
    fn write(&self, id: PartitionId, me: NodeId, incarnation: u64, order: Option<Bytes>, batch: &mut Batch) {
        let (base, previous) = (self.log.base(), self.log.last());
        if previous == base && base > Position(0) {
            // Whatever else the journal has of the log is none any more.
            let ballot = self.log.tail().ballot;
            batch.record(id, &Record::Reset { position: base, ballot, last: base });
        }
        let hard = self.hard.clone().unwrap_or_default();
        let round = hard.promised.round.max(self.log.tail().ballot.round) + ROUNDS_AHEAD;
        let ballot = Ballot { round, node: me };
        let alone =
            Members { at: previous.next(), voters: vec![Voter { node: me, incarnation }], ..Members::default() };
        // Where the journal's end is in doubt, all that is not known to be decided is so for whoever reads on: it is said again.
        let certain = if self.is_lost { hard.decided.min(previous).max(base) } else { previous };
        let mut entries = self.log.slice(certain.next(), previous, usize::MAX);
        let payloads = [Some(Bytes::from(alone.encode())), order].into_iter().flatten();
        entries.extend(payloads.map(|payload| Entry { ballot, payload }));
        let decided = Position(certain.0 + entries.len() as u64);
        batch.record(id, &Record::Append { previous: certain, entries });
        let mut incarnations = hard.incarnations;
        if incarnations.len() <= usize::from(me.0) {
            incarnations.resize(usize::from(me.0) + 1, 0);
        }
        incarnations[usize::from(me.0)] = incarnation;
        let state = HardState {
            promised: ballot,
            decided,
            incarnation,
            incarnations,
            recovering: false,
            forgotten_until: if self.is_lost { Some(decided) } else { hard.forgotten_until },
            joins: false,
            membership: Some(Arc::new(Membership::of(alone))),
        };
        batch.state(id, &state);
    }

    fn fate(self, partition: PartitionId, me: NodeId) -> Fate {
        let (decided, last) = (self.decided(), self.log.last());
        let mut undecided = BTreeMap::new();
        let mut at = decided;
        while at < last {
            at = at.next();
            let kind = self.log.get(at).and_then(|entry| kind_of(&entry.payload)).unwrap_or("malformed");
            *undecided.entry(kind).or_default() += 1;
        }
        let mut damage = Vec::new();
        if let Some((from, until)) = self.cut {
            damage.push(format!("entry {from} is lost, and with it everything behind it, up to {until}"));
        }
        if self.is_lost {
            damage.push("the disk cannot prove that it holds all that this node has promised and accepted".to_owned());
        }
        let has_vote = self.hard.as_ref().is_some_and(|hard| !hard.joins);
        Fate {
            partition,
            is_council: partition == COUNCIL,
            bucket: self.bucket,
            voters: self.members.nodes(),
            votes: has_vote && self.members.names(me),
            is_empty: self.hard.as_ref().is_none_or(|hard| hard.joins) && last == Position(0),
            state: self.state,
            decided,
            last,
            ballot: self.log.tail().ballot,
            promised: self.hard.map(|hard| hard.promised).unwrap_or_default(),
            undecided,
            damage,
        }
    }
}
