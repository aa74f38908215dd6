//! Users whose rights an operator changes again and again, and guests who log in as them: each asks for what its user may have, and for what no user of them ever
//! has. Three properties are looked at.
//!
//! - Nobody is ever given what none of the rules that there were for his user allows.
//! - Each failed login and each order of the operator that a node answers has its record for the audit trail in the same turn.
//! - Wherever a connection is somebody, it has the rights that its node knows for him; in the calm at the end all nodes know the same.

use std::collections::VecDeque;

use base::{NodeId, Rng};
use node::{AuditEvent, ConnectionId, Listener};
use wire::{ReplyLimits, ReplyParser, Value};

use super::Cluster;
use crate::door::Door;
use crate::process::{Happening, name_of};

/// Names of what is counted here.
pub(crate) const PROBES: [&str; 4] = [SERVED, REFUSED, PUT_OUT, AUDITED];
const SERVED: &str = "sim: a guest was given what its user may have";
const REFUSED: &str = "sim: a guest was refused what its user may not have";
const PUT_OUT: &str = "sim: a guest was put out";
const AUDITED: &str = "sim: a failed login or an order was told for the audit trail";

/// Numbers of their connections begin here: above those of conversations.
const FIRST: u64 = 1 << 61;
/// So many users there are.
const USERS: u64 = 3;
/// So many guests of a process are there at once.
const GUESTS_MAX: usize = 4;

/// Commands that guests try, and that no rule of their users ever allows.
const FORBIDDEN: [&[&str]; 6] = [
    &["GET", "other"],
    &["SET", "k0", "evil"],
    &["FLUSHALL"],
    &["CONFIG", "GET", "maxclients"],
    &["EVAL", "return redis.call('GET', 'k0')", "0"],
    &["PUBLISH", "elsewhere", "x"],
];

/// A connection that is somebody.
#[derive(Debug)]
struct Guest {
    connection: u64,
    parser: ReplyParser,
    /// It has logged in: until then it is `default`, who may do everything.
    is_in: bool,
    /// Commands without an answer yet: true if forbidden, and the words.
    asked: VecDeque<(bool, String)>,
}

/// The guests of a process; they end with it.
#[derive(Debug, Default)]
pub struct Guests {
    held: Vec<Guest>,
    begun: u64,
}

fn user(number: u64) -> String {
    format!("guest{number}")
}

/// An order about a user, in words.
fn order(rng: &mut Rng) -> Vec<String> {
    let number = rng.below(USERS);
    let name = user(number);
    if rng.chance(1, 6) {
        return vec!["ACL".to_owned(), "DELUSER".to_owned(), name];
    }
    let mut words = vec!["ACL".to_owned(), "SETUSER".to_owned(), name.clone()];
    let rules = [
        vec!["on".to_owned(), format!(">{name}"), format!("~{name}:*")],
        vec!["on".to_owned(), "nopass".to_owned(), "reset".to_owned(), "on".to_owned(), "nopass".to_owned()],
        vec!["+get".to_owned()],
        vec!["-get".to_owned()],
        vec!["resetkeys".to_owned(), format!("%R~{name}:*")],
        vec![format!("(+mget ~{name}:*)")],
        vec!["off".to_owned()],
        vec!["resetchannels".to_owned(), format!("&{name}"), "+subscribe".to_owned()],
    ];
    for _ in 0..rng.between(1, 4) {
        words.extend(rng.pick(&rules).clone());
    }
    words
}

impl<N: Door> Cluster<N> {
    /// The operator changes a user, by way of any node, and guests come and ask.
    pub(super) fn change_users(&mut self, node: NodeId, rng: &mut Rng) -> bool {
        let runs = |node: NodeId| self.machines[usize::from(node.0)].running.is_some();
        if !N::HAS_BUCKETS || !runs(node) {
            return false;
        }
        let words = order(rng);
        let mut bytes = Vec::new();
        wire::encode_command(&mut bytes, &words);
        let Some(connection) = self.new_guest(node) else { return false };
        let now = self.now;
        self.trace.event(now, [26, u64::from(node.0), connection, 0], || {
            format!("the operator says to {}: {}", name_of(node), words.join(" "))
        });
        self.give(node, Happening::Opened(connection, Listener::Inside));
        self.give(node, Happening::Received(connection, bytes.into()));
        let others: Vec<NodeId> = self.nodes().filter(|other| runs_in(self, *other)).collect();
        for _ in 0..3 {
            let node = *rng.pick(&others);
            self.visit(node, rng);
        }
        true
    }

    /// A number for a connection to a process that runs.
    fn new_guest(&mut self, node: NodeId) -> Option<u64> {
        let guests = &mut self.machine(node).running.as_mut()?.guests;
        guests.begun += 1;
        Some(FIRST + guests.begun)
    }

    /// One who is there asks for something, or another one comes.
    fn visit(&mut self, node: NodeId, rng: &mut Rng) {
        let number = rng.below(USERS);
        let Some(running) = &mut self.machine(node).running else { return };
        let held = running.guests.held.len();
        if held < GUESTS_MAX && rng.chance(1, 2) {
            let Some(connection) = self.new_guest(node) else { return };
            let parser = ReplyParser::new(ReplyLimits::default());
            let guest = Guest { connection, parser, is_in: false, asked: VecDeque::new() };
            if let Some(running) = &mut self.machine(node).running {
                running.guests.held.push(guest);
            }
            self.give(node, Happening::Opened(connection, Listener::Forwards));
            self.ask(node, held, false, &["AUTH", &user(number), &user(number)]);
            return;
        }
        let Some(running) = &self.machine(node).running else { return };
        let those_in = running.guests.held.iter().enumerate().filter(|(_, guest)| guest.is_in);
        let those_in: Vec<usize> = those_in.map(|(place, _)| place).collect();
        if those_in.is_empty() {
            return;
        }
        let place = *rng.pick(&those_in);
        if rng.chance(1, 8) {
            return self.ask(node, place, false, &["SUBSCRIBE", &user(number)]);
        }
        let own = format!("{}:k", user(number));
        self.ask(node, place, false, &["GET", &own]);
        self.ask(node, place, false, &["MULTI"]);
        self.ask(node, place, false, &["GET", &own]);
        self.ask(node, place, false, &["EXEC"]);
        let forbidden = FORBIDDEN[rng.below(FORBIDDEN.len() as u64) as usize];
        self.ask(node, place, true, forbidden);
    }

    fn ask(&mut self, node: NodeId, place: usize, is_forbidden: bool, words: &[&str]) {
        let Some(running) = &mut self.machine(node).running else { return };
        let Some(guest) = running.guests.held.get_mut(place) else { return };
        guest.asked.push_back((is_forbidden, words.join(" ")));
        let connection = guest.connection;
        let mut bytes = Vec::new();
        wire::encode_command(&mut bytes, words);
        self.give(node, Happening::Received(connection, bytes.into()));
    }

    /// Takes what is for guests out of what a node has for clients, and judges it.
    pub(super) fn hear_guests(
        &mut self,
        node: NodeId,
        clients: &mut Vec<(ConnectionId, Vec<u8>)>,
        close: &mut Vec<ConnectionId>,
        pause: &mut Vec<(ConnectionId, bool)>,
    ) {
        let audit = self.machine(node).running.as_mut().map(|running| std::mem::take(&mut running.outbox.audit));
        if !self.chaos.users {
            return;
        }
        // Logins that have failed, and the operator's orders: answered, and told for the audit trail with the answer.
        let mut told = [0_usize; 2];
        for record in audit.unwrap_or_default() {
            match record.event {
                AuditEvent::LoginFailed(_) => told[0] += 1,
                AuditEvent::Ordered { .. } => told[1] += 1,
                _ => {}
            }
        }
        let mut answered = [0_usize; 2];
        let is_ours = |connection: &ConnectionId| connection.0 >= FIRST;
        pause.retain(|(connection, _)| !is_ours(connection));
        let heard: Vec<(ConnectionId, Vec<u8>)> =
            clients.extract_if(.., |(connection, _)| is_ours(connection)).collect();
        let closed: Vec<ConnectionId> = close.extract_if(.., |connection| is_ours(connection)).collect();
        let Some(running) = &mut self.machine(node).running else { return };
        let mut guests = std::mem::take(&mut running.guests);
        let mut left = Vec::new();
        for (connection, bytes) in heard {
            let Some(guest) = guests.held.iter_mut().find(|guest| guest.connection == connection.0) else {
                // The operator has its answer.
                answered[1] += 1;
                left.push(connection);
                continue;
            };
            guest.parser.push(&bytes);
            while let Ok(Some(reply)) = guest.parser.next() {
                // Nothing is published to what they may hear.
                let Some((is_forbidden, words)) = guest.asked.pop_front() else { continue };
                let is_refused = matches!(&reply, Value::Error(_));
                if !guest.is_in {
                    guest.is_in = !is_refused;
                    if is_refused {
                        answered[0] += 1;
                        left.push(ConnectionId(guest.connection));
                    }
                    continue;
                }
                let probe = if is_refused { REFUSED } else { SERVED };
                *self.probes.entry(probe).or_default() += 1;
                if is_forbidden && !is_refused {
                    let text = format!("{} has answered {reply:?} to a guest's {words}", name_of(node));
                    self.violations.push(("rights", text));
                }
            }
        }
        if answered[0] > told[0] || answered[1] > told[1] {
            let text = format!(
                "{} has answered {} failed logins and {} orders, and told {} and {} for the audit trail",
                name_of(node),
                answered[0],
                answered[1],
                told[0],
                told[1]
            );
            self.violations.push(("audit", text));
        }
        *self.probes.entry(AUDITED).or_default() += (answered[0] + answered[1]) as u64;
        for connection in &closed {
            let before = guests.held.len();
            guests.held.retain(|guest| guest.connection != connection.0);
            *self.probes.entry(PUT_OUT).or_default() += u64::from(before > guests.held.len());
        }
        guests.held.retain(|guest| !left.contains(&ConnectionId(guest.connection)));
        let stale = self.machine(node).running.as_mut().and_then(|running| {
            running.guests = guests;
            running.node.stale_rights()
        });
        if let Some(text) = stale {
            self.violations.push(("rights", format!("{}: {text}", name_of(node))));
        }
        for connection in closed.into_iter().chain(left) {
            self.give(node, Happening::Closed(connection.0));
        }
    }

    /// Property: in the calm at the end all nodes know the same users.
    #[must_use]
    pub fn judge_users(&self) -> Option<String> {
        if !self.chaos.users {
            return None;
        }
        let of = |node: NodeId| {
            let running = self.machines[usize::from(node.0)].running.as_ref()?;
            Some((name_of(node), running.node.users()))
        };
        let mut known = self.members().filter_map(of);
        let (first, users) = known.next()?;
        let (other, others) = known.find(|(_, others)| *others != users)?;
        Some(format!("{first} knows the users {users:?}, and {other} {others:?}"))
    }
}

fn runs_in<N: Door>(cluster: &Cluster<N>, node: NodeId) -> bool {
    cluster.machines[usize::from(node.0)].running.is_some()
}
