//! `SINTER key [key ...]`, `SINTERSTORE destination key [key ...]`

use super::algebra::{Operation, Sources};
use crate::commands::prelude::*;

/// The members that several sets have in common.
pub struct SInter<'a>(Sources<'a>);

impl<'a> ReadCommand<'a> for SInter<'a> {
    const SPEC: Spec = Spec {
        name: "sinter",
        arity: -2,
        flags: Flags::READONLY,
        keys: Keys::ALL,
        group: Group::Set,
        since: "1.0.0",
        complexity: "O(N*M) where N is the size of the smallest set and M the number of sets",
        summary: "Returns the members that several sets have in common.",
        arguments: "key [key ...]",
        example: "SINTER fruits vegetables",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(SInter(Sources(args.from(1))))
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        Operation::Intersection.answer(view, &self.0)
    }
}

/// Puts them under a key.
pub struct SInterStore<'a> {
    destination: KeyRef<'a>,
    sources: Sources<'a>,
}

impl<'a> WriteCommand<'a> for SInterStore<'a> {
    const SPEC: Spec = Spec {
        name: "sinterstore",
        arity: -3,
        flags: Flags::WRITE.and(Flags::DENYOOM),
        keys: Keys::ALL,
        group: Group::Set,
        since: "1.0.0",
        complexity: "O(N*M) where N is the size of the smallest set and M the number of sets",
        summary: "Makes a set of the members that several sets have in common and returns how many these are.",
        arguments: "destination key [key ...]",
        example: "SINTERSTORE both fruits vegetables",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(SInterStore { destination: args.key(1)?, sources: Sources(args.from(2)) })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        Operation::Intersection.store(tx, self.destination, &self.sources)
    }
}
