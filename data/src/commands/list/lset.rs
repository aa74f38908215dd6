//! `LSET key index element`

use crate::commands::prelude::*;

/// Puts another element in place.
pub struct LSet<'a> {
    key: KeyRef<'a>,
    /// Whether it is a number matters only if there is a list.
    index: Result<i64, Failure>,
    element: &'a [u8],
}

impl<'a> WriteCommand<'a> for LSet<'a> {
    const SPEC: Spec = Spec {
        name: "lset",
        arity: 4,
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::BOUNDED),
        keys: Keys::ONE,
        group: Group::List,
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Puts another element in place of the one of an index of a list.",
        arguments: "key index element",
        example: "LSET queue 0 a",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(LSet { key: args.key(1)?, index: args.integer(2), element: args.get(3)? })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let list = tx.list(self.key)?.ok_or(Failure::NoSuchKey)?;
        let index = list.index(self.index?).ok_or(Failure::Text("ERR index out of range"))?;
        tx.edit_list(self.key, |list| {
            list.set(index, self.element);
            Ok(Reply::Ok)
        })
    }
}
