//! Tickets with which a client goes on at any node of the cluster, without a signature.
//!
//! A ticket is the session's state, sealed by AES-256-GCM. The keys come from the cluster's secret and the time, another one every six hours: nodes need not tell each other
//! of any, and one that has just started reads the tickets of all others. TLS 1.3 agrees on new keys for each session all the same, so a ticket's key that becomes known later opens
//! no session. A holder of the cluster's secret can make tickets, and so pass for a node that a client trusts already. It cannot pass for a client: nodes that ask for clients'
//! certificates keep tickets of their own.
//!
//! ```text
//!   ┌──────────┬──────────┬─ ─ ─ ─ ─ ─ ─ ─┬────────┐
//!   │ period 8 │ nonce 12 │ sealed state  │ tag 16 │      period: Unix time / 6 h, which is sealed along
//!   └──────────┴──────────┴─ ─ ─ ─ ─ ─ ─ ─┴────────┘
//! ```

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::rand;
use rustls::pki_types::UnixTime;
use rustls::server::ProducesTickets;

use crate::secret::ClusterSecret;

/// How long a key seals tickets, in seconds.
const PERIOD: u64 = 6 * 3600;
/// Tickets of the period before are taken, and of the next one: no two clocks are the same.
const LIFETIME: u32 = PERIOD as u32;
/// The authenticated bytes from which keys are derived begin with this, so that such a key is good for nothing else.
const LABEL: &[u8] = b"Dictum client tickets, version 1\n";
const PERIOD_BYTES: usize = size_of::<u64>();

/// See the file's head.
pub(crate) struct SharedTickets(ClusterSecret);

impl fmt::Debug for SharedTickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedTickets(…)")
    }
}

impl SharedTickets {
    /// Of the nodes that know this secret.
    pub(crate) fn new(secret: ClusterSecret) -> SharedTickets {
        SharedTickets(secret)
    }

    fn key(&self, period: u64) -> Option<LessSafeKey> {
        let derived = self.0.tag(&[LABEL, &period.to_be_bytes()].concat());
        UnboundKey::new(&AES_256_GCM, derived.as_ref()).ok().map(LessSafeKey::new)
    }

    fn seal(&self, plain: &[u8], period: u64) -> Option<Vec<u8>> {
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).ok()?;
        let mut sealed = plain.to_vec();
        let bound = Aad::from(period.to_be_bytes());
        self.key(period)?.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), bound, &mut sealed).ok()?;
        Some([&period.to_be_bytes()[..], &nonce, &sealed].concat())
    }

    fn open(&self, ticket: &[u8], now: u64) -> Option<Vec<u8>> {
        let (period, rest) = ticket.split_first_chunk::<PERIOD_BYTES>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        if u64::from_be_bytes(*period).abs_diff(now) > 1 {
            return None;
        }
        let mut sealed = sealed.to_vec();
        let key = self.key(u64::from_be_bytes(*period))?;
        let opened = key.open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::from(*period), &mut sealed).ok()?;
        Some(opened.to_vec())
    }
}

fn period_now() -> u64 {
    UnixTime::now().as_secs() / PERIOD
}

impl ProducesTickets for SharedTickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        LIFETIME
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.seal(plain, period_now())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        self.open(ticket, period_now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_good_at_every_node_of_its_cluster_in_its_time_and_as_it_was_made() {
        let secret = ClusterSecret::generate().expect("a secret");
        let [one, other] = [secret.clone(), secret].map(SharedTickets::new);
        let stranger = SharedTickets::new(ClusterSecret::generate().expect("another"));
        let ticket = one.seal(b"a session", 100).expect("sealed");
        assert_ne!(one.seal(b"a session", 100).expect("sealed"), ticket, "no nonce comes twice");
        for (now, opens) in [(98, false), (99, true), (100, true), (101, true), (102, false)] {
            assert_eq!(other.open(&ticket, now).is_some_and(|opened| opened == b"a session"), opens, "{now}");
        }
        assert_eq!(stranger.open(&ticket, 100), None);
        for place in 0..ticket.len() {
            let mut changed = ticket.clone();
            changed[place] ^= 1;
            assert_eq!(other.open(&changed, 100), None, "byte {place}");
            assert_eq!(other.open(&ticket[..place], 100), None, "cut at {place}");
        }
        assert_eq!(other.decrypt(&one.encrypt(b"now").expect("sealed")).as_deref(), Some(&b"now"[..]));
    }
}
