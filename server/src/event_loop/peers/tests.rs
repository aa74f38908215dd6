//! Links between nodes over real sockets, each node with a poll of its own and stepped by the test.

use std::io::Write;
use std::time::Instant;

use mio::{Events, Poll};

use super::super::{Frame, PEER};
use super::*;
use crate::clock::Clock;

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
    _frame: Frame,
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
    fn new(mut listener: TcpListener, members: &[Member], me: u16, cluster: u64) -> Rig {
        let frame = Frame::new().expect("a poll");
        let poll = Poll::new().expect("a poll");
        poll.registry().register(&mut listener, PEER, Interest::READABLE).expect("it can be watched");
        let name = members[usize::from(me)].name.clone();
        let address = members[usize::from(me)].peer_address.clone();
        let ourselves = Ourselves { name, address, me: NodeId(me), cluster, incarnation: 1 };
        let clock = Clock::new();
        let now = clock.now().time;
        let mut peers = Peers::new(ourselves, FIRST_TOKEN, u64::from(me), frame.messenger.clone());
        let members = members.iter().enumerate().map(|(id, member)| (NodeId(id as u16), member.clone())).collect();
        peers.follow(Nodes { members, removed: Vec::new() }, now);
        // Small, so that messages come in many pieces.
        Rig { poll, clock, listener, peers, buffer: vec![0; 16 * 1024], told: Vec::new(), _frame: frame }
    }

    fn turn(&mut self) {
        let mut events = Events::with_capacity(64);
        let wait = if self.peers.has_unread() { Duration::ZERO } else { Duration::from_millis(1) };
        self.poll.poll(&mut events, Some(wait)).expect("it polls");
        let now = self.clock.now().time;
        let Rig { poll, listener, peers, buffer, told, .. } = self;
        let step: &mut Step<'_> = &mut |input| {
            told.push(match input {
                Input::PeerUp { peer } => Told::Up(peer.0),
                Input::PeerDown { peer } => Told::Down(peer.0),
                Input::Met { .. } => return,
                Input::PeerMessage { peer, bytes } => Told::Message(peer.0, bytes.to_vec()),
                other => panic!("links do not say {other:?}"),
            });
        };
        peers.read_unread(buffer, now, step);
        peers.tick(poll.registry(), now, step);
        for event in &events {
            match event.token() {
                PEER => peers.accept(listener, poll.registry(), now),
                Token(token) => peers.on_event(token - FIRST_TOKEN, event, buffer, now, step),
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
        turn_until(&mut rigs, |rigs| !rigs[1].peers.complaints.is_empty());
        let complaint = rigs[1].peers.complaints.keys().next().expect("one");
        assert!(complaint.contains("--cluster"), "{complaint}");
        for _ in 0..100 {
            rigs.iter_mut().for_each(Rig::turn);
        }
        assert!(rigs.iter().all(|rig| !rig.told.iter().any(|told| matches!(told, Told::Message(..)))));
        assert!(!rigs[1].told.contains(&Told::Up(0)));
    }
}

#[test]
fn strangers_are_shown_the_door() {
    let (mut listeners, members) = listeners(1);
    let listener = listeners.pop().expect("one");
    let address = listener.local_addr().expect("it is bound");
    let mut rigs = [Rig::new(listener, &members, 0, 7)];
    let mut frame = Vec::new();
    FrameWriter::append(&mut frame, |out| out.extend_from_slice(b"not a greeting")).expect("not empty");
    let impostor = Hello { version: 1, cluster: 7, node: "n0".to_owned(), address: String::new(), id: NodeId(0), incarnation: 2 };
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
