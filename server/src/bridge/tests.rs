//! The bridge without a loop: this test plays the loop.

use std::task::{Context, Waker};

use super::*;

fn pair() -> (Bridge, Requests) {
    bridge(Arc::new(AtomicU64::new(7)), Arc::new(|| ()))
}

fn taken(requests: &Requests) -> Vec<Request> {
    let mut list = Vec::new();
    requests.take(&mut list);
    list
}

fn run<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime without drivers").block_on(future)
}

#[test]
fn bytes_go_both_ways_in_order_and_dropping_closes() {
    let (bridge, requests) = pair();
    assert!(!requests.waiting());
    let mut connection = bridge.open("http test");
    connection.send_now(&b"PING\r\n"[..]);
    assert!(requests.waiting());
    let mut list = taken(&requests).into_iter();
    assert!(!requests.waiting());
    let Some(Request::Open { connection: 7, description, line, user: None }) = list.next() else {
        panic!("not opened")
    };
    assert_eq!(description, "http test");
    assert!(matches!(list.next(), Some(Request::Send { connection: 7, bytes }) if bytes == "PING\r\n"));
    assert_eq!(line.reply(Bytes::from_static(b"+PONG")), 5);
    assert_eq!(line.reply(Bytes::from_static(b"\r\n")), 7);
    assert_eq!(run(connection.receive()).as_deref(), Some(&b"+PONG"[..]));
    assert_eq!(run(connection.receive()).as_deref(), Some(&b"\r\n"[..]));
    drop(line);
    assert_eq!(run(connection.receive()), None);
    drop(connection);
    assert!(matches!(taken(&requests)[..], [Request::Close { connection: 7 }]));
}

#[test]
fn sending_waits_while_the_node_has_enough() {
    let (bridge, requests) = pair();
    let connection = bridge.open("http test");
    let Some(Request::Open { line, .. }) = taken(&requests).into_iter().next() else { panic!("not opened") };
    run(async {
        connection.send(vec![b'x'; VIRTUAL_INPUT_BYTES_MAX]).await;
        let mut second = std::pin::pin!(connection.send(&b"y"[..]));
        let mut context = Context::from_waker(Waker::noop());
        assert!(second.as_mut().poll(&mut context).is_pending());
        line.pause(true);
        line.consumed(VIRTUAL_INPUT_BYTES_MAX);
        assert!(second.as_mut().poll(&mut context).is_pending(), "paused by the node");
        line.pause(false);
        second.await;
    });
    assert_eq!(taken(&requests).len(), 2);
}
