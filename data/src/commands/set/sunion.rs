//! `SUNION key [key ...]`, `SUNIONSTORE destination key [key ...]`

use super::algebra::{Operation, Sources};
use crate::commands::prelude::*;

/// The members that any of several sets has.
pub struct SUnion<'a>(Sources<'a>);

impl<'a> ReadCommand<'a> for SUnion<'a> {
    const SPEC: Spec = Spec {
        name: "sunion",
        arity: -2,
        flags: Flags::READONLY,
        keys: Keys::ALL,
        group: Group::Set,
        since: "1.0.0",
        complexity: "O(N) where N is the number of members of all sets",
        summary: "Returns the members that any of several sets has.",
        arguments: "key [key ...]",
        example: "SUNION fruits vegetables",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(SUnion(Sources(args.from(1))))
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        Operation::Union.answer(view, &self.0)
    }
}

/// Puts them under a key.
pub struct SUnionStore<'a> {
    destination: KeyRef<'a>,
    sources: Sources<'a>,
}

impl<'a> WriteCommand<'a> for SUnionStore<'a> {
    const SPEC: Spec = Spec {
        name: "sunionstore",
        arity: -3,
        flags: Flags::WRITE.and(Flags::DENYOOM),
        keys: Keys::ALL,
        group: Group::Set,
        since: "1.0.0",
        complexity: "O(N) where N is the number of members of all sets",
        summary: "Makes a set of the members that any of several sets has and returns how many these are.",
        arguments: "destination key [key ...]",
        example: "SUNIONSTORE both fruits vegetables",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(SUnionStore { destination: args.key(1)?, sources: Sources(args.from(2)) })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        Operation::Union.store(tx, self.destination, &self.sources)
    }
}
