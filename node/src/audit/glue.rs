//! Where the node tells [`super::Audit`] what happens.

use std::time::Duration;

use data::Reply;
use wire::ArgumentsRef;

use super::{
    ACCESS, Actor, Asked, AuditEvent, LOGIN, LOGIN_FAILED, NAMES_MAX, ORDER, PENDING_MAX, REFUSED, marks, shown,
};
use crate::access::stored::Users;
use crate::council::Buckets;
use crate::dispatch::DISCARDED;
use crate::door::{ConnectionId, Planted};
use crate::node::Node;
use crate::registry::Registry;
use crate::session::Session;
use crate::words::Words;

/// How often it is told what was left out.
const REPORT_EVERY: Duration = Duration::from_secs(10);

const CLIENT_GONE: &str = "unknown: the connection was closed before the answer";
const NODE_STOPPED: &str = "unknown: the node stopped before the answer";
const NOT_AWAITED: &str = "unknown: too many orders were on their way";
const ABORTED: &str = "not done: a watched key had changed";

pub(super) fn actor(session: &Session, user: &[u8]) -> Actor {
    Actor { user: shown::bytes(user), client: shown::bytes(session.address.as_bytes()) }
}

/// A connection has become a user by its password.
pub(crate) fn logged_in(node: &mut Node, session: &Session, user: &[u8]) {
    // HTTP and errands let their own clients in, and tell of them.
    if !session.is_inside && node.audit.logins.take(node.now.time) {
        node.audit.push(node.clock.own(), AuditEvent::LoggedIn(actor(session, user)));
    }
}

/// A password was wrong, or the name was that of no user.
pub(crate) fn login_failed(node: &mut Node, session: &Session, user: &[u8]) {
    if node.config.planted == Some(Planted::AuditForgotten) {
        return;
    }
    if !session.is_inside && node.audit.failures.take(node.now.time) {
        node.audit.push(node.clock.own(), AuditEvent::LoginFailed(actor(session, user)));
    }
}

/// A command was refused by the rights of its user.
pub(crate) fn refused(node: &mut Node, session: &Session, user: &[u8], reason: &'static str, object: &[u8]) {
    if node.audit.refusals.take(node.now.time) {
        let by = actor(session, user);
        let object = shown::bytes(object);
        node.audit.push(node.clock.own(), AuditEvent::Refused { by, reason, object });
    }
}

/// The order that this command is, or the orders of the transaction that it ends.
pub(crate) fn asked(node: &mut Node, session: &Session, arguments: ArgumentsRef<'_>) -> Option<Asked> {
    let name = arguments.iter().next()?;
    // Nothing is carried out for a stranger.
    if !shown::may_be_order(name) || !session.authenticated {
        return None;
    }
    let orders: Vec<Vec<String>> = match &session.queue {
        // Orders in a transaction are carried out at its end.
        Some(queue) if name.eq_ignore_ascii_case(b"exec") => {
            let shown = |arguments: ArgumentsRef<'_>| {
                let words = Words::new(arguments);
                shown::is_order(words.as_slice()).then(|| shown::order(words.as_slice()))
            };
            queue.commands.iter().filter_map(|command| shown(command.as_ref())).collect()
        }
        Some(_) => return None,
        None => {
            let words = Words::new(arguments);
            shown::is_order(words.as_slice()).then(|| shown::order(words.as_slice())).into_iter().collect()
        }
    };
    if orders.is_empty() {
        return None;
    }
    (node.audit.is_asked, node.audit.error) = (true, None);
    Some(Asked {
        by: actor(session, &session.user.name),
        orders,
        is_transaction: session.queue.is_some(),
        opened: session.opened(),
    })
}

/// The command of these orders has been carried out, is on its way, or waits to be carried out again.
pub(crate) fn took(node: &mut Node, session: &Session, mut asked: Asked) {
    node.audit.is_asked = false;
    if session.deferred.is_some() {
        return;
    }
    match session.awaits_since(asked.opened) {
        Some(slot) if node.audit.pending.len() < PENDING_MAX => {
            node.audit.pending.insert((session.id, slot), asked);
        }
        Some(_) => tell(node, asked, NOT_AWAITED),
        None => match node.audit.error.take() {
            // That is told as a refusal.
            Some(error) if error.strip_prefix(DISCARDED).unwrap_or(&error).starts_with("NOPERM") => {}
            Some(error) => {
                asked.orders.iter_mut().for_each(shown::refused);
                tell(node, asked, &error);
            }
            None => tell(node, asked, "ok"),
        },
    }
}

/// A slot has its reply.
pub(crate) fn answered(node: &mut Node, connection: ConnectionId, slot: u64, answer: &Reply) {
    if node.audit.pending.is_empty() {
        return;
    }
    let Some(asked) = node.audit.pending.remove(&(connection, slot)) else { return };
    match answer {
        Reply::Error(failure) => tell(node, asked, &shown::error(failure)),
        Reply::Nil | Reply::NilArray if asked.is_transaction => tell(node, asked, ABORTED),
        _ => tell(node, asked, "ok"),
    }
}

/// A connection is gone.
pub(crate) fn closed(node: &mut Node, connection: ConnectionId) {
    let of_it = (connection, 0)..=(connection, u64::MAX);
    let slots: Vec<_> = node.audit.pending.range(of_it).map(|(key, _)| *key).collect();
    for key in slots {
        if let Some(asked) = node.audit.pending.remove(&key) {
            tell(node, asked, CLIENT_GONE);
        }
    }
}

/// The node stops.
pub(crate) fn end(node: &mut Node) {
    for asked in std::mem::take(&mut node.audit.pending).into_values() {
        tell(node, asked, NODE_STOPPED);
    }
    report(node);
}

fn tell(node: &mut Node, asked: Asked, outcome: &str) {
    let at = node.clock.own();
    for words in asked.orders {
        let is_limited = !shown::is_of_council(&words) || outcome != "ok";
        if !is_limited || node.audit.others.take(node.now.time) {
            let (by, outcome) = (asked.by.clone(), outcome.to_owned());
            node.audit.push(at, AuditEvent::Ordered { by, words, outcome });
        }
    }
}

/// At every tick.
pub(crate) fn tick(node: &mut Node) {
    marks::tell(node);
    if node.now.time >= node.audit.next_report {
        node.audit.next_report = node.now.time + REPORT_EVERY;
        report(node);
    }
}

/// Tells what was left out.
fn report(node: &mut Node) {
    let at = node.clock.own();
    let audit = &mut node.audit;
    let left_out = [
        (LOGIN, audit.logins.take_left_out()),
        (LOGIN_FAILED, audit.failures.take_left_out()),
        (REFUSED, audit.refusals.take_left_out()),
        (ORDER, audit.others.take_left_out()),
        (ACCESS, audit.accesses.take_left_out()),
    ];
    for (of, count) in left_out {
        if let Some(count) = count {
            audit.push(at, AuditEvent::LeftOut { of, count });
        }
    }
}

/// This node goes by other users from now on.
pub(crate) fn followed_users(node: &mut Node, before: &Users, after: &Users) {
    let differs = |name: &[u8]| before.get(name) != after.get(name);
    let mut names: Vec<&[u8]> =
        before.iter().chain(after.iter()).map(|(name, _)| name).filter(|name| differs(name)).collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        return;
    }
    let more = names.len().saturating_sub(NAMES_MAX);
    let users = names.into_iter().take(NAMES_MAX).map(shown::bytes).collect();
    node.audit.push(node.clock.own(), AuditEvent::UsersFollowed { users, more });
}

/// The registry of the council is this one now. What it had when this node started was told before that, or happened while it was down.
pub(crate) fn followed_registry(node: &mut Node, registry: &Registry) {
    if !node.audit.has_followed {
        return;
    }
    let before = &node.registry;
    let mut news = Vec::new();
    for joined in registry.joined.iter().filter(|joined| before.joined.iter().all(|other| other.id != joined.id)) {
        let (name, address) =
            (shown::bytes(joined.member.name.as_bytes()), shown::bytes(joined.member.peer_address.as_bytes()));
        news.push(AuditEvent::NodeJoined { node: joined.id, name, address });
    }
    for id in registry.removed.iter().filter(|id| !before.removed.contains(id)) {
        news.push(AuditEvent::NodeRemoved { node: *id });
    }
    for stepped in registry.stepped.iter().filter(|stepped| !before.stepped.contains(stepped)) {
        let (partition, position, digest) = (stepped.partition, stepped.position, stepped.digest);
        news.push(AuditEvent::SteppedOver { partition, position, digest });
    }
    for alone in registry.alone.iter().filter(|alone| !before.alone.contains(alone)) {
        news.push(AuditEvent::WentAlone { node: alone.node });
    }
    news.extend(marks::news(node, registry));
    let at = node.clock.own();
    news.into_iter().for_each(|event| node.audit.push(at, event));
}

/// The same of its list of buckets, which is looked at behind the registry.
pub(crate) fn followed_buckets(node: &mut Node, buckets: &Buckets) {
    let is_news = std::mem::replace(&mut node.audit.has_followed, true);
    if !is_news {
        return;
    }
    let mut news = Vec::new();
    for bucket in &buckets.list {
        let name = || shown::bytes(bucket.name.as_bytes());
        match node.buckets.list.iter().find(|before| before.born == bucket.born) {
            None => news.push(AuditEvent::BucketMade { name: name() }),
            Some(before) if before.settings != bucket.settings => {
                news.push(AuditEvent::BucketChanged { name: name() });
            }
            Some(_) => {}
        }
    }
    for gone in node.buckets.list.iter().filter(|gone| buckets.list.iter().all(|bucket| bucket.born != gone.born)) {
        news.push(AuditEvent::BucketDropped { name: shown::bytes(gone.name.as_bytes()) });
    }
    let at = node.clock.own();
    news.into_iter().for_each(|event| node.audit.push(at, event));
}
