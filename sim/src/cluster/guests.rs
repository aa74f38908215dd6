//! Users whose rights an operator changes again and again, and guests who log in as them: each asks for what its user may have, and for what no user of them ever
//! has. The properties are these:
//!
//! - Nobody is ever given what none of the rules that there were for his user allows.
//! - Once the operator has been answered `OK` to the order that takes everything from a user, no node carries out a command that is said as this user from then on.
//! - Each failed login and each order of the operator that a node answers has its record for the audit trail in the same turn.
//! - Wherever a connection is somebody, it has the rights that its node knows for him; in the calm at the end all nodes know the same.

use std::collections::{BTreeMap, VecDeque};

use base::{NodeId, Rng};
use node::{AuditEvent, ConnectionId, Listener};
use wire::{ReplyLimits, ReplyParser, Value};

use super::Cluster;
use crate::chaos::SECOND;
use crate::door::Door;
use crate::process::{Happening, name_of};

/// Names of what is counted here.
pub(crate) const PROBES: [&str; 6] = [SERVED, REFUSED, PUT_OUT, TRIED, AUDITED, JUDGED];
const SERVED: &str = "sim: a guest was given what its user may have";
const REFUSED: &str = "sim: a guest was refused what its user may not have";
const PUT_OUT: &str = "sim: a guest was put out";
const TRIED: &str = "sim: a guest tried a command after its user had lost every right";
const JUDGED: &str = "sim: a script of a guest was refused what its user may not call";
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
    &["EVAL", "return redis.call('GET', 'k0') or 'nothing'", "0"],
    &["PUBLISH", "elsewhere", "x"],
];

/// A connection that is somebody.
#[derive(Debug)]
struct Guest {
    connection: u64,
    user: String,
    parser: ReplyParser,
    /// It has logged in: until then it is `default`, who may do everything.
    is_in: bool,
    /// It shows a password that is nobody's.
    is_guessing: bool,
    /// Its node has answered it by itself, without asking another one.
    is_served: bool,
    /// Commands without an answer yet.
    asked: VecDeque<Asked>,
}

#[derive(Debug)]
struct Asked {
    at: u64,
    is_forbidden: bool,
    words: String,
}

/// Users that have lost every right, by the operator's orders and their answers.
#[derive(Debug, Default)]
pub(crate) struct Revocations {
    /// How many names each user has had: an order without a good answer may still be carried out, at any time, and after that nothing is certain of that name.
    names: BTreeMap<u64, u64>,
    users: BTreeMap<String, User>,
    /// Orders without an answer, by the operator's connection.
    orders: BTreeMap<(NodeId, u64), Ordered>,
    given: u64,
    /// Commands that were said by those who had nothing.
    tried: u64,
}

/// The orders about a user.
#[derive(Debug, Default)]
struct User {
    last_order: u64,
    without_answer: u64,
    /// Since then it has nothing.
    revoked_at: Option<u64>,
}

#[derive(Debug)]
struct Ordered {
    number: u64,
    user: String,
    /// It takes everything, and no other order about this user was without an answer.
    takes_all: bool,
}

impl Revocations {
    /// The name of a user: another one from time to time, where orders have no answers.
    fn name(&mut self, number: u64, rng: &mut Rng) -> String {
        let waits = self.users.get(&self.current(number)).is_some_and(|user| user.without_answer > 0);
        if waits && rng.chance(1, 3) {
            *self.names.entry(number).or_default() += 1;
        }
        self.current(number)
    }

    /// Nothing more is ordered about this name.
    fn retire(&mut self, name: &str) {
        if let Some(number) = (0..USERS).find(|number| self.current(*number) == name) {
            *self.names.entry(number).or_default() += 1;
        }
    }

    fn current(&self, number: u64) -> String {
        format!("guest{number}v{}", self.names.get(&number).copied().unwrap_or_default())
    }

    fn on_order(&mut self, connection: (NodeId, u64), user: &str, takes_all: bool) {
        self.given += 1;
        let number = self.given;
        let known = self.users.entry(user.to_owned()).or_default();
        let takes_all = takes_all && known.without_answer == 0;
        known.without_answer += 1;
        known.last_order = number;
        if !takes_all {
            known.revoked_at = None;
        }
        self.orders.insert(connection, Ordered { number, user: user.to_owned(), takes_all });
    }

    /// The operator has an answer: whose rights are gone by now, if it was that.
    fn on_answer(&mut self, connection: (NodeId, u64), is_good: bool, now: u64) -> Option<String> {
        let ordered = self.orders.remove(&connection).filter(|_| is_good)?;
        let known = self.users.get_mut(&ordered.user)?;
        known.without_answer -= 1;
        let is_certain = ordered.takes_all && known.last_order == ordered.number;
        is_certain.then(|| {
            known.revoked_at = Some(now);
            ordered.user
        })
    }

    /// Judges the answer to what a guest has said then: an error, or the answer and the words.
    fn judge(&mut self, guest: &Guest, said_at: u64, given: Option<(&Value, &String)>) -> Option<String> {
        let revoked_at = self.users.get(&guest.user).and_then(|user| user.revoked_at);
        if revoked_at.is_none_or(|at| said_at <= at) {
            return None;
        }
        self.tried += 1;
        let (reply, words) = given?;
        if words == "MULTI" {
            // It does nothing.
            return None;
        }
        Some(format!(
            "answered {reply:?} to {words} of {}, who had nothing any more by an order that was answered before",
            guest.user
        ))
    }

    /// Orders may be lost: all users get other names.
    pub(super) fn forget_all(&mut self) {
        (0..USERS).for_each(|number| *self.names.entry(number).or_default() += 1);
        self.users.clear();
        self.orders.clear();
    }
}

/// The guests of a process; they end with it.
#[derive(Debug, Default)]
pub struct Guests {
    held: Vec<Guest>,
    begun: u64,
}

/// True for the user of whom the operator sometimes asks no password.
fn takes_any_password(name: &str) -> bool {
    name.starts_with("guest0v")
}

/// An order about a user, in words; true if it takes everything.
fn order(name: &str, rng: &mut Rng) -> (bool, Vec<String>) {
    let name = name.to_owned();
    if rng.chance(1, 4) {
        return (true, vec!["ACL".to_owned(), "DELUSER".to_owned(), name]);
    }
    if rng.chance(1, 6) {
        return (true, ["ACL", "SETUSER", &name, "reset"].map(str::to_owned).to_vec());
    }
    let mut words = vec!["ACL".to_owned(), "SETUSER".to_owned(), name.clone()];
    let rules = [
        vec!["on".to_owned(), format!(">{name}"), format!("~{name}:*"), "+echo".to_owned(), "+eval".to_owned()],
        ["+multi", "+exec", "+discard"].map(str::to_owned).to_vec(),
        vec![
            "reset".to_owned(),
            "on".to_owned(),
            if takes_any_password(&name) { "nopass".to_owned() } else { format!(">{name}") },
            "+echo".to_owned(),
        ],
        vec!["+get".to_owned()],
        vec!["-get".to_owned()],
        vec!["resetkeys".to_owned(), format!("%R~{name}:*")],
        vec![format!("(+mget ~{name}:*)")],
        vec!["off".to_owned()],
        vec!["resetchannels".to_owned(), format!("&{name}"), "+subscribe".to_owned()],
    ];
    // Nothing is judged of a guest whose user is off.
    if rng.chance(1, 2) {
        words.extend(rules[0].clone());
    }
    for _ in 0..rng.between(1, 4) {
        words.extend(rng.pick(&rules).clone());
    }
    (false, words)
}

impl<N: Door> Cluster<N> {
    /// The operator changes a user, by way of any node, and guests come and ask.
    pub(super) fn change_users(&mut self, node: NodeId, rng: &mut Rng) -> bool {
        let runs = |node: NodeId| self.machines[usize::from(node.0)].running.is_some();
        if !N::HAS_BUCKETS || !runs(node) {
            return false;
        }
        let cut_off = if rng.chance(1, 5) { self.cut_off_a_guest(node, rng) } else { None };
        let is_cut_off = cut_off.is_some();
        let name = cut_off.unwrap_or_else(|| self.revocations.name(rng.below(USERS), rng));
        let (mut takes_all, mut words) = order(&name, rng);
        if is_cut_off {
            self.revocations.retire(&name);
            (takes_all, words) = (true, ["ACL", "DELUSER", &name].map(str::to_owned).to_vec());
        }
        if rng.chance(1, 4) {
            self.change_password_hash(node, rng);
        }
        let mut bytes = Vec::new();
        wire::encode_command(&mut bytes, &words);
        let Some(connection) = self.new_guest(node) else { return false };
        let now = self.now;
        self.revocations.on_order((node, connection), &name, takes_all);
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

    /// The operator changes how passwords are kept from now on.
    fn change_password_hash(&mut self, node: NodeId, rng: &mut Rng) {
        let Some(connection) = self.new_guest(node) else { return };
        let hash = if rng.chance(2, 3) { "argon2id" } else { "sha256" };
        let mut bytes = Vec::new();
        wire::encode_command(&mut bytes, ["CONFIG", "SET", "acl-password-hash", hash]);
        self.give(node, Happening::Opened(connection, Listener::Inside));
        self.give(node, Happening::Received(connection, bytes.into()));
    }

    /// Cuts a node other than this one off from all others, for longer than it may go by the users that it knows. Returns a user that this node serves.
    fn cut_off_a_guest(&mut self, node: NodeId, rng: &mut Rng) -> Option<String> {
        let of = |other: NodeId| {
            let running = self.machines[usize::from(other.0)].running.as_ref()?;
            let guest = running.guests.held.iter().find(|guest| guest.is_served)?;
            Some((other, guest.user.clone()))
        };
        let found: Vec<(NodeId, String)> = self.nodes().filter(|other| *other != node).filter_map(of).collect();
        if found.is_empty() {
            return None;
        }
        let (away, user) = rng.pick(&found).clone();
        let duration = rng.between(3 * SECOND, 8 * SECOND);
        for other in self.nodes().filter(|other| *other != away).collect::<Vec<_>>() {
            self.cut(away, other, false, duration);
            self.cut(other, away, false, duration);
        }
        Some(user)
    }

    /// A number for a connection to a process that runs.
    fn new_guest(&mut self, node: NodeId) -> Option<u64> {
        let guests = &mut self.machine(node).running.as_mut()?.guests;
        guests.begun += 1;
        Some(FIRST + guests.begun)
    }

    /// One who is there asks for something, or another one comes.
    fn visit(&mut self, node: NodeId, rng: &mut Rng) {
        let name = self.revocations.current(rng.below(USERS));
        let Some(running) = &mut self.machine(node).running else { return };
        let held = running.guests.held.len();
        if held < GUESTS_MAX && rng.chance(1, 2) {
            let Some(connection) = self.new_guest(node) else { return };
            let parser = ReplyParser::new(ReplyLimits::default());
            // Some come by way of HTTP, which has let them in by what it knew.
            let is_in = rng.chance(1, 4);
            let is_guessing = !is_in && rng.chance(1, 8);
            let asked = VecDeque::new();
            let guest = Guest { connection, user: name.clone(), parser, is_in, is_guessing, is_served: false, asked };
            if let Some(running) = &mut self.machine(node).running {
                running.guests.held.push(guest);
            }
            if is_in {
                self.give(node, Happening::OpenedFor(connection, name));
            } else {
                self.give(node, Happening::Opened(connection, Listener::Forwards));
                let password = if is_guessing { "guessed" } else { &name };
                self.ask(node, held, false, &["AUTH", &name, password]);
            }
            return;
        }
        let Some(running) = &self.machine(node).running else { return };
        let those_in = running.guests.held.iter().enumerate().filter(|(_, guest)| guest.is_in);
        let those_in: Vec<usize> = those_in.map(|(place, _)| place).collect();
        if those_in.is_empty() {
            return;
        }
        let place = *rng.pick(&those_in);
        let name = running.guests.held[place].user.clone();
        if rng.chance(1, 8) {
            return self.ask(node, place, false, &["SUBSCRIBE", &name]);
        }
        let own = format!("{name}:k");
        self.ask(node, place, false, &["ECHO", &name]);
        self.ask(node, place, false, &["GET", &own]);
        self.ask(node, place, false, &["MULTI"]);
        self.ask(node, place, false, &["GET", &own]);
        self.ask(node, place, false, &["EXEC"]);
        let forbidden = FORBIDDEN[rng.below(FORBIDDEN.len() as u64) as usize];
        self.ask(node, place, true, forbidden);
    }

    fn ask(&mut self, node: NodeId, place: usize, is_forbidden: bool, words: &[&str]) {
        let at = self.now;
        let Some(running) = &mut self.machine(node).running else { return };
        let Some(guest) = running.guests.held.get_mut(place) else { return };
        guest.asked.push_back(Asked { at, is_forbidden, words: words.join(" ") });
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
        let audit = audit.unwrap_or_default();
        self.write_trail(node, &audit);
        // Logins that have failed, and the operator's orders: answered, and told for the audit trail with the answer.
        let mut told = [0_usize; 2];
        for record in audit {
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
        let mut revocations = std::mem::take(&mut self.revocations);
        let mut wrong = Vec::new();
        let mut guests =
            self.machine(node).running.as_mut().map(|running| std::mem::take(&mut running.guests)).unwrap_or_default();
        let (mut left, mut answers) = (Vec::new(), Vec::new());
        for (connection, bytes) in heard {
            let Some(guest) = guests.held.iter_mut().find(|guest| guest.connection == connection.0) else {
                // The operator has its answer.
                answers.push((connection, !bytes.starts_with(b"-")));
                answered[1] += 1;
                left.push(connection);
                continue;
            };
            guest.parser.push(&bytes);
            while let Ok(Some(reply)) = guest.parser.next() {
                // Nothing is published to what they may hear.
                let Some(Asked { at, is_forbidden, words }) = guest.asked.pop_front() else { continue };
                let is_refused = matches!(&reply, Value::Error(_));
                if let Some(text) = revocations.judge(guest, at, (!is_refused).then_some((&reply, &words))) {
                    wrong.push(format!("{}: {text}", name_of(node)));
                }
                if !guest.is_in {
                    guest.is_in = !is_refused;
                    if guest.is_guessing && !is_refused && !takes_any_password(&guest.user) {
                        let text =
                            format!("{} has let a guest in as {} with a wrong password", name_of(node), guest.user);
                        self.violations.push(("rights", text));
                    }
                    if let Value::Error(text) = &reply {
                        // One that was not looked at has not failed.
                        answered[0] += usize::from(text.starts_with("WRONGPASS"));
                        left.push(ConnectionId(guest.connection));
                    }
                    continue;
                }
                guest.is_served |= !is_refused && words.starts_with("ECHO ");
                let probe = if is_refused { REFUSED } else { SERVED };
                *self.probes.entry(probe).or_default() += 1;
                if let Value::Error(text) = &reply
                    && text.contains("executing the script")
                {
                    *self.probes.entry(JUDGED).or_default() += 1;
                }
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
        *self.probes.entry(TRIED).or_default() += std::mem::take(&mut revocations.tried);
        self.revocations = revocations;
        self.violations.extend(wrong.into_iter().map(|text| ("rights", text)));
        for (connection, is_good) in answers {
            let now = self.now;
            if let Some(user) = self.revocations.on_answer((node, connection.0), is_good, now) {
                self.try_as(&user);
            }
        }
    }

    /// All who are logged in as this user say something at once, wherever they are.
    fn try_as(&mut self, user: &str) {
        // Later than the answer.
        self.now += 1;
        for node in self.nodes().collect::<Vec<_>>() {
            let Some(running) = &self.machines[usize::from(node.0)].running else { continue };
            let theirs = running.guests.held.iter().enumerate().filter(|(_, guest)| guest.is_in && guest.user == user);
            for place in theirs.map(|(place, _)| place).collect::<Vec<_>>() {
                // For the first of these no other node is asked; the last may wait for a leader.
                self.ask(node, place, false, &["ECHO", user]);
                self.ask(node, place, false, &["GET", &format!("{user}:k")]);
            }
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
