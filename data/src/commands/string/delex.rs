//! `DELEX key [condition]`

use crate::commands::options::Condition;
use crate::commands::prelude::*;

/// Removes a key if its value meets a condition.
pub struct DelEx<'a> {
    key: KeyRef<'a>,
    condition: Condition<'a>,
}

impl<'a> WriteCommand<'a> for DelEx<'a> {
    const SPEC: Spec = Spec {
        name: "delex",
        arity: -2,
        flags: Flags::WRITE.and(Flags::FAST).and(Flags::BOUNDED),
        keys: Keys::ONE,
        group: Group::String,
        since: "8.4.0",
        complexity: "O(1) for IFEQ and IFNE, O(N) for IFDEQ and IFDNE where N is the length of the value.",
        summary: "Deletes a key only when its string value, or the digest of it, is or is not the given one.",
        arguments: "key [IFEQ value | IFNE value | IFDEQ digest | IFDNE digest]",
        example: "DELEX lock IFEQ me",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let condition = match args.len() {
            2 => Condition::Always,
            4 => Condition::on_value(args, 2)?
                .ok_or(Failure::Text("ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE"))?,
            _ => return Err(Failure::WrongArity("delex")),
        };
        Ok(DelEx { key: args.key(1)?, condition })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let holds = self.condition == Condition::Always || {
            let present = tx.string(self.key)?;
            present.is_some() && self.condition.holds(present.as_ref())
        };
        Ok(Reply::one_if(holds && tx.remove(self.key)))
    }
}
