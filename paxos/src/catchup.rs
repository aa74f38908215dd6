//! Catching up outside the leader's stream: a candidate that lacks the greatest tail, a disk that lost decided
//! entries, a log that begins anew behind a snapshot.

use std::sync::Arc;

use base::limits::{ACCEPT_BYTES_TARGET, LOG_BYTES_KEPT};
use base::{Ballot, NodeId, Position, Time};

use crate::door::{Output, Record};
use crate::members::{Members, Membership};
use crate::message::{Entry, Message};
use crate::replica::{Replica, Role};

impl Replica {
    /// Asks the source for the next part of the tail that this candidate lacks.
    pub(crate) fn fetch_tail(&mut self, out: &mut Vec<Output>) {
        let Role::Candidate(candidate) = &self.role else { return };
        let Some((from, tail)) = candidate.source else { return };
        let previous = self.log.last().min(tail.last);
        self.ask_for(from, Some(self.promised), previous, tail.last, out);
    }

    fn ask_for(&self, to: NodeId, ballot: Option<Ballot>, previous: Position, until: Position, out: &mut Vec<Output>) {
        // Where the ballot is unknown the receiver's answer will say where to begin.
        let previous_ballot = self.log.ballot_at(previous).unwrap_or_default();
        out.push(Output::Send {
            to,
            message: Message::Fetch { ballot, previous, previous_ballot, decided: self.decided, until },
        });
    }

    pub(crate) fn on_fetch(
        &mut self,
        from: NodeId,
        ballot: Option<Ballot>,
        (previous, previous_ballot): (Position, Ballot),
        decided: Position,
        until: Position,
        out: &mut Vec<Output>,
    ) {
        // A candidate reads a log that cannot change under it: this replica has promised it that.
        let readable = match ballot {
            Some(ballot) if ballot != self.promised => return,
            Some(_) => self.log.last(),
            None => self.decided,
        };
        if matches!(self.role, Role::Amnesiac(_)) {
            return;
        }
        let agrees = ballot.is_none() || self.log.ballot_at(previous) == Some(previous_ballot);
        // If the logs do not agree there, they do where the asking replica knows everything to be decided.
        let start = if agrees { previous } else { decided.min(previous) };
        if start < self.log.base() {
            return out.push(Output::SendSnapshot { to: from });
        }
        let Some(start_ballot) = self.log.ballot_at(start) else { return };
        let entries = self.log.slice(start.next(), until.min(readable), ACCEPT_BYTES_TARGET);
        let message = Message::Fetched { ballot, previous: start, previous_ballot: start_ballot, entries };
        self.send(from, message, out);
    }

    pub(crate) fn on_fetched(
        &mut self,
        now: Time,
        from: NodeId,
        ballot: Option<Ballot>,
        (previous, previous_ballot): (Position, Ballot),
        entries: Vec<Entry>,
        out: &mut Vec<Output>,
    ) {
        let Some(ballot) = ballot else { return self.fill_hole(previous, entries, out) };
        if ballot != self.promised {
            return;
        }
        let Role::Candidate(candidate) = &self.role else { return };
        let Some((source, tail)) = candidate.source else { return };
        if source != from {
            return;
        }
        let agrees = previous <= self.decided || self.log.ballot_at(previous) == Some(previous_ballot);
        let is_bad =
            |entry: &Entry| Members::is_in(&entry.payload) && Members::decode(previous, &entry.payload).is_err();
        if !agrees || entries.iter().any(is_bad) {
            return;
        }
        let end = Position(previous.0 + entries.len() as u64);
        // An empty answer: the source's disk has lost what comes next, and it must repair that first.
        let nothing = entries.is_empty();
        if !self.append_from(previous, entries, out) {
            return;
        }
        self.follow_members(now, out);
        if end >= tail.last && self.tail() >= tail {
            self.end_fetching(now, out);
        } else if end < tail.last && !nothing {
            self.fetch_from(source, end, tail.last, out);
        }
    }

    fn fetch_from(&self, source: NodeId, previous: Position, until: Position, out: &mut Vec<Output>) {
        self.ask_for(source, Some(self.promised), previous, until, out);
    }

    /// Asks peers in turn for decided entries that the disk has lost.
    pub(crate) fn repair(&mut self, now: Time, out: &mut Vec<Output>) {
        let Some((from, until)) = self.log.hole() else { return };
        if now.since(self.repair_at) < self.config.heartbeat || matches!(self.role, Role::Blank(_)) {
            return;
        }
        self.repair_at = now;
        let up: Vec<NodeId> = self.peers.iter().filter(|peer| peer.up).map(|peer| peer.id).collect();
        if !up.is_empty() {
            let to = *self.rng.pick(&up);
            self.ask_for(to, None, from.previous(), until, out);
        }
    }

    fn fill_hole(&mut self, previous: Position, entries: Vec<Entry>, out: &mut Vec<Output>) {
        let Some((from, until)) = self.log.hole() else { return };
        if entries.is_empty() || previous >= from {
            return;
        }
        // Only what lies in the hole is taken, and only if it begins at its front.
        let skip = usize::try_from(from.0 - previous.0 - 1).unwrap_or(usize::MAX);
        let most = usize::try_from(until.0 - from.0 + 1).unwrap_or(usize::MAX);
        let wanted: Vec<Entry> = entries.into_iter().skip(skip).take(most).collect();
        if !wanted.is_empty() && self.log.fill(from.previous(), wanted) {
            self.probe("paxos: lost entries repaired");
            out.push(Output::Repaired);
        }
    }

    /// A snapshot of this replica's own is on disk: the log before it, but for `keep` entries of at most
    /// [`LOG_BYTES_KEPT`], is not needed any more.
    pub(crate) fn on_snapshot_taken(&mut self, position: Position, keep: u64) {
        let furthest = Position(position.0.saturating_sub(keep)).min(self.decided);
        let mut cut = position.min(self.decided);
        let (mut bytes, most) = (0, LOG_BYTES_KEPT.min(self.config.undecided_bytes_max as u64));
        while cut > furthest
            && let Some(entry) = self.log.get(cut)
            && bytes + entry.weight() as u64 <= most
        {
            bytes += entry.weight() as u64;
            cut = cut.previous();
        }
        if let Some(ballot) = self.log.ballot_at(cut)
            && cut > self.log.base()
        {
            self.log.drop_until(cut, ballot);
        }
    }

    /// A peer's snapshot is on disk and is the state: the log begins anew after it, unless it already reaches beyond.
    pub(crate) fn on_snapshot_installed(
        &mut self,
        now: Time,
        (position, ballot): (Position, Ballot),
        members: Option<Members>,
        out: &mut Vec<Output>,
    ) {
        if position <= self.decided && self.log.hole().is_none_or(|(from, _)| from > position) {
            return;
        }
        self.log_before = self.log.reset(position, ballot).or(self.log_before.take());
        self.decided = self.decided.max(position);
        let last = self.log.last();
        let members = members.unwrap_or_else(|| Members::founders(&self.config.founders));
        if self.membership.now.at <= position || self.membership.now.at > last {
            self.membership = Arc::new(Membership::of(members));
        } else if self.membership.before.at <= position {
            Arc::make_mut(&mut self.membership).before = members;
        }
        // What the log keeps is where it was, and on the disk as soon as its own records are.
        self.persist(Record::Reset { position, ballot, last }, last, out);
        self.follow_members(now, out);
    }
}
