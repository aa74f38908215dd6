//! `PFMERGE destkey [sourcekey [sourcekey ...]]`

use super::{REGISTERS_PRICE, as_one};
use crate::algorithms::hyperloglog::{self, REGISTERS};
use crate::commands::prelude::*;

/// Tells a HyperLogLog of all that others were told of.
pub struct PfMerge<'a> {
    destination: KeyRef<'a>,
    /// The destination among them.
    keys: &'a [&'a [u8]],
}

impl<'a> WriteCommand<'a> for PfMerge<'a> {
    const SPEC: Spec = Spec {
        name: "pfmerge",
        arity: -2,
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::GROWS),
        keys: Keys::ALL,
        group: Group::HyperLogLog,
        since: "2.8.9",
        complexity: "O(N) for N keys, with a large constant",
        summary: "Merges HyperLogLogs into one. Creates the destination if it does not exist.",
        arguments: "destkey [sourcekey [sourcekey ...]]",
        example: "PFMERGE week monday tuesday",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(PfMerge { destination: args.key(1)?, keys: args.from(1) })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let mut registers = [0; REGISTERS];
        let (mut before, mut is_dense) = (None, false);
        for (number, key) in self.keys.iter().enumerate() {
            let Some(bytes) = tx.string(KeyRef::new(key))?.map(as_one).transpose()? else { continue };
            tx.meter().spend(REGISTERS_PRICE);
            tx.meter().check()?;
            hyperloglog::raise(&mut registers, &bytes)?;
            is_dense |= hyperloglog::is_dense(&bytes);
            if number == 0 {
                before = Some(bytes);
            }
        }
        let is_new = before.is_none();
        let mut bytes = before.map_or_else(hyperloglog::empty, |bytes| bytes.to_vec());
        if is_dense {
            hyperloglog::make_dense(&mut bytes)?;
        }
        hyperloglog::tell_all(&mut bytes, &registers)?;
        hyperloglog::mark_stale(&mut bytes);
        tx.check_length(bytes.len() as u64)?;
        if is_new {
            tx.put_string(self.destination, bytes);
        } else {
            tx.edit_string(self.destination, |string| *string = bytes)?;
        }
        Ok(Reply::Ok)
    }
}
