//! NATS's key-value bucket by `async-nats`, the client of NATS itself. A put is a message published to JetStream and acknowledged by it,
//! a get asks the leader of the bucket's stream.
//!
//! Buckets as clients make them answer gets directly, from any replica, which may be behind (`allow_direct`). Here the bucket is made
//! without that, so that all gets go to the leader.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use async_nats::ConnectOptions;
use async_nats::jetstream::context::ContextBuilder;
use async_nats::jetstream::kv;
use async_nats::jetstream::stream::{Config, DiscardPolicy, StorageType};
use lab::peers::Task;
use tokio::sync::OnceCell;

use crate::store::{Store, until_it_is_done};

/// The bucket; `lab/src/cluster/rivals/nats.rs` looks for its stream.
const BUCKET: &str = "lab";
/// Servers that have each key.
const REPLICAS: usize = 3;
/// How long a connection may take to open.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
/// How long an answer may take; the load gives up sooner.
const ANSWER_PATIENCE: Duration = Duration::from_secs(30);
/// Between two attempts to connect again.
const RECONNECT_PAUSE: Duration = Duration::from_millis(50);

/// One connection to one server; clones share it.
#[derive(Clone)]
pub struct Nats {
    address: String,
    bucket: Arc<OnceCell<kv::Store>>,
}

impl Nats {
    async fn bucket(&self) -> Result<&kv::Store, String> {
        self.bucket.get_or_try_init(|| self.connect(Task::Run)).await
    }

    /// Connects, and makes the bucket before records are filled in.
    async fn connect(&self, task: Task) -> Result<kv::Store, String> {
        let options = ConnectOptions::new()
            .connection_timeout(CONNECT_PATIENCE)
            .request_timeout(Some(ANSWER_PATIENCE))
            // This connection stands for this server: a client that turns to another one has another connection.
            .ignore_discovered_servers()
            .reconnect_delay_callback(|_| RECONNECT_PAUSE);
        let address = format!("nats://{}", self.address);
        let client =
            options.connect(&address).await.map_err(|error| format!("{address} cannot be reached: {error}"))?;
        let context = ContextBuilder::new().timeout(ANSWER_PATIENCE).ack_timeout(ANSWER_PATIENCE).build(client);
        if task == Task::Load {
            // The servers may have elected a leader a moment ago and not yet know all of them.
            until_it_is_done(|| async {
                let made = context.create_stream(stream()).await;
                made.map(|_| ()).map_err(|error| format!("the bucket cannot be made: {error}"))
            })
            .await?;
        }
        context.get_key_value(BUCKET).await.map_err(|error| format!("the bucket is not there: {error}"))
    }
}

/// The stream behind the bucket, as clients of NATS make it (ADR-8, "JetStream based Key-Value Stores"), but for `allow_direct`.
fn stream() -> Config {
    Config {
        name: format!("KV_{BUCKET}"),
        subjects: vec![format!("$KV.{BUCKET}.>")],
        max_messages_per_subject: 1,
        discard: DiscardPolicy::New,
        storage: StorageType::File,
        num_replicas: REPLICAS,
        allow_rollup: true,
        deny_delete: true,
        allow_direct: false,
        ..Config::default()
    }
}

/// A key as buckets take it: letters, digits, `-`, `_` and `/` as they are, other bytes as `=` and two hexadecimal digits, so that
/// different keys stay different.
fn key_of(key: &[u8]) -> String {
    let mut out = String::with_capacity(key.len() + 8);
    for byte in key {
        if byte.is_ascii_alphanumeric() || b"-_/".contains(byte) {
            out.push(char::from(*byte));
        } else {
            let _ = write!(out, "={byte:02X}");
        }
    }
    out
}

impl Store for Nats {
    fn open(address: &str) -> Result<Nats, String> {
        Ok(Nats { address: address.to_owned(), bucket: Arc::default() })
    }

    async fn prepare(&self, task: Task) -> Result<(), String> {
        self.bucket.get_or_try_init(|| self.connect(task)).await.map(|_| ())
    }

    async fn put(&self, key: Vec<u8>, value: Vec<u8>) -> Result<(), String> {
        let bucket = self.bucket().await?;
        bucket.put(key_of(&key), value.into()).await.map(|_| ()).map_err(|error| error.to_string())
    }

    async fn get(&self, key: Vec<u8>) -> Result<Option<Vec<u8>>, String> {
        let bucket = self.bucket().await?;
        let found = bucket.get(key_of(&key)).await.map_err(|error| error.to_string())?;
        Ok(found.map(|value| value.to_vec()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_what_buckets_take_and_stay_different() {
        assert_eq!(key_of(b"user6284781860667377211"), "user6284781860667377211");
        assert_eq!(key_of(b"key:12"), "key=3A12");
        assert_eq!([key_of(b"a.b"), key_of(b"a=2Eb"), key_of(b"\xff")], ["a=2Eb", "a=3D2Eb", "=FF"]);
    }

    #[test]
    fn gets_are_the_leader_s() {
        let made = stream();
        assert!(!made.allow_direct && made.num_replicas == 3 && made.name == "KV_lab");
    }
}
