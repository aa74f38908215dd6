//! Clients that speak TLS, at the ports where others speak in plain text.

#![allow(clippy::disallowed_methods, reason = "tests of real processes use real files")]

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use rustls::client::WantsClientCert;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::kx_group;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, ConfigBuilder, RootCertStore, StreamOwned};
use tempfile::{TempDir, tempdir};
use wire::{ReplyLimits, ReplyParser, Value, encode_command};

use crate::common::process::Process;
use crate::common::{Client, dictum, eventually, failure, free_ports, output, wait_for};
use crate::start::start_command;

pub type Secured = StreamOwned<ClientConnection, TcpStream>;

/// Makes a secret and an authority. The second is its folder.
pub fn init() -> (TempDir, PathBuf) {
    let folder = tempdir().expect("a temporary folder");
    let made = output(dictum(&["init", "--dir", &folder.path().to_string_lossy()]));
    assert!(made.status.success(), "{made:?}");
    let authority = folder.path().join("tls");
    (folder, authority)
}

pub struct Node {
    pub process: Process,
    pub resp: String,
    pub http: String,
    _dir: TempDir,
}

/// A node alone that shows a certificate of this authority.
pub fn start(authority: &Path, more: &[&str]) -> Node {
    wait_for("a node", || {
        let [resp, http, peer] = free_ports();
        let dir = tempdir().expect("a temporary folder");
        let mut command = start_command(dir.path(), [resp, http, peer], more);
        command.args(["--tls-ca", &authority.to_string_lossy()]);
        let process = Process::start(command).ok()?;
        Some(Node { process, resp: format!("127.0.0.1:{resp}"), http: format!("127.0.0.1:{http}"), _dir: dir })
    })
}

fn secured(address: &str, authority: &Path) -> io::Result<Secured> {
    secured_by(&Arc::new(trusting(authority).with_no_client_auth()), address)
}

/// Settings of a client that trusts this authority.
pub fn trusting(authority: &Path) -> ConfigBuilder<ClientConfig, WantsClientCert> {
    let mut roots = RootCertStore::empty();
    let own = CertificateDer::from_pem_file(authority.join("ca.pem")).expect("a certificate");
    roots.add(own).expect("an authority");
    let provider = CryptoProvider {
        kx_groups: vec![kx_group::X25519MLKEM768, kx_group::X25519],
        ..rustls::crypto::aws_lc_rs::default_provider()
    };
    ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("versions")
        .with_root_certificates(roots)
}

pub fn secured_by(config: &Arc<ClientConfig>, address: &str) -> io::Result<Secured> {
    let (host, _) = address.rsplit_once(':').expect("a host");
    let name = ServerName::try_from(host.to_owned()).expect("a name");
    let connection = ClientConnection::new(Arc::clone(config), name).expect("begun");
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    Ok(StreamOwned::new(connection, stream))
}

fn receive(stream: &mut impl Read, parser: &mut ReplyParser) -> io::Result<Value> {
    let mut buffer = vec![0; 100_000];
    loop {
        if let Some(value) = parser.next().map_err(|error| io::Error::new(ErrorKind::InvalidData, error.to_string()))? {
            return Ok(value);
        }
        match stream.read(&mut buffer)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            count => parser.push(&buffer[..count]),
        }
    }
}

pub fn call(stream: &mut Secured, words: &[&[u8]]) -> io::Result<Value> {
    let mut bytes = Vec::new();
    encode_command(&mut bytes, words);
    stream.write_all(&bytes)?;
    receive(stream, &mut ReplyParser::new(ReplyLimits::default()))
}

/// The node's answer to these bytes, until it closes the connection.
fn said_to(address: &str, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a time limit");
    // It may have closed the connection already.
    let _ = stream.write_all(bytes);
    let mut heard = Vec::new();
    if let Err(error) = stream.read_to_end(&mut heard) {
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "it closes the connection");
    }
    String::from_utf8_lossy(&heard).into_owned()
}

#[test]
fn commands_go_through_tls_whole_by_the_loop_and_by_porters() {
    let (_folder, authority) = init();
    for threads in ["1", "2"] {
        let node = start(&authority, &["--io-threads", threads]);
        assert_eq!(eventually(&node.resp, &["SET", "plain", "v"]), Value::ok());
        let mut client = secured(&node.resp, &authority).expect("it listens");
        assert_eq!(call(&mut client, &[b"GET", b"plain"]).expect("an answer"), Value::Bulk(b"v"[..].into()));
        let long: Vec<u8> = (0..5_000_000_u32).map(|number| (number % 251) as u8).collect();
        assert_eq!(call(&mut client, &[b"SET", b"long", &long]).expect("an answer"), Value::ok());
        assert_eq!(call(&mut client, &[b"GET", b"long"]).expect("an answer"), Value::Bulk(long));
        // Many at once, whose answers are read when all are written.
        let (mut bytes, mut parser) = (Vec::new(), ReplyParser::new(ReplyLimits::default()));
        for number in 0..3000 {
            encode_command(&mut bytes, ["RPUSH".to_owned(), format!("list:{threads}"), number.to_string()]);
        }
        client.write_all(&bytes).expect("written");
        for number in 1..=3000 {
            assert_eq!(receive(&mut client, &mut parser).expect("an answer"), Value::Integer(number));
        }
        // The end is one in order: nothing was cut off.
        assert_eq!(call(&mut client, &[b"QUIT"]).expect("an answer"), Value::ok());
        assert_eq!(client.read(&mut [0; 10]).expect("an end in order"), 0);
        assert!(node.process.stop());
    }
}

#[test]
fn clients_that_come_at_once_are_all_served_and_leave_nothing_behind() {
    let (_folder, authority) = init();
    let node = start(&authority, &["--maxclients", "300"]);
    assert_eq!(eventually(&node.resp, &["SET", "k", "v"]), Value::ok());
    let mut plain = Client::connect(&node.resp).expect("it listens");
    for _ in 0..2 {
        let clients: Vec<_> = (0..200)
            .map(|number: u32| {
                let (resp, authority) = (node.resp.clone(), authority.clone());
                thread::spawn(move || {
                    if number.is_multiple_of(4) {
                        // It goes amid its handshake.
                        let mut stream = TcpStream::connect(&resp).expect("it listens");
                        stream.write_all(&[tls::FIRST_BYTE, 3, 1, 1, 0]).expect("written");
                        return;
                    }
                    let mut client = secured(&resp, &authority).expect("it listens");
                    assert_eq!(
                        call(&mut client, &[b"INCR", b"n"]).map(|value| matches!(value, Value::Integer(_))).ok(),
                        Some(true)
                    );
                })
            })
            .collect();
        clients.into_iter().for_each(|client| client.join().expect("it is served"));
        wait_for("the places of all that have gone", || {
            let Ok(Value::Bulk(list)) = plain.call(&["CLIENT", "LIST"]) else { return None };
            (list.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count() == 1).then_some(())
        });
    }
    assert_eq!(plain.call(&["GET", "n"]).expect("an answer"), Value::Bulk(b"300"[..].into()));
    assert!(node.process.stop());
}

#[test]
fn http_is_served_under_tls_too() {
    let (_folder, authority) = init();
    let node = start(&authority, &[]);
    assert_eq!(eventually(&node.resp, &["SET", "k", "v"]), Value::ok());
    let mut client = secured(&node.http, &authority).expect("it listens");
    for _ in 0..2 {
        client.write_all(b"GET /v1/buckets/default/keys/k HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("written");
        let mut heard = Vec::new();
        while !heard.ends_with(b"v") {
            let mut buffer = [0; 4096];
            let count = client.read(&mut buffer).expect("an answer");
            assert!(count > 0, "{}", String::from_utf8_lossy(&heard));
            heard.extend_from_slice(&buffer[..count]);
        }
        assert!(heard.starts_with(b"HTTP/1.1 200 OK"), "{}", String::from_utf8_lossy(&heard));
    }
    assert!(said_to(&node.http, b"GET /livez HTTP/1.0\r\n\r\n").contains(" 200 OK"), "plain text, too");
    assert!(node.process.stop());
}

#[test]
fn plain_text_is_refused_where_it_may_not_be() {
    let (_folder, authority) = init();
    let node = start(&authority, &["--plaintext", "never"]);
    let mut client = wait_for("a node that answers", || {
        let mut client = secured(&node.resp, &authority).ok()?;
        (call(&mut client, &[b"SET", b"k", b"v"]).ok()? == Value::ok()).then_some(client)
    });
    let said = said_to(&node.resp, b"*1\r\n$4\r\nPING\r\n");
    assert!(said.starts_with("-DENIED") && said.contains("rediss://"), "{said}");
    let said = said_to(&node.http, b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(said.starts_with("HTTP/1.1 426 ") && said.contains("https://"), "{said}");
    // Nor does garbage that begins like TLS get any further.
    for length in [0_u16, 1, 300, 16_000] {
        let mut garbage = vec![tls::FIRST_BYTE, 3, 1];
        garbage.extend(length.to_be_bytes());
        garbage.extend((0..length).map(|number| number.wrapping_mul(7) as u8));
        let mut stream = TcpStream::connect(&node.resp).expect("it listens");
        stream.write_all(&garbage).and_then(|()| stream.shutdown(Shutdown::Write)).expect("written");
        let mut heard = Vec::new();
        let _ = stream.read_to_end(&mut heard);
        assert!(heard.len() < 100, "an alert at the most: {heard:?}");
    }
    assert_eq!(call(&mut client, &[b"GET", b"k"]).expect("an answer"), Value::Bulk(b"v"[..].into()));
    let own = authority.join("ca.pem");
    let asked = |words: &[&str]| {
        let asked = output(dictum(&[words, &["--at", &node.resp, "--cacert", &own.to_string_lossy()]].concat()));
        (asked.status.code(), String::from_utf8_lossy(&asked.stdout).into_owned())
    };
    let (code, said) = asked(&["status"]);
    assert!(code == Some(0) && said.contains("n1"), "{said}");
    let (code, said) = asked(&["bucket", "list"]);
    assert!(code == Some(0) && said.contains("default"), "{said}");
    let cli = ["cli", "--at", &node.resp, "--cacert", &own.to_string_lossy(), "GET", "k"];
    assert_eq!(String::from_utf8_lossy(&output(dictum(&cli)).stdout), "v\n");
    let said = failure(dictum(&["status", "--at", &node.resp]));
    assert!(said.contains("DENIED") && said.contains("--cacert"), "it says the way in: {said}");
    assert!(node.process.stop());
}

#[test]
fn another_certificate_is_read_without_a_restart() {
    let ((_folder, authority), (_other, other)) = (init(), init());
    let node = start(&authority, &[]);
    assert_eq!(eventually(&node.resp, &["SET", "k", "v"]), Value::ok());
    let mut client = secured(&node.resp, &authority).expect("it listens");
    assert_eq!(call(&mut client, &[b"PING"]).expect("an answer"), Value::Simple("PONG".into()));
    // One that is not whole changes nothing.
    let own = std::fs::read(authority.join("ca.pem")).expect("read");
    std::fs::write(authority.join("ca.pem"), "half").expect("written");
    node.process.send(Signal::HUP);
    wait_for("a complaint", || node.process.has_said("stays as it was").then_some(()));
    std::fs::write(authority.join("ca.pem"), own).expect("written");
    assert!(secured(&node.resp, &authority).and_then(|mut client| call(&mut client, &[b"PING"])).is_ok());
    for name in ["ca.key", "ca.pem"] {
        std::fs::copy(other.join(name), authority.join(name)).expect("copied");
    }
    node.process.send(Signal::HUP);
    wait_for("the other certificate", || {
        secured(&node.resp, &other).and_then(|mut client| call(&mut client, &[b"PING"])).ok()
    });
    assert_eq!(call(&mut client, &[b"GET", b"k"]).expect("it goes on"), Value::Bulk(b"v"[..].into()));
    assert!(node.process.stop());
}

#[test]
fn what_cannot_be_a_certificate_is_said_at_the_start() {
    let (folder, authority) = init();
    let dir = folder.path().join("n1");
    let [resp, http, peer] = free_ports();
    let refused = |more: &[&str]| {
        let mut command = start_command(&dir, [resp, http, peer], more);
        command.stderr(std::process::Stdio::piped());
        failure(command)
    };
    let said = refused(&["--tls-ca", &folder.path().to_string_lossy()]);
    assert!(said.contains("--tls-ca") && said.contains("ca.pem"), "{said}");
    let said = refused(&["--tls-cert", &authority.join("ca.pem").to_string_lossy()]);
    assert!(said.contains("--tls-key"), "{said}");
    let said = refused(&["--plaintext", "never"]);
    assert!(said.contains("--tls-ca"), "{said}");
    // Names that are none of hosts are left out of the certificate.
    let ca = authority.to_string_lossy();
    let odd = Node {
        process: wait_for("a node", || {
            let [resp, http, peer] = free_ports();
            let more = ["--tls-ca", &ca, "--http-host", "*.example.com,*", "--peer-announce", &format!("[::1]:{peer}")];
            Process::start(start_command(&folder.path().join("odd"), [resp, http, peer], &more)).ok()
        }),
        resp: String::new(),
        http: String::new(),
        _dir: tempdir().expect("a temporary folder"),
    };
    assert!(odd.process.stop());
    // What is missing is made, and nothing is made over what is there.
    std::fs::remove_dir_all(&authority).expect("removed");
    let again = output(dictum(&["init", "--dir", &folder.path().to_string_lossy()]));
    assert!(again.status.success() && authority.join("ca.pem").exists(), "{again:?}");
    let said = failure(dictum(&["init", "--dir", &folder.path().to_string_lossy()]));
    assert!(said.contains("was not touched"), "{said}");
}
