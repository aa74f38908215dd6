//! The first frame of a link between peers: who speaks, and in what version.
//!
//! ```text
//! "DICP" │ version u16 │ cluster u64 │ id u16 │ incarnation u64 │ name: length u8, UTF-8 │ address: length u8, UTF-8
//! ```
//!
//! The magic and the version stand first and will stay, so that nodes of any two versions can tell each other
//! apart from strangers and say what is wrong.

use std::fmt;

use base::NodeId;

use crate::body::{Malformed, Reader, Writer};

/// The version of the messages between nodes that this build speaks.
pub const PEER_PROTOCOL_VERSION: u16 = 6;
/// Longest name of a node, in bytes.
pub const NODE_NAME_BYTES_MAX: usize = 255;

const MAGIC: &[u8; 4] = b"DICP";

/// Introduces a node to the one it calls, and the other way round.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hello {
    /// The version of the messages that the sender speaks.
    pub version: u16,
    /// The fingerprint of the cluster that the sender belongs to; those of two clusters must not talk.
    pub cluster: u64,
    /// The sender's name, at most [`NODE_NAME_BYTES_MAX`] bytes.
    pub node: String,
    /// Where other nodes reach the sender, `host:port`, at most [`NODE_NAME_BYTES_MAX`] bytes.
    pub address: String,
    /// The sender's number.
    pub id: NodeId,
    /// Grows with every start of the sender: of two links, the one with the higher incarnation is alive.
    pub incarnation: u64,
}

/// Why a first frame is no [`Hello`] of ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HelloError {
    /// Not one of our nodes at all.
    Stranger,
    /// A node whose version we do not speak, this one.
    Version(u16),
    /// Our version, but not what it should be.
    Malformed,
}

impl fmt::Display for HelloError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HelloError::Stranger => f.write_str("the other side is not a node"),
            HelloError::Version(version) => write!(
                f,
                "the other node speaks version {version} of the peer protocol, this one version {PEER_PROTOCOL_VERSION}"
            ),
            HelloError::Malformed => f.write_str("a malformed greeting"),
        }
    }
}

impl std::error::Error for HelloError {}

impl From<Malformed> for HelloError {
    fn from(Malformed: Malformed) -> HelloError {
        HelloError::Malformed
    }
}

impl Hello {
    /// Appends the payload of the frame. A name over the limit is cut.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        writer.raw(MAGIC);
        writer.u16(self.version);
        writer.u64(self.cluster);
        writer.node(self.id);
        writer.u64(self.incarnation);
        for text in [&self.node, &self.address] {
            let mut text = text.as_str();
            while text.len() > NODE_NAME_BYTES_MAX {
                let last = text.char_indices().next_back().map_or(0, |(at, _)| at);
                text = &text[..last];
            }
            writer.u8(text.len() as u8);
            writer.raw(text.as_bytes());
        }
    }

    /// Reads the payload of a first frame.
    ///
    /// # Errors
    /// See [`HelloError`]; the link is to be closed.
    pub fn decode(payload: &[u8]) -> Result<Hello, HelloError> {
        let mut reader = Reader::from_slice(payload);
        if reader.raw(MAGIC.len()) != Ok(&MAGIC[..]) {
            return Err(HelloError::Stranger);
        }
        let version = reader.u16()?;
        if version != PEER_PROTOCOL_VERSION {
            return Err(HelloError::Version(version));
        }
        let cluster = reader.u64()?;
        let id = reader.node()?;
        let incarnation = reader.u64()?;
        let mut text = || {
            let length = reader.u8()?;
            let text = std::str::from_utf8(reader.raw(usize::from(length))?).map_err(|_| HelloError::Malformed)?;
            Ok::<String, HelloError>(text.to_owned())
        };
        let (node, address) = (text()?, text()?);
        reader.finish()?;
        Ok(Hello { version, cluster, node, address, id, incarnation })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello() -> Hello {
        let (node, address) = ("n1".to_owned(), "h:9".to_owned());
        Hello { version: PEER_PROTOCOL_VERSION, cluster: 7, node, address, id: NodeId(3), incarnation: 9 }
    }

    #[test]
    fn it_reads_what_it_writes() {
        let mut payload = Vec::new();
        hello().encode(&mut payload);
        assert_eq!(payload, b"DICP\x06\0\x07\0\0\0\0\0\0\0\x03\0\x09\0\0\0\0\0\0\0\x02n1\x03h:9");
        assert_eq!(Hello::decode(&payload), Ok(hello()));
    }

    #[test]
    fn it_says_what_is_wrong() {
        let mut payload = Vec::new();
        hello().encode(&mut payload);
        for length in 0..payload.len() {
            let expected = if length < 4 { HelloError::Stranger } else { HelloError::Malformed };
            assert_eq!(Hello::decode(&payload[..length]), Err(expected), "cut to {length}");
        }
        assert_eq!(Hello::decode(b"*1\r\n$4\r\nPING\r\n"), Err(HelloError::Stranger));
        let mut other = payload.clone();
        let stranger = PEER_PROTOCOL_VERSION + 1;
        other[4..6].copy_from_slice(&stranger.to_le_bytes());
        assert_eq!(Hello::decode(&other), Err(HelloError::Version(stranger)));
        let mut longer = payload.clone();
        longer.push(0);
        assert_eq!(Hello::decode(&longer), Err(HelloError::Malformed));
        *payload.last_mut().expect("there is a name") = 0xff;
        assert_eq!(Hello::decode(&payload), Err(HelloError::Malformed));
    }

    #[test]
    fn a_long_name_is_cut_between_characters() {
        let mut payload = Vec::new();
        Hello { node: "ä".repeat(200), ..hello() }.encode(&mut payload);
        assert_eq!(Hello::decode(&payload).expect("it is whole").node, "ä".repeat(127));
    }
}
