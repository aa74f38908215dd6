//! The secret that all nodes of a cluster know, and nobody else.

use std::fmt;

use aws_lc_rs::hmac;
use aws_lc_rs::rand;

/// Stands before the digits, so that the file says what it is.
const PREFIX: &str = "dictum-cluster-secret-1.";
/// Bytes of a secret. 128 bits cannot be guessed; 256 cannot by a quantum computer either.
const SECRET_BYTES: usize = 32;

/// A key that nobody can guess, for something that does not outlive this process.
///
/// # Errors
/// The system has no randomness.
pub fn random_key() -> Result<[u8; SECRET_BYTES], String> {
    let mut bytes = [0; SECRET_BYTES];
    rand::fill(&mut bytes).map_err(|_| "the system has no randomness".to_owned())?;
    Ok(bytes)
}

/// The secret of a cluster: 256 bits. Who knows it may be a node, so it is kept in files that nobody else can read.
#[derive(Clone)]
pub struct ClusterSecret([u8; SECRET_BYTES]);

impl ClusterSecret {
    /// Draws a new one.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn generate() -> Result<ClusterSecret, String> {
        random_key().map(ClusterSecret)
    }

    /// Reads one as [`ClusterSecret::to_text`] has written it. Space around it is passed over.
    ///
    /// # Errors
    /// It is something else; the text does not repeat it.
    pub fn parse(text: &str) -> Result<ClusterSecret, String> {
        let unfit = || format!("it is no secret of a cluster: one begins with {PREFIX}, and `dictum init` makes one");
        let digits = text.trim().strip_prefix(PREFIX).ok_or_else(unfit)?.as_bytes();
        let value = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8);
        let mut bytes = [0; SECRET_BYTES];
        if digits.len() != 2 * SECRET_BYTES {
            return Err(unfit());
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = value(pair[0]).zip(value(pair[1])).map(|(high, low)| high << 4 | low).ok_or_else(unfit)?;
        }
        Ok(ClusterSecret(bytes))
    }

    /// As it stands in a file.
    #[must_use]
    pub fn to_text(&self) -> String {
        let digits: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{PREFIX}{digits}\n")
    }

    fn key(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &self.0)
    }

    /// Shows to who knows it, too, that these bytes are from one who knows it.
    pub(crate) fn tag(&self, bytes: &[u8]) -> hmac::Tag {
        hmac::sign(&self.key(), bytes)
    }

    /// Whether a tag is of these bytes; in the same time whatever it is.
    pub(crate) fn verify(&self, bytes: &[u8], tag: &[u8]) -> bool {
        hmac::verify(&self.key(), bytes, tag).is_ok()
    }
}

impl fmt::Debug for ClusterSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterSecret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_the_same_after_it_was_written_and_read() {
        let secret = ClusterSecret::generate().expect("a secret");
        let again = ClusterSecret::parse(&format!("  {}", secret.to_text())).expect("the same");
        assert_eq!(again.to_text(), secret.to_text());
        assert!(again.verify(b"bytes", secret.tag(b"bytes").as_ref()));
        assert!(!again.verify(b"byte", secret.tag(b"bytes").as_ref()));
        assert!(!ClusterSecret::generate().expect("another").verify(b"bytes", secret.tag(b"bytes").as_ref()));
        assert_eq!(format!("{secret:?}"), "ClusterSecret(…)");
    }

    #[test]
    fn what_is_no_secret_is_not_repeated() {
        let whole = ClusterSecret::generate().expect("a secret").to_text();
        let whole = whole.trim();
        for text in [
            "",
            "hunter2",
            &whole[..whole.len() - 1],
            &format!("{whole}0"),
            &whole.replace("1.", "2."),
            &format!("{}é", &whole[..whole.len() - 2]),
        ] {
            let said = ClusterSecret::parse(text).expect_err("it is none");
            assert!(!said.contains("hunter2") && said.contains("dictum init"), "{said}");
        }
    }
}
