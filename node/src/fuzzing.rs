//! What the fuzzer and the ordinary tests run on messages between nodes.

use bytes::Bytes;

use crate::peer::PeerMessage;

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
    true
}
