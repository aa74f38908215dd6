//! What the fuzzer and the ordinary tests run on messages between nodes.

use base::versions::{NEWEST, OLDEST};
use bytes::Bytes;

use wire::Reader;

use crate::peer::PeerMessage;
use crate::pubsub::bulletin::Item;

/// Reads `data` as a message of a peer. What can be read must be written and read alike. Whether it was a message.
///
/// # Panics
/// If that promise is broken.
pub fn fuzz_peer_message(data: &[u8]) -> bool {
    // All versions: what makes sense in one of them may make another one in the next.
    (OLDEST..=NEWEST).filter(|version| is_read_as_written(data, *version)).count() > 0
}

fn is_read_as_written(data: &[u8], version: u16) -> bool {
    let Ok(message) = PeerMessage::decode(&Bytes::copy_from_slice(data), version) else { return false };
    let mut bytes = Vec::new();
    message.encode(version, &mut bytes);
    let again = PeerMessage::decode(&Bytes::from(bytes), version).expect("what was written can be read");
    assert_eq!(message, again, "it is read as it was written");
    if let PeerMessage::Bulletin { items, .. } = &message {
        // These are read one by one, up to the first that makes no sense.
        let mut reader = Reader::new(items);
        while !reader.rest().is_empty() && Item::decode(&mut reader).is_ok() {}
    }
    true
}
