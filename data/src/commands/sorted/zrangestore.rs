//! `ZRANGESTORE destination source min max [BYSCORE | BYLEX] [REV] [LIMIT offset count]`

use super::zrange::Asked;
use crate::commands::prelude::*;

/// Puts a part of a sorted set under another key.
pub struct ZRangeStore<'a> {
    destination: KeyRef<'a>,
    asked: Asked<'a>,
}

impl<'a> WriteCommand<'a> for ZRangeStore<'a> {
    const SPEC: Spec = Spec {
        name: "zrangestore",
        arity: -5,
        flags: Flags::WRITE.and(Flags::DENYOOM),
        keys: Keys::TWO,
        group: Group::SortedSet,
        since: "6.2.0",
        complexity: "O(log(N)+M) where N is the size of the sorted set and M how many members are stored",
        summary: "Makes a sorted set of a range of members of another and returns how many these are.",
        arguments: "dst src min max [BYSCORE | BYLEX] [REV] [LIMIT offset count]",
        example: "ZRANGESTORE best scores 0 9 REV",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(ZRangeStore { destination: args.key(1)?, asked: Asked::parse(args, 2, (None, None), true)? })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let found = match tx.collection(self.asked.key, Kind::SortedSet)? {
            Some(of) => self.asked.part.read(&tx.tree().collections, of)?,
            None => Vec::new(),
        };
        Ok(tx.store_sorted(self.destination, found))
    }
}
