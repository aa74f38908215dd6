//! What an entry of a partition's log holds: the command, its time, its seed of chance, and who asked for it.
//!
//! ```text
//! ┌──────┬──────┬──────┬────────┬─────────────┬──────┬──────────┬───────┬──────────┐
//! │ kind │ time │ seed │ origin │ incarnation │ boot │ sequence │ floor │ body …   │
//! │ u8   │ u64  │ u64  │ u16    │ u64         │ u64  │ u64      │ u64   │          │
//! └──────┴──────┴──────┴────────┴─────────────┴──────┴──────────┴───────┴──────────┘
//! ```
//! Little-endian. An empty payload opens a leadership and changes nothing. The bodies are those of [`crate::words`]; that of
//! a write to which terms apply (how long a value may be, how long a key may live, how large the state may be) begins with these.

use base::{NodeId, WallTime};
use bytes::Bytes;
use wire::{Malformed, Reader, Writer};

/// Bytes before the body.
pub(crate) const HEADER_BYTES: usize = 1 + 8 + 8 + 2 + 8 + 8 + 8 + 8;

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
    pub kind: Kind,
    pub time: WallTime,
    pub seed: u64,
    pub origin: Origin,
}

impl Header {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        writer.u8(self.kind.number());
        writer.u64(self.time.0);
        writer.u64(self.seed);
        writer.u16(self.origin.node.0);
        writer.u64(self.origin.life.incarnation);
        writer.u64(self.origin.life.boot);
        writer.u64(self.origin.sequence);
        writer.u64(self.origin.floor);
    }

    pub(crate) fn decode(payload: &[u8]) -> Result<(Header, &[u8]), Malformed> {
        let mut reader = Reader::from_slice(payload);
        let header = Header {
            kind: Kind::from_number(reader.u8()?)?,
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

/// A whole entry.
pub(crate) fn encode(header: &Header, body: &[u8]) -> Bytes {
    let mut payload = Vec::with_capacity(HEADER_BYTES + body.len());
    header.encode(&mut payload);
    payload.extend_from_slice(body);
    Bytes::from(payload)
}
