//! `BLPOP key [key ...] timeout`, `BRPOP key [key ...] timeout`

use super::lpop::pop;
use crate::commands::prelude::*;
use crate::transaction::End;
use crate::waiting::parse_timeout;

/// The first of several lists that has an element.
struct First<'a>(&'a [&'a [u8]]);

impl<'a> First<'a> {
    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let (timeout, keys) = args.from(1).split_last().ok_or(Failure::Syntax)?;
        parse_timeout(timeout)?;
        Ok(First(keys))
    }

    fn pop(&self, tx: &mut Transaction<'_>, end: End) -> Result<Reply, Failure> {
        for key in self.0 {
            if let Some(element) = pop(tx, KeyRef::new(key), end, 1)?.and_then(|popped| popped.into_iter().next()) {
                return Ok(Reply::Array(vec![Reply::bulk(*key), Reply::Bulk(element)]));
            }
        }
        Ok(Reply::NilArray)
    }
}

/// Takes an element out at the beginning, or waits for one.
pub struct BLPop<'a>(First<'a>);

impl<'a> WriteCommand<'a> for BLPop<'a> {
    const SPEC: Spec = Spec {
        name: "blpop",
        arity: -3,
        flags: Flags::WRITE.and(Flags::BLOCKING).and(Flags::NOSCRIPT).and(Flags::BOUNDED),
        keys: Keys::ALL_BUT_LAST,
        group: Group::List,
        since: "2.0.0",
        complexity: "O(N) where N is the number of keys",
        summary: "Removes the first element of the first of several lists that has any and returns it; waits until there is one.",
        arguments: "key [key ...] timeout",
        example: "BLPOP urgent later 5",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        First::parse(args).map(BLPop)
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        self.0.pop(tx, End::Left)
    }
}

/// Takes an element out at the end, or waits for one.
pub struct BRPop<'a>(First<'a>);

impl<'a> WriteCommand<'a> for BRPop<'a> {
    const SPEC: Spec = Spec {
        name: "brpop",
        arity: -3,
        flags: Flags::WRITE.and(Flags::BLOCKING).and(Flags::NOSCRIPT).and(Flags::BOUNDED),
        keys: Keys::ALL_BUT_LAST,
        group: Group::List,
        since: "2.0.0",
        complexity: "O(N) where N is the number of keys",
        summary: "Removes the last element of the first of several lists that has any and returns it; waits until there is one.",
        arguments: "key [key ...] timeout",
        example: "BRPOP urgent later 5",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        First::parse(args).map(BRPop)
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        self.0.pop(tx, End::Right)
    }
}
