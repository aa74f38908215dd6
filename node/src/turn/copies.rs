//! What waits for more replicas than a majority: replies to writes of the durability `all`, `WAIT` and `WAITAOF`.

use std::time::Duration;

use base::{Ballot, NodeId, PartitionId, Position, Time};

use crate::copies::OnDisk;
use crate::door::Planted;
use crate::group::Group;
use crate::node::{Node, place_of};
use crate::peer::PeerMessage;
use crate::router::Waiter;
use crate::session::Block;

const NOT_ON_ALL: &str = "NOTALL the command was done and a majority has it, but not every replica had it in time";

impl Node {
    /// Answers writes that every replica has by now.
    pub(super) fn settle_copies(&mut self, g: usize) {
        if self.groups[g].copies.held.is_empty() {
            return;
        }
        let mut copies = self.copies_of(g);
        // Who only learns is not waited for: it may have just begun.
        let voters = self.voters_of(g);
        copies.retain(|(node, _)| voters.contains(node));
        if self.config.planted == Some(Planted::AllIsAMajority) {
            copies.sort_unstable_by_key(|(_, last)| std::cmp::Reverse(*last));
            copies.truncate(copies.len() / 2 + 1);
        } else if voters.is_empty() || copies.len() < voters.len() {
            // The leader has not said yet who has how much.
            return;
        }
        while let Some(held) = self.groups[g].copies.release(&copies) {
            self.groups[g].copies.all.clone_from(&voters);
            if let Waiter::Client { connection, slot } = held.waiter {
                self.probe("node: reply waited for all replicas");
                self.deliver(connection, slot, &held.reply);
            }
        }
    }

    /// Tells clients whose writes some replica has not got in time.
    pub(super) fn refuse_held(&mut self, g: usize) {
        let time = self.now.time;
        while let Some(held) = self.groups[g].copies.give_up(time) {
            if let Waiter::Client { connection, slot } = held.waiter {
                self.probe("node: write not on all replicas in time");
                self.deliver_error(connection, slot, NOT_ON_ALL);
            }
        }
    }

    /// As the leader: tells those who have asked.
    pub(super) fn tell_copies(&mut self, g: usize, ballot: Ballot) {
        let group = &mut self.groups[g];
        if !group.copies.has_askers() {
            return;
        }
        let copies = group.partition.replica.copies();
        let partition = group.id();
        for node in group.copies.take_news(&copies) {
            self.send(node, &PeerMessage::Copies { partition, ballot, copies: copies.clone() });
        }
    }

    /// Asks the leader, if somebody here waits for more than it has said.
    pub(super) fn ask_for_copies(&mut self, g: usize, leader: NodeId, ballot: Ballot) {
        let time = self.now.time;
        let group = &mut self.groups[g];
        group.copies.forget_askers();
        let partition = group.id();
        if let Some(position) = group.copies.question(time, ballot) {
            self.send(leader, &PeerMessage::CopiesQuestion { partition, position });
        }
    }

    /// Up to where each replica's disk has the log, as far as the leader is known to know it.
    fn copies_of(&self, g: usize) -> Vec<(NodeId, Position)> {
        let Group { partition, copies, .. } = &self.groups[g];
        match self.leader_of(g) {
            Some((leader, _)) if leader == self.config.me => partition.replica.copies(),
            Some((_, ballot)) => copies.heard(ballot).to_vec(),
            None => Vec::new(),
        }
    }

    /// Whether a write could reach every replica now, as far as this node can tell.
    pub(crate) fn reaches_all(&self, g: usize) -> bool {
        let voters = self.voters_of(g);
        match self.leader_of(g) {
            Some((leader, _)) if leader == self.config.me => voters.iter().all(|voter| self.is_up(*voter)),
            Some((leader, _)) => {
                self.news.get(&leader).is_some_and(|ping| voters.iter().all(|voter| ping.hears.contains(voter)))
            }
            // The write waits for one.
            None => true,
        }
    }

    /// Answers `WAIT`s and `WAITAOF`s that have what they want, or whose time is up.
    pub(super) fn look_at_waits(&mut self) {
        let time = self.now.time;
        for connection in std::mem::take(&mut self.waits) {
            let Some(Some(session)) = self.sessions.get_mut(&connection) else { continue };
            let Some(Block::Copies { slot, wanted, timeout, mut until }) = session.block else { continue };
            if until.is_none() && session.pending_before(slot) == 0 {
                let forever = Time(u64::MAX);
                until = Some(if timeout == 0 { forever } else { time + Duration::from_millis(timeout) });
                session.block = Some(Block::Copies { slot, wanted, timeout, until });
            }
            let (over, has_ended) = (until.is_some_and(|until| until <= time), session.has_ended);
            let written: Vec<(PartitionId, Position)> = session.last_positions().collect();
            let copies = self.replicas_with(&written);
            if until.is_some() && (wanted.is_met(copies) || over) {
                self.deliver(connection, slot, &wanted.reply(copies));
            } else if until.is_some() && has_ended {
                self.let_go(connection);
            } else {
                for (partition, position) in written {
                    if let Some(g) = place_of(&self.groups, partition) {
                        self.groups[g].copies.want(position);
                    }
                }
                self.waits.push(connection);
            }
        }
    }

    /// Who is known to have the logs of these partitions up to these positions on disk.
    pub(crate) fn replicas_with(&self, written: &[(PartitionId, Position)]) -> OnDisk {
        // Of a connection that has written nothing: who has a replica at all.
        let nothing = [(crate::group::DEFAULT_PARTITION, Position(0))];
        let written = if written.is_empty() { &nothing } else { written };
        let each = written.iter().map(|(partition, position)| self.replicas_of_one(*partition, *position));
        each.reduce(|all, one| OnDisk { leader: all.leader && one.leader, others: all.others.min(one.others) })
            .unwrap_or_default()
    }

    fn replicas_of_one(&self, partition: PartitionId, position: Position) -> OnDisk {
        let Some(g) = place_of(&self.groups, partition) else { return OnDisk::default() };
        let leader = self.leader_of(g).map(|(leader, _)| leader);
        let mut on_disk = OnDisk::default();
        for (node, _) in self.copies_of(g).iter().filter(|(_, last)| *last >= position) {
            if Some(*node) == leader {
                on_disk.leader = true;
            } else {
                on_disk.others += 1;
            }
        }
        on_disk
    }
}
