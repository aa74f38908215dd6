//! The journal thread: takes everything that waits, commits it as one frame with one sync, tells the loop how far
//! the disk is.
//!
//! ```text
//!  loop ── submit ──► waiting ── as much as fits a frame ──► commit ──► persisted (a number) ── ring ──► loop
//! ```
//! The journal itself lies in the shared state while nobody commits. Whoever takes it out commits: the thread, or,
//! for a single small payload with nothing else to do, the loop itself ([`JournalHandle::commit_here`]), which
//! saves two changes of thread. It does so only while the disk is quick: a slow one must not hold up heartbeats.
//!
//! Every sync is counted, and `fault.rs` may have asked for it to take longer.
//!
//! A full disk is waited out. After a failed write or sync nothing is known about what the disk holds: the process
//! says so and ends at once with [`exit::DISK_FAILED`]; nothing more is acknowledged.

pub(crate) mod sync_times;

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use base::limits::FRAME_BYTES_TARGET;
use bytes::Bytes;
use node::JournalWrite;
use storage::{CommitError, Disk, Journal, Prepared};

use crate::fault::SyncDelay;
use crate::{exit, log};
use sync_times::SyncTimes;

/// How long to wait before a full disk is tried again.
const FULL_RETRY: Duration = Duration::from_millis(100);
/// How long to wait before the next segment is prepared again after that has failed.
const PREPARE_RETRY: Duration = Duration::from_secs(1);
/// A disk that commits faster than this on average is quick. On a slower disk, or a machine whose processors are all
/// busy (waking up counts as well), two changes of thread are little beside a commit, and tails are what suffers.
const QUICK: Duration = Duration::from_micros(300);
/// Most durations of commits that wait for the loop to take note of them.
const DURATIONS_MAX: usize = 1024;

/// What the journal thread tells the loop, next to how far it is.
pub(crate) trait JournalEvents: Send + 'static {
    /// More is on disk.
    fn persisted(&self);
    /// The disk has become full (`true`), or has room again.
    fn disk_full(&self, full: bool);
}

/// The loop's end. Dropping it waits until the thread has committed what it was given, unless the disk is full.
pub(crate) struct JournalHandle<D: Disk> {
    shared: Arc<Shared<D>>,
    thread: Option<JoinHandle<()>>,
}

struct Shared<D: Disk> {
    state: Mutex<State<D>>,
    /// Something new lies in `state` for the thread.
    changed: Condvar,
    /// Every payload up to this number is on disk.
    persisted: AtomicU64,
    /// How long commits took lately, in nanoseconds: a moving average.
    commit_time: AtomicU64,
    /// Commits since the start, each with one sync of the disk.
    syncs: Arc<SyncTimes>,
    /// What each of the last commits took, as far as the loop has not taken note of it.
    durations: Mutex<Vec<Duration>>,
    /// What a commit is made to take longer.
    delay: SyncDelay,
}

struct State<D: Disk> {
    waiting: VecDeque<JournalWrite>,
    discard_before: Option<u64>,
    /// The helper thread has made a blank segment, or could not.
    prepared: Option<io::Result<Prepared>>,
    /// The thread shall see whether a segment has to be prepared.
    chores: bool,
    /// The thread holds payloads that come before those in `waiting` (the disk is full).
    held: bool,
    /// A blank segment is being made.
    preparing: bool,
    /// The thread shall end when nothing is left to do.
    closing: bool,
    /// Frames are written so that a broken write is told from damage.
    stamps: bool,
    /// Here while nobody commits.
    journal: Option<Journal<D>>,
}

/// Starts the thread. `journal` is open; its last payload has the number `persisted`.
pub(crate) fn start<D: Disk + Sync>(
    journal: Journal<D>,
    persisted: u64,
    delay: SyncDelay,
    events: impl JournalEvents,
) -> io::Result<JournalHandle<D>> {
    let state = State {
        waiting: VecDeque::new(),
        discard_before: None,
        prepared: None,
        chores: true,
        held: false,
        preparing: false,
        closing: false,
        stamps: false,
        journal: Some(journal),
    };
    let shared = Arc::new(Shared {
        state: Mutex::new(state),
        changed: Condvar::new(),
        persisted: AtomicU64::new(persisted),
        // Until it has shown how quick it is, the disk counts as slow.
        commit_time: AtomicU64::new(2 * QUICK.as_nanos() as u64),
        syncs: Arc::default(),
        durations: Mutex::default(),
        delay,
    });
    let of_thread = Arc::clone(&shared);
    let thread = thread::Builder::new().name("journal".to_owned()).spawn(move || run(&of_thread, &events))?;
    Ok(JournalHandle { shared, thread: Some(thread) })
}

impl<D: Disk> JournalHandle<D> {
    /// Every payload up to this number is on disk.
    pub(crate) fn persisted(&self) -> u64 {
        self.shared.persisted.load(Ordering::SeqCst)
    }

    /// How long the journal's syncs took since the start; goes on counting.
    pub(crate) fn syncs(&self) -> Arc<SyncTimes> {
        Arc::clone(&self.shared.syncs)
    }

    /// What commits took since the last call, added to `durations`; of very many some are left out.
    pub(crate) fn take_durations(&self, durations: &mut Vec<Duration>) {
        durations.append(&mut self.shared.durations.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Hands payloads over, in order, and empties `writes`.
    pub(crate) fn submit(&self, writes: &mut Vec<JournalWrite>, discard_before: Option<u64>) {
        if writes.is_empty() && discard_before.is_none() {
            return;
        }
        let mut state = self.shared.lock();
        state.waiting.extend(writes.drain(..));
        state.discard_before = state.discard_before.max(discard_before);
        drop(state);
        self.shared.changed.notify_one();
    }

    /// From the next commit on: see [`Journal::stamp_sectors`].
    pub(crate) fn stamp_sectors(&self) {
        self.shared.lock().stamps = true;
    }

    /// Whether the disk has been so quick lately that the loop may wait for it.
    pub(crate) fn is_quick(&self) -> bool {
        self.shared.commit_time.load(Ordering::Relaxed) < QUICK.as_nanos() as u64
    }

    /// Commits the one payload on the calling thread, if nothing else waits and the journal is free.
    /// Otherwise hands it over as [`JournalHandle::submit`] does. True if it is on disk now.
    pub(crate) fn commit_here(&self, writes: &mut Vec<JournalWrite>) -> bool {
        let mut state = self.shared.lock();
        let alone = writes.len() == 1 && state.waiting.is_empty() && !state.held;
        let taken = if alone { state.journal.take() } else { None };
        let Some(mut journal) = taken else {
            state.waiting.extend(writes.drain(..));
            drop(state);
            self.shared.changed.notify_one();
            return false;
        };
        state.stamp(&mut journal);
        drop(state);
        let result = self.shared.commit(&mut journal, std::slice::from_ref(&writes[0]));
        let mut state = self.shared.lock();
        state.chores |= !journal.next_is_ready() && !state.preparing;
        state.journal = Some(journal);
        match result {
            Committed::Persisted(number) => {
                self.shared.persisted.store(number, Ordering::SeqCst);
                writes.clear();
            }
            // The thread does the waiting.
            Committed::Full => state.waiting.extend(writes.drain(..)),
        }
        let wanted = state.has_work();
        drop(state);
        if wanted {
            self.shared.changed.notify_one();
        }
        matches!(result, Committed::Persisted(_))
    }
}

impl<D: Disk> Drop for JournalHandle<D> {
    fn drop(&mut self) {
        self.shared.lock().closing = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // Its panic has been reported where it happened.
            let _ = thread.join();
        }
    }
}

impl<D: Disk> Shared<D> {
    fn lock(&self) -> MutexGuard<'_, State<D>> {
        // A panic ends the process (release) or is a bug that a test shows; no half-made change can be seen here.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Commits and syncs, or ends the process.
    fn commit(&self, journal: &mut Journal<D>, batch: &[JournalWrite]) -> Committed {
        let begin = Instant::now();
        let result = commit(journal, batch);
        // Counts as the disk's time: a slow disk is not waited for on the loop either.
        self.delay.wait();
        let took = begin.elapsed();
        self.syncs.note(took);
        let mut durations = self.durations.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(result, Committed::Persisted(_)) && durations.len() < DURATIONS_MAX {
            durations.push(took);
        }
        drop(durations);
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let before = self.commit_time.load(Ordering::Relaxed);
        self.commit_time.store(before - before / 8 + took / 8, Ordering::Relaxed);
        result
    }
}

impl<D: Disk> State<D> {
    fn stamp(&self, journal: &mut Journal<D>) {
        if self.stamps {
            journal.stamp_sectors();
        }
    }

    fn has_work(&self) -> bool {
        !self.waiting.is_empty() || self.held || self.discard_before.is_some() || self.prepared.is_some() || self.chores
    }
}

enum Committed {
    Persisted(u64),
    /// There is no room, or no file can be opened: it is tried again.
    Full,
}

/// Commits and syncs, or ends the process.
fn commit<D: Disk>(journal: &mut Journal<D>, batch: &[JournalWrite]) -> Committed {
    let (Some(first), Some(last)) = (batch.first(), batch.last()) else { unreachable!("a batch is never empty") };
    if journal.next_number() != first.number {
        log::error(&format!(
            "the journal's next payload has number {}, and the node's is {}: this is a bug in Dictum, please report it. Nothing after this is acknowledged and this node stops",
            journal.next_number(),
            first.number
        ));
        std::process::exit(exit::MUST_NOT.into());
    }
    let payloads: Vec<&Bytes> = batch.iter().map(|write| &write.payload).collect();
    match journal.commit(&payloads) {
        Ok(_) => Committed::Persisted(last.number),
        Err(CommitError::Full) => Committed::Full,
        Err(CommitError::NoFiles) => {
            log::error(
                "too many files are open, so the journal cannot have another one: writes wait, and it is tried again. Raise the limit (ulimit -n), or lower \
                 --maxclients",
            );
            Committed::Full
        }
        Err(error @ (CommitError::TooLarge | CommitError::Broken(_))) => give_up(&error),
    }
}

fn give_up(reason: &CommitError) -> ! {
    // No disk says so of a file that is to be made; the folder is looked at only once a second (`folder_watch.rs`).
    if matches!(reason, CommitError::Broken(error) if error.kind() == io::ErrorKind::NotFound) {
        log::error(
            "the folder of this node was removed, replaced or unmounted while it ran: its journal cannot make a file there. Nothing after this is acknowledged and this \
             node stops. Mount the folder or put it back, and start the node again; if it is lost, start with an empty one while a majority of the others is well",
        );
        std::process::exit(exit::MUST_NOT.into());
    }
    log::error(&format!(
        "{reason}. Nothing after this is acknowledged and this node stops; the cluster goes on if a majority is left. \
         Check the disk (kernel log, SMART), then start the node again on the same folder, or on an empty one if the \
         disk was replaced"
    ));
    std::process::exit(exit::DISK_FAILED.into());
}

fn run<D: Disk + Sync>(shared: &Arc<Shared<D>>, events: &impl JournalEvents) {
    let mut batch: Vec<JournalWrite> = Vec::new();
    let mut full = false;
    let mut prepare_at = Instant::now();
    let mut state = shared.lock();
    loop {
        // While the loop commits, the journal is away; the loop notifies when it has put it back and there is work.
        let journal = if state.has_work() { state.journal.take() } else { None };
        let Some(mut journal) = journal else {
            if state.closing && !state.preparing {
                return;
            }
            state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        if batch.is_empty() {
            take_batch(&mut state.waiting, &mut batch);
        }
        let discard_before = state.discard_before.take();
        let prepared = state.prepared.take();
        state.chores = false;
        let mut preparing = state.preparing && prepared.is_none();
        state.stamp(&mut journal);
        drop(state);

        if let Some(prepared) = prepared {
            if prepared.is_err() {
                prepare_at = Instant::now() + PREPARE_RETRY;
            }
            check_chore(journal.install(prepared));
        }
        if !batch.is_empty() {
            match shared.commit(&mut journal, &batch) {
                Committed::Persisted(number) => {
                    shared.persisted.store(number, Ordering::SeqCst);
                    batch.clear();
                    events.persisted();
                    if std::mem::take(&mut full) {
                        events.disk_full(false);
                    }
                }
                Committed::Full => {
                    if !std::mem::replace(&mut full, true) {
                        events.disk_full(true);
                    }
                }
            }
        }
        if let Some(number) = discard_before {
            check_chore(journal.discard_before(number));
        }
        if !preparing && !full && !journal.next_is_ready() && Instant::now() >= prepare_at {
            preparing = prepare(shared, &mut journal);
        }
        state = shared.lock();
        state.preparing = preparing;
        state.held = !batch.is_empty();
        state.journal = Some(journal);
        if full {
            if state.closing {
                return;
            }
            // A discard may make room earlier, and it notifies.
            state = shared.changed.wait_timeout(state, FULL_RETRY).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Lets another thread make the next segment: filling it with zeros takes long. True if it is on its way.
fn prepare<D: Disk + Sync>(shared: &Arc<Shared<D>>, journal: &mut Journal<D>) -> bool {
    let Some(preparation) = journal.preparation() else {
        // A segment whose payloads were all discarded can be had back at once.
        check_chore(journal.prepare_next());
        return false;
    };
    let shared = Arc::clone(shared);
    let made = thread::Builder::new().name("segment".to_owned()).spawn(move || {
        let prepared = preparation.run();
        shared.lock().prepared = Some(prepared);
        shared.changed.notify_one();
    });
    match made {
        Ok(_) => true,
        Err(error) => {
            log::warning(&format!("no thread for preparing a journal segment: {error}"));
            // To the journal this is as good as no room now; it tries again, or makes the segment when it needs it.
            check_chore(journal.install(Err(io::ErrorKind::StorageFull.into())));
            false
        }
    }
}

/// As much of what waits as one frame shall hold.
fn take_batch(waiting: &mut VecDeque<JournalWrite>, batch: &mut Vec<JournalWrite>) {
    let mut bytes = 0;
    while let Some(write) = waiting.front()
        && (batch.is_empty() || bytes + write.payload.len() <= FRAME_BYTES_TARGET)
    {
        bytes += write.payload.len();
        batch.extend(waiting.pop_front());
    }
}

/// A full disk shows at the next commit; nothing else may go wrong.
fn check_chore(result: Result<(), CommitError>) {
    match result {
        Ok(()) | Err(CommitError::Full | CommitError::NoFiles) => {}
        Err(error) => give_up(&error),
    }
}

#[cfg(test)]
mod tests;
