//! Linearizable reads without a log entry: one round serves every read that waits.
//!
//! A read that asks at some moment gets the number of the next round to be *sent*. When a majority has
//! answered that round, nobody else was elected before the read arrived, so the state at
//! max(decided then, opening entry) contains every write that was acknowledged before it.
//!
//! A follower that asks its leader on behalf of a read has, when it asks, promised nothing higher than that leader's ballot, and says so: it *vouches*
//! ([`Replica::vouches_for`]). If it and the leader are a majority ([`Replica::is_majority_with`]), no round is needed for that read: whoever was elected before
//! the read arrived has the promise of one of the two, the follower's before it asked or the leader's before it answers. It does not do for reads of others,
//! which may have arrived after the follower had asked.

use std::time::Duration;

use base::{Ballot, NodeId, Time};

use crate::door::Output;
use crate::message::Message;
use crate::replica::{Replica, Role};

/// What [`Replica::answer`] has for a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It may change something: it has to be given to [`Replica::step`].
    NeedsStep,
    /// It changes nothing, and there is nothing to say.
    Nothing,
    /// It changes nothing, and this is said.
    With(Message),
}

/// Rounds of one leadership.
#[derive(Debug)]
pub(crate) struct Confirmation {
    /// The last round that was sent.
    sent: u64,
    sent_at: Time,
    /// The last round that a majority has answered.
    confirmed: u64,
    /// A read waits for round `sent + 1`.
    wanted: bool,
    /// The latest round that each follower has answered.
    answered: Vec<(NodeId, u64)>,
}

impl Confirmation {
    pub(crate) fn new() -> Confirmation {
        Confirmation { sent: 0, sent_at: Time(0), confirmed: 0, wanted: false, answered: Vec::new() }
    }

    /// When something is to be sent that is not sent at once.
    pub(crate) fn due(&self, now: Time, heartbeat: Duration) -> Option<Time> {
        if self.confirmed < self.sent { Some(self.sent_at + heartbeat) } else { self.wanted.then_some(now) }
    }
}

impl Replica {
    /// Asks for a confirmation that this replica leads now, and names the round that will bring it
    /// ([`Output::Confirmed`]). None when it does not lead.
    pub fn request_confirmation(&mut self) -> Option<u64> {
        let confirmation = self.confirmation()?;
        confirmation.wanted = true;
        Some(confirmation.sent + 1)
    }

    /// Sends the next round if a read waits for it and none is under way.
    pub(crate) fn flush_confirmation(&mut self, now: Time, out: &mut Vec<Output>) {
        let ballot = self.promised;
        let Some(confirmation) = self.confirmation() else { return };
        if !confirmation.wanted || confirmation.confirmed < confirmation.sent {
            return;
        }
        confirmation.wanted = false;
        confirmation.sent += 1;
        confirmation.sent_at = now;
        let round = confirmation.sent;
        // Whoever votes alone asks nobody.
        self.settle_round(out);
        if self.confirmation().is_some_and(|it| it.confirmed < round) {
            self.broadcast(&Message::Confirm { ballot, round }, out);
        }
    }

    /// Asks again when a round's question or answer seems lost.
    pub(crate) fn tick_confirmation(&mut self, now: Time, out: &mut Vec<Output>) {
        let (ballot, heartbeat) = (self.promised, self.config.heartbeat);
        let is_late = |it: &mut Confirmation| it.confirmed < it.sent && now.since(it.sent_at) >= heartbeat;
        if self.confirmation().is_some_and(is_late) {
            // Those who have not answered may have no vote any more, and be gone.
            self.settle_round(out);
        }
        let Some(confirmation) = self.confirmation() else { return };
        if is_late(confirmation) {
            confirmation.sent_at = now;
            let round = confirmation.sent;
            self.broadcast(&Message::Confirm { ballot, round }, out);
        }
        self.flush_confirmation(now, out);
    }

    /// The ballot of the leader that this replica follows, if its word that it has promised nothing higher counts. A word given is good for reads that were
    /// there before.
    #[must_use]
    pub fn vouches_for(&self) -> Option<Ballot> {
        (!self.joins && matches!(self.role, Role::Follower)).then_some(self.promised)
    }

    /// Whether this replica leads with that ballot, and it and the one that vouches for it are a majority of those who vote.
    #[must_use]
    pub fn is_majority_with(&self, voucher: NodeId, ballot: Ballot) -> bool {
        let me = self.config.me;
        let leads = matches!(self.role, Role::Leader(_)) && ballot == self.promised;
        leads && self.membership.now.is_quorum(|id| id == me || id == voucher)
    }

    pub(crate) fn on_confirm(&mut self, from: NodeId, ballot: Ballot, round: u64, out: &mut Vec<Output>) {
        if let Some(message) = self.confirms(ballot, round) {
            self.send(from, message, out);
        }
    }

    /// What it says to a leader that wants to know whether it still leads.
    fn confirms(&self, ballot: Ballot, round: u64) -> Option<Message> {
        // Without memory of its promises a replica cannot say that there is no higher one; and who has never voted may have lost it.
        if self.joins || matches!(self.role, Role::Amnesiac(_) | Role::Blank(_)) {
            return None;
        }
        let is_lower = ballot < self.promised;
        Some(if is_lower { Message::Refuse { promised: self.promised } } else { Message::Confirmed { ballot, round } })
    }

    /// The answer to a message that changes nothing here, if this is one: a step would bring the same, and an owner that has many replicas can let this one sleep.
    #[must_use]
    pub fn answer(&self, from: NodeId, message: &Message) -> Answer {
        match message {
            _ if self.peer(from).is_none() => Answer::NeedsStep,
            Message::Confirm { ballot, round } => self.confirms(*ballot, *round).map_or(Answer::Nothing, Answer::With),
            Message::Confirmed { ballot, .. } if !self.waits_for_round(*ballot) => Answer::Nothing,
            _ => Answer::NeedsStep,
        }
    }

    /// Whether it leads by that ballot, and a majority has not answered its last round yet.
    fn waits_for_round(&self, ballot: Ballot) -> bool {
        let Role::Leader(leader) = &self.role else { return false };
        ballot == self.promised && leader.confirmation.confirmed < leader.confirmation.sent
    }

    pub(crate) fn on_confirmed(&mut self, from: NodeId, ballot: Ballot, round: u64, out: &mut Vec<Output>) {
        if ballot != self.promised {
            return;
        }
        let Role::Leader(leader) = &mut self.role else { return };
        let confirmation = &mut leader.confirmation;
        match confirmation.answered.iter_mut().find(|(id, _)| *id == from) {
            Some((_, answered)) => *answered = round.max(*answered),
            None => confirmation.answered.push((from, round)),
        }
        self.settle_round(out);
    }

    /// The last round is over if a majority has answered it: of those who vote by now, who may be others than when it was sent.
    fn settle_round(&mut self, out: &mut Vec<Output>) {
        let me = self.config.me;
        let Role::Leader(leader) = &mut self.role else { return };
        let confirmation = &mut leader.confirmation;
        let current = confirmation.sent;
        let has =
            |id: NodeId| id == me || confirmation.answered.iter().any(|(of, round)| *of == id && *round >= current);
        if confirmation.confirmed < current && self.membership.now.is_quorum(has) {
            confirmation.confirmed = current;
            out.push(Output::Confirmed { round: current });
        }
    }
}
