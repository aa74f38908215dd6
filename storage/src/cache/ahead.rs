//! Reading ahead: keys that will be read soon are brought into memory by threads of their own, so that whoever reads them then does not wait for the disk.
//!
//! ```text
//!   notice(key) ──► waiting ──► a thread: not resident? store.get ──► resident, as if nobody had read it yet
//!                                                                          ▲
//!   …  later: get(key) ────────────────────────────────────────────────────┘
//! ```
//! A hint, and no more: a key that did not come in time is read by whoever needs it. While nothing is missing in memory, nobody gives any
//! ([`Ahead::is_of_use`]).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread;

use base::ordered::{OrderedWrite, Space};

use super::{CachedStore, Inner};

/// Keys that may wait. Those beyond are forgotten.
const WAITING_MAX: usize = 8192;
/// Longer keys are not brought: what waits takes 8 MiB at most.
const KEY_BYTES_MAX: usize = 1024;
/// A thread takes so many at once.
const TAKEN_AT_ONCE: usize = 8;
/// After a read that missed so many more are noticed.
const NOTICED_AFTER_MISS: u32 = 4096;
const THREADS_MAX: usize = 4;

/// Keys on their way into memory.
#[derive(Default)]
pub(super) struct Ahead {
    waiting: Mutex<Waiting>,
    filled: Condvar,
    /// So many keys more shall be noticed.
    noticed: AtomicU32,
}

#[derive(Default)]
struct Waiting {
    keys: VecDeque<(Space, Vec<u8>)>,
    threads: usize,
    idle: usize,
    /// One was told, and has not come yet.
    waking: bool,
    closed: bool,
}

impl Ahead {
    /// Something that was read was not in memory.
    pub fn missed(&self) {
        self.noticed.store(NOTICED_AFTER_MISS, Ordering::Relaxed);
    }

    /// Whether keys shall be noticed. Each question counts.
    pub fn is_of_use(&self) -> bool {
        let left = self.noticed.load(Ordering::Relaxed);
        // Two who ask at once may count as one.
        self.noticed.store(left.saturating_sub(1), Ordering::Relaxed);
        left > 0
    }

    /// A key that will be read.
    pub fn push(&self, space: Space, key: Vec<u8>) {
        if key.len() > KEY_BYTES_MAX {
            return;
        }
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
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

impl<S: OrderedWrite + 'static> CachedStore<S> {
    /// Starts threads that read ahead, as many as there are processors but no more than four. They end with the last handle.
    ///
    /// # Errors
    /// A thread cannot be started.
    #[allow(clippy::disallowed_methods, reason = "reading ahead changes nothing that anybody sees")]
    pub fn read_ahead(&self) -> std::io::Result<()> {
        let count = thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
        for _ in 0..count {
            let (ahead, inner) = (Arc::clone(&self.inner.ahead), Arc::downgrade(&self.inner));
            thread::Builder::new().name("read-ahead".to_owned()).spawn(move || run(&ahead, &inner))?;
            self.inner.ahead.waiting.lock().unwrap_or_else(PoisonError::into_inner).threads += 1;
        }
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
