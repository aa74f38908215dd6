//! The acceptor: promises ballots, and makes its log like that of the leader it obeys.

use base::{Ballot, NodeId, Position, Time};

use crate::door::{Output, Planted, Record};
use crate::members::Members;
use crate::message::{Entry, Message};
use crate::replica::{Replica, Role};

impl Replica {
    /// Phase 1: promise, unless a higher ballot has been promised.
    pub(crate) fn on_prepare(&mut self, now: Time, from: NodeId, ballot: Ballot, out: &mut Vec<Output>) {
        if matches!(self.role, Role::Amnesiac(_)) || ballot.node != from {
            return;
        }
        if ballot < self.promised {
            return self.send(from, Message::Refuse { promised: self.promised }, out);
        }
        if ballot > self.promised {
            self.promise(now, ballot, out);
        }
        // Asked again: the answer may have been lost.
        let message = Message::Promise {
            ballot,
            tail: self.tail(),
            incarnation: self.incarnation,
            incarnations: self.incarnations.clone(),
        };
        out.push(Output::SendAfter { token: self.token, to: from, message });
    }

    /// Obeys `ballot` from now on and nothing lower; the promise is stored with token [`Replica::token`].
    pub(crate) fn promise(&mut self, now: Time, ballot: Ballot, out: &mut Vec<Output>) {
        assert!(ballot > self.promised, "promises only grow");
        self.promised = ballot;
        self.matched = (ballot, Position(0));
        self.persist_state(out);
        match self.role {
            Role::Blank(_) | Role::Amnesiac(_) => {}
            _ => {
                self.become_follower(now);
                self.give_way(now);
            }
        }
    }

    /// Phase 2: appends what follows the point where both logs agree, and answers once it is on disk.
    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(crate) fn on_accept(
        &mut self,
        now: Time,
        from: NodeId,
        ballot: Ballot,
        (previous, previous_ballot): (Position, Ballot),
        entries: Vec<Entry>,
        decided: Position,
        out: &mut Vec<Output>,
    ) {
        // No log comes to the last position: a message that names it is damaged.
        if ballot.node != from || previous.0.checked_add(entries.len() as u64 + 1).is_none() {
            return;
        }
        if ballot < self.promised {
            return self.send(from, Message::Refuse { promised: self.promised }, out);
        }
        if let Role::Amnesiac(amnesiac) = &self.role
            && !amnesiac.may_follow()
        {
            return;
        }
        let changes = entries.iter().any(|entry| Members::is_in(&entry.payload));
        let at = |index: usize| Position(previous.0 + 1 + index as u64);
        let is_bad = |(index, entry): (usize, &Entry)| {
            Members::is_in(&entry.payload) && Members::decode(at(index), &entry.payload).is_err()
        };
        if changes && entries.iter().enumerate().any(is_bad) {
            return out
                .push(Output::Event(format!("an entry from {from} that shall say who votes says nothing; not taken")));
        }
        if ballot > self.promised {
            self.promise(now, ballot, out);
        }
        self.hear_leader(now, ballot);
        let is_question = entries.is_empty() || previous != self.matched.1 || previous == Position(0);
        if is_question || now.since(self.learning_told_at) >= self.config.heartbeat {
            // A question where the log ends is a good moment. It comes again if anything is lost, but not while entries follow each other
            // without a pause: then it is said as often as a heartbeat would ask.
            self.learning_told_at = now;
            self.tell_incarnation(from, out);
        }
        if self.unpersisted_bytes > self.config.undecided_bytes_max && !entries.is_empty() {
            // The disk does not keep up. Saying nothing makes the leader wait and ask again; memory stays bounded.
            return self.probe("paxos: follower's disk too slow to take more");
        }
        if self.held_back && !entries.is_empty() {
            // The same for the state: it lags, and gets a snapshot if it lags behind what the leader keeps.
            return self.probe("paxos: follower's state too far behind to take more");
        }
        let agrees = previous <= self.decided || self.log.ballot_at(previous) == Some(previous_ballot);
        if !agrees || previous > self.log.last() {
            self.probe("paxos: follower misses entries");
            let message = Message::Mismatch { ballot, previous, last: self.log.last(), decided: self.decided };
            return self.send(from, message, out);
        }
        let end = Position(previous.0 + entries.len() as u64);
        if !self.append_from(previous, entries, out) {
            return;
        }
        if changes {
            let recovers = self.recovering;
            self.follow_members(now, out);
            if self.recovering && !recovers {
                // It has found out just now: what it holds undecided is cut off, and counts for nothing.
                return;
            }
        }
        if self.config.planted == Some(Planted::TruncateDecided) && self.log.last() > end {
            self.log.truncate_after(end.max(self.log.base()));
            self.members_after_cut();
            self.decided = self.decided.min(self.log.last());
        }
        let agrees_further = end > self.matched.1;
        if agrees_further {
            self.matched = (ballot, end);
        }
        self.learn_decided(decided.min(self.matched.1));
        let message = Message::Accepted { ballot, last: self.matched.1 };
        if self.persisted() >= self.matched.1 && self.unpersisted.is_empty() {
            self.send(from, message, out);
        } else if agrees_further {
            out.push(Output::SendAfter { token: self.token, to: from, message });
        }
        // Else an answer with as much waits for the disk already. Should it be lost, the next sign of life is answered.
    }

    /// Makes the log hold `entries` after `previous`, where it is known to agree. Entries that are there already
    /// stay; the first that differs is replaced, with everything after it. False if that would change the decided.
    pub(crate) fn append_from(&mut self, previous: Position, entries: Vec<Entry>, out: &mut Vec<Output>) -> bool {
        let mut position = previous;
        let mut entries = entries.into_iter().peekable();
        // What the log already has: below the base, lost (to be repaired by itself), or the same.
        while let Some(entry) = entries.peek() {
            let next = position.next();
            if next > self.log.last() {
                break;
            }
            let held = self.log.ballot_at(next);
            if held.is_some_and(|ballot| ballot != entry.ballot) {
                let agreed = if self.matched.0 == self.promised { self.matched.1 } else { Position(0) };
                if next <= self.decided.max(agreed) {
                    let text = format!(
                        "entry {next} is decided or agreed on with ballot {} here and came with ballot {} under ballot {}",
                        held.unwrap_or_default(),
                        entry.ballot,
                        self.promised
                    );
                    out.push(Output::Fatal(text));
                    return false;
                }
                self.probe("paxos: follower's log conflicts and is cut");
                self.log.truncate_after(position);
                self.members_after_cut();
                break;
            }
            position = next;
            entries.next();
        }
        let fresh: Vec<Entry> = entries.collect();
        if !fresh.is_empty() {
            let start = self.log.last();
            for entry in &fresh {
                let at = self.log.append(entry.clone());
                self.notice_members(at, &entry.payload);
            }
            self.persist(Record::Append { previous: start, entries: fresh }, start, out);
        }
        true
    }

    /// Tells the leader what this replica holds in memory while its disk stands still, once a heartbeat.
    pub(crate) fn tick_disk(&mut self, now: Time, out: &mut Vec<Output>) {
        let persisted = self.persisted();
        if persisted != self.disk_at.0 {
            self.disk_at = (persisted, now);
        }
        let behind = self.matched.0 == self.promised && persisted < self.matched.1;
        let takes_more = self.unpersisted_bytes <= self.config.undecided_bytes_max && !self.held_back;
        if !behind || !takes_more || now.since(self.disk_at.1) < self.config.heartbeat {
            return;
        }
        let Some(leader) = self.live_leader() else { return };
        self.disk_at.1 = now;
        self.probe("paxos: follower's disk stands still");
        self.send(leader, Message::Held { ballot: self.promised, last: self.matched.1 }, out);
    }

    pub(crate) fn on_decided(&mut self, ballot: Ballot, decided: Position) {
        if ballot == self.promised && self.matched.0 == ballot {
            self.learn_decided(decided.min(self.matched.1));
        }
    }

    /// Learns that everything up to `position` is decided, as far as this log agrees with the decided one.
    pub(crate) fn learn_decided(&mut self, position: Position) {
        if position > self.decided {
            // The callers know that the log agrees up to there; more than it holds cannot be known as decided.
            debug_assert!(position <= self.log.last(), "decided {position} in a log that ends at {}", self.log.last());
            self.decided = position.min(self.log.last()).max(self.decided);
        }
    }
}
