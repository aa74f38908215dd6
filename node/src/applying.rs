//! Which entry is being applied: for the owner, who has to say so when that ends the process, or does not end at all.

use std::sync::atomic::{AtomicU64, Ordering};

use base::{BucketId, PartitionId, Position};

/// Written by the node, read by whichever thread has to tell.
#[derive(Debug, Default)]
pub struct Applying {
    partition: AtomicU64,
    /// 0: none is.
    position: AtomicU64,
}

impl Applying {
    pub(crate) fn begin(&self, partition: PartitionId, position: Position) {
        self.partition.store(u64::from(partition.bucket.0) << 16 | u64::from(partition.index), Ordering::Relaxed);
        self.position.store(position.0, Ordering::Release);
    }

    pub(crate) fn end(&self) {
        self.position.store(0, Ordering::Release);
    }

    /// The entry that is being applied now.
    #[must_use]
    pub fn now(&self) -> Option<(PartitionId, Position)> {
        let position = self.position.load(Ordering::Acquire);
        let partition = self.partition.load(Ordering::Relaxed);
        let id = PartitionId { bucket: BucketId((partition >> 16) as u32), index: partition as u16 };
        (position > 0).then_some((id, Position(position)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_applied_is_told_while_it_is() {
        let applying = Applying::default();
        assert_eq!(applying.now(), None);
        let partition = PartitionId { bucket: BucketId(u32::MAX), index: u16::MAX };
        applying.begin(partition, Position(u64::MAX));
        assert_eq!(applying.now(), Some((partition, Position(u64::MAX))));
        applying.end();
        assert_eq!(applying.now(), None);
    }
}
