//! The entry that takes the place of one that was stepped over.
//!
//! ```text
//! ┌────────────────────────────────┬──────────┬──────────┬────────────────┐
//! │ header of the former, kind 7   │ its kind │ checksum │ its payload …  │
//! └────────────────────────────────┴──────────┴──────────┴────────────────┘
//! ```
//! It keeps the header, so that the numbering of writes has no gap and a repeated write is known as one. The former payload is there to be put back where it turns out
//! that another replica has applied it after all.

use base::WallTime;
use base::checksum::xxh3;
use base::versions::Feature;
use bytes::Bytes;
use paxos::{Entry, Members};
use wire::{Reader, Writer};

use crate::entry::{self, Header, Kind, Origin, Unreadable};
use crate::inspect::digest_of;

/// Of an entry whose kind cannot be read.
const NO_KIND: u8 = 0;

/// What such an entry tells of the former one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Void {
    /// As [`digest_of`] says it.
    pub digest: u64,
    pub former: Bytes,
}

impl Void {
    /// Reads one; none if the entry is another one.
    pub(crate) fn read(payload: &Bytes) -> Option<Void> {
        // Every version that has such entries reads their headers.
        let (header, body) = Header::decode(payload, u16::MAX).ok()?;
        if header.kind != Kind::Void {
            return None;
        }
        let body = payload.slice(payload.len() - body.len()..);
        let mut r = Reader::new(&body);
        r.u8().ok()?;
        let digest = r.u64().ok()?;
        let former = r.bytes().ok()?;
        r.finish().ok()?;
        Some(Void { digest, former })
    }

    /// What takes the place of an entry: the same on every replica. None of one that cannot be stepped over: it opens a leadership or says who votes, or is of a
    /// version that this node does not speak.
    pub(crate) fn instead_of(entry: &Entry, newest: u16) -> Option<Bytes> {
        let payload = &entry.payload;
        if payload.is_empty() || Members::is_in(payload) {
            return None;
        }
        let (header, kind) = match Header::decode(payload, newest) {
            Ok((header, _)) if header.kind == Kind::Void => return None,
            Ok((header, _)) => (header, header.kind.number()),
            Err(Unreadable::Version(_)) => return None,
            Err(Unreadable::Malformed) => {
                let (version, origin) = (Feature::SteppedOver.since(), Origin::default());
                (Header { version, kind: Kind::Void, time: WallTime(0), seed: 0, origin }, NO_KIND)
            }
        };
        let mut body = Vec::with_capacity(payload.len() + 16);
        let mut w = Writer::new(&mut body);
        w.u8(kind);
        w.u64(digest_of(entry));
        w.bytes(payload);
        Some(entry::encode(&Header { kind: Kind::Void, ..header }, &body))
    }
}

/// Stands for a set of nodes.
pub(super) fn digest_of_members(members: &[base::NodeId]) -> u64 {
    let bytes: Vec<u8> = members.iter().flat_map(|id| id.0.to_le_bytes()).collect();
    xxh3(&bytes)
}

#[cfg(test)]
mod tests {
    use base::{Ballot, NodeId};

    use super::*;
    use crate::entry::Life;

    fn entry(payload: Bytes) -> Entry {
        Entry { ballot: Ballot { round: 3, node: NodeId(1) }, payload }
    }

    #[test]
    fn it_keeps_the_header_and_gives_the_former_entry_back() {
        let life = Life { incarnation: 7, boot: 8 };
        for version in [6, 7, 8] {
            let origin = Origin { node: NodeId(2), life, sequence: 5, floor: 4 };
            let header = Header { version, kind: Kind::Transaction, time: WallTime(9), seed: 1, origin };
            let former = entry(entry::encode(&header, b"words"));
            let void = Void::instead_of(&former, 8).expect("it can be stepped over");
            let (read, _) = Header::decode(&void, 8).expect("it is readable");
            assert_eq!((read.kind, read.origin, read.time, read.version), (Kind::Void, origin, WallTime(9), version));
            let told = Void { digest: digest_of(&former), former: former.payload.clone() };
            assert_eq!(Void::read(&void), Some(told));
            assert_eq!(Void::read(&former.payload), None);
            assert_eq!(Void::instead_of(&entry(void), 8), None, "once is enough");
        }
    }

    #[test]
    fn of_what_cannot_be_read_nothing_but_the_payload_is_kept() {
        let former = entry(Bytes::from_static(b"\x09nobody knows"));
        let void = Void::instead_of(&former, 8).expect("it can be stepped over");
        let (read, _) = Header::decode(&void, 8).expect("it is readable");
        assert_eq!((read.kind, read.origin, read.version), (Kind::Void, Origin::default(), 8));
        assert_eq!(Void::read(&void).map(|void| void.former), Some(former.payload));
    }

    #[test]
    fn what_is_not_the_states_business_cannot_be_stepped_over() {
        let voters = Bytes::from(Members::founders(&[NodeId(0)]).encode());
        for payload in [Bytes::new(), voters, Bytes::from_static(&[253, 9])] {
            assert_eq!(Void::instead_of(&entry(payload), 8), None);
        }
    }
}
