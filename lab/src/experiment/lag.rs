//! Looks, beside a load, how far each node is behind the others.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::cluster::System;
use crate::record::Lag;

/// Between two looks: a node that catches up within a tenth of a second is seen doing so, and the nodes hardly notice the questions.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Most looks: of half an hour.
const LOOKS_MAX: usize = 36_000;

/// A thread that looks until it is told to end.
#[derive(Debug)]
pub(super) struct Watching {
    ending: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<Vec<Lag>>>,
}

impl Watching {
    /// Begins; times count from `began`.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(super) fn begin(system: Arc<dyn System>, began: Instant) -> Result<Watching, String> {
        let ending = Arc::new((Mutex::new(false), Condvar::new()));
        let told = Arc::clone(&ending);
        let watch = move || {
            let names = system.names();
            let mut lags = Vec::new();
            for _ in 0..LOOKS_MAX {
                let at = Instant::now();
                let applied = system.applied();
                if let Some(at) = at.checked_duration_since(began) {
                    lags.extend(behind(&names, &applied, at.as_secs_f64() * 1e3));
                }
                let ending = told.0.lock().unwrap_or_else(PoisonError::into_inner);
                let wait = told.1.wait_timeout_while(ending, LOOK_EVERY, |ending| !*ending);
                if *wait.unwrap_or_else(PoisonError::into_inner).0 {
                    break;
                }
            }
            lags
        };
        let thread = thread::Builder::new().name("lags".to_owned()).spawn(watch);
        let thread = thread.map_err(|error| format!("no thread to look at the nodes can be started: {error}"))?;
        Ok(Watching { ending, thread: Some(thread) })
    }

    /// Ends it; what was seen.
    pub(super) fn finish(mut self) -> Vec<Lag> {
        self.end().unwrap_or_default()
    }

    fn end(&mut self) -> Option<Vec<Lag>> {
        *self.ending.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.ending.1.notify_all();
        // A panic has been reported where it happened.
        self.thread.take().and_then(|thread| thread.join().ok())
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.end();
    }
}

/// How far each is behind the one that is furthest. The nodes are asked one after the other, so that what was applied meanwhile counts as a
/// few entries of lag.
fn behind(names: &[String], applied: &[Option<u64>], at_ms: f64) -> Vec<Lag> {
    let furthest = applied.iter().flatten().copied().max();
    let lag = |(node, applied): (&String, &Option<u64>)| Lag {
        at_ms,
        node: node.clone(),
        entries: furthest.zip(*applied).map(|(furthest, applied)| furthest - applied),
    };
    names.iter().zip(applied).map(lag).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lags_count_from_the_furthest_node() {
        let names = ["n1", "n2", "n3"].map(str::to_owned);
        let entries = |applied: &[Option<u64>]| -> Vec<Option<u64>> {
            behind(&names, applied, 1.0).into_iter().map(|lag| lag.entries).collect()
        };
        assert_eq!(entries(&[Some(90), None, Some(100)]), [Some(10), None, Some(0)]);
        assert_eq!(entries(&[None, None, None]), [None, None, None]);
        assert!(entries(&[]).is_empty(), "a system that does not tell");
    }
}
