//! Replicas without a vote: they tell the leader as whom they learn, and those that are to have no vote any more begin anew, once the leader has agreed.
//!
//! What one of them says of its log counts under the incarnation that it has named. Whoever has begun anew names another one; until the leader has heard that, nothing
//! that comes from it counts.

use std::sync::Arc;

use base::{Ballot, NodeId, Position};

use crate::door::{Output, Planted, Record};
use crate::log::Log;
use crate::members::{Members, Membership};
use crate::message::{Knowledge, Message};
use crate::replica::{Replica, Role};

impl Replica {
    /// A replica without a vote tells the leader that it follows under which incarnation it learns.
    pub(crate) fn tell_incarnation(&self, leader: NodeId, out: &mut Vec<Output>) {
        let named = self.membership.now.names(self.config.me) && !self.joins;
        if !named && !matches!(self.role, Role::Blank(_) | Role::Amnesiac(_)) {
            let message = Message::Learns { ballot: self.promised, incarnation: self.incarnation };
            out.push(Output::SendAfter { token: self.token, to: leader, message });
        }
    }

    pub(crate) fn on_learns(&mut self, from: NodeId, ballot: Ballot, incarnation: u64, out: &mut Vec<Output>) {
        if ballot != self.promised {
            return;
        }
        let known = self.incarnation_of(from);
        let Role::Leader(leader) = &mut self.role else { return };
        if leader.left.contains(&(from, incarnation)) {
            // It was about to begin anew, and what it had on disk has come back.
            let knowledge = Knowledge::Lost { known: incarnation };
            return self.send(from, Message::RecoverReply { incarnation, knowledge }, out);
        }
        let Some(follower) = leader.followers.iter_mut().find(|follower| follower.id == from) else { return };
        if incarnation < known {
            // Under that number it would be taken for the one that it was: it takes a higher one.
            let knowledge = Knowledge::Lost { known };
            return self.send(from, Message::RecoverReply { incarnation, knowledge }, out);
        }
        if follower.learns_as.replace(incarnation).is_some_and(|before| before != incarnation) {
            follower.forget();
        }
    }

    /// A replica that shall have no vote any more asks the leader that it follows whether it may begin anew, if it has anything.
    pub(crate) fn leave(&mut self, out: &mut Vec<Output>) {
        let has_something = !self.joins || self.log.last() > Position(0);
        if let (Role::Follower, Some(leader), true) = (&self.role, self.live_leader(), has_something) {
            let message = Message::Leaves { ballot: self.promised, incarnation: self.incarnation };
            out.push(Output::SendAfter { token: self.token, to: leader, message });
        }
    }

    /// Somebody wants to begin anew. It may, if it has no vote, and is to have none; then nothing that it has said counts any more: it gets no vote as the
    /// one that it was, and no acknowledgement is taken from it until it has said as whom it learns.
    pub(crate) fn on_leaves(&mut self, from: NodeId, ballot: Ballot, incarnation: u64, out: &mut Vec<Output>) {
        let members = &self.membership.now;
        let is_wanted = self.roster.voters.contains(&from);
        let Role::Leader(leader) = &mut self.role else { return };
        let unsettled = members.is_joint() || members.at > self.decided || leader.opening > self.decided;
        let needs = unsettled || members.names(from) || is_wanted;
        if ballot != self.promised || (needs && self.config.planted != Some(Planted::LeavesTooSoon)) {
            return;
        }
        leader.left.retain(|(id, _)| *id != from);
        leader.left.push((from, incarnation));
        if let Some(follower) = leader.followers.iter_mut().find(|follower| follower.id == from) {
            follower.learns_as = None;
            follower.forget();
        }
        let members = Box::new(members.clone());
        self.send(from, Message::Left { ballot, incarnation, members }, out);
    }

    /// The leader has answered that. It says so of the ballot that this replica still promises: no later leader has heard from it as whom it learns, so none
    /// can give it a vote as the one that it was.
    pub(crate) fn on_left(
        &mut self,
        from: NodeId,
        (ballot, incarnation): (Ballot, u64),
        members: Members,
        out: &mut Vec<Output>,
    ) {
        let is_current = ballot == self.promised && ballot.node == from && incarnation == self.incarnation;
        let votes = members.names(self.config.me) && self.config.planted != Some(Planted::LeavesTooSoon);
        if !is_current || !matches!(self.role, Role::Follower) || votes {
            return;
        }
        self.probe("paxos: replica without a vote begins anew");
        self.membership = Arc::new(Membership::of(members));
        self.incarnation = self.incarnation.saturating_add(1 + self.rng.below(1 << 20));
        self.incarnations.clear();
        self.joins = true;
        self.forgotten_until = None;
        self.log_before = Some(std::mem::replace(&mut self.log, Log::new(Position(0), Ballot::default())));
        self.decided = Position(0);
        self.matched = (Ballot::default(), Position(0));
        self.election_at = None;
        let (position, ballot) = (Position(0), Ballot::default());
        self.persist(Record::Reset { position, ballot, last: position }, position, out);
        out.push(Output::Left);
    }

    /// Whether what somebody says of its log counts: not of one that has begun anew, before it has said as whom.
    pub(crate) fn is_known(&self, from: NodeId) -> bool {
        let Role::Leader(leader) = &self.role else { return true };
        let has_left = leader.left.iter().any(|(id, _)| *id == from);
        !has_left || self.membership.now.names(from) || self.follower(from).is_some_and(|it| it.learns_as.is_some())
    }
}
