//! Who watches: every finished command for a history, and every second for people.

use std::sync::mpsc::Sender;
use std::time::Instant;

use wire::Value;

use crate::record::Spread;

/// What became of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Answered.
    Ok,
    /// Answered with an error.
    Error,
    /// Not answered, and it was sent: it may have been done, or may yet be done at any later time.
    Unknown,
}

/// One command of a client. An operation of several commands gives several.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// The client's number, from 0.
    pub client: u32,
    /// The place of the operation's kind among the workload's.
    pub kind: usize,
    /// The command: its name, its key, the rest.
    pub words: Vec<Vec<u8>>,
    /// When it was handed to the connection: nanoseconds since [`super::Load::epoch`].
    pub from: u64,
    /// When its answer was read; none if there was none.
    pub until: Option<u64>,
    /// What became of it.
    pub outcome: Outcome,
    /// The answer, if there was one.
    pub answer: Option<Value>,
}

impl Observed {
    /// The command's key, as [`crate::workload::Words::key`] has it.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        let script = self.words.first().is_some_and(|name| name.to_ascii_lowercase().starts_with(b"eval"));
        self.words.get(if script { 3 } else { 1 }).map_or(&[], Vec::as_slice)
    }
}

/// Takes what has finished, in batches, from several threads at once. Within one thread's batches the commands are in the
/// order in which their answers were read. It must be quick: the thread that calls it is sending the load.
pub trait Observer: Send + Sync {
    /// Takes a batch of at most some thousand commands.
    fn observe(&self, batch: Vec<Observed>);
}

impl Observer for std::sync::Mutex<Sender<Vec<Observed>>> {
    /// Sends the batch on. If nobody receives any longer, it is dropped.
    fn observe(&self, batch: Vec<Observed>) {
        if let Ok(sender) = self.lock() {
            let _ = sender.send(batch);
        }
    }
}

/// How a load goes, at the end of each second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// When the load began, with its warming up: what happens beside it is put on the same time line by this.
    pub began: Option<Instant>,
    /// Seconds since the load began, with its warming up.
    pub second: u32,
    /// Whether it is warming up still: the second does not count.
    pub warming_up: bool,
    /// Operations answered without an error in this second.
    pub throughput: u64,
    /// Operations with an error or without an answer in this second.
    pub errors: u64,
    /// Latencies of what was answered in this second, all kinds together.
    pub latency: Spread,
    /// Mean of the throughput of the seconds that count, so far.
    pub throughput_mean: f64,
    /// Its standard error; 0 for fewer than two seconds.
    pub throughput_error: f64,
    /// Operations that are due and wait for a free client.
    pub queued: usize,
    /// Connections that are open.
    pub connected: u32,
    /// Share of the second in which the generator's busiest thread had work to do.
    pub busy: f64,
    /// All operations answered since the load began.
    pub total: u64,
}
