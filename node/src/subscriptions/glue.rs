//! What the node does for [`Subscriptions`](super::Subscriptions): it hands over what was recorded, gives it the connections to tell, and keeps recording on.

use std::collections::BTreeSet;
use std::ops::Bound;

use base::limits::{STATE_VALUE_BYTES_MAX, SUBSCRIBER_UNREAD_BYTES};
use base::versions::Feature;
use base::{PartitionId, Revision, WallTime};
use bytes::Bytes;
use data::{ChangeKind, Failure, KeyRef, Record, Reply, Tree, value_as_told};
use wire::{Protocol, ReplyWriter};

use super::attaching::{self, Answered};
use super::frames::{self, Bodies, Reason, Stored, number};
use super::token::history;
use super::{LEASE, NoRoom, PROGRESS_EVERY, Sink, States, feeding};
use crate::council::COUNCIL;
use crate::door::ConnectionId;
use crate::entry::Kind;
use crate::groups::Groups;
use crate::node::{Node, TICK_EVERY, news_of, place_of};
use crate::partition::Records;
use crate::router::Waiter;
use crate::sessions::Sessions;

const GIVEN_UP: Failure = Failure::Text("ERR the subscription has not begun: RESET came first");

/// The connections of a node.
struct Connections<'a> {
    sessions: &'a mut Sessions,
    dirty: &'a mut Vec<ConnectionId>,
}

impl Sink for Connections<'_> {
    fn protocol(&self, connection: ConnectionId) -> Result<Protocol, NoRoom> {
        let Some(Some(session)) = self.sessions.get(&connection) else { return Err(NoRoom::Gone) };
        if session.closing {
            return Err(NoRoom::Gone);
        }
        if session.unread >= SUBSCRIBER_UNREAD_BYTES {
            return Err(NoRoom::Full);
        }
        // A change comes behind the answer to the command that made it, and behind that of the subscription.
        if session.pending() > 0 && !session.has_answered(session.last_done()) {
            return Err(NoRoom::Later);
        }
        if session.out.len() + session.unread >= SUBSCRIBER_UNREAD_BYTES {
            return Err(NoRoom::NextTurn);
        }
        Ok(session.protocol)
    }

    fn send(&mut self, connection: ConnectionId, parts: [&[u8]; 2]) {
        let Some(Some(session)) = self.sessions.get_mut(&connection) else { return };
        parts.iter().for_each(|part| session.out.extend_from_slice(part));
        if !session.dirty {
            session.dirty = true;
            self.dirty.push(connection);
        }
    }

    fn over(&mut self, connection: ConnectionId) {
        if let Some(Some(session)) = self.sessions.get_mut(&connection) {
            session.subscribed_to_changes = session.subscribed_to_changes.saturating_sub(1);
        }
    }
}

impl States for Groups {
    fn tree(&self, partition: PartitionId) -> Option<&Tree> {
        let group = &self[place_of(self, partition)?];
        group.elsewhere.is_none().then_some(&group.partition.tree)
    }
}

/// An entry of a partition has been applied.
pub(crate) fn applied(node: &mut Node, g: usize) {
    if feeding::is_told_by_others(node, g) {
        let (partition, wishes) = (node.groups[g].id(), &mut node.groups[g].wishes);
        let records = std::mem::take(&mut wishes.records);
        if !std::mem::take(&mut wishes.unrecorded) {
            for Records { before, stamp, records } in records {
                node.subscriptions.join(partition, (before, stamp), records);
            }
        }
        return;
    }
    let group = &mut node.groups[g];
    let partition = group.id();
    let is_unrecorded = std::mem::take(&mut group.wishes.unrecorded);
    if is_unrecorded {
        node.subscriptions.unrecorded(partition);
    }
    for records in node.groups[g].wishes.records.drain(..) {
        node.subscriptions.recorded(partition, (records.before, records.stamp), records.records);
    }
    if is_unrecorded {
        // Behind the gap everything is recorded again, from here on.
        begin(node, g);
    }
}

/// A replica has another state than before: what had changed on the way to it was not recorded here.
pub(crate) fn installed(node: &mut Node, g: usize) {
    let group = &mut node.groups[g];
    (group.wishes.unrecorded, group.wishes.records) = (false, Vec::new());
    if feeding::is_told_by_others(node, g) {
        return;
    }
    let partition = node.groups[g].id();
    node.subscriptions.unrecorded(partition);
    begin(node, g);
}

/// The ring of a partition begins here, if its changes are recorded and there is none.
pub(super) fn begin(node: &mut Node, g: usize) {
    let held = &mut node.groups[g].partition;
    if held.origins.recorded_until > held.tree.time() {
        held.has_recorded = true;
        let held = &node.groups[g].partition;
        node.subscriptions.begin(held.id, held.tree.revision());
    }
}

/// This node has no state of a partition any more.
pub(crate) fn gone_elsewhere(node: &mut Node, g: usize) {
    let partition = node.groups[g].id();
    if node.has(Feature::FedChanges) {
        node.subscriptions.goes_on_elsewhere(partition);
    } else {
        node.subscriptions.end_partition(partition, Reason::Moved);
    }
}

/// A bucket is gone: it was dropped, or begins anew, empty.
pub(crate) fn removed(node: &mut Node, partition: PartitionId, begins_anew: bool) {
    let reason = if begins_anew { Reason::BegunAnew } else { Reason::BucketDropped };
    node.subscriptions.end_partition(partition, reason);
}

/// At the end of a turn: tells what there is to be told.
pub(crate) fn tell(node: &mut Node) {
    feeding::tell(node);
    if !node.subscriptions.has_work() {
        return;
    }
    let now = node.now.time;
    let Node { subscriptions, sessions, dirty, groups, .. } = node;
    let told = subscriptions.tell(now, &mut Connections { sessions, dirty }, groups);
    feeding::send_pages(node);
    let counts = [
        (told.keys, "subscriptions: keys that are there told"),
        (told.walked, "subscriptions: all of a partition that is there was told"),
        (told.messages, "subscriptions: changes told"),
        (told.gaps, "subscriptions: a gap told"),
        (told.restated, "subscriptions: what is there is told behind a gap"),
        (told.fell_behind, "subscriptions: one fell behind"),
        (told.came_live, "subscriptions: one is live"),
        (told.taken, "subscriptions: a name was taken over"),
    ];
    for (_, probe) in counts.into_iter().filter(|(count, _)| *count > 0) {
        node.probe(probe);
    }
    if node.subscriptions.goes_on() {
        node.probe("subscriptions: more is left than a turn may tell");
    }
}

/// Whether this node knows how its cluster is called now, by which histories are told apart. A cluster of which one node has gone on alone is called otherwise from an entry of the
/// council's log on. As long as this node has not read as far as that log went at its start, and as far as its leader has come, it might tell the name from before.
pub(super) fn knows_history(node: &mut Node) -> bool {
    if node.subscriptions.knows_history {
        return true;
    }
    let Some(g) = place_of(&node.groups, COUNCIL) else { return false };
    let held = &node.groups[g].partition;
    let Some((leader, ballot)) = held.replica.leader() else { return false };
    let told = node.news.get(&leader).and_then(|ping| news_of(ping, COUNCIL));
    let decided = match told.filter(|news| news.leads == Some(ballot)) {
        Some(news) => news.decided,
        // A leader's own first entry comes behind all others; one that rests says nothing in pings.
        None => held.replica.opening().filter(|_| leader == node.config.me).unwrap_or(held.replica.decided()),
    };
    let until = node.subscriptions.council_until.min(held.replica.log().last()).max(decided);
    let knows = held.applied >= until && node.cluster_name() != 0;
    node.subscriptions.knows_history = knows;
    knows
}

/// At a tick: tells some how far they are.
pub(crate) fn tick(node: &mut Node) {
    knows_history(node);
    feeding::tick(node);
    if node.subscriptions.is_empty() {
        // Others may want stored keys.
        return node.subscriptions.refill();
    }
    let parts = (PROGRESS_EVERY.as_millis() / TICK_EVERY.as_millis()) as usize;
    let now = node.now.time;
    let Node { subscriptions, sessions, dirty, groups, .. } = node;
    subscriptions.look_up_names(groups);
    if subscriptions.tell_progress(now, parts, &mut Connections { sessions, dirty }) > 0 {
        node.probe("subscriptions: progress told");
    }
}

/// Keeps recording on, where somebody subscribes: with each round of pings.
pub(crate) fn keep_recording(node: &mut Node) {
    let partitions: BTreeSet<PartitionId> =
        node.subscriptions.partitions().chain(node.subscriptions.followed()).collect();
    for partition in partitions {
        if let Some(g) = place_of(&node.groups, partition) {
            prolong(node, g);
        }
    }
}

/// Has a partition's changes recorded for longer, when half of the time has passed, or it is over.
fn prolong(node: &mut Node, g: usize) {
    if node.groups[g].elsewhere.is_some() || is_recorded_for_long(node, g) || !node.has(Feature::Recording) {
        return;
    }
    let router = &mut node.groups[g].router;
    if !router.writes.iter().any(|write| write.kind == Kind::Record) {
        let deadline = node.now.time + node.config.request_timeout;
        router.write(Kind::Record, lease(), Waiter::Nobody, node.now.time, deadline);
        node.groups.wake(g);
        node.probe("subscriptions: recording prolonged");
    }
}

/// Whether the changes of a partition are recorded, and will be for half of the time that an entry gives.
pub(super) fn is_recorded_for_long(node: &Node, g: usize) -> bool {
    let held = &node.groups[g].partition;
    let now = held.tree.time().max(node.now.wall);
    held.origins.recorded_until > WallTime(now.0.saturating_add(LEASE.as_millis() as u64 / 2))
}

/// The body of an entry that has changes recorded.
pub(super) fn lease() -> Bytes {
    Bytes::copy_from_slice(&(LEASE.as_millis() as u64).to_le_bytes())
}

/// A slot has its answer. If a subscription waits for it, it begins, and this is the answer in that one's place.
pub(crate) fn answered(node: &mut Node, connection: ConnectionId, slot: u64, answer: &Reply) -> Answered {
    if !node.subscriptions.names.is_waiting() {
        return begun(node, connection, slot, answer).map_or(Answered::AsItIs, Answered::Instead);
    }
    match attaching::answered(node, connection, slot, answer) {
        Answered::AsItIs => begun(node, connection, slot, answer).map_or(Answered::AsItIs, Answered::Instead),
        other => other,
    }
}

fn begun(node: &mut Node, connection: ConnectionId, slot: u64, answer: &Reply) -> Option<Reply> {
    if node.subscriptions.opening.is_empty() {
        return None;
    }
    let is_given_up = node.subscriptions.opening.get(&(connection, slot))?.is_given_up;
    let Reply::Array(revisions) = answer else {
        node.subscriptions.give_up(connection, slot);
        if let Some(Some(session)) = node.sessions.get_mut(&connection) {
            session.subscribed_to_changes = session.subscribed_to_changes.saturating_sub(1);
        }
        return None;
    };
    if is_given_up {
        node.subscriptions.give_up(connection, slot);
        return Some(Reply::Error(GIVEN_UP));
    }
    let revision = |reply: &Reply| match reply {
        Reply::Integer(revision) => Some(Revision(u64::try_from(*revision).unwrap_or_default())),
        _ => None,
    };
    let revisions: Vec<Option<Revision>> = revisions.iter().map(revision).collect();
    Some(open(node, (connection, slot), &revisions))
}

/// Begins the subscription that waits for a slot, and answers its client.
pub(super) fn open(node: &mut Node, waiting: (ConnectionId, u64), revisions: &[Option<Revision>]) -> Reply {
    let Some((id, token)) = node.subscriptions.open(waiting, revisions) else { return Reply::Nil };
    let walked = node.subscriptions.walked(id);
    node.probe("subscriptions: one begun");
    for partition in node.subscriptions.partitions_of(id) {
        match place_of(&node.groups, partition) {
            Some(g) if node.groups[g].elsewhere.is_none() => begin(node, g),
            // Others tell its changes.
            Some(_) if feeding::may_begin(node, walked.as_deref()) => {}
            // This node has given it up meanwhile.
            _ => node.subscriptions.cannot_go_on(id, partition, Reason::Moved),
        }
    }
    let token = token.map_or(Reply::Nil, |token| Reply::bulk(token.to_string().as_bytes()));
    Reply::Array(vec![Reply::Integer(number(id.0)), token])
}

/// What a node keeps of a partition's changes: for checkers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recorded {
    /// What tokens of this history begin with.
    pub history: String,
    /// Everything behind this revision is kept.
    pub floor: Revision,
    /// Those that were asked for, in order.
    pub changes: Vec<RecordedChange>,
}

/// A change as a node keeps it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordedChange {
    /// Which one.
    pub revision: Revision,
    /// Its key.
    pub key: Vec<u8>,
    /// It is a flush.
    pub is_of_all_keys: bool,
    /// What subscribers are told of it in RESP3, behind the subscription's number.
    pub message: Vec<u8>,
}

/// The changes that a node keeps of a partition, those behind a revision; none if it keeps nothing. For checkers.
#[must_use]
pub fn recorded(node: &Node, partition: PartitionId, after: Revision) -> Option<Recorded> {
    let bucket = node.buckets.of(partition.bucket).filter(|_| node.subscriptions.knows_history)?;
    let history = history(node.registry.cluster, bucket.id);
    let (floor, kept) = node.subscriptions.kept(partition)?;
    let new = kept.filter(|it| it.record.revision > after);
    let change = |it: &super::ring::Recorded| RecordedChange {
        revision: it.record.revision,
        key: it.record.key.to_vec(),
        is_of_all_keys: it.record.kind == ChangeKind::Flushed,
        message: Bodies::default().get(partition, it, (Protocol::Resp3, true)).to_vec(),
    };
    Some(Recorded { history: format!("{}~{history:016x}", bucket.born.0), floor, changes: new.map(change).collect() })
}

/// A key that is there: for checkers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredKey {
    /// The key.
    pub key: Vec<u8>,
    /// That of its last change.
    pub revision: Revision,
    /// What subscribers are told of it in RESP3, behind the subscription's number.
    pub message: Vec<u8>,
}

impl StoredKey {
    fn new(tree: &Tree, partition: PartitionId, key: &[u8], record: &Record) -> StoredKey {
        let mut message = Vec::new();
        let (after, _) = value_as_told(tree, record, STATE_VALUE_BYTES_MAX);
        let mut writer = ReplyWriter::new(&mut message, Protocol::Resp3);
        frames::state_body(&mut writer, partition, &Stored::new(key, record, Some(after)));
        StoredKey { key: key.to_vec(), revision: record.revision, message }
    }
}

/// All keys of a partition, with its revision; none if this node has none. For checkers.
#[must_use]
pub fn stored_keys(node: &Node, partition: PartitionId) -> Option<(Revision, Vec<StoredKey>)> {
    let tree = node.groups.tree(partition)?;
    let keys = tree.records(Bound::Unbounded);
    let keys = keys.map(|(key, record)| StoredKey::new(tree, partition, &key.key, &record)).collect();
    Some((tree.revision(), keys))
}

/// The same of one key; none if it is not there.
#[must_use]
pub fn stored_key(node: &Node, partition: PartitionId, key: &[u8]) -> Option<StoredKey> {
    let tree = node.groups.tree(partition)?;
    tree.find(KeyRef::new(key)).map(|record| StoredKey::new(tree, partition, key, &record))
}
