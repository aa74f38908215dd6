//! `SET key value [condition] [GET] [expiry]`

use crate::commands::options::{Condition, Expiry};
use crate::commands::prelude::*;

/// Gives a key a string value.
pub struct Set<'a> {
    key: KeyRef<'a>,
    value: &'a [u8],
    condition: Condition<'a>,
    expiry: Option<Expiry>,
    keep_deadline: bool,
    answer_old_value: bool,
}

impl<'a> WriteCommand<'a> for Set<'a> {
    const SPEC: Spec = Spec {
        name: "set",
        arity: -3,
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::BOUNDED),
        keys: Keys::ONE,
        group: Group::String,
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Sets the string value of a key, whatever it held before.",
        arguments: "key value [NX | XX | IFEQ value | IFNE value | IFDEQ digest | IFDNE digest] [GET] \
                    [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL]",
        example: "SET greeting hello EX 60",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let mut set = Set {
            key: args.key(1)?,
            value: args.get(2)?,
            condition: Condition::Always,
            expiry: None,
            keep_deadline: false,
            answer_old_value: false,
        };
        let mut expiry = None;
        let mut index = 3;
        while index < args.len() {
            let unconditional = set.condition == Condition::Always;
            let unlimited = expiry.is_none() && !set.keep_deadline;
            if args.is(index, "GET") {
                set.answer_old_value = true;
            } else if args.is(index, "NX") && (unconditional || set.condition == Condition::Absent) {
                set.condition = Condition::Absent;
            } else if args.is(index, "XX") && (unconditional || set.condition == Condition::Present) {
                set.condition = Condition::Present;
            } else if args.is(index, "KEEPTTL") && expiry.is_none() {
                set.keep_deadline = true;
            } else if let Some((unit_ms, absolute)) = Expiry::keyword(args, index).filter(|_| unlimited) {
                expiry = Some((args.get(index + 1)?, unit_ms, absolute));
                index += 1;
            } else if let Some(condition) = Condition::on_value(args, index)?.filter(|_| unconditional) {
                set.condition = condition;
                index += 1;
            } else {
                return Err(Failure::Syntax);
            }
            index += 1;
        }
        if let Some((amount, unit_ms, absolute)) = expiry {
            set.expiry = Some(Expiry::positive(amount, unit_ms, absolute, "set")?);
        }
        Ok(set)
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let said = self.expiry.map(|expiry| expiry.deadline(tx.time())).transpose()?;
        let mut deadline = tx.deadline_or_default(said);
        let must_look = self.condition != Condition::Always || self.answer_old_value || self.keep_deadline;
        let mut reply = Reply::Ok;
        if must_look {
            let record = tx.get(self.key);
            if self.keep_deadline
                && let Some(record) = &record
            {
                deadline = record.deadline();
            }
            // NX and XX do not care what the key holds; the others need a string.
            let by_value = !matches!(self.condition, Condition::Always | Condition::Absent | Condition::Present);
            let old = match record {
                Some(record) if by_value || self.answer_old_value => Some(record.value.into_string()?),
                Some(_) => Some(Blob::EMPTY),
                None => None,
            };
            let holds = self.condition.holds(old.as_ref());
            if self.answer_old_value {
                reply = Reply::bulk_or_nil(old);
            } else if !holds {
                reply = Reply::Nil;
            }
            if !holds {
                return Ok(reply);
            }
        }
        tx.put(self.key, Value::String(Blob::new(self.value)), deadline);
        Ok(reply)
    }
}
