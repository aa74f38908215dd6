//! Waiting for conditions without sleeping: whatever may have changed something rings, and whoever waits looks again.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::PATIENCE;

/// What a node's status says changes without anybody's ringing; so a waiting one looks again after this, too.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// Rung when something has happened: a node has logged a line or ended, an operation of a load is over.
#[derive(Default)]
pub struct Bell {
    rings: Mutex<u64>,
    rung: Condvar,
}

impl Bell {
    /// Wakes all that wait.
    pub fn ring(&self) {
        *self.rings.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.rung.notify_all();
    }

    fn rings(&self) -> u64 {
        *self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until it has rung more often than `seen`, or until it is time to look again anyway.
    fn wait_after(&self, seen: u64) {
        let rings = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = self.rung.wait_timeout_while(rings, LOOK_AGAIN_AFTER, |rings| *rings == seen);
    }

    /// Waits for the next ring.
    pub fn wait(&self) {
        self.wait_after(self.rings());
    }

    /// Looks until there is something. Panics when it does not come, and says `what`.
    pub fn wait_for<T>(&self, what: &str, look: impl FnMut() -> Option<T>) -> T {
        self.wait_for_or(what, look, String::new)
    }

    /// The same, with what else there is to say when it does not come.
    pub fn wait_for_or<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>, more: impl FnOnce() -> String) -> T {
        let end = Instant::now() + PATIENCE;
        loop {
            let seen = self.rings();
            if let Some(found) = look() {
                return found;
            }
            assert!(Instant::now() < end, "{what} did not come\n{}", more());
            self.wait_after(seen);
        }
    }
}
