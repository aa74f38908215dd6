//! Records of the audit trail as they stand in its files: canonical JSON (RFC 8785), one a line.
//!
//! ```text
//! {"client":"10.0.0.7:50312","kind":"login","node":"n1","previous":"5f…","sequence":17,"time":1795926925123,"user":"ann"}
//! ```
//! Keys are sorted, there is no white space, numbers are whole and below 2⁵³. A record is named by the SHA-256 of its line without the line break; the next record has
//! that as its `previous`. What is signed of a checkpoint is [`SIGNED`] and its line without the key `signature`.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use node::{AuditEvent, AuditRecord};
use serde_json::Value;
use tls::{NodeKey, sha256};

/// Longest line, in bytes. That of a checkpoint has 5 KB, that of an order up to some 100 KB if all its bytes are escaped.
pub(crate) const LINE_BYTES_MAX: usize = 256 * 1024;

/// The signed bytes of a checkpoint begin with this, so that its signature passes for nothing else.
const SIGNED: &[u8] = b"Dictum audit checkpoint, version 1\n";

/// The `previous` of the first record of all.
pub(crate) const NOTHING_BEFORE: [u8; 32] = [0; 32];

pub(crate) const CHECKPOINT: &str = "checkpoint";
pub(crate) const KEY: &str = "key";
pub(crate) const START: &str = "start";
pub(crate) const END: &str = "end";
pub(crate) const TORN: &str = "torn";
pub(crate) const DAMAGED: &str = "damaged";
pub(crate) const FILES_REMOVED: &str = "files-removed";
pub(crate) const LEFT_OUT: &str = "left-out";

/// The fields of a record.
pub(crate) type Fields = BTreeMap<String, Value>;

/// An event that is still to get its place in the chain.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Entry {
    /// Milliseconds since the Unix epoch, by this machine's clock.
    pub time: u64,
    pub kind: &'static str,
    pub fields: Vec<(&'static str, Value)>,
}

impl Entry {
    /// Of now.
    pub(crate) fn new(kind: &'static str, fields: Vec<(&'static str, Value)>) -> Entry {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Entry { time: u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX), kind, fields }
    }

    /// About how many bytes it holds.
    pub(crate) fn bytes(&self) -> usize {
        let of = |value: &Value| match value {
            Value::String(text) => text.len(),
            Value::Array(texts) => texts.iter().map(|text| text.as_str().map_or(0, str::len) + 32).sum(),
            _ => 8,
        };
        128 + self.fields.iter().map(|(_, value)| 64 + of(value)).sum::<usize>()
    }

    /// Its fields at a place in the chain.
    pub(crate) fn placed(self, node: &str, sequence: u64, previous: &[u8; 32]) -> Fields {
        let mut fields: Fields = self.fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        fields.insert("kind".to_owned(), self.kind.into());
        fields.insert("node".to_owned(), node.into());
        fields.insert("previous".to_owned(), hex(previous).into());
        fields.insert("sequence".to_owned(), sequence.into());
        fields.insert("time".to_owned(), self.time.into());
        fields
    }
}

impl From<AuditRecord> for Entry {
    fn from(AuditRecord { at, event }: AuditRecord) -> Entry {
        let kind = event.kind();
        let fields = match event {
            AuditEvent::LoggedIn(by) | AuditEvent::LoginFailed(by) => {
                vec![("user", by.user.into()), ("client", by.client.into())]
            }
            AuditEvent::Refused { by, reason, object } => vec![
                ("user", by.user.into()),
                ("client", by.client.into()),
                ("reason", reason.into()),
                ("object", object.into()),
            ],
            AuditEvent::Accessed { by, command, bucket, access, keys, more } => vec![
                ("user", by.user.into()),
                ("client", by.client.into()),
                ("command", command.into()),
                ("bucket", bucket.into()),
                ("access", access.into()),
                ("keys", keys.into()),
                ("more", more.into()),
            ],
            AuditEvent::Ordered { by, words, outcome } => vec![
                ("user", by.user.into()),
                ("client", by.client.into()),
                ("words", words.into()),
                ("outcome", outcome.into()),
            ],
            AuditEvent::UsersFollowed { users, more } => vec![("users", users.into()), ("more", more.into())],
            AuditEvent::NodeJoined { node, name, address } => {
                vec![("number", node.0.into()), ("name", name.into()), ("address", address.into())]
            }
            AuditEvent::NodeRemoved { node } | AuditEvent::WentAlone { node } => vec![("number", node.0.into())],
            AuditEvent::BucketMade { name }
            | AuditEvent::BucketChanged { name }
            | AuditEvent::BucketDropped { name } => vec![("bucket", name.into())],
            AuditEvent::SteppedOver { partition, position, digest } => vec![
                ("partition", partition.to_string().into()),
                ("position", position.0.into()),
                ("checksum", format!("{digest:016x}").into()),
            ],
            AuditEvent::TrailNoted { of, mark } => {
                vec![("of", of.into()), ("record", mark.sequence.into()), ("hash", hex(&mark.hash).into())]
            }
            AuditEvent::LeftOut { of, count } => vec![("of", of.into()), ("count", count.into())],
        };
        Entry { time: at.0, kind, fields }
    }
}

/// The line of a record, without the line break.
pub(crate) fn line(fields: &Fields) -> String {
    // A map of texts, numbers and lists of these always has a JSON, whose keys have the order of the map.
    serde_json::to_string(fields).unwrap_or_default()
}

/// Adds the signature of a checkpoint.
///
/// # Errors
/// No signature can be made.
pub(crate) fn sign(fields: &mut Fields, key: &NodeKey) -> Result<(), String> {
    let signature = key.sign(&signed_bytes(fields))?;
    fields.insert("signature".to_owned(), STANDARD.encode(signature).into());
    Ok(())
}

/// The bytes of a checkpoint that its signature is for.
pub(crate) fn signed_bytes(fields: &Fields) -> Vec<u8> {
    let mut fields = fields.clone();
    fields.remove("signature");
    [SIGNED, line(&fields).as_bytes()].concat()
}

/// Takes a line apart: none if it is not the canonical form of an object, so that no byte of a line can change unseen.
pub(crate) fn parse(line: &str) -> Option<Fields> {
    let fields: Fields = serde_json::from_str(line).ok()?;
    (self::line(&fields) == line).then_some(fields)
}

/// The sequence number of a line, without a look at whether the line is right.
pub(crate) fn sequence_of(line: &str) -> Option<u64> {
    #[derive(serde::Deserialize)]
    struct Placed {
        sequence: u64,
    }
    serde_json::from_str::<Placed>(line).ok().map(|placed| placed.sequence)
}

/// The name of a record, by its line.
pub(crate) fn name_of(line: &[u8]) -> [u8; 32] {
    sha256(line)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

pub(crate) fn from_base64(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::WallTime;
    use node::Actor;

    #[test]
    fn a_line_is_canonical_and_says_what_happened() {
        let by = Actor { user: "ann\\x1b".to_owned(), client: "10.0.0.7:5".to_owned() };
        let words = vec!["FLUSHALL".to_owned(), "\u{1}\"".to_owned()];
        let event = AuditEvent::Ordered { by, words, outcome: "ok".to_owned() };
        let entry = Entry::from(AuditRecord { at: WallTime(1_795_926_925_123), event });
        let written = line(&entry.placed("n1", 17, &NOTHING_BEFORE));
        let zeros = "0".repeat(64);
        assert_eq!(
            written,
            format!(
                r#"{{"client":"10.0.0.7:5","kind":"order","node":"n1","outcome":"ok","previous":"{zeros}","sequence":17,"time":1795926925123,"user":"ann\\x1b","words":["FLUSHALL","\u0001\""]}}"#
            )
        );
        assert!(parse(&written).is_some());
        assert_eq!(sequence_of(&written), Some(17));
        // The same object in other bytes is not the same record.
        assert!(parse(&written.replace("\\u0001", "\\u0001 ").replace("\"kind\":", "\"kind\": ")).is_none());
        assert!(parse(&written.replacen('{', "{\"zzz\":1,", 1)).is_none());
        assert!(parse("[1]").is_none() && parse("").is_none());
    }

    #[test]
    fn every_event_is_within_a_line() {
        let long = "\\x00".repeat(16 * 1024);
        let by = Actor { user: long.clone(), client: long.clone() };
        let event = AuditEvent::Ordered { by, words: vec![long.clone()], outcome: "ok".to_owned() };
        let entry = Entry::from(AuditRecord { at: WallTime(1), event });
        assert!(entry.bytes() >= 3 * long.len());
        assert!(line(&entry.placed("n1", 1, &NOTHING_BEFORE)).len() > 3 * long.len());
    }
}
