//! `BZMPOP timeout numkeys key [key ...] <MIN | MAX> [COUNT count]`

use super::zmpop::ZMPop;
use crate::commands::prelude::*;
use crate::waiting::parse_timeout;

/// Takes members out of the first of several sorted sets that has any, or waits for one.
pub struct BZMPop<'a>(ZMPop<'a>);

impl<'a> WriteCommand<'a> for BZMPop<'a> {
    const SPEC: Spec = Spec {
        name: "bzmpop",
        arity: -5,
        flags: Flags::WRITE.and(Flags::BLOCKING).and(Flags::MOVABLE_KEYS),
        keys: Keys::Counted { count: 2, first: 3, step: 1 },
        group: Group::SortedSet,
        since: "7.0.0",
        complexity: "O(K) + O(M*log(N)) where K is the number of keys, N the size of the sorted set and M how many members are removed",
        summary: "Removes members with the lowest or highest scores from the first of several sorted sets that has any, and returns them; waits until there are some.",
        arguments: "timeout numkeys key [key ...] <MIN | MAX> [COUNT count]",
        example: "BZMPOP 5 2 urgent later MIN COUNT 10",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let popped = ZMPop::parse_from(args, 2)?;
        parse_timeout(args.get(1)?)?;
        Ok(BZMPop(popped))
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        self.0.run(tx)
    }
}
