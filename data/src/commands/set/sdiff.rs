//! `SDIFF key [key ...]`, `SDIFFSTORE destination key [key ...]`

use super::algebra::{Operation, Sources};
use crate::commands::prelude::*;

/// The members that the first set has and no other.
pub struct SDiff<'a>(Sources<'a>);

impl<'a> ReadCommand<'a> for SDiff<'a> {
    const SPEC: Spec = Spec {
        name: "sdiff",
        arity: -2,
        flags: Flags::READONLY,
        keys: Keys::ALL,
        group: Group::Set,
        since: "1.0.0",
        complexity: "O(N*M) where N is the size of the first set and M the number of sets",
        summary: "Returns the members that the first set has and no other.",
        arguments: "key [key ...]",
        example: "SDIFF fruits vegetables",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(SDiff(Sources(args.from(1))))
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        Operation::Difference.answer(view, &self.0)
    }
}

/// Puts them under a key.
pub struct SDiffStore<'a> {
    destination: KeyRef<'a>,
    sources: Sources<'a>,
}

impl<'a> WriteCommand<'a> for SDiffStore<'a> {
    const SPEC: Spec = Spec {
        name: "sdiffstore",
        arity: -3,
        flags: Flags::WRITE.and(Flags::DENYOOM),
        keys: Keys::ALL,
        group: Group::Set,
        since: "1.0.0",
        complexity: "O(N*M) where N is the size of the first set and M the number of sets",
        summary: "Makes a set of the members that the first set has and no other and returns how many these are.",
        arguments: "destination key [key ...]",
        example: "SDIFFSTORE both fruits vegetables",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(SDiffStore { destination: args.key(1)?, sources: Sources(args.from(2)) })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        Operation::Difference.store(tx, self.destination, &self.sources)
    }
}
