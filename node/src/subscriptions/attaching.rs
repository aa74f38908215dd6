//! `DICTUM.SUBSCRIBE NAME name [FROM token|NOW] [words]`: a client attaches to a named subscription.
//!
//! ```text
//! one slot:  DICTUM.ATTACH at the partition of the name
//!               │ epoch, acknowledged place, words
//!               ▼
//!            an entry in each partition that has its changes recorded, and says what "now" is: behind all that was acknowledged
//!               │
//!               ▼
//!            where it begins is acknowledged, unless that is the acknowledged place: before the client is answered or told anything
//! ```
//! So a client that attaches later goes on behind what was acknowledged, and behind the very beginning if nothing was.

use base::limits::NAMED_BY_BYTES_MAX;
use base::slots::hash_slot;
use base::{PartitionId, Revision};
use bytes::Bytes;
use data::named::{parse_place, record_key};
use data::spec::Flags;
use data::{Blob, Failure, Reply};
use wire::Arguments;

use super::command::{self, Said};
use super::names::{Attaching, Beginning, Name, Recording, Start};
use super::opening::Asked;
use super::token::{Token, history};
use super::{SubscriptionId, feeding, glue};
use crate::access;
use crate::bucket::Bucket;
use crate::door::{ConnectionId, Planted};
use crate::entry::Kind;
use crate::node::{Node, place_of};
use crate::routing::Combine;
use crate::session::{Block, Session};

const STRANGE: Failure = Failure::Text("ERR the record of this name has words that are no subscription");

/// How the answer to a slot goes on.
pub(crate) enum Answered {
    /// It goes to the client as it is.
    AsItIs,
    /// This one goes to the client.
    Instead(Reply),
    /// Another one will.
    Later,
}

/// Carries the command out; `words` begin with the name.
pub(super) fn attach(node: &mut Node, session: &mut Session, words: &[&[u8]]) {
    if let Err(failure) = begin(node, session, words) {
        node.refuse(session, &failure);
    }
}

fn begin(node: &mut Node, session: &mut Session, words: &[&[u8]]) -> Result<(), Failure> {
    let (name, rest) = words.split_first().ok_or(Failure::Syntax)?;
    let key = record_key(name)?;
    let (first, rest) = match rest {
        [from, place, rest @ ..] if from.eq_ignore_ascii_case(b"from") => {
            let is_now = place.eq_ignore_ascii_case(b"now");
            (Some(if is_now { Start::Now } else { Start::At(parse_place(place)?) }), rest)
        }
        rest => (None, rest),
    };
    let bucket = bucket_of(node, session)?;
    let partition = bucket.partition_of(hash_slot(&key));
    let partitions: Vec<PartitionId> = bucket.partitions().collect();
    // All that can be known before another client is put out is looked at before.
    if !rest.is_empty() {
        let said = command::parse(rest)?;
        judge(node, session, &said)?;
        command::check_limits(node, session, &said.filter, partitions.len())?;
    }
    let by = format!("{} {}", node.config.own().map_or("", |own| own.name.as_str()), session.address);
    let by = [by.as_bytes(), b" ", &session.name].concat();
    let order: Vec<&[u8]> = [b"dictum.attach", *name, by.get(..NAMED_BY_BYTES_MAX).unwrap_or(&by)]
        .into_iter()
        .chain(rest.iter().copied())
        .collect();
    if session.is_limited {
        access::check(node, session, &order)?;
    }
    let entry = data::lookup(b"dictum.attach").ok_or(Failure::Syntax)?;
    data::check_words(entry, &order)?;
    let mut groups = Vec::new();
    for partition in std::iter::once(partition).chain(partitions) {
        let Some(g) = place_of(&node.groups, partition) else {
            node.refuse_without_group(session);
            return Ok(());
        };
        if node.groups[g].elsewhere.is_some() && !feeding::may_begin(node, None) {
            return Err(node.who_has(g));
        }
        if let Some(failure) = node.refusal(g, groups.is_empty()) {
            return Err(failure);
        }
        groups.push(g);
    }
    let on_all = node.is_for_all(session, groups[0])?;
    let arguments = Arguments::from_words(order.iter().copied());
    let slot = session.open_slot(arguments.as_ref().encoded_bytes());
    session.subscribed_to_changes += 1;
    session.block = Some(Block::Slot(slot));
    let attaching = Attaching { name: Blob::new(name), partition, key: Blob::new(&key), first };
    node.subscriptions.names.attaching.insert((session.id, slot), attaching);
    write(node, session, groups[0], (arguments, on_all), slot);
    Ok(())
}

fn write(node: &mut Node, session: &mut Session, g: usize, (words, on_all): (Arguments, bool), slot: u64) {
    let mut body = Vec::new();
    let flags = words.as_ref().iter().next().and_then(data::lookup).map_or(Flags::WRITE, |entry| entry.spec.flags);
    node.terms(node.groups[g].id()).encode(flags, &mut body);
    words.as_ref().encode_into(&mut body);
    node.write_in_slot(session, g, Kind::Command, Bytes::from(body), slot, on_all);
}

/// # Errors
/// The user of the connection may not be told this.
fn judge(node: &mut Node, session: &Session, said: &Said) -> Result<(), Failure> {
    if session.is_limited { access::check_filter(node, session, &said.filter) } else { Ok(()) }
}

fn bucket_of<'a>(node: &'a Node, session: &Session) -> Result<&'a Bucket, Failure> {
    let found = node.buckets.of(session.bucket);
    found.ok_or_else(|| node.name_of_bucket(session).err().unwrap_or(Failure::Syntax))
}

/// The slot of an attachment has an answer.
pub(super) fn answered(node: &mut Node, connection: ConnectionId, slot: u64, answer: &Reply) -> Answered {
    let waiting = (connection, slot);
    let names = &mut node.subscriptions.names;
    let stage = match () {
        () if names.attaching.contains_key(&waiting) => names.attaching.remove(&waiting).map(Stage::Attaches),
        () if names.recording.contains_key(&waiting) => names.recording.remove(&waiting).map(Stage::Records),
        () => names.beginning.remove(&waiting).map(Stage::Begins),
    };
    let Some(stage) = stage else { return Answered::AsItIs };
    if matches!(answer, Reply::Error(_)) {
        // The name may have another epoch, and this client is told nothing.
        node.subscriptions.give_up(connection, slot);
        one_less(node, connection);
        return Answered::AsItIs;
    }
    if let Stage::Begins(Beginning { attached, revisions }) = stage {
        return Answered::Instead(open(node, waiting, attached, &revisions));
    }
    let Some(mut session) = node.sessions.get_mut(&connection).and_then(Option::take) else { return Answered::AsItIs };
    let outcome = match (stage, answer) {
        (Stage::Attaches(attaching), answer) => go_on(node, &mut session, slot, attaching, answer),
        (Stage::Records(recording), Reply::Array(answers)) => recorded(node, &mut session, slot, recording, answers),
        _ => Err(STRANGE),
    };
    node.sessions.insert(connection, Some(session));
    outcome.unwrap_or_else(|failure| {
        one_less(node, connection);
        Answered::Instead(Reply::Error(failure))
    })
}

enum Stage {
    Attaches(Attaching),
    Records(Recording),
    Begins(Beginning),
}

fn one_less(node: &mut Node, connection: ConnectionId) {
    if let Some(Some(session)) = node.sessions.get_mut(&connection) {
        session.subscribed_to_changes = session.subscribed_to_changes.saturating_sub(1);
    }
}

/// The answer of `DICTUM.ATTACH`.
struct Attached {
    epoch: u64,
    token: Option<Token>,
    words: Vec<Blob>,
    is_new: bool,
}

fn attached(reply: &Reply) -> Option<Attached> {
    let Reply::Array(parts) = reply else { return None };
    let [Reply::Integer(epoch), token, Reply::Array(words), Reply::Integer(is_new)] = &parts[..] else { return None };
    let token = match token {
        Reply::Bulk(text) => Some(Token::parse(text).ok()?),
        _ => None,
    };
    let word = |reply: &Reply| if let Reply::Bulk(word) = reply { Some(word.clone()) } else { None };
    let words = words.iter().map(word).collect::<Option<_>>()?;
    Some(Attached { epoch: u64::try_from(*epoch).ok()?, token, words, is_new: *is_new == 1 })
}

/// The client is attached. Now its changes have to be recorded.
fn go_on(
    node: &mut Node,
    session: &mut Session,
    slot: u64,
    attaching: Attaching,
    reply: &Reply,
) -> Result<Answered, Failure> {
    let Attached { epoch, token, words, is_new } = attached(reply).ok_or(STRANGE)?;
    let words: Vec<&[u8]> = words.iter().map(Blob::as_slice).collect();
    let said = command::parse(&words)?;
    // The words may be another user's.
    judge(node, session, &said)?;
    let bucket = bucket_of(node, session)?;
    let (born, partitions) = (bucket.born, bucket.settings.partitions);
    let history = history(node.registry.cluster, bucket.id);
    let all: Vec<PartitionId> = bucket.partitions().collect();
    let own = Token { bucket: born, history, revisions: vec![None; usize::from(partitions)] };
    // What is there is told once. Behind a place there are only changes.
    let with_state = said.with_state && token.is_none() && attaching.first.is_none();
    let is_noted = !with_state && (token.is_none() || attaching.first.is_some());
    let from = match attaching.first {
        None => token,
        Some(Start::Now) => None,
        Some(Start::At(token)) => Some(token),
    };
    let is_of_another = from.as_ref().is_some_and(|token| !token.is_comparable(&own));
    let place = |partition: &PartitionId| {
        let said = from.as_ref().filter(|_| !is_of_another && !with_state);
        let said = said.and_then(|token| token.revisions[usize::from(partition.index)]);
        // "Now" is the attachment itself there: a node without a copy is told the changes from there on, and so of another attachment.
        let own = (*partition == attaching.partition && !with_state && from.is_none()).then_some(Revision(epoch));
        (*partition, said.or(own))
    };
    let places: Vec<(PartitionId, Option<Revision>)> = all.iter().map(place).collect();
    command::check_limits(node, session, &said.filter, places.len())?;
    let Said { filter, with_values, restates, .. } = said;
    let asked = Asked {
        bucket: born,
        history,
        partitions,
        filter,
        with_values,
        with_state,
        restates,
        from: places,
        is_of_another,
    };
    let Attaching { name, partition, key, .. } = attaching;
    let attached = Name { name, partition, key, epoch, is_new };
    node.probe("subscriptions: a client has attached to a name");
    let (mut groups, mut revisions) = (Vec::new(), Vec::new());
    for (partition, from) in &asked.from {
        let g = place_of(&node.groups, *partition).ok_or(STRANGE)?;
        let known = node.groups[g].partition.tree.revision();
        let is_ready = node.groups[g].elsewhere.is_none()
            && from.is_some_and(|from| from <= known)
            && glue::is_recorded_for_long(node, g);
        revisions.push(is_ready.then_some(known));
        groups.extend((!is_ready).then_some(g));
    }
    // What cannot be gone on from is noted as it was said: the next one is told the same gap.
    let dead = from.filter(|_| is_of_another);
    let recording = Recording { attached, asked, revisions, is_noted, dead };
    if groups.is_empty() {
        return recorded(node, session, slot, recording, &[]);
    }
    session.expect_parts(slot, groups.len(), Combine::All);
    node.subscriptions.names.recording.insert((session.id, slot), recording);
    for (place, g) in groups.into_iter().enumerate() {
        node.write_in_slot(session, g, Kind::Record, glue::lease(), Session::part_of(slot, place), false);
    }
    Ok(Answered::Later)
}

/// The changes of all partitions are recorded; what these had come to is behind all that was acknowledged before. What is subscribed to begins, unless that has to be noted first.
fn recorded(
    node: &mut Node,
    session: &mut Session,
    slot: u64,
    recording: Recording,
    answers: &[Reply],
) -> Result<Answered, Failure> {
    let Recording { attached, mut asked, mut revisions, is_noted, dead } = recording;
    let now = |reply: &Reply| match reply {
        Reply::Integer(revision) => Some(Revision(u64::try_from(*revision).unwrap_or_default())),
        _ => None,
    };
    let mut answers = answers.iter().map(now);
    for revision in revisions.iter_mut().filter(|revision| revision.is_none()) {
        *revision = answers.next().flatten();
    }
    for ((partition, from), now) in asked.from.iter_mut().zip(&revisions).filter(|_| !asked.with_state) {
        *from = from.or(*now);
        // What changes meanwhile is kept from here on.
        if let Some(g) = place_of(&node.groups, *partition).filter(|g| node.groups[*g].elsewhere.is_none()) {
            glue::begin(node, g);
        }
    }
    let begins = dead.unwrap_or_else(|| {
        let mut revisions = vec![None; usize::from(asked.partitions)];
        for (partition, revision) in &asked.from {
            revisions[usize::from(partition.index)] = *revision;
        }
        Token { bucket: asked.bucket, history: asked.history, revisions }
    });
    let waiting = (session.id, slot);
    let g = place_of(&node.groups, attached.partition).ok_or(STRANGE)?;
    let on_all = node.is_for_all(session, g)?;
    node.subscriptions.wait(waiting, asked);
    if !is_noted || node.config.planted == Some(Planted::BeginningUnnoted) {
        return Ok(Answered::Instead(open(node, waiting, attached, &revisions)));
    }
    // The client that attaches next goes on there, if nothing is acknowledged before. The client must not have the answer sooner, nor any change.
    let (epoch, place) = (attached.epoch.to_string(), begins.to_string());
    let order = Arguments::from_words([&b"dictum.ack"[..], &attached.name, epoch.as_bytes(), place.as_bytes()]);
    node.subscriptions.names.beginning.insert(waiting, Beginning { attached, revisions });
    write(node, session, g, (order, on_all), slot);
    Ok(Answered::Later)
}

/// Begins the subscription: the answer to its client.
fn open(node: &mut Node, waiting: (ConnectionId, u64), attached: Name, revisions: &[Option<Revision>]) -> Reply {
    let Reply::Array(mut begun) = glue::open(node, waiting, revisions) else { return Reply::Error(STRANGE) };
    let epoch = Reply::Integer(i64::try_from(attached.epoch).unwrap_or(i64::MAX));
    let is_new = Reply::Integer(i64::from(attached.is_new));
    if let Some(Reply::Integer(id)) = begun.first() {
        let id = SubscriptionId(u64::try_from(*id).unwrap_or_default());
        node.subscriptions.attached(id, attached);
    }
    begun.extend([epoch, is_new]);
    Reply::Array(begun)
}
