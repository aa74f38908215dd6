//! `HLEN key`

use crate::commands::prelude::*;

/// How many fields a hash has.
pub struct HLen<'a>(KeyRef<'a>);

impl<'a> ReadCommand<'a> for HLen<'a> {
    const SPEC: Spec = Spec {
        name: "hlen",
        arity: 2,
        flags: Flags::READONLY.and(Flags::FAST),
        keys: Keys::ONE,
        group: Group::Hash,
        since: "2.0.0",
        complexity: "O(1)",
        summary: "Returns the number of fields of a hash.",
        arguments: "key",
        example: "HLEN user:7",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        args.key(1).map(HLen)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        Ok(Reply::Integer(view.hash(self.0)?.map_or(0, |hash| view.fields_len(hash)) as i64))
    }
}
