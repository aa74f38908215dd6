//! HTTP as a client of the node: a bounded pool of virtual connections, one command or one short conversation at a time on each.
//! Each remembers which bucket it has selected, and selects another one only when it has to.
//!
//! A connection goes back to the pool only when every command sent on it has been answered; one that is given up
//! (the HTTP client went away, the time was over) is closed, so that no answer can reach the wrong request.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};
use wire::{ReplyParser, Value};

use super::place::BucketName;
use crate::bridge::{Bridge, VirtualConnection};

/// Most virtual connections of one node's HTTP: so many commands are under way at most, and others wait.
const CONNECTIONS_MAX: usize = 256;

/// How much longer than the node HTTP waits: the node gives up first and says more about it.
const GRACE: Duration = Duration::from_secs(1);

/// What the node says when the bucket that a connection has selected was dropped, or has no replica on it yet. Nothing was done then.
const BUCKET_GONE: &str = "ERR the selected bucket is not there any more";

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
    /// The bucket that it has selected, if that is known.
    selected: Option<BucketName>,
}

/// A connection for one conversation.
pub(super) struct Lease<'a> {
    pool: &'a Pool,
    /// Taken out when the lease ends, or when the line is of no more use.
    line: Option<Line>,
    unanswered: usize,
    /// What the conversation is about; `None` if that is no bucket's business.
    bucket: Option<BucketName>,
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

    /// One command, one reply; an error reply is [`Failure::Refused`]. Without a bucket for what concerns none.
    pub(super) async fn call(&self, bucket: Option<&BucketName>, words: &[&[u8]]) -> Result<Value, Failure> {
        let mut lease = self.lease_until(Instant::now() + self.patience, bucket).await?;
        lease.call(words).await
    }

    /// As [`Pool::call`], but not longer than `patience`, and about no bucket.
    pub(super) async fn call_within(&self, patience: Duration, words: &[&[u8]]) -> Result<Value, Failure> {
        let mut lease = self.lease_until(Instant::now() + patience, None).await?;
        lease.call(words).await
    }

    /// A connection for a conversation of several commands about a bucket. That there is none such is [`Failure::Refused`].
    pub(super) async fn lease(&self, bucket: &BucketName) -> Result<Lease<'_>, Failure> {
        self.lease_until(Instant::now() + self.patience, Some(bucket)).await
    }

    async fn lease_until(&self, deadline: Instant, bucket: Option<&BucketName>) -> Result<Lease<'_>, Failure> {
        let permit = timeout_at(deadline, Arc::clone(&self.free).acquire_owned())
            .await
            .map_err(|_| Failure::Busy)?
            .map_err(|_| Failure::Busy)?;
        let line = self.take_idle(bucket);
        let is_new = line.is_none();
        let mut lease = Lease { pool: self, line, unanswered: 0, bucket: bucket.cloned(), deadline, _permit: permit };
        let mut ready = if is_new { lease.greet().await } else { Ok(()) };
        if ready.is_ok() {
            ready = lease.select().await;
        }
        match ready {
            Ok(()) => Ok(lease),
            // Nothing was sent of what the caller wants done.
            Err(Failure::Unanswered) => Err(Failure::Busy),
            Err(failure) => Err(failure),
        }
    }

    /// A connection that waits, rather one that has selected the bucket.
    fn take_idle(&self, bucket: Option<&BucketName>) -> Option<Line> {
        loop {
            let mut idle = self.lock();
            let fitting =
                bucket.and_then(|bucket| idle.iter().rposition(|line| line.selected.as_ref() == Some(bucket)));
            let mut line = match fitting {
                Some(at) => idle.swap_remove(at),
                None => idle.pop()?,
            };
            drop(idle);
            // A connection that the node has closed in the meantime says so at once.
            if line.connection.receive().now_or_never().is_none() {
                return Some(line);
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
        let reply = self.exchange(words).await;
        let is_gone = matches!(&reply, Err(Failure::Refused(text)) if text.starts_with(BUCKET_GONE));
        if self.bucket.is_none() || !is_gone {
            return reply;
        }
        // Another bucket may have its name by now; or there is none, which SELECT says.
        if let Some(line) = &mut self.line {
            line.selected = None;
        }
        self.select().await.map_err(|failure| if failure == Failure::Unanswered { Failure::Busy } else { failure })?;
        match self.exchange(words).await {
            Err(Failure::Refused(text)) if text.starts_with(BUCKET_GONE) => Err(Failure::Refused(
                "CLUSTERDOWN This node has no replica of the bucket yet. Nothing was done; try again.".to_owned(),
            )),
            reply => reply,
        }
    }

    async fn exchange(&mut self, words: &[&[u8]]) -> Result<Value, Failure> {
        self.send(words).await?;
        self.receive().await
    }

    /// Opens the line.
    async fn greet(&mut self) -> Result<(), Failure> {
        let selected = Some(BucketName::default_bucket().clone());
        let connection = self.pool.bridge.open("http");
        self.line = Some(Line { connection, parser: ReplyParser::default(), selected });
        let password = self.pool.password.as_deref().unwrap_or_default().as_bytes();
        let hello: &[&[u8]] = match self.pool.password {
            Some(_) => &[b"HELLO", b"3", b"AUTH", b"default", password, b"SETNAME", b"http"],
            None => &[b"HELLO", b"3", b"SETNAME", b"http"],
        };
        let greeted = self.exchange(hello).await;
        if greeted.is_err() {
            // Not to be used again.
            self.line = None;
        }
        greeted.map(drop)
    }

    /// Turns to the conversation's bucket.
    async fn select(&mut self) -> Result<(), Failure> {
        let Some(bucket) = self.bucket.clone() else { return Ok(()) };
        if self.line.as_ref().is_some_and(|line| line.selected.as_ref() != Some(&bucket)) {
            self.exchange(&[b"SELECT", bucket.as_bytes()]).await?;
            if let Some(line) = &mut self.line {
                line.selected = Some(bucket);
            }
        }
        Ok(())
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
