//! One replica of one partition: the log below, the state above, and what lies between them and the disk. How entries are applied:
//! [`applying`].

mod applying;
mod proposing;
mod stepping;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use base::ordered::Space;
use base::{Ballot, NodeId, PartitionId, Position, Revision, Time, WallTime};
use data::permit::RefusedCall;
use data::{Blob, Change, ChangeRecord, KeyEvent, Published, Reply, Tree};
use paxos::{Entry, Input, Members, Message, Output, Record, Replica, RoleName, Token};

use crate::below::{Below, FlushJob, StoredRestorer};
use crate::door::{Config, Level, Planted, Rubbish, SnapshotSettings};
use crate::entry::{Header, Life, Unreadable};
use crate::eviction::Evicting;
use crate::image::{Image, RestoredState};
use crate::journal::{Batch, Places};
use crate::origins::Origins;
use crate::peer::carried::Outcome;
use crate::transfer::jobs::Incoming;
use crate::turn::flushes::Unflushed;
use crate::usage::LastUses;
pub(crate) use stepping::Steps;

/// A write of this node's own that has been applied.
#[derive(Debug)]
pub(crate) struct Completed {
    pub sequence: u64,
    pub position: Position,
    /// That of the state then, or a later one.
    pub revision: Revision,
    pub reply: Reply,
    /// It has changed something, or nobody knows.
    pub changes: bool,
}

/// An entry that is about to be applied.
#[derive(Debug)]
pub(crate) struct Next {
    /// And where the body begins. The entry that opens a leadership has none.
    header: Result<(Header, usize), Unreadable>,
    entry: Entry,
}

/// The changes that one entry has made, recorded.
#[derive(Debug)]
pub(crate) struct Records {
    /// The revision before them.
    pub before: Revision,
    pub stamp: u64,
    pub records: Vec<ChangeRecord>,
}

/// What a partition wants from the node after a step.
#[derive(Debug, Default)]
pub(crate) struct Wishes {
    /// Messages that may leave now.
    pub send: Vec<(NodeId, Message)>,
    /// The replica has begun anew, and the state is to go.
    pub left: bool,
    /// Peers that need a snapshot.
    pub send_snapshot: Vec<NodeId>,
    /// The latest confirmed read round.
    pub confirmed: Option<u64>,
    /// Own writes that were applied, in order.
    pub completed: Vec<Completed>,
    pub events: Vec<(Level, String)>,
    pub fatal: Option<String>,
    /// To be freed elsewhere.
    pub rubbish: Vec<Rubbish>,
    /// What has changed, if somebody keeps copies.
    pub changes: Vec<Change>,
    /// What changes are called, for those who want to be told.
    pub key_events: Vec<KeyEvent>,
    /// Changes for those who subscribe to them, entry by entry; one without any where recording begins, or is prolonged.
    pub records: Vec<Records>,
    /// Something has changed before these that was not recorded.
    pub unrecorded: bool,
    /// What scripts of this node's clients have published.
    pub published: Vec<Published>,
    /// Calls that scripts of this node's clients were refused, by the numbers of their writes.
    pub refused: BTreeMap<u64, Vec<RefusedCall>>,
    /// Keys that were evicted in this turn: for checkers.
    pub evicted: Vec<(Position, Blob)>,
    /// States as they are behind entries that ask for a comparison.
    pub compared: Vec<(Position, Image)>,
}

/// See the file's head. Invariant: `applied <= decided`.
#[derive(Debug)]
pub(crate) struct Partition {
    pub id: PartitionId,
    pub replica: Replica,
    pub tree: Tree,
    /// The store that the state is in, if it is in one.
    below: Option<Below>,
    /// What it must not forget goes to the journal, and its state to disk. Without, all of it is in memory.
    pub durable: bool,
    /// The newest journal payload on disk with the hard state.
    pub state_in: Option<u64>,
    /// A snapshot is to be followed by a log without entries: old ones keep the journal from being discarded.
    pub cut_wanted: bool,
    pub applied: Position,
    pub applied_ballot: Ballot,
    pub origins: Origins,
    me: NodeId,
    /// The life under which this node numbers its writes.
    pub life: Life,
    planted: Option<Planted>,
    /// What [`Planted::StateDrifts`] does once is done.
    drifted: bool,
    /// Entries of later versions are not applied here.
    newest: u16,
    /// Messages that wait for the disk.
    held: VecDeque<(Token, NodeId, Message)>,
    /// Which journal payload carries which token, while it is on its way.
    in_journal: VecDeque<(u64, Token)>,
    /// Everything up to this token is on disk.
    on_disk: Token,
    /// The highest token given out in this turn, and whether the turn's records touch the log.
    turn_token: Option<Token>,
    turn_touches_log: bool,
    places: Places,
    outputs: Vec<Output>,
    /// Log bytes applied since the last snapshot, and whether one is wanted whatever their number.
    pub bytes_since_snapshot: u64,
    pub snapshot_wanted: bool,
    /// The payload of the journal that tells of the replica's beginning, or of its beginning anew; 0: the journal has told of it since the start. As long as that is
    /// not on disk, the store says nothing of its state: after a start the node would find a state whose replica has left no promise in the journal, and take it for one
    /// that has lost its memory; or, where it has begun anew, the former replica and nothing of its log.
    pub begun_in: u64,
    /// The flush under way, or one that has failed and has to be repeated as it was; and the log bytes that it covers.
    flushing: Option<FlushJob>,
    bytes_flushing: u64,
    /// When the last one was begun.
    flushed_at: Time,
    /// A snapshot up to here is on disk, and not all of the log before it is dropped yet.
    pub cut_to: Option<Position>,
    /// The disks of all nodes have the log up to here: until that cut is done, only what is behind it has to be kept.
    pub all_have: Option<Position>,
    /// The snapshot that is on disk.
    pub saved_at: Position,
    /// Other nodes with entries among those applied in this turn: they wait to hear that these are decided.
    waiting: Vec<NodeId>,
    /// Nodes without a state of their own, whose writes this one is given: they are told what became of them.
    pub told: Vec<NodeId>,
    /// What became of those that were applied in this turn.
    pub outcomes: Vec<(NodeId, Life, Outcome)>,
    /// Nodes whose clients wait for changes: they want to hear at once what is decided.
    pub eager: Vec<NodeId>,
    /// Of a bucket of the kind `cache`: what has to go first.
    pub evicting: Option<Box<Evicting>>,
    /// When keys were last used here.
    pub last_uses: LastUses,
    /// Somebody keeps copies and is told of changes.
    pub tells_changes: bool,
    /// Changes are to be given names.
    pub names_events: bool,
    /// The last change was recorded, or recording has begun: there may be a ring.
    pub has_recorded: bool,
    /// How many commands were applied since the start, for INFO.
    pub commands_applied: u64,
    /// The highest time given to an entry: entries' times never go back.
    proposed_time: WallTime,
    /// An entry is on its way that brings the time back: what is proposed behind it does not go by the state's time.
    brings_back: bool,
    /// Bytes of what was proposed and is not with the journal yet.
    pub proposed_bytes: usize,
    /// Entries that are not just applied.
    pub steps: Steps,
}

impl Partition {
    pub(crate) fn new(
        id: PartitionId,
        (me, life): (NodeId, Life),
        replica: Replica,
        state: Option<RestoredState>,
        places: Places,
        (planted, newest): (Option<Planted>, u16),
        outputs: Vec<Output>,
    ) -> Partition {
        let state = state.unwrap_or_else(|| RestoredState {
            position: Position(0),
            ballot: Ballot::default(),
            origins: Origins::default(),
            tree: Tree::new(),
        });
        Partition {
            id,
            replica,
            tree: state.tree,
            below: None,
            durable: true,
            state_in: None,
            cut_wanted: false,
            applied: state.position,
            applied_ballot: state.ballot,
            origins: state.origins,
            me,
            life,
            planted,
            newest,
            held: VecDeque::new(),
            in_journal: VecDeque::new(),
            on_disk: Token(0),
            turn_token: None,
            turn_touches_log: false,
            places,
            outputs,
            bytes_since_snapshot: 0,
            snapshot_wanted: false,
            begun_in: 0,
            drifted: false,
            flushing: None,
            bytes_flushing: 0,
            flushed_at: Time(0),
            cut_to: None,
            all_have: None,
            saved_at: state.position,
            waiting: Vec::new(),
            evicting: None,
            last_uses: LastUses::new(),
            told: Vec::new(),
            outcomes: Vec::new(),
            eager: Vec::new(),
            tells_changes: false,
            names_events: false,
            has_recorded: false,
            commands_applied: 0,
            proposed_time: WallTime(0),
            brings_back: false,
            proposed_bytes: 0,
            steps: Steps::default(),
        }
    }

    /// The state goes into this store from now on, unless it came from there. `given_up`: spaces of a state that is of no use.
    pub(crate) fn put_over(&mut self, below: Below, given_up: Vec<Space>) {
        if !self.tree.has_store() {
            self.tree = std::mem::take(&mut self.tree).over(Arc::clone(&below.read));
        }
        self.tree.set_known_bytes_max(below.known_bytes_max);
        self.tree.give_up(given_up);
        // A space may have a name and nothing in it, and then the store does not know it.
        below.note_named(&self.tree.spaces());
        self.below = Some(below);
    }

    /// Whether the state is to be brought to disk.
    pub(crate) fn snapshot_is_due(&self, now: Time, config: &Config, together: &Unflushed) -> bool {
        let (log_bytes_per_snapshot, settings) = (config.log_bytes_per_snapshot, &config.snapshots);
        if self.below.is_none() {
            return self.applied > Position(0)
                && (self.snapshot_wanted || self.bytes_since_snapshot >= log_bytes_per_snapshot);
        }
        let changed = self.tree.unflushed_bytes().0;
        let is_old = self.flush_is_worth_it_at(settings, together).is_some_and(|at| now >= at);
        let due = is_old || self.bytes_since_snapshot >= log_bytes_per_snapshot || changed >= settings.flush_bytes;
        // Spaces to be given up are reason enough to flush a state that is empty.
        self.flushing.is_some()
            || self.tree.gives_up_spaces()
            || (self.applied > Position(0) && (self.snapshot_wanted || due))
    }

    /// When something is to be done here for the disk's sake, if nothing happens before: `now` while anything waits.
    pub(crate) fn due(&self, now: Time, config: &Config, together: &Unflushed) -> Option<Time> {
        let to_disk = !self.held.is_empty() || !self.in_journal.is_empty() || self.turn_token.is_some();
        let left = !self.outputs.is_empty() || !self.waiting.is_empty() || self.cut_to.is_some();
        let saves = self.durable && self.snapshot_is_due(now, config, together);
        if to_disk || left || saves || self.replica.is_held_back() {
            return Some(now);
        }
        self.flush_is_worth_it_at(&config.snapshots, together)
    }

    /// If so much has changed that the store gets it after a while, however little is added: when.
    fn flush_is_worth_it_at(&self, settings: &SnapshotSettings, together: &Unflushed) -> Option<Time> {
        let (bytes, after) = together.worth_a_flush(settings);
        let is_worth_it = self.below.is_some() && self.tree.unflushed_bytes().0 >= bytes;
        is_worth_it.then(|| self.flushed_at + after)
    }

    /// Bytes of log, or of changed records, that the store below does not have; 0 without one.
    pub(crate) fn ahead_bytes(&self) -> u64 {
        let (active, frozen) = self.tree.unflushed_bytes();
        let bytes = (self.bytes_since_snapshot + self.bytes_flushing).max(active + frozen);
        if self.below.is_some() { bytes } else { 0 }
    }

    /// What has changed since the last flush, to be brought to the store; none if the state is not in one. If a flush has failed it
    /// is that one again: what became of it is not known, and so nothing else may take its place.
    pub(crate) fn begin_flush(&mut self, now: Time) -> Option<FlushJob> {
        let below = self.below.as_ref()?;
        self.flushed_at = now;
        if self.flushing.is_none() {
            let bytes = self.tree.unflushed_bytes().0;
            let flush = self.tree.begin_flush(|| below.new_space())?;
            let ahead = self.planted == Some(Planted::PositionAheadOfData);
            let position = if ahead { self.applied.next() } else { self.applied };
            self.flushing = Some(FlushJob::new(self.id, (position, self.applied_ballot), &self.origins, flush, bytes));
            self.bytes_flushing = std::mem::take(&mut self.bytes_since_snapshot);
        }
        self.flushing.clone()
    }

    /// Whether the state is in the store.
    pub(crate) fn is_over_store(&self) -> bool {
        self.below.is_some()
    }

    /// A flush is under way, or has failed.
    pub(crate) fn has_flush(&self) -> bool {
        self.flushing.is_some()
    }

    /// The store has the flush under way, synced.
    pub(crate) fn end_flush(&mut self) {
        self.flushing = None;
        self.bytes_flushing = 0;
        if self.planted == Some(Planted::RunsNotForgotten) {
            self.tree.end_flush_forgetting_nothing();
        } else {
            self.tree.end_flush();
        }
    }

    /// Where a state goes that a peer sends.
    pub(crate) fn new_incoming(&mut self) -> Incoming {
        match &self.below {
            Some(below) => Incoming::in_store(StoredRestorer::new(self.id, below)),
            None => Incoming::in_memory(),
        }
    }

    /// Steps the replica and carries out what it says, as far as the disk allows.
    pub(crate) fn step(&mut self, now: Time, input: Input, batch: &mut Batch, wishes: &mut Wishes) {
        self.replica.step(now, input, &mut self.outputs);
        self.carry_out(batch, wishes);
    }

    fn carry_out(&mut self, batch: &mut Batch, wishes: &mut Wishes) {
        let mut outputs = std::mem::take(&mut self.outputs);
        for output in outputs.drain(..) {
            match output {
                Output::Persist { token, record } => {
                    if self.durable {
                        batch.record(self.id, &record);
                    }
                    if let Record::Append { entries, .. } = &record {
                        self.notice_entries(entries);
                    }
                    self.turn_touches_log |= !matches!(record, Record::State);
                    self.turn_token = Some(token);
                }
                Output::Send { to, message } => wishes.send.push((to, message)),
                Output::SendAfter { token, to, message } => {
                    if token <= self.on_disk || self.planted == Some(Planted::AnswerBeforeFsync) {
                        wishes.send.push((to, message));
                    } else {
                        self.held.push_back((token, to, message));
                    }
                }
                Output::SendSnapshot { to } => wishes.send_snapshot.push(to),
                Output::Confirmed { round } => wishes.confirmed = Some(round),
                Output::Repaired => self.snapshot_wanted = true,
                Output::Left => {
                    self.held.clear();
                    wishes.left = true;
                }
                Output::Event(text) => wishes.events.push((Level::Info, text)),
                Output::Fatal(text) => wishes.fatal = Some(text),
            }
        }
        self.outputs = outputs;
    }

    /// Stores the hard state with this turn's records, whether it has changed or not.
    pub(crate) fn store_state(&mut self) {
        self.replica.store_state(&mut self.outputs);
    }

    /// Stores that its log begins here, so that no hole in the journal before is a hole in it.
    pub(crate) fn store_beginning(&mut self) {
        self.replica.store_end(&mut self.outputs);
    }

    /// Stores what its log stands on.
    pub(crate) fn store_base(&mut self) {
        self.replica.store_base(&mut self.outputs);
    }

    /// Carries out what an earlier direct call of the replica left.
    pub(crate) fn settle(&mut self, batch: &mut Batch, wishes: &mut Wishes) {
        self.carry_out(batch, wishes);
    }

    /// The turn's records go to the journal as payload `number`.
    pub(crate) fn seal(&mut self, number: u64, batch: &mut Batch) {
        if let Some(token) = self.turn_token.take_if(|_| self.durable) {
            batch.state(self.id, &self.replica.hard_state());
            self.in_journal.push_back((number, token));
            if std::mem::take(&mut self.turn_touches_log) {
                self.places.note(number, self.replica.log().last());
            }
        }
    }

    /// Whether this turn has records for the journal.
    pub(crate) fn has_records(&self) -> bool {
        self.durable && self.turn_token.is_some()
    }

    /// What is kept in memory only is where it shall be at once.
    pub(crate) fn settle_memory(&mut self, now: Time, batch: &mut Batch, wishes: &mut Wishes) {
        if !self.durable
            && let Some(token) = self.turn_token.take()
        {
            self.turn_touches_log = false;
            self.reach(now, token, batch, wishes);
        }
    }

    /// Whether something of it is in that payload of the journal, or in one before it, and is not known to be on disk.
    pub(crate) fn waits_for_payload(&self, number: u64) -> bool {
        self.in_journal.front().is_some_and(|(payload, _)| *payload <= number)
    }

    /// Everything up to payload `number` is on disk.
    pub(crate) fn on_persisted(&mut self, now: Time, number: u64, batch: &mut Batch, wishes: &mut Wishes) {
        let mut reached = None;
        while let Some((payload, token)) = self.in_journal.front().copied() {
            if payload > number {
                break;
            }
            self.in_journal.pop_front();
            self.state_in = Some(payload);
            reached = Some(token);
        }
        if let Some(token) = reached {
            self.reach(now, token, batch, wishes);
        }
    }

    fn reach(&mut self, now: Time, token: Token, batch: &mut Batch, wishes: &mut Wishes) {
        self.on_disk = token;
        while let Some((wanted, _, _)) = self.held.front() {
            if *wanted > token {
                break;
            }
            if let Some((_, to, message)) = self.held.pop_front() {
                // Acknowledgements grow: of several that leave together the last says it all.
                let follows = self.held.front().is_some_and(|(next, other, later)| {
                    *next <= token
                        && *other == to
                        && matches!((&message, later), (Message::Accepted { ballot, .. }, Message::Accepted { ballot: same, .. }) if ballot == same)
                });
                if !follows {
                    wishes.send.push((to, message));
                }
            }
        }
        self.step(now, Input::Persisted { token }, batch, wishes);
    }

    /// The state as it is now, frozen.
    pub(crate) fn image(&self) -> Image {
        Image::new(self.applied, self.applied_ballot, &self.origins, &self.tree)
    }

    /// Replaces the state by a snapshot that a peer sent and that is on disk now, unless the log has overtaken it. The replies
    /// that this node's own writes had go to `wishes`, as far as they are kept. False if the log has.
    pub(crate) fn install(&mut self, now: Time, state: RestoredState, batch: &mut Batch, wishes: &mut Wishes) -> bool {
        let (position, ballot, mut members) = (state.position, state.ballot, state.origins.members.clone());
        members.take_if(|_| self.planted == Some(Planted::SnapshotWithoutVoters));
        let tree = state.tree;
        if position <= self.applied {
            // Overtaken by the log. The store has it all the same, and is to forget it.
            self.tree.give_up(tree.spaces());
            wishes.rubbish.push(Rubbish::new(tree));
            return false;
        }
        let given_up = self.tree.spaces();
        wishes.rubbish.push(Rubbish::new((std::mem::replace(&mut self.tree, tree), self.flushing.take())));
        self.tree.give_up(given_up);
        // Earlier proposals are behind this snapshot. An entry that the snapshot covers may have brought the time back.
        (self.proposed_time, self.brings_back) = (self.tree.time(), false);
        if let Some(evicting) = &mut self.evicting {
            wishes.rubbish.push(evicting.forget());
        }
        self.last_uses.forget();
        self.last_uses.turn(now, self.tree.len());
        self.has_recorded = false;
        self.origins = state.origins;
        self.applied = position;
        self.applied_ballot = ballot;
        (self.bytes_since_snapshot, self.bytes_flushing) = (0, 0);
        let revision = self.tree.revision();
        for (sequence, reply) in self.origins.replies(self.me, self.life) {
            let (sequence, reply) = (*sequence, reply.clone());
            wishes.completed.push(Completed { sequence, position, revision, reply, changes: true });
        }
        self.step(now, Input::SnapshotInstalled { position, ballot, members }, batch, wishes);
        wishes.rubbish.extend(self.replica.take_log_before().map(Rubbish::new));
        true
    }

    /// The replica is one that has never had a vote, and has no log.
    pub(crate) fn is_new(&self) -> bool {
        let is_empty = self.replica.log().last() == Position(0);
        is_empty && self.replica.role() == RoleName::Follower && self.replica.joins()
    }

    /// Gives up the state, and these spaces with it; the replica has begun anew, as the journal's payload `number` says.
    pub(crate) fn begin_anew(&mut self, now: Time, number: u64, given_up: Vec<Space>, wishes: &mut Wishes) {
        self.begun_in = number;
        let spaces = self.tree.spaces();
        let mut tree = Tree::new();
        if let Some(below) = &self.below {
            tree = tree.over(Arc::clone(&below.read));
            tree.set_known_bytes_max(below.known_bytes_max);
        }
        wishes.rubbish.push(Rubbish::new((std::mem::replace(&mut self.tree, tree), self.flushing.take())));
        wishes.rubbish.extend(self.replica.take_log_before().map(Rubbish::new));
        self.tree.give_up(spaces);
        self.tree.give_up(given_up);
        self.places = Places::default();
        if let Some(evicting) = &mut self.evicting {
            wishes.rubbish.push(evicting.forget());
        }
        self.last_uses.forget();
        self.last_uses.turn(now, 0);
        self.has_recorded = false;
        self.origins = Origins::default();
        (self.applied, self.applied_ballot) = (Position(0), Ballot::default());
        (self.bytes_since_snapshot, self.bytes_flushing) = (0, 0);
        (self.cut_to, self.cut_wanted, self.snapshot_wanted) = (None, false, false);
        (self.all_have, self.saved_at) = (None, Position(0));
        self.steps.begin_anew();
        self.outcomes.clear();
        self.told.clear();
    }

    /// The state says who votes, unless that is everybody: as long as no entry has said it, these who have founded the bucket (nobody: everybody).
    pub(crate) fn name_founders(&mut self, founders: &[NodeId]) {
        if !founders.is_empty() {
            self.origins.members.get_or_insert_with(|| Members::founders(founders));
        }
    }

    /// The lowest journal payload with an entry that is still needed, given that a snapshot covers the log's base.
    pub(crate) fn entries_needed_from(&mut self) -> Option<u64> {
        let base = self.replica.log().base();
        self.places.needed_from(base)
    }

    /// The payload with the newest hard state that is on disk: needed however old it is, until a newer one is there too.
    pub(crate) fn state_needed_from(&self) -> Option<u64> {
        self.state_in.filter(|_| self.durable)
    }
}
