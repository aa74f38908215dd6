//! The messages of subscriptions, as clients get them. In RESP3 they are pushes, in RESP2 the same as arrays.
//!
//! ```text
//! dictum.change   sid [partition revision stamp] [kind event key value deadline flags]
//! dictum.state    sid [partition revision] [type key value deadline flags]   a key that is there
//! dictum.live     sid token                        everything up to here was told
//! dictum.progress sid token                        the same, where nothing was to be told
//! dictum.moved-away sid name                       another client has attached to the name
//! dictum.gap      sid [partition from to] reason what-now
//! ```

use base::{PartitionId, Revision, WallTime};
use data::{After, Blob, Record};
use wire::{Protocol, ReplyWriter};

use super::SubscriptionId;
use super::filter::name_of;
use super::ring::Recorded;
use super::token::Token;

/// Why changes cannot be told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reason {
    /// This node does not have them any more, or has never had them.
    Retention,
    /// The subscriber was too slow for what this node keeps.
    TooSlow,
    /// The token is of another history of the bucket.
    BegunAnew,
    /// This node has no copy of the partition any more: another one goes on.
    Moved,
    /// The bucket was dropped.
    BucketDropped,
    /// It would cost too much to find out whether a key fits one of its patterns.
    PatternTooCostly,
}

impl Reason {
    /// What is there now makes good for what cannot be told.
    pub(crate) fn can_be_restated(self) -> bool {
        matches!(self, Reason::Retention | Reason::TooSlow | Reason::BegunAnew)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Reason::Retention => "retention",
            Reason::TooSlow => "too-slow",
            Reason::BegunAnew => "begun-anew",
            Reason::Moved => "moved",
            Reason::BucketDropped => "bucket-dropped",
            Reason::PatternTooCostly => "pattern-too-costly",
        }
    }
}

/// The beginning of a change's message, which is the subscriber's own.
pub(crate) fn change_head(protocol: Protocol, id: SubscriptionId, out: &mut Vec<u8>) {
    let mut writer = ReplyWriter::new(out, protocol);
    writer.push(4);
    writer.bulk(b"dictum.change");
    writer.integer(number(id.0));
}

/// What stands behind it, the same for all subscribers of a protocol who want values, or none.
#[derive(Debug, Default)]
pub(crate) struct Bodies([Option<Vec<u8>>; 4]);

impl Bodies {
    /// Another change is told.
    pub(crate) fn clear(&mut self) {
        self.0 = Default::default();
    }

    pub(crate) fn get(
        &mut self,
        partition: PartitionId,
        recorded: &Recorded,
        (protocol, with_values): (Protocol, bool),
    ) -> &[u8] {
        let place = usize::from(protocol == Protocol::Resp3) + 2 * usize::from(with_values);
        self.0[place].get_or_insert_with(|| body(partition, recorded, protocol, with_values))
    }
}

fn body(partition: PartitionId, recorded: &Recorded, protocol: Protocol, with_values: bool) -> Vec<u8> {
    let Recorded { stamp, record } = recorded;
    let mut bytes = Vec::with_capacity(128 + record.key.len());
    let mut writer = ReplyWriter::new(&mut bytes, protocol);
    writer.array(3);
    writer.integer(i64::from(partition.index));
    writer.integer(number(record.revision.0));
    writer.integer(number(*stamp));
    writer.array(6);
    writer.bulk(name_of(record.kind).as_bytes());
    writer.bulk(&record.event);
    writer.bulk(&record.key);
    left(&mut writer, (&record.after, with_values), record.deadline, record.is_new);
    bytes
}

/// Value, deadline, and flags.
fn left(writer: &mut ReplyWriter<'_>, (after, with_values): (&After, bool), deadline: Option<WallTime>, is_new: bool) {
    match after {
        After::String(bytes) | After::Json(bytes) if with_values => writer.bulk(bytes),
        After::Effect(words) if with_values => {
            writer.array(words.len());
            words.iter().for_each(|word| writer.bulk(word));
        }
        _ => writer.null(),
    }
    match deadline {
        Some(deadline) => writer.integer(number(deadline.0)),
        None => writer.null(),
    }
    let what = match after {
        After::Gone => None,
        _ if !with_values => Some("omitted"),
        After::Omitted => Some("omitted"),
        After::Effect(_) => Some("effect"),
        After::Json(_) => Some("json"),
        After::String(_) => None,
    };
    let flags: Vec<&str> = is_new.then_some("new").into_iter().chain(what).collect();
    writer.array(flags.len());
    flags.iter().for_each(|flag| writer.bulk(flag.as_bytes()));
}

/// A stored key, as subscribers are told it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Stored {
    pub key: Blob,
    /// That of its last change.
    pub revision: Revision,
    pub type_name: Blob,
    pub deadline: Option<WallTime>,
    /// None where values are not wanted.
    pub after: Option<After>,
}

impl Stored {
    pub(crate) fn new(key: &[u8], record: &Record, after: Option<After>) -> Stored {
        Stored {
            key: Blob::new(key),
            revision: record.revision,
            type_name: Blob::new(record.value.type_name().as_bytes()),
            deadline: record.deadline(),
            after,
        }
    }

    /// About so many bytes it takes.
    pub(crate) fn bytes(&self) -> usize {
        let after = match &self.after {
            None | Some(After::Gone | After::Omitted) => 0,
            Some(After::String(bytes) | After::Json(bytes)) => bytes.len(),
            Some(After::Effect(words)) => words.iter().map(|word| word.len() + 4).sum(),
        };
        64 + self.key.len() + after
    }
}

/// `dictum.state`: a key that is there.
pub(crate) fn state(protocol: Protocol, id: SubscriptionId, partition: PartitionId, stored: &Stored) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(128 + stored.key.len());
    let mut writer = ReplyWriter::new(&mut bytes, protocol);
    writer.push(4);
    writer.bulk(b"dictum.state");
    writer.integer(number(id.0));
    state_body(&mut writer, partition, stored);
    bytes
}

/// The part of the message behind the subscription's number.
pub(crate) fn state_body(writer: &mut ReplyWriter<'_>, partition: PartitionId, stored: &Stored) {
    let Stored { key, revision, type_name, deadline, after } = stored;
    writer.array(2);
    writer.integer(i64::from(partition.index));
    writer.integer(number(revision.0));
    writer.array(5);
    writer.bulk(type_name);
    writer.bulk(key);
    left(writer, (after.as_ref().unwrap_or(&After::Omitted), after.is_some()), *deadline, false);
}

/// `dictum.live`, or `dictum.progress`.
pub(crate) fn place(protocol: Protocol, word: &str, id: SubscriptionId, token: &Token) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = ReplyWriter::new(&mut bytes, protocol);
    writer.push(3);
    writer.bulk(word.as_bytes());
    writer.integer(number(id.0));
    writer.bulk(token.to_string().as_bytes());
    bytes
}

/// `dictum.moved-away`: another client has attached to the name, or it has other words now, or is gone.
pub(crate) fn moved_away(protocol: Protocol, id: SubscriptionId, name: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = ReplyWriter::new(&mut bytes, protocol);
    writer.push(3);
    writer.bulk(b"dictum.moved-away");
    writer.integer(number(id.0));
    writer.bulk(name);
    bytes
}

/// `dictum.gap`: the changes of a partition from behind one revision up to the other are not told.
pub(crate) fn gap(
    protocol: Protocol,
    id: SubscriptionId,
    partition: PartitionId,
    (from, to): (Revision, Revision),
    (reason, what_now): (Reason, &str),
) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = ReplyWriter::new(&mut bytes, protocol);
    writer.push(5);
    writer.bulk(b"dictum.gap");
    writer.integer(number(id.0));
    writer.array(3);
    writer.integer(i64::from(partition.index));
    writer.integer(number(from.0));
    writer.integer(number(to.0));
    writer.bulk(reason.name().as_bytes());
    writer.bulk(what_now.as_bytes());
    bytes
}

pub(crate) fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
