//! What a leader does for nodes that have no state of the partition: it serves their reads and tells them what became of their writes. See
//! [`crate::elsewhere`].

use base::limits::{PEER_MESSAGE_BYTES_MAX, TURN_READ_BYTES_MAX};
use base::versions::Feature;
use base::{Ballot, NodeId, WallTime};
use data::{Failure, Reply, View};

use super::reads::look_up;
use crate::door::Planted;
use crate::elsewhere::GuestBatch;
use crate::entry::Life;
use crate::node::Node;
use crate::partition::Partition;
use crate::peer::PeerMessage;
use crate::peer::carried::{CarriedAnswer, CarriedRead, Outcome};
use crate::router::{ReadBatch, ReadKind, Ready};
use crate::usage::Uses;
use crate::waiting::settled;

/// Room in a message for what stands around a reply.
const AROUND_BYTES: usize = 64 * 1024;

impl Node {
    /// Reads of a node that has no state. Whatever is not served now is asked for again by its owner. Those of all levels are confirmed: the age that they have is
    /// counted from when they were carried, and whoever has been deposed does not know how old its state is.
    pub(crate) fn on_carry(&mut self, g: usize, peer: NodeId, ticket: u64, reads: Vec<CarriedRead>) {
        if self.groups[g].elsewhere.is_some() || reads.is_empty() {
            return;
        }
        let deadline = self.now.time + self.config.request_timeout;
        let guests = GuestBatch { peer, ticket, reads, answers: Vec::new(), deadline };
        self.groups[g].router.gather_guests(guests);
    }

    /// Reads for the leader, of a node that has no state: passed on with this one's word that it has promised nothing higher. They were asked before.
    pub(crate) fn pass_on(&mut self, g: usize, asker: NodeId, ticket: u64, reads: Vec<CarriedRead>) {
        let knows = |leader: &NodeId| Feature::CarriedThrough.is_in(self.version_with(*leader));
        let leader = self.leader_of(g).map(|(leader, _)| leader).filter(|leader| *leader != self.config.me);
        let Some(leader) = leader.filter(knows) else { return self.on_carry(g, asker, ticket, reads) };
        // A question that needs nothing does not wake the group.
        let group = &self.groups[g];
        let (partition, vouches) = (group.id(), group.partition.replica.vouches_for());
        self.probe("node: reads passed on to the leader");
        self.send(leader, &PeerMessage::CarryFor { partition, asker, ticket, vouches, reads });
    }

    /// Reads of a node that has no state, by way of one who vouches for this one, the leader. Where the two are a majority, nobody else is asked.
    pub(crate) fn on_passed_on(
        &mut self,
        g: usize,
        (voucher, vouches): (NodeId, Option<Ballot>),
        (asker, ticket): (NodeId, u64),
        reads: Vec<CarriedRead>,
    ) {
        let group = &self.groups[g];
        let replica = &group.partition.replica;
        if asker == self.config.me || group.elsewhere.is_some() || reads.is_empty() {
            return;
        }
        let Some(opening) = replica.opening().filter(|_| self.is_vouched_for(g, voucher, vouches)) else {
            return self.on_carry(g, asker, ticket, reads);
        };
        let (position, clock) = (replica.decided().max(opening), self.now.wall);
        self.probe("node: carried reads were their own confirmation");
        let deadline = self.now.time + self.config.request_timeout;
        let guests = vec![GuestBatch { peer: asker, ticket, reads, answers: Vec::new(), deadline }];
        let batch = ReadBatch { guests, deadline: Some(deadline), ..ReadBatch::default() };
        // When the voucher gave its word is not known here: what has happened since is not confirmed.
        self.groups[g].router.ready.push_back(Ready { position, clock, asked_at: None, batch });
    }

    /// Answers reads of a node that has no state, from this one's: confirmed, when it was `clock`.
    pub(super) fn serve_guests(&mut self, g: usize, mut guests: GuestBatch, clock: WallTime) {
        let mut bytes = 0;
        let Partition { last_uses, tree, .. } = &mut self.groups[g].partition;
        last_uses.turn(self.now.time, tree.len());
        while let Some(read) = guests.reads.get(guests.answers.len()) {
            let answer = match self.serve_guest(g, read, clock) {
                Ok(answer) => answer,
                Err(expired) => {
                    // A key whose time is up by the leader's clock must be gone for everybody before anybody is told.
                    self.probe("node: read met an expired key");
                    if let Some(failure) = self.why_nothing_expires(g) {
                        let reply = Reply::Error(failure);
                        guests.answers.push(CarriedAnswer { reply, revisions: Vec::new(), settled: None });
                        continue;
                    }
                    let after = self.propose_expiry(g, expired);
                    self.groups[g].router.guests_parked.push((after, expired, guests));
                    return;
                }
            };
            let mut encoded = Vec::new();
            answer.reply.encode(&mut encoded);
            bytes += encoded.len();
            let reply = fit(answer.reply, encoded.len());
            guests.answers.push(CarriedAnswer { reply, ..answer });
            if bytes >= TURN_READ_BYTES_MAX {
                break;
            }
        }
        self.probe("node: served reads of a node without the state");
        let (partition, revision) = (self.groups[g].id(), self.groups[g].partition.tree.revision());
        let GuestBatch { peer, ticket, answers, .. } = guests;
        self.send(peer, &PeerMessage::Carried { partition, ticket, revision, answers });
    }

    /// One of them; or the clock by which a key that it meets is gone.
    fn serve_guest(&mut self, g: usize, read: &CarriedRead, clock: WallTime) -> Result<CarriedAnswer, WallTime> {
        let own_clock = self.config.planted == Some(Planted::ExpireByOwnClock);
        let clock = if own_clock { self.clock.own() } else { clock };
        let group = &self.groups[g];
        let partition = &group.partition;
        let forgets = self.config.planted == Some(Planted::IdleForgetsReads);
        let uses = Uses { last: &partition.last_uses, evicting: partition.evicting.as_deref(), forgets };
        let slots = group.bucket.slots_of(partition.id);
        let view = View::new(&partition.tree, clock, self.rng.next_u64()).with_usage(&uses, read.touches).within(slots);
        let view = view.with_work_max(group.bucket.settings.work_max()).in_version(self.entries_in);
        let mut revisions = Vec::new();
        let reply = look_up(read.kind, &read.body, &view, &mut revisions);
        if view.met_expired() && !own_clock {
            return Err(clock);
        }
        let waits = read.waits && matches!(reply, Ok(Reply::NilArray));
        let settled = waits.then(|| settled(&view, &read.body));
        let (hits, misses) = view.lookups();
        if matches!(read.kind, ReadKind::Command | ReadKind::Transaction) {
            self.stats.keyspace_hits += hits;
            self.stats.keyspace_misses += misses;
            let partition = &mut self.groups[g].partition;
            if let Some(evicting) = partition.evicting.as_mut().filter(|_| hits > 0) {
                let tells = partition.replica.leads().is_none();
                evicting.touch_read(read.kind, &read.body, &partition.tree, read.touches, tells);
            }
        }
        let unreadable = Reply::Error(Failure::Text("ERR the command could not be read back"));
        Ok(CarriedAnswer { reply: reply.unwrap_or(unreadable), revisions, settled })
    }

    /// Looks again at those that wait for a write of this node.
    pub(super) fn run_parked_guests(&mut self, g: usize) {
        if self.groups[g].router.guests_parked.is_empty() {
            return;
        }
        let time = self.now.time;
        for (after, clock, guests) in std::mem::take(&mut self.groups[g].router.guests_parked) {
            if self.groups[g].router.waits_for(after) {
                self.groups[g].router.guests_parked.push((after, clock, guests));
            } else if guests.deadline > time {
                self.serve_guests(g, guests, clock);
            }
        }
    }

    /// Forgets those whose owners have given them up.
    pub(super) fn forget_late_guests(&mut self, g: usize) {
        let time = self.now.time;
        let router = &mut self.groups[g].router;
        router.gathering.guests.retain(|guests| guests.deadline > time);
        router.guests_parked.retain(|(_, _, guests)| guests.deadline > time);
    }

    /// A node without a state forwards writes, or does not any more: whether it is told what becomes of them. What became of those that it repeats it is told
    /// again.
    pub(crate) fn note_guest(&mut self, g: usize, peer: NodeId, life: Life, elsewhere: Option<u64>) {
        let partition = &mut self.groups[g].partition;
        let Some(first) = elsewhere else {
            return partition.told.retain(|told| *told != peer);
        };
        if !partition.told.contains(&peer) {
            partition.told.push(peer);
        }
        let later = partition.origins.life_of(peer).filter(|known| *known > life);
        if let Some(by) = later {
            let partition = partition.id;
            return self.send(peer, &PeerMessage::Outlived { partition, life, by });
        }
        let (position, revision) = (partition.applied, partition.tree.revision());
        let kept = partition.origins.replies(peer, life).filter(|(sequence, _)| *sequence >= first);
        let outcome = |(sequence, reply): &(u64, Reply)| Outcome {
            sequence: *sequence,
            position,
            revision,
            changes: true,
            reply: reply.clone(),
            published: Vec::new(),
        };
        let kept: Vec<Outcome> = kept.map(outcome).collect();
        let waiting: Vec<u64> = partition.outcomes.iter().filter(|it| it.0 == peer).map(|it| it.2.sequence).collect();
        let again = kept.into_iter().filter(|outcome| !waiting.contains(&outcome.sequence));
        partition.outcomes.extend(again.map(|outcome| (peer, life, outcome)).collect::<Vec<_>>());
    }

    /// At the end of a turn: tells nodes without a state what became of their writes.
    pub(super) fn send_outcomes(&mut self, g: usize) {
        if self.groups[g].partition.outcomes.is_empty() {
            return;
        }
        let group = &mut self.groups[g];
        let outcomes = std::mem::take(&mut group.partition.outcomes);
        let (partition, leads) = (group.id(), group.partition.replica.leads().is_some());
        if !leads {
            return;
        }
        let mut batches: Vec<(NodeId, Life, usize, Vec<Outcome>)> = Vec::new();
        for (peer, life, outcome) in outcomes {
            let mut encoded = Vec::new();
            outcome.reply.encode(&mut encoded);
            let published: usize = outcome.published.iter().map(|it| it.channel.len() + it.message.len() + 16).sum();
            let outcome = Outcome { reply: fit(outcome.reply, encoded.len() + published), ..outcome };
            let bytes = encoded.len() + published + 32;
            let has_room = |batch: &&mut (NodeId, Life, usize, Vec<Outcome>)| {
                (batch.0, batch.1) == (peer, life) && batch.2 < TURN_READ_BYTES_MAX
            };
            match batches.iter_mut().rev().find(has_room) {
                Some((_, _, sum, batch)) => {
                    *sum += bytes;
                    batch.push(outcome);
                }
                None => batches.push((peer, life, bytes, vec![outcome])),
            }
        }
        for (peer, life, _, outcomes) in batches {
            self.send(peer, &PeerMessage::Outcomes { partition, life, outcomes });
        }
    }
}

/// The reply as it is, if a message can hold it.
fn fit(reply: Reply, bytes: usize) -> Reply {
    const TOO_LARGE: Failure =
        Failure::Text("ERR the reply is too large to be carried between nodes: ask a node that has the partition");
    let most = PEER_MESSAGE_BYTES_MAX - TURN_READ_BYTES_MAX - AROUND_BYTES;
    if bytes > most { Reply::Error(TOO_LARGE) } else { reply }
}
