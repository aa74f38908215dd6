//! What a node says that wants to join, in place of a [`Hello`](crate::Hello), and what it is told.
//!
//! ```text
//! "DICJ" │ version u16 │ token │ name │ peer address │ number u64 │ zone │ newest u16
//!                                   texts: length as a varint, UTF-8; the zone in versions 2 and 3, what the node speaks at most in version 3
//! "DICW" │ version u16 │ 1 │ id u16 │ founders │ joined                  lists: count as a varint; id u16, name, address each
//! "DICW" │ version u16 │ 0 │ why not
//! ```

use base::NodeId;
use base::versions::OLDEST;

use crate::body::{Malformed, Reader, Writer};

const ASKS: &[u8; 4] = b"DICJ";
const ANSWERS: &[u8; 4] = b"DICW";
const VERSION: u16 = 1;
/// Of a request by a node that has a zone. One that has none is let in by nodes from before, too.
const VERSION_ZONE: u16 = 2;
/// Of one by a node that speaks more than the oldest version of the peer protocol.
const VERSION_NEWEST: u16 = 3;

/// A node asks to be let in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JoinRequest {
    /// As `dictum node token` has given it.
    pub token: String,
    /// The name that the node wants to have.
    pub name: String,
    /// Where other nodes reach it, `host:port`.
    pub peer_address: String,
    /// Drawn by the node: it may ask again with it.
    pub nonce: u64,
    /// The label of its zone; empty if it has none.
    pub zone: String,
    /// The newest version of the peer protocol that it speaks. A request that says it is understood only by nodes that speak more than the oldest, too.
    pub newest: u16,
}

/// A node in an answer: its number, its name, where others reach it.
pub type JoinMember = (NodeId, String, String);

/// What it is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum JoinReply {
    /// It is in.
    Welcome {
        /// Its number.
        id: NodeId,
        /// Who has founded the cluster, in the order of their numbers.
        founders: Vec<JoinMember>,
        /// Who has joined since, itself among them.
        joined: Vec<JoinMember>,
    },
    /// It is not, and why.
    Refused(String),
}

impl JoinRequest {
    /// Whether a first frame is a request of this kind, of whatever version.
    #[must_use]
    pub fn is_in(payload: &[u8]) -> bool {
        payload.starts_with(ASKS)
    }

    /// Appends the payload of the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut w = Writer::new(out);
        w.raw(ASKS);
        let version = match (self.newest > OLDEST, self.zone.is_empty()) {
            (true, _) => VERSION_NEWEST,
            (false, false) => VERSION_ZONE,
            (false, true) => VERSION,
        };
        w.u16(version);
        w.bytes(self.token.as_bytes());
        w.bytes(self.name.as_bytes());
        w.bytes(self.peer_address.as_bytes());
        w.u64(self.nonce);
        if version >= VERSION_ZONE {
            w.bytes(self.zone.as_bytes());
        }
        if version >= VERSION_NEWEST {
            w.u16(self.newest);
        }
    }

    /// Reads the payload of a frame.
    ///
    /// # Errors
    /// If it is no request, or not of this version.
    pub fn decode(payload: &[u8]) -> Result<JoinRequest, Malformed> {
        let (mut r, version) = opened(payload, ASKS, VERSION_NEWEST)?;
        let request = JoinRequest {
            token: r.text()?.to_owned(),
            name: r.text()?.to_owned(),
            peer_address: r.text()?.to_owned(),
            nonce: r.u64()?,
            zone: if version >= VERSION_ZONE { r.text()?.to_owned() } else { String::new() },
            newest: if version >= VERSION_NEWEST { r.u16()? } else { OLDEST },
        };
        r.finish()?;
        Ok(request)
    }
}

impl JoinReply {
    /// Appends the payload of the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut w = Writer::new(out);
        w.raw(ANSWERS);
        w.u16(VERSION);
        match self {
            JoinReply::Welcome { id, founders, joined } => {
                w.bool(true);
                w.node(*id);
                write_members(&mut w, founders);
                write_members(&mut w, joined);
            }
            JoinReply::Refused(text) => {
                w.bool(false);
                w.bytes(text.as_bytes());
            }
        }
    }

    /// Reads the payload of a frame.
    ///
    /// # Errors
    /// If it is no answer, or not of this version.
    pub fn decode(payload: &[u8]) -> Result<JoinReply, Malformed> {
        let (mut r, _) = opened(payload, ANSWERS, VERSION)?;
        let reply = if r.bool()? {
            JoinReply::Welcome { id: r.node()?, founders: read_members(&mut r)?, joined: read_members(&mut r)? }
        } else {
            JoinReply::Refused(r.text()?.to_owned())
        };
        r.finish()?;
        Ok(reply)
    }
}

/// What follows on the version, and that, up to the newest that there is.
fn opened<'a>(payload: &'a [u8], magic: &[u8; 4], newest: u16) -> Result<(Reader<'a>, u16), Malformed> {
    let mut r = Reader::from_slice(payload);
    if r.raw(magic.len())? != magic {
        return Err(Malformed);
    }
    let version = r.u16()?;
    if (VERSION..=newest).contains(&version) { Ok((r, version)) } else { Err(Malformed) }
}

fn write_members(w: &mut Writer<'_>, members: &[JoinMember]) {
    w.count(members.len());
    for (id, name, address) in members {
        w.node(*id);
        w.bytes(name.as_bytes());
        w.bytes(address.as_bytes());
    }
}

fn read_members(r: &mut Reader<'_>) -> Result<Vec<JoinMember>, Malformed> {
    (0..r.count(4)?).map(|_| Ok((r.node()?, r.text()?.to_owned(), r.text()?.to_owned()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_read_as_they_are_written() {
        let text = str::to_owned;
        let (token, name, peer_address) = (text("t"), text("n4"), text("10.0.0.4:9001"));
        let plain = JoinRequest { token, name, peer_address, nonce: 7, zone: String::new(), newest: OLDEST };
        let zoned = JoinRequest { zone: text("b"), ..plain.clone() };
        let newer = [plain.clone(), zoned.clone()].map(|request| JoinRequest { newest: OLDEST + 1, ..request });
        for request in [plain, zoned].into_iter().chain(newer) {
            let mut bytes = Vec::new();
            request.encode(&mut bytes);
            assert!(JoinRequest::is_in(&bytes));
            assert_eq!(JoinRequest::decode(&bytes), Ok(request));
            for length in 0..bytes.len() {
                assert_eq!(JoinRequest::decode(&bytes[..length]), Err(Malformed), "cut to {length}");
            }
        }
        let member = |id, name: &str| (NodeId(id), text(name), format!("{name}:9001"));
        let welcome =
            JoinReply::Welcome { id: NodeId(3), founders: vec![member(0, "n1")], joined: vec![member(3, "n4")] };
        for reply in [welcome, JoinReply::Refused(text("ERR no"))] {
            let mut bytes = Vec::new();
            reply.encode(&mut bytes);
            assert_eq!(JoinReply::decode(&bytes), Ok(reply));
            for length in 0..bytes.len() {
                assert_eq!(JoinReply::decode(&bytes[..length]), Err(Malformed), "cut to {length}");
            }
        }
    }
}
