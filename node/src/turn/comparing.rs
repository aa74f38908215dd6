//! The node's side of comparisons of states: it proposes them, carries digests, and rebuilds a replica that differs. The rest is [`crate::comparison`].

use base::versions::Feature;
use base::{NodeId, PartitionId, Position};
use bytes::Bytes;
use paxos::{Input as Step, RoleName};

use crate::comparison::{Effect, Jury};
use crate::door::{Level, Outbox};
use crate::entry::Kind;
use crate::image::Ending;
use crate::node::{Node, news_of, place_of, role_number};
use crate::peer::PeerMessage;
use crate::router::Waiter;
use crate::subscriptions;
use crate::transfer::jobs::MadeBlock;

impl Node {
    /// Proposes the next comparison of those that are due, and rebuilds what is to be rebuilt.
    pub(super) fn tick_comparison(&mut self) {
        let doubtful: Vec<_> = self.comparison.doubtful().collect();
        for partition in doubtful {
            if let Some(g) = place_of(&self.groups, partition) {
                self.rebuild(g);
            }
        }
        if self.config.compared_every.is_zero() || !self.has(Feature::Comparisons) {
            return;
        }
        let led = self.groups.iter().filter(|group| group.partition.replica.leads().is_some());
        let led = led.map(|group| (group.id(), group.partition.applied));
        let Some(partition) = self.comparison.next(self.now.time, self.config.compared_every, led) else { return };
        let Some(g) = place_of(&self.groups, partition) else { return };
        let (now, deadline) = (self.now.time, self.now.time + self.config.request_timeout);
        self.groups[g].router.write(Kind::Compare, Bytes::new(), Waiter::Nobody, now, deadline);
        self.groups.wake(g);
    }

    /// Takes up the states that entries of this turn have frozen, and has the next block made.
    pub(super) fn compare(&mut self, out: &mut Outbox) {
        let mut frozen = Vec::new();
        self.groups.for_each_in_turn(|group| {
            let id = group.id();
            frozen.extend(group.wishes.compared.drain(..).map(|(position, image)| (id, position, image)));
        });
        for (partition, position, image) in frozen {
            let effect = self.comparison.begin(partition, position, image);
            self.carry_out(effect);
        }
        out.make_blocks.extend(self.comparison.job(self.now.time));
    }

    pub(crate) fn on_block_compared(&mut self, made: MadeBlock) {
        let effects = self.comparison.on_block(self.now.time, made);
        self.carry_out(effects);
    }

    /// A replica says what its state comes to.
    pub(crate) fn on_digest(&mut self, g: usize, from: NodeId, position: Position, ending: Ending) {
        let group = &self.groups[g];
        let members = group.partition.replica.members();
        if members.is_joint() {
            // Nobody can say who is a majority; the next comparison is soon enough.
            return;
        }
        let (voters, id, about) = (members.nodes(), group.id(), group.about());
        let roll = &self.roll;
        let name_of = |node: NodeId| roll.get(node).map_or_else(|| node.to_string(), |member| member.name.clone());
        let jury = Jury { voters: &voters, me: self.config.me, name_of: &name_of, about: &about };
        let effects = self.comparison.on_digest(from, (id, position), ending, &jury);
        self.carry_out(effects);
    }

    /// The replica of a partition has begun anew, or is gone.
    pub(crate) fn forget_comparison(&mut self, partition: PartitionId) {
        let effects = self.comparison.forget(partition);
        self.carry_out(effects);
    }

    fn carry_out(&mut self, effects: impl IntoIterator<Item = Effect>) {
        for effect in effects {
            match effect {
                Effect::Tell(partition, position, ending) => {
                    let message = PeerMessage::Digest { partition, position, ending };
                    let peers: Vec<NodeId> = self.detectors.iter().map(|detector| detector.peer).collect();
                    for peer in peers {
                        if Feature::ToldDigests.is_in(self.version_with(peer)) {
                            self.send(peer, &message);
                        }
                    }
                    if let Some(g) = place_of(&self.groups, partition) {
                        self.on_digest(g, self.config.me, position, ending);
                    }
                }
                Effect::Event(level, text) => self.event(level, text),
                Effect::Probe(name) => self.probe(name),
                Effect::Drop(rubbish) => self.rubbish.push(rubbish),
            }
        }
    }

    /// The state of this replica is not that of the others: takes a step to its giving up what it has. It does not while it leads or writes its state, nor where the
    /// others could not bear one loss more.
    fn rebuild(&mut self, g: usize) {
        let group = &self.groups[g];
        let (id, me) = (group.id(), self.config.me);
        let partition = &group.partition;
        let replica = &partition.replica;
        let voters = replica.members().nodes();
        if !partition.durable {
            // The council counts who remembers such a bucket: it is told of by the events alone.
            return;
        }
        if replica.leads().is_some() {
            if !replica.handing_over() {
                self.step_replica(g, Step::HandOver);
            }
            return;
        }
        let is_busy = partition.has_flush() || group.saving.is_some() || !group.transfers.is_idle();
        if is_busy || replica.role() != RoleName::Follower {
            return;
        }
        if !replica.members().names(me) {
            subscriptions::feeding::state_was_wrong(self, g);
            self.go_elsewhere(g);
            return self.step_replica(g, Step::Leave);
        }
        let recovers = |node: &NodeId| {
            let news = self.news.get(node).and_then(|ping| news_of(ping, id));
            news.is_none_or(|news| news.role == role_number(RoleName::Recovering))
        };
        let mut others = voters.iter().filter(|node| **node != me);
        let are_well = others.all(|node| self.is_up(*node) && !recovers(node));
        if !are_well || replica.members().is_joint() || !self.comparison.bears(id, &voters, me) {
            return;
        }
        self.probe("node: replica rebuilt");
        let text = "its state differs from that of the majority: it is given up, and got from the others";
        self.event_about(g, Level::Error, text);
        subscriptions::feeding::state_was_wrong(self, g);
        self.go_elsewhere(g);
        self.step_replica(g, Step::Discard);
    }
}
