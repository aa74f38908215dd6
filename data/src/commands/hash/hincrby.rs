//! `HINCRBY key field increment`

use crate::args::parse_integer;
use crate::commands::prelude::*;

/// Adds a whole number to the value of a field.
pub struct HIncrBy<'a> {
    key: KeyRef<'a>,
    field: &'a [u8],
    increment: i64,
}

impl<'a> WriteCommand<'a> for HIncrBy<'a> {
    const SPEC: Spec = Spec {
        name: "hincrby",
        arity: 4,
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST).and(Flags::BOUNDED),
        keys: Keys::ONE,
        group: Group::Hash,
        since: "2.0.0",
        complexity: "O(1)",
        summary: "Increments the integer value of a field of a hash by a number. Uses 0 if the field does not exist.",
        arguments: "key field increment",
        example: "HINCRBY user:7 visits 1",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(HIncrBy { key: args.key(1)?, field: args.field(2)?, increment: args.integer(3)? })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        tx.edit_hash(self.key, |hash| {
            let number = match hash.get(self.field) {
                Some(value) => parse_integer(&value).ok_or(Failure::Text("ERR hash value is not an integer"))?,
                None => 0,
            };
            hash.check_room(1)?;
            let sum = number.checked_add(self.increment).ok_or(Failure::Overflow)?;
            hash.set_keeping_deadline(self.field, itoa::Buffer::new().format(sum));
            Ok(Reply::Integer(sum))
        })
    }
}
