//! Sessions between nodes that nobody else can read, change, or take part in; and sessions with clients ([`ClientTls`]), which verify a certificate ([`Authority`]).
//!
//! ```text
//!   the node that calls                                    the node that is called
//!   ClientHello ───────────────────────────────────────►
//!               ◄─────────────────────── ServerHello, its key, its signature           TLS 1.3, both sides have keys
//!   its key, its signature ────────────────────────────►
//!   proof ─────────────────────────────────────────────►                               both know the cluster's secret
//!               ◄─────────────────────────────────────── proof
//!   frames ◄───────────────────────────────────────────► frames
//! ```
//! Each node owns a key ([`NodeKey`], ML-DSA-65), which TLS carries bare (RFC 7250): there are no certificates, so nothing expires and nothing is to be guarded but
//! the key itself. A signature shows that the other side owns its key; the **proof** shows that it knows the secret of the cluster ([`ClusterSecret`]), in this
//! very session: it is an HMAC over what TLS exports of it, so nobody in the middle can pass it on. Before the proof nothing that the other side sends is believed,
//! and none of it may be longer than a handshake ([`HANDSHAKE_BYTES_MAX`]).
//!
//! This room knows no socket and no thread: [`Handshake`] and [`Session`] read from and write to whatever they are given, and never block on it.

mod authority;
mod certified;
mod clients;
mod handshake;
mod key;
mod secret;
mod session;
mod tickets;
mod trust;

pub use authority::{Authority, CERTIFICATE_RENEWED_EVERY, Certificate, is_host};
pub use certified::ClientAuthorities;
pub use clients::{ClientHandshake, ClientProgress, ClientSession, ClientTls};
pub use handshake::{Failure, HANDSHAKE_BYTES_MAX, Handshake, PeerTls, Progress};
pub use key::{KeyHash, NodeKey, is_signed, sha256};
pub use secret::{ClusterSecret, random_key};
pub use session::Session;
pub use trust::{Trust, TrustedStream};

/// The first byte of a TLS connection: a record with a part of a handshake.
pub const FIRST_BYTE: u8 = 0x16;

/// Whether a connection that begins with these bytes is one of TLS, or one in plain text, which begins with a frame of at most 64 KiB: the length of one
/// is written in four bytes, the lowest first, and the third of these is 0. Of TLS it is the version, from 1 on. None if more bytes are needed to tell.
#[must_use]
pub fn begins_tls(bytes: &[u8]) -> Option<bool> {
    match *bytes {
        [] | [FIRST_BYTE] | [FIRST_BYTE, 3] => None,
        [FIRST_BYTE, 3, version, ..] => Some(version > 0),
        [..] => Some(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_greeting_is_taken_for_tls() {
        for length in 1..=0xffff_u32 {
            let bytes = length.to_le_bytes();
            assert_eq!(begins_tls(&bytes), Some(false));
            assert_ne!(begins_tls(&bytes[..2]), Some(true));
        }
        for version in 1..=4 {
            let bytes = [FIRST_BYTE, 3, version, 0];
            assert_eq!((begins_tls(&bytes[..2]), begins_tls(&bytes)), (None, Some(true)));
        }
    }
}
