//! The replica: its state, and the one function that changes it. Each role's part is in a file of its own.

mod told;

use std::collections::VecDeque;
use std::sync::Arc;

use base::{Ballot, NodeId, Position, Rng, Time};

use crate::confirm::Confirmation;
use crate::door::{Config, HardState, Input, Output, Record, Restored, Token};
use crate::election::{Candidate, PreCandidate};
use crate::log::Log;
use crate::members::{Members, Membership, Roster};
use crate::message::{Entry, Message};
use crate::proposer::Leader;
use crate::recovery::{Amnesiac, Blank};

/// What this replica thinks of another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub id: NodeId,
    /// Both hear each other, by the failure detector.
    pub up: bool,
    /// Since when `up` has its value.
    pub since: Time,
    /// The ballot under which it says that it leads, by the failure detector.
    pub leads: Option<Ballot>,
    /// The ballot under which it last spoke as a leader, and when. Believed only for a while: it may have stopped
    /// leading before the failure detector ever heard that it did, and then there is no change to be told of.
    pub heard: Option<(Ballot, Time)>,
    /// As it last said by the failure detector: see [`Replica::rests`].
    pub rests: Option<(Ballot, Position)>,
    /// The highest round out of reach that it has spoken of: see [`crate::far`].
    pub far: u64,
}

impl Peer {
    pub(crate) fn new(id: NodeId, now: Time) -> Peer {
        Peer { id, up: false, since: now, leads: None, heard: None, rests: None, far: 0 }
    }
}

/// What a replica does at the moment.
#[derive(Debug)]
pub(crate) enum Role {
    /// Its folder is empty: it finds out whether the group is new or its memory was lost.
    Blank(Blank),
    /// It has lost memory and may not vote until it has recovered.
    Amnesiac(Amnesiac),
    Follower,
    PreCandidate(PreCandidate),
    Candidate(Candidate),
    Leader(Box<Leader>),
}

/// The names of the roles, for people.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RoleName {
    /// Decides what the log holds.
    Leader,
    /// Follows, or waits for somebody to follow.
    Follower,
    /// Wants to lead.
    Candidate,
    /// Has no memory, or not all of it: does not vote.
    Recovering,
}

/// A replica of one partition, with a vote or without. Invariant: `base <= decided <= last` of the log, and nothing decided ever changes.
#[derive(Debug)]
pub struct Replica {
    pub(crate) config: Config,
    pub(crate) rng: Rng,
    /// All others that have a replica, or may get one.
    pub(crate) peers: Vec<Peer>,
    /// Who votes.
    /// Shared with what is being stored.
    pub(crate) membership: Arc<Membership>,
    /// What the owner wants; see [`Roster`].
    pub(crate) roster: Roster,
    /// As stored: see [`HardState`].
    pub(crate) joins: bool,
    pub(crate) role: Role,
    pub(crate) log: Log,
    pub(crate) promised: Ballot,
    pub(crate) decided: Position,
    pub(crate) incarnation: u64,
    pub(crate) incarnations: Vec<u64>,
    pub(crate) recovering: bool,
    /// As stored; see [`Replica::forgotten_until`].
    pub(crate) forgotten_until: Option<Position>,
    /// The end of the log that the disk remembered.
    last_at_start: Position,
    /// The log that an installed snapshot has taken the place of.
    pub(crate) log_before: Option<Log>,
    /// The owner can take no more entries now.
    pub(crate) held_back: bool,
    /// The token of the latest Persist.
    pub(crate) token: Token,
    /// Tokens on their way to the disk, with the last position each one covers and its weight in bytes.
    pub(crate) unpersisted: VecDeque<(Token, Position, usize)>,
    pub(crate) unpersisted_bytes: usize,
    /// This log agrees with that of the leader of this ballot up to here.
    pub(crate) matched: (Ballot, Position),
    /// How far this replica's disk had its log when that last changed, and when it did or was last told of.
    pub(crate) disk_at: (Position, Time),
    /// When to think about an election, if no leader is known by then.
    pub(crate) election_at: Option<Time>,
    /// When a lost entry was last asked for.
    pub(crate) repair_at: Time,
    /// When this replica last had a moment to say under which incarnation it learns, should it have no vote.
    pub(crate) learning_told_at: Time,
    probes: Vec<&'static str>,
}

/// Rare branches that the simulator must report as reached.
pub const PROBES: &[&str] = &[
    "paxos: follower's log conflicts and is cut",
    "paxos: follower misses entries",
    "paxos: candidate fetches a greater tail",
    "paxos: candidate refused",
    "paxos: leader loses its majority",
    "paxos: leader refused by a higher ballot",
    "paxos: leadership handed over",
    "paxos: hand-over given up",
    "paxos: follower needs a snapshot",
    "paxos: stale promise of a lost incarnation",
    "paxos: lost entries repaired",
    "paxos: lost memory recovered",
    "paxos: group founded",
    "paxos: follower's disk too slow to take more",
    "paxos: follower's disk stands still",
    "paxos: follower's state too far behind to take more",
    "paxos: change of voters begins",
    "paxos: a change of voters is cut off",
    "paxos: replica gives up what it has",
    "paxos: replica was outlived",
    "paxos: candidate fetches without a majority",
    "paxos: candidate finds other voters in what it fetches",
    "paxos: learner votes",
    "paxos: learner finds that it has voted",
    "paxos: replica without a vote begins anew",
    "paxos: a round out of reach ignored",
];

impl Replica {
    /// A replica that remembers what `restored` says.
    ///
    /// # Panics
    /// If the configuration does not name this node among the founders, and says that it is one.
    #[must_use]
    pub fn new(mut config: Config, restored: Restored, now: Time, out: &mut Vec<Output>) -> Replica {
        assert!(!config.founders.is_empty(), "somebody has to found a group");
        assert!(config.joins || config.founders.contains(&config.me), "who does not join is one of the founders");
        assert!(config.founders.is_sorted(), "all replicas must count the founders alike");
        let Restored { state, log, unprovable, incarnation, applied, members } = restored;
        let blank = state.is_none() && !unprovable && log.last() == Position(0);
        let state = state.unwrap_or(HardState { incarnation, joins: blank && config.joins, ..HardState::default() });
        // It has known more to be decided than is there: with the snapshot that had it, what it had accepted is gone, and no hole in the log says so.
        let has_lost_its_end = !state.joins && state.decided > log.last().max(applied);
        let unprovable = unprovable || has_lost_its_end;
        let founders = || Membership::of(Members::founders(&config.founders));
        let is_known = state.membership.is_some();
        // Once they are on the disk they stay there, whatever the owner knows at this start.
        config.stores_founders |= is_known;
        let mut membership = state.membership.map_or_else(founders, Arc::unwrap_or_clone);
        if let Some(members) = members {
            // By the state, which has all that was decided up to its position. The log's word of somebody else there is older, or was never decided:
            // the state may have come from a peer, and the power have gone before that was in the journal.
            if membership.now.at <= applied || !is_known {
                membership = Membership::of(members);
            } else if membership.before.at <= applied {
                membership.before = members;
            }
        }
        membership.cut(log.last());
        let mut peers = membership.now.nodes();
        peers.extend(&config.founders);
        peers.sort_unstable();
        peers.dedup();
        peers.retain(|id| *id != config.me);
        let peers = peers.into_iter().map(|id| Peer::new(id, now)).collect();
        let decided = state.decided.min(log.last()).max(log.base()).max(applied.min(log.last()));
        let last_at_start = log.last();
        let mut replica = Replica {
            rng: Rng::new(config.seed),
            roster: Roster { preferred: config.preferred, ..Roster::default() },
            config,
            peers,
            membership: Arc::new(membership),
            joins: state.joins,
            role: Role::Follower,
            log,
            promised: state.promised,
            decided,
            incarnation: state.incarnation,
            incarnations: state.incarnations,
            recovering: state.recovering || unprovable,
            forgotten_until: state.forgotten_until,
            last_at_start,
            log_before: None,
            held_back: false,
            token: Token(0),
            unpersisted: VecDeque::new(),
            unpersisted_bytes: 0,
            matched: (Ballot::default(), Position(0)),
            disk_at: (Position(0), now),
            election_at: None,
            repair_at: now,
            learning_told_at: now,
            probes: Vec::new(),
        };
        if replica.joins && !replica.recovering {
            if blank {
                replica.persist_state(out);
            }
            replica.become_follower(now);
        } else if blank || (replica.incarnations.is_empty() && !replica.recovering) {
            replica.become_blank(now, out);
        } else if replica.recovering {
            replica.become_amnesiac(unprovable, now, out);
        } else {
            replica.become_follower(now);
        }
        replica
    }

    /// Takes one input. Nothing else changes a replica.
    pub fn step(&mut self, now: Time, input: Input, out: &mut Vec<Output>) {
        match input {
            Input::Tick => self.on_tick(now, out),
            Input::Message { from, message } => self.on_message(now, from, message, out),
            Input::Propose { payload } => self.on_propose(payload),
            Input::Roster(roster) => self.on_roster(now, roster),
            Input::Persisted { token } => self.on_persisted(now, token, out),
            Input::Peer { peer, up, leads, rests } => self.on_peer(now, peer, up, (leads, rests), out),
            Input::HandOver => self.start_hand_over(now, None),
            Input::Leave => self.leave(out),
            Input::Lost => self.on_lost(now, out),
            Input::Outlived => self.on_outlived(now, out),
            Input::Discard => self.discard(now, out),
            Input::SnapshotTaken { position, keep } => self.on_snapshot_taken(position, keep),
            Input::SnapshotInstalled { position, ballot, members } => {
                self.on_snapshot_installed(now, (position, ballot), members, out);
            }
            Input::Flush => self.flush(now, out),
        }
    }

    fn on_message(&mut self, now: Time, from: NodeId, message: Message, out: &mut Vec<Output>) {
        if from == self.config.me || self.peer(from).is_none() || !self.may_have_come_to(from, message.round()) {
            return;
        }
        match message {
            Message::Recover { incarnation, blank } => return self.on_recover(now, from, incarnation, blank, out),
            Message::RecoverReply { incarnation, knowledge } => {
                return self.on_recover_reply(now, from, incarnation, knowledge, out);
            }
            _ => {}
        }
        if matches!(self.role, Role::Blank(_)) {
            return;
        }
        match message {
            Message::PreVote { ballot } => self.on_pre_vote(now, from, ballot, out),
            Message::PreVoteReply { ballot, granted, promised, tail } => {
                self.on_pre_vote_reply(now, from, ballot, granted, promised, tail, out);
            }
            Message::Prepare { ballot } => self.on_prepare(now, from, ballot, out),
            Message::Promise { ballot, tail, incarnation, incarnations } => {
                self.on_promise(now, from, ballot, tail, incarnation, incarnations, out);
            }
            Message::Refuse { promised } => self.on_refuse(now, promised, out),
            Message::Accept { ballot, previous, previous_ballot, entries, decided } => {
                self.on_accept(now, from, ballot, (previous, previous_ballot), entries, decided, out);
            }
            Message::Accepted { ballot, last } => self.on_accepted(now, from, ballot, last),
            Message::Held { ballot, last } => self.on_held(now, from, ballot, last),
            Message::Decided { ballot, decided } => self.on_decided(ballot, decided),
            Message::Mismatch { ballot, previous, last, decided } => {
                self.on_mismatch(now, from, ballot, previous, last, decided, out);
            }
            Message::Confirm { ballot, round } => self.on_confirm(from, ballot, round, out),
            Message::Confirmed { ballot, round } => self.on_confirmed(from, ballot, round, out),
            Message::Fetch { ballot, previous, previous_ballot, decided, until } => {
                self.on_fetch(from, ballot, (previous, previous_ballot), decided, until, out);
            }
            Message::Fetched { ballot, previous, previous_ballot, entries } => {
                self.on_fetched(now, from, ballot, (previous, previous_ballot), entries, out);
            }
            Message::HandOver { ballot } => self.on_hand_over(now, from, ballot, out),
            Message::Learns { ballot, incarnation } => self.on_learns(from, ballot, incarnation, out),
            Message::Leaves { ballot, incarnation } => self.on_leaves(from, ballot, incarnation, out),
            Message::Left { ballot, incarnation, members } => {
                self.on_left(from, (ballot, incarnation), *members, out);
            }
            Message::Recover { .. } | Message::RecoverReply { .. } => {}
        }
    }

    fn on_persisted(&mut self, now: Time, token: Token, out: &mut Vec<Output>) {
        let mut reached = None;
        while let Some((first, last, bytes)) = self.unpersisted.front().copied() {
            if first > token {
                break;
            }
            self.unpersisted.pop_front();
            self.unpersisted_bytes -= bytes;
            reached = Some(last);
        }
        if reached.is_some() {
            self.count_own_copy();
            self.count_promises(now, out);
        }
    }

    /// Up to where this replica's own disk has its log.
    #[must_use]
    pub fn persisted(&self) -> Position {
        // A token covers the log as it ended then; what a later cut replaced is covered by a later token.
        let pending = self.unpersisted.iter().map(|(_, previous_last, _)| *previous_last).min();
        // What a leader has appended in this turn has not been given to the disk at all.
        let given = match &self.role {
            Role::Leader(leader) => leader.stored.min(self.log.last()),
            _ => self.log.last(),
        };
        pending.map_or(given, |position| position.min(given))
    }

    /// The end of what a lost memory of this replica can have known to be decided: behind it, everything was decided after the
    /// loss. `None` until the loss is recovered. Not less than what is true: where nothing is stored, it is the end of the log at the start.
    #[must_use]
    pub fn forgotten_until(&self) -> Option<Position> {
        // It was told by a leader of this ballot or of a lower one. The leader that ended the recovery knows what it has told; what
        // earlier ones have decided it had before its opening entry. None of it is ever cut from this log.
        (!matches!(self.role, Role::Blank(_) | Role::Amnesiac(_)))
            .then(|| self.forgotten_until.unwrap_or(self.last_at_start))
    }

    /// Whether everything that was given to the disk is there.
    #[must_use]
    pub fn is_on_disk(&self) -> bool {
        self.unpersisted.is_empty()
    }

    /// Gives a record to the disk. `sure_until` is the last position that is certain before it is there.
    pub(crate) fn persist(&mut self, record: Record, sure_until: Position, out: &mut Vec<Output>) -> Token {
        self.token = Token(self.token.0 + 1);
        let bytes = match &record {
            Record::Append { entries, .. } => entries.iter().map(Entry::weight).sum(),
            Record::Replace { payload, .. } => payload.len(),
            Record::State | Record::Reset { .. } => 0,
        };
        self.unpersisted.push_back((self.token, sure_until, bytes));
        self.unpersisted_bytes += bytes;
        out.push(Output::Persist { token: self.token, record });
        self.token
    }

    /// Stores a change of the hard state alone.
    pub(crate) fn persist_state(&mut self, out: &mut Vec<Output>) -> Token {
        let last = self.log.last();
        self.persist(Record::State, last, out)
    }

    /// Stores the hard state anew, unchanged.
    pub fn store_state(&mut self, out: &mut Vec<Output>) {
        self.persist_state(out);
    }

    /// Stores where the log ends, unchanged: what the disk may have lost before this does not concern it.
    pub fn store_end(&mut self, out: &mut Vec<Output>) {
        let previous = self.log.last();
        self.persist(Record::Append { previous, entries: Vec::new() }, previous, out);
    }

    /// Stores what the log stands on, and where it ends, unchanged: what the disk has of it may say otherwise.
    pub fn store_base(&mut self, out: &mut Vec<Output>) {
        let (position, last) = (self.log.base(), self.log.last());
        let ballot = self.log.ballot_at(position).unwrap_or_default();
        self.persist(Record::Reset { position, ballot, last }, last, out);
    }

    pub(crate) fn send(&self, to: NodeId, message: Message, out: &mut Vec<Output>) {
        out.push(Output::Send { to, message });
    }

    /// To all others that vote.
    pub(crate) fn broadcast(&self, message: &Message, out: &mut Vec<Output>) {
        for to in self.other_voters() {
            out.push(Output::Send { to, message: message.clone() });
        }
    }

    /// All others that have a vote.
    pub(crate) fn other_voters(&self) -> Vec<NodeId> {
        let mut nodes = self.membership.now.nodes();
        nodes.retain(|id| *id != self.config.me);
        nodes
    }

    pub(crate) fn probe(&mut self, name: &'static str) {
        debug_assert!(PROBES.contains(&name), "{name} is not in the list of probes");
        if self.probes.len() < 1000 {
            self.probes.push(name);
        }
    }

    /// The rare branches reached since the last call.
    pub fn take_probes(&mut self) -> Vec<&'static str> {
        std::mem::take(&mut self.probes)
    }

    pub(crate) fn peer(&self, id: NodeId) -> Option<&Peer> {
        self.peers.iter().find(|peer| peer.id == id)
    }

    /// The log that an installed snapshot has taken the place of, to be dropped where it holds nobody up.
    pub fn take_log_before(&mut self) -> Option<Log> {
        self.log_before.take()
    }

    /// While `held`, nothing is added to the log: a leader takes no proposals, a follower no entries. Whoever applies the log does not
    /// keep up, and what it has not brought to disk must be held in memory.
    pub fn hold_back(&mut self, held: bool) {
        self.held_back = held;
    }

    pub(crate) fn confirmation(&mut self) -> Option<&mut Confirmation> {
        match &mut self.role {
            Role::Leader(leader) => Some(&mut leader.confirmation),
            _ => None,
        }
    }
}
