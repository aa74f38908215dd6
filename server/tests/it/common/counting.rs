//! Clients that count, and notice whatever is lost, done twice or refused.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use wire::Value;

use super::Client;

/// Counts one key of a bucket up from `from`, until it is told to stop. How far it came; every answer was the next number.
pub fn count(resp: &str, bucket: Option<&str>, key: &str, from: i64, stop: &AtomicBool) -> i64 {
    let mut client = Client::connect(resp).expect("the node is there");
    if let Some(bucket) = bucket {
        client.call(&["SELECT", bucket]).expect("the bucket is there");
    }
    let mut number = from;
    while !stop.load(Ordering::Relaxed) {
        number += 1;
        let reply = client.call(&["INCR", key]).expect("a reply");
        assert_eq!(reply, Value::Integer(number), "{key} at {resp}");
    }
    number
}

/// Writes 1, 2, 3 … to the key `number`, at the next of the nodes as soon as one fails, until it is told to stop. `written`, and the result: the last number that was answered.
pub fn write_numbers(nodes: &[&str], stops: &AtomicBool, written: &AtomicU64) -> u64 {
    let mut number = 0;
    while !stops.load(Ordering::Relaxed) {
        for address in nodes {
            let Ok(mut client) = Client::connect(address) else { continue };
            let mut write = |number: u64| client.call(&["SET", "number", &number.to_string()]);
            while !stops.load(Ordering::Relaxed) && write(number + 1).is_ok_and(|answer| answer == Value::ok()) {
                number += 1;
                written.store(number, Ordering::Relaxed);
            }
        }
    }
    number
}

/// Tells those who count to stop when it goes, also if something fails.
pub struct Stops<'a>(pub &'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
