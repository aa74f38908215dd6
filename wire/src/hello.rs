//! The first frame of a link between peers: who speaks, and in which versions.
//!
//! ```text
//! "DICP" │ version u16 │ oldest u16 │ newest u16 │ needs u16 │ cluster u64 │ id u16 │ incarnation u64 │ name │ address
//! "DICP" │ version u16 = 6 │ cluster u64 │ id u16 │ incarnation u64 │ name │ address
//! "DICR" │ version u16 │ why not: length u16, UTF-8                    in place of an answer      name, address: length u8, UTF-8
//! ```
//!
//! The magic and the version stand first and will stay, so that nodes of any two versions can tell each other apart from strangers and say what is wrong;
//! and from version 7 on so does all that is drawn here: a later version may add something at the end, and who does not know that passes over it.
//!
//! Who calls says its newest version, and which ones it speaks besides. Who is called answers in the newest that both speak, and that is what the link speaks.
//! Nodes of version 6 know no other one and close a link on which they are greeted in it: they are called again with the greeting of version 6
//! ([`Hello::in_version`]). Who is called in that answers in it.

use std::fmt;

use base::NodeId;
use base::versions::{Feature, NEWEST, OLDEST, Versions};

use crate::body::{Malformed, Reader, Writer};

/// The newest version of the messages between nodes that this build speaks.
pub const PEER_PROTOCOL_VERSION: u16 = NEWEST;
/// The first version whose greeting says which versions its sender speaks.
const FIRST_WITH_RANGE: u16 = 7;
/// Longest name of a node, in bytes.
pub const NODE_NAME_BYTES_MAX: usize = 255;
/// Longest text of a refusal, in bytes.
const REFUSAL_BYTES_MAX: usize = 512;

const MAGIC: &[u8; 4] = b"DICP";
const MAGIC_REFUSAL: &[u8; 4] = b"DICR";

/// Introduces a node to the one it calls, and the other way round.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hello {
    /// The version that this greeting is in.
    pub version: u16,
    /// Which ones the sender speaks.
    pub speaks: Versions,
    /// What a node must speak to be in the sender's cluster, as far as the sender knows.
    pub needs: u16,
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
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HelloError {
    /// Not one of our nodes at all.
    Stranger,
    /// A node whose versions we do not speak.
    Versions(Versions),
    /// The other node says why it does not talk to this one.
    Refused(String),
    /// Our version, but not what it should be.
    Malformed,
}

impl fmt::Display for HelloError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HelloError::Stranger => f.write_str("the other side is not a node"),
            HelloError::Versions(theirs) => f.write_str(&apart(*theirs, Versions::ALL)),
            HelloError::Refused(text) => write!(f, "it refuses: {text}"),
            HelloError::Malformed => f.write_str("a malformed greeting"),
        }
    }
}

/// What is said of two nodes that have no version in common.
#[must_use]
pub fn apart(theirs: Versions, ours: Versions) -> String {
    format!("the other node speaks {theirs} of the peer protocol, this one {ours}")
}

impl std::error::Error for HelloError {}

impl From<Malformed> for HelloError {
    fn from(Malformed: Malformed) -> HelloError {
        HelloError::Malformed
    }
}

impl Hello {
    /// The same in another version, which the sender speaks: as nodes of that version know it.
    #[must_use]
    pub fn in_version(&self, version: u16) -> Hello {
        if version >= FIRST_WITH_RANGE {
            return Hello { version, ..self.clone() };
        }
        Hello { version, speaks: Versions::only(version), needs: OLDEST, ..self.clone() }
    }

    /// Appends the payload of the frame. A name over the limit is cut.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        writer.raw(MAGIC);
        writer.u16(self.version);
        if self.version >= FIRST_WITH_RANGE {
            writer.u16(self.speaks.oldest);
            writer.u16(self.speaks.newest);
            writer.u16(self.needs);
        }
        writer.u64(self.cluster);
        writer.node(self.id);
        writer.u64(self.incarnation);
        for text in [&self.node, &self.address] {
            let text = cut(text, NODE_NAME_BYTES_MAX);
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
        let magic = reader.raw(MAGIC.len()).map_err(|_| HelloError::Stranger)?;
        if magic == MAGIC_REFUSAL {
            reader.u16()?;
            let length = usize::from(reader.u16()?);
            let text = reader.raw(length.min(REFUSAL_BYTES_MAX))?;
            return Err(HelloError::Refused(String::from_utf8_lossy(text).into_owned()));
        }
        if magic != MAGIC {
            return Err(HelloError::Stranger);
        }
        let version = reader.u16()?;
        if version < OLDEST {
            return Err(HelloError::Versions(Versions::only(version)));
        }
        let (mut speaks, mut needs) = (Versions::only(version), OLDEST);
        if version >= FIRST_WITH_RANGE {
            speaks = Versions { oldest: reader.u16()?, newest: reader.u16()? };
            needs = reader.u16()?;
            if !(speaks.oldest..=speaks.newest).contains(&version) {
                return Err(HelloError::Malformed);
            }
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
        // What a later version has added says nothing to this one.
        if version <= NEWEST {
            reader.finish()?;
        }
        Ok(Hello { version, speaks, needs, cluster, node, address, id, incarnation })
    }

    /// What the link speaks between whoever has sent this and a node that speaks `ours` and whose cluster asks for `needs`.
    ///
    /// # Errors
    /// Why they must not talk, for people on either side.
    pub fn agree(&self, ours: Versions, needs: u16) -> Result<u16, String> {
        let common = ours.common(self.speaks).ok_or_else(|| apart(self.speaks, ours))?;
        let too_old = |which: &str, newest: u16, version: u16| {
            format!(
                "the cluster has version {version}, and {which} speaks {newest} at the most; a newer Dictum has to be started there"
            )
        };
        if self.speaks.newest < needs {
            return Err(too_old(&format!("{:?}", self.node), self.speaks.newest, needs));
        }
        if ours.newest < self.needs {
            return Err(too_old("this node", ours.newest, self.needs));
        }
        Ok(common)
    }

    /// Appends the payload of a frame that says to whoever has sent this why it is not answered. False if it is of a version that does not know that.
    #[must_use]
    pub fn refuse(&self, why: &str, out: &mut Vec<u8>) -> bool {
        let is_known = Feature::SaidRefusals.is_in(self.speaks.newest);
        if is_known {
            Hello::refuse_unheard(why, out);
        }
        is_known
    }

    /// Appends the same payload for a node that was called and has said nothing yet. Its version has to know refusals.
    pub fn refuse_unheard(why: &str, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        writer.raw(MAGIC_REFUSAL);
        writer.u16(NEWEST);
        let text = cut(why, REFUSAL_BYTES_MAX);
        writer.u16(text.len() as u16);
        writer.raw(text.as_bytes());
    }
}

/// As much of it as has room, in whole characters.
fn cut(mut text: &str, bytes_max: usize) -> &str {
    while text.len() > bytes_max {
        let last = text.char_indices().next_back().map_or(0, |(at, _)| at);
        text = &text[..last];
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello() -> Hello {
        Hello {
            version: NEWEST,
            speaks: Versions::ALL,
            needs: 6,
            cluster: 7,
            node: "n1".to_owned(),
            address: "h:9".to_owned(),
            id: NodeId(3),
            incarnation: 9,
        }
    }

    fn bytes_of(hello: &Hello) -> Vec<u8> {
        let mut payload = Vec::new();
        hello.encode(&mut payload);
        payload
    }

    #[test]
    fn it_reads_what_it_writes() {
        let old = hello().in_version(6);
        assert_eq!(old.speaks, Versions::only(6));
        for (hello, bytes) in [
            (hello(), &b"DICP\x08\0\x06\0\x08\0\x06\0\x07\0\0\0\0\0\0\0\x03\0\x09\0\0\0\0\0\0\0\x02n1\x03h:9"[..]),
            // For ever: nodes of version 6 read no other.
            (old, b"DICP\x06\0\x07\0\0\0\0\0\0\0\x03\0\x09\0\0\0\0\0\0\0\x02n1\x03h:9"),
        ] {
            assert_eq!(bytes_of(&hello), bytes);
            assert_eq!(Hello::decode(bytes), Ok(hello));
        }
    }

    #[test]
    fn it_says_what_is_wrong() {
        for hello in [hello(), hello().in_version(6)] {
            let mut payload = bytes_of(&hello);
            for length in 0..payload.len() {
                let expected = if length < 4 { HelloError::Stranger } else { HelloError::Malformed };
                assert_eq!(Hello::decode(&payload[..length]), Err(expected), "cut to {length}");
            }
            let mut longer = payload.clone();
            longer.push(0);
            assert_eq!(Hello::decode(&longer), Err(HelloError::Malformed));
            *payload.last_mut().expect("there is a name") = 0xff;
            assert_eq!(Hello::decode(&payload), Err(HelloError::Malformed));
        }
        assert_eq!(Hello::decode(b"*1\r\n$4\r\nPING\r\n"), Err(HelloError::Stranger));
        let mut before = bytes_of(&hello().in_version(6));
        before[4..6].copy_from_slice(&5u16.to_le_bytes());
        let error = Hello::decode(&before).expect_err("nobody speaks that any more");
        assert_eq!(error.to_string(), "the other node speaks version 5 of the peer protocol, this one versions 6 to 8");
    }

    #[test]
    fn a_later_greeting_is_understood_as_far_as_it_is_known() {
        let later = Hello { version: NEWEST + 2, speaks: Versions { oldest: NEWEST, newest: NEWEST + 2 }, ..hello() };
        let mut payload = bytes_of(&later);
        payload.extend_from_slice(b"something new");
        assert_eq!(Hello::decode(&payload), Ok(later.clone()));
        assert_eq!(later.agree(Versions::ALL, 6), Ok(NEWEST));
        let far = Hello { speaks: Versions { oldest: 9, newest: 12 }, ..later.clone() };
        let text = "the other node speaks versions 9 to 12 of the peer protocol, this one versions 6 to 8";
        assert_eq!(far.agree(Versions::ALL, 6), Err(text.to_owned()));
        let needs = Hello { needs: NEWEST + 1, ..later };
        assert!(
            needs
                .agree(Versions::ALL, 6)
                .expect_err("it is too old")
                .starts_with("the cluster has version 9, and this node")
        );
        let old = hello().in_version(6);
        assert!(
            old.agree(Versions::ALL, 7)
                .expect_err("it is too old")
                .starts_with("the cluster has version 7, and \"n1\"")
        );
        assert_eq!(old.agree(Versions::ALL, 6), Ok(6));
    }

    #[test]
    fn who_is_refused_is_told_why_if_it_can_understand_that() {
        let mut payload = Vec::new();
        assert!(hello().refuse("it is not wanted", &mut payload));
        assert_eq!(Hello::decode(&payload), Err(HelloError::Refused("it is not wanted".to_owned())));
        payload.clear();
        assert!(!hello().in_version(6).refuse("it is not wanted", &mut payload) && payload.is_empty());
    }

    #[test]
    fn a_long_name_is_cut_between_characters() {
        let payload = bytes_of(&Hello { node: "ä".repeat(200), ..hello() });
        assert_eq!(Hello::decode(&payload).expect("it is whole").node, "ä".repeat(127));
    }
}
