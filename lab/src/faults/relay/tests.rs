//! Relays between sockets of the test's own.

use std::net::{Shutdown, TcpListener as Listener, TcpStream as Stream};

use super::*;

/// Far more than anything takes.
const PATIENCE: Duration = Duration::from_secs(30);
/// Long enough for what is not to come to have come, on loopback.
const NOTHING_FOR: Duration = Duration::from_millis(100);

/// Two nodes and the relay between them.
struct Pair {
    relays: Relays,
    higher: Listener,
}

impl Pair {
    fn new() -> Pair {
        let higher = Listener::bind("127.0.0.1:0").expect("a port");
        let lower = SocketAddr::from(([127, 0, 0, 1], 1));
        let relays = Relays::start(&[lower, higher.local_addr().expect("it is bound")]).expect("relays");
        Pair { relays, higher }
    }

    fn dial(&self) -> Stream {
        let stream = Stream::connect(self.relays.address(0, 1).expect("the lower one dials")).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("an open socket");
        stream
    }

    fn accept(&self) -> Stream {
        let (stream, _) = self.higher.accept().expect("it is dialled");
        stream.set_read_timeout(Some(PATIENCE)).expect("an open socket");
        stream
    }

    fn set_open(&self, from: usize, to: usize, open: bool) {
        self.relays.change(from, to, |way| way.open = open);
    }
}

fn send(stream: &mut Stream, text: &str) {
    stream.write_all(text.as_bytes()).expect("it is sent");
}

fn receive(stream: &mut Stream, length: usize) -> String {
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).expect("it comes");
    String::from_utf8(bytes).expect("text")
}

/// Whether nothing comes, not even the end.
fn is_silent(stream: &mut Stream) -> bool {
    stream.set_read_timeout(Some(NOTHING_FOR)).expect("an open socket");
    let read = stream.read(&mut [0; 16]);
    stream.set_read_timeout(Some(PATIENCE)).expect("an open socket");
    read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

#[test]
fn bytes_and_the_end_get_through() {
    let pair = Pair::new();
    assert_eq!(pair.relays.address(1, 0), None, "only the lower one dials");
    let (mut low, mut high) = (pair.dial(), pair.accept());
    send(&mut low, "hello");
    assert_eq!(receive(&mut high, 5), "hello");
    // More than the relay holds.
    let large: Vec<u8> = (0..3 * QUEUE_BYTES_MAX).map(|index| (index % 251) as u8).collect();
    let sent = large.clone();
    let writer = thread::spawn(move || {
        high.write_all(&sent).expect("it is sent");
        high
    });
    let mut received = vec![0; large.len()];
    low.read_exact(&mut received).expect("it comes");
    assert!(received == large);
    let mut high = writer.join().expect("the writer");
    send(&mut low, "last");
    low.shutdown(Shutdown::Both).expect("it is open");
    assert_eq!(receive(&mut high, 4), "last");
    assert_eq!(high.read(&mut [0; 1]).expect("the end"), 0);
}

#[test]
fn a_closed_direction_holds_what_is_sent_and_only_that() {
    let pair = Pair::new();
    let (mut low, mut high) = (pair.dial(), pair.accept());
    send(&mut low, "1");
    assert_eq!(receive(&mut high, 1), "1");
    pair.set_open(0, 1, false);
    send(&mut high, "2");
    assert_eq!(receive(&mut low, 1), "2");
    send(&mut low, "3");
    assert!(is_silent(&mut high));
    pair.set_open(0, 1, true);
    assert_eq!(receive(&mut high, 1), "3");
}

#[test]
fn while_cut_neither_ends_nor_new_connections_are_told() {
    let pair = Pair::new();
    let (low, mut high) = (pair.dial(), pair.accept());
    pair.relays.change_all(|way| way.open = false);
    let mut second = pair.dial();
    send(&mut second, "hello");
    let third = pair.dial();
    drop((low, third));
    assert!(is_silent(&mut high) && is_silent(&mut second));
    pair.higher.set_nonblocking(true).expect("a socket");
    assert!(pair.higher.accept().is_err(), "nobody gets there");
    pair.higher.set_nonblocking(false).expect("a socket");
    pair.relays.change_all(|way| way.open = true);
    assert_eq!(high.read(&mut [0; 1]).unwrap_or(0), 0, "now it hears of the end");
    let mut late = pair.accept();
    assert_eq!(receive(&mut late, 5), "hello");
    send(&mut late, "you");
    assert_eq!(receive(&mut second, 3), "you");
}

#[test]
fn delayed_bytes_come_late_and_in_order() {
    let pair = Pair::new();
    let (mut low, mut high) = (pair.dial(), pair.accept());
    let delay = Duration::from_millis(60);
    pair.relays.change(1, 0, |way| way.delay = delay);
    let begin = Instant::now();
    send(&mut low, "1");
    assert_eq!(receive(&mut high, 1), "1");
    send(&mut high, "2");
    send(&mut high, "3");
    assert_eq!(receive(&mut low, 2), "23");
    assert!(begin.elapsed() >= delay);
    pair.relays.change(1, 0, |way| way.delay = Duration::from_secs(3600));
    assert_eq!(pair.relays.shared.lock().ways[0][1].delay, DELAY_MAX);
}

#[test]
fn a_node_that_does_not_listen_is_told_by_the_end() {
    let pair = Pair::new();
    let address = pair.relays.address(0, 1).expect("the lower one dials");
    let Pair { relays, higher } = pair;
    drop(higher);
    let mut low = Stream::connect(address).expect("the relay listens");
    low.set_read_timeout(Some(PATIENCE)).expect("an open socket");
    assert_eq!(low.read(&mut [0; 1]).unwrap_or(0), 0);
    drop(relays);
    assert!(Stream::connect(address).is_err(), "they end with their owner");
}
