//! Writes: proposed here or sent to the leader, and answered once they have been applied; and those that nobody asked for,
//! the removals of keys whose time is up.

use base::limits::{ACCEPT_BYTES_TARGET, PAYLOAD_BYTES_TARGET};
use base::versions::Feature;
use base::{NodeId, WallTime};
use bytes::Bytes;
use data::Reply;
use paxos::RoleName;
use std::time::Duration;

use crate::access::{self, lease};
use crate::clock::TOLERATED;
use crate::copies::Held;
use crate::council::COUNCIL;
use crate::door::ConnectionId;
use crate::entry::{Kind, Origin};
use crate::group::Group;
use crate::node::Node;
use crate::peer::{Forwarded, PeerMessage};
use crate::router::{Finished, Waiter};
use crate::transfer::movement::Felt;
use crate::words;

/// How often the leader looks for keys whose time is up.
const EXPIRY_EVERY: Duration = Duration::from_millis(100);

impl Node {
    /// Answers this node's writes that have been applied.
    pub(super) fn settle_writes(&mut self, g: usize) {
        let group = &mut self.groups[g];
        if group.wishes.completed.is_empty() {
            return;
        }
        group.router.progress_at = self.now.time;
        let mut completed = std::mem::take(&mut group.wishes.completed);
        let mut refused = std::mem::take(&mut group.wishes.refused);
        let id = group.id();
        for done in completed.drain(..) {
            let Some(finished) = self.groups[g].router.finish(done.sequence) else { continue };
            if finished.kind == Kind::Expire && matches!(done.reply, Reply::Integer(1..)) {
                self.go_on_expiring(g, &finished.body);
            }
            if let Waiter::Client { connection, slot } = finished.waiter {
                self.note_write(connection, &finished);
                if let Some(calls) = refused.remove(&done.sequence) {
                    access::note_calls(self, (connection, slot), calls);
                }
                if let Some(Some(session)) = self.sessions.get_mut(&connection) {
                    if let Some(lane) = session.lane_mut(id) {
                        lane.last_position = done.position;
                    }
                    session.see(id, done.revision);
                    if finished.may_look {
                        session.expects_nothing = !done.changes;
                    }
                }
                if self.waits_on(connection, slot, &finished, &done.reply) {
                    continue;
                }
                let took = self.now.time.since(finished.arrived);
                self.slow.durations.note(finished.command, took);
                if matches!(done.reply, Reply::Error(_)) {
                    self.slow.durations.note_failure(finished.command);
                }
                self.movement.feel(Felt::Writes, took);
                if id == COUNCIL
                    && finished.kind == Kind::Council
                    && lease::holds_back(self, &finished.body, done.position, (connection, slot), &done.reply)
                {
                    if let Some(Some(session)) = self.sessions.get_mut(&connection) {
                        session.hold(slot);
                    }
                } else if finished.on_all && !matches!(done.reply, Reply::Error(_)) {
                    let Finished { waiter, deadline, body, .. } = finished;
                    let (position, reply, bytes) = (done.position, done.reply, body.len());
                    if let Some(Some(session)) = self.sessions.get_mut(&connection) {
                        session.hold(slot);
                    }
                    self.groups[g].copies.hold(Held { position, waiter, reply, bytes, deadline });
                } else {
                    self.deliver(connection, slot, &done.reply);
                }
            }
        }
        if self.groups[g].wishes.completed.is_empty() {
            self.groups[g].wishes.completed = completed;
        }
        self.run_parked(g);
        self.run_parked_guests(g);
    }

    /// Tells the log of slow commands of a write that is being answered.
    pub(super) fn note_write(&mut self, connection: ConnectionId, write: &Finished) {
        let took = self.now.time.since(write.arrived);
        if self.slow.wants(took)
            && let Some(Some(session)) = self.sessions.get(&connection)
        {
            let words = words::of_write(write.kind, &write.body);
            self.slow.note(self.clock.own(), took, &words, &session.address, &session.name);
        }
    }

    /// Writes are numbered within a life, and later lives must compare greater. A node that finds out that its folder was
    /// lost gets an incarnation above all earlier ones while it recovers; until then it sends no writes. Nor before the record of
    /// its start is on disk: the number that this gives to its life would be that of the next one as well.
    pub(super) fn settle_life(&mut self, g: usize) {
        let group = &mut self.groups[g];
        let recovering = group.partition.replica.role() == RoleName::Recovering;
        if group.life_is_settled || recovering || !self.start_is_on_disk {
            return;
        }
        group.life_is_settled = true;
        let incarnation = group.partition.replica.incarnation();
        group.router.life.incarnation = incarnation;
        group.partition.life.incarnation = incarnation;
    }

    /// A replica that learns, and has lost its memory, is not known to have had one: it comes back under any incarnation. If an earlier life of this node
    /// has a higher one, nothing of this life has counted, nor ever would: it takes a higher one still, and sends everything again.
    pub(super) fn outlive_earlier_lives(&mut self, g: usize) {
        let me = self.config.me;
        let Group { partition, router, life_is_settled, .. } = &mut self.groups[g];
        let Some(earlier) = partition.origins.life_of(me).filter(|life| *life_is_settled && *life > router.life) else {
            return;
        };
        router.life.incarnation = earlier.incarnation.saturating_add(1);
        partition.life = router.life;
        router.send_again();
        self.probe("node: an earlier life outlived");
    }

    pub(super) fn propose_own(&mut self, g: usize) {
        while self.propose_some(g) {
            self.flush_proposed(g);
        }
    }

    /// Proposes this node's writes, until these are as many bytes as should be in one payload of the journal. Whether there are more.
    fn propose_some(&mut self, g: usize) -> bool {
        let Group { partition, router, life_is_settled, .. } = &mut self.groups[g];
        if !router.has_unsent() || self.disk.is_full() || !*life_is_settled || !self.clock.is_set() {
            return false;
        }
        self.clock.on_stamped();
        let (me, life, floor) = (self.config.me, router.life, router.floor());
        let (time, clock) = (self.now.time, self.now.wall);
        let version = self.entries_in;
        let (mut next, mut more) = (None, false);
        for write in router.unsent() {
            if !write.done {
                let bytes = partition.proposed_bytes;
                if bytes > 0 && bytes + write.body.len() > PAYLOAD_BYTES_TARGET {
                    more = true;
                    break;
                }
                let origin = Origin { node: me, life, sequence: write.sequence, floor };
                let seed = self.rng.next_u64();
                if !partition.propose(time, clock, seed, write.kind, (version, origin), &write.body) {
                    break;
                }
                write.sent = true;
            }
            next = Some(write.sequence + 1);
        }
        router.send_from = next.unwrap_or(router.send_from);
        more
    }

    pub(super) fn forward(&mut self, g: usize, leader: NodeId) {
        while self.groups[g].router.has_unsent() && self.groups[g].life_is_settled {
            let group = &mut self.groups[g];
            let (life, floor) = (group.router.life, group.router.floor());
            let mut writes = Vec::new();
            let (mut bytes, mut next) = (0, None);
            for write in group.router.unsent() {
                if bytes >= ACCEPT_BYTES_TARGET {
                    break;
                }
                next = Some(write.sequence + 1);
                if !write.done {
                    bytes += write.body.len() + 32;
                    write.sent = true;
                    writes.push(Forwarded { kind: write.kind, sequence: write.sequence, body: write.body.clone() });
                }
            }
            let Some(next) = next else { return };
            group.router.send_from = next;
            let (partition, elsewhere) = (group.id(), group.elsewhere.is_some());
            self.send(leader, &PeerMessage::Forward { partition, life, floor, elsewhere, writes });
        }
    }

    /// The leader proposes the removal of keys whose time is up by its clock, and that of elements which nobody reaches any more.
    pub(super) fn expire(&mut self, g: usize) {
        let (time, clock) = (self.now.time, self.now.wall);
        let group = &mut self.groups[g];
        if group.partition.replica.leads().is_none() || self.disk.is_full() {
            return;
        }
        if group.partition.tree.has_garbage() {
            self.probe("node: elements of a collection reclaimed");
            self.propose_expiry(g, clock);
            return;
        }
        if time < group.next_expiry {
            return;
        }
        group.next_expiry = time + EXPIRY_EVERY;
        if self.brings_back(g) {
            return;
        }
        let group = &self.groups[g];
        if group.partition.tree.next_deadline().is_some_and(|deadline| deadline <= clock) {
            self.probe("node: key expired by the clock");
            self.propose_expiry(g, clock);
        }
    }

    /// Whether an operator has set the cluster's time, and the log of a partition that this node leads is ahead of it.
    pub(crate) fn is_ahead(&self, g: usize) -> bool {
        let partition = &self.groups[g].partition;
        let bound = WallTime(self.now.wall.0.saturating_add(2 * TOLERATED.as_millis() as u64));
        let may = self.clock.was_set_lately(self.now.time) && self.has(Feature::TimeSet);
        may && partition.tree.time() > bound && partition.replica.leads().is_some()
    }

    /// Brings such a log back: what is due by it goes first. Whether there was something to do.
    fn brings_back(&mut self, g: usize) -> bool {
        if !self.is_ahead(g) {
            return false;
        }
        let (time, tree) = (self.now.time, &self.groups[g].partition.tree);
        let log = tree.time();
        if tree.next_deadline().is_some_and(|deadline| deadline <= log) {
            self.propose_expiry(g, log);
        } else if !self.groups[g].router.writes.iter().any(|write| write.kind == Kind::Time) {
            self.probe("node: a log's time brought back");
            let deadline = time + self.config.request_timeout;
            self.groups[g].router.write(Kind::Time, Bytes::new(), Waiter::Nobody, time, deadline);
        }
        true
    }

    /// The leader proposes the next expiry entry at once, if keys are left that were due when the last one was asked for, `asked` being its body: a pause
    /// would bound how many keys expire in a second, and the state would grow with any load above that. Keys that came due since then wait for the next
    /// look, so a small load has few entries.
    fn go_on_expiring(&mut self, g: usize, asked: &[u8]) {
        let Ok(asked) = <[u8; 8]>::try_from(asked).map(u64::from_le_bytes) else { return };
        let partition = &self.groups[g].partition;
        let is_behind = partition.tree.next_deadline().is_some_and(|deadline| deadline.0 <= asked);
        if is_behind && partition.replica.leads().is_some() && !self.disk.is_full() {
            self.propose_expiry(g, self.now.wall);
        }
    }

    /// Asks for an expiry entry of at least this time, unless one is under way. Returns its number.
    pub(super) fn propose_expiry(&mut self, g: usize, clock: WallTime) -> u64 {
        let router = &mut self.groups[g].router;
        if let Some(number) = router.expiring {
            return number;
        }
        let body = Bytes::copy_from_slice(&clock.0.to_le_bytes());
        let deadline = self.now.time + self.config.request_timeout;
        let number = router.write(Kind::Expire, body, Waiter::Nobody, self.now.time, deadline);
        router.expiring = Some(number);
        number
    }
}
