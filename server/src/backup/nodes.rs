//! The nodes of a cluster, asked one after the other: what takes long goes on when one of them does not.

use std::time::{Duration, Instant};

use wire::Value;

use crate::cli::asked::Asked;
use crate::cli::connection::{Connection, Endpoint};
use crate::secrets::Login;
use crate::status;

/// How long an answer may take: a block of a large value, as slowly as a busy node may send it.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// How long it is tried while nothing comes of it.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(200);

/// Why something was not done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Trouble {
    /// Another node, or the same one later, may do it.
    Passing(String),
    /// Nobody will.
    Lasting(String),
}

impl Trouble {
    /// The meaning of an error's text.
    pub(crate) fn of(error: &str) -> Trouble {
        let code = error.split(' ').next().unwrap_or_default();
        let passes = ["CLUSTERDOWN", "UNKNOWN", "MISCONF", "NOCOPY", "LOADING", "TRYAGAIN", "BUSY"].contains(&code)
            || error.starts_with("ERR this node gives out four backups already")
            // A new cluster is of an earlier version for some seconds.
            || error.contains("it can be used when every node speaks that");
        if passes { Trouble::Passing(error.to_owned()) } else { Trouble::Lasting(error.to_owned()) }
    }

    pub(crate) fn text(self) -> String {
        match self {
            Trouble::Passing(text) | Trouble::Lasting(text) => text,
        }
    }
}

/// How long it has been tried since something last came of it.
#[derive(Debug)]
pub(crate) struct Tries {
    since: Instant,
}

impl Tries {
    pub(crate) fn new() -> Tries {
        Tries { since: Instant::now() }
    }

    /// Something came of it.
    pub(crate) fn begin_anew(&mut self) {
        self.since = Instant::now();
    }

    /// Waits for the next try. An error if there were enough of them.
    pub(crate) fn wait(&self, why: String) -> Result<(), String> {
        if self.since.elapsed() >= PATIENCE {
            return Err(format!("for a minute nothing could be done: {why}"));
        }
        std::thread::sleep(PAUSE);
        Ok(())
    }
}

/// See the file's head.
#[derive(Debug)]
pub(crate) struct Nodes {
    endpoints: Vec<Endpoint>,
    /// The one that is asked.
    current: usize,
    login: Option<Login>,
    connection: Option<Connection>,
    /// The bucket that is selected on each connection.
    bucket: String,
}

impl Nodes {
    /// Connects to the first that answers, and learns where the others are.
    pub(crate) fn open(asked: &Asked) -> Result<Nodes, String> {
        let (endpoint, mut connection) = asked.open()?;
        let mut endpoints = vec![endpoint.clone()];
        endpoints.extend(asked.endpoints()?);
        let cluster = status::read(&endpoint, &mut connection)?;
        // By TLS, if the first one is.
        let alike = |other| Endpoint { authority: endpoint.authority.clone(), ..other };
        endpoints.extend(cluster.nodes.iter().filter_map(|node| reached(&node.resp, &node.peer)).map(alike));
        let mut known: Vec<Endpoint> = Vec::new();
        endpoints.retain(|endpoint| {
            let is_new = !known.contains(endpoint);
            known.extend(is_new.then(|| endpoint.clone()));
            is_new
        });
        let (login, bucket) = (asked.login()?, "default".to_owned());
        Ok(Nodes { endpoints, current: 0, login, connection: None, bucket })
    }

    /// From the next command on it is about this bucket.
    pub(crate) fn select(&mut self, bucket: &str) {
        self.bucket = bucket.to_owned();
        self.connection = None;
    }

    /// The next node is asked from here on.
    pub(crate) fn turn(&mut self) {
        self.connection = None;
        self.current = (self.current + 1) % self.endpoints.len();
    }

    pub(crate) fn count(&self) -> usize {
        self.endpoints.len()
    }

    /// A connection to the node whose turn it is, in the bucket.
    pub(crate) fn connection(&mut self) -> Result<&mut Connection, Trouble> {
        if self.connection.is_none() {
            let endpoint = &self.endpoints[self.current];
            let failed = |error| Trouble::Passing(format!("the node at {endpoint} does not answer: {error}"));
            let mut connection = Connection::open(endpoint, Some(ANSWER_TIMEOUT)).map_err(failed)?;
            let mut ask = |words: &[&[u8]]| match connection.call(words).map_err(failed)?.as_error() {
                Some(error) => Err(Trouble::of(error)),
                None => Ok(()),
            };
            if let Some(login) = &self.login {
                let words: Vec<&[u8]> = login.words().into_iter().map(str::as_bytes).collect();
                ask(&words)?;
            }
            ask(&[b"SELECT", self.bucket.as_bytes()])?;
            self.connection = Some(connection);
        }
        Ok(self.connection.as_mut().expect("it is there since the lines above"))
    }

    /// Asks the node whose turn it is.
    pub(crate) fn ask<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Result<Value, Trouble> {
        let reply = self.connection()?.call(words);
        match reply {
            Ok(reply) => match reply.as_error() {
                Some(error) => Err(Trouble::of(error)),
                None => Ok(reply),
            },
            Err(error) => {
                self.connection = None;
                Err(Trouble::Passing(format!("the node at {} does not answer: {error}", self.endpoints[self.current])))
            }
        }
    }

    /// Asks one node after the other, until one does it or nothing came of it for a while.
    pub(crate) fn ask_any<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Result<Value, String> {
        let tries = Tries::new();
        loop {
            match self.ask(words) {
                Ok(reply) => return Ok(reply),
                Err(Trouble::Lasting(text)) => return Err(text),
                Err(Trouble::Passing(text)) => {
                    self.turn();
                    tries.wait(text)?;
                }
            }
        }
    }
}

/// Where a node serves clients. One that listens at all addresses is reached where its peers reach it.
fn reached(resp: &str, peer: &str) -> Option<Endpoint> {
    let mut endpoint = Endpoint::parse(resp).ok().filter(|_| !resp.is_empty())?;
    if ["0.0.0.0", "::"].contains(&endpoint.host.as_str()) {
        endpoint.host = Endpoint::parse(peer).ok()?.host;
    }
    Some(endpoint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_reached_where_they_listen_or_where_their_peers_reach_them() {
        let reached = |resp, peer| reached(resp, peer).map(|endpoint| endpoint.to_string());
        assert_eq!(reached("10.0.0.1:7001", "10.1.0.1:9001").as_deref(), Some("10.0.0.1:7001"));
        assert_eq!(reached("0.0.0.0:7001", "10.1.0.1:9001").as_deref(), Some("10.1.0.1:7001"));
        assert_eq!(reached("[::]:7001", "n1.example:9001").as_deref(), Some("n1.example:7001"));
        assert_eq!(reached("", "10.1.0.1:9001"), None);
    }

    #[test]
    fn what_passes_is_told_from_what_does_not() {
        for error in ["CLUSTERDOWN no leader", "UNKNOWN timeout", "MISCONF disk", "NOCOPY this node has no copy"] {
            assert_eq!(Trouble::of(error), Trouble::Passing(error.to_owned()));
        }
        for error in ["ERR a value is too long", "NOAUTH Authentication required.", "OOM command not allowed"] {
            assert_eq!(Trouble::of(error), Trouble::Lasting(error.to_owned()));
        }
    }
}
