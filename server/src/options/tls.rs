//! Settings of TLS for clients.

use std::path::PathBuf;

use crate::client_tls::{CertificateSource, PlainText};

/// What was given of them, by flag, variable or file.
pub(super) struct Given {
    pub(super) authority: Option<PathBuf>,
    pub(super) certificate: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
    pub(super) plain_text: Option<PlainText>,
}

/// Where the certificate comes from, if clients may speak TLS; and who may speak in plain text.
pub(super) fn read(given: Given) -> Result<(Option<CertificateSource>, PlainText), String> {
    let source = match (given.authority, given.certificate, given.key) {
        (None, None, None) => None,
        (Some(folder), None, None) => Some(CertificateSource::Authority(folder)),
        (None, Some(certificate), Some(key)) => Some(CertificateSource::Files(certificate, key)),
        (Some(_), ..) => {
            return Err("--tls-ca makes the node's certificate, and --tls-cert and --tls-key are another one: choose"
                .to_owned());
        }
        (None, Some(_), None) => return Err("--tls-cert FILE needs --tls-key FILE, which has its key".to_owned()),
        (None, None, Some(_)) => {
            return Err("--tls-key FILE needs --tls-cert FILE, which has its certificate".to_owned());
        }
    };
    let plain_text = match (given.plain_text, &source) {
        (None | Some(PlainText::Always), None) => PlainText::Always,
        (Some(_), None) => {
            return Err("--plaintext says who may speak without TLS, and this node has none: give it --tls-ca FOLDER (dictum init makes one), or --tls-cert FILE and --tls-key FILE".to_owned());
        }
        (given, Some(_)) => given.unwrap_or(PlainText::Loopback),
    };
    Ok((source, plain_text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_together_is_asked_for() {
        let path = |name: &str| Some(PathBuf::from(name));
        let of = |authority, certificate, key, plain_text| read(Given { authority, certificate, key, plain_text });
        assert_eq!(of(None, None, None, None), Ok((None, PlainText::Always)));
        let source = CertificateSource::Authority(PathBuf::from("ca"));
        assert_eq!(of(path("ca"), None, None, None), Ok((Some(source.clone()), PlainText::Loopback)));
        assert_eq!(of(path("ca"), None, None, Some(PlainText::Never)), Ok((Some(source), PlainText::Never)));
        let files = CertificateSource::Files(PathBuf::from("c"), PathBuf::from("k"));
        assert_eq!(of(None, path("c"), path("k"), Some(PlainText::Always)), Ok((Some(files), PlainText::Always)));
        for (authority, certificate, key, plain_text, missing) in [
            (None, path("c"), None, None, "--tls-key"),
            (None, None, path("k"), None, "--tls-cert"),
            (path("ca"), path("c"), path("k"), None, "choose"),
            (None, None, None, Some(PlainText::Never), "--tls-ca"),
            (None, None, None, Some(PlainText::Loopback), "--tls-ca"),
        ] {
            let said = of(authority, certificate, key, plain_text).expect_err(missing);
            assert!(said.contains(missing), "{said}");
        }
    }
}
