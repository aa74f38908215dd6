//! `HINCRBYFLOAT key field increment`

use crate::commands::prelude::*;
use crate::commands::string::extended::Extended;

/// Adds a floating-point number to the value of a field.
pub struct HIncrByFloat<'a> {
    key: KeyRef<'a>,
    field: &'a [u8],
    increment: Extended,
}

impl<'a> WriteCommand<'a> for HIncrByFloat<'a> {
    const SPEC: Spec = Spec {
        name: "hincrbyfloat",
        arity: 4,
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST).and(Flags::BOUNDED),
        keys: Keys::ONE,
        group: Group::Hash,
        since: "2.6.0",
        complexity: "O(1)",
        summary: "Increments the floating-point value of a field of a hash by a number. Uses 0 if the field does not exist.",
        arguments: "key field increment",
        example: "HINCRBYFLOAT user:7 score 0.5",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let increment = Extended::parse(args.get(3)?).ok_or(Failure::NotAFloat)?;
        if increment.is_infinite() {
            return Err(Failure::Text("ERR value is NaN or Infinity"));
        }
        Ok(HIncrByFloat { key: args.key(1)?, field: args.field(2)?, increment })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        tx.edit_hash(self.key, |hash| {
            let number = match hash.get(self.field) {
                Some(value) => Extended::parse(&value).ok_or(Failure::Text("ERR hash value is not a float"))?,
                None => Extended::ZERO,
            };
            hash.check_room(1)?;
            let sum = number.add(&self.increment);
            let sum = sum.ok_or(Failure::Text("ERR increment would produce NaN or Infinity"))?;
            let text = Blob::from(sum.to_text());
            hash.set_keeping_deadline(self.field, text.clone());
            Ok(Reply::Bulk(text))
        })
    }
}
