//! `INCRBYFLOAT key increment`

use super::extended::Extended;
use crate::commands::prelude::*;

/// Adds a floating-point number.
pub struct IncrByFloat<'a> {
    key: KeyRef<'a>,
    increment: Extended,
}

impl<'a> WriteCommand<'a> for IncrByFloat<'a> {
    const SPEC: Spec = Spec {
        name: "incrbyfloat",
        arity: 3,
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST).and(Flags::BOUNDED),
        keys: Keys::ONE,
        group: Group::String,
        since: "2.6.0",
        complexity: "O(1)",
        summary: "Increments the floating-point value of a key by a number. Uses 0 if the key does not exist.",
        arguments: "key increment",
        example: "INCRBYFLOAT temperature 0.1",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let increment = Extended::parse(args.get(2)?).ok_or(Failure::NotAFloat)?;
        Ok(IncrByFloat { key: args.key(1)?, increment })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let (number, deadline) = match tx.get(self.key) {
            Some(record) => {
                let deadline = record.deadline();
                (Extended::parse(&record.value.into_string()?).ok_or(Failure::NotAFloat)?, deadline)
            }
            None => (Extended::ZERO, tx.deadline_or_default(None)),
        };
        let sum = number.add(&self.increment).ok_or(Failure::Text("ERR increment would produce NaN or Infinity"))?;
        let text = Blob::from(sum.to_text());
        tx.put(self.key, Value::String(text.clone()), deadline);
        Ok(Reply::Bulk(text))
    }
}
