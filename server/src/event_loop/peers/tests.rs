//! Links between nodes over real sockets, each node with a poll of its own and stepped by the test.

use std::io::{Read, Write};
use std::time::Instant;

use mio::{Events, Poll};

use base::versions::NEWEST;
use wire::FrameWriter;

use tls::{ClusterSecret, NodeKey};

use super::super::{Control, Frame, PEER};
use super::*;
use crate::clock::Clock;
use crate::peer_tls::{PeerSecurity, PeerTlsMode};

const FIRST_TOKEN: usize = 16;
const PATIENCE: Duration = Duration::from_secs(30);

/// What the node was told.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Told {
    Up(u16),
    Down(u16),
    Message(u16, Vec<u8>),
}

struct Rig {
    poll: Poll,
    clock: Clock,
    listener: TcpListener,
    peers: Peers,
    buffer: Vec<u8>,
    told: Vec<Told>,
    /// The versions of its links, in the order in which they were made.
    spoken: Vec<(u16, LinkTerms)>,
    frame: Frame,
    key: Option<KeyHash>,
}

/// Free ports for a cluster; the listeners hold them.
fn listeners(count: usize) -> (Vec<TcpListener>, Vec<Member>) {
    let listeners: Vec<TcpListener> =
        (0..count).map(|_| TcpListener::bind("127.0.0.1:0".parse().expect("an address")).expect("a port")).collect();
    let members = listeners.iter().enumerate().map(|(index, listener)| Member {
        name: format!("n{index}"),
        peer_address: listener.local_addr().expect("it is bound").to_string(),
    });
    let members = members.collect();
    (listeners, members)
}

impl Rig {
    fn new(listener: TcpListener, members: &[Member], me: u16, cluster: u64) -> Rig {
        Rig::speaking(listener, members, me, cluster, (Versions::ALL, OLDEST))
    }

    /// One that speaks these, in a cluster of that version.
    fn speaking(
        mut listener: TcpListener,
        members: &[Member],
        me: u16,
        cluster: u64,
        (speaks, version): (Versions, u16),
    ) -> Rig {
        let frame = Frame::new().expect("a poll");
        let poll = Poll::new().expect("a poll");
        poll.registry().register(&mut listener, PEER, Interest::READABLE).expect("it can be watched");
        let name = members[usize::from(me)].name.clone();
        let address = members[usize::from(me)].peer_address.clone();
        let ourselves = Ourselves { name, address, me: NodeId(me), cluster, speaks, incarnation: 1 };
        let clock = Clock::new();
        let now = clock.now().time;
        let mut peers = Peers::new(ourselves, Vec::new(), FIRST_TOKEN, u64::from(me), frame.messenger.clone());
        let members = members.iter().enumerate().map(|(id, member)| (NodeId(id as u16), member.clone())).collect();
        peers.follow(Nodes { members, removed: Vec::new(), version, keys: Vec::new() }, now, &mut |_| {});
        // Small, so that messages come in many pieces.
        Rig {
            poll,
            clock,
            listener,
            peers,
            buffer: vec![0; 16 * 1024],
            told: Vec::new(),
            spoken: Vec::new(),
            frame,
            key: None,
        }
    }

    /// With a key of its own, and this secret.
    fn secured(mut self, secret: &ClusterSecret, mode: PeerTlsMode) -> Rig {
        let key = NodeKey::generate().expect("a key");
        let security = PeerSecurity::new(key, secret.clone(), mode).expect("it is a key");
        self.key = Some(security.tls.hash());
        let handshakes = Handshakes::start(security, self.frame.messenger.clone(), 80).expect("a thread");
        self.peers.secure_by(handshakes);
        self
    }

    fn turn(&mut self) {
        let mut events = Events::with_capacity(64);
        let wait = if self.peers.has_unread() { Duration::ZERO } else { Duration::from_millis(1) };
        self.poll.poll(&mut events, Some(wait)).expect("it polls");
        let now = self.clock.now().time;
        let Rig { poll, listener, peers, buffer, told, spoken, frame, .. } = self;
        let step: &mut Step<'_> = &mut |input| {
            told.push(match input {
                Input::PeerUp { peer, terms } => {
                    spoken.push((peer.0, terms));
                    Told::Up(peer.0)
                }
                Input::PeerDown { peer } => Told::Down(peer.0),
                Input::Met { .. } => return,
                Input::PeerMessage { peer, bytes } => Told::Message(peer.0, bytes.to_vec()),
                other => panic!("links do not say {other:?}"),
            });
        };
        while let Ok(control) = frame.controls.try_recv() {
            let Control::Arrived(arrival) = control else { continue };
            peers.arrive(*arrival, poll.registry(), now);
        }
        peers.read_unread(buffer, now, step);
        peers.tick(poll.registry(), now, step);
        for event in &events {
            match event.token() {
                PEER => peers.accept(listener, poll.registry(), now),
                Token(token) => peers.on_event(token - FIRST_TOKEN, event, buffer, poll.registry(), now, step),
            }
        }
    }

    fn send(&mut self, peer: u16, payload: &[u8]) {
        let mut bytes = Vec::new();
        FrameWriter::append(&mut bytes, |out| out.extend_from_slice(payload)).expect("not empty");
        let now = self.clock.now().time;
        self.peers.send(NodeId(peer), bytes, now, &mut |_| ());
    }
}

fn turn_until(rigs: &mut [Rig], condition: impl Fn(&[Rig]) -> bool) {
    let end = Instant::now() + PATIENCE;
    while !condition(rigs) {
        assert!(
            Instant::now() < end,
            "it did not happen; told: {:?}",
            rigs.iter().map(|r| &r.told).collect::<Vec<_>>()
        );
        rigs.iter_mut().for_each(Rig::turn);
    }
}

#[test]
fn every_pair_is_linked_once_and_messages_arrive_whole_and_in_order() {
    let (listeners, members) = listeners(3);
    let rigs = listeners.into_iter().enumerate().map(|(me, listener)| Rig::new(listener, &members, me as u16, 7));
    let mut rigs: Vec<Rig> = rigs.collect();
    turn_until(&mut rigs, |rigs| rigs.iter().all(|rig| rig.told.len() == 2));
    assert!(rigs[1].told.contains(&Told::Up(0)) && rigs[1].told.contains(&Told::Up(2)));
    assert!(rigs.iter().all(|rig| rig.peers.links.iter().flatten().count() == 2), "one link a pair");

    let large = vec![b'x'; 5_000_000];
    for rig in &mut rigs {
        rig.told.clear();
    }
    rigs[0].send(2, b"first");
    rigs[0].send(2, &large);
    rigs[0].send(2, b"last");
    rigs[2].send(0, b"back");
    turn_until(&mut rigs, |rigs| rigs[2].told.len() == 3 && rigs[0].told.len() == 1);
    let expected = [b"first".to_vec(), large, b"last".to_vec()].map(|payload| Told::Message(0, payload));
    assert!(rigs[2].told == expected);
    assert_eq!(rigs[0].told, [Told::Message(2, b"back".to_vec())]);
    assert_eq!(rigs[0].peers.waiting_bytes(), 0);
}

#[test]
fn a_lost_link_is_told_and_built_anew() {
    let (mut listeners, members) = listeners(2);
    let second = listeners.pop().expect("two");
    let mut rigs = vec![Rig::new(listeners.pop().expect("two"), &members, 0, 7), Rig::new(second, &members, 1, 7)];
    turn_until(&mut rigs, |rigs| rigs.iter().all(|rig| rig.told.len() == 1));
    // The second node dies and comes back at the same address.
    let address = members[1].peer_address.parse().expect("an address");
    drop(rigs.pop());
    turn_until(&mut rigs, |rigs| rigs[0].told.ends_with(&[Told::Down(1)]));
    rigs.push(Rig::new(TcpListener::bind(address).expect("it is free again"), &members, 1, 7));
    turn_until(&mut rigs, |rigs| rigs[0].told.ends_with(&[Told::Up(1)]) && rigs[1].told == [Told::Up(0)]);
}

#[test]
fn another_cluster_and_another_name_are_refused() {
    for (cluster, rename) in [(8, false), (7, true)] {
        let (mut listeners, members) = listeners(2);
        let mut others = members.clone();
        if rename {
            others[0].name = "stranger".to_owned();
        }
        let second = listeners.pop().expect("two");
        let mut rigs =
            vec![Rig::new(listeners.pop().expect("two"), &members, 0, 7), Rig::new(second, &others, 1, cluster)];
        turn_until(&mut rigs, |rigs| rigs[1].peers.complaints.keys().next().is_some());
        let complaint = rigs[1].peers.complaints.keys().next().expect("one");
        assert!(complaint.contains("--cluster"), "{complaint}");
        for _ in 0..100 {
            rigs.iter_mut().for_each(Rig::turn);
        }
        assert!(rigs.iter().all(|rig| !rig.told.iter().any(|told| matches!(told, Told::Message(..)))));
        assert!(!rigs[1].told.contains(&Told::Up(0)));
    }
}

/// Another process has the name of one that lives, and was started later.
#[test]
fn a_second_process_takes_no_living_ones_place() {
    let (mut all, members) = listeners(2);
    let second = Rig::new(all.pop().expect("two"), &members, 1, 5);
    let first = Rig::new(all.pop().expect("two"), &members, 0, 5);
    let mut rigs = vec![first, second];
    turn_until(&mut rigs, |rigs| rigs.iter().all(|rig| rig.told.len() == 1));
    let elsewhere = TcpListener::bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
    let mut impostor = Rig::new(elsewhere, &members, 0, 5);
    impostor.peers.ourselves.incarnation = 2;
    rigs.push(impostor);
    let refused = |rig: &Rig| rig.peers.complaints.keys().any(|text| text.contains("runs in another process"));
    let end = Instant::now() + PATIENCE;
    while !refused(&rigs[2]) {
        assert!(Instant::now() < end, "{:?}", rigs[2].peers.complaints);
        // The first one goes on speaking.
        rigs[0].send(1, b"alive");
        rigs.iter_mut().for_each(Rig::turn);
    }
    assert!(!rigs[1].told.contains(&Told::Down(0)), "{:?}", rigs[1].told);
    assert_eq!(rigs[2].told, []);
    // It stands still: then the other one is what is left of it.
    turn_until(&mut rigs[1..], |rigs| rigs[1].told == [Told::Up(1)]);
    assert!(rigs[1].told.ends_with(&[Told::Down(0), Told::Up(0)]), "{:?}", rigs[1].told);
}

#[test]
fn strangers_are_shown_the_door() {
    let (mut listeners, members) = listeners(1);
    let listener = listeners.pop().expect("one");
    let address = listener.local_addr().expect("it is bound");
    let mut rigs = [Rig::new(listener, &members, 0, 7)];
    let mut frame = Vec::new();
    FrameWriter::append(&mut frame, |out| out.extend_from_slice(b"not a greeting")).expect("not empty");
    let impostor = Hello {
        version: OLDEST,
        speaks: Versions::only(OLDEST),
        needs: OLDEST,
        cluster: 7,
        node: "n0".to_owned(),
        address: String::new(),
        id: NodeId(0),
        incarnation: 2,
    };
    let mut own_name = Vec::new();
    FrameWriter::append(&mut own_name, |out| impostor.encode(out)).expect("not empty");
    for bytes in [b"GET / HTTP/1.1\r\n\r\n".to_vec(), frame, vec![0xff; 100], own_name] {
        let mut stream = std::net::TcpStream::connect(address).expect("it listens");
        stream.set_nonblocking(true).expect("a socket");
        stream.write_all(&bytes).expect("it is sent");
        let end = Instant::now() + PATIENCE;
        let mut buffer = [0; 1000];
        loop {
            assert!(Instant::now() < end, "it was not closed");
            rigs[0].turn();
            match stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => break,
            }
        }
    }
    assert_eq!(rigs[0].told, []);
    assert_eq!(rigs[0].peers.links.iter().flatten().count(), 0);
}

/// Two of which the first calls, and the second speaks these versions.
fn two(second: Versions, versions: [u16; 2]) -> Vec<Rig> {
    let (mut listeners, members) = listeners(2);
    let (other, one) = (listeners.pop().expect("two"), listeners.pop().expect("two"));
    let rig = |listener, me, speaks, version| Rig::speaking(listener, &members, me, 7, (speaks, version));
    vec![rig(one, 0, Versions::ALL, versions[0]), rig(other, 1, second, versions[1])]
}

#[test]
fn a_link_speaks_the_newest_version_that_both_ends_speak() {
    for (second, spoken) in [(Versions::ALL, NEWEST), (Versions::up_to(OLDEST), OLDEST)] {
        let mut rigs = two(second, [OLDEST; 2]);
        turn_until(&mut rigs, |rigs| rigs.iter().all(|rig| !rig.spoken.is_empty()));
        assert_eq!(rigs[0].spoken, [(1, LinkTerms { spoken, newest: second.newest, is_secured: false })]);
        // The oldest greeting says nothing of what else its sender speaks.
        assert_eq!(rigs[1].spoken, [(0, LinkTerms { spoken, newest: NEWEST, is_secured: false })]);
    }
}

#[test]
fn who_speaks_less_than_the_cluster_is_told_so() {
    let mut rigs = two(Versions::up_to(OLDEST), [NEWEST, OLDEST]);
    let says = |rig: &Rig, wanted: &str| rig.peers.complaints.keys().any(|text| text.contains(wanted));
    // Who is called says why there is no answer.
    let refusal = format!("the cluster has version {NEWEST}, and this node speaks {OLDEST}");
    turn_until(&mut rigs, |rigs| says(&rigs[1], &refusal) && says(&rigs[0], "n1 says: the cluster has"));
    (0..50).for_each(|_| rigs.iter_mut().for_each(Rig::turn));
    assert!(rigs.iter().all(|rig| rig.told.is_empty()), "no link was made");
}

/// A node of version 6 closes the link on any other greeting, and says nothing.
#[test]
fn a_node_that_knows_no_other_version_is_called_in_the_oldest() {
    let (mut listeners, members) = listeners(2);
    let old = std::net::TcpListener::from(std::os::fd::OwnedFd::from(listeners.pop().expect("two")));
    old.set_nonblocking(false).expect("a socket");
    let mut rigs = [Rig::new(listeners.pop().expect("two"), &members, 0, 7)];
    let answering = std::thread::spawn(move || {
        let mut versions = Vec::new();
        let mut kept = Vec::new();
        while versions.last() != Some(&OLDEST) {
            let (mut stream, _) = old.accept().expect("it calls");
            let (mut reader, mut buffer) = (FrameReader::new(), [0; 512]);
            let payload = loop {
                if let Some(payload) = reader.next().expect("a frame") {
                    break payload;
                }
                let count = stream.read(&mut buffer).expect("a greeting");
                reader.push(&buffer[..count]);
            };
            versions.push(u16::from_le_bytes([payload[4], payload[5]]));
            if versions.last() == Some(&OLDEST) {
                let theirs = Hello::decode(&payload).expect("a greeting");
                let own = Hello { node: "n1".to_owned(), id: NodeId(1), ..theirs };
                let mut frame = Vec::new();
                FrameWriter::append(&mut frame, |out| own.encode(out)).expect("not empty");
                stream.write_all(&frame).expect("it is sent");
                kept.push(stream);
            }
        }
        (versions, kept)
    });
    turn_until(&mut rigs, |rigs| !rigs[0].spoken.is_empty());
    assert_eq!(rigs[0].spoken, [(1, LinkTerms { spoken: OLDEST, newest: OLDEST, is_secured: false })]);
    let (versions, kept) = answering.join().expect("it ends");
    assert_eq!(versions, [NEWEST, OLDEST]);
    // And later in the newest again: it may have closed for another reason.
    assert!(rigs[0].peers.peers[&NodeId(1)].dial_at.is_some());
    drop(kept);
}

fn secret() -> ClusterSecret {
    ClusterSecret::generate().expect("a secret")
}

/// Two nodes, of which each has this secret, or none.
fn two_with(secrets: [Option<(&ClusterSecret, PeerTlsMode)>; 2]) -> Vec<Rig> {
    let (listeners, members) = listeners(2);
    let rigs = listeners.into_iter().enumerate().zip(secrets).map(|((me, listener), secret)| {
        let rig = Rig::new(listener, &members, me as u16, 7);
        match secret {
            Some((secret, mode)) => rig.secured(secret, mode),
            None => rig,
        }
    });
    rigs.collect()
}

#[test]
fn secured_links_carry_what_plain_ones_do() {
    let secret = secret();
    let (listeners, members) = listeners(3);
    let rigs = listeners.into_iter().enumerate();
    let mut rigs: Vec<Rig> = rigs
        .map(|(me, listener)| Rig::new(listener, &members, me as u16, 7).secured(&secret, PeerTlsMode::Require))
        .collect();
    turn_until(&mut rigs, |rigs| rigs.iter().all(|rig| rig.told.len() == 2));
    let is_secured = |link: &Link| matches!(link.socket, Socket::Secured(..));
    assert!(rigs.iter().all(|rig| rig.peers.links.iter().flatten().all(is_secured)));
    let large: Vec<u8> = (0..5_000_000u32).map(|number| (number % 253) as u8).collect();
    for rig in &mut rigs {
        rig.told.clear();
    }
    // In both directions at once, more than sockets hold.
    for (from, to) in [(0, 2), (2, 0), (1, 2)] {
        rigs[from].send(to, b"first");
        rigs[from].send(to, &large);
        rigs[from].send(to, b"last");
    }
    turn_until(&mut rigs, |rigs| [3, 0, 6].iter().zip(rigs).all(|(count, rig)| rig.told.len() == *count));
    let from = |peer: u16| [b"first".to_vec(), large.clone(), b"last".to_vec()].map(|it| Told::Message(peer, it));
    assert!(rigs[0].told == from(2));
    for peer in [0, 1] {
        let told: Vec<Told> =
            rigs[2].told.iter().filter(|told| matches!(told, Told::Message(of, _) if *of == peer)).cloned().collect();
        assert!(told == from(peer));
    }
    assert!(rigs.iter().all(|rig| rig.peers.waiting_bytes() == 0));
}

#[test]
fn without_the_secret_nobody_is_linked() {
    let (ours, others) = (secret(), secret());
    let require = PeerTlsMode::Require;
    for (secrets, said) in [
        ([Some((&ours, require)), Some((&others, require))], "secret"),
        ([Some((&ours, require)), None], "--cluster-secret"),
        ([None, Some((&ours, require))], "it speaks in plain text"),
        // And its operator reads why.
        ([None, Some((&ours, require))], "links to this cluster are under TLS"),
    ] {
        let mut rigs = two_with(secrets);
        turn_until(&mut rigs, |rigs| {
            rigs.iter().any(|rig| rig.peers.complaints.keys().any(|text| text.contains(said)))
        });
        for _ in 0..300 {
            rigs.iter_mut().for_each(Rig::turn);
        }
        assert!(rigs.iter().all(|rig| rig.told.is_empty()), "{said}: {:?}", rigs[0].told);
    }
}

/// Nodes get the secret one after the other: those that have it prefer TLS, and speak with the others all the same.
#[test]
fn a_cluster_gets_its_secret_node_by_node() {
    let secret = secret();
    let (prefer, require) = (Some((&secret, PeerTlsMode::Prefer)), Some((&secret, PeerTlsMode::Require)));
    for (secrets, is_secured) in [
        ([None, prefer], false),
        ([prefer, None], false),
        ([prefer, prefer], true),
        ([prefer, require], true),
        ([require, prefer], true),
    ] {
        let mut rigs = two_with(secrets);
        turn_until(&mut rigs, |rigs| rigs.iter().all(|rig| rig.told.len() == 1));
        let secured =
            |rig: &Rig| rig.peers.links.iter().flatten().any(|link| matches!(link.socket, Socket::Secured(..)));
        assert!(rigs.iter().all(|rig| secured(rig) == is_secured));
    }
}

/// Another node of the cluster, which knows the secret, takes no linked one's place: its key is another one.
#[test]
fn another_key_takes_no_living_ones_place() {
    let secret = secret();
    let mut rigs = two_with([Some((&secret, PeerTlsMode::Require)); 2]);
    turn_until(&mut rigs, |rigs| rigs.iter().all(|rig| rig.told.len() == 1));
    let members: Vec<Member> = [&rigs[0], &rigs[1]]
        .map(|rig| Member { name: rig.peers.ourselves.name.clone(), peer_address: rig.peers.ourselves.address.clone() })
        .into();
    for (mode, said) in [(Some(PeerTlsMode::Require), "is linked under another key"), (None, "are under TLS")] {
        let elsewhere = TcpListener::bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
        // With the very start of the one that lives.
        let impostor = Rig::new(elsewhere, &members, 0, 7);
        rigs.push(match mode {
            Some(mode) => impostor.secured(&secret, mode),
            None => impostor,
        });
        let end = Instant::now() + PATIENCE;
        while !rigs.iter().any(|rig| rig.peers.complaints.keys().any(|text| text.contains(said))) {
            assert!(Instant::now() < end, "{:?}", rigs[2].peers.complaints);
            rigs[0].send(1, b"alive");
            rigs.iter_mut().for_each(Rig::turn);
        }
        assert_eq!(rigs.pop().map(|impostor| impostor.told), Some(Vec::new()));
        assert!(!rigs[1].told.contains(&Told::Down(0)), "{:?}", rigs[1].told);
    }
}

/// Strangers that say nothing, and half of a handshake, take no places of nodes.
#[test]
fn silent_strangers_keep_nobody_out() {
    let secret = secret();
    let mut rigs = two_with([Some((&secret, PeerTlsMode::Require)); 2]);
    let address = rigs[1].listener.local_addr().expect("it listens");
    let mut strangers = Vec::new();
    for number in 0..600 {
        let mut stranger = std::net::TcpStream::connect(address).expect("it is accepted");
        let said: &[u8] = if number % 2 == 0 { &[] } else { &[tls::FIRST_BYTE, 3, 1, 0x20] };
        stranger.write_all(said).expect("it is taken");
        strangers.push(stranger);
        if number % 50 == 0 {
            rigs[1].turn();
        }
    }
    turn_until(&mut rigs, |rigs| rigs.iter().all(|rig| rig.told.len() == 1));
    assert_eq!((&rigs[0].told, &rigs[1].told), (&vec![Told::Up(1)], &vec![Told::Up(0)]));
}

/// A node that the cluster knows by a key is not linked under another one, though its caller knows the secret.
#[test]
fn a_node_that_is_known_by_a_key_is_linked_under_that_alone() {
    let secret = secret();
    let mut rigs = two_with([Some((&secret, PeerTlsMode::Require)); 2]);
    let own = rigs[0].key.expect("it has one").0;
    let knows = |rigs: &mut Vec<Rig>, keys: Vec<[u8; 32]>| {
        let now = rigs[1].clock.now().time;
        let keys = vec![(NodeId(0), keys)];
        rigs[1].peers.follow(Nodes { keys, ..Nodes::default() }, now, &mut |_| {});
    };
    knows(&mut rigs, vec![[9; 32]]);
    turn_until(&mut rigs, |rigs| {
        rigs.iter().all(|rig| rig.peers.complaints.keys().any(|text| text.contains("dictum node forget-keys n0")))
    });
    assert!(rigs.iter().all(|rig| rig.told.is_empty()), "{:?}", rigs[0].told);
    // By its operator's word.
    rigs[1].peers.trust(vec![("n0".to_owned(), KeyHash(own))]);
    turn_until(&mut rigs, |rigs| rigs.iter().all(|rig| rig.told.len() == 1));
    // Not any more: the link ends.
    rigs[1].peers.trust(Vec::new());
    knows(&mut rigs, vec![[9; 32]]);
    turn_until(&mut rigs, |rigs| rigs[0].told.len() == 2);
    rigs.iter_mut().for_each(|rig| rig.told.clear());
    // Beside the one that it changes to.
    knows(&mut rigs, vec![[9; 32], own]);
    turn_until(&mut rigs, |rigs| rigs.iter().all(|rig| rig.told.len() == 1));
}
