//! HTTP as a client of the node: a bounded pool of virtual connections, one command or one short conversation at a time on each.
//!
//! A connection goes back to the pool only when every command sent on it has been answered; one that is given up
//! (the HTTP client went away, the time was over) is closed, so that no answer can reach the wrong request.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};
use wire::{ReplyParser, Value};

use crate::bridge::{Bridge, VirtualConnection};

/// Most virtual connections of one node's HTTP: so many commands are under way at most, and others wait.
const CONNECTIONS_MAX: usize = 256;

/// How much longer than the node HTTP waits: the node gives up first and says more about it.
const GRACE: Duration = Duration::from_secs(1);

/// Why a command has no reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Failure {
    /// Every connection was taken until the time was over. Nothing was sent.
    Busy,
    /// The time was over, or the node closed the connection: the outcome is open.
    Unanswered,
    /// The node's error, its code first.
    Refused(String),
    /// A reply of a kind that the command never gives.
    Strange(String),
}

/// The connections to the node.
pub(super) struct Pool {
    bridge: Bridge,
    password: Option<String>,
    patience: Duration,
    idle: Mutex<Vec<Line>>,
    free: Arc<Semaphore>,
}

/// One connection and what has arrived on it.
struct Line {
    connection: VirtualConnection,
    parser: ReplyParser,
}

/// A connection for one conversation.
pub(super) struct Lease<'a> {
    pool: &'a Pool,
    /// Taken out when the lease ends, or when the line is of no more use.
    line: Option<Line>,
    unanswered: usize,
    deadline: Instant,
    _permit: OwnedSemaphorePermit,
}

impl Pool {
    /// `password` is shown to the node on each new connection; `request_timeout` is the node's own.
    pub(super) fn new(bridge: Bridge, password: Option<String>, request_timeout: Duration) -> Pool {
        Pool {
            bridge,
            password,
            patience: request_timeout.saturating_add(GRACE),
            idle: Mutex::default(),
            free: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
        }
    }

    /// How long a conversation may take.
    pub(super) fn patience(&self) -> Duration {
        self.patience
    }

    /// One command, one reply; an error reply is [`Failure::Refused`].
    pub(super) async fn call(&self, words: &[&[u8]]) -> Result<Value, Failure> {
        self.call_within(self.patience, words).await
    }

    /// As [`Pool::call`], but not longer than `patience`.
    pub(super) async fn call_within(&self, patience: Duration, words: &[&[u8]]) -> Result<Value, Failure> {
        let mut lease = self.lease_until(Instant::now() + patience).await?;
        lease.call(words).await
    }

    /// A connection for a conversation of several commands.
    pub(super) async fn lease(&self) -> Result<Lease<'_>, Failure> {
        self.lease_until(Instant::now() + self.patience).await
    }

    async fn lease_until(&self, deadline: Instant) -> Result<Lease<'_>, Failure> {
        let permit = timeout_at(deadline, Arc::clone(&self.free).acquire_owned())
            .await
            .map_err(|_| Failure::Busy)?
            .map_err(|_| Failure::Busy)?;
        let mut lease = Lease { pool: self, line: None, unanswered: 0, deadline, _permit: permit };
        loop {
            let Some(mut line) = self.lock().pop() else { break };
            // A connection that the node has closed in the meantime says so at once.
            if line.connection.receive().now_or_never().is_none() {
                lease.line = Some(line);
                return Ok(lease);
            }
        }
        lease.line = Some(Line { connection: self.bridge.open("http"), parser: ReplyParser::default() });
        let password = self.password.as_deref().unwrap_or_default().as_bytes();
        let hello: &[&[u8]] = match self.password {
            Some(_) => &[b"HELLO", b"3", b"AUTH", b"default", password, b"SETNAME", b"http"],
            None => &[b"HELLO", b"3", b"SETNAME", b"http"],
        };
        match lease.call(hello).await {
            Ok(_) => Ok(lease),
            Err(failure) => {
                // Not to be used again; and nothing was sent of what the caller wants done.
                lease.line = None;
                Err(if failure == Failure::Unanswered { Failure::Busy } else { failure })
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Line>> {
        // Nothing that runs under this lock can panic.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lease<'_> {
    /// One command, one reply.
    pub(super) async fn call(&mut self, words: &[&[u8]]) -> Result<Value, Failure> {
        self.send(words).await?;
        self.receive().await
    }

    /// Sends a command. Its reply is to be fetched by [`Lease::receive`], in order.
    pub(super) async fn send(&mut self, words: &[&[u8]]) -> Result<(), Failure> {
        let line = self.line.as_ref().ok_or(Failure::Unanswered)?;
        let mut bytes = Vec::new();
        wire::encode_command(&mut bytes, words);
        // Nothing of the command is with the node while this waits.
        timeout_at(self.deadline, line.connection.send(bytes)).await.map_err(|_| Failure::Busy)?;
        self.unanswered += 1;
        Ok(())
    }

    /// The reply to the oldest command that has none.
    pub(super) async fn receive(&mut self) -> Result<Value, Failure> {
        let line = self.line.as_mut().ok_or(Failure::Unanswered)?;
        let value = loop {
            match line.parser.next() {
                // Messages that answer no command are of no interest here.
                Ok(Some(Value::Push(_))) => continue,
                Ok(Some(value)) => break value,
                Ok(None) => {}
                Err(error) => {
                    self.line = None;
                    return Err(Failure::Strange(error.to_string()));
                }
            }
            match timeout_at(self.deadline, line.connection.receive()).await {
                Ok(Some(bytes)) => line.parser.push(&bytes),
                Ok(None) | Err(_) => {
                    self.line = None;
                    return Err(Failure::Unanswered);
                }
            }
        };
        self.unanswered -= 1;
        match value {
            Value::Error(text) => Err(Failure::Refused(text)),
            value => Ok(value),
        }
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        if let Some(line) = self.line.take()
            && self.unanswered == 0
        {
            self.pool.lock().push(line);
        }
    }
}

/// A reply that the command never gives.
pub(super) fn strange(command: &str, reply: &Value) -> Failure {
    let mut text = reply.pretty();
    text.truncate(text.char_indices().nth(80).map_or(text.len(), |(at, _)| at));
    Failure::Strange(format!("The node answered {command} with {}.", text.trim_end()))
}
