//! What was stepped over ([`crate::step_over`]), so that everybody sees it afterwards.

use base::limits::STEPPED_OVER_KEPT_MAX;
use base::{PartitionId, Position, WallTime};
use wire::{Malformed, Reader, Writer};

use super::Registry;

/// An entry of a log that no replica has applied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SteppedOver {
    pub partition: PartitionId,
    pub position: Position,
    /// Its checksum.
    pub digest: u64,
    /// When the council has heard of it.
    pub at: WallTime,
}

impl Registry {
    /// The checksum of the entry that was stepped over at a position, if one was and is remembered.
    pub(crate) fn stepped_over(&self, (partition, position): (PartitionId, Position)) -> Option<u64> {
        let found = self.stepped.iter().find(|it| (it.partition, it.position) == (partition, position));
        found.map(|it| it.digest)
    }

    /// Every node tells of it; once is enough.
    pub(crate) fn note_stepped_over(&mut self, stepped: SteppedOver) {
        if self.stepped_over((stepped.partition, stepped.position)).is_some() {
            return;
        }
        self.stepped_total += 1;
        self.stepped.push(stepped);
        if self.stepped.len() > STEPPED_OVER_KEPT_MAX {
            self.stepped.remove(0);
        }
    }
}

pub(super) fn write(w: &mut Writer<'_>, registry: &Registry) {
    w.u64(registry.stepped_total);
    w.count(registry.stepped.len());
    for SteppedOver { partition, position, digest, at } in &registry.stepped {
        w.partition(*partition);
        w.position(*position);
        w.u64(*digest);
        w.u64(at.0);
    }
}

pub(super) fn read(r: &mut Reader<'_>, registry: &mut Registry) -> Result<(), Malformed> {
    registry.stepped_total = r.u64()?;
    for _ in 0..r.count(19)? {
        let (partition, position, digest) = (r.partition()?, r.position()?, r.u64()?);
        registry.stepped.push(SteppedOver { partition, position, digest, at: WallTime(r.u64()?) });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::council::COUNCIL;

    #[test]
    fn each_is_counted_once_and_the_newest_are_kept() {
        let mut registry = Registry::default();
        for position in (1..=70).chain([70, 69]) {
            let position = Position(position);
            registry.note_stepped_over(SteppedOver { partition: COUNCIL, position, digest: 5, at: WallTime(9) });
        }
        assert_eq!((registry.stepped.len(), registry.stepped_total), (STEPPED_OVER_KEPT_MAX, 70));
        assert_eq!(registry.stepped_over((COUNCIL, Position(70))), Some(5));
        assert_eq!(registry.stepped_over((COUNCIL, Position(1))), None);
        let mut bytes = Vec::new();
        write(&mut Writer::new(&mut bytes), &registry);
        let mut again = Registry::default();
        assert_eq!(read(&mut Reader::from_slice(&bytes), &mut again), Ok(()));
        assert_eq!(again, registry);
    }
}
