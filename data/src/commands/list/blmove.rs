//! `BLMOVE source destination <LEFT | RIGHT> <LEFT | RIGHT> timeout`, `BRPOPLPUSH source destination timeout`

use super::lmove::LMove;
use crate::commands::prelude::*;
use crate::waiting::parse_timeout;

/// Takes an element out at an end of a list and adds it at an end of another one, or waits for one.
pub struct BLMove<'a>(LMove<'a>);

impl<'a> WriteCommand<'a> for BLMove<'a> {
    const SPEC: Spec = Spec {
        name: "blmove",
        arity: 6,
        flags: Flags::WRITE.and(Flags::BLOCKING).and(Flags::NOSCRIPT).and(Flags::DENYOOM).and(Flags::BOUNDED),
        keys: Keys::TWO,
        group: Group::List,
        since: "6.2.0",
        complexity: "O(1)",
        summary: "Moves an element from an end of a list to an end of another one and returns it; waits until there is one.",
        arguments: "source destination <LEFT | RIGHT> <LEFT | RIGHT> timeout",
        example: "BLMOVE waiting working LEFT RIGHT 5",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let moved = LMove::parse(args)?;
        parse_timeout(args.get(5)?)?;
        Ok(BLMove(moved))
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        self.0.run(tx)
    }
}

/// From the end of a list to the beginning of another one; waits for an element.
pub struct BRPopLPush<'a>(LMove<'a>);

impl<'a> WriteCommand<'a> for BRPopLPush<'a> {
    const SPEC: Spec = Spec {
        name: "brpoplpush",
        arity: 4,
        flags: Flags::WRITE.and(Flags::BLOCKING).and(Flags::NOSCRIPT).and(Flags::DENYOOM).and(Flags::BOUNDED),
        keys: Keys::TWO,
        group: Group::List,
        since: "2.2.0",
        complexity: "O(1)",
        summary: "Moves the last element of a list to the beginning of another one and returns it; waits until there is one.",
        arguments: "source destination timeout",
        example: "BRPOPLPUSH waiting working 5",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        parse_timeout(args.get(3)?)?;
        Ok(BRPopLPush(LMove::back_to_front(args.key(1)?, args.key(2)?)))
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        self.0.run(tx)
    }
}
