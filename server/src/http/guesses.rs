//! Slows down those who guess passwords over HTTP, by the rule that holds for `AUTH` (`node/src/guesses.rs`): after three failures of a host in a second, what shows a
//! password from there waits until the second is over, right ones too. A connection that shows what was right before waits for nothing.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use base::Time;
use node::HostFailures;
use tokio::sync::Semaphore;

use super::login::equal_in_constant_time;
use super::place::Credentials;
use super::problem::Problem;

/// Most requests that wait; to more is said that they are too many.
const WAITING_MAX: usize = 256;

/// What a connection has shown last that was right; the accepting loop adds it to each request. A user who is let in is no better guesser of other users' passwords than
/// anybody else.
#[derive(Clone, Default)]
pub(super) struct HasShown(Arc<Mutex<Option<Credentials>>>);

impl HasShown {
    fn lock(&self) -> MutexGuard<'_, Option<Credentials>> {
        // Nothing that runs under this lock can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if the connection has shown the same before. A proxy's connection is many clients', so the time that this takes tells nothing.
    pub(super) fn is(&self, shown: &Credentials) -> bool {
        self.lock().as_ref().is_some_and(|before| {
            before.user == shown.user && equal_in_constant_time(&before.password, &shown.password)
        })
    }

    pub(super) fn note(&self, shown: Credentials) {
        *self.lock() = Some(shown);
    }
}

/// See the file's head.
#[derive(Debug)]
pub(super) struct Guesses {
    failures: Mutex<HostFailures>,
    count: AtomicU64,
    waiting: Semaphore,
    begun: Instant,
}

impl Default for Guesses {
    fn default() -> Guesses {
        let waiting = Semaphore::new(WAITING_MAX);
        Guesses { failures: Mutex::default(), count: AtomicU64::new(0), waiting, begun: Instant::now() }
    }
}

impl Guesses {
    fn lock(&self) -> MutexGuard<'_, HostFailures> {
        // Nothing that runs under this lock can panic half way through a change.
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Time {
        Time::default() + self.begun.elapsed()
    }

    /// Waits until a password of this machine may be looked at.
    ///
    /// # Errors
    /// Too many wait.
    pub(super) async fn wait(&self, from: IpAddr) -> Result<(), Problem> {
        let host = HostFailures::host(from);
        let mut place = None;
        loop {
            let now = self.now();
            let Some(until) = self.lock().waits_until(host, now) else { return Ok(()) };
            if place.is_none() {
                place = Some(self.waiting.try_acquire().map_err(|_| {
                    let message = "Too many wrong passwords have come from this machine: try again later.";
                    Problem::new(StatusCode::TOO_MANY_REQUESTS, "NOAUTH", message)
                })?);
            }
            tokio::time::sleep(until.since(now) + Duration::from_millis(1)).await;
        }
    }

    /// A password of this machine was wrong, or the name of no user.
    pub(super) fn note(&self, from: IpAddr) {
        self.count.fetch_add(1, Ordering::Relaxed);
        let now = self.now();
        self.lock().note(HostFailures::host(from), now);
    }

    /// How many were wrong since the start.
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn the_fourth_of_a_host_waits_and_so_many_can() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let (guesser, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let guesses = Guesses::default();
        let is_now = |from| guesses.wait(from).now_or_never().is_some_and(|allowed| allowed.is_ok());
        runtime.block_on(async {
            for _ in 0..3 {
                assert!(is_now(guesser));
                guesses.note(guesser);
            }
            assert!(!is_now(guesser) && is_now(other));
            let mut waiting: Vec<_> = (0..WAITING_MAX).map(|_| Box::pin(guesses.wait(guesser))).collect();
            assert!(waiting.iter_mut().all(|it| it.as_mut().now_or_never().is_none()));
            let problem = guesses.wait(guesser).await.expect_err("too many wait");
            assert_eq!(problem.status, StatusCode::TOO_MANY_REQUESTS);
            assert!(is_now(other));
            drop(waiting);
            guesses.wait(guesser).await.expect("its second is over");
        });
        assert_eq!(guesses.count(), 3);
    }
}
