//! `DBSIZE`

use crate::commands::prelude::*;

/// How many keys are stored, as Redis counts: one that has reached its deadline counts until something removes it.
pub struct DbSize;

impl<'a> ReadCommand<'a> for DbSize {
    const SPEC: Spec = Spec {
        name: "dbsize",
        arity: 1,
        flags: Flags::READONLY.and(Flags::FAST),
        keys: Keys::None,
        group: Group::Server,
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Returns the number of keys.",
        arguments: "",
        example: "DBSIZE",
        subcommands: &[],
    };

    fn parse(_args: Args<'a>) -> Result<Self, Failure> {
        Ok(DbSize)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        Ok(Reply::Integer(i64::try_from(view.tree().len()).unwrap_or(i64::MAX)))
    }
}
