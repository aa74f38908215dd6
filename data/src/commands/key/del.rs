//! `DEL key [key ...]` and `UNLINK key [key ...]`

use crate::commands::prelude::*;

/// Removes keys.
pub struct Del<'a> {
    keys: &'a [&'a [u8]],
}

/// The same: values are freed when nobody holds them any more, so there is nothing to put off.
pub struct Unlink<'a>(Del<'a>);

impl<'a> WriteCommand<'a> for Del<'a> {
    const SPEC: Spec = Spec {
        name: "del",
        arity: -2,
        flags: Flags::WRITE.and(Flags::OFTEN_NOTHING).and(Flags::BOUNDED),
        keys: Keys::ALL,
        group: Group::Generic,
        since: "1.0.0",
        complexity: "O(N) where N is the number of keys.",
        summary: "Deletes keys and returns how many of them existed.",
        arguments: "key [key ...]",
        example: "DEL a b",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(Del { keys: args.from(1) })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        Ok(Reply::count(self.keys.iter().filter(|key| tx.remove(KeyRef::new(key))).count()))
    }
}

impl<'a> WriteCommand<'a> for Unlink<'a> {
    const SPEC: Spec = Spec {
        name: "unlink",
        arity: -2,
        flags: Flags::WRITE.and(Flags::OFTEN_NOTHING).and(Flags::FAST).and(Flags::BOUNDED),
        keys: Keys::ALL,
        group: Group::Generic,
        since: "4.0.0",
        complexity: "O(N) where N is the number of keys.",
        summary: "Deletes keys and returns how many of them existed.",
        arguments: "key [key ...]",
        example: "UNLINK a b",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Del::parse(args).map(Unlink)
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        self.0.apply(tx)
    }
}
