//! Time passes, and replicas notice.

use std::time::Duration;

use base::NodeId;
use paxos::Input;

use super::words::node_name;
use super::{HEARTBEAT, World};

impl World {
    /// Tells a replica what its failure detector and its peers' heartbeats say now.
    pub fn detect(&mut self, index: usize) {
        if !self.is_up(index) {
            return;
        }
        let mut inputs = Vec::new();
        for peer in (0..self.nodes.len()).filter(|peer| *peer != index) {
            let up = self.nodes[index].trusts[peer];
            let heard = up && !self.cuts.contains(&(peer, index));
            let (leads, rests) = match &self.nodes[peer].replica {
                Some(replica) if heard => (replica.leads(), replica.rests()),
                _ => (self.nodes[index].told[peer].1, self.nodes[index].told[peer].2),
            };
            if self.nodes[index].told[peer] != (up, leads, rests) {
                self.nodes[index].told[peer] = (up, leads, rests);
                inputs.push(Input::Peer { peer: NodeId(peer as u16), up, leads, rests });
            }
        }
        if !inputs.is_empty() {
            self.turn(index, inputs);
        }
    }

    /// Lets time pass for all.
    pub fn tick(&mut self, duration: Duration) {
        self.now = self.now + duration;
        for index in 0..self.nodes.len() {
            self.detect(index);
            self.turn(index, vec![Input::Tick]);
        }
    }

    /// Lets time pass; only `index` notices.
    pub fn tick_only(&mut self, index: usize, duration: Duration) {
        self.now = self.now + duration;
        self.detect(index);
        self.turn(index, vec![Input::Tick]);
    }

    /// Lets time pass in small steps and delivers everything, until `done`, at most `limit`. Whether it was done.
    pub fn run_until(&mut self, limit: Duration, done: impl Fn(&World) -> bool) -> bool {
        let end = self.now + limit;
        self.deliver_all();
        while !done(self) {
            if self.now >= end {
                return false;
            }
            self.tick(Duration::from_millis(10));
            self.deliver_all();
        }
        true
    }

    /// Lets time pass and delivers everything.
    pub fn run(&mut self, duration: Duration) {
        self.run_until(duration, |_| false);
    }

    /// Makes `index` lead: for a while the clocks of the others stand still. Panics if it will not.
    pub fn elect(&mut self, index: usize) {
        for _ in 0..500 {
            let replica = self.replica(index);
            if replica.leads().is_some() && replica.decided() == replica.log().last() {
                break;
            }
            self.tick_only(index, Duration::from_millis(10));
            self.deliver_all();
        }
        assert!(self.replica(index).leads().is_some(), "{} leads within five seconds", node_name(index));
        // Its followers learn from a heartbeat what is decided.
        self.run(HEARTBEAT * 2);
    }
}
