//! HTTP connections: there are so many places, and who has been idle for longest makes way for who comes. Clients keep connections open without need, and a probe
//! that asks `/livez` must not wait behind them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

/// Idle for less than this no connection makes way: its next request may be on its way.
const IDLE_MIN: Duration = Duration::from_secs(1);
/// How often is looked whether one has been idle for so long, if none is now.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// All of them.
pub(super) struct Connections {
    places: Arc<Semaphore>,
    idle: Mutex<Idle>,
}

/// Those that have no request under way, by when that began.
#[derive(Default)]
struct Idle {
    since: BTreeMap<(Instant, u64), Arc<Notify>>,
    next: u64,
}

/// One of them. Dropping it frees its place.
pub(super) struct Place {
    all: Arc<Connections>,
    number: u64,
    /// When it became idle; none while it has requests under way.
    since: Mutex<Option<Instant>>,
    /// Requests under way, and answers that are not over.
    under_way: AtomicUsize,
    /// Told when it has to make way.
    make_way: Arc<Notify>,
    _permit: OwnedSemaphorePermit,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that runs under these locks can panic half way through a change.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Connections {
    pub(super) fn new(most: usize) -> Arc<Connections> {
        Arc::new(Connections { places: Arc::new(Semaphore::new(most)), idle: Mutex::default() })
    }

    /// A place, as soon as there is one. None if there is none ever again.
    pub(super) async fn enter(self: &Arc<Self>) -> Option<Arc<Place>> {
        let permit = loop {
            match timeout(LOOK_EVERY, Arc::clone(&self.places).acquire_owned()).await {
                Ok(permit) => break permit.ok()?,
                Err(_) => self.end_the_idlest(),
            }
        };
        let mut idle = lock(&self.idle);
        idle.next += 1;
        let place = Place {
            all: Arc::clone(self),
            number: idle.next,
            since: Mutex::default(),
            under_way: AtomicUsize::new(0),
            make_way: Arc::default(),
            _permit: permit,
        };
        drop(idle);
        place.rest();
        Some(Arc::new(place))
    }

    fn end_the_idlest(&self) {
        let mut idle = lock(&self.idle);
        if let Some(first) = idle.since.first_entry()
            && first.key().0.elapsed() >= IDLE_MIN
        {
            first.remove().notify_one();
        }
    }
}

impl Place {
    fn work(&self) {
        if let Some(since) = lock(&self.since).take() {
            lock(&self.all.idle).since.remove(&(since, self.number));
        }
    }

    fn rest(&self) {
        let now = Instant::now();
        if lock(&self.since).replace(now).is_none() {
            lock(&self.all.idle).since.insert((now, self.number), Arc::clone(&self.make_way));
        }
    }

    /// Comes back when it has to make way.
    pub(super) async fn made_to_go(&self) {
        self.make_way.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.work();
    }
}

/// A connection that does not make way, as long as one of these is there: it has a request under way, or an answer that goes on.
pub(super) struct Busy(Arc<Place>);

impl Busy {
    pub(super) fn new(place: &Arc<Place>) -> Busy {
        place.under_way.fetch_add(1, Ordering::Relaxed);
        place.work();
        Busy(Arc::clone(place))
    }
}

impl Clone for Busy {
    fn clone(&self) -> Busy {
        Busy::new(&self.0)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        // All of them are on the thread of HTTP: nobody comes in between.
        if self.0.under_way.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.0.rest();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_idle_for_longest_makes_way() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(async {
            let all = Connections::new(2);
            let (first, second) = (all.enter().await.expect("a place"), all.enter().await.expect("a place"));
            let request = Busy::new(&first);
            // Both have been there for equally long, and the first has a request under way.
            let other = Arc::clone(&all);
            let third = tokio::spawn(async move { other.enter().await.is_some() });
            second.made_to_go().await;
            assert!(!third.is_finished());
            drop(second);
            assert!(third.await.expect("it comes in"));
            let answer = request.clone();
            drop(request);
            assert!(lock(&first.since).is_none(), "its answer goes on");
            drop(answer);
            assert!(lock(&first.since).is_some());
        });
    }
}
