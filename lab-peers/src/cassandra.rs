//! Cassandra by `scylla`, a driver for the protocol that both speak (CQL): prepared statements, QUORUM for writes and reads, one session
//! that knows all nodes and asks a replica of each key.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use lab::peers::Task;
use scylla::client::PoolSize;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::statement::Consistency;
use scylla::statement::prepared::PreparedStatement;
use tokio::sync::OnceCell;

use crate::store::{Store, until_it_is_done};

/// Nodes that have each row.
const REPLICAS: usize = 3;
/// How long a connection may take to open.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
/// How long an answer may take; the load gives up sooner.
const ANSWER_PATIENCE: Duration = Duration::from_secs(30);
const PUT: &str = "INSERT INTO lab.records (key, value) VALUES (?, ?)";
const GET: &str = "SELECT value FROM lab.records WHERE key = ?";

/// One session; clones share it.
#[derive(Clone)]
pub struct Cassandra {
    addresses: Arc<[SocketAddr]>,
    connections: NonZeroUsize,
    ready: Arc<OnceCell<Ready>>,
}

struct Ready {
    session: Session,
    put: PreparedStatement,
    get: PreparedStatement,
}

impl Cassandra {
    fn session_of<'a>(addresses: impl IntoIterator<Item = &'a str>, connections: u32) -> Result<Cassandra, String> {
        let parse = |address: &str| address.parse().map_err(|error| format!("`{address}` is no address: {error}"));
        let addresses = addresses.into_iter().map(parse).collect::<Result<Arc<[SocketAddr]>, String>>()?;
        let connections = NonZeroUsize::new(connections as usize).unwrap_or(NonZeroUsize::MIN);
        Ok(Cassandra { addresses, connections, ready: Arc::default() })
    }

    async fn ready(&self) -> Result<&Ready, String> {
        self.ready.get_or_try_init(|| self.connect(Task::Run)).await
    }

    /// Connects, makes the table before records are filled in, and prepares the statements.
    async fn connect(&self, task: Task) -> Result<Ready, String> {
        let builder = SessionBuilder::new()
            .known_nodes_addr(self.addresses.iter().copied())
            .pool_size(PoolSize::PerHost(self.connections))
            .connection_timeout(CONNECT_PATIENCE);
        let session = builder.build().await.map_err(|error| format!("Cassandra cannot be reached: {error}"))?;
        if task == Task::Load {
            make_table(&session).await?;
        }
        let put = prepare(&session, PUT, Consistency::Quorum).await?;
        let get = prepare(&session, GET, Consistency::Quorum).await?;
        if task == Task::Load {
            self.wait_for_all_replicas(&session).await?;
        }
        Ok(Ready { session, put, get })
    }

    /// Until each node, as the one that is asked, takes all others for alive: one that has just started may refuse for a while.
    async fn wait_for_all_replicas(&self, session: &Session) -> Result<(), String> {
        for address in self.addresses.iter() {
            let mut get = prepare(session, GET, Consistency::All).await?;
            let node = NodeIdentifier::NodeAddress(*address);
            get.set_load_balancing_policy(Some(SingleTargetLoadBalancingPolicy::new(node, None)));
            until_it_is_done(|| async {
                let found = session.execute_unpaged(&get, ("nobody",)).await;
                found.map(|_| ()).map_err(|error| format!("{address} does not reach all replicas: {error}"))
            })
            .await?;
        }
        Ok(())
    }
}

async fn make_table(session: &Session) -> Result<(), String> {
    let keyspace = format!(
        "CREATE KEYSPACE IF NOT EXISTS lab WITH replication = {{'class': 'NetworkTopologyStrategy', 'replication_factor': {REPLICAS}}}"
    );
    let table = "CREATE TABLE IF NOT EXISTS lab.records (key text PRIMARY KEY, value blob)";
    for statement in [keyspace.as_str(), table] {
        until_it_is_done(|| async {
            let made = session.query_unpaged(statement, ()).await;
            made.map(|_| ()).map_err(|error| format!("the table cannot be made: {error}"))
        })
        .await?;
    }
    Ok(())
}

async fn prepare(session: &Session, text: &str, consistency: Consistency) -> Result<PreparedStatement, String> {
    let mut prepared = session.prepare(text).await.map_err(|error| format!("`{text}` cannot be prepared: {error}"))?;
    prepared.set_consistency(consistency);
    // The same value for the same key: done twice it is as if done once, so the driver may ask another node again.
    prepared.set_is_idempotent(true);
    prepared.set_request_timeout(Some(ANSWER_PATIENCE));
    Ok(prepared)
}

fn text_of(key: Vec<u8>) -> Result<String, String> {
    String::from_utf8(key).map_err(|_| "a key is no text, which keys of this table are".to_owned())
}

impl Store for Cassandra {
    fn open(address: &str) -> Result<Cassandra, String> {
        Cassandra::session_of([address], 1)
    }

    /// One session for all nodes, as its drivers' documentation wants it.
    fn open_all(addresses: &[String], connections: u32) -> Result<Vec<Vec<Cassandra>>, String> {
        Ok(vec![vec![Cassandra::session_of(addresses.iter().map(String::as_str), connections)?]])
    }

    async fn prepare(&self, task: Task) -> Result<(), String> {
        self.ready.get_or_try_init(|| self.connect(task)).await.map(|_| ())
    }

    async fn put(&self, key: Vec<u8>, value: Vec<u8>) -> Result<(), String> {
        let ready = self.ready().await?;
        let done = ready.session.execute_unpaged(&ready.put, (text_of(key)?, value)).await;
        done.map(|_| ()).map_err(|error| error.to_string())
    }

    async fn get(&self, key: Vec<u8>) -> Result<Option<Vec<u8>>, String> {
        let ready = self.ready().await?;
        let found = ready.session.execute_unpaged(&ready.get, (text_of(key)?,)).await;
        let rows = found.map_err(|error| error.to_string())?.into_rows_result().map_err(|error| error.to_string())?;
        let row = rows.maybe_first_row::<(Vec<u8>,)>().map_err(|error| error.to_string())?;
        Ok(row.map(|(value,)| value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_session_knows_all_nodes() {
        let addresses = ["127.0.0.1:9042".to_owned(), "127.0.0.2:9042".to_owned()];
        let opened = Cassandra::open_all(&addresses, 3).unwrap();
        assert_eq!((opened.len(), opened[0].len()), (1, 1));
        assert_eq!((opened[0][0].addresses.len(), opened[0][0].connections.get()), (2, 3));
        let told = Cassandra::open_all(&["localhost".to_owned()], 1).err().unwrap();
        assert!(told.contains("`localhost` is no address"), "{told}");
        assert!(text_of(b"\xff".to_vec()).unwrap_err().contains("no text"));
    }
}
