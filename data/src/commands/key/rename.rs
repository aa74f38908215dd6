//! `RENAME key newkey` and `RENAMENX key newkey`

use crate::commands::prelude::*;

/// Moves a value and its deadline to another key, whatever that key held before.
pub struct Rename<'a>(Move<'a>);

/// Moves a value and its deadline to another key unless that key exists.
pub struct RenameNx<'a>(Move<'a>);

struct Move<'a> {
    from: KeyRef<'a>,
    to: KeyRef<'a>,
}

impl<'a> Move<'a> {
    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(Move { from: args.key(1)?, to: args.key(2)? })
    }

    /// Whether the value was moved: not if `only_if_free` and the other key exists.
    fn apply(self, tx: &mut Transaction<'_>, only_if_free: bool) -> Result<bool, Failure> {
        if !tx.exists(self.from) {
            return Err(Failure::NoSuchKey);
        }
        if self.from == self.to {
            return Ok(!only_if_free);
        }
        if only_if_free && tx.exists(self.to) {
            return Ok(false);
        }
        tx.rename(self.from, self.to);
        Ok(true)
    }
}

impl<'a> WriteCommand<'a> for Rename<'a> {
    const SPEC: Spec = Spec {
        name: "rename",
        arity: 3,
        flags: Flags::WRITE.and(Flags::BOUNDED),
        keys: Keys::TWO,
        group: Group::Generic,
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Renames a key and overwrites the destination.",
        arguments: "key newkey",
        example: "RENAME draft final",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Move::parse(args).map(Rename)
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        self.0.apply(tx, false)?;
        Ok(Reply::Ok)
    }
}

impl<'a> WriteCommand<'a> for RenameNx<'a> {
    const SPEC: Spec = Spec {
        name: "renamenx",
        arity: 3,
        flags: Flags::WRITE.and(Flags::FAST).and(Flags::BOUNDED),
        keys: Keys::TWO,
        group: Group::Generic,
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Renames a key only when the destination does not exist.",
        arguments: "key newkey",
        example: "RENAMENX draft final",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Move::parse(args).map(RenameNx)
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        Ok(Reply::one_if(self.0.apply(tx, true)?))
    }
}
