//! The leader: appends what is proposed, sends it to all at once, and counts the disks that have it.
//!
//! Any number of entries may be undecided at a time. The leader's own journal writes while the followers' do; it need
//! not be among the majority. Each follower is in one of two states: *probing* (one question at a time, until the
//! point where both logs agree is known) or *streaming* (everything new at once, up to a window of unacknowledged bytes).

use std::collections::VecDeque;
use std::time::Duration;

use base::limits::{ACCEPT_BYTES_TARGET, FOLLOWER_TURN_BYTES_TARGET, FOLLOWER_WINDOW_BYTES_MAX, UNDECIDED_ENTRIES_MAX};
use base::{Ballot, NodeId, Position, Time};
use bytes::Bytes;

use crate::confirm::Confirmation;
use crate::door::{Output, Planted, Record};
use crate::handover::HandOver;
use crate::message::{Entry, Message};
use crate::replica::{Peer, Replica, Role};
use crate::rest;

/// What the leader knows of one follower. `matched < next`.
#[derive(Debug)]
pub(crate) struct Follower {
    pub id: NodeId,
    /// Its log agrees with ours up to here, on its disk.
    pub matched: Position,
    /// The next entry to send.
    next: Position,
    /// The point of agreement is not known yet: one question at a time.
    probing: bool,
    /// Sent and unacknowledged: last position and bytes of each message.
    in_flight: VecDeque<(Position, usize)>,
    in_flight_bytes: usize,
    /// Bytes of entries that it was sent in this turn.
    given: usize,
    /// When anything was last sent to it.
    sent_at: Time,
    /// When it last acknowledged something new, or had nothing to acknowledge.
    progress_at: Time,
    /// It needs a snapshot; the owner has been told at this time.
    snapshot_at: Option<Time>,
    /// It has no vote, and learns under this incarnation, as it has said.
    pub learns_as: Option<u64>,
    /// It has answered since its node was last found to be up, or down: what it had before it may have lost.
    pub answers: bool,
    /// When it asked last, as one that has lost its memory; none if that is long ago.
    pub recovers_at: Option<Time>,
}

/// The state of a leadership.
#[derive(Debug)]
pub(crate) struct Leader {
    /// The entry that opened this leadership: nothing is decided by counting before it.
    pub opening: Position,
    pub followers: Vec<Follower>,
    /// Entries after this one have been appended and not yet given to the disk.
    pub stored: Position,
    pub confirmation: Confirmation,
    pub hand_over: Option<HandOver>,
    /// Weight of the entries that are not decided, in bytes.
    undecided_bytes: usize,
    pub since: Time,
    /// Since when too few followers are heard.
    pub lonely_since: Option<Time>,
    /// Who has begun anew under this leadership, and as whom nobody is to take it any more.
    pub left: Vec<(NodeId, u64)>,
}

impl Leader {
    pub(crate) fn takes_proposals(&self, replica: &Replica) -> bool {
        let undecided = replica.log.last().0 - replica.decided.0;
        self.hand_over.is_none()
            && !replica.held_back
            && self.undecided_bytes < replica.config.undecided_bytes_max
            && undecided < UNDECIDED_ENTRIES_MAX
    }

    /// Whether a majority, this leader included, is up; a leader of whom that has just ceased to be true keeps the benefit of the doubt.
    pub(crate) fn has_majority(&self, replica: &Replica, now: Time) -> bool {
        replica.reaches_majority() || self.lonely_since.is_none_or(|since| now.since(since) < replica.config.candidacy)
    }
}

impl Replica {
    pub(crate) fn become_leader(&mut self, now: Time, out: &mut Vec<Output>) {
        let last = self.log.last();
        let leader = Leader {
            opening: last.next(),
            followers: Vec::new(),
            stored: last,
            confirmation: Confirmation::new(),
            hand_over: None,
            undecided_bytes: self.log.weight(self.decided.next(), last),
            since: now,
            lonely_since: None,
            left: Vec::new(),
        };
        self.election_at = None;
        self.role = Role::Leader(Box::new(leader));
        out.push(Output::Event(format!("leads from position {} under ballot {}", last.next(), self.promised)));
        self.follow_roster(now);
        self.append_own(Bytes::new());
        self.flush(now, out);
    }

    pub(crate) fn on_propose(&mut self, payload: Bytes) {
        if self.can_propose() {
            self.append_own(payload);
        }
    }

    pub(crate) fn append_own(&mut self, payload: Bytes) {
        let entry = Entry { ballot: self.promised, payload: payload.clone() };
        if let Role::Leader(leader) = &mut self.role {
            leader.undecided_bytes += entry.weight();
            let at = self.log.append(entry);
            self.notice_members(at, &payload);
        }
    }

    /// Has a follower in mind for everybody that votes, shall vote, or learns; and for nobody else.
    pub(crate) fn follow_roster(&mut self, now: Time) {
        let mut nodes = self.membership.now.nodes();
        nodes.extend(self.roster.voters.iter().chain(&self.roster.learners));
        nodes.sort_unstable();
        nodes.dedup();
        nodes.retain(|id| *id != self.config.me);
        for id in &nodes {
            if self.peer(*id).is_none() {
                self.peers.push(Peer::new(*id, now));
            }
        }
        let next = self.log.last().next();
        let Role::Leader(leader) = &mut self.role else { return };
        leader.followers.retain(|follower| nodes.contains(&follower.id));
        for id in nodes {
            if leader.followers.iter().all(|follower| follower.id != id) {
                leader.followers.push(Follower::new(id, next, now));
            }
        }
    }

    /// Ends the turn: one record for the disk, and to each follower what is new to it.
    pub(crate) fn flush(&mut self, now: Time, out: &mut Vec<Output>) {
        self.change_members(now);
        let last = self.log.last();
        let Role::Leader(leader) = &mut self.role else { return };
        if leader.stored < last {
            let previous = leader.stored;
            leader.stored = last;
            let entries = self.log.slice(previous.next(), last, usize::MAX);
            self.persist(Record::Append { previous, entries }, previous, out);
        }
        self.flush_confirmation(now, out);
        self.stream(now, out);
        self.flush_hand_over(out);
        self.count_own_copy();
    }

    /// The owner's turn is over, however often it was flushed: followers may be sent a turn's share again.
    pub fn end_turn(&mut self) {
        if let Role::Leader(leader) = &mut self.role {
            leader.followers.iter_mut().for_each(|follower| follower.given = 0);
        }
    }

    fn stream(&mut self, now: Time, out: &mut Vec<Output>) {
        let last = self.log.last();
        let heartbeat = self.config.heartbeat;
        let (ballot, decided) = (self.promised, self.decided);
        let Role::Leader(leader) = &mut self.role else { return };
        let mut needs_snapshot = false;
        for follower in &mut leader.followers {
            let quiet = now.since(follower.sent_at) >= heartbeat
                && !rest::lacks_nothing(follower, &self.peers, &self.membership.now, (ballot, decided, last));
            if !follower.probing && !follower.in_flight.is_empty() && now.since(follower.progress_at) >= heartbeat * 4 {
                // Something was lost, or its disk is slow: ask where it is before sending more.
                follower.probing = true;
                follower.next = follower.matched.next().max(self.log.first());
                follower.forget_in_flight();
            }
            loop {
                if !quiet && (follower.probing || follower.next > last) {
                    break;
                }
                let previous = follower.next.previous();
                let Some(previous_ballot) = self.log.ballot_at(previous) else {
                    // What it lacks is not in the log any more.
                    if follower.snapshot_at.is_none_or(|at| now.since(at) >= heartbeat) {
                        follower.snapshot_at = Some(now);
                        needs_snapshot = true;
                        out.push(Output::SendSnapshot { to: follower.id });
                    }
                    if quiet {
                        // A sign of life that asks again at the end of the log.
                        let previous_ballot = self.log.tail().ballot;
                        let entries = Vec::new();
                        let message = Message::Accept { ballot, previous: last, previous_ballot, entries, decided };
                        out.push(Output::Send { to: follower.id, message });
                        follower.sent_at = now;
                    }
                    break;
                };
                // A turn may come here more than once.
                let share = FOLLOWER_TURN_BYTES_TARGET.saturating_sub(follower.given);
                let has_room = follower.in_flight_bytes < FOLLOWER_WINDOW_BYTES_MAX && share > 0;
                let wanted = follower.next <= last && has_room && (!follower.probing || quiet);
                let entries = match (wanted, follower.probing) {
                    (false, _) => Vec::new(),
                    (true, true) => self.log.slice(follower.next, last, 1),
                    (true, false) => self.log.slice(follower.next, last, share.min(ACCEPT_BYTES_TARGET)),
                };
                if entries.is_empty() && !quiet {
                    break;
                }
                let sent = entries.len() as u64;
                if sent > 0 {
                    if follower.in_flight.is_empty() {
                        follower.progress_at = now;
                    }
                    let bytes: usize = entries.iter().map(Entry::weight).sum();
                    follower.given += bytes;
                    let end = Position(previous.0 + sent);
                    if !follower.probing {
                        follower.in_flight.push_back((end, bytes));
                        follower.in_flight_bytes += bytes;
                        follower.next = end.next();
                    }
                }
                let message = Message::Accept { ballot, previous, previous_ballot, entries, decided };
                out.push(Output::Send { to: follower.id, message });
                follower.sent_at = now;
                // What is left goes in later turns: when it acknowledges some of it at the latest.
                if follower.probing || sent == 0 || follower.next > last || follower.given >= FOLLOWER_TURN_BYTES_TARGET
                {
                    break;
                }
            }
        }
        if needs_snapshot {
            self.probe("paxos: follower needs a snapshot");
        }
    }

    pub(crate) fn on_accepted(&mut self, now: Time, from: NodeId, ballot: Ballot, position: Position) {
        if ballot != self.promised || position > self.log.last() {
            return;
        }
        let counts = self.is_known(from);
        let Role::Leader(leader) = &mut self.role else { return };
        let Some(follower) = leader.followers.iter_mut().find(|follower| follower.id == from) else { return };
        follower.answers = true;
        if counts && position > follower.matched {
            follower.matched = position;
            follower.progress_at = now;
        }
        follower.snapshot_at = None;
        follower.taken(if counts { follower.matched } else { position });
        if follower.probing {
            follower.probing = false;
            follower.forget_in_flight();
            follower.next = position.next();
        }
        self.decide();
    }

    /// A follower whose disk stands still has taken everything up to `position` into its memory. That counts for nothing but
    /// the flow: it gets what follows, until it says no more (`Config::undecided_bytes_max`).
    pub(crate) fn on_held(&mut self, now: Time, from: NodeId, ballot: Ballot, position: Position) {
        if ballot != self.promised || position > self.log.last() || !self.is_known(from) {
            return;
        }
        let Role::Leader(leader) = &mut self.role else { return };
        let Some(follower) = leader.followers.iter_mut().find(|follower| follower.id == from) else { return };
        if follower.probing {
            follower.probing = false;
            follower.forget_in_flight();
            follower.next = position.next();
        }
        if follower.taken(position) {
            follower.progress_at = now;
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(crate) fn on_mismatch(
        &mut self,
        now: Time,
        from: NodeId,
        ballot: Ballot,
        previous: Position,
        last: Position,
        decided: Position,
        out: &mut Vec<Output>,
    ) {
        if ballot != self.promised {
            return;
        }
        let own_last = self.log.last();
        let Role::Leader(leader) = &mut self.role else { return };
        let Some(follower) = leader.followers.iter_mut().find(|follower| follower.id == from) else { return };
        if previous > own_last {
            return;
        }
        // Just before the end of its log when it is the shorter one; otherwise where it is certain to agree.
        let agreed = if last < previous { last } else { decided };
        let agreed = agreed.min(own_last);
        follower.next = agreed.next();
        follower.probing = true;
        follower.forget_in_flight();
        // While a snapshot is under way every question is answered like this: the next one waits for its time.
        let heartbeat = self.config.heartbeat;
        let snapshot_under_way = follower.snapshot_at.is_some_and(|at| now.since(at) < heartbeat);
        if self.log.ballot_at(agreed).is_some() || !snapshot_under_way {
            follower.sent_at = now - heartbeat;
        }
        self.stream(now, out);
    }

    /// Tells one follower what is decided now, because it has clients that wait for it.
    pub fn announce(&self, to: NodeId, out: &mut Vec<Output>) {
        if let Role::Leader(_) = &self.role {
            self.send(to, Message::Decided { ballot: self.promised, decided: self.decided }, out);
        }
    }

    /// How far the log of `peer` agrees with this one, on its disk, as far as is known here; none if this replica does not lead.
    #[must_use]
    pub fn matched(&self, peer: NodeId) -> Option<Position> {
        let Role::Leader(leader) = &self.role else { return None };
        leader.followers.iter().find(|follower| follower.id == peer).map(|follower| follower.matched)
    }

    /// Counts this leader's own disk, whose progress the owner has just told.
    pub(crate) fn count_own_copy(&mut self) {
        if matches!(self.role, Role::Leader(_)) {
            self.decide();
        }
    }

    fn decide(&mut self) {
        let own = match self.config.planted {
            Some(Planted::CountUnsyncedSelf) => self.log.last(),
            _ => self.persisted(),
        };
        let me = self.config.me;
        let Role::Leader(leader) = &mut self.role else { return };
        let position = self.membership.now.quorum_has(|id| {
            let follower = leader.followers.iter().find(|follower| follower.id == id);
            if id == me { own } else { follower.map_or(Position(0), |follower| follower.matched) }
        });
        if position >= leader.opening && position > self.decided {
            let bytes = self.log.weight(self.decided.next(), position);
            leader.undecided_bytes = leader.undecided_bytes.saturating_sub(bytes);
            self.decided = position;
        }
    }

    pub(crate) fn tick_leader(&mut self, now: Time, out: &mut Vec<Output>) {
        let (reaches_majority, candidacy) = (self.reaches_majority(), self.config.candidacy);
        let recovers_for = self.recovers_for();
        let Role::Leader(leader) = &mut self.role else { return };
        for follower in &mut leader.followers {
            follower.recovers_at = follower.recovers_at.filter(|at| now.since(*at) < recovers_for);
        }
        if reaches_majority {
            leader.lonely_since = None;
        } else {
            let since = *leader.lonely_since.get_or_insert(now);
            if now.since(since) >= candidacy {
                self.probe("paxos: leader loses its majority");
                out.push(Output::Event("does not hear a majority and stops leading".to_owned()));
                return self.become_follower(now);
            }
        }
        self.tick_confirmation(now, out);
        self.tick_hand_over(now);
        self.stream(now, out);
        self.flush_hand_over(out);
    }

    /// How long this replica has led; none when it does not.
    pub(crate) fn leading_for(&self, now: Time) -> Option<Duration> {
        match &self.role {
            Role::Leader(leader) => Some(now.since(leader.since)),
            _ => None,
        }
    }

    /// The positions that each replica's disk is known to hold under this leadership, learners' and this replica's own included;
    /// empty when it does not lead.
    #[must_use]
    pub fn copies(&self) -> Vec<(NodeId, Position)> {
        match &self.role {
            Role::Leader(leader) => {
                let followers = leader.followers.iter().map(|follower| (follower.id, follower.matched));
                followers.chain([(self.config.me, self.persisted())]).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The position from which on this leadership's reads may be served: its opening entry. None when it does not lead.
    #[must_use]
    pub fn opening(&self) -> Option<Position> {
        match &self.role {
            Role::Leader(leader) => Some(leader.opening),
            _ => None,
        }
    }
}

impl Follower {
    fn new(id: NodeId, next: Position, now: Time) -> Follower {
        Follower {
            id,
            matched: Position(0),
            next,
            probing: true,
            in_flight: VecDeque::new(),
            in_flight_bytes: 0,
            given: 0,
            sent_at: now - Duration::from_secs(3600),
            progress_at: now,
            snapshot_at: None,
            learns_as: None,
            answers: false,
            recovers_at: None,
        }
    }

    /// It has everything up to the end of the log, on its disk, and nothing is on its way.
    pub(crate) fn has_all(&self, last: Position) -> bool {
        !self.probing && self.in_flight.is_empty() && self.matched == last && self.next > last
    }

    /// When it is spoken to next, if nothing happens before.
    pub(crate) fn due(&self, (now, last): (Time, Position), heartbeat: Duration) -> Time {
        if !self.probing && self.next <= last {
            // A turn's share was not enough.
            return now;
        }
        let asks = (!self.in_flight.is_empty()).then(|| self.progress_at + heartbeat * 4);
        asks.map_or(self.sent_at + heartbeat, |at| at.min(self.sent_at + heartbeat))
    }

    /// It has lost its memory: nothing is known of its log any more.
    pub(crate) fn forget(&mut self) {
        self.matched = Position(0);
        self.probing = true;
        self.forget_in_flight();
    }

    /// What was sent up to `position` has arrived. False if nothing of it was in flight.
    fn taken(&mut self, position: Position) -> bool {
        let before = self.in_flight.len();
        while let Some((end, bytes)) = self.in_flight.front().copied()
            && end <= position
        {
            self.in_flight.pop_front();
            self.in_flight_bytes -= bytes;
        }
        self.in_flight.len() < before
    }

    fn forget_in_flight(&mut self) {
        self.in_flight.clear();
        self.in_flight_bytes = 0;
    }
}
