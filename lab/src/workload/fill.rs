//! The load phase of any workload as a workload itself: every record once, shared among the threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Draft, Draw, Workload};

/// Writes the records of another workload, from the first to the last.
pub struct Fill {
    of: Arc<dyn Workload>,
    next: Arc<AtomicU64>,
}

impl Fill {
    /// The load phase of `of`.
    #[must_use]
    pub fn new(of: Arc<dyn Workload>) -> Fill {
        Fill { of, next: Arc::default() }
    }
}

impl Workload for Fill {
    fn kinds(&self) -> Vec<String> {
        vec!["load".to_owned()]
    }

    fn records(&self) -> u64 {
        self.of.records()
    }

    fn load(&self, number: u64, draft: &mut Draft) {
        self.of.load(number, draft);
    }

    fn draw(&self, _seed: u64) -> Result<Box<dyn Draw>, String> {
        Ok(Box::new(Drawer { of: Arc::clone(&self.of), next: Arc::clone(&self.next) }))
    }
}

struct Drawer {
    of: Arc<dyn Workload>,
    next: Arc<AtomicU64>,
}

impl Draw for Drawer {
    fn next(&mut self, _client: u32, draft: &mut Draft) -> bool {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if number >= self.of.records() {
            return false;
        }
        self.of.load(number, draft);
        // Whatever the workload calls it: this is the only kind here, and nothing follows.
        draft.kind = 0;
        draft.follow = false;
        true
    }
}
