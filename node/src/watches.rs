//! The keys that a connection watches until its next EXEC.

use base::Revision;

/// See the file's head.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    list: Vec<(Vec<u8>, Revision)>,
    bytes: usize,
}

impl Watches {
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Bytes of the keys.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn extend(&mut self, watched: impl IntoIterator<Item = (Vec<u8>, Revision)>) {
        for (key, revision) in watched {
            self.bytes += key.len();
            self.list.push((key, revision));
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Watches::default();
    }

    /// Takes all of them, for a transaction.
    pub(crate) fn take(&mut self) -> Vec<(Vec<u8>, Revision)> {
        std::mem::take(self).list
    }
}
