//! `ZINTERCARD numkeys key [key ...] [LIMIT limit]`

use super::algebra::{input_keys, part_of};
use crate::commands::prelude::*;
use crate::commands::set::sintercard::Counted;

/// How many members several sorted sets have in common.
pub struct ZInterCard<'a>(Counted<'a>);

impl<'a> ReadCommand<'a> for ZInterCard<'a> {
    const SPEC: Spec = Spec {
        name: "zintercard",
        arity: -3,
        flags: Flags::READONLY.and(Flags::MOVABLE_KEYS),
        keys: Keys::Counted { count: 1, first: 2, step: 1 },
        group: Group::SortedSet,
        since: "7.0.0",
        complexity: "O(N*M) where N is the size of the smallest sorted set and M the number of sorted sets",
        summary: "Returns how many members several sorted sets have in common.",
        arguments: "numkeys key [key ...] [LIMIT limit]",
        example: "ZINTERCARD 2 summer winter LIMIT 10",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let (keys, options) = input_keys(args, 1, "zintercard")?;
        Counted::new(keys, options).map(ZInterCard)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        self.0.read(view, |key| Ok(part_of(view.get(key))?.map(|(_, of)| of)))
    }
}
