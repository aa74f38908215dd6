//! Rest: where nothing happens, nothing is said and no time passes.
//!
//! A node may hold thousands of replicas, and most of them have nothing to do most of the time. Heartbeats of each would be most of what the
//! node does. So
//! 1. a follower that lacks nothing says so ([`Replica::rests`]) in the failure detector's messages, which a node sends once for all;
//! 2. a leader that has heard it leaves that follower in peace: no heartbeats, until it has something new, or the detector has other news;
//! 3. a replica tells when it next wants an [`crate::Input::Tick`] ([`Replica::due`]).
//!
//! Why nothing is lost by that. What is decided and read never depends on heartbeats: ballots are compared where entries and confirmations are
//! answered. That a leader lives its followers know from the failure detector, with the ballot under which it leads; that a majority is there the
//! leader knows from the same. What else a heartbeat does is to bring a follower what it lacks and to bring back that it obeys somebody else: a follower
//! of whom either is true does not say that it rests under this ballot, with everything that is decided, and then it is spoken to. It says it only
//! when it has heard the leader in this life of its process, so that one that starts again is asked anew where its log ends.

use base::{Ballot, Position, Time};

use crate::members::Members;
use crate::proposer::{Follower, Leader};
use crate::replica::{Peer, Replica, Role};

impl Replica {
    /// The ballot that this replica follows and up to where it has the log, all of it on disk and known to be decided; none if it lacks anything.
    #[must_use]
    pub fn rests(&self) -> Option<(Ballot, Position)> {
        let is_whole = matches!(self.role, Role::Follower) && self.log.hole().is_none() && self.is_on_disk();
        let has_all = self.decided == self.log.last() && self.matched == (self.promised, self.decided);
        (is_whole && has_all).then_some(self.matched)
    }

    /// Before this time no Tick changes anything, unless another input comes first; none: no Tick at all does.
    #[must_use]
    pub fn due(&self, now: Time) -> Option<Time> {
        let (heartbeat, candidacy) = (self.config.heartbeat, self.config.candidacy);
        let of_role = match &self.role {
            Role::Blank(_) | Role::Amnesiac(_) => Some(now),
            Role::Follower if self.live_leader().is_some() => self.election_at.map(|_| now),
            // It has never had a vote, and waits for a leader.
            Role::Follower if self.joins => None,
            Role::Follower => Some(self.election_at.unwrap_or(now)),
            Role::PreCandidate(candidate) => Some(candidate.give_up_at),
            Role::Candidate(candidate) => Some(candidate.give_up_at.min(candidate.ask_again_at)),
            Role::Leader(leader) => self.leader_due(leader, now),
        };
        // What a leader has said is believed for a while only.
        let forgets = self.peers.iter().filter_map(|peer| peer.heard.map(|(_, at)| at + candidacy));
        let of_disk = (!self.is_on_disk()).then_some(now);
        let repairs = self.log.hole().map(|_| self.repair_at + heartbeat);
        forgets.chain(of_role).chain(of_disk).chain(repairs).min()
    }

    fn leader_due(&self, leader: &Leader, now: Time) -> Option<Time> {
        let (heartbeat, settle) = (self.config.heartbeat, self.config.settle);
        let is_lonely = leader.lonely_since.is_some() || !self.reaches_majority();
        if is_lonely || leader.hand_over.is_some() || leader.stored < self.log.last() {
            return Some(now);
        }
        let gives_back = self.peer(self.config.preferred).filter(|peer| peer.up);
        let gives_back = gives_back.map(|peer| peer.since.max(leader.since) + settle);
        let restless = leader.followers.iter().filter(|follower| !self.leaves_in_peace(follower));
        let speaks = restless.map(|follower| follower.due((now, self.log.last()), heartbeat));
        // Whether voters can change depends on more than what comes to this replica: it looks again.
        let changes = self.wants_other_members().then(|| now + heartbeat);
        let recover = leader.followers.iter().filter_map(|follower| follower.recovers_at);
        let changes = recover.map(|at| at + self.recovers_for()).chain(changes);
        speaks.chain(gives_back).chain(leader.confirmation.due(now, heartbeat)).chain(changes).min()
    }

    /// Whether other voters are wanted than there are, or a change is under way.
    fn wants_other_members(&self) -> bool {
        let (members, wanted) = (&self.membership.now, &self.roster.voters);
        let others = *wanted != members.nodes() || self.roster.number > members.number;
        members.is_joint() || !members.names(self.config.me) || (!wanted.is_empty() && others)
    }

    fn leaves_in_peace(&self, follower: &Follower) -> bool {
        lacks_nothing(follower, &self.peers, &self.membership.now, (self.promised, self.decided, self.log.last()))
    }
}

/// Whether a leader of this ballot, with everything decided up to the end of its log, knows a follower to rest.
pub(crate) fn lacks_nothing(
    follower: &Follower,
    peers: &[Peer],
    members: &Members,
    (ballot, decided, last): (Ballot, Position, Position),
) -> bool {
    let rests = |peer: &Peer| peer.id == follower.id && peer.up && peer.rests == Some((ballot, last));
    // A learner that has not said under which incarnation it learns is asked on: it could get no vote.
    let is_known = follower.learns_as.is_some() || members.names(follower.id);
    decided == last && is_known && follower.has_all(last) && peers.iter().any(rests)
}
