//! Rounds that no election can have come to.
//!
//! A replica that promises a round obeys no lower one, also after a restart. A message that makes it promise the last of all rounds takes all leaders from it for ever. A
//! refused candidate runs in a higher round than the one that it hears of, and so passes such a round on. One message of one member must not do that.
//!
//! A round grows by one with each attempt that a majority has allowed. A message that speaks of one further ahead than [`ROUNDS_AHEAD_MAX`] is ignored, until another
//! replica speaks of such rounds, too: then the group has come there while this replica was away. What the owner of another replica says in its pings is a word as
//! well. A replica that has promised nothing believes the only other replica that it knows.

use base::{Ballot, NodeId};

use crate::door::Planted;
use crate::message::{Entry, Knowledge, Message};
use crate::replica::Replica;

/// More attempts than a group comes to while a replica is away: one of them in each 50 ms takes ten days. `dictum unsafe-recover` spares a sixteenth of it.
const ROUNDS_AHEAD_MAX: u64 = 1 << 24;

impl Replica {
    /// True if a replica may have come to this round. What it says counts for others that say the same.
    pub(crate) fn may_have_come_to(&mut self, from: NodeId, round: u64) -> bool {
        if self.is_within_reach(round) || self.config.planted == Some(Planted::AnyRound) {
            // It is where all are, whatever was said in its name before.
            if let Some(peer) = self.peers.iter_mut().find(|peer| peer.id == from && peer.far > 0 && round > 0) {
                peer.far = 0;
            }
            return true;
        }
        self.note_far(from, round);
        let others = self.peers.iter().filter(|peer| peer.id != from).map(|peer| peer.far).max().unwrap_or(0);
        let is_near = round <= others.saturating_add(ROUNDS_AHEAD_MAX);
        if !is_near {
            self.probe("paxos: a round out of reach ignored");
        }
        is_near
    }

    /// A replica says in its pings that it leads, or follows, in this round.
    pub(crate) fn hear_of_round(&mut self, from: NodeId, round: u64) {
        if !self.is_within_reach(round) {
            self.note_far(from, round);
        }
    }

    fn note_far(&mut self, from: NodeId, round: u64) {
        if let Some(peer) = self.peers.iter_mut().find(|peer| peer.id == from) {
            peer.far = peer.far.max(round);
        }
    }

    /// True if a leader may have this ballot, as far as one replica can tell: for what owners tell each other beside the messages of replicas.
    #[must_use]
    pub fn may_be_led_under(&self, ballot: Ballot) -> bool {
        self.is_within_reach(ballot.round)
    }

    fn is_within_reach(&self, round: u64) -> bool {
        let knows_nothing = self.promised.round == 0 && self.peers.len() <= 1;
        knows_nothing || round <= self.promised.round.saturating_add(ROUNDS_AHEAD_MAX)
    }
}

impl Message {
    /// The highest round that the message speaks of.
    pub(crate) fn round(&self) -> u64 {
        let of = |ballots: &[Ballot]| ballots.iter().map(|ballot| ballot.round).max().unwrap_or(0);
        let of_entries = |entries: &[Entry]| entries.iter().map(|entry| entry.ballot.round).max().unwrap_or(0);
        match self {
            Message::PreVote { ballot }
            | Message::Prepare { ballot }
            | Message::Accepted { ballot, .. }
            | Message::Held { ballot, .. }
            | Message::Decided { ballot, .. }
            | Message::Mismatch { ballot, .. }
            | Message::Confirm { ballot, .. }
            | Message::Confirmed { ballot, .. }
            | Message::HandOver { ballot }
            | Message::Learns { ballot, .. }
            | Message::Leaves { ballot, .. }
            | Message::Left { ballot, .. } => ballot.round,
            Message::PreVoteReply { ballot, promised, tail, .. } => of(&[*ballot, *promised, tail.ballot]),
            Message::Promise { ballot, tail, .. } => of(&[*ballot, tail.ballot]),
            Message::Refuse { promised } => promised.round,
            Message::Accept { ballot, previous_ballot, entries, .. } => {
                of(&[*ballot, *previous_ballot]).max(of_entries(entries))
            }
            Message::Fetch { ballot, previous_ballot, .. } => of(&[ballot.unwrap_or_default(), *previous_ballot]),
            Message::Fetched { ballot, previous_ballot, entries, .. } => {
                of(&[ballot.unwrap_or_default(), *previous_ballot]).max(of_entries(entries))
            }
            Message::RecoverReply { knowledge: Knowledge::Noted { promised, leads, .. }, .. } => {
                of(&[*promised, leads.map_or_else(Ballot::default, |leads| leads.ballot)])
            }
            Message::Recover { .. } | Message::RecoverReply { .. } => 0,
        }
    }
}
