//! When keys were last removed: so that `WATCH` notices a key that was absent, came and went.

use base::Revision;
use base::checksum::xxh3;
use std::sync::Arc;

/// Keys fall into so many classes by their hash. A removal of another key of the class looks like one of the watched key, and
/// only aborts a transaction that would then be tried again.
pub(crate) const CLASSES: usize = 1024;

/// The revision of the last removal in each class; 0 where there was none. Copies share it until one of them changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Removals {
    last: Arc<[Revision; CLASSES]>,
}

impl Default for Removals {
    fn default() -> Removals {
        Removals { last: Arc::new([Revision(0); CLASSES]) }
    }
}

impl Removals {
    fn class(key: &[u8]) -> usize {
        (xxh3(key) % CLASSES as u64) as usize
    }

    /// The last removal in the key's class.
    pub(crate) fn of(&self, key: &[u8]) -> Revision {
        self.last[Self::class(key)]
    }

    pub(crate) fn note(&mut self, key: &[u8], revision: Revision) {
        Arc::make_mut(&mut self.last)[Self::class(key)] = revision;
    }

    /// Everything was removed.
    pub(crate) fn note_all(&mut self, revision: Revision) {
        Arc::make_mut(&mut self.last).fill(revision);
    }

    /// All classes in their order, for images.
    pub(crate) fn classes(&self) -> &[Revision] {
        &*self.last
    }

    pub(crate) fn restore(&mut self, class: usize, revision: Revision) {
        if let Some(last) = Arc::make_mut(&mut self.last).get_mut(class) {
            *last = revision;
        }
    }
}
