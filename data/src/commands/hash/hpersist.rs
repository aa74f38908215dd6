//! `HPERSIST key FIELDS numfields field [field ...]`

use super::fields::{NOT_POSITIVE, parse_fields};
use super::hexpire::NO_FIELD;
use crate::commands::prelude::*;
use crate::transaction::NamedEdit;

/// Takes away the deadlines of fields.
pub struct HPersist<'a> {
    key: KeyRef<'a>,
    fields: &'a [&'a [u8]],
}

impl<'a> WriteCommand<'a> for HPersist<'a> {
    const SPEC: Spec = Spec {
        name: "hpersist",
        arity: -5,
        flags: Flags::WRITE.and(Flags::OFTEN_NOTHING).and(Flags::FAST).and(Flags::BOUNDED),
        keys: Keys::ONE,
        group: Group::Hash,
        since: "7.4.0",
        complexity: "O(N) where N is the number of fields that are named",
        summary: "Removes the expiration time of fields of a hash.",
        arguments: "key FIELDS numfields field [field ...]",
        example: "HPERSIST user:7 FIELDS 1 token",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(HPersist { fields: parse_fields(args, 2, NOT_POSITIVE)?, key: args.key(1)? })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        tx.edit_hash(self.key, |hash| {
            let one = |hash: &mut NamedEdit<'_, '_>, field: &[u8]| {
                if hash.get(field).is_none() {
                    return NO_FIELD;
                }
                if hash.deadline(field).is_none() {
                    return -1;
                }
                hash.set_deadline(field, None);
                1
            };
            Ok(Reply::Array(self.fields.iter().map(|field| Reply::Integer(one(hash, field))).collect()))
        })
    }
}
