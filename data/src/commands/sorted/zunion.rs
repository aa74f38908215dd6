//! `ZUNION numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>] [WITHSCORES]`, `ZUNIONSTORE destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>]`

use super::algebra::Combined;
use crate::commands::prelude::*;
use crate::commands::set::algebra::Operation;

/// The members that any of several sorted sets has.
pub struct ZUnion<'a>(Combined<'a>);

impl<'a> ReadCommand<'a> for ZUnion<'a> {
    const SPEC: Spec = Spec {
        name: "zunion",
        arity: -3,
        flags: Flags::READONLY.and(Flags::MOVABLE_KEYS),
        keys: Keys::Counted { count: 1, first: 2, step: 1 },
        group: Group::SortedSet,
        since: "6.2.0",
        complexity: "O(N*K)+O(M*log(M)) where N is the size of the sets, K their number and M how many members come out",
        summary: "Returns the members that any of several sorted sets has.",
        arguments: "numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>] [WITHSCORES]",
        example: "ZUNION 2 summer winter WITHSCORES",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Combined::parse(args, 1, Operation::Union, "zunion", false).map(ZUnion)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        self.0.read(view)
    }
}

/// Puts them under a key.
pub struct ZUnionStore<'a> {
    destination: KeyRef<'a>,
    combined: Combined<'a>,
}

impl<'a> WriteCommand<'a> for ZUnionStore<'a> {
    const SPEC: Spec = Spec {
        name: "zunionstore",
        arity: -4,
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::MOVABLE_KEYS),
        keys: Keys::Stored { count: 2, first: 3 },
        group: Group::SortedSet,
        since: "2.0.0",
        complexity: "O(N*K)+O(M*log(M)) where N is the size of the sets, K their number and M how many members come out",
        summary: "Makes a sorted set of the members that any of several sorted sets has and returns how many these are.",
        arguments: "destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>]",
        example: "ZUNIONSTORE year 2 summer winter",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let combined = Combined::parse(args, 2, Operation::Union, "zunionstore", true)?;
        Ok(ZUnionStore { destination: args.key(1)?, combined })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        self.combined.store(tx, self.destination)
    }
}
