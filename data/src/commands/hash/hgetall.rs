//! `HGETALL key`, `HKEYS key`, `HVALS key`

use super::whole;
use crate::commands::prelude::*;

/// All fields with their values.
pub struct HGetAll<'a>(KeyRef<'a>);

impl<'a> ReadCommand<'a> for HGetAll<'a> {
    const SPEC: Spec = Spec {
        name: "hgetall",
        arity: 2,
        flags: Flags::READONLY,
        keys: Keys::ONE,
        group: Group::Hash,
        since: "2.0.0",
        complexity: "O(N) where N is the number of fields",
        summary: "Returns all fields of a hash and their values.",
        arguments: "key",
        example: "HGETALL user:7",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        args.key(1).map(HGetAll)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        let fields = whole(view, self.0)?.into_iter().flatten();
        Ok(Reply::Map(fields.map(|(field, value)| (Reply::Bulk(field), Reply::Bulk(value))).collect()))
    }
}

/// All fields.
pub struct HKeys<'a>(KeyRef<'a>);

impl<'a> ReadCommand<'a> for HKeys<'a> {
    const SPEC: Spec = Spec {
        name: "hkeys",
        arity: 2,
        flags: Flags::READONLY,
        keys: Keys::ONE,
        group: Group::Hash,
        since: "2.0.0",
        complexity: "O(N) where N is the number of fields",
        summary: "Returns all fields of a hash.",
        arguments: "key",
        example: "HKEYS user:7",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        args.key(1).map(HKeys)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        let fields = whole(view, self.0)?.into_iter().flatten();
        Ok(Reply::Array(fields.map(|(field, _)| Reply::Bulk(field)).collect()))
    }
}

/// The values of all fields.
pub struct HVals<'a>(KeyRef<'a>);

impl<'a> ReadCommand<'a> for HVals<'a> {
    const SPEC: Spec = Spec {
        name: "hvals",
        arity: 2,
        flags: Flags::READONLY,
        keys: Keys::ONE,
        group: Group::Hash,
        since: "2.0.0",
        complexity: "O(N) where N is the number of fields",
        summary: "Returns the values of all fields of a hash.",
        arguments: "key",
        example: "HVALS user:7",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        args.key(1).map(HVals)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        let fields = whole(view, self.0)?.into_iter().flatten();
        Ok(Reply::Array(fields.map(|(_, value)| Reply::Bulk(value)).collect()))
    }
}
