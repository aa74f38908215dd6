//! Reads the writes that other nodes forward to the leader, before they come into the log.
//!
//! A node checks its clients' commands before it proposes them, and the leader proposes what other nodes forward. An entry that no replica can apply ends all of them, at
//! each start again. So the leader reads a forwarded write before it proposes it: one member with a bug, or in somebody else's hands, must not be able to do that.
//!
//! The check is for what would harm replicas: a body that cannot be read, keys that no store takes, a version or a kind of entry that does not belong there, a budget
//! beyond that of the bucket. It is no second check of rights. A write that replicas apply without harm is the member's own matter: they trust each other with that.
//!
//! In place of a refused write the leader proposes a command that there is not ([`in_place_of_refused`]), so the node that sent it is answered, and what it has numbered
//! behind it goes on.

use std::collections::BTreeMap;
use std::time::Duration;

use base::limits::{
    ARGUMENTS_PLAIN_MAX, BODY_BYTES_MAX, COUNCIL_ORDER_BYTES_MAX, KEY_BYTES_MAX, ONCE_ID_BYTES_MAX,
    OUTSTANDING_REQUESTS_MAX, PAYLOAD_BYTES_TARGET, WORK_DEFAULT,
};
use base::versions::Feature;
use base::{NodeId, Time};
use bytes::Bytes;
use wire::Arguments;

use crate::council::{COUNCIL, Order};
use crate::door::{Level, Planted};
use crate::entry::{Kind, Life, Origin};
use crate::eviction::Eviction;
use crate::group::Group;
use crate::node::Node;
use crate::peer::Forwarded;
use crate::registry::Change;
use crate::subscriptions;
use crate::words::{self, Terms, Words};

/// How often the operator is told of the nonsense of one member.
const TOLD_EVERY: Duration = Duration::from_secs(60);
/// How far a write's number may be beyond the first one that its node still waits for: answers are kept for as many. A node has fewer writes on their way.
const WAITED_FOR_MAX: u64 = 4 * OUTSTANDING_REQUESTS_MAX as u64;

/// The name of a command that there is not.
const REFUSED_COMMAND: &[u8] = b"refused-by-the-leader";

/// Counts messages of members that make no sense. The operator hears of each member once a minute.
#[derive(Debug, Default)]
pub(crate) struct Nonsense(BTreeMap<NodeId, Told>);

#[derive(Debug)]
struct Told {
    at: Time,
    /// So many were not told since.
    untold: u64,
}

impl Nonsense {
    /// Counts one more. If the operator is to be told now: how many he was not told of before.
    fn note(&mut self, of: NodeId, now: Time) -> Option<u64> {
        match self.0.get_mut(&of) {
            Some(told) if now.since(told.at) < TOLD_EVERY => {
                told.untold += 1;
                None
            }
            _ => Some(self.0.insert(of, Told { at: now, untold: 0 }).map_or(0, |told| told.untold)),
        }
    }
}

/// Tells the operator that a member has sent what makes no sense.
pub(crate) fn note_nonsense(node: &mut Node, from: NodeId, what: &str) {
    let Some(before) = node.nonsense.note(from, node.now.time) else { return };
    let before = if before > 0 { format!(" ({before} others were not told of)") } else { String::new() };
    let name = node.name_of(from);
    node.event(
        Level::Error,
        format!(
            "{name} sends {what}; it is ignored{before}. Look at what runs as {name}: it is damaged, or it is not {name}"
        ),
    );
}

/// The leader's side: the partition that the writes are for, and the versions that go for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// It is the council.
    pub is_council: bool,
    /// Entries are of this version.
    pub version: u16,
    /// The newest version that this node speaks.
    pub newest: u16,
    /// The budget of an entry of its bucket.
    pub work_max: u64,
}

/// Why a forwarded write is not proposed as it came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refused {
    /// Its node may know more than this one does yet: it sends it again.
    NotNow,
    /// It has lost its meaning on the way, as its node has lost the leadership.
    Stale,
    /// No node of this program sends it.
    Nonsense(&'static str),
}
use Refused::{NotNow, Stale};

fn nonsense(what: &'static str) -> Refused {
    Refused::Nonsense(what)
}

/// The entry that the leader proposes in place of a refused write. No version has such a command, so each replica answers that it is unknown, and changes nothing. The
/// leader can take the writes that the same node has numbered behind it.
pub(crate) fn in_place_of_refused() -> (Kind, Bytes) {
    (Kind::Command, Bytes::copy_from_slice(Arguments::from_words([REFUSED_COMMAND]).encoding()))
}

/// Proposes writes of another node, if this one leads. Those that are not taken now are sent again by their owner, whose writes with numbers below `floor` wait for nothing.
pub(crate) fn on_forward(node: &mut Node, g: usize, (from, life, floor): (NodeId, Life, u64), writes: Vec<Forwarded>) {
    let Group { partition, taken, taken_under, .. } = &mut node.groups[g];
    let Some(ballot) = partition.replica.leads() else { return };
    if *taken_under != Some(ballot) {
        *taken_under = Some(ballot);
        taken.clear();
    }
    let applied = partition.origins.last(from, life);
    let by = match taken.iter().position(|(it, _, _)| *it == from) {
        Some(by) => by,
        None => {
            taken.push((from, life, applied));
            taken.len() - 1
        }
    };
    let taken = &mut taken[by];
    if taken.1 < life {
        *taken = (from, life, applied);
    }
    if taken.1 != life || node.disk.is_full() || !node.clock.is_set() {
        return;
    }
    node.clock.on_stamped();
    let place = Place::of(node, g);
    for write in writes {
        let last = node.groups[g].taken[by].2;
        if write.sequence <= last {
            continue;
        }
        if write.sequence > last.max(floor.saturating_sub(1)).saturating_add(1) {
            return node.probe("node: forwarded writes out of order");
        }
        let planted = node.config.planted == Some(Planted::ForwardsUnread);
        let (kind, body) = match if planted { Ok(None) } else { read(place, floor, &write) } {
            Ok(body) => (write.kind, body.unwrap_or(write.body)),
            Err(Refused::NotNow) => return node.probe("node: a forwarded write is to come again"),
            Err(Refused::Stale) => in_place_of_refused(),
            Err(Refused::Nonsense(what)) => {
                node.probe("node: a forwarded write refused");
                note_nonsense(node, from, what);
                in_place_of_refused()
            }
        };
        if !propose(node, g, kind, Origin { node: from, life, sequence: write.sequence, floor }, &body) {
            return;
        }
        node.groups[g].taken[by].2 = write.sequence;
    }
}

fn propose(node: &mut Node, g: usize, kind: Kind, origin: Origin, body: &[u8]) -> bool {
    let proposed = node.groups[g].partition.proposed_bytes;
    if proposed > 0 && proposed + body.len() > PAYLOAD_BYTES_TARGET {
        node.flush_proposed(g);
    }
    let (time, clock) = (node.now.time, node.now.wall);
    let seed = node.rng.next_u64();
    let partition = &mut node.groups[g].partition;
    partition.propose(time, clock, seed, kind, (node.entries_in, origin), body)
}

impl Place {
    fn of(node: &Node, g: usize) -> Place {
        let id = node.groups[g].id();
        let bucket = node.buckets.of(id.bucket);
        Place {
            is_council: id == COUNCIL,
            version: node.entries_in,
            newest: node.config.newest,
            work_max: bucket.map_or(WORK_DEFAULT, |bucket| bucket.settings.work_max()),
        }
    }
}

/// Reads a forwarded write before it is proposed. Answers another body for it, if it is not to be proposed with its own.
///
/// # Errors
/// Replicas could not apply it, or would come to harm.
pub(crate) fn read(place: Place, floor: u64, write: &Forwarded) -> Result<Option<Bytes>, Refused> {
    let kind = write.kind;
    if write.sequence.saturating_sub(floor) > WAITED_FOR_MAX {
        return Err(NotNow);
    }
    let longest = if place.is_council { COUNCIL_ORDER_BYTES_MAX } else { BODY_BYTES_MAX };
    if write.body.len() > longest {
        return Err(nonsense("a write that is too large"));
    }
    match kind {
        // Wherever there is a log, time goes back in it and states are compared. An expiry has a time in it, the others nothing.
        Kind::Time | Kind::Compare | Kind::Expire if write.body.len() <= 8 => Ok(None),
        Kind::Time | Kind::Compare | Kind::Expire => Err(nonsense("an entry that has more in it than there is to say")),
        Kind::Record if !Feature::Recording.is_in(place.version) => Err(NotNow),
        Kind::Record if !place.is_council && subscriptions::lease_of(&write.body).is_some() => Ok(None),
        Kind::Record => Err(nonsense("an entry to record changes that makes no sense")),
        // Nor is such a message read.
        Kind::Void => Err(nonsense("an entry in place of another one")),
        _ if (kind == Kind::Council) != place.is_council => Err(nonsense("a write that belongs to another log")),
        Kind::Council => check_order(place, &write.body).map(|()| None),
        Kind::Evict => check_eviction(&write.body).map(|()| None),
        Kind::Command | Kind::Transaction | Kind::Once => {
            let (terms, body) =
                Terms::split(kind, &write.body).map_err(|_| nonsense("a write whose terms cannot be read"))?;
            words::permit_of_write(kind, body).map_err(|_| nonsense("a write whose rights cannot be read"))?;
            check_commands(place, kind, body)?;
            // A budget that was lowered just now is no lie: the write gets that of today.
            Ok(terms.lowered(place.work_max, &write.body))
        }
    }
}

fn check_order(place: Place, body: &[u8]) -> Result<(), Refused> {
    let order = Order::decode(body).map_err(|_| nonsense("an order to the council that cannot be read"))?;
    match order {
        // Its leader orders that itself, once it has heard of all nodes that they speak it.
        Order::Nodes(Change::Version { .. }) => Err(Stale),
        // `dictum unsafe-recover` writes it into the log of a node that is stopped.
        Order::Alone { .. } => Err(nonsense("an order to go on alone")),
        _ if order.version() > place.newest => Err(nonsense("an order to the council of a version that nobody speaks")),
        _ if order.version() > place.version => Err(NotNow),
        _ => Ok(()),
    }
}

fn check_eviction(body: &[u8]) -> Result<(), Refused> {
    let eviction = Eviction::decode(body).map_err(|_| nonsense("a list of keys to evict that cannot be read"))?;
    let fits = eviction.victims.iter().all(|(key, _)| key.len() <= KEY_BYTES_MAX);
    if fits { Ok(()) } else { Err(nonsense("a key to evict that is too long")) }
}

fn check_commands(place: Place, kind: Kind, body: &[u8]) -> Result<(), Refused> {
    match kind {
        Kind::Once => {
            let (id, words) = words::decode_once(body).map_err(|_| nonsense("a command that cannot be read"))?;
            if !(1..=ONCE_ID_BYTES_MAX).contains(&id.len()) {
                return Err(nonsense("an identifier that is empty or too long"));
            }
            check_words(place, &words)
        }
        Kind::Transaction => {
            let (watches, commands) =
                words::decode_transaction(body).map_err(|_| nonsense("a transaction that cannot be read"))?;
            if watches.iter().any(|(key, _)| key.len() > KEY_BYTES_MAX) {
                return Err(nonsense("a watched key that is too long"));
            }
            commands.iter().try_for_each(|words| check_words(place, words))
        }
        _ => {
            let words = Words::decode(body).map_err(|_| nonsense("a command that cannot be read"))?;
            check_words(place, &words)
        }
    }
}

fn check_words(place: Place, words: &Words<'_>) -> Result<(), Refused> {
    let words = words.as_slice();
    if words.len() > ARGUMENTS_PLAIN_MAX && !Feature::ManyWords.is_in(place.version) {
        return Err(NotNow);
    }
    // Replicas answer that a command is unknown, or makes no sense, when they apply it.
    let Some(entry) = words.first().and_then(|name| data::lookup(name)) else { return Ok(()) };
    data::check_keys(entry.spec, words).map_err(|_| nonsense("a key that is too long"))
}

#[cfg(test)]
mod tests;
