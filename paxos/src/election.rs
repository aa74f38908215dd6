//! Elections: who may disturb whom, and how a replica comes to lead.
//!
//! 1. A follower that knows of no working leader waits a little: less the nearer it stands to the preferred replica.
//! 2. It asks all whether they would promise it a ballot (pre-vote). Whoever hears a working leader says no, so
//!    a replica behind a cut link disturbs nobody.
//! 3. With a majority of yes it promises its own ballot, and once that is on disk asks all to promise (phase 1).
//! 4. From the promises of a majority it learns the greatest tail, fetches what it lacks, and leads. If a majority does not come it fetches the greatest tail that it was told:
//!    the log there may say that others vote now, and that it has their majority.
//!
//! Silence at any step makes it begin again, with a jitter, so that duelling candidates part.

use std::time::Duration;

use base::{Ballot, NodeId, Position, Time};

use crate::door::{Output, Token};
use crate::members::known_incarnation;
use crate::message::{Message, Tail};
use crate::replica::{Peer, Replica, Role};

/// Asks whether it could win.
#[derive(Debug)]
pub(crate) struct PreCandidate {
    ballot: Ballot,
    granted: Vec<NodeId>,
    pub(crate) give_up_at: Time,
}

/// One promise, as it was given.
#[derive(Debug)]
struct Promise {
    from: NodeId,
    tail: Tail,
    incarnation: u64,
    incarnations: Vec<u64>,
}

/// Has promised its own ballot and asks for the promises of others.
#[derive(Debug)]
pub(crate) struct Candidate {
    promises: Vec<Promise>,
    /// Its own promise is on the disk with this: before that it counts for nothing, or a crash could have it run under the same ballot again.
    token: Token,
    pub(crate) give_up_at: Time,
    pub(crate) ask_again_at: Time,
    /// The replica whose tail is the greatest, and that tail, while this log is being made like it.
    pub(crate) source: Option<(NodeId, Tail)>,
    /// A majority had promised when the source was chosen: it has the greatest tail of one.
    is_of_majority: bool,
}

impl Replica {
    pub(crate) fn become_follower(&mut self, now: Time) {
        if let Role::Leader(leader) = &self.role {
            // What was proposed in this turn was never given to the disk, and nobody will give it there now. A follower's
            // log holds only what is on its disk or on its way there: that is what its Promise and Accepted rely on.
            self.log.truncate_after(leader.stored);
            self.members_after_cut();
        }
        self.role = Role::Follower;
        self.plan_election(now);
    }

    /// A working leader was heard: no election is needed.
    pub(crate) fn hear_leader(&mut self, now: Time, ballot: Ballot) {
        if let Some(peer) = self.peers.iter_mut().find(|peer| peer.id == ballot.node) {
            peer.heard = Some((ballot, now));
        }
        match self.role {
            Role::PreCandidate(_) => self.become_follower(now),
            _ => self.election_at = None,
        }
    }

    /// Gives a candidate that was just promised a ballot the time to lead before anybody else tries.
    pub(crate) fn give_way(&mut self, now: Time) {
        self.plan_election(now + self.config.candidacy);
    }

    /// Draws the time of the next attempt, not before `now`: earlier for replicas nearer to the preferred one, last for those that are spared.
    fn plan_election(&mut self, now: Time) {
        let distance = self.distance_to_preferred();
        let heartbeat = self.config.heartbeat;
        let jitter = self.rng.below(heartbeat.as_nanos() as u64 * 2 + 1);
        self.election_at = Some(now + heartbeat * distance + Duration::from_nanos(jitter));
    }

    fn distance_to_preferred(&self) -> u32 {
        let voters = self.membership.now.nodes();
        let place = |id: NodeId| voters.iter().position(|voter| *voter == id).unwrap_or(0);
        let distance = (place(self.config.me) + voters.len() - place(self.config.preferred)) % voters.len();
        let behind = if self.roster.spared.contains(&self.config.me) { voters.len() } else { 0 };
        (distance + behind) as u32
    }

    pub(crate) fn on_tick(&mut self, now: Time, out: &mut Vec<Output>) {
        let candidacy = self.config.candidacy;
        for peer in &mut self.peers {
            peer.heard = peer.heard.filter(|(_, at)| now.since(*at) < candidacy);
        }
        self.tick_disk(now, out);
        match &self.role {
            Role::Blank(_) | Role::Amnesiac(_) => self.tick_recovery(now, out),
            Role::Leader(_) => self.tick_leader(now, out),
            Role::PreCandidate(candidate) if now >= candidate.give_up_at => self.become_follower(now),
            Role::Candidate(candidate) => {
                let (give_up_at, ask_again_at) = (candidate.give_up_at, candidate.ask_again_at);
                // Who votes alone waits for nobody but its own disk.
                if now >= give_up_at && !self.is_alone() {
                    self.become_follower(now);
                } else if now >= ask_again_at {
                    self.ask_again(now, out);
                }
            }
            Role::Follower | Role::PreCandidate(_) => {}
        }
        if matches!(self.role, Role::Follower) {
            if self.live_leader().is_some() {
                self.election_at = None;
            } else {
                match self.election_at {
                    None => self.plan_election(now),
                    Some(at) if now >= at => self.start_pre_vote(now, out),
                    Some(_) => {}
                }
            }
        }
        self.repair(now, out);
    }

    fn start_pre_vote(&mut self, now: Time, out: &mut Vec<Output>) {
        self.plan_election(now);
        if self.log.hole().is_some() {
            // A leader must be able to hand out its log. Repair first.
            return;
        }
        if !self.reaches_majority() || !self.may_run() {
            return;
        }
        let ballot = Ballot { round: self.promised.round.saturating_add(1), node: self.config.me };
        if self.is_alone() {
            return self.start_phase_one(now, ballot, out);
        }
        let give_up_at = now + self.config.candidacy;
        self.role = Role::PreCandidate(PreCandidate { ballot, granted: vec![self.config.me], give_up_at });
        self.broadcast(&Message::PreVote { ballot }, out);
    }

    pub(crate) fn on_pre_vote(&mut self, now: Time, from: NodeId, ballot: Ballot, out: &mut Vec<Output>) {
        if matches!(self.role, Role::Amnesiac(_)) {
            return;
        }
        let content = match &self.role {
            Role::Leader(leader) => leader.has_majority(self, now),
            _ => self.live_leader().is_some(),
        };
        // Also to one that this log gives no vote: it may have got one since. (Who has lost it finds that out by what it fetches.)
        let granted = !content && ballot > self.promised;
        let message = Message::PreVoteReply { ballot, granted, promised: self.promised, tail: self.tail() };
        self.send(from, message, out);
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(crate) fn on_pre_vote_reply(
        &mut self,
        now: Time,
        from: NodeId,
        ballot: Ballot,
        granted: bool,
        promised: Ballot,
        _tail: Tail,
        out: &mut Vec<Output>,
    ) {
        let Role::PreCandidate(candidate) = &mut self.role else { return };
        if candidate.ballot != ballot {
            return;
        }
        if !granted {
            // Behind the last of all rounds there is none.
            if promised >= ballot && promised.round < u64::MAX {
                // Somebody has seen a higher round: run above it next time.
                let round = promised.round.saturating_add(1);
                let next = Ballot { round, node: self.config.me };
                candidate.ballot = next;
                candidate.granted = vec![self.config.me];
                self.broadcast(&Message::PreVote { ballot: next }, out);
            }
            return;
        }
        if !candidate.granted.contains(&from) {
            candidate.granted.push(from);
        }
        if self.membership.now.is_quorum(|id| candidate.granted.contains(&id)) {
            self.start_phase_one(now, ballot, out);
        }
    }

    /// Promises its own ballot and, once that is on disk, asks the others.
    pub(crate) fn start_phase_one(&mut self, now: Time, ballot: Ballot, out: &mut Vec<Output>) {
        if ballot <= self.promised || self.log.hole().is_some() || !self.may_run() {
            return;
        }
        self.promise(now, ballot, out);
        self.election_at = None;
        let own = Promise {
            from: self.config.me,
            tail: self.tail(),
            incarnation: self.incarnation,
            incarnations: self.incarnations.clone(),
        };
        let jitter = Duration::from_nanos(self.rng.below(self.config.candidacy.as_nanos() as u64 / 2 + 1));
        self.role = Role::Candidate(Candidate {
            promises: vec![own],
            token: self.token,
            give_up_at: now + self.config.candidacy + jitter,
            ask_again_at: now + self.config.heartbeat,
            source: None,
            is_of_majority: false,
        });
        for to in self.other_voters() {
            out.push(Output::SendAfter { token: self.token, to, message: Message::Prepare { ballot } });
        }
        self.count_promises(now, out);
    }

    /// What the source had is here. It may say that others have a vote, too, and then they are asked as well; or that this replica has none.
    pub(crate) fn end_fetching(&mut self, now: Time, out: &mut Vec<Output>) {
        if !self.may_run() {
            return self.become_follower(now);
        }
        let Role::Candidate(candidate) = &mut self.role else { return };
        candidate.source = None;
        let had_majority = candidate.is_of_majority;
        self.count_promises(now, out);
        if matches!(self.role, Role::Candidate(Candidate { source: None, .. })) {
            if had_majority {
                self.probe("paxos: candidate finds other voters in what it fetches");
            }
            self.ask_again(now, out);
        }
    }

    /// Whether this replica may lead: it has a vote, as far as it knows.
    fn may_run(&self) -> bool {
        !self.joins && self.membership.now.names(self.config.me)
    }

    fn ask_again(&mut self, now: Time, out: &mut Vec<Output>) {
        let heartbeat = self.config.heartbeat;
        let Role::Candidate(candidate) = &mut self.role else { return };
        candidate.ask_again_at = now + heartbeat;
        if candidate.source.is_some() && candidate.is_of_majority {
            return self.fetch_tail(out);
        }
        let own_tail = self.log.tail();
        let best = candidate.promises.iter().max_by_key(|promise| promise.tail);
        if let Some(best) = best.filter(|best| best.tail > own_tail) {
            // There is no majority yet: with one, the source is the greatest tail among it. The log of this replica becomes like the other one's and loses nothing that counts, with
            // a majority or without: a log whose last entry has ballot b contains all that was decided under lower ballots.
            (candidate.source, candidate.is_of_majority) = (Some((best.from, best.tail)), false);
            self.probe("paxos: candidate fetches without a majority");
            self.fetch_tail(out);
        }
        // And it asks on: a majority that comes meanwhile is what counts.
        let Role::Candidate(candidate) = &self.role else { return };
        let ballot = self.promised;
        let heard: Vec<NodeId> = candidate.promises.iter().map(|promise| promise.from).collect();
        for to in self.other_voters().into_iter().filter(|id| !heard.contains(id)) {
            out.push(Output::SendAfter { token: self.token, to, message: Message::Prepare { ballot } });
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(crate) fn on_promise(
        &mut self,
        now: Time,
        from: NodeId,
        ballot: Ballot,
        tail: Tail,
        incarnation: u64,
        incarnations: Vec<u64>,
        out: &mut Vec<Output>,
    ) {
        if ballot != self.promised || ballot.node != self.config.me {
            return;
        }
        let Role::Candidate(candidate) = &mut self.role else { return };
        candidate.promises.retain(|promise| promise.from != from || promise.incarnation > incarnation);
        if candidate.promises.iter().all(|promise| promise.from != from) {
            candidate.promises.push(Promise { from, tail, incarnation, incarnations });
        }
        self.count_promises(now, out);
    }

    /// Leads, or fetches what it lacks, once a majority has promised; also while it fetches what it chose without one.
    pub(crate) fn count_promises(&mut self, now: Time, out: &mut Vec<Output>) {
        let own_tail = self.tail();
        let Role::Candidate(candidate) = &mut self.role else { return };
        let is_promised = self.unpersisted.front().is_none_or(|(token, ..)| *token > candidate.token);
        if candidate.source.is_some() && candidate.is_of_majority || !is_promised {
            return;
        }
        if let Some(own) = candidate.promises.iter_mut().find(|promise| promise.from == self.config.me) {
            // It may have changed since, by what was fetched.
            own.tail = own_tail;
        }
        // A promise by an incarnation that has since lost its memory says nothing about what that replica holds.
        // Nor does that of one which has never voted, unless it is the very one that was admitted.
        let members = &self.membership.now;
        let is_good = |promise: &Promise| {
            let admitted = members.admitted(promise.from);
            if promise.incarnations.is_empty() {
                return admitted.is_none_or(|admitted| admitted == promise.incarnation);
            }
            let known = |other: &Promise| known_incarnation(&other.incarnations, promise.from);
            let newest = candidate.promises.iter().map(known).max();
            promise.incarnation >= newest.max(admitted).unwrap_or_default()
        };
        let good: Vec<bool> = candidate.promises.iter().map(is_good).collect();
        let stale = good.contains(&false);
        let mut good = good.into_iter();
        candidate.promises.retain(|_| good.next().unwrap_or_default());
        let enough = members.is_quorum(|id| candidate.promises.iter().any(|promise| promise.from == id));
        let best =
            candidate.promises.iter().max_by_key(|promise| promise.tail).map(|promise| (promise.from, promise.tail));
        if enough
            && let Some((from, tail)) = best
            && tail > own_tail
        {
            (candidate.source, candidate.is_of_majority) = (Some((from, tail)), true);
        }
        let fetching = candidate.source.is_some() && candidate.is_of_majority;
        if stale {
            self.probe("paxos: stale promise of a lost incarnation");
        }
        if fetching {
            self.probe("paxos: candidate fetches a greater tail");
            self.fetch_tail(out);
        } else if enough {
            self.become_leader(now, out);
        }
    }

    /// Somebody has promised a higher ballot than the one this replica spoke under.
    pub(crate) fn on_refuse(&mut self, now: Time, promised: Ballot, out: &mut Vec<Output>) {
        if promised <= self.promised {
            return;
        }
        match self.role {
            Role::Candidate(_) => {
                self.probe("paxos: candidate refused");
                // Remember the round, so that the next attempt runs above it. It is not obeyed: nothing was asked.
                self.persist_higher_round(promised, out);
                self.become_follower(now);
            }
            Role::Leader(_) => {
                self.probe("paxos: leader refused by a higher ballot");
                self.persist_higher_round(promised, out);
                out.push(Output::Event(format!("leadership lost to ballot {promised}")));
                self.become_follower(now);
            }
            _ => {}
        }
    }

    /// Promises what another replica was seen to have promised; that is always allowed.
    fn persist_higher_round(&mut self, promised: Ballot, out: &mut Vec<Output>) {
        self.promised = promised;
        self.matched = (promised, Position(0));
        self.persist_state(out);
    }

    /// The failure detector's news.
    pub(crate) fn on_peer(
        &mut self,
        now: Time,
        id: NodeId,
        up: bool,
        (leads, rests): (Option<Ballot>, Option<(Ballot, Position)>),
        out: &mut Vec<Output>,
    ) {
        if id == self.config.me {
            return;
        }
        if self.peer(id).is_none() {
            self.peers.push(Peer::new(id, now));
        }
        let Some(peer) = self.peers.iter_mut().find(|peer| peer.id == id) else { return };
        let came_up = up && !peer.up;
        if (peer.up, peer.leads) != (up, leads) {
            peer.heard = None;
        }
        let changes = peer.up != up;
        if changes {
            peer.up = up;
            peer.since = now;
        }
        (peer.leads, peer.rests) = (leads, rests);
        let rounds = leads.into_iter().chain(rests.map(|(ballot, _)| ballot)).map(|ballot| ballot.round);
        rounds.for_each(|round| self.hear_of_round(id, round));
        if let Role::Leader(leader) = &mut self.role
            && let Some(follower) = leader.followers.iter_mut().find(|follower| follower.id == id)
        {
            let rests = rests.is_some_and(|(ballot, _)| ballot == self.promised);
            follower.answers = rests || (follower.answers && !changes);
        }
        if came_up && matches!(self.role, Role::Blank(_) | Role::Amnesiac(_)) {
            self.ask_one_to_recover(id, out);
        }
    }
}
