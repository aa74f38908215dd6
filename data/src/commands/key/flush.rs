//! `FLUSHDB [ASYNC | SYNC]` and `FLUSHALL [ASYNC | SYNC]`

use crate::commands::prelude::*;

/// Removes every key.
pub struct FlushDb;

/// Removes every key: there is one database.
pub struct FlushAll;

/// `ASYNC` and `SYNC` are accepted and make no difference.
fn check_options(args: Args<'_>) -> Result<(), Failure> {
    let fits = args.len() == 1 || (args.len() == 2 && (args.is(1, "ASYNC") || args.is(1, "SYNC")));
    if fits { Ok(()) } else { Err(Failure::Syntax) }
}

impl<'a> WriteCommand<'a> for FlushDb {
    const SPEC: Spec = Spec {
        name: "flushdb",
        arity: -1,
        flags: Flags::WRITE.and(Flags::DANGEROUS),
        keys: Keys::None,
        group: Group::Server,
        since: "1.0.0",
        complexity: "O(N) where N is the number of keys.",
        summary: "Removes all keys.",
        arguments: "[ASYNC | SYNC]",
        example: "FLUSHDB",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        check_options(args).map(|()| FlushDb)
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        tx.clear();
        Ok(Reply::Ok)
    }
}

impl<'a> WriteCommand<'a> for FlushAll {
    const SPEC: Spec = Spec {
        name: "flushall",
        arity: -1,
        flags: Flags::WRITE.and(Flags::DANGEROUS),
        keys: Keys::None,
        group: Group::Server,
        since: "1.0.0",
        complexity: "O(N) where N is the number of keys.",
        summary: "Removes all keys.",
        arguments: "[ASYNC | SYNC]",
        example: "FLUSHALL",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        check_options(args).map(|()| FlushAll)
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        tx.clear();
        Ok(Reply::Ok)
    }
}
