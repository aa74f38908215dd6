//! What the fuzzer and the ordinary tests run on messages between nodes.

use bytes::Bytes;

use wire::Reader;

use crate::peer::PeerMessage;
use crate::pubsub::bulletin::Item;

/// Reads `data` as a message of a peer. What can be read must be written and read alike. Whether it was a message.
///
/// # Panics
/// If that promise is broken.
pub fn fuzz_peer_message(data: &[u8]) -> bool {
    let Ok(message) = PeerMessage::decode(&Bytes::copy_from_slice(data)) else { return false };
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    let again = PeerMessage::decode(&Bytes::from(bytes)).expect("what was written can be read");
    assert_eq!(message, again, "it is read as it was written");
    if let PeerMessage::Bulletin { items, .. } = &message {
        // These are read one by one, up to the first that makes no sense.
        let mut reader = Reader::new(items);
        while !reader.rest().is_empty() && Item::decode(&mut reader).is_ok() {}
    }
    true
}
