//! How fast commands are parsed and replies written, on one core.
//!
//! ```text
//! cargo run --release -p wire --example parse_speed
//! ```
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "measures time")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use wire::{Protocol, ReplyWriter, Request, RequestParser, encode_command};

/// What a turn of the server reads at once.
const INPUT_BYTES: usize = 64 * 1024;
/// What is parsed over and over.
const STREAM_BYTES: usize = 4 * 1024 * 1024;
const ROUND: Duration = Duration::from_millis(300);

/// Parses a stream of `command` in pieces of [`INPUT_BYTES`]; prints the best of five rounds.
fn measure(name: &str, words: &[&[u8]]) {
    let mut command = Vec::new();
    encode_command(&mut command, words);
    // Cut into pieces without regard to where commands end, as sockets do.
    let stream = command.repeat((STREAM_BYTES / command.len()).max(1));
    let mut best = 0.0f64;
    for _ in 0..5 {
        let mut parser = RequestParser::default();
        let (mut commands, mut bytes) = (0u64, 0usize);
        let start = Instant::now();
        while start.elapsed() < ROUND {
            for mut piece in stream.chunks(INPUT_BYTES) {
                while let Some(request) = parser.next(&mut piece).expect("the stream is well-formed") {
                    let Request::Command(arguments) = request else { unreachable!("nothing is too large") };
                    black_box(arguments.get(1));
                    bytes += arguments.get(0).map_or(0, <[u8]>::len);
                    commands += 1;
                }
            }
        }
        black_box(bytes);
        best = best.max(commands as f64 / start.elapsed().as_secs_f64());
    }
    println!("{name:<42} {:>6.1} M commands/s {:>8.0} MB/s", best / 1e6, best * command.len() as f64 / 1e6);
}

fn measure_replies() {
    let value = [b'v'; 256];
    let mut out = Vec::new();
    let mut best = 0.0f64;
    for _ in 0..5 {
        let mut replies = 0u64;
        let start = Instant::now();
        while start.elapsed() < ROUND {
            out.clear();
            let mut writer = ReplyWriter::new(&mut out, Protocol::Resp2);
            for number in 0..256 {
                writer.ok();
                writer.integer(black_box(number * 1000));
                writer.bulk(black_box(&value));
                writer.null();
            }
            replies += 4 * 256;
            black_box(&out);
        }
        best = best.max(replies as f64 / start.elapsed().as_secs_f64());
    }
    println!("{:<42} {:>6.1} M replies/s", "OK, integer, 256 bytes, null in turn", best / 1e6);
}

fn main() {
    let key = [b'k'; 16];
    measure("PING", &[b"PING"]);
    measure("GET, 16-byte key", &[b"GET", &key]);
    measure("SET, 16-byte key, 16-byte value", &[b"SET", &key, &[b'v'; 16]]);
    measure("SET, 16-byte key, 256-byte value", &[b"SET", &key, &[b'v'; 256]]);
    measure("SET, 16-byte key, 1 MiB value in pieces", &[b"SET", &key, &vec![b'v'; 1024 * 1024]]);
    measure_replies();
}
