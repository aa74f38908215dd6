//! Clients that show a certificate of their own. A client that shows none is let in all the same; one that shows a certificate of somebody else is not.

use std::fmt;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{HandshakeKind, RootCertStore, ServerConnection};

/// The authorities whose certificates clients may show.
#[derive(Clone)]
pub struct ClientAuthorities(Arc<dyn ClientCertVerifier>);

impl fmt::Debug for ClientAuthorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientAuthorities")
    }
}

impl ClientAuthorities {
    /// Those of a file of PEM.
    ///
    /// # Errors
    /// There is none in it, or something else.
    pub fn from_pem(authorities: &[u8]) -> Result<ClientAuthorities, String> {
        let mut roots = RootCertStore::empty();
        for own in CertificateDer::pem_slice_iter(authorities) {
            let own = own.map_err(|error| format!("it cannot be read: {error}"))?;
            roots.add(own).map_err(|error| format!("a certificate in it is not an authority's: {error}"))?;
        }
        if roots.is_empty() {
            return Err("there is no certificate of an authority in it (a block CERTIFICATE in PEM)".to_owned());
        }
        let provider: Arc<CryptoProvider> = Arc::new(default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).allow_unauthenticated();
        Ok(ClientAuthorities(verifier.build().map_err(|error| error.to_string())?))
    }

    pub(crate) fn verifier(&self) -> Arc<dyn ClientCertVerifier> {
        Arc::clone(&self.0)
    }

    /// The common name of the certificate that the client of a session has shown. A session that goes on from an earlier one brings the earlier certificate along, which may have
    /// expired since, so it is verified again.
    pub(crate) fn name_of(&self, connection: &ServerConnection) -> Option<String> {
        let (own, others) = connection.peer_certificates()?.split_first()?;
        if connection.handshake_kind() == Some(HandshakeKind::Resumed) {
            self.0.verify_client_cert(own, others, UnixTime::now()).ok()?;
        }
        common_name(own)
    }
}

const INTEGER: u8 = 0x02;
const OBJECT: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const IA5_STRING: u8 = 0x16;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
/// The version of a certificate, which the oldest do not say.
const VERSION: u8 = 0xa0;
/// 2.5.4.3, `id-at-commonName` (RFC 5280, appendix A.1).
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

/// The rest of some bytes in DER.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// The next element: its tag and its content. None if there is none that is whole.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (tag, rest) = self.0.split_first()?;
        let (first, rest) = rest.split_first()?;
        let (length, rest) = match *first {
            short @ 0..=0x7f => (usize::from(short), rest),
            // No certificate is longer than three bytes can say.
            long @ 0x81..=0x83 => {
                let (digits, rest) = rest.split_at_checked(usize::from(long & 0x7f))?;
                (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((*tag, content))
    }

    /// The content of the next element, which is of this kind.
    fn take(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next().filter(|(found, _)| *found == tag).map(|(_, content)| content)
    }
}

/// The common name of a certificate's subject (RFC 5280, 4.1). None if it has none, or several: who would it be?
fn common_name(certificate: &[u8]) -> Option<String> {
    let mut body = Der(Der(Der(certificate).take(SEQUENCE)?).take(SEQUENCE)?);
    if body.0.first() == Some(&VERSION) {
        body.next()?;
    }
    // Serial number, algorithm, issuer, validity.
    for tag in [INTEGER, SEQUENCE, SEQUENCE, SEQUENCE] {
        body.take(tag)?;
    }
    let mut subject = Der(body.take(SEQUENCE)?);
    let mut found = None;
    while !subject.0.is_empty() {
        let mut pairs = Der(subject.take(SET)?);
        while !pairs.0.is_empty() {
            let mut pair = Der(pairs.take(SEQUENCE)?);
            if pair.take(OBJECT)? != COMMON_NAME {
                continue;
            }
            let (UTF8_STRING | PRINTABLE_STRING | IA5_STRING, text) = pair.next()? else { return None };
            let name = String::from_utf8(text.to_vec()).ok()?;
            if found.replace(name).is_some() {
                return None;
            }
        }
    }
    found.filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    use super::*;

    fn certificate(pairs: &[(DnType, &str)]) -> Vec<u8> {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.distinguished_name = DistinguishedName::new();
        for (kind, text) in pairs {
            params.distinguished_name.push(kind.clone(), *text);
        }
        let key = KeyPair::generate().expect("a key");
        params.self_signed(&key).expect("signed").der().to_vec()
    }

    #[test]
    fn the_name_is_the_subjects() {
        let long = "n".repeat(300);
        for (pairs, expected) in [
            (&[(DnType::CommonName, "ann")][..], Some("ann")),
            (
                &[(DnType::OrganizationName, "eve"), (DnType::CommonName, "grüß"), (DnType::CountryName, "DE")],
                Some("grüß"),
            ),
            (&[(DnType::CommonName, &long)], Some(&long[..])),
            (&[(DnType::CommonName, "")], None),
            (&[(DnType::OrganizationName, "ann")], None),
            (&[], None),
        ] {
            assert_eq!(common_name(&certificate(pairs)).as_deref(), expected);
        }
    }

    #[test]
    fn of_two_names_none_counts() {
        let one = certificate(&[(DnType::CommonName, "ann"), (DnType::OrganizationName, "eve")]);
        // The organisation (2.5.4.10) of the subject becomes a common name.
        let places: Vec<usize> = (0..one.len() - 3).filter(|at| one[*at..at + 3] == [0x55, 0x04, 0x0a]).collect();
        assert_eq!(places.len(), 2, "the issuer's and the subject's");
        let mut two = one.clone();
        two[places[1] + 2] = 3;
        assert_eq!((common_name(&one).as_deref(), common_name(&two)), (Some("ann"), None));
    }

    /// Only verified certificates come here; whatever comes ends in a name or in none.
    #[test]
    fn nothing_that_is_cut_or_bent_is_read_past_its_end() {
        let whole = certificate(&[(DnType::CommonName, "ann")]);
        for length in 0..whole.len() {
            assert_eq!(common_name(&whole[..length]), None);
        }
        for at in 0..whole.len() {
            for value in [0, 0x7f, 0x80, 0x81, 0x83, 0x84, 0xff] {
                let mut bent = whole.clone();
                bent[at] = value;
                let _: Option<String> = common_name(&bent);
            }
        }
    }

    #[test]
    fn a_file_without_an_authority_is_refused() {
        for text in ["", "no certificate", "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"] {
            assert!(ClientAuthorities::from_pem(text.as_bytes()).is_err(), "{text:?}");
        }
    }
}
