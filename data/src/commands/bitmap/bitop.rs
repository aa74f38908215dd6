//! `BITOP operation destkey key [key …]`

use crate::algorithms::bits::{Combination, combine};
use crate::commands::prelude::*;

/// Combines strings bit by bit and stores the result.
pub struct BitOp<'a> {
    operation: Combination,
    destination: KeyRef<'a>,
    sources: &'a [&'a [u8]],
}

impl<'a> WriteCommand<'a> for BitOp<'a> {
    const SPEC: Spec = Spec {
        name: "bitop",
        arity: -4,
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::GROWS),
        keys: Keys::Range { first: 2, last: -1, step: 1 },
        group: Group::Bitmap,
        since: "2.6.0",
        complexity: "O(N) where N is the length of all strings together",
        summary: "Combines strings bit by bit, stores the result and answers its length.",
        arguments: "AND | OR | XOR | NOT | DIFF | DIFF1 | ANDOR | ONE destkey key [key ...]",
        example: "BITOP AND visits:both visits:monday visits:tuesday",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let operation = Combination::named(args.get(1)?).ok_or(Failure::Syntax)?;
        let sources = args.from(3);
        let few =
            |name| Failure::Built(format!("ERR BITOP {name} must be called with at least two source keys.").into());
        match operation {
            Combination::Not if sources.len() != 1 => {
                return Err(Failure::Text("ERR BITOP NOT must be called with a single source key."));
            }
            Combination::Difference if sources.len() < 2 => return Err(few("DIFF")),
            Combination::DifferenceOfRest if sources.len() < 2 => return Err(few("DIFF1")),
            Combination::AndOr if sources.len() < 2 => return Err(few("ANDOR")),
            _ => {}
        }
        Ok(BitOp { operation, destination: args.key(2)?, sources })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let mut sources = Vec::with_capacity(self.sources.len());
        for source in self.sources {
            sources.push(tx.string(KeyRef::new(source))?.unwrap_or_default());
        }
        let sources: Vec<&[u8]> = sources.iter().map(Blob::as_slice).collect();
        tx.check_length(sources.iter().map(|source| source.len()).max().unwrap_or(0) as u64)?;
        let result = combine(self.operation, &sources);
        let length = result.len();
        if length == 0 {
            tx.remove(self.destination);
        } else {
            tx.put_string(self.destination, result);
        }
        Ok(Reply::count(length))
    }
}
