//! The thread that writes the audit trail, and what others tell it by.
//!
//! Nobody waits for it: an [`Entry`] goes into a queue that has a limit. What finds no room there is counted, and a record says how many these were as soon as there is room again. So
//! a disk that is full or fails stops neither the node nor its clients; the log, `/metrics` and `GET /v1/audit` say that the trail fails.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use node::{TRAIL_NOTED, TrailMark};
use tls::NodeKey;

use super::record::{END, Entry, LEFT_OUT, START};
use super::trail::{Limits, Link, Trail};
use crate::log;

/// Most entries that wait for the thread, and most bytes of them.
const QUEUE_MAX: usize = 16 * 1024;
const QUEUE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Where there is something new, it is signed and synced so often …
const CHECKPOINT_EVERY: Duration = Duration::from_secs(1);
/// … or after so many records.
pub(super) const CHECKPOINT_RECORDS: u64 = 1000;
/// A disk that has failed is tried again after this time, and complained about so often.
const RETRY_EVERY: Duration = Duration::from_secs(1);
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);
/// How long the end of a process waits for the end of its trail.
const END_WITHIN: Duration = Duration::from_secs(2);

enum Message {
    Entry(Entry),
    /// The process ends, for this reason; an answer when all is on disk.
    End(&'static str, SyncSender<()>),
}

/// Figures of a trail.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    records: AtomicU64,
    errors: AtomicU64,
    left_out: AtomicU64,
    is_failing: AtomicBool,
    queued_bytes: AtomicUsize,
    links: Mutex<Links>,
    /// How often `Links::marked` has changed.
    marks: AtomicU64,
}

/// The last record in the files, the last checkpoint on disk, and the last one on disk that was made for more than what other nodes have told of theirs.
#[derive(Clone, Copy, Debug, Default)]
struct Links {
    last: Link,
    checkpoint: Option<Link>,
    marked: Option<Link>,
}

impl Figures {
    fn links(&self) -> MutexGuard<'_, Links> {
        // Nothing that runs under this lock can panic half way through a change.
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records since the start of the process.
    pub(crate) fn records(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }

    /// Writes and syncs that have failed.
    pub(crate) fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }

    /// Events that found no room.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out.load(Ordering::Relaxed)
    }

    /// True if the last write or sync has failed.
    pub(crate) fn is_failing(&self) -> bool {
        self.is_failing.load(Ordering::Relaxed)
    }

    /// The last record in the files, and the last checkpoint on disk.
    pub(crate) fn state(&self) -> (Link, Option<Link>) {
        let links = self.links();
        (links.last, links.checkpoint)
    }

    /// For the council: the last checkpoint that is news, if there is a newer one than when this number was `known`, which is that of now then.
    pub(crate) fn marked(&self, known: &mut u64) -> Option<TrailMark> {
        // Asked at every turn of the loop.
        let marks = self.marks.load(Ordering::Acquire);
        if std::mem::replace(known, marks) == marks {
            return None;
        }
        self.links().marked.map(|link| TrailMark { sequence: link.sequence, hash: link.name })
    }

    /// The trail is in this state now; `is_news`: its checkpoint is for the council.
    fn note(&self, (last, checkpoint): (Link, Option<Link>), is_news: bool) {
        let mut links = self.links();
        self.records.fetch_add(last.sequence.saturating_sub(links.last.sequence), Ordering::Relaxed);
        (links.last, links.checkpoint) = (last, checkpoint);
        if is_news {
            links.marked = checkpoint;
            self.marks.fetch_add(1, Ordering::Release);
        }
    }
}

/// Tells the thread what happened. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Audit {
    sender: SyncSender<Message>,
    figures: Arc<Figures>,
    folder: Arc<Path>,
}

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Message")
    }
}

impl Audit {
    /// Opens the trail in a node's folder, writes that the node starts, and begins the thread.
    ///
    /// # Errors
    /// The trail cannot be read or written, or the thread not be started.
    pub(crate) fn start(node_folder: &Path, node: &str, key: NodeKey, limits: Limits) -> io::Result<Audit> {
        let (mut trail, ending) = Trail::open(node_folder, node, Arc::new(key), limits)?;
        let before = trail.state().0;
        let about = vec![("version", env!("CARGO_PKG_VERSION").into()), ("ended_before", ending.text().into())];
        trail.push(Entry::new(START, about));
        trail.checkpoint()?;
        let figures = Arc::new(Figures::default());
        figures.links().last = before;
        figures.note(trail.state(), true);
        let (sender, receiver) = mpsc::sync_channel(QUEUE_MAX);
        let audit =
            Audit { sender, figures: Arc::clone(&figures), folder: node_folder.join(super::files::FOLDER).into() };
        let mut writer =
            Writer { trail, figures, told_left_out: 0, has_news: false, signed: Instant::now(), complained: None };
        thread::Builder::new().name("audit".to_owned()).spawn(move || writer.run(&receiver))?;
        Ok(audit)
    }

    /// Tells of an event. Never waits.
    pub(crate) fn tell(&self, entry: impl Into<Entry>) {
        let entry = entry.into();
        let bytes = entry.bytes();
        let queued = &self.figures.queued_bytes;
        let has_room = queued.fetch_add(bytes, Ordering::Relaxed) + bytes <= QUEUE_BYTES_MAX;
        if !has_room || self.sender.try_send(Message::Entry(entry)).is_err() {
            queued.fetch_sub(bytes, Ordering::Relaxed);
            self.figures.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes that the node ends, and why. Waits for the disk, but not for long.
    pub(crate) fn end(&self, why: &'static str) {
        let (sender, done) = mpsc::sync_channel(1);
        let begun = Instant::now();
        let mut message = Message::End(why, sender);
        while let Err(TrySendError::Full(unsent)) = self.sender.try_send(message) {
            if begun.elapsed() >= END_WITHIN {
                break;
            }
            message = unsent;
            thread::sleep(Duration::from_millis(2));
        }
        // A message that was not sent is gone, with its sender.
        if done.recv_timeout(END_WITHIN).is_err() {
            log::error(
                "the end of the audit trail could not be written in time: it will look as if the node had been killed",
            );
        }
    }

    pub(crate) fn figures(&self) -> &Figures {
        &self.figures
    }

    /// The folder with its files.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }
}

struct Writer {
    trail: Trail,
    figures: Arc<Figures>,
    /// How many of those that found no room the trail tells of.
    told_left_out: u64,
    /// Behind the last checkpoint there is more than what other nodes have told of their trails.
    has_news: bool,
    /// When the last checkpoint was made.
    signed: Instant,
    /// When the log was last told that the disk fails, if it does.
    complained: Option<Instant>,
}

impl Writer {
    fn run(&mut self, receiver: &Receiver<Message>) {
        loop {
            // Entries stay in the queue while the disk takes nothing.
            if self.trail.is_full() {
                thread::sleep(RETRY_EVERY);
                self.settle(true);
                continue;
            }
            let message = match self.patience() {
                Some(patience) => receiver.recv_timeout(patience),
                None => receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match message {
                Ok(Message::Entry(entry)) => {
                    self.take(entry);
                    // Those that wait with it share its write.
                    while !self.trail.is_full() && self.trail.since_checkpoint() < CHECKPOINT_RECORDS {
                        match receiver.try_recv() {
                            Ok(Message::Entry(entry)) => self.take(entry),
                            Ok(Message::End(why, done)) => return self.end(why, &done),
                            Err(_) => break,
                        }
                    }
                    self.settle(false);
                }
                Ok(Message::End(why, done)) => return self.end(why, &done),
                Err(RecvTimeoutError::Timeout) => self.settle(true),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// How long to wait for the next message; none: for ever.
    fn patience(&self) -> Option<Duration> {
        if self.figures.is_failing.load(Ordering::Relaxed) {
            return Some(RETRY_EVERY);
        }
        (self.trail.since_checkpoint() > 0).then(|| CHECKPOINT_EVERY.saturating_sub(self.signed.elapsed()))
    }

    fn take(&mut self, entry: Entry) {
        self.figures.queued_bytes.fetch_sub(entry.bytes(), Ordering::Relaxed);
        self.tell_left_out();
        self.has_news |= entry.kind != TRAIL_NOTED;
        self.trail.push(entry);
    }

    /// Tells of those that found no room, once there is room.
    fn tell_left_out(&mut self) {
        let left_out = self.figures.left_out.load(Ordering::Relaxed);
        if left_out > self.told_left_out {
            let count = left_out - self.told_left_out;
            self.trail.push(Entry::new(LEFT_OUT, vec![("of", "any".into()), ("count", count.into())]));
            self.told_left_out = left_out;
        }
    }

    /// Writes what was taken; signs it, if that is due. `is_idle`: nothing has come for a while.
    fn settle(&mut self, is_idle: bool) {
        if !self.trail.is_full() {
            self.tell_left_out();
        }
        let is_due = self.trail.since_checkpoint() >= CHECKPOINT_RECORDS
            || self.signed.elapsed() >= CHECKPOINT_EVERY
            || (is_idle && self.trail.since_checkpoint() > 0);
        // A checkpoint that is due is signed even if the disk fails: `verify` takes long stretches without a signature for forged.
        let done = if is_due { self.trail.checkpoint() } else { self.trail.write() };
        let done = done.and_then(|()| self.trail.make_room());
        if is_due {
            self.signed = Instant::now();
        }
        self.note(done);
    }

    fn end(&mut self, why: &'static str, done: &SyncSender<()>) {
        self.tell_left_out();
        self.trail.push(Entry::new(END, vec![("why", why.into())]));
        let written = self.trail.checkpoint();
        let is_written = written.is_ok();
        self.note(written);
        if is_written {
            // The thread that waited may have given up.
            let _ = done.try_send(());
        }
    }

    fn note(&mut self, done: io::Result<()>) {
        let is_news = self.has_news && done.is_ok() && self.trail.since_checkpoint() == 0;
        self.has_news &= !is_news;
        self.figures.note(self.trail.state(), is_news);
        match done {
            Ok(()) => {
                if self.figures.is_failing.swap(false, Ordering::Relaxed) {
                    let left_out = self.figures.left_out.load(Ordering::Relaxed);
                    log::warning(&format!(
                        "the audit trail is written again; {left_out} events were left out since the start"
                    ));
                }
                self.complained = None;
            }
            Err(error) => {
                self.figures.errors.fetch_add(1, Ordering::Relaxed);
                self.figures.is_failing.store(true, Ordering::Relaxed);
                if self.complained.is_none_or(|at| at.elapsed() >= COMPLAIN_EVERY) {
                    self.complained = Some(Instant::now());
                    log::error(&format!(
                        "the audit trail cannot be written: {error}. The node goes on; records wait in memory, and are left out and counted when they are too many. Make room on the disk, or mend it"
                    ));
                }
            }
        }
    }
}
