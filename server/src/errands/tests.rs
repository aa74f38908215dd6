//! Other servers that do not behave.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a test of sockets has threads and clocks")]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Instant;

use super::*;

const LIMIT: Duration = Duration::from_millis(300);

/// Asks a server that takes the connection, reads a little, and goes on as given; its answer.
fn ask(bytes: &[u8], serve: impl FnOnce(&mut std::net::TcpStream) + Send + 'static) -> Option<Vec<Value>> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("somebody comes");
        assert!(stream.read(&mut [0; 16]).expect("it can be read") > 0, "it says something");
        serve(&mut stream);
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build().expect("a runtime");
    let replies = runtime.block_on(async {
        let mut outside = Outside::new(TcpStream::connect(address).await.expect("it listens"));
        outside.ask(bytes, 1, LIMIT).await
    });
    drop(runtime);
    server.join().expect("it ends");
    replies
}

/// Writes until the other side has had enough.
fn write_on(stream: &mut std::net::TcpStream, first: &[u8], then: &[u8], pause: Duration) {
    let mut more = stream.write_all(first).is_ok();
    while more {
        thread::sleep(pause);
        more = stream.write_all(then).is_ok();
    }
}

#[test]
fn an_answer_is_taken_however_it_is_cut() {
    let replies = ask(b"PING\r\n", |stream| {
        for byte in b"+OK\r\n" {
            stream.write_all(&[*byte]).expect("it reads");
            thread::sleep(Duration::from_millis(5));
        }
    });
    assert_eq!(replies, Some(vec![Value::ok()]));
}

#[test]
fn answers_without_an_end_are_given_up() {
    for (first, then) in [(&b"+"[..], &[b'x'; 4096][..]), (b"$500000000\r\n", &[0; 4096]), (b"*1000000\r\n", b":1\r\n")]
    {
        let begun = Instant::now();
        assert_eq!(ask(b"PING\r\n", move |stream| write_on(stream, first, then, Duration::ZERO)), None);
        assert!(begun.elapsed() < LIMIT * 10, "{:?}", first.escape_ascii().to_string());
    }
    let replies = ask(b"PING\r\n", |stream| write_on(stream, b"+", b"x", LIMIT / 10));
    assert_eq!(replies, None, "a byte now and then is no answer");
}

#[test]
fn a_server_that_reads_nothing_is_given_up() {
    let bytes = vec![b'x'; 4 << 20];
    let begun = Instant::now();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build().expect("a runtime");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    let replies = runtime.block_on(async {
        let mut outside = Outside::new(TcpStream::connect(address).await.expect("it listens"));
        outside.ask(&bytes, 1, LIMIT).await
    });
    assert_eq!(replies, None);
    assert!(begun.elapsed() < Duration::from_secs(20));
}
