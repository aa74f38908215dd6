//! HTTP as a client of the node: a bounded pool of virtual connections, one command or one short conversation at a time on each. Each acts for one user, whose rights the
//! node goes by, and serves no other one. Where there are too many, the one that has been idle for longest is closed.
//! Each remembers which bucket it has selected and which levels it has set, and changes them only when it has to. What one request has
//! asked for never holds for the next one: an order says all of its levels, and what the connection has otherwise is changed first.
//!
//! A connection goes back to the pool only when every command sent on it has been answered; one that is given up
//! (the HTTP client went away, the time was over) is closed, so that no answer can reach the wrong request.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};
use wire::{ReplyParser, Value};

use super::levels::{LINEARIZABLE, Levels};
use super::login::Caller;
use super::place::BucketName;
use super::problem::Access;
use crate::bridge::{Bridge, VirtualConnection};
use crate::bucket::{CONSISTENCIES, DURABILITIES};

/// Most virtual connections of one node's HTTP: so many commands are under way at most, and others wait.
const CONNECTIONS_MAX: usize = 256;

/// As many more are for what is asked of the node itself: metrics, administration. Commands that wait, because clients are paused or no leader is there, do
/// not take these.
const OWN_CONNECTIONS_MAX: usize = 16;

/// As many more are for what the process itself asks, which are probes: no user can keep these waiting.
const PROCESS_CONNECTIONS_MAX: usize = 8;

/// Most connections, idle ones included.
const LINES_MAX: usize = CONNECTIONS_MAX + OWN_CONNECTIONS_MAX + PROCESS_CONNECTIONS_MAX;

/// How much longer than the node HTTP waits: the node gives up first and says more about it.
const GRACE: Duration = Duration::from_secs(1);

/// What the node says when the bucket that a connection has selected was dropped, or has no replica on it yet. Nothing was done then.
const BUCKET_GONE: &str = "ERR the selected bucket is not there any more";

/// Takes back what a connection has set.
const DEFAULT: &str = "default";

/// Codes of errors that a command is answered only when it has seen the state, or changed it.
const CODES_OF_A_STATE_SEEN: [&str; 3] = ["WRONGTYPE", "NOTALL", "REUSED"];

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

/// A command about a bucket, and what it asks for.
#[derive(Clone, Copy)]
pub(super) struct Order<'a> {
    pub(super) words: &'a [&'a [u8]],
    pub(super) levels: &'a Levels,
    /// A write is of the durability that `levels` says, a read of the consistency.
    pub(super) access: Access,
    /// Whether the node is to tell the level, if `levels` leaves it to the bucket.
    pub(super) wants_level: bool,
}

/// What an order was answered.
pub(super) struct Told {
    pub(super) reply: Result<Value, Failure>,
    /// Stands for the state that the command has seen, or a newer one; `None` if it has seen none.
    pub(super) token: Option<Vec<u8>>,
    /// The bucket's own level, if it was asked for: of durability for a write, of consistency for a read.
    pub(super) level: Option<&'static str>,
    /// Of a read: how old the state was at most, in milliseconds, if that is known.
    pub(super) age_ms: Option<u64>,
}

/// The connections to the node.
pub(super) struct Pool {
    bridge: Bridge,
    patience: Duration,
    /// The one that has been idle for longest is the first.
    idle: Mutex<Vec<Line>>,
    free: Arc<Semaphore>,
    free_for_the_node: Arc<Semaphore>,
    free_for_the_process: Arc<Semaphore>,
}

/// One connection and what has arrived on it.
struct Line {
    /// The user whose rights it has.
    caller: Caller,
    connection: VirtualConnection,
    parser: ReplyParser,
    /// The bucket that it has selected, if that is known.
    selected: Option<BucketName>,
    /// The levels that it has set; `None`: as the bucket says.
    durability: Option<&'static str>,
    consistency: Option<&'static str>,
    /// It was given a token of which nothing has shown yet that there was such a state. Such a line is not used again: the token
    /// would be the next request's as well.
    believes: bool,
}

impl Line {
    /// Whether an order needs nothing changed.
    fn suits(&self, bucket: &BucketName, levels: &Levels, access: Access) -> bool {
        self.selected.as_ref() == Some(bucket)
            && match access {
                Access::Read => self.consistency == levels.consistency,
                Access::Write => self.durability == levels.durability,
            }
    }
}

/// A connection for one conversation.
pub(super) struct Lease<'a> {
    pool: &'a Pool,
    caller: Caller,
    /// Taken out when the lease ends, or when the line is of no more use.
    line: Option<Line>,
    unanswered: usize,
    /// What the conversation is about; `None` if that is no bucket's business.
    bucket: Option<BucketName>,
    deadline: Instant,
    _permit: OwnedSemaphorePermit,
}

impl Pool {
    /// `request_timeout` is the node's own.
    pub(super) fn new(bridge: Bridge, request_timeout: Duration) -> Pool {
        Pool {
            bridge,
            patience: request_timeout.saturating_add(GRACE),
            idle: Mutex::default(),
            free: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
            free_for_the_node: Arc::new(Semaphore::new(OWN_CONNECTIONS_MAX)),
            free_for_the_process: Arc::new(Semaphore::new(PROCESS_CONNECTIONS_MAX)),
        }
    }

    /// Where connections of one's own are opened.
    pub(super) fn bridge(&self) -> &Bridge {
        &self.bridge
    }

    /// How long a conversation may take.
    pub(super) fn patience(&self) -> Duration {
        self.patience
    }

    /// One command about no bucket, one reply; an error reply is [`Failure::Refused`].
    pub(super) async fn call(&self, caller: &Caller, words: &[&[u8]]) -> Result<Value, Failure> {
        self.call_within(caller, self.patience, words).await
    }

    /// One command about a bucket.
    pub(super) async fn ask(&self, caller: &Caller, bucket: &BucketName, order: &Order<'_>) -> Told {
        match self.lease(caller, bucket, order.levels, order.access).await {
            Ok(mut lease) => lease.ask(order).await,
            Err(failure) => Told::nothing(failure),
        }
    }

    /// As [`Pool::call`], but not longer than `patience`, and about no bucket.
    pub(super) async fn call_within(
        &self,
        caller: &Caller,
        patience: Duration,
        words: &[&[u8]],
    ) -> Result<Value, Failure> {
        let mut lease = self.lease_until(caller, Instant::now() + patience, None, |_| true).await?;
        lease.exchange(words).await
    }

    /// A connection for a conversation of several commands about a bucket, rather one that has its levels set for the first. That there
    /// is no such bucket is [`Failure::Refused`].
    pub(super) async fn lease(
        &self,
        caller: &Caller,
        bucket: &BucketName,
        levels: &Levels,
        access: Access,
    ) -> Result<Lease<'_>, Failure> {
        let suits = |line: &Line| line.suits(bucket, levels, access);
        self.lease_until(caller, Instant::now() + self.patience, Some(bucket), suits).await
    }

    async fn lease_until(
        &self,
        caller: &Caller,
        deadline: Instant,
        bucket: Option<&BucketName>,
        suits: impl Fn(&Line) -> bool,
    ) -> Result<Lease<'_>, Failure> {
        let free = match (caller, bucket) {
            (Caller::Process, _) => &self.free_for_the_process,
            (Caller::User(_), Some(_)) => &self.free,
            (Caller::User(_), None) => &self.free_for_the_node,
        };
        let permit = timeout_at(deadline, Arc::clone(free).acquire_owned())
            .await
            .map_err(|_| Failure::Busy)?
            .map_err(|_| Failure::Busy)?;
        let line = self.take_idle(caller, bucket, suits);
        let is_new = line.is_none();
        let (caller, bucket) = (caller.clone(), bucket.cloned());
        let mut lease = Lease { pool: self, caller, line, unanswered: 0, bucket, deadline, _permit: permit };
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

    /// A connection of this caller that waits: rather one that suits, then one that has selected the bucket. If there is none, there is room for a new one.
    fn take_idle(&self, caller: &Caller, bucket: Option<&BucketName>, suits: impl Fn(&Line) -> bool) -> Option<Line> {
        loop {
            let mut idle = self.lock();
            let last =
                |fits: &dyn Fn(&Line) -> bool| idle.iter().rposition(|line| line.caller == *caller && fits(line));
            let fitting = last(&suits)
                .or_else(|| bucket.and_then(|bucket| last(&|line| line.selected.as_ref() == Some(bucket))))
                .or_else(|| last(&|_| true));
            let Some(at) = fitting else {
                let most = LINES_MAX.saturating_sub(self.leased());
                let too_many = idle.len().saturating_sub(most);
                idle.drain(..too_many);
                return None;
            };
            let mut line = idle.remove(at);
            drop(idle);
            // A connection that the node has closed in the meantime says so at once.
            if line.connection.receive().now_or_never().is_none() {
                return Some(line);
            }
        }
    }

    /// How many conversations are under way, with the one that has just got its permit.
    fn leased(&self) -> usize {
        let free = [&self.free, &self.free_for_the_node, &self.free_for_the_process];
        LINES_MAX.saturating_sub(free.iter().map(|free| free.available_permits()).sum())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Line>> {
        // Nothing that runs under this lock can panic.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lease<'_> {
    /// Carries out an order.
    pub(super) async fn ask(&mut self, order: &Order<'_>) -> Told {
        let told = self.attempt(order).await;
        if !told.says_gone() {
            return told;
        }
        // Another bucket may have its name by now; or there is none, which SELECT says.
        if let Some(line) = &mut self.line {
            line.selected = None;
        }
        if let Err(failure) = self.select().await {
            return Told::nothing(if failure == Failure::Unanswered { Failure::Busy } else { failure });
        }
        let told = self.attempt(order).await;
        if !told.says_gone() {
            return told;
        }
        let text = "CLUSTERDOWN This node has no replica of the bucket yet. Nothing was done; try again.";
        Told::nothing(Failure::Refused(text.to_owned()))
    }

    /// Sends the order with all that is asked beside it in one piece, so that this takes no longer than the order itself.
    async fn attempt(&mut self, order: &Order<'_>) -> Told {
        let Order { words, levels, access, wants_level } = *order;
        // A write goes out only when its level is set for sure; a read that is of the wrong one is just not believed.
        if access == Access::Write
            && let Err(failure) = self.set_durability(levels.durability).await
        {
            return Told::nothing(if failure == Failure::Unanswered { Failure::Busy } else { failure });
        }
        let Some(line) = &mut self.line else { return Told::nothing(Failure::Unanswered) };
        let (asked, names, question): (_, &[&'static str], &[u8]) = match access {
            Access::Read => (levels.consistency, &CONSISTENCIES, b"DICTUM.CONSISTENCY"),
            Access::Write => (levels.durability, &DURABILITIES, b"DICTUM.DURABILITY"),
        };
        let sets = access == Access::Read && (line.consistency != asked || levels.token.is_some());
        let asks_level = wants_level && asked.is_none();
        let asks_age = access == Access::Read && asked != Some(LINEARIZABLE);

        let believed = line.believes;
        let mut bytes = Vec::new();
        if sets {
            let mut setting = vec![question, asked.unwrap_or(DEFAULT).as_bytes()];
            setting.extend(levels.token.as_ref().map(|token| token.as_bytes()));
            line.believes |= levels.token.is_some();
            wire::encode_command(&mut bytes, setting);
        }
        wire::encode_command(&mut bytes, words);
        if asks_level {
            wire::encode_command(&mut bytes, [question]);
        }
        wire::encode_command(&mut bytes, [b"DICTUM.TOKEN"]);
        if asks_age {
            wire::encode_command(&mut bytes, [b"DICTUM.AGE"]);
        }
        let count = 2 + [sets, asks_level, asks_age].into_iter().filter(|one| *one).count();
        if let Err(failure) = self.send_encoded(bytes, count).await {
            return Told::nothing(failure);
        }

        let set = if sets { self.receive().await.map(drop) } else { Ok(()) };
        let reply = self.receive().await;
        let level = if asks_level { self.receive().await.ok() } else { None };
        let token = self.receive().await.ok();
        let age = if asks_age { self.receive().await.ok() } else { None };
        let has_seen = set.is_ok() && has_seen_the_state(&reply);
        if let Some(line) = &mut self.line
            && sets
        {
            if set.is_ok() {
                line.consistency = asked;
            }
            // A token that was refused is not believed. One that was not is true once the read was served: it waits for that state.
            line.believes = believed || (levels.token.is_some() && set.is_ok() && !has_seen);
        }
        let name_of = |value: Value| names.iter().copied().find(|name| value.as_bytes() == Some(name.as_bytes()));
        Told {
            reply: match (set, reply) {
                // Before the level: a token may be of the bucket that has the name now.
                (_, Err(gone)) if is_gone(&gone) => Err(gone),
                (Err(failure), _) => Err(failure),
                (Ok(()), reply) => reply,
            },
            token: token.filter(|_| has_seen).and_then(|token| token.as_bytes().map(<[u8]>::to_vec)),
            level: level.and_then(name_of),
            age_ms: age.filter(|_| has_seen).and_then(|age| u64::try_from(age.as_integer()?).ok()),
        }
    }

    async fn set_durability(&mut self, durability: Option<&'static str>) -> Result<(), Failure> {
        if self.line.as_ref().is_some_and(|line| line.durability != durability) {
            self.exchange(&[b"DICTUM.DURABILITY", durability.unwrap_or(DEFAULT).as_bytes()]).await?;
            if let Some(line) = &mut self.line {
                line.durability = durability;
            }
        }
        Ok(())
    }

    async fn exchange(&mut self, words: &[&[u8]]) -> Result<Value, Failure> {
        self.send(words).await?;
        self.receive().await
    }

    /// Opens the line.
    async fn greet(&mut self) -> Result<(), Failure> {
        let selected = Some(BucketName::default_bucket().clone());
        let connection = match &self.caller {
            Caller::Process => self.pool.bridge.open("http"),
            Caller::User(user) => self.pool.bridge.open_for("http", user),
        };
        self.line = Some(Line {
            caller: self.caller.clone(),
            connection,
            parser: ReplyParser::default(),
            selected,
            durability: None,
            consistency: None,
            believes: false,
        });
        let greeted = self.exchange(&[b"HELLO", b"3", b"SETNAME", b"http"]).await;
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
        let mut bytes = Vec::new();
        wire::encode_command(&mut bytes, words);
        self.send_encoded(bytes, 1).await
    }

    /// Sends so many commands.
    async fn send_encoded(&mut self, bytes: Vec<u8>, count: usize) -> Result<(), Failure> {
        let line = self.line.as_ref().ok_or(Failure::Unanswered)?;
        // Nothing of the commands is with the node while this waits.
        timeout_at(self.deadline, line.connection.send(bytes)).await.map_err(|_| Failure::Busy)?;
        self.unanswered += count;
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
            && !line.believes
        {
            self.pool.lock().push(line);
        }
    }
}

impl Told {
    fn nothing(failure: Failure) -> Told {
        Told { reply: Err(failure), token: None, level: None, age_ms: None }
    }

    fn says_gone(&self) -> bool {
        self.reply.as_ref().is_err_and(is_gone)
    }
}

fn is_gone(failure: &Failure) -> bool {
    matches!(failure, Failure::Refused(text) if text.starts_with(BUCKET_GONE))
}

/// Whether a reply was made from the state, so that the connection's token stands for it.
fn has_seen_the_state(reply: &Result<Value, Failure>) -> bool {
    match reply {
        Ok(_) => true,
        Err(Failure::Refused(text)) => text.split(' ').next().is_some_and(|code| CODES_OF_A_STATE_SEEN.contains(&code)),
        Err(_) => false,
    }
}

/// A reply that the command never gives.
pub(super) fn strange(command: &str, reply: &Value) -> Failure {
    let mut text = reply.pretty();
    text.truncate(text.char_indices().nth(80).map_or(text.len(), |(at, _)| at));
    Failure::Strange(format!("The node answered {command} with {}.", text.trim_end()))
}
