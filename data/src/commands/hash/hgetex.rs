//! `HGETEX key [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST] FIELDS numfields field [field ...]`

use super::fields::{NOT_POSITIVE, deadline_of, parse_expiry, parse_fields};
use crate::commands::options::Expiry;
use crate::commands::prelude::*;
use crate::transaction::NamedEdit;

/// The values of fields, which get another deadline or lose theirs.
pub struct HGetEx<'a> {
    key: KeyRef<'a>,
    change: Change,
    fields: &'a [&'a [u8]],
}

enum Change {
    Nothing,
    Deadline(Expiry),
    Persist,
}

impl<'a> WriteCommand<'a> for HGetEx<'a> {
    const SPEC: Spec = Spec {
        name: "hgetex",
        arity: -5,
        flags: Flags::WRITE.and(Flags::FAST).and(Flags::BOUNDED),
        keys: Keys::ONE,
        group: Group::Hash,
        since: "8.0.0",
        complexity: "O(N) where N is the number of fields that are named",
        summary: "Returns the values of fields of a hash and sets or removes their expiration time.",
        arguments: "key [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST] FIELDS numfields field [field ...]",
        example: "HGETEX user:7 EX 60 FIELDS 1 token",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let (change, fields_at) = match Expiry::keyword(args, 2) {
            Some(unit) => (Change::Deadline(parse_expiry(args, 3, unit, "hgetex")?), 4),
            None if args.is(2, "PERSIST") => (Change::Persist, 3),
            None => (Change::Nothing, 2),
        };
        Ok(HGetEx { fields: parse_fields(args, fields_at, NOT_POSITIVE)?, key: args.key(1)?, change })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let change = match self.change {
            Change::Nothing => None,
            Change::Deadline(expiry) => Some(Some(deadline_of(expiry, tx.time())?)),
            Change::Persist => Some(None),
        };
        tx.edit_hash(self.key, |hash| {
            let one = |hash: &mut NamedEdit<'_, '_>, field: &[u8]| {
                let value = hash.get(field);
                if let (Some(_), Some(deadline)) = (&value, change) {
                    hash.set_deadline(field, deadline);
                }
                Reply::bulk_or_nil(value)
            };
            Ok(Reply::Array(self.fields.iter().map(|field| one(hash, field)).collect()))
        })
    }
}
