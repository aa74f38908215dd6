//! `HDEL key field [field ...]`

use crate::commands::prelude::*;

/// Removes fields; a hash without fields is removed, too.
pub struct HDel<'a> {
    key: KeyRef<'a>,
    fields: &'a [&'a [u8]],
}

impl<'a> WriteCommand<'a> for HDel<'a> {
    const SPEC: Spec = Spec {
        name: "hdel",
        arity: -3,
        flags: Flags::WRITE.and(Flags::OFTEN_NOTHING).and(Flags::FAST).and(Flags::BOUNDED),
        keys: Keys::ONE,
        group: Group::Hash,
        since: "2.0.0",
        complexity: "O(N) where N is the number of fields",
        summary: "Deletes fields of a hash and returns how many of them existed.",
        arguments: "key field [field ...]",
        example: "HDEL user:7 name age",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(HDel { key: args.key(1)?, fields: args.fields_from(2)? })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        tx.edit_hash(self.key, |hash| {
            Ok(Reply::count(self.fields.iter().filter(|field| hash.remove(field).is_some()).count()))
        })
    }
}
