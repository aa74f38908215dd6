//! The key by which a node is known.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{ML_DSA_65, ML_DSA_65_SIGNING, PqdsaKeyPair, UnparsedPublicKey};
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;

/// The name of a public key: SHA-256 of its `SubjectPublicKeyInfo`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyHash(pub [u8; 32]);

impl KeyHash {
    pub(crate) fn of(public_key: &[u8]) -> KeyHash {
        KeyHash(sha256(public_key))
    }

    /// The name of the public key in these bytes, a `SubjectPublicKeyInfo` in DER.
    #[must_use]
    pub fn of_public(public_key: &[u8]) -> KeyHash {
        KeyHash::of(public_key)
    }

    /// Reads what [`KeyHash::whole`] writes; none if it is something else.
    #[must_use]
    pub fn parse(text: &str) -> Option<KeyHash> {
        let is_whole = text.len() == 64 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        let mut hash = [0; 32];
        for (place, byte) in hash.iter_mut().enumerate().filter(|_| is_whole) {
            *byte = u8::from_str_radix(&text[2 * place..2 * place + 2], 16).ok()?;
        }
        is_whole.then_some(KeyHash(hash))
    }

    /// All of it, in hexadecimal digits.
    #[must_use]
    pub fn whole(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// SHA-256 of bytes.
#[must_use]
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, bytes).as_ref());
    hash
}

/// Whether a signature of [`NodeKey::sign`] is one of these bytes by the owner of this public key (a `SubjectPublicKeyInfo` in DER).
#[must_use]
pub fn is_signed(public_key: &[u8], bytes: &[u8], signature: &[u8]) -> bool {
    UnparsedPublicKey::new(&ML_DSA_65, public_key).verify(bytes, signature).is_ok()
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
    pair: PqdsaKeyPair,
    public: Vec<u8>,
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
        let pair = PqdsaKeyPair::from_pkcs8(&ML_DSA_65_SIGNING, pkcs8).map_err(|_| unfit())?;
        let der = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(pkcs8.to_vec()));
        let signing = any_supported_type(&der).map_err(|_| unfit())?;
        let public = signing.public_key().ok_or_else(unfit)?.as_ref().to_vec();
        let hash = KeyHash::of(&public);
        let certified = Arc::new(CertifiedKey::new(vec![CertificateDer::from(public.clone())], signing));
        Ok(NodeKey { pkcs8: pkcs8.to_vec(), pair, public, certified, hash })
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

    /// Its public half, a `SubjectPublicKeyInfo` in DER: for [`is_signed`].
    #[must_use]
    pub fn public(&self) -> &[u8] {
        &self.public
    }

    /// Signs bytes. They must begin with words that say what they are for, so that no signature passes for one of another purpose; TLS begins its own with 64 spaces
    /// (RFC 8446, section 4.4.3).
    ///
    /// # Errors
    /// The system has no randomness, or no memory.
    pub fn sign(&self, bytes: &[u8]) -> Result<Vec<u8>, String> {
        let mut signature = vec![0; ML_DSA_65_SIGNING.signature_len()];
        let length = self.pair.sign(bytes, &mut signature).map_err(|_| "a signature could not be made".to_owned())?;
        signature.truncate(length);
        Ok(signature)
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
    fn a_signature_is_of_one_key_and_of_these_bytes() {
        let (key, other) = (NodeKey::generate().expect("a key"), NodeKey::generate().expect("a key"));
        let key = NodeKey::from_pkcs8(key.pkcs8()).expect("the same key");
        let signature = key.sign(b"test: bytes").expect("a signature");
        assert!(is_signed(key.public(), b"test: bytes", &signature));
        assert!(!is_signed(key.public(), b"test: bytez", &signature));
        assert!(!is_signed(other.public(), b"test: bytes", &signature));
        assert!(!is_signed(key.public(), b"test: bytes", &signature[1..]));
        assert!(!is_signed(b"no key", b"test: bytes", &signature));
        assert_eq!(KeyHash::of_public(key.public()), key.hash());
        assert_eq!(key.hash().whole().len(), 64);
    }

    #[test]
    fn what_is_no_key_is_none() {
        let whole = NodeKey::generate().expect("a key").pkcs8().to_vec();
        for bytes in [&b""[..], b"secret", &whole[..whole.len() - 1], &whole[1..], &[0; 5000]] {
            assert!(NodeKey::from_pkcs8(bytes).is_err());
        }
    }
}
