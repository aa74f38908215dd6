//! The key by which a node is known.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{ML_DSA_65_SIGNING, PqdsaKeyPair};
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;

/// The name of a public key: SHA-256 of its `SubjectPublicKeyInfo`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyHash(pub [u8; 32]);

impl KeyHash {
    pub(crate) fn of(public_key: &[u8]) -> KeyHash {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, public_key).as_ref());
        KeyHash(hash)
    }
}

impl fmt::Display for KeyHash {
    /// Its first 16 hexadecimal digits, for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..8].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}…")
    }
}

/// An ML-DSA-65 key pair (FIPS 204). Its private half is in no message, and in no output of `Debug`.
pub struct NodeKey {
    pkcs8: Vec<u8>,
    certified: Arc<CertifiedKey>,
    hash: KeyHash,
}

impl NodeKey {
    /// Draws a new one.
    ///
    /// # Errors
    /// The system has no randomness, or no memory.
    pub fn generate() -> Result<NodeKey, String> {
        let drawn = PqdsaKeyPair::generate(&ML_DSA_65_SIGNING).and_then(|pair| pair.to_pkcs8v1());
        let document = drawn.map_err(|_| "a key could not be drawn".to_owned())?;
        NodeKey::from_pkcs8(document.as_ref())
    }

    /// Reads one as [`NodeKey::pkcs8`] has given it.
    ///
    /// # Errors
    /// It is no private key of ML-DSA-65 in PKCS #8.
    pub fn from_pkcs8(pkcs8: &[u8]) -> Result<NodeKey, String> {
        let unfit = || "it is no private key of ML-DSA-65 in PKCS #8".to_owned();
        PqdsaKeyPair::from_pkcs8(&ML_DSA_65_SIGNING, pkcs8).map_err(|_| unfit())?;
        let der = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(pkcs8.to_vec()));
        let signing = any_supported_type(&der).map_err(|_| unfit())?;
        let public = signing.public_key().ok_or_else(unfit)?.as_ref().to_vec();
        let hash = KeyHash::of(&public);
        let certified = Arc::new(CertifiedKey::new(vec![CertificateDer::from(public)], signing));
        Ok(NodeKey { pkcs8: pkcs8.to_vec(), certified, hash })
    }

    /// The private key, for a file that nobody else can read.
    #[must_use]
    pub fn pkcs8(&self) -> &[u8] {
        &self.pkcs8
    }

    /// The name of its public half.
    #[must_use]
    pub fn hash(&self) -> KeyHash {
        self.hash
    }

    pub(crate) fn certified(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.certified)
    }
}

impl fmt::Debug for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeKey").field("hash", &self.hash).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_the_same_after_it_was_written_and_read() {
        let key = NodeKey::generate().expect("a key");
        let again = NodeKey::from_pkcs8(key.pkcs8()).expect("the same key");
        assert_eq!(again.hash(), key.hash());
        assert_ne!(NodeKey::generate().expect("a key").hash(), key.hash());
        assert!(!format!("{key:?}").contains("pkcs8"));
    }

    #[test]
    fn what_is_no_key_is_none() {
        let whole = NodeKey::generate().expect("a key").pkcs8().to_vec();
        for bytes in [&b""[..], b"secret", &whole[..whole.len() - 1], &whole[1..], &[0; 5000]] {
            assert!(NodeKey::from_pkcs8(bytes).is_err());
        }
    }
}
