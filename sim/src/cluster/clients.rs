//! What clients are told to do: by the run, and by the operator.

use base::{NodeId, Rng};

use super::Cluster;
use crate::client::Order;
use crate::door::Door;
use crate::history::bucket_of;
use crate::process::name_of;
use crate::restless::Restless;
use crate::routers::Router;
use crate::settings::DEFAULT;
use crate::workload::{BOUNDED, DROPPED, TIMED, draw_change};

impl<N: Door> Cluster<N> {
    /// Has one client change the settings of a bucket, and some others look at them. False where there are no buckets.
    pub(super) fn change_settings(&mut self, rng: &mut Rng) -> bool {
        if !N::HAS_BUCKETS || self.clients.is_empty() {
            return false;
        }
        let (bucket, pairs) = draw_change(rng, &self.buckets);
        let mut client = || rng.below(self.clients.len() as u64) as usize;
        let (changes, shown) = (client(), [client(), client(), client()]);
        self.clients[changes].order(Order::Change { bucket: bucket.clone(), pairs });
        for client in shown {
            self.clients[client].order(Order::Show { bucket: bucket.clone() });
        }
        true
    }

    /// Has a client drain a node, or let it serve, or change how many vote: never so few that one lost memory is more than they bear.
    pub(super) fn change_voters(&mut self, rng: &mut Rng) -> bool {
        if !N::HAS_BUCKETS || self.clients.is_empty() {
            return false;
        }
        let nodes = self.machines.len();
        let members = self.members().count();
        let words = if rng.chance(1, 3) {
            let counts: Vec<usize> = [0, 3, 5].into_iter().filter(|count| *count <= members).collect();
            vec!["VOTERS".to_owned(), rng.pick(&counts).to_string()]
        } else {
            let action = if rng.chance(1, 2) { "DRAIN" } else { "PROMOTE" };
            let node = NodeId(rng.below(nodes as u64) as u16);
            if !self.members().any(|member| member == node) {
                return false;
            }
            vec![action.to_owned(), name_of(node).to_string()]
        };
        let client = rng.below(self.clients.len() as u64) as usize;
        self.clients[client].order(Order::Nodes { words });
        true
    }

    /// From now on clients begin nothing new, but for those without think time, which only write: see [`Cluster::drain_restless`].
    pub fn drain_clients(&mut self) {
        for client in &mut self.clients {
            client.drain();
        }
        for router in &mut self.routers {
            router.drain();
        }
        self.restless.iter_mut().for_each(Restless::only_write);
    }

    /// Whether all clients have finished what they were told to do.
    #[must_use]
    pub fn clients_are_idle(&self) -> bool {
        self.clients.iter().all(crate::client::Client::is_idle)
            && self.routers.iter().all(Router::is_idle)
            && self.restless.iter().all(Restless::is_idle)
    }

    /// Has those who route by themselves look at every node.
    pub fn look_around(&mut self) {
        for router in 0..self.routers.len() {
            self.with_router(router, Router::look_around);
        }
    }

    /// Has those who use buckets with terms try what these are now.
    pub fn try_terms(&mut self) {
        self.record.settings.settle(self.now);
        for client in 0..self.clients.len() {
            if [TIMED, BOUNDED].contains(&self.clients[client].bucket()) {
                self.with_client(client, |world, wishes| world.clients[client].try_terms(world.now, wishes));
            }
        }
    }

    /// Has every key read a last time, each by one client.
    pub fn read_everything(&mut self) {
        let mut keys: Vec<String> = Vec::new();
        for operation in &self.record.operations {
            keys.extend(operation.commands.iter().map(|command| command.key.clone()));
        }
        keys.sort();
        keys.dedup();
        let named: Vec<&str> = self.buckets.iter().map(|(name, _)| *name).filter(|name| *name != DROPPED).collect();
        for client in 0..self.clients.len() {
            for name in named.iter().chain([&DEFAULT]).filter(|_| N::HAS_BUCKETS) {
                self.clients[client].order(Order::Show { bucket: (*name).to_owned() });
            }
            // Those of one bucket share its keys.
            let bucket = self.clients[client].bucket();
            let same = |other: &usize| self.clients[*other].bucket() == bucket;
            let (count, place) = ((0..self.clients.len()).filter(same).count(), (0..client).filter(same).count());
            let own = keys.iter().filter(|key| bucket_of(key) == bucket);
            let share: Vec<String> = own.skip(place).step_by(count).cloned().collect();
            self.with_client(client, |world, wishes| {
                world.clients[client].read_at_the_end(share, world.now, wishes);
            });
        }
    }
}
