//! What an entry of a partition's log holds: the command, its time, its seed of chance, and who asked for it.
//!
//! ```text
//! ┌──────┬──────┬──────┬────────┬─────────────┬──────┬──────────┬───────┬──────────┐
//! │ kind │ time │ seed │ origin │ incarnation │ boot │ sequence │ floor │ body …   │
//! │ u8   │ u64  │ u64  │ u16    │ u64         │ u64  │ u64      │ u64   │          │
//! └──────┴──────┴──────┴────────┴─────────────┴──────┴──────────┴───────┴──────────┘
//! ```
//! Little-endian. From version 7 of the cluster on, an entry says by which version it is applied, and is shorter:
//! ```text
//! ┌─────┬───────────┬──────┬──────┬──────┬────────┬─────────────┬──────┬──────────┬───────┬──────────┐
//! │ 253 │ version n │ kind │ time │ seed │ origin │ incarnation │ boot │ sequence │ floor │ body …   │
//! │ u8  │           │ u8   │ n    │ u64  │ n      │ u64         │ n    │ n        │ n     │          │
//! └─────┴───────────┴──────┴──────┴──────┴────────┴─────────────┴──────┴──────────┴───────┴──────────┘   n: a varint
//! ```
//! Before, it had the version 6. The version is that of the cluster when the entry was proposed: all replicas apply it alike, whatever else they know, and
//! one that does not speak that version applies nothing of it.
//!
//! An empty payload opens a leadership and changes nothing. The bodies are those of [`crate::words`]; that of
//! a write to which terms apply (how long a value may be, how long a key may live, how large the state may be) begins with these.

use base::versions::{Feature, OLDEST};
use base::{NodeId, WallTime};
use bytes::Bytes;
use wire::{Malformed, Reader, Writer};

/// What an entry begins with that says its version. (254 stands before who votes: `paxos::Members`.)
const VERSIONED: u8 = 253;
/// Bytes before the body: of an entry that does not say its version, and more than others have.
const HEADER_BYTES: usize = 1 + 8 + 8 + 2 + 8 + 8 + 8 + 8;

/// What the body is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// One command: its words.
    Command,
    /// MULTI … EXEC: watches, then commands.
    Transaction,
    /// A command to be applied once: the identifier, then its words.
    Once,
    /// Remove what is due at the entry's time. No body.
    Expire,
    /// An order to the council: see [`crate::council`].
    Council,
    /// Remove keys to make room: see [`crate::eviction`].
    Evict,
    /// Compare the states behind it: see [`crate::comparison`]. No body.
    Compare,
    /// Bring the log's time back, to that of the entry. No body.
    Time,
    /// Record changes for a while, for those who subscribe to them: see [`crate::subscriptions`]. The body: for how many milliseconds.
    Record,
    /// Nothing: it stands in the place of an entry that was stepped over. See [`crate::step_over::void`].
    Void,
}

impl Kind {
    pub(crate) fn number(self) -> u8 {
        match self {
            Kind::Command => 1,
            Kind::Transaction => 2,
            Kind::Once => 3,
            Kind::Expire => 4,
            Kind::Council => 5,
            Kind::Evict => 6,
            Kind::Compare => 8,
            Kind::Void => 7,
            Kind::Time => 9,
            Kind::Record => 10,
        }
    }

    pub(crate) fn from_number(number: u8) -> Result<Kind, Malformed> {
        match number {
            1 => Ok(Kind::Command),
            2 => Ok(Kind::Transaction),
            3 => Ok(Kind::Once),
            4 => Ok(Kind::Expire),
            5 => Ok(Kind::Council),
            6 => Ok(Kind::Evict),
            8 => Ok(Kind::Compare),
            9 => Ok(Kind::Time),
            10 => Ok(Kind::Record),
            7 => Ok(Kind::Void),
            _ => Err(Malformed),
        }
    }
}

/// One life of one node's process: its requests are numbered within it. Later lives compare greater.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Life {
    /// Of the node's memory; see `paxos::recovery`.
    pub incarnation: u64,
    /// The number of the first journal payload of this start.
    pub boot: u64,
}

/// Who asked, and which of its requests this is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Origin {
    pub node: NodeId,
    pub life: Life,
    /// Counts the writes of this life, from 1.
    pub sequence: u64,
    /// All writes of this life with a lower number have been answered, or given up.
    pub floor: u64,
}

/// The part of an entry before its body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    /// By which version of the cluster it is applied.
    pub version: u16,
    pub kind: Kind,
    pub time: WallTime,
    pub seed: u64,
    pub origin: Origin,
}

impl Header {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        if Feature::VersionedEntries.is_in(self.version) {
            writer.u8(VERSIONED);
            writer.varint(u64::from(self.version));
            writer.u8(self.kind.number());
            writer.varint(self.time.0);
            writer.u64(self.seed);
            writer.varint(u64::from(self.origin.node.0));
            writer.u64(self.origin.life.incarnation);
            writer.varint(self.origin.life.boot);
            writer.varint(self.origin.sequence);
            writer.varint(self.origin.floor);
            return;
        }
        writer.u8(self.kind.number());
        writer.u64(self.time.0);
        writer.u64(self.seed);
        writer.u16(self.origin.node.0);
        writer.u64(self.origin.life.incarnation);
        writer.u64(self.origin.life.boot);
        writer.u64(self.origin.sequence);
        writer.u64(self.origin.floor);
    }

    /// The header and the body of an entry that this node may apply, speaking versions up to `newest`.
    ///
    /// # Errors
    /// It is of a later version, or malformed.
    pub(crate) fn decode(payload: &[u8], newest: u16) -> Result<(Header, &[u8]), Unreadable> {
        let mut reader = Reader::from_slice(payload);
        let first = reader.u8()?;
        if first == VERSIONED {
            let version = narrow(reader.varint()?)?;
            // Nothing behind it means anything to this node.
            if version > newest {
                return Err(Unreadable::Version(version));
            }
            if !Feature::VersionedEntries.is_in(version) {
                return Err(Unreadable::Malformed);
            }
            let header = Header {
                version,
                kind: Kind::from_number(reader.u8()?)?,
                time: WallTime(reader.varint()?),
                seed: reader.u64()?,
                origin: Origin {
                    node: NodeId(narrow(reader.varint()?)?),
                    life: Life { incarnation: reader.u64()?, boot: reader.varint()? },
                    sequence: reader.varint()?,
                    floor: reader.varint()?,
                },
            };
            return Ok((header, reader.rest()));
        }
        let header = Header {
            version: OLDEST,
            kind: Kind::from_number(first)?,
            time: WallTime(reader.u64()?),
            seed: reader.u64()?,
            origin: Origin {
                node: NodeId(reader.u16()?),
                life: Life { incarnation: reader.u64()?, boot: reader.u64()? },
                sequence: reader.u64()?,
                floor: reader.u64()?,
            },
        };
        Ok((header, reader.rest()))
    }
}

fn narrow(number: u64) -> Result<u16, Malformed> {
    u16::try_from(number).map_err(|_| Malformed)
}

/// Why an entry cannot be applied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unreadable {
    /// It is of this version, which this node does not speak.
    Version(u16),
    Malformed,
}

impl From<Malformed> for Unreadable {
    fn from(Malformed: Malformed) -> Unreadable {
        Unreadable::Malformed
    }
}

/// A whole entry.
pub(crate) fn encode(header: &Header, body: &[u8]) -> Bytes {
    let mut payload = Vec::with_capacity(HEADER_BYTES + body.len());
    header.encode(&mut payload);
    payload.extend_from_slice(body);
    Bytes::from(payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(version: u16) -> Header {
        let life = Life { incarnation: 1 << 60, boot: 300 };
        let origin = Origin { node: NodeId(2), life, sequence: 5, floor: 4 };
        Header { version, kind: Kind::Once, time: WallTime(1 << 40), seed: 9, origin }
    }

    #[test]
    fn an_entry_is_read_as_it_was_written_and_shorter_since_version_7() {
        for (version, bytes) in [(6, HEADER_BYTES), (7, 30)] {
            let payload = encode(&header(version), b"body");
            assert_eq!(payload.len(), bytes + 4);
            let (read, body) = Header::decode(&payload, 7).expect("it is readable");
            assert_eq!((read.version, read.kind, read.time, read.seed), (version, Kind::Once, WallTime(1 << 40), 9));
            assert_eq!((read.origin, body), (header(version).origin, &b"body"[..]));
            for length in 0..bytes {
                assert_eq!(Header::decode(&payload[..length], 7).err(), Some(Unreadable::Malformed), "cut to {length}");
            }
        }
    }

    #[test]
    fn an_entry_of_a_later_version_is_not_looked_into() {
        let mut payload = encode(&header(7), b"body").to_vec();
        assert_eq!(Header::decode(&payload, 6).err(), Some(Unreadable::Version(7)));
        payload[1] = 8;
        payload.truncate(2);
        assert_eq!(Header::decode(&payload, 7).err(), Some(Unreadable::Version(8)));
        payload[1] = 6;
        assert_eq!(Header::decode(&payload, 7).err(), Some(Unreadable::Malformed), "it had no such header");
        assert_eq!(Header::decode(&[99; 80], 7).err(), Some(Unreadable::Malformed), "a kind that nobody knows");
    }
}
