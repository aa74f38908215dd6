//! Replicas without memory: a new group is founded, a lost memory is recovered, and the two are never confused.
//!
//! Every folder draws an **incarnation** when it is made, and every founded replica keeps the incarnations of all.
//!
//! A *blank* replica (empty folder) asks everybody. Only if every other voter answers that it is blank too, or that it
//! knows this very incarnation as one that has not voted, the replica counts itself as founded. A single voter that knows
//! another incarnation of it proves that memory was lost. (Founding therefore needs all voters once.) A voter that has lost
//! memory itself says so, and is not waited for if some other founded one vouches: had this replica lost its memory as well, that
//! would be one loss more than a group bears, unless it never helped to decide anything. Once a founder has left the group, a blank replica is told
//! to recover like an amnesiac one, by those that vote now.
//!
//! An *amnesiac* replica (memory lost, or not provably whole) does not vote, and forgets what it held undecided. It
//! 1. takes an incarnation above any that is known of it and asks until so many others that they meet every majority
//!    (two of two in a group of three, three of four in one of five) have noted that on disk and told what it has promised. The greatest of these is at least what this replica had promised, or
//!    else the promise belongs to a candidate that will learn from one of them that it came from an earlier incarnation and
//!    does not count it (the flaw of view-stamped replication's recovery that crash vectors mend: Michael et al.,
//!    "Recovering Shared Objects Without Stable Storage", DISC 2017);
//! 2. then accepts from leaders of at least that ballot, and votes again once its log holds all that one of
//!    them held after it began to recover: whatever it once accepted and helped to decide is in there.

use std::sync::Arc;
use std::time::Duration;

use base::{Ballot, NodeId, Position, Time};

use crate::door::{Output, Record};
use crate::log::Log;
use crate::members::{Member, Members, Membership, note_incarnation};
use crate::message::{Knowledge, Leading, Message};
use crate::replica::{Replica, Role};

/// Heartbeats between two times that a replica without memory asks.
const RECOVERS_EVERY: u32 = 2;

/// Answers that a blank replica has collected.
#[derive(Debug, Default)]
pub(crate) struct Blank {
    /// Others that are blank, with their incarnations.
    blank: Vec<(NodeId, u64)>,
    /// Others that know this incarnation as one that has not voted, with the incarnations that they know.
    original: Vec<(NodeId, Vec<u64>)>,
    /// Others that have lost memory themselves.
    amnesiac: Vec<NodeId>,
    ask_at: Time,
}

/// How far a recovery has come.
#[derive(Debug, Default)]
pub(crate) struct Amnesiac {
    /// Who has noted the new incarnation, and what it has promised.
    noted: Vec<(NodeId, Ballot)>,
    /// Step 1 is done: leaders of at least the promised ballot may be followed.
    may_follow: bool,
    /// A leader's ballot and log, asked for after the memory was lost.
    target: Option<Leading>,
    /// Who votes, as the others know it, if they know better than this log.
    members: Option<Members>,
    ask_at: Time,
    /// Step 2 is done.
    caught_up: bool,
}

impl Amnesiac {
    /// Whether leaders (of at least the promised ballot) may be followed.
    pub(crate) fn may_follow(&self) -> bool {
        self.may_follow
    }
}

impl Replica {
    /// Whether it has recovered its memory and waits for [`Replica::let_vote`].
    #[must_use]
    pub fn asks_to_vote(&self) -> bool {
        self.config.asks_to_vote && matches!(&self.role, Role::Amnesiac(amnesiac) if amnesiac.caught_up)
    }

    /// Of a replica that has never had a memory, as far as it knows: the founders that it has not heard from yet. Nothing of any other replica.
    #[must_use]
    pub fn founders_awaited(&self) -> Option<Vec<NodeId>> {
        let Role::Blank(blank) = &self.role else { return None };
        let says = |id: &NodeId| {
            let answers =
                blank.blank.iter().map(|(other, _)| other).chain(blank.original.iter().map(|(other, _)| other));
            *id == self.config.me || answers.chain(&blank.amnesiac).any(|other| other == id)
        };
        Some(self.config.founders.iter().copied().filter(|id| !says(id)).collect())
    }

    /// It may vote as soon as it has recovered its memory: see [`crate::Config::asks_to_vote`].
    pub fn let_vote(&mut self) {
        self.config.asks_to_vote = false;
    }

    pub(crate) fn become_blank(&mut self, now: Time, out: &mut Vec<Output>) {
        self.role = Role::Blank(Blank { ask_at: now, ..Blank::default() });
        self.election_at = None;
        self.tick_recovery(now, out);
    }

    /// `just_lost`: the loss was found now and is not on disk yet.
    pub(crate) fn become_amnesiac(&mut self, just_lost: bool, now: Time, out: &mut Vec<Output>) {
        if just_lost {
            // What it held undecided may not be all that it held: it must not be counted, nor shown to a candidate.
            self.log.truncate_after(self.decided.max(self.log.base()));
            self.members_after_cut();
            // A jump, so that no number that an earlier, forgotten recovery used comes again.
            self.incarnation = self.incarnation.saturating_add(1 + self.rng.below(1 << 20));
        }
        self.recovering = true;
        self.matched = (self.promised, Position(0));
        self.role = Role::Amnesiac(Amnesiac { ask_at: now, ..Amnesiac::default() });
        self.election_at = None;
        if just_lost {
            // The log on disk ends there too from now on.
            let (previous, entries) = (self.log.last(), Vec::new());
            self.persist(Record::Append { previous, entries }, previous, out);
            out.push(Output::Event("has lost memory and does not vote until it has recovered".to_owned()));
        }
        self.tick_recovery(now, out);
    }

    /// Others know that it has lost its memory, though it has begun as one that never had any.
    pub(crate) fn on_lost(&mut self, now: Time, out: &mut Vec<Output>) {
        if !matches!(self.role, Role::Blank(_) | Role::Amnesiac(_)) {
            self.joins = false;
            self.config.asks_to_vote = true;
            self.become_amnesiac(true, now, out);
        }
    }

    /// Others know a later incarnation of it.
    pub(crate) fn on_outlived(&mut self, now: Time, out: &mut Vec<Output>) {
        let votes = self.membership.now.names(self.config.me) && !self.joins;
        if matches!(self.role, Role::Follower) && votes && self.live_leader().is_some() {
            self.probe("paxos: replica was outlived");
            // Should its number be too low still, the replicas that are asked to note it say so.
            self.become_amnesiac(true, now, out);
        }
    }

    /// The owner's state is wrong. Its log may be, too: both are got from the others, as by one whose folder was emptied.
    pub(crate) fn discard(&mut self, now: Time, out: &mut Vec<Output>) {
        let is_settled = self.membership.now.at <= self.decided && !self.membership.now.is_joint();
        if !matches!(self.role, Role::Follower) || self.joins || !is_settled {
            return;
        }
        self.probe("paxos: replica gives up what it has");
        // No entry of an empty log says who votes.
        self.membership = Arc::new(Membership::of(self.membership.now.clone()));
        self.forgotten_until = None;
        self.log_before = Some(std::mem::replace(&mut self.log, Log::new(Position(0), Ballot::default())));
        self.decided = Position(0);
        let (position, ballot) = (Position(0), Ballot::default());
        self.persist(Record::Reset { position, ballot, last: position }, position, out);
        self.become_amnesiac(true, now, out);
        out.push(Output::Left);
    }

    pub(crate) fn tick_recovery(&mut self, now: Time, out: &mut Vec<Output>) {
        let ask_at = match &self.role {
            Role::Blank(blank) => blank.ask_at,
            Role::Amnesiac(amnesiac) => amnesiac.ask_at,
            _ => return,
        };
        if now >= ask_at {
            self.ask_to_recover(now, out);
        }
        self.settle_blank(now, out);
        self.settle_amnesiac(now, out);
    }

    /// Asks everybody, now.
    fn ask_to_recover(&mut self, now: Time, out: &mut Vec<Output>) {
        let again = now + self.config.heartbeat * RECOVERS_EVERY;
        match &mut self.role {
            Role::Blank(blank) => blank.ask_at = again,
            Role::Amnesiac(amnesiac) => amnesiac.ask_at = again,
            _ => return,
        }
        for peer in &self.peers {
            self.ask_one_to_recover(peer.id, out);
        }
    }

    /// Asks one that has just come up, or in its turn.
    pub(crate) fn ask_one_to_recover(&self, to: NodeId, out: &mut Vec<Output>) {
        let blank = matches!(self.role, Role::Blank(_));
        let message = Message::Recover { incarnation: self.incarnation, blank };
        out.push(Output::SendAfter { token: self.token, to, message });
    }

    /// Somebody has no memory and asks.
    pub(crate) fn on_recover(&mut self, now: Time, from: NodeId, incarnation: u64, blank: bool, out: &mut Vec<Output>) {
        if let Role::Leader(leader) = &mut self.role
            && let Some(follower) = leader.followers.iter_mut().find(|follower| follower.id == from)
        {
            follower.recovers_at = Some(now);
        }
        let leads = self.leads().zip(self.opening()).map(|(ballot, opening)| Leading {
            ballot,
            last: self.log.last(),
            knowable: self.decided.max(opening),
        });
        let joins = self.joins;
        let knowledge = match &self.role {
            _ if joins => return,
            Role::Blank(_) if blank => Knowledge::Blank { incarnation: self.incarnation },
            Role::Amnesiac(_) if blank => Knowledge::Amnesiac,
            Role::Blank(_) | Role::Amnesiac(_) => return,
            _ => {
                // Also the one under which it was given its vote: a candidate will count no promise of a lower one. And the one under which it has learned here:
                // a vote that is on its way to it names that.
                let learned_as = self.follower(from).and_then(|follower| follower.learns_as).unwrap_or_default();
                let known = self.incarnation_of(from).max(learned_as);
                if blank && incarnation == known && !self.is_without_a_founder() {
                    Knowledge::Original { incarnations: self.incarnations.clone() }
                } else if blank || incarnation < known {
                    Knowledge::Lost { known }
                } else {
                    if note_incarnation(&mut self.incarnations, Member { node: from, incarnation }) {
                        self.persist_state(out);
                        if let Role::Leader(leader) = &mut self.role {
                            let mut of_it = leader.followers.iter_mut().filter(|follower| follower.id == from);
                            if let Some(follower) = of_it.next() {
                                follower.forget();
                                follower.learns_as = None;
                            }
                        }
                    }
                    let incarnations = self.incarnations.clone();
                    let members = (self.membership.now.at > Position(0)).then(|| Box::new(self.membership.now.clone()));
                    Knowledge::Noted { promised: self.promised, incarnations, leads, members }
                }
            }
        };
        let message = Message::RecoverReply { incarnation, knowledge };
        out.push(Output::SendAfter { token: self.token, to: from, message });
    }

    /// True if a founder votes here no more, as is decided. That founder may have no replica that could answer: a blank replica would wait for it for ever. The blank
    /// replica is told to recover instead, for which it needs only those that vote now.
    fn is_without_a_founder(&self) -> bool {
        let members = &self.membership.now;
        let is_decided = members.at > Position(0) && members.at <= self.decided && !members.is_joint();
        is_decided && !self.config.founders.iter().all(|founder| members.names(*founder))
    }

    /// For so long whoever has asked is taken for one that still recovers: it would ask again.
    pub(crate) fn recovers_for(&self) -> Duration {
        self.config.heartbeat * (2 * RECOVERS_EVERY + 1)
    }

    pub(crate) fn on_recover_reply(
        &mut self,
        now: Time,
        from: NodeId,
        incarnation: u64,
        knowledge: Knowledge,
        out: &mut Vec<Output>,
    ) {
        if incarnation != self.incarnation {
            return;
        }
        match (&mut self.role, knowledge) {
            (Role::Blank(blank), Knowledge::Blank { incarnation }) => {
                blank.blank.retain(|(id, _)| *id != from);
                blank.blank.push((from, incarnation));
                self.settle_blank(now, out);
            }
            (Role::Blank(blank), Knowledge::Original { incarnations }) => {
                blank.original.retain(|(id, _)| *id != from);
                blank.original.push((from, incarnations));
                self.settle_blank(now, out);
            }
            (Role::Blank(blank), Knowledge::Amnesiac) => {
                // Whatever it said before it knows no more.
                blank.blank.retain(|(id, _)| *id != from);
                blank.original.retain(|(id, _)| *id != from);
                blank.amnesiac.retain(|id| *id != from);
                blank.amnesiac.push(from);
                self.settle_blank(now, out);
            }
            (Role::Blank(_) | Role::Amnesiac(_), Knowledge::Lost { known }) => {
                // Emptied, or asking under a number that was used before: come back under a new one.
                self.incarnation = self.incarnation.max(known);
                self.become_amnesiac(true, now, out);
            }
            (Role::Follower, Knowledge::Lost { known })
                if self.promised.node == from && (self.joins || !self.membership.now.names(self.config.me)) =>
            {
                // By the word of whom it follows, who would give it the vote: another one's may be from before, and what it tells him might never be heard here.
                // What it has acknowledged and promised under the former one counts no more; what it has it keeps.
                self.incarnation = known.saturating_add(1 + self.rng.below(1 << 20));
                self.incarnations.clear();
                self.joins = true;
                self.persist_state(out);
                self.tell_incarnation(from, out);
            }
            (Role::Amnesiac(amnesiac), Knowledge::Noted { promised, incarnations, leads, members }) => {
                if let Some(members) = members
                    && members.at > amnesiac.members.as_ref().map_or(Position(0), |other| other.at)
                {
                    amnesiac.members = Some(*members);
                }
                amnesiac.noted.retain(|(id, _)| *id != from);
                amnesiac.noted.push((from, promised));
                if leads.is_some() {
                    amnesiac.target = leads.max(amnesiac.target);
                }
                self.merge_incarnations(&incarnations);
                self.settle_amnesiac(now, out);
            }
            _ => {}
        }
    }

    fn merge_incarnations(&mut self, theirs: &[u64]) {
        if self.incarnations.len() < theirs.len() {
            self.incarnations.resize(theirs.len(), 0);
        }
        for (mine, other) in self.incarnations.iter_mut().zip(theirs) {
            *mine = (*mine).max(*other);
        }
    }

    /// Founds the group, as far as this replica is concerned, once every other voter agrees that it is new.
    fn settle_blank(&mut self, now: Time, out: &mut Vec<Output>) {
        let Role::Blank(blank) = &self.role else { return };
        let says = |id: NodeId| {
            blank.blank.iter().any(|(other, _)| *other == id) || blank.original.iter().any(|(other, _)| *other == id)
        };
        let founders = &self.config.founders;
        let mut silent = founders.iter().copied().filter(|id| *id != self.config.me && !says(*id));
        let excused = silent.clone().count() < founders.len().div_ceil(2) && !blank.original.is_empty();
        if !silent.all(|id| excused && blank.amnesiac.contains(&id)) {
            return;
        }
        let mut incarnations = vec![0; founders.last().map_or(0, |last| usize::from(last.0) + 1)];
        for founder in founders {
            let place = &mut incarnations[usize::from(founder.0)];
            if *founder == self.config.me {
                *place = self.incarnation;
            } else if let Some((_, incarnation)) = blank.blank.iter().find(|(id, _)| id == founder) {
                *place = *incarnation;
            }
        }
        let originals: Vec<Vec<u64>> = blank.original.iter().map(|(_, theirs)| theirs.clone()).collect();
        self.incarnations = incarnations;
        for theirs in originals {
            self.merge_incarnations(&theirs);
        }
        self.probe("paxos: group founded");
        self.persist_state(out);
        out.push(Output::Event("is a founding member of the group".to_owned()));
        self.become_follower(now);
    }

    fn settle_amnesiac(&mut self, now: Time, out: &mut Vec<Output>) {
        let own = &self.membership.now;
        let persisted = self.persisted();
        let matched = self.matched;
        let promised = self.promised;
        let Role::Amnesiac(amnesiac) = &mut self.role else { return };
        // They have a part of every majority that this replica is in, by the newest group that any of them knows: so they have heard of every
        // candidate that it can have promised anything.
        let members = amnesiac.members.as_ref().filter(|members| members.at > own.at).unwrap_or(own);
        let enough = members.meets_every_quorum(|id| amnesiac.noted.iter().any(|(noted, _)| *noted == id));
        if !amnesiac.may_follow && enough {
            amnesiac.may_follow = true;
            let floor = amnesiac.noted.iter().map(|(_, promised)| *promised).max().unwrap_or_default();
            if floor > promised {
                self.promised = floor;
                self.matched = (floor, Position(0));
            }
            self.persist_state(out);
            return;
        }
        let caught_up = amnesiac.target.is_some_and(|Leading { ballot, last, .. }| {
            ballot == promised && matched.0 == ballot && matched.1 >= last && persisted >= last
        });
        amnesiac.caught_up |= amnesiac.may_follow && caught_up;
        if amnesiac.caught_up && !self.config.asks_to_vote {
            self.forgotten_until = amnesiac.target.map(|leading| leading.knowable);
            self.recovering = false;
            self.probe("paxos: lost memory recovered");
            self.persist_state(out);
            out.push(Output::Event("has recovered its memory and votes again".to_owned()));
            self.become_follower(now);
        }
    }
}
