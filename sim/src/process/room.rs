//! What a node is told of its disk's room: by what its journal meets, and by who looks at the disk.

use node::DiskRoom;

/// The last that it was told, and since when that is too little for what grows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ToldRoom {
    is_full: bool,
    is_low: bool,
    /// Since this time, in nanoseconds, the node takes nothing that grows.
    pub(crate) refuses_since: Option<u64>,
}

impl ToldRoom {
    pub(super) fn on_full(&mut self, full: bool, now: u64) -> DiskRoom {
        self.is_full = full;
        self.told(now)
    }

    pub(super) fn on_low(&mut self, low: bool, now: u64) -> DiskRoom {
        self.is_low = low;
        self.told(now)
    }

    fn told(&mut self, now: u64) -> DiskRoom {
        let refuses = self.is_full || self.is_low;
        self.refuses_since = refuses.then(|| self.refuses_since.unwrap_or(now));
        match (self.is_full, self.is_low) {
            (true, _) => DiskRoom::Full { missing: 0 },
            (false, true) => DiskRoom::Low { missing: 0 },
            (false, false) => DiskRoom::default(),
        }
    }
}
