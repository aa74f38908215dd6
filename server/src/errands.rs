//! Holds the conversations by which keys go to other databases and servers ([`node::Errand`]), on a thread of its own: nothing of them may hold up the loop.
//!
//! With this node it speaks as a client without a socket ([`crate::bridge`]), with another server over TCP. What is said the node's own code decides.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use base::limits::ERRANDS_AT_ONCE_MAX;
use node::{ConnectionId, Errand, ErrandAnswer, Heard, Say, Side, Target};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;
use wire::{ReplyLimits, ReplyParser, Value};

use crate::bridge::{Bridge, VirtualConnection};

/// This node answers each command in its own time, and all of an errand's step within this.
const OWN_TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes that are read from another server at a time.
const READ_BYTES: usize = 16 * 1024;
/// Limits of one answer of another server: it is asked for an `OK`, or why not. Anybody who can send `MIGRATE` chooses the server.
const OUTSIDE_LIMITS: ReplyLimits = ReplyLimits { depth_max: 4, values_max: 64, bytes_max: 16 * 1024 };
/// So many bytes a second another server has to take, beyond the time that the client gives it.
const OUTSIDE_BYTES_A_SECOND: usize = 1024 * 1024;

/// Tells the loop what a client is answered.
pub(crate) type Tell = Arc<dyn Fn(ConnectionId, u64, ErrandAnswer) + Send + Sync>;

/// Means of the conversations.
#[derive(Clone)]
struct Means {
    bridge: Bridge,
    tell: Tell,
}

/// The loop's end. The thread ends with it.
#[derive(Debug)]
pub(crate) struct Errands(mpsc::UnboundedSender<Errand>);

impl Errands {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no thread left, or no descriptor.
    pub(crate) fn start(bridge: Bridge, tell: Tell) -> io::Result<Errands> {
        let (sender, mut errands) = mpsc::unbounded_channel::<Errand>();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let means = Means { bridge, tell };
        let run = move || {
            runtime.block_on(async {
                let [here, outside] = [(); 2].map(|()| Arc::new(Semaphore::new(ERRANDS_AT_ONCE_MAX)));
                while let Some(errand) = errands.recv().await {
                    let places = Arc::clone(if errand.target() == Target::Here { &here } else { &outside });
                    let means = means.clone();
                    tokio::spawn(async move {
                        // The semaphores are never closed, and hand out their places in order.
                        let _place = places.acquire_owned().await;
                        means.hold(errand).await;
                    });
                }
            });
        };
        thread::Builder::new().name("errands".to_owned()).spawn(run)?;
        Ok(Errands(sender))
    }

    /// Takes one more. The node bounds how many there are.
    pub(crate) fn give(&self, errand: Errand) {
        // An error means that the thread has ended, as it does with the process.
        let _ = self.0.send(errand);
    }
}

impl Means {
    async fn hold(&self, mut errand: Errand) {
        let (connection, slot) = (errand.connection, errand.slot);
        let answer = self.converse(&mut errand).await;
        (self.tell)(connection, slot, answer);
    }

    async fn converse(&self, errand: &mut Errand) -> ErrandAnswer {
        let target = errand.target();
        let (mut source, mut here) = (None, None);
        let mut there = None;
        let mut heard = Heard::Nothing;
        loop {
            let (side, bytes, count) = match errand.go_on(heard) {
                Say::To(side, bytes, count) => (side, bytes, count),
                Say::Done(answer) => return answer,
            };
            let replies = match (side, &target) {
                (Side::Source, _) => self.ask_here(&mut source, "errand", bytes, count).await,
                (Side::Target, Target::Here) => self.ask_here(&mut here, "errand to", bytes, count).await,
                (Side::Target, Target::Server { host, port, timeout: limit }) => {
                    if there.is_none() {
                        there = in_time(*limit, TcpStream::connect((host.as_str(), *port))).await.map(Outside::new);
                    }
                    match &mut there {
                        None => {
                            heard = Heard::NoConnection(side);
                            continue;
                        }
                        Some(outside) => outside.ask(&bytes, count, *limit).await,
                    }
                }
            };
            heard = replies.map_or(Heard::NoAnswer(side), Heard::Replies);
        }
    }

    /// Asks this node over a connection that is opened first, if it is not yet.
    async fn ask_here(
        &self,
        inside: &mut Option<Inside>,
        about: &str,
        bytes: Vec<u8>,
        count: usize,
    ) -> Option<Vec<Value>> {
        let inside = inside
            .get_or_insert_with(|| Inside { connection: self.bridge.open(about), parser: ReplyParser::default() });
        timeout(OWN_TIMEOUT, inside.ask(bytes, count)).await.ok()?
    }
}

/// A connection to this node.
struct Inside {
    connection: VirtualConnection,
    parser: ReplyParser,
}

impl Inside {
    async fn ask(&mut self, bytes: Vec<u8>, count: usize) -> Option<Vec<Value>> {
        self.connection.send(bytes).await;
        let mut replies = Vec::with_capacity(count);
        while replies.len() < count {
            match self.parser.next().ok()? {
                Some(value) => replies.push(value),
                None => self.parser.push(&self.connection.receive().await?),
            }
        }
        Some(replies)
    }
}

/// A connection to another server.
struct Outside {
    stream: TcpStream,
    parser: ReplyParser,
}

impl Outside {
    fn new(stream: TcpStream) -> Outside {
        Outside { stream, parser: ReplyParser::new(OUTSIDE_LIMITS) }
    }

    /// Each reply has to be there within `limit`, and so does the word that all was sent, with time for what is large.
    async fn ask(&mut self, bytes: &[u8], count: usize, limit: Duration) -> Option<Vec<Value>> {
        let seconds = (bytes.len() / OUTSIDE_BYTES_A_SECOND) as u64;
        in_time(limit + Duration::from_secs(seconds), self.stream.write_all(bytes)).await?;
        let mut replies = Vec::with_capacity(count);
        while replies.len() < count {
            replies.push(timeout(limit, self.next()).await.ok()??);
        }
        Some(replies)
    }

    async fn next(&mut self) -> Option<Value> {
        let mut buffer = vec![0; READ_BYTES];
        loop {
            if let Some(value) = self.parser.next().ok()? {
                return Some(value);
            }
            match self.stream.read(&mut buffer).await.ok()? {
                0 => return None,
                length => self.parser.push(&buffer[..length]),
            }
        }
    }
}

async fn in_time<T>(limit: Duration, what: impl Future<Output = io::Result<T>>) -> Option<T> {
    timeout(limit, what).await.ok()?.ok()
}

#[cfg(test)]
mod tests;
