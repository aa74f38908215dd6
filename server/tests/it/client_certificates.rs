//! Clients whose certificate says which user they are. The certificates are made by openssl, with the commands of docs/security.md.

#![allow(clippy::disallowed_methods, reason = "tests of real processes use real files")]

use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, HandshakeKind};
use tempfile::tempdir;
use wire::Value;

use crate::client_tls::{Secured, call, init, secured_by, start, trusting};
use crate::common::{Client, output, wait_for};

/// Runs openssl in a folder.
fn openssl(folder: &Path, line: &str) {
    let mut command = Command::new("openssl");
    command.args(line.split(' ')).current_dir(folder);
    let made = output(command);
    assert!(made.status.success(), "{line}: {}", String::from_utf8_lossy(&made.stderr));
}

/// An authority for clients.
fn make_authority(folder: &Path, name: &str) {
    openssl(
        folder,
        &format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650 -subj /CN=clients -addext keyUsage=critical,keyCertSign -keyout {name}.key -out {name}.pem"
        ),
    );
}

/// A certificate of that authority, for a user.
fn make_certificate(folder: &Path, authority: &str, user: &str, usage: &str) {
    openssl(
        folder,
        &format!(
            "req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN={user} -keyout {user}.key -out {user}.csr"
        ),
    );
    std::fs::write(folder.join("client.ext"), format!("basicConstraints=CA:FALSE\nextendedKeyUsage={usage}\n"))
        .expect("written");
    openssl(
        folder,
        &format!(
            "x509 -req -in {user}.csr -CA {authority}.pem -CAkey {authority}.key -CAcreateserial -days 365 -extfile client.ext -out {user}.pem"
        ),
    );
}

/// Settings of a client that shows the certificate of this name.
fn showing(folder: &Path, name: &str, authority: &Path) -> Arc<ClientConfig> {
    let own = CertificateDer::from_pem_file(folder.join(format!("{name}.pem"))).expect("a certificate");
    let key = PrivateKeyDer::from_pem_file(folder.join(format!("{name}.key"))).expect("a key");
    Arc::new(trusting(authority).with_client_auth_cert(vec![own], key).expect("they fit"))
}

fn told(client: &mut Secured, words: &[&[u8]]) -> String {
    match call(client, words).expect("an answer") {
        Value::Error(text) | Value::Simple(text) => text,
        value => String::from_utf8_lossy(value.as_bytes().unwrap_or_default()).into_owned(),
    }
}

fn http(client: &mut Secured, line: &str, more: &str) -> String {
    let request = format!("{line} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n{more}\r\n");
    client.write_all(request.as_bytes()).expect("written");
    let mut buffer = [0; 4096];
    let count = client.read(&mut buffer).expect("an answer");
    String::from_utf8_lossy(&buffer[..count]).into_owned()
}

#[test]
fn a_certificate_is_a_login() {
    if Command::new("openssl").arg("version").output().is_err() {
        eprintln!("skipped: openssl is not installed");
        return;
    }
    let (_folder, authority) = init();
    let folder = tempdir().expect("a temporary folder");
    let made = folder.path();
    make_authority(made, "clients-ca");
    make_authority(made, "others-ca");
    for user in ["ann", "nobody", "off"] {
        make_certificate(made, "clients-ca", user, "clientAuth");
    }
    make_certificate(made, "others-ca", "eve", "clientAuth");
    make_certificate(made, "clients-ca", "server", "serverAuth");
    let clients = made.join("clients-ca.pem");
    let clients = clients.to_string_lossy();
    let node =
        start(&authority, &["--tls-client-ca", &clients, "--tls-auth-clients-user", "CN", "--password", "geheim"]);
    let mut admin = wait_for("a node that answers", || {
        let mut client = Client::connect(&node.resp).ok()?;
        client.call(&["AUTH", "geheim"]).ok()?;
        (client.call(&["SET", "k", "v"]).ok()? == Value::ok()).then_some(client)
    });
    wait_for("the version", || admin.call(&["ACL", "DELUSER", "x"]).ok().filter(|it| *it == Value::Integer(0)));
    for rules in [
        &["ann", "on", ">long", "~*", "+@read", "+acl|whoami", "+client|info"][..],
        &["off", "off", "nopass", "~*", "+@all"],
        &["server", "on", ">long", "~*", "+@all"],
        &["eve", "on", ">long", "~*", "+@all"],
    ] {
        let words = [&["ACL", "SETUSER"], rules].concat();
        assert_eq!(admin.call(&words).expect("a reply"), Value::ok());
    }
    let ann = showing(made, "ann", &authority);
    let mut client = secured_by(&ann, &node.resp).expect("it listens");
    assert_eq!(told(&mut client, &[b"ACL", b"WHOAMI"]), "ann");
    assert_eq!(told(&mut client, &[b"GET", b"k"]), "v");
    assert_eq!(told(&mut client, &[b"SET", b"k", b"w"]), "NOPERM User ann has no permissions to run the 'set' command");
    let info = told(&mut client, &[b"CLIENT", b"INFO"]);
    assert!(info.contains(" user=ann ") && info.trim_end().ends_with(" tls=1.3/X25519MLKEM768"), "{info}");
    let list = admin.call(&["CLIENT", "LIST"]).expect("a reply");
    let list = String::from_utf8_lossy(list.as_bytes().expect("text")).into_owned();
    assert!(list.contains(" tls=1.3/X25519MLKEM768\n") && list.contains(" tls=none\n"), "{list}");
    // One that comes back without a signature is the same user.
    let mut again = secured_by(&ann, &node.resp).expect("it listens");
    assert_eq!(told(&mut again, &[b"ACL", b"WHOAMI"]), "ann");
    assert_eq!(again.conn.handshake_kind(), Some(HandshakeKind::Resumed));
    // Over HTTP, too; what is shown there counts before the certificate.
    let mut web = secured_by(&ann, &node.http).expect("it listens");
    let heard = http(&mut web, "GET /v1/keys/k", "");
    assert!(heard.starts_with("HTTP/1.1 200 ") && heard.ends_with("\r\nv"), "{heard}");
    let heard = http(&mut web, "DELETE /v1/keys/k", "");
    assert!(
        heard.starts_with("HTTP/1.1 403 ")
            && heard.contains("User ann has no permissions to run the 'dictum.del' command"),
        "{heard}"
    );
    let heard = http(&mut web, "GET /v1/keys/k", "Authorization: Bearer wrong\r\n");
    assert!(heard.starts_with("HTTP/1.1 401 "), "{heard}");
    // Those who show none, or that of no user, log in as ever.
    let none = Arc::new(trusting(&authority).with_no_client_auth());
    for config in [none, showing(made, "nobody", &authority), showing(made, "off", &authority)] {
        let mut client = secured_by(&config, &node.resp).expect("it listens");
        assert_eq!(told(&mut client, &[b"GET", b"k"]), "NOAUTH Authentication required.");
        assert_eq!(told(&mut client, &[b"AUTH", b"geheim"]), "OK");
        let mut web = secured_by(&config, &node.http).expect("it listens");
        assert!(http(&mut web, "GET /v1/keys/k", "").starts_with("HTTP/1.1 401 "));
    }
    // Certificates of another authority, and those that are not for clients, are refused.
    for name in ["eve", "server"] {
        let config = showing(made, name, &authority);
        for address in [&node.resp, &node.http] {
            let mut client = secured_by(&config, address).expect("it listens");
            let refused = call(&mut client, &[b"PING"]).expect_err("it is closed");
            // The alert that says why is lost where the socket was closed before all was read of it.
            let is_cut = [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe].contains(&refused.kind());
            assert!(is_cut || refused.to_string().contains("received fatal alert"), "{name}: {refused}");
        }
    }
    // redis-cli has the flags for it.
    let mut command = Command::new("redis-cli");
    let (_, port) = node.resp.rsplit_once(':').expect("a port");
    command.args(["--tls", "-h", "127.0.0.1", "-p", port, "--cacert"]).arg(authority.join("ca.pem"));
    command.arg("--cert").arg(made.join("ann.pem")).arg("--key").arg(made.join("ann.key")).args(["ACL", "WHOAMI"]);
    match command.output() {
        Ok(said) => assert_eq!(String::from_utf8_lossy(&said.stdout).trim(), "ann", "{said:?}"),
        Err(error) => eprintln!("without redis-cli: {error}"),
    }
    // A user that is off comes in no more; without the user the connection ends.
    assert_eq!(admin.call(&["ACL", "SETUSER", "ann", "off"]).expect("a reply"), Value::ok());
    let mut late = secured_by(&ann, &node.resp).expect("it listens");
    assert_eq!(told(&mut late, &[b"GET", b"k"]), "NOAUTH Authentication required.");
    assert_eq!(admin.call(&["ACL", "DELUSER", "ann"]).expect("a reply"), Value::Integer(1));
    wait_for("the end of the connection", || call(&mut client, &[b"PING"]).is_err().then_some(()));
    assert!(node.process.stop());
}
