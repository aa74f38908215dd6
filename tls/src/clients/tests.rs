use std::collections::VecDeque;
use std::time::Duration;

use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore};

use super::*;
use crate::Authority;

/// Clients look at the real clock.
fn now() -> Duration {
    let now = rustls::pki_types::UnixTime::now();
    Duration::from_secs(now.as_secs())
}

/// One direction of a connection: it takes at most `most` bytes at a time, and as many more arrive each time that nothing was there.
struct Pipe {
    bytes: VecDeque<u8>,
    most: usize,
    ready: usize,
    has_ended: bool,
}

impl Pipe {
    fn new(most: usize) -> Pipe {
        Pipe { bytes: VecDeque::new(), most, ready: most, has_ended: false }
    }
}

impl Read for Pipe {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = buffer.len().min(self.ready).min(self.bytes.len());
        self.ready -= count;
        if count == 0 && !(self.has_ended && self.bytes.is_empty()) {
            self.ready = self.most;
            return Err(ErrorKind::WouldBlock.into());
        }
        for place in &mut buffer[..count] {
            *place = self.bytes.pop_front().unwrap_or_default();
        }
        Ok(count)
    }
}

/// A socket: what comes in, and what goes out.
struct Ends<'a>(&'a mut Pipe, &'a mut Pipe);

impl Read for Ends<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Ends<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(self.1.most);
        self.1.bytes.extend(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Pair {
    client: ClientConnection,
    to_node: Pipe,
    to_client: Pipe,
    /// What has come to the client.
    came: Vec<u8>,
}

fn node() -> (ClientTls, String) {
    let (own, key) = Authority::generate(now()).expect("made");
    let authority = Authority::from_pem(own.as_bytes(), key.as_bytes(), now()).expect("it is whole");
    let certificate = authority.issue(&["localhost".to_owned()], now()).expect("issued");
    (ClientTls::new(certificate, None, None).expect("settings"), own)
}

fn client(authority: &str) -> ClientConnection {
    let mut config = settings_of(authority);
    config.resumption = Resumption::disabled();
    connection(&Arc::new(config))
}

fn connection(config: &Arc<ClientConfig>) -> ClientConnection {
    ClientConnection::new(Arc::clone(config), ServerName::try_from("localhost").expect("a name")).expect("begun")
}

fn settings_of(authority: &str) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).expect("PEM")).expect("an authority");
    let provider = CryptoProvider { kx_groups: vec![kx_group::X25519MLKEM768, kx_group::X25519], ..default_provider() };
    ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&TLS13])
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth()
}

impl Pair {
    /// The client writes what it has to say, and reads what there is.
    fn client_turn(&mut self) -> Result<(), String> {
        while self.client.wants_write() {
            self.client
                .write_tls(&mut Ends(&mut self.to_client, &mut self.to_node))
                .map_err(|error| error.to_string())?;
        }
        loop {
            match self.client.read_tls(&mut self.to_client) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error.to_string()),
            }
            self.client.process_new_packets().map_err(|error| error.to_string())?;
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = self.client.reader().read(&mut buffer) {
                self.came.extend_from_slice(&buffer[..count]);
            }
        }
    }

    fn shake_hands(node: &ClientTls, authority: &str, most: usize) -> Result<(Pair, ClientSession), String> {
        Pair::shake_hands_of(client(authority), node, most)
    }

    fn shake_hands_of(
        client: ClientConnection,
        node: &ClientTls,
        most: usize,
    ) -> Result<(Pair, ClientSession), String> {
        let mut pair = Pair { client, to_node: Pipe::new(most), to_client: Pipe::new(most), came: Vec::new() };
        pair.client_turn()?;
        // As on the loop: some bytes are read before it is known what they are.
        let first: Vec<u8> = pair.to_node.bytes.drain(..most.min(pair.to_node.bytes.len())).collect();
        let mut handshake = Box::new(node.answer(first)?);
        for _ in 0..10_000 {
            match handshake.advance(&mut Ends(&mut pair.to_node, &mut pair.to_client)) {
                Ok(ClientProgress::Done(session)) => {
                    pair.client_turn()?;
                    return Ok((pair, *session));
                }
                Ok(ClientProgress::Waits(waits)) => handshake = waits,
                Err(failure) => return Err(failure.reason),
            }
            pair.client_turn()?;
        }
        Err("it never ends".to_owned())
    }
}

/// A client that comes back is known at any node with the same secret, and shows a certificate anew where nodes ask for one.
#[test]
fn sessions_go_on_at_every_node_of_a_cluster() {
    let (own, key) = Authority::generate(now()).expect("made");
    let authority = Authority::from_pem(own.as_bytes(), key.as_bytes(), now()).expect("it is whole");
    let node = |secret: Option<&ClusterSecret>, asks: bool| {
        let certificate = authority.issue(&["localhost".to_owned()], now()).expect("issued");
        let asks = asks.then(|| ClientAuthorities::from_pem(own.as_bytes()).expect("an authority"));
        ClientTls::new(certificate, asks, secret.cloned()).expect("settings")
    };
    let (secret, another) =
        (ClusterSecret::generate().expect("a secret"), ClusterSecret::generate().expect("another one"));
    let (one, ours) = (node(Some(&secret), false), Some(&secret));
    for (other, goes_on) in [
        (node(ours, false), true),
        (node(Some(&another), false), false),
        (node(None, false), false),
        (node(ours, true), false),
    ] {
        let config = Arc::new(settings_of(&own));
        let (first, _) = Pair::shake_hands_of(connection(&config), &one, 1 << 20).expect("hands are shaken");
        assert_eq!(first.client.handshake_kind(), Some(HandshakeKind::Full));
        let (second, session) = Pair::shake_hands_of(connection(&config), &other, 1 << 20).expect("hands are shaken");
        assert_eq!(second.client.handshake_kind() == Some(HandshakeKind::Resumed), goes_on);
        assert_eq!(session.terms(), "1.3/X25519MLKEM768", "keys are agreed on anew");
    }
}

#[test]
fn what_is_written_arrives_however_it_is_cut() {
    let (node, authority) = node();
    for most in [1, 7, 1000, 1 << 20] {
        let (mut pair, mut session) = Pair::shake_hands(&node, &authority, most).expect("hands are shaken");
        assert_eq!(session.terms(), "1.3/X25519MLKEM768");
        let sent: Vec<u8> = (0..300_000_u32).map(|number| (number % 251) as u8).collect();
        let (mut written, mut arrived, mut buffer) = (0, Vec::new(), vec![0; 100_000]);
        while arrived.len() < sent.len() {
            if written < sent.len() {
                written += pair.client.writer().write(&sent[written..]).expect("taken");
            }
            pair.client_turn().expect("sent");
            loop {
                match session.read(&mut pair.to_node, &mut buffer) {
                    Ok(count) => {
                        assert!(count > 0);
                        arrived.extend_from_slice(&buffer[..count]);
                        if !session.may_have_more() {
                            let again = session.read(&mut pair.to_node, &mut buffer).expect_err("nothing is left");
                            assert_eq!(again.kind(), ErrorKind::WouldBlock);
                            break;
                        }
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => panic!("{error}"),
                }
            }
        }
        assert!(arrived == sent);
        // And back.
        let mut taken = 0;
        while pair.came.len() < sent.len() {
            match session.write(&mut pair.to_client, &sent[taken..]) {
                Ok(count) => taken += count,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
            pair.client_turn().expect("read");
        }
        assert!(pair.came == sent);
        session.close(&mut pair.to_client);
        while !pair.to_client.bytes.is_empty() {
            pair.client_turn().expect("read");
        }
        assert_eq!(pair.client.reader().read(&mut buffer).expect("an end in order"), 0);
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(self.most);
        self.bytes.extend(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn an_end_without_a_word_is_told_from_one_in_order() {
    let (node, authority) = node();
    let mut buffer = vec![0; 100_000];
    for in_order in [false, true] {
        let (mut pair, mut session) = Pair::shake_hands(&node, &authority, 1 << 20).expect("hands are shaken");
        pair.client.writer().write_all(b"PING").expect("taken");
        if in_order {
            pair.client.send_close_notify();
        }
        pair.client_turn().expect("sent");
        pair.to_node.has_ended = true;
        assert_eq!(session.read(&mut pair.to_node, &mut buffer).expect("what came before"), 4);
        assert_eq!(session.may_have_more(), in_order, "a poll tells of the end of a socket, and of nothing else");
        let end = session.read(&mut pair.to_node, &mut buffer);
        match in_order {
            true => assert_eq!(end.expect("in order"), 0),
            false => assert_eq!(end.expect_err("cut off").kind(), ErrorKind::UnexpectedEof),
        }
    }
}

#[test]
fn a_changed_byte_ends_the_session_behind_what_came_before() {
    let (node, authority) = node();
    let mut buffer = vec![0; 100_000];
    let (mut pair, mut session) = Pair::shake_hands(&node, &authority, 1 << 20).expect("hands are shaken");
    pair.client.writer().write_all(b"first").expect("taken");
    pair.client_turn().expect("sent");
    pair.client.writer().write_all(b"second").expect("taken");
    pair.client_turn().expect("sent");
    *pair.to_node.bytes.back_mut().expect("there are some") ^= 1;
    let mut arrived = Vec::new();
    let error = loop {
        match session.read(&mut pair.to_node, &mut buffer) {
            Ok(count) => arrived.extend_from_slice(&buffer[..count]),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::InvalidData);
    assert!(b"first".starts_with(&arrived), "what was changed is not seen");
    assert_eq!(session.read(&mut pair.to_node, &mut buffer).expect_err("for ever").kind(), ErrorKind::InvalidData);
}

#[test]
fn garbage_and_what_never_ends_is_refused() {
    let (node, _) = node();
    let mut garbage = vec![0x16, 3, 1, 0x40, 0];
    garbage.extend((0..200_000_u32).map(|number| (number * 7) as u8));
    let (mut to_node, mut to_client) = (Pipe::new(1000), Pipe::new(1000));
    to_node.bytes.extend(&garbage);
    let mut handshake = Box::new(node.answer(Vec::new()).expect("begun"));
    while let Ok(progress) = handshake.advance(&mut Ends(&mut to_node, &mut to_client)) {
        match progress {
            ClientProgress::Waits(waits) => handshake = waits,
            ClientProgress::Done(_) => panic!("garbage is no handshake"),
        }
    }
    assert!(garbage.len() - to_node.bytes.len() <= HANDSHAKE_BYTES_MAX + 20_000);
}

#[test]
fn another_certificate_is_shown_from_then_on() {
    let (node, authority) = node();
    let (mut pair, mut session) = Pair::shake_hands(&node, &authority, 1 << 20).expect("hands are shaken");
    let (own, key) = Authority::generate(now()).expect("made");
    let other = Authority::from_pem(own.as_bytes(), key.as_bytes(), now()).expect("it is whole");
    node.show(other.issue(&["localhost".to_owned()], now()).expect("issued"));
    assert!(Pair::shake_hands(&node, &authority, 1 << 20).is_err(), "the former authority vouches for it no more");
    assert!(Pair::shake_hands(&node, &own, 1 << 20).is_ok());
    pair.client.writer().write_all(b"PING").expect("taken");
    pair.client_turn().expect("sent");
    assert_eq!(session.read(&mut pair.to_node, &mut vec![0; 100_000]).expect("it goes on"), 4);
}

#[test]
fn what_comes_behind_the_end_of_a_session_holds_nobody_up() {
    let (node, authority) = node();
    let mut buffer = vec![0; 100_000];
    let (mut pair, mut session) = Pair::shake_hands(&node, &authority, 1 << 20).expect("hands are shaken");
    pair.client.writer().write_all(b"PING").expect("taken");
    pair.client.send_close_notify();
    pair.client_turn().expect("sent");
    pair.to_node.bytes.extend(vec![0x17; 60_000]);
    assert_eq!(session.read(&mut pair.to_node, &mut buffer).expect("what came before"), 4);
    assert!(session.may_have_more());
    assert_eq!(session.read(&mut pair.to_node, &mut buffer).expect("an end in order"), 0);
}

/// Whatever the node reads at a time, and however little of it comes at a time.
#[test]
fn a_client_may_begin_with_a_long_command() {
    let (node, authority) = node();
    for (room, most) in
        [(40_000, 1 << 20), (100_000, 70_000), (262_144, 1 << 20), (262_144, 145_000), (1 << 20, 1 << 20)]
    {
        let (mut pair, mut session) = Pair::shake_hands(&node, &authority, most).expect("hands are shaken");
        pair.client.set_buffer_limit(None);
        let long: Vec<u8> = (0..900_000_u32).map(|number| (number % 251) as u8).collect();
        pair.client.writer().write_all(&long).expect("taken");
        pair.client_turn().expect("sent");
        let (mut buffer, mut came) = (vec![0; room], Vec::new());
        while came.len() < long.len() {
            match session.read(&mut pair.to_node, &mut buffer) {
                Ok(count) => came.extend_from_slice(&buffer[..count]),
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
                Err(error) => panic!("{error} after {} bytes, {room} at a time", came.len()),
            }
        }
        assert!(came == long, "{room} at a time");
    }
}

#[test]
fn a_client_that_says_hardly_anything_ends() {
    let (node, authority) = node();
    let mut buffer = vec![0; 100_000];
    let (mut pair, mut session) = Pair::shake_hands(&node, &authority, 1 << 20).expect("hands are shaken");
    let (mut calls, mut given) = (0, 0);
    let error = loop {
        for _ in 0..1000 {
            pair.client.refresh_traffic_keys().expect("other keys");
            pair.client.writer().write_all(b"x").expect("taken");
            pair.client_turn().expect("sent");
        }
        calls += 1;
        match session.read(&mut pair.to_node, &mut buffer) {
            Ok(count) => given += count,
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
            Err(error) => break error,
        }
        assert!(calls < 1000, "it goes on for ever");
    };
    assert_eq!(error.kind(), ErrorKind::InvalidData);
    assert!(error.to_string().contains("hardly any content") && given > 1000, "{error} after {given}");
}
