//! `RANDOMKEY`

use crate::commands::prelude::*;
use std::ops::Bound;

/// A key by chance.
pub struct RandomKey;

/// Up to so many keys, each is equally likely; beyond, a point of the store is drawn and some steps taken from there.
const COUNTED_MAX: u64 = 256;

/// Steps from the point, evens out that a key after a wide gap would be met more often.
const STEPS_MAX: u64 = 64;

impl<'a> ReadCommand<'a> for RandomKey {
    const SPEC: Spec = Spec {
        name: "randomkey",
        arity: 1,
        flags: Flags::READONLY,
        keys: Keys::None,
        group: Group::Generic,
        since: "1.0.0",
        complexity: "O(log N) where N is the number of keys.",
        summary: "Returns a key by chance.",
        arguments: "",
        example: "RANDOMKEY",
        subcommands: &[],
    };

    fn parse(_args: Args<'a>) -> Result<Self, Failure> {
        Ok(RandomKey)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        let mut rng = view.rng();
        let count = view.tree().len();
        let (start, steps) = if count <= COUNTED_MAX {
            let alive = view.records(Bound::Unbounded).count() as u64;
            (Bound::Unbounded, if alive == 0 { return Ok(Reply::Nil) } else { rng.below(alive) })
        } else {
            let point = KeyRef { order: rng.between(0, (1 << 62) - 1), key: b"" };
            (Bound::Included(point), rng.below(STEPS_MAX))
        };
        // The store is a ring here: after its end comes its beginning.
        let ring = view.records(start).chain(view.records(Bound::Unbounded));
        let found = ring.take(steps as usize + 1).last();
        Ok(Reply::bulk_or_nil(found.map(|(key, _)| key.key.clone())))
    }
}
