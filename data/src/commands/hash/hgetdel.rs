//! `HGETDEL key FIELDS numfields field [field ...]`

use super::fields::{NOT_POSITIVE, parse_fields};
use crate::commands::prelude::*;

/// The values of fields, which are removed.
pub struct HGetDel<'a> {
    key: KeyRef<'a>,
    fields: &'a [&'a [u8]],
}

impl<'a> WriteCommand<'a> for HGetDel<'a> {
    const SPEC: Spec = Spec {
        name: "hgetdel",
        arity: -5,
        flags: Flags::WRITE.and(Flags::OFTEN_NOTHING).and(Flags::FAST).and(Flags::BOUNDED),
        keys: Keys::ONE,
        group: Group::Hash,
        since: "8.0.0",
        complexity: "O(N) where N is the number of fields",
        summary: "Returns the values of fields of a hash and deletes them.",
        arguments: "key FIELDS numfields field [field ...]",
        example: "HGETDEL user:7 FIELDS 1 name",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(HGetDel { fields: parse_fields(args, 2, NOT_POSITIVE)?, key: args.key(1)? })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        tx.edit_hash(self.key, |hash| {
            Ok(Reply::Array(self.fields.iter().map(|field| Reply::bulk_or_nil(hash.remove(field))).collect()))
        })
    }
}
