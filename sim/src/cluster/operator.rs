//! The operator: nodes join, are removed, and stop counting when they are gone for long, as clients ask the cluster for it.
//!
//! A machine that is to join is switched on when the cluster has let it in, and one that was removed is switched off when its process has ended by
//! itself. Whoever asks to join asks again until it knows the answer, with the number that it has drawn, as the server does.

use std::collections::BTreeSet;

use base::{NodeId, Rng};
use bytes::Bytes;
use node::{Listener, Member};

use super::Cluster;
use super::addresses::first;
use super::zones::zone_of;
use crate::chaos::{MS, SECOND};
use crate::client::Order;
use crate::door::Door;
use crate::events::Event;
use crate::process::{Happening, name_of};

/// A question without an answer is asked again after this time: a client that loses its connection forgets what it was told to do.
const ASK_AGAIN_AFTER: u64 = 8 * SECOND;
/// How often that is looked at.
const LOOK_EVERY: u64 = 500 * MS;
/// So much of a log is more than simulated clients write while a state is on its way.
const LOG_HELD_IS_ENOUGH: u64 = 1 << 20;
/// Clients' connections are counted from below.
const OPERATORS_CONNECTION: u64 = u64::MAX;

/// What a client has heard for the operator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Heard {
    /// A token to join with.
    Token(String),
    /// Whoever asked with this number has joined, under this id.
    Joined(u64, u16),
    /// It may not, or it is not known whether it may.
    NotJoined(String),
}

/// A machine that is about to join.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Joining {
    nonce: u64,
    token: Option<String>,
    asked_at: u64,
}

/// What the operator has in mind.
#[derive(Debug, Default)]
pub(super) struct Operator {
    joining: Option<Joining>,
    looks: bool,
    /// Nodes that were asked to leave: whether they do is not always heard.
    pub(super) leaving: BTreeSet<NodeId>,
}

impl Operator {
    /// Whatever was on its way is no more.
    pub(super) fn begin_anew(&mut self) {
        (self.joining, self.leaving) = (None, BTreeSet::new());
    }
}

/// A node as the others know it.
pub(crate) fn member(node: NodeId) -> Member {
    Member { name: name_of(node), peer_address: first(node) }
}

impl<N: Door> Cluster<N> {
    /// Those that have founded the cluster.
    pub(super) fn founders(&self) -> impl Iterator<Item = NodeId> + use<N> {
        (0..self.chaos.founders).map(NodeId)
    }

    /// Who is in the cluster, as far as the operator knows.
    pub(super) fn members(&self) -> impl Iterator<Item = NodeId> + '_ {
        let is_member = |(_, machine): &(usize, &super::Machine<N>)| machine.is_member && !machine.is_gone;
        self.machines.iter().enumerate().filter(is_member).map(|(node, _)| NodeId(node as u16))
    }

    /// Does something to the list of nodes. False if there was nothing to do.
    pub(super) fn change_members(&mut self, rng: &mut Rng) -> bool {
        if !N::HAS_BUCKETS || self.clients.is_empty() {
            return false;
        }
        let is_free = self.operator.joining.is_none() && self.machines.iter().any(|machine| !machine.is_member);
        match rng.below(8) {
            0..=3 if is_free => {
                let nonce = rng.next_u64() >> 1;
                self.operator.joining = Some(Joining { nonce, token: None, asked_at: 0 });
                self.look_at_joining();
                self.look_at_operator();
            }
            0..=5 => {
                let members: Vec<NodeId> = self.members().collect();
                // Not so many that whoever is left cannot lose one, and nobody while one has lost what it knew.
                let stay = members.iter().filter(|node| !self.operator.leaving.contains(node)).count();
                if stay <= 3 || !self.machines.iter().all(super::Machine::is_whole) {
                    return false;
                }
                let node = *rng.pick(&members);
                self.operator.leaving.insert(node);
                let mut words = vec!["REMOVE".to_owned(), name_of(node)];
                if rng.chance(1, 3) {
                    words.push("FORCE".to_owned());
                }
                self.order_of_operator(words, rng);
            }
            6 => {
                let seconds = *rng.pick(&[0, 1, 2, 5]);
                self.order_of_operator(vec!["AUTO-REPLACE".to_owned(), seconds.to_string()], rng);
            }
            _ => {
                let word = *rng.pick(&["PAUSE", "RESUME", "RESUME"]);
                self.order_of_operator(vec![word.to_owned()], rng);
            }
        }
        true
    }

    /// Has the operator look again and again what became of what was asked for.
    pub(super) fn look_at_operator(&mut self) {
        if !std::mem::replace(&mut self.operator.looks, true) {
            self.queue.push(self.now + LOOK_EVERY, Event::Operator);
        }
    }

    pub(super) fn order_of_operator(&mut self, words: Vec<String>, rng: &mut Rng) {
        let client = rng.below(self.clients.len() as u64) as usize;
        self.clients[client].order(Order::Nodes { words });
    }

    /// Asks again what was asked and not answered.
    pub(super) fn on_operator(&mut self) {
        if self.operator.joining.is_none() && self.begins_to_join() {
            let nonce = self.rng.next_u64() >> 1;
            self.operator.joining = Some(Joining { nonce, token: None, asked_at: 0 });
        }
        self.look_at_joining();
        if self.operator.joining.is_some() || self.more_join() {
            self.queue.push(self.now + LOOK_EVERY, Event::Operator);
        } else {
            self.operator.looks = false;
        }
    }

    fn look_at_joining(&mut self) {
        let now = self.now;
        if self.healed {
            // Clients that finish take no more orders. It may have been let in and not know it: as a machine that nobody switches on.
            self.operator.joining = None;
        }
        let name = self.machines.iter().position(|machine| !machine.is_member).map(|node| NodeId(node as u16));
        let (Some(joining), Some(node)) = (&mut self.operator.joining, name) else { return };
        if joining.asked_at != 0 && now < joining.asked_at + ASK_AGAIN_AFTER {
            return;
        }
        joining.asked_at = now;
        let words = match &joining.token {
            None => vec!["TOKEN".to_owned(), "600".to_owned()],
            Some(token) => {
                let mut words =
                    vec!["JOIN".to_owned(), token.clone(), name_of(node), first(node), joining.nonce.to_string()];
                words.push(zone_of(self.chaos.zones_seed, node, 0));
                words.push(self.machines[usize::from(node.0)].newest.to_string());
                words
            }
        };
        let mut rng = self.rng.fork();
        self.order_of_operator(words, &mut rng);
    }

    /// Faults are over, and clients may still write more than is held of a log while a state is on its way to whoever wants it: the operator does what the warning
    /// says.
    pub(super) fn hold_more_log(&mut self) {
        if self.chaos.log_bytes_held >= LOG_HELD_IS_ENOUGH {
            return;
        }
        self.chaos.log_bytes_held = base::limits::LOG_BYTES_HELD;
        let bytes = self.chaos.log_bytes_held.to_string();
        let mut command = Vec::new();
        wire::encode_command(&mut command, ["CONFIG", "SET", "dictum-log-bytes-held", &bytes]);
        let command = Bytes::from(command);
        for node in self.nodes() {
            self.give(node, Happening::Opened(OPERATORS_CONNECTION, Listener::Forwards));
            self.give(node, Happening::Received(OPERATORS_CONNECTION, command.clone()));
            self.give(node, Happening::Closed(OPERATORS_CONNECTION));
        }
    }

    /// What clients have heard for the operator.
    pub(super) fn hear_for_operator(&mut self) {
        for heard in std::mem::take(&mut self.record.heard) {
            match heard {
                Heard::Token(token) => {
                    if let Some(joining) = self.operator.joining.as_mut().filter(|joining| joining.token.is_none()) {
                        (joining.token, joining.asked_at) = (Some(token), 0);
                        self.look_at_joining();
                    }
                }
                Heard::Joined(nonce, id) => self.on_joined(nonce, NodeId(id)),
                Heard::NotJoined(text) => {
                    // The token may have been used up by an answer that was lost, or be of an order that was: another one.
                    if let Some(joining) = &mut self.operator.joining
                        && text.contains("token")
                    {
                        (joining.token, joining.asked_at) = (None, 0);
                    }
                    // It is too old for what the cluster has become. The token is good still.
                    let node = self.machines.iter().position(|machine| !machine.is_member);
                    if let (Some(joining), Some(node)) = (&mut self.operator.joining, node)
                        && text.contains("newer Dictum")
                    {
                        self.machines[node].newest = base::versions::NEWEST;
                        joining.asked_at = 0;
                    }
                }
            }
        }
    }

    fn on_joined(&mut self, nonce: u64, id: NodeId) {
        if self.operator.joining.as_ref().is_none_or(|joining| joining.nonce != nonce) {
            return;
        }
        self.operator.joining = None;
        let told: Vec<(NodeId, Member)> = self
            .members()
            .chain([id])
            .filter(|node| node.0 >= self.chaos.founders)
            .map(|node| (node, member(node)))
            .collect();
        let first = self.machines.iter().position(|machine| !machine.is_member);
        if first != Some(usize::from(id.0)) {
            self.violate("numbers are given in order", format!("{id} has joined, and {first:?} was to"));
            return;
        }
        let machine = self.machine(id);
        (machine.is_member, machine.told) = (true, told);
        self.take_over_address(id);
        let now = self.now;
        self.trace.event(now, [18, u64::from(id.0), nonce, 0], || format!("{} has joined", name_of(id)));
        self.start_in(self.chaos.delay_min, id);
    }

    /// A process has ended because its node was removed.
    pub(super) fn on_removed(&mut self, node: NodeId) {
        self.machine(node).is_gone = true;
        self.note_told(node);
        self.operator.leaving.remove(&node);
    }
}
