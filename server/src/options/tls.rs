//! Settings of TLS for clients.

use std::path::PathBuf;

use crate::client_tls::{CertificateSource, ClientsUser, PlainText};

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

/// The file with the authorities of clients' certificates, if these are to be looked at. Without both settings a certificate would mean less than its owner thinks.
pub(super) fn clients(
    has_certificate: bool,
    authorities: Option<PathBuf>,
    user: Option<ClientsUser>,
) -> Result<Option<PathBuf>, String> {
    match (authorities, user) {
        (None, None) => Ok(None),
        (Some(_), None) => {
            Err("--tls-client-ca FILE needs --tls-auth-clients-user cn: their common names are users' names".to_owned())
        }
        (None, Some(ClientsUser::Cn)) => {
            Err("--tls-auth-clients-user needs --tls-client-ca FILE, with the authority of clients' certificates"
                .to_owned())
        }
        (Some(_), Some(ClientsUser::Cn)) if !has_certificate => Err(
            "--tls-client-ca is for clients under TLS, and this node has no certificate: give it --tls-ca FOLDER (dictum init makes one), or --tls-cert FILE and --tls-key FILE".to_owned(),
        ),
        (authorities, Some(ClientsUser::Cn)) => Ok(authorities),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_together_is_asked_for() {
        let path = |name: &str| Some(PathBuf::from(name));
        assert_eq!(clients(false, None, None), Ok(None));
        assert_eq!(clients(true, path("a"), Some(ClientsUser::Cn)), Ok(path("a")));
        for (has_certificate, authorities, user, missing) in [
            (true, path("a"), None, "--tls-auth-clients-user cn"),
            (true, None, Some(ClientsUser::Cn), "--tls-client-ca FILE"),
            (false, path("a"), Some(ClientsUser::Cn), "--tls-ca FOLDER"),
        ] {
            let said = clients(has_certificate, authorities, user).expect_err(missing);
            assert!(said.contains(missing), "{said}");
        }
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
