//! Clients that lost their node and went on at the next one come back when they are called.
//!
//! Otherwise they gather: whoever has moved once never moves back, and after a few faults all clients are at one node. The next fault of that node is a
//! silence of everybody, as long as a client's own patience, and says nothing of the system.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Shared by whoever knows that a node is well again and by the load whose clients shall be where they began.
#[derive(Clone, Debug, Default)]
pub struct Recall(Arc<AtomicU64>);

impl Recall {
    /// Calls all clients back. Each goes as soon as nothing of its own is under way.
    pub fn call(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// How often they were called.
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
