//! `COPY source destination [DB destination-db] [REPLACE]`

use crate::commands::prelude::*;

const OUT_OF_32_BITS: Failure =
    Failure::Text("ERR value is out of range, value must between -2147483648 and 2147483647");

/// Copies a value and its deadline to another key.
pub struct Copy<'a> {
    source: KeyRef<'a>,
    destination: KeyRef<'a>,
    replace: bool,
}

impl<'a> WriteCommand<'a> for Copy<'a> {
    const SPEC: Spec = Spec {
        name: "copy",
        arity: -3,
        flags: Flags::WRITE.and(Flags::DENYOOM),
        keys: Keys::TWO,
        group: Group::Generic,
        since: "6.2.0",
        complexity: "O(N) where N is the number of elements of a collection; O(1) for a string",
        summary: "Copies the value of a key to another key.",
        arguments: "source destination [DB destination-db] [REPLACE]",
        example: "COPY a b REPLACE",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let mut copy = Copy { source: args.key(1)?, destination: args.key(2)?, replace: false };
        let mut index = 3;
        while index < args.len() {
            if args.is(index, "REPLACE") {
                copy.replace = true;
            } else if args.is(index, "DB") && index + 1 < args.len() {
                index += 1;
                let database = i32::try_from(args.integer(index)?).map_err(|_| OUT_OF_32_BITS)?;
                // There is one database; a bucket is not reached by its number.
                if database != 0 {
                    return Err(Failure::Text("ERR DB index is out of range"));
                }
            } else {
                return Err(Failure::Syntax);
            }
            index += 1;
        }
        if copy.source == copy.destination {
            return Err(Failure::Text("ERR source and destination objects are the same"));
        }
        Ok(copy)
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let Some(record) = tx.get(self.source) else { return Ok(Reply::Integer(0)) };
        if !self.replace && tx.exists(self.destination) {
            return Ok(Reply::Integer(0));
        }
        let value = tx.copy(&record.value);
        tx.put(self.destination, value, record.deadline());
        Ok(Reply::Integer(1))
    }
}
