//! What nodes say to each other where one of them has no state of a partition to answer from ([`crate::elsewhere`]), as bytes.

use base::{Position, Revision};
use bytes::Bytes;
use data::apply::Published;
use data::{Blob, Change, ChangeKind, Class, Reply};
use wire::{Malformed, Reader, Writer};

use crate::notifications::{class_of_letter, letter_of};
use crate::router::ReadKind;

/// A read on its way to a node that has the state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CarriedRead {
    /// What it asks for: a command, a transaction, the outcome of a `DICTUM.ONCE`, or revisions.
    pub kind: ReadKind,
    /// Not linearizable: any state that has come to this revision would do. (Whoever answers confirms it all the same.)
    pub floor: Option<Revision>,
    /// Its keys count as used.
    pub touches: bool,
    /// Its client waits if it finds nothing: then its words come back as they wait.
    pub waits: bool,
    /// As in the lane of its connection.
    pub body: Bytes,
}

/// The answer to it.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct CarriedAnswer {
    pub reply: Reply,
    /// Of WATCH: the revision of each key.
    pub revisions: Vec<Revision>,
    /// The words with which its client waits, if the read has found nothing.
    pub settled: Option<Bytes>,
}

/// What became of a forwarded write.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Outcome {
    pub sequence: u64,
    /// Where it was applied.
    pub position: Position,
    /// The revision of the state then, or a later one.
    pub revision: Revision,
    /// It has changed something, or nobody knows.
    pub changes: bool,
    pub reply: Reply,
    /// What its script has published.
    pub published: Vec<Published>,
}

/// What one entry has changed, for a node that cannot see it in a state of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FedEntry {
    /// Where it stands.
    pub position: Position,
    pub changes: Vec<Change>,
    /// What the changes are called: the kind, the name, the key.
    pub events: Vec<(Class, String, Blob)>,
    /// The number of the receiver's own write that it was; 0: it was none.
    pub own: u64,
}

impl FedEntry {
    /// About so many bytes it takes.
    pub(crate) fn weight(&self) -> usize {
        let changes: usize = self.changes.iter().map(|change| 24 + change.key.len()).sum();
        let events: usize = self.events.iter().map(|(_, name, key)| 16 + name.len() + key.len()).sum();
        16 + changes + events
    }
}

fn write_reply(w: &mut Writer<'_>, reply: &Reply) {
    let mut bytes = Vec::new();
    reply.encode(&mut bytes);
    w.bytes(&bytes);
}

fn read_reply(r: &mut Reader<'_>) -> Result<Reply, Malformed> {
    Reply::decode(r.slice()?).map_err(|_| Malformed)
}

fn kind_number(kind: ReadKind) -> u8 {
    match kind {
        ReadKind::Command => 1,
        ReadKind::Transaction => 2,
        ReadKind::Outcome => 3,
        ReadKind::Revisions => 4,
        // They are never carried: every node has the council's state, and looks and backups are not made where there is none.
        ReadKind::Look | ReadKind::Buckets | ReadKind::Nodes | ReadKind::Select | ReadKind::Backup => 0,
    }
}

impl CarriedRead {
    pub(super) fn encode_all(reads: &[CarriedRead], w: &mut Writer<'_>) {
        w.count(reads.len());
        for read in reads {
            w.u8(kind_number(read.kind));
            w.option(read.floor, |w, floor| w.revision(floor));
            w.bool(read.touches);
            w.bool(read.waits);
            w.bytes(&read.body);
        }
    }

    pub(super) fn decode_all(r: &mut Reader<'_>) -> Result<Vec<CarriedRead>, Malformed> {
        let one = |r: &mut Reader<'_>| {
            let kind = match r.u8()? {
                1 => ReadKind::Command,
                2 => ReadKind::Transaction,
                3 => ReadKind::Outcome,
                4 => ReadKind::Revisions,
                _ => return Err(Malformed),
            };
            let floor = r.option(Reader::revision)?;
            Ok(CarriedRead { kind, floor, touches: r.bool()?, waits: r.bool()?, body: r.bytes()? })
        };
        (0..r.count(5)?).map(|_| one(r)).collect()
    }
}

impl CarriedAnswer {
    pub(super) fn encode_all(answers: &[CarriedAnswer], w: &mut Writer<'_>) {
        w.count(answers.len());
        for answer in answers {
            write_reply(w, &answer.reply);
            w.count(answer.revisions.len());
            answer.revisions.iter().for_each(|revision| w.revision(*revision));
            w.option(answer.settled.as_ref(), |w, words| w.bytes(words));
        }
    }

    pub(super) fn decode_all(r: &mut Reader<'_>) -> Result<Vec<CarriedAnswer>, Malformed> {
        let one = |r: &mut Reader<'_>| {
            let reply = read_reply(r)?;
            let revisions = (0..r.count(1)?).map(|_| r.revision()).collect::<Result<_, _>>()?;
            Ok(CarriedAnswer { reply, revisions, settled: r.option(Reader::bytes)? })
        };
        (0..r.count(3)?).map(|_| one(r)).collect()
    }
}

impl Outcome {
    pub(super) fn encode_all(outcomes: &[Outcome], w: &mut Writer<'_>) {
        w.count(outcomes.len());
        for outcome in outcomes {
            w.u64(outcome.sequence);
            w.position(outcome.position);
            w.revision(outcome.revision);
            w.bool(outcome.changes);
            write_reply(w, &outcome.reply);
            w.count(outcome.published.len());
            for published in &outcome.published {
                w.bool(published.sharded);
                w.bytes(&published.channel);
                w.bytes(&published.message);
            }
        }
    }

    pub(super) fn decode_all(r: &mut Reader<'_>) -> Result<Vec<Outcome>, Malformed> {
        let one = |r: &mut Reader<'_>| {
            let (sequence, position, revision, changes) = (r.u64()?, r.position()?, r.revision()?, r.bool()?);
            let reply = read_reply(r)?;
            let mut published = Vec::new();
            for _ in 0..r.count(3)? {
                let sharded = r.bool()?;
                let (channel, message) = (Blob::new(r.slice()?), Blob::new(r.slice()?));
                published.push(Published { sharded, channel, message });
            }
            Ok(Outcome { sequence, position, revision, changes, reply, published })
        };
        (0..r.count(13)?).map(|_| one(r)).collect()
    }
}

pub(super) const CHANGE_KINDS: [ChangeKind; 6] = [
    ChangeKind::Set,
    ChangeKind::Deadline,
    ChangeKind::Deleted,
    ChangeKind::Expired,
    ChangeKind::Evicted,
    ChangeKind::Flushed,
];

impl FedEntry {
    pub(super) fn encode_all(entries: &[FedEntry], w: &mut Writer<'_>) {
        w.count(entries.len());
        for entry in entries {
            w.position(entry.position);
            w.u64(entry.own);
            w.count(entry.changes.len());
            for change in &entry.changes {
                w.u8(CHANGE_KINDS.iter().position(|kind| *kind == change.kind).unwrap_or_default() as u8);
                w.revision(change.revision);
                w.bool(change.is_new);
                w.bytes(&change.key);
            }
            w.count(entry.events.len());
            for (class, name, key) in &entry.events {
                w.u8(letter_of(*class));
                w.bytes(name.as_bytes());
                w.bytes(key);
            }
        }
    }

    pub(super) fn decode_all(r: &mut Reader<'_>) -> Result<Vec<FedEntry>, Malformed> {
        let change = |r: &mut Reader<'_>| {
            let kind = *CHANGE_KINDS.get(usize::from(r.u8()?)).ok_or(Malformed)?;
            let (revision, is_new) = (r.revision()?, r.bool()?);
            Ok(Change { key: Blob::new(r.slice()?), kind, revision, is_new })
        };
        let event = |r: &mut Reader<'_>| {
            let class = class_of_letter(r.u8()?).ok_or(Malformed)?;
            Ok((class, r.text()?.to_owned(), Blob::new(r.slice()?)))
        };
        let one = |r: &mut Reader<'_>| {
            let (position, own) = (r.position()?, r.u64()?);
            let changes = (0..r.count(4)?).map(|_| change(r)).collect::<Result<_, _>>()?;
            let events = (0..r.count(3)?).map(|_| event(r)).collect::<Result<_, _>>()?;
            Ok(FedEntry { position, changes, events, own })
        };
        (0..r.count(11)?).map(|_| one(r)).collect()
    }
}

#[cfg(test)]
mod tests {
    use base::versions::NEWEST;
    use base::{Ballot, BucketId, NodeId, PartitionId};

    use super::*;
    use crate::entry::Life;
    use crate::peer::PeerMessage;

    /// Whatever is said is heard as it was said, and nothing that is cut short is heard at all.
    #[test]
    fn what_is_carried_arrives() {
        let partition = PartitionId { bucket: BucketId(3), index: 7 };
        let (life, ticket) = (Life { incarnation: 9, boot: 4 }, u64::MAX);
        let read = CarriedRead {
            kind: ReadKind::Transaction,
            floor: Some(Revision(5)),
            touches: true,
            waits: false,
            body: Bytes::from_static(b"words"),
        };
        let answer = CarriedAnswer {
            reply: Reply::Array(vec![Reply::Nil, Reply::bulk("x")]),
            revisions: vec![Revision(1), Revision(0)],
            settled: Some(Bytes::from_static(b"settled")),
        };
        let published = Published { sharded: true, channel: Blob::new(b"c"), message: Blob::new(b"m") };
        let outcome = Outcome {
            sequence: 12,
            position: Position(13),
            revision: Revision(14),
            changes: true,
            reply: Reply::Integer(-1),
            published: vec![published],
        };
        let change = Change { key: Blob::new(b"k"), kind: ChangeKind::Expired, revision: Revision(2), is_new: false };
        let entry = FedEntry {
            position: Position(3),
            changes: vec![change],
            events: vec![(Class::Expired, "expired".to_owned(), Blob::new(b"k"))],
            own: 1,
        };
        let carry_for =
            |vouches| PeerMessage::CarryFor { partition, asker: NodeId(6), ticket, vouches, reads: vec![read.clone()] };
        let messages = [
            PeerMessage::Carry { partition, ticket, reads: vec![read.clone(), read.clone()] },
            PeerMessage::CarryThrough { partition, ticket, reads: vec![read.clone()] },
            carry_for(Some(Ballot { round: 3, node: NodeId(1) })),
            carry_for(None),
            PeerMessage::Carried { partition, ticket, revision: Revision(8), answers: vec![answer.clone(), answer] },
            PeerMessage::Outcomes { partition, life, outcomes: vec![outcome] },
            PeerMessage::Outlived { partition, life, by: Life { boot: 5, ..life } },
            PeerMessage::Follow { partition, feed: 3 },
            PeerMessage::Feed { partition, feed: 3, after: Position(1), until: Position(3), entries: vec![entry] },
        ];
        for message in messages {
            let mut bytes = Vec::new();
            message.encode(NEWEST, &mut bytes);
            assert_eq!(PeerMessage::decode(&Bytes::from(bytes.clone()), NEWEST), Ok(message));
            for end in 0..bytes.len() {
                assert!(
                    PeerMessage::decode(&Bytes::copy_from_slice(&bytes[..end]), NEWEST).is_err(),
                    "{end} of {bytes:?}"
                );
            }
        }
    }
}
