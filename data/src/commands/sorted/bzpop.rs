//! `BZPOPMIN key [key ...] timeout`, `BZPOPMAX key [key ...] timeout`

use super::zpop::pop;
use crate::commands::prelude::*;
use crate::waiting::parse_timeout;

/// The first of several sorted sets that has a member.
struct First<'a>(&'a [&'a [u8]]);

impl<'a> First<'a> {
    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let (timeout, keys) = args.from(1).split_last().ok_or(Failure::Syntax)?;
        parse_timeout(timeout)?;
        Ok(First(keys))
    }

    fn pop(&self, tx: &mut Transaction<'_>, highest: bool) -> Result<Reply, Failure> {
        for key in self.0 {
            let popped = pop(tx, KeyRef::new(key), highest, 1)?;
            if let Some((member, score)) = popped.and_then(|popped| popped.into_iter().next()) {
                return Ok(Reply::Array(vec![Reply::bulk(*key), Reply::Bulk(member), Reply::Double(score)]));
            }
        }
        Ok(Reply::NilArray)
    }
}

/// Takes the member with the lowest score out, or waits for one.
pub struct BZPopMin<'a>(First<'a>);

impl<'a> WriteCommand<'a> for BZPopMin<'a> {
    const SPEC: Spec = Spec {
        name: "bzpopmin",
        arity: -3,
        flags: Flags::WRITE.and(Flags::BLOCKING).and(Flags::NOSCRIPT).and(Flags::FAST).and(Flags::BOUNDED),
        keys: Keys::ALL_BUT_LAST,
        group: Group::SortedSet,
        since: "5.0.0",
        complexity: "O(log(N)) where N is the size of the sorted set",
        summary: "Removes the member with the lowest score from the first of several sorted sets that has any and returns it; waits until there is one.",
        arguments: "key [key ...] timeout",
        example: "BZPOPMIN urgent later 5",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        First::parse(args).map(BZPopMin)
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        self.0.pop(tx, false)
    }
}

/// Takes the member with the highest score out, or waits for one.
pub struct BZPopMax<'a>(First<'a>);

impl<'a> WriteCommand<'a> for BZPopMax<'a> {
    const SPEC: Spec = Spec {
        name: "bzpopmax",
        arity: -3,
        flags: Flags::WRITE.and(Flags::BLOCKING).and(Flags::NOSCRIPT).and(Flags::FAST).and(Flags::BOUNDED),
        keys: Keys::ALL_BUT_LAST,
        group: Group::SortedSet,
        since: "5.0.0",
        complexity: "O(log(N)) where N is the size of the sorted set",
        summary: "Removes the member with the highest score from the first of several sorted sets that has any and returns it; waits until there is one.",
        arguments: "key [key ...] timeout",
        example: "BZPOPMAX urgent later 5",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        First::parse(args).map(BZPopMax)
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        self.0.pop(tx, true)
    }
}
