//! How long a node goes by the users that it knows, and when a change of users is answered: so that `OK` means that it holds at every node that serves.
//!
//! 1. A node asks for a read position of the council's log, and applies the log up to that position. Then its state has everything that was decided before the question.
//!    From the moment of the question the node goes by these users for [`TERM`]. This is its *lease*; the node renews it every [`RENEWED_EVERY`]. Without a lease the
//!    node carries out no command of a client: the command waits for a lease, half as long as a command waits for a leader.
//! 2. The node that was asked for a change answers once every other node has said in a ping that it has applied the change and has it on its disk. A node that does not
//!    say so may be cut off or gone. After [`TERM`] and [`SPARE`] that node has no lease from before the change, and cannot get one without the change.
//! 3. While the council has no users, nodes need no lease: a cluster without users does not depend on the council. That ends at each node with the first change that the
//!    node applies. A node that has applied none lets everybody be `default` however much time passes, so a change of `default` is an error as long as such a node is left.
//! 4. A node that starts needs a lease if its state has users, or if the end of its log has orders about users that are not known to be decided.
//! 5. A founder with an empty folder takes the cluster for a new one until it hears of the others. At that moment it closes its clients' connections and forgets their
//!    orders, none of which has left the node; from then on it needs a lease until it has one. A node that joins needs one from its start.
//!
//! The clocks of two nodes may run at rates that differ by less than a quarter ([`SPARE`] of [`TERM`]). They need not show the same time.

use std::collections::BTreeSet;
use std::time::Duration;

use base::{NodeId, Position, Time};
use data::{Failure, Reply};
use paxos::RoleName;
use wire::ArgumentsRef;

use super::DEFAULT;
use super::stored::UserChange;
use crate::council::{COUNCIL, Order};
use crate::door::{ConnectionId, Level, Planted};
use crate::entry::{Header, Kind};
use crate::node::{Node, news_of, place_of, role_number};
use crate::router::{Waiter, Write};
use crate::session::Session;
use crate::words::Terms;

/// How long a node goes by the users that it knows: longer than the council takes to elect another leader.
const TERM: Duration = Duration::from_secs(3);
/// So much later another node takes it for over.
const SPARE: Duration = Duration::from_millis(750);
/// How old the proof may be before a new one is asked for.
const RENEWED_EVERY: Duration = Duration::from_millis(750);

const LAPSED: Failure = Failure::Text(
    "CLUSTERDOWN this node has not heard from the council lately, so it does not know who may do what; the command was not done, use another node",
);

/// Begins the answer to a change of users that is made, and that a node has not confirmed.
pub const MADE: &str = "ERR the change is made, but";

/// A lease, and the changes whose answers wait for those of others.
#[derive(Debug, Default)]
pub(crate) struct Lease {
    /// When this node asked for the position of the council's log to which its state has come.
    proved_at: Option<Time>,
    /// The end of the log that was found at the start may have other users than the state.
    is_doubtful: bool,
    /// The council has users.
    has_users: bool,
    /// This node has begun with nothing of the council, and has not heard of it all yet.
    is_blank: bool,
    /// There is something to hear of: the cluster is no new one.
    is_late: bool,
    /// It was over at the last look.
    is_over: bool,
    /// How many nodes were removed or left behind, and when the last of them was.
    removed: usize,
    removed_at: Option<Time>,
    changes: Vec<Change>,
}

/// A change of users that was applied here.
#[derive(Debug)]
struct Change {
    position: Position,
    applied_at: Time,
    /// It is about `default`.
    of_default: bool,
    connection: ConnectionId,
    slot: u64,
    reply: Reply,
}

impl Lease {
    /// Each command of a client needs one.
    fn is_needed(&self) -> bool {
        self.has_users || self.is_doubtful || self.is_late
    }

    fn is_good(&self, now: Time, planted: Option<Planted>) -> bool {
        planted == Some(Planted::EndlessLease) && self.proved_at.is_some()
            || self.proved_at.is_some_and(|at| now.since(at) < TERM)
    }

    /// The state lacks nothing that was decided before `asked_at`.
    pub(crate) fn on_proof(&mut self, asked_at: Time) {
        self.proved_at = self.proved_at.max(Some(asked_at));
        (self.is_doubtful, self.is_blank, self.is_late) = (false, false, false);
    }

    /// The council has users, or has none; and so many nodes are no members any more.
    pub(super) fn follow(&mut self, has_users: bool, removed: usize, now: Time) {
        self.has_users = has_users;
        if std::mem::replace(&mut self.removed, removed) < removed {
            self.removed_at = Some(now);
        }
    }

    /// Answers wait.
    pub(crate) fn has_changes(&self) -> bool {
        !self.changes.is_empty()
    }
}

/// At the start: whether the end of the log may say something else of users than the state.
pub(crate) fn begin(node: &mut Node) {
    let Some(g) = place_of(&node.groups, COUNCIL) else { return };
    let partition = &node.groups[g].partition;
    let log = partition.replica.log();
    let mut at = partition.applied.max(log.base());
    let mut is_doubtful = false;
    while at < log.last() {
        at = at.next();
        // An entry that the log has lost may be an order about users.
        is_doubtful |= log.get(at).is_none_or(|entry| is_about_users(&entry.payload, node.config.newest));
    }
    let is_blank = log.last() == Position(0);
    let removed = removed(node);
    node.access.lease = Lease { is_doubtful, is_blank, removed, ..Lease::default() };
}

/// How many nodes are no members any more.
pub(super) fn removed(node: &Node) -> usize {
    let left_behind = node.registry.alone.last().map_or(0, |alone| usize::from(alone.below));
    node.registry.removed.len() + left_behind
}

fn is_about_users(payload: &[u8], newest: u16) -> bool {
    // An empty one opens a leadership. What cannot be read ends the node when it is applied.
    let Ok((header, body)) = Header::decode(payload, newest) else { return false };
    let order = Terms::split(header.kind, body).ok().filter(|_| header.kind == Kind::Council);
    order.is_some_and(|(_, order)| matches!(Order::decode(order), Ok(Order::Users(_))))
}

/// True for commands that are carried out without a lease: they tell nothing, and change nothing but their connection.
fn needs_none(words: &[&[u8]]) -> bool {
    let is = |name: &[u8], allowed: &[&[u8]]| allowed.iter().any(|allowed| name.eq_ignore_ascii_case(allowed));
    match words {
        // If MULTI were refused, the commands behind it would be carried out one by one as soon as there is a lease.
        [name] => is(name, &[b"ping", b"quit", b"reset", b"hello", b"multi", b"discard"]),
        // Without a user and a password.
        [name, _] => is(name, &[b"ping", b"hello"]),
        [name, what, _] => is(name, &[b"client"]) && is(what, &[b"reply"]),
        _ => false,
    }
}

/// True for commands by which an operator looks at a node that has nothing yet.
fn tells_of_node(name: &[u8]) -> bool {
    [&b"dictum.status"[..], b"info", b"command", b"echo"].iter().any(|told| name.eq_ignore_ascii_case(told))
}

/// The council's replica of this node is one that has to hear of everything from others. (A founder of a new cluster hears of nothing: there is nothing.)
fn begins(node: &Node) -> bool {
    let council = place_of(&node.groups, COUNCIL).map(|g| &node.groups[g].partition.replica);
    council.is_some_and(|council| {
        let recovers = council.role() == RoleName::Recovering && council.founders_awaited().is_none();
        council.joins() || recovers
    })
}

/// In each pass of a turn, before anything leaves: a node with an empty folder may have found out that the cluster is no new one.
pub(crate) fn look(node: &mut Node) {
    if !node.access.lease.is_blank || node.access.lease.is_late || !begins(node) {
        return;
    }
    node.access.lease.is_late = true;
    let clients = node.sessions.values().flatten().filter(|session| !session.is_own());
    let clients: BTreeSet<ConnectionId> = clients.map(|session| session.id).collect();
    if !clients.is_empty() {
        node.probe("access: clients of a founder put out that is none");
    }
    for g in 0..node.groups.len() {
        let is_of_client =
            |waiter| matches!(waiter, Waiter::Client { connection, .. } if clients.contains(&connection));
        let of_clients = |write: &&Write| !write.done && is_of_client(write.waiter);
        let writes = node.groups[g].router.writes.iter().filter(of_clients);
        for sequence in writes.map(|write| write.sequence).collect::<Vec<u64>>() {
            let _ = node.groups[g].router.finish(sequence);
        }
    }
    for id in clients {
        node.throw_out(id);
    }
}

/// A command of a client: true if it waits for a lease, or was refused without one.
pub(crate) fn waits(node: &mut Node, session: &mut Session, arguments: ArgumentsRef<'_>, words: &[&[u8]]) -> bool {
    let lease = &node.access.lease;
    if !lease.is_needed() || session.is_own() || needs_none(words) {
        return false;
    }
    let has_rules = lease.has_users || lease.is_doubtful;
    if !has_rules && words.first().is_some_and(|name| tells_of_node(name)) {
        return false;
    }
    if lease.is_good(node.now.time, node.config.planted) {
        session.has_asked_for_lease = false;
        return false;
    }
    if std::mem::take(&mut session.has_asked_for_lease) {
        node.probe("access: a command was refused without a lease");
        node.reject(session, words, &LAPSED);
    } else if session.aim_at(COUNCIL.bucket, arguments) {
        // An answer renews the lease.
        session.has_asked_for_lease = true;
        session.has_asked_for_lease = node.defers_behind_council(session, arguments);
        node.probe("access: a command waited for a lease");
    }
    true
}

/// At every round of pings: renews the lease, and looks whether it is over.
pub(crate) fn tick(node: &mut Node) {
    let (now, lease) = (node.now.time, &mut node.access.lease);
    let is_needed = lease.is_needed();
    let is_old = lease.proved_at.is_none_or(|at| now.since(at) >= RENEWED_EVERY);
    let is_over = is_needed && !lease.is_good(now, node.config.planted);
    let was_over = std::mem::replace(&mut lease.is_over, is_over);
    if is_needed
        && is_old
        && let Some(g) = place_of(&node.groups, COUNCIL)
    {
        let router = &mut node.groups[g].router;
        router.age_wanted |= router.asked.is_empty() && router.ready.is_empty();
    }
    if is_over && !was_over {
        node.event(
            Level::Warning,
            "this node has not heard from the council lately: it does not know who may do what, and lets no client do anything",
        );
        put_out_listeners(node);
    } else if was_over && !is_over {
        node.event(Level::Info, "this node knows again who may do what");
    }
}

/// Closes the connections that get something without saying anything: the node does not know whether they still may.
fn put_out_listeners(node: &mut Node) {
    let listens = |session: &Session| session.is_told_unasked() || node.monitors.contains(&session.id);
    let sessions = node.sessions.values().flatten().filter(|session| !session.is_own() && listens(session));
    let all: Vec<ConnectionId> = sessions.map(|session| session.id).collect();
    if !all.is_empty() {
        node.probe("access: listeners put out without a lease");
    }
    for id in all {
        node.throw_out(id);
    }
}

/// An order of a client was applied here. Returns true if the answer waits until all others have applied it, too.
pub(crate) fn holds_back(
    node: &mut Node,
    order: &[u8],
    position: Position,
    (connection, slot): (ConnectionId, u64),
    reply: &Reply,
) -> bool {
    let Ok((_, order)) = Terms::split(Kind::Council, order) else { return false };
    let Ok(Order::Users(change)) = Order::decode(order) else { return false };
    if matches!(reply, Reply::Error(_)) || node.config.planted == Some(Planted::AnswersBeforeAll) {
        return false;
    }
    let of_default = matches!(change, UserChange::Set { name, .. } if name == DEFAULT);
    let (applied_at, reply) = (node.now.time, reply.clone());
    node.access.lease.changes.push(Change { position, applied_at, of_default, connection, slot, reply });
    true
}

/// Answers the changes that hold everywhere.
pub(crate) fn settle_changes(node: &mut Node) {
    if node.access.lease.changes.is_empty() {
        return;
    }
    let members: Vec<NodeId> = node.roll.ids().filter(|id| !node.registry.left_behind(*id)).collect();
    let confirmed: Vec<(NodeId, Position)> = members.into_iter().map(|id| (id, confirmed_by(node, id))).collect();
    let confirmed_by_all = confirmed.iter().map(|(_, position)| *position).min().unwrap_or_default();
    let (now, default_since) = (node.now.time, node.access.stored.default_since());
    // One that was removed a moment ago may not know it, and has a lease still.
    let removed_at = node.access.lease.removed_at;
    let all_are_members = removed_at.is_none_or(|at| now.since(at) >= TERM + SPARE);
    let mut answers = Vec::new();
    let mut waiting = std::mem::take(&mut node.access.lease.changes);
    waiting.retain_mut(|change| {
        let is_by_all = all_are_members && confirmed_by_all >= change.position;
        let is_over = now.since(change.applied_at) >= TERM + SPARE;
        if !is_by_all && !is_over {
            return true;
        }
        // Those need no lease.
        let unaware = confirmed.iter().filter(|(_, position)| change.of_default && *position < default_since);
        let unaware: Vec<&str> =
            unaware.filter_map(|(id, _)| node.roll.get(*id)).map(|member| member.name.as_str()).collect();
        let reply = if unaware.is_empty() {
            std::mem::replace(&mut change.reply, Reply::Ok)
        } else {
            let text = format!(
                "{MADE} {} did not confirm it, and may still let everybody be 'default': start it, or remove it from the cluster, and send the command again",
                unaware.join(", ")
            );
            Reply::Error(Failure::built(text.as_bytes()))
        };
        let how = if is_by_all { "access: a change was confirmed by all" } else { "access: a change outlasted the leases" };
        answers.push((change.connection, change.slot, reply, how));
        false
    });
    node.access.lease.changes = waiting;
    for (connection, slot, reply, how) in answers {
        node.probe(how);
        node.deliver(connection, slot, &reply);
    }
}

/// Up to where a node has applied the council's log and has it on its disk, by its own word.
fn confirmed_by(node: &Node, id: NodeId) -> Position {
    if id == node.config.me {
        let own = place_of(&node.groups, COUNCIL).map(|g| &node.groups[g].partition);
        return own.map_or(Position(0), |own| own.applied.min(own.replica.persisted()));
    }
    let news = node.news.get(&id).and_then(|ping| news_of(ping, COUNCIL));
    // One that recovers has lost something.
    let news = news.filter(|news| news.role < role_number(RoleName::Recovering));
    news.map_or(Position(0), |news| news.applied.min(news.persisted))
}
