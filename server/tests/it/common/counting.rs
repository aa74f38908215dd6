//! Clients that count, and notice whatever is lost, done twice or refused.

use std::sync::atomic::{AtomicBool, Ordering};

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

/// Tells those who count to stop when it goes, also if something fails.
pub struct Stops<'a>(pub &'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
