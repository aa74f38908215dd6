//! `PFADD key [element [element ...]]`

use super::as_one;
use crate::algorithms::hyperloglog;
use crate::commands::prelude::*;

/// Tells a HyperLogLog of elements; answers whether that may have changed its count.
pub struct PfAdd<'a> {
    key: KeyRef<'a>,
    elements: &'a [&'a [u8]],
}

impl<'a> WriteCommand<'a> for PfAdd<'a> {
    const SPEC: Spec = Spec {
        name: "pfadd",
        arity: -2,
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST).and(Flags::GROWS).and(Flags::BOUNDED),
        keys: Keys::ONE,
        group: Group::HyperLogLog,
        since: "2.8.9",
        complexity: "O(1) for each element",
        summary: "Adds elements to a HyperLogLog. Creates the key if it does not exist.",
        arguments: "key [element [element ...]]",
        example: "PFADD visitors ada grace",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(PfAdd { key: args.key(1)?, elements: args.from(2) })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let before = tx.string(self.key)?.map(as_one).transpose()?;
        let is_new = before.is_none();
        if let Some(bytes) = before.as_ref().filter(|_| !self.elements.is_empty()) {
            hyperloglog::check(bytes)?;
        }
        // Most elements change nothing once it is large: then nothing is copied.
        let places = || self.elements.iter().map(|element| hyperloglog::place_of(element));
        let changes = |bytes: &Blob| places().any(|place| hyperloglog::would_change(bytes, place));
        if before.as_ref().is_some_and(|bytes| !changes(bytes)) {
            return Ok(Reply::one_if(false));
        }
        let mut bytes = before.map_or_else(hyperloglog::empty, |bytes| bytes.to_vec());
        for place in places() {
            hyperloglog::tell(&mut bytes, place)?;
        }
        hyperloglog::mark_stale(&mut bytes);
        tx.check_length(bytes.len() as u64)?;
        if is_new {
            tx.put_string(self.key, bytes);
        } else {
            tx.edit_string(self.key, |string| *string = bytes)?;
        }
        Ok(Reply::one_if(true))
    }
}
