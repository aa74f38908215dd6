//! What a driver is: connections to a store of single keys. A file for each rival has one.

use std::future::Future;
use std::time::{Duration, Instant};

use lab::peers::Task;

/// How long what a load needs before it begins may take until it succeeds.
const PREPARE_PATIENCE: Duration = Duration::from_secs(60);
/// Between two attempts at it.
const PREPARE_PAUSE: Duration = Duration::from_millis(100);

/// A connection to one node of a store. Clones share it.
pub trait Store: Clone + Send + Sync + 'static {
    /// A connection to the node at `IP:PORT`; opened when it is used, and again after it was lost.
    fn open(address: &str) -> Result<Self, String>;
    /// So many connections to each node, by node. A store whose clients know all nodes by themselves is as one node.
    fn open_all(addresses: &[String], connections: u32) -> Result<Vec<Vec<Self>>, String> {
        let open = |address: &String| (0..connections).map(|_| Self::open(address)).collect();
        addresses.iter().map(open).collect()
    }
    /// Connects, so that no operation has to wait for that; before records are filled in, makes what a fresh store lacks.
    fn prepare(&self, _task: Task) -> impl Future<Output = Result<(), String>> + Send {
        std::future::ready(Ok(()))
    }
    /// Writes a value.
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> impl Future<Output = Result<(), String>> + Send;
    /// Reads a value.
    fn get(&self, key: Vec<u8>) -> impl Future<Output = Result<Option<Vec<u8>>, String>> + Send;
}

/// Tries until it succeeds; the last reason why not, when the time is up.
pub async fn until_it_is_done<F>(mut attempt: impl FnMut() -> F) -> Result<(), String>
where
    F: Future<Output = Result<(), String>>,
{
    let end = Instant::now() + PREPARE_PATIENCE;
    loop {
        match attempt().await {
            Ok(()) => return Ok(()),
            Err(reason) if Instant::now() >= end => return Err(reason),
            Err(_) => tokio::time::sleep(PREPARE_PAUSE).await,
        }
    }
}
