//! The cluster's own authority, which gives its nodes certificates that clients can verify; and certificates of the operator.
//!
//! Between nodes there are no certificates (see the head of this room). Clients need one: they know a name or an address, and a file with an authority that they trust.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SanType, date_time_ymd,
};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::aws_lc_rs::{default_provider, sign::any_supported_type};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{Error, RootCertStore};

/// Whose certificates these are, as people read it.
const NAME: &str = "Dictum cluster authority";
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Clocks of clients may be behind.
const BACKDATED: Duration = Duration::from_secs(60 * 60);
/// The authority outlives the machines. It is replaced by making another one and giving it to clients first.
const AUTHORITY_LASTS: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);
/// A node makes itself a certificate at each start, and once a day.
const CERTIFICATE_LASTS: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// How often it should.
pub const CERTIFICATE_RENEWED_EVERY: Duration = DAY;

/// A certificate that a node shows to clients, with its key.
#[derive(Clone)]
pub struct Certificate(pub(crate) Arc<CertifiedKey>);

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Certificate")
    }
}

impl Certificate {
    /// Reads the operator's own: the certificate, with those of authorities between it and the one that clients know behind it, and its key.
    ///
    /// # Errors
    /// Which of the two is not what it should be, or that they do not belong together.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Certificate, String> {
        let chain: Result<Vec<CertificateDer<'static>>, _> = CertificateDer::pem_slice_iter(chain).collect();
        let chain = chain.map_err(|error| format!("the certificate cannot be read: {error}"))?;
        if chain.is_empty() {
            return Err("there is no certificate in it (a block CERTIFICATE in PEM)".to_owned());
        }
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| format!("the key cannot be read: {error}"))?;
        Certificate::new(chain, &key)
    }

    fn new(chain: Vec<CertificateDer<'static>>, key: &PrivateKeyDer<'_>) -> Result<Certificate, String> {
        let key = any_supported_type(key).map_err(|error| format!("the key is of no use: {error}"))?;
        let certified = CertifiedKey::new(chain, key);
        match certified.keys_match() {
            // Kinds of keys that cannot be compared are told by the first handshake.
            Ok(()) | Err(Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {}
            Err(error) => return Err(format!("certificate and key do not belong together: {error}")),
        }
        Ok(Certificate(Arc::new(certified)))
    }
}

/// Whether a certificate can be for this: a host's name, `*.` before one, or an address.
#[must_use]
pub fn is_host(name: &str) -> bool {
    ServerName::try_from(name.strip_prefix("*.").unwrap_or(name)).is_ok()
}

/// The cluster's authority.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    own: CertificateDer<'static>,
    verifier: Arc<WebPkiServerVerifier>,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authority")
    }
}

/// How an authority calls itself, and what it may do: the same in its own certificate and in what it signs.
fn own_terms() -> Result<CertificateParams, String> {
    let mut terms = CertificateParams::new(Vec::new()).map_err(|error| error.to_string())?;
    terms.distinguished_name.push(DnType::CommonName, NAME);
    terms.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    terms.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(terms)
}

/// From a little before this time, since 1970, and for so long behind it.
fn hold(terms: &mut CertificateParams, now: Duration, lasts: Duration) {
    let begins = date_time_ymd(1970, 1, 1);
    (terms.not_before, terms.not_after) = (begins + now.saturating_sub(BACKDATED), begins + now.saturating_add(lasts));
}

impl Authority {
    /// Draws a key for a new one. `now`: the time since 1970. Returns its certificate, which clients get, and its key, both as PEM.
    ///
    /// # Errors
    /// As the library says.
    pub fn generate(now: Duration) -> Result<(String, String), String> {
        let key = KeyPair::generate().map_err(|error| error.to_string())?;
        let mut terms = own_terms()?;
        hold(&mut terms, now, AUTHORITY_LASTS);
        let own = terms.self_signed(&key).map_err(|error| error.to_string())?;
        Ok((own.pem(), key.serialize_pem()))
    }

    /// One that [`Authority::generate`] has made.
    ///
    /// # Errors
    /// It is none, or its two parts do not belong together.
    pub fn from_pem(own: &[u8], key: &[u8], now: Duration) -> Result<Authority, String> {
        let key = std::str::from_utf8(key).map_err(|error| error.to_string());
        let key = key.and_then(|text| KeyPair::from_pem(text).map_err(|error| error.to_string()));
        let key = key.map_err(|error| format!("the key of the authority cannot be read: {error}"))?;
        let own = CertificateDer::from_pem_slice(own)
            .map_err(|error| format!("the certificate of the authority cannot be read: {error}"))?;
        let mut roots = RootCertStore::empty();
        roots.add(own.clone()).map_err(|error| format!("the authority is none: {error}"))?;
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::new(default_provider())).build();
        let verifier = verifier.map_err(|error| error.to_string())?;
        let authority = Authority { issuer: Issuer::new(own_terms()?, key), own, verifier };
        authority.issue(&["localhost".to_owned()], now)?;
        Ok(authority)
    }

    /// A certificate for a node that is reached by these names and addresses, at this time since 1970.
    ///
    /// # Errors
    /// A name is none, or the authority's two parts do not belong together.
    pub fn issue(&self, names: &[String], now: Duration) -> Result<Certificate, String> {
        let mut terms = CertificateParams::new(Vec::new()).map_err(|error| error.to_string())?;
        for name in names {
            if !is_host(name) {
                return Err(format!("{name} is no host's name, and no address"));
            }
            terms.subject_alt_names.push(match name.parse::<IpAddr>() {
                Ok(address) => SanType::IpAddress(address),
                Err(_) => SanType::DnsName(name.as_str().try_into().map_err(|error: rcgen::Error| error.to_string())?),
            });
        }
        terms.distinguished_name.push(DnType::CommonName, names.first().map_or("dictum", String::as_str));
        terms.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        terms.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        terms.use_authority_key_identifier_extension = true;
        hold(&mut terms, now, CERTIFICATE_LASTS);
        let key = KeyPair::generate().map_err(|error| error.to_string())?;
        let made = terms.signed_by(&key, &self.issuer).map_err(|error| error.to_string())?.der().clone();
        if let Some(name) = names.iter().find(|name| !name.starts_with('*')) {
            let name = ServerName::try_from(name.as_str()).map_err(|error| error.to_string())?;
            let time = UnixTime::since_unix_epoch(now);
            let verified = self.verifier.verify_server_cert(&made, &[], &name, &[], time);
            verified
                .map_err(|error| format!("certificate and key of the authority do not belong together: {error}"))?;
        }
        let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(str::to_owned)?;
        Certificate::new(vec![made, self.own.clone()], &key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In 2026.
    const NOW: Duration = Duration::from_secs(1_795_000_000);

    fn authority() -> (Authority, String, String) {
        let (own, key) = Authority::generate(NOW).expect("made");
        (Authority::from_pem(own.as_bytes(), key.as_bytes(), NOW).expect("it is whole"), own, key)
    }

    #[test]
    fn it_issues_what_it_vouches_for() {
        let (authority, ..) = authority();
        let names = ["*.example.com", "n1.example.com", "10.0.0.1", "::1", "localhost"].map(str::to_owned);
        assert!(authority.issue(&names, NOW).is_ok());
        let said = authority.issue(&["n 1".to_owned()], NOW).expect_err("a name has no space");
        assert!(said.contains("n 1"), "{said}");
    }

    #[test]
    fn two_parts_of_different_ones_are_refused() {
        let ((_, own, key), (_, _, other)) = (authority(), authority());
        let said = Authority::from_pem(own.as_bytes(), other.as_bytes(), NOW).expect_err("another key");
        assert!(said.contains("do not belong together"), "{said}");
        assert!(Authority::from_pem(key.as_bytes(), key.as_bytes(), NOW).is_err());
        assert!(Authority::from_pem(own.as_bytes(), own.as_bytes(), NOW).is_err());
        assert!(Authority::from_pem(b"", b"", NOW).is_err());
    }

    #[test]
    fn an_operators_own_certificate_is_taken_with_its_key_alone() {
        let made = rcgen::generate_simple_self_signed(vec!["db.example.com".to_owned()]).expect("made");
        let (pem, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        assert!(Certificate::from_pem(pem.as_bytes(), key.as_bytes()).is_ok());
        let other = KeyPair::generate().expect("drawn").serialize_pem();
        let said = Certificate::from_pem(pem.as_bytes(), other.as_bytes()).expect_err("another key");
        assert!(said.contains("do not belong together"), "{said}");
        for (chain, key) in [("", key.as_str()), (pem.as_str(), ""), (key.as_str(), key.as_str()), ("x", "y")] {
            assert!(Certificate::from_pem(chain.as_bytes(), key.as_bytes()).is_err());
        }
    }
}
