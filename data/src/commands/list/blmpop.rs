//! `BLMPOP timeout numkeys key [key ...] <LEFT | RIGHT> [COUNT count]`

use super::lmpop::LMPop;
use crate::commands::prelude::*;
use crate::waiting::parse_timeout;

/// Takes elements out of the first of several lists that has any, or waits for one.
pub struct BLMPop<'a>(LMPop<'a>);

impl<'a> WriteCommand<'a> for BLMPop<'a> {
    const SPEC: Spec = Spec {
        name: "blmpop",
        arity: -5,
        flags: Flags::WRITE.and(Flags::BLOCKING).and(Flags::MOVABLE_KEYS),
        keys: Keys::Counted { count: 2, first: 3, step: 1 },
        group: Group::List,
        since: "7.0.0",
        complexity: "O(N+M) where N is the number of keys and M the number of elements returned",
        summary: "Removes elements at an end of the first of several lists that has any, and returns them; waits until there are some.",
        arguments: "timeout numkeys key [key ...] <LEFT | RIGHT> [COUNT count]",
        example: "BLMPOP 5 2 urgent later LEFT COUNT 10",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let popped = LMPop::parse_from(args, 2)?;
        parse_timeout(args.get(1)?)?;
        Ok(BLMPop(popped))
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        self.0.run(tx)
    }
}
