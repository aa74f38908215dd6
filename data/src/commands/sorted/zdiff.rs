//! `ZDIFF numkeys key [key ...] [WITHSCORES]`, `ZDIFFSTORE destination numkeys key [key ...]`

use super::algebra::Combined;
use crate::commands::prelude::*;
use crate::commands::set::algebra::Operation;

/// The members that the first sorted set has and no other.
pub struct ZDiff<'a>(Combined<'a>);

impl<'a> ReadCommand<'a> for ZDiff<'a> {
    const SPEC: Spec = Spec {
        name: "zdiff",
        arity: -3,
        flags: Flags::READONLY.and(Flags::MOVABLE_KEYS),
        keys: Keys::Counted { count: 1, first: 2, step: 1 },
        group: Group::SortedSet,
        since: "6.2.0",
        complexity: "O(N*K)+O(M*log(M)) where N is the size of the sets, K their number and M how many members come out",
        summary: "Returns the members that the first sorted set has and no other.",
        arguments: "numkeys key [key ...] [WITHSCORES]",
        example: "ZDIFF 2 summer winter WITHSCORES",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Combined::parse(args, 1, Operation::Difference, "zdiff", false).map(ZDiff)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        self.0.read(view)
    }
}

/// Puts them under a key.
pub struct ZDiffStore<'a> {
    destination: KeyRef<'a>,
    combined: Combined<'a>,
}

impl<'a> WriteCommand<'a> for ZDiffStore<'a> {
    const SPEC: Spec = Spec {
        name: "zdiffstore",
        arity: -4,
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::MOVABLE_KEYS),
        keys: Keys::Stored { count: 2, first: 3 },
        group: Group::SortedSet,
        since: "6.2.0",
        complexity: "O(N*K)+O(M*log(M)) where N is the size of the sets, K their number and M how many members come out",
        summary: "Makes a sorted set of the members that the first sorted set has and no other and returns how many these are.",
        arguments: "destination numkeys key [key ...]",
        example: "ZDIFFSTORE year 2 summer winter",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let combined = Combined::parse(args, 2, Operation::Difference, "zdiffstore", true)?;
        Ok(ZDiffStore { destination: args.key(1)?, combined })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        self.combined.store(tx, self.destination)
    }
}
