//! Reading ahead: keys that will be read soon are brought into memory by threads of their own, so that whoever reads them then does not wait for the disk.
//!
//! ```text
//!   notice(key) ──► waiting ──► a thread: not resident? store.get ──► resident, as if nobody had read it yet
//!                                                                          ▲
//!   …  later: get(key) ────────────────────────────────────────────────────┘
//! ```
//! A hint, and no more: a key that did not come in time is read by whoever needs it.
//!
//! A thread costs two or three times the processor time of a read that need not wait (18 to 28 µs instead of 8: it is woken, and the key is looked up three times), so
//! it is worth it only where reads do wait. What nobody has read ahead is timed, and earns notices by how long the disk took ([`Ahead::timed`]): none while
//! the system has everything in memory, and for all keys while most reads wait. A read that was only kept from the processor by others earns nothing:
//! more threads would make that worse.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "how long a read has taken decides only who reads the next"
)]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use base::ordered::{OrderedWrite, Space};

use super::{CachedStore, Inner, lock_at_once};

/// Keys that may wait. Those beyond are forgotten.
const WAITING_MAX: usize = 8192;
/// Longer keys are not brought: what waits takes 8 MiB at most.
const KEY_BYTES_MAX: usize = 1024;
/// A thread takes so many at once.
const TAKEN_AT_ONCE: usize = 8;
/// A read that takes longer may have waited for the disk: otherwise it takes a fifth of it.
const WAITED: Duration = Duration::from_micros(50);
/// A key is noticed for so much of waiting …
const WAITED_PER_NOTICE: Duration = Duration::from_micros(2);
/// … but no more than this many: what was may be over.
const NOTICED_MAX: u32 = 1 << 14;
const THREADS_MAX: usize = 4;

/// Keys on their way into memory.
#[derive(Default)]
pub(super) struct Ahead {
    pub(super) waiting: Mutex<Waiting>,
    filled: Condvar,
    /// So many keys more shall be noticed.
    noticed: AtomicU32,
    /// There are threads.
    started: AtomicBool,
}

#[derive(Default)]
pub(super) struct Waiting {
    pub(super) keys: VecDeque<(Space, Vec<u8>)>,
    threads: usize,
    idle: usize,
    /// One was told, and has not come yet.
    waking: bool,
    closed: bool,
}

impl Ahead {
    /// Carries out a read of the store that somebody waits for. Without threads it does not matter how long that takes.
    pub fn timed<T>(&self, read: impl FnOnce() -> T) -> T {
        if !self.started.load(Ordering::Relaxed) {
            return read();
        }
        let (begun, before) = (Instant::now(), sleeps());
        let found = read();
        let time = begun.elapsed();
        if time >= WAITED && sleeps().is_none_or(|now| before.is_some_and(|before| now > before)) {
            self.waited(time);
        }
        found
    }

    /// A read that somebody waited for has waited for the disk, so long.
    pub(super) fn waited(&self, time: Duration) {
        let earned = u32::try_from(time.as_nanos() / WAITED_PER_NOTICE.as_nanos()).unwrap_or(NOTICED_MAX);
        let before = self.noticed.load(Ordering::Relaxed);
        self.noticed.store(before.saturating_add(earned).min(NOTICED_MAX), Ordering::Relaxed);
    }

    /// Whether keys shall be noticed. Each question counts.
    pub fn is_of_use(&self) -> bool {
        let left = self.noticed.load(Ordering::Relaxed);
        // Two who ask at once may count as one.
        self.noticed.store(left.saturating_sub(1), Ordering::Relaxed);
        left > 0
    }

    /// A key that will be read. Passed over where a reader holds the lock for longer than a moment: it may have made way for others meanwhile.
    pub fn push(&self, space: Space, key: Vec<u8>) {
        if key.len() > KEY_BYTES_MAX {
            return;
        }
        let Some(mut waiting) = lock_at_once(&self.waiting) else { return };
        if waiting.threads == 0 || waiting.keys.len() >= WAITING_MAX {
            return;
        }
        waiting.keys.push_back((space, key));
        // One who is awake takes what comes; with more than a handful waiting, another one helps.
        let nobody_comes = waiting.idle == waiting.threads && !waiting.waking;
        let wakes = nobody_comes || waiting.keys.len().is_multiple_of(TAKEN_AT_ONCE);
        waiting.waking |= wakes;
        drop(waiting);
        if wakes {
            self.filled.notify_one();
        }
    }

    /// Ends the threads.
    pub fn close(&self) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        self.filled.notify_all();
    }

    /// Some keys that wait; none when it is over.
    fn take(&self) -> Option<Vec<(Space, Vec<u8>)>> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if waiting.closed {
                return None;
            }
            if !waiting.keys.is_empty() {
                waiting.waking = false;
                let count = waiting.keys.len().min(TAKEN_AT_ONCE);
                return Some(waiting.keys.drain(..count).collect());
            }
            waiting.idle += 1;
            waiting = self.filled.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            waiting.idle -= 1;
        }
    }
}

/// How often this thread has gone to sleep of its own accord, as for a read from the disk, and not because others wanted the processor. Costs a fraction
/// of a microsecond. Nothing where that is not to be had.
fn sleeps() -> Option<i64> {
    #[cfg(target_os = "linux")]
    {
        use nix::sys::resource::{UsageWho, getrusage};
        getrusage(UsageWho::RUSAGE_THREAD).ok().map(|usage| usage.voluntary_context_switches())
    }
    #[cfg(not(target_os = "linux"))]
    None
}

impl<S: OrderedWrite + 'static> CachedStore<S> {
    /// Starts threads that read ahead, as many as there are processors but no more than four. They end with the last handle. Each calls `begin` first,
    /// such as to make way for others.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn read_ahead(&self, begin: fn()) -> std::io::Result<()> {
        let count = thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
        for _ in 0..count {
            let (ahead, inner) = (Arc::clone(&self.inner.ahead), Arc::downgrade(&self.inner));
            thread::Builder::new().name("read-ahead".to_owned()).spawn(move || {
                begin();
                run(&ahead, &inner);
            })?;
            self.inner.ahead.waiting.lock().unwrap_or_else(PoisonError::into_inner).threads += 1;
        }
        self.inner.ahead.started.store(true, Ordering::Relaxed);
        Ok(())
    }
}

fn run<S: OrderedWrite>(ahead: &Ahead, inner: &Weak<Inner<S>>) {
    while let Some(keys) = ahead.take() {
        let Some(inner) = inner.upgrade() else { return };
        let store = CachedStore { inner };
        for (space, key) in keys {
            // Whoever reads it meets the same failure.
            let _ = store.bring(space, &key);
        }
    }
}
