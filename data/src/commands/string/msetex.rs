//! `MSETEX numkeys key value [key value ...] [NX | XX] [expiry]`

use crate::commands::options::{Condition, Expiry};
use crate::commands::prelude::*;

/// Gives several keys string values and one deadline at once, all or none.
pub struct MSetEx<'a> {
    pairs: &'a [&'a [u8]],
    condition: Condition<'a>,
    expiry: Option<Expiry>,
    keep_deadline: bool,
}

impl<'a> WriteCommand<'a> for MSetEx<'a> {
    const SPEC: Spec = Spec {
        name: "msetex",
        arity: -4,
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::MOVABLE_KEYS).and(Flags::BOUNDED),
        keys: Keys::Counted { count: 1, first: 2, step: 2 },
        group: Group::String,
        since: "8.4.0",
        complexity: "O(N) where N is the number of keys.",
        summary: "Sets the string values and a shared expiration time of several keys, all or none.",
        arguments: "numkeys key value [key value ...] [NX | XX] [EX seconds | PX milliseconds | \
                    EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL]",
        example: "MSETEX 2 a 1 b 2 EX 60",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let count = args.integer(1).ok().filter(|count| (1..=i64::from(i32::MAX)).contains(count));
        let count = count.ok_or(Failure::Text("ERR invalid numkeys value"))? as usize;
        let end = 2 + count * 2;
        let pairs = args.items().get(2..end).ok_or(Failure::Text("ERR wrong number of key-value pairs"))?;
        let mut command = MSetEx { pairs, condition: Condition::Always, expiry: None, keep_deadline: false };
        let mut expiry = None;
        let mut index = end;
        while index < args.len() {
            let unlimited = expiry.is_none() && !command.keep_deadline;
            if args.is(index, "NX") && command.condition != Condition::Present {
                command.condition = Condition::Absent;
            } else if args.is(index, "XX") && command.condition != Condition::Absent {
                command.condition = Condition::Present;
            } else if args.is(index, "KEEPTTL") && expiry.is_none() {
                command.keep_deadline = true;
            } else if let Some((unit_ms, absolute)) = Expiry::keyword(args, index).filter(|_| unlimited) {
                expiry = Some((args.get(index + 1)?, unit_ms, absolute));
                index += 1;
            } else {
                return Err(Failure::Syntax);
            }
            index += 1;
        }
        if let Some((amount, unit_ms, absolute)) = expiry {
            command.expiry = Some(Expiry::positive(amount, unit_ms, absolute, "msetex")?);
        }
        Ok(command)
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let said = self.expiry.map(|expiry| expiry.deadline(tx.time())).transpose()?;
        let deadline = tx.deadline_or_default(said);
        let pairs = || self.pairs.chunks_exact(2).map(|pair| (KeyRef::new(pair[0]), pair[1]));
        let holds = match self.condition {
            Condition::Absent => pairs().all(|(key, _)| !tx.exists(key)),
            Condition::Present => pairs().all(|(key, _)| tx.exists(key)),
            _ => true,
        };
        if !holds {
            return Ok(Reply::Integer(0));
        }
        for (key, value) in pairs() {
            let value = Value::String(Blob::new(value));
            if self.keep_deadline {
                tx.put_keeping_deadline(key, value);
            } else {
                tx.put(key, value, deadline);
            }
        }
        Ok(Reply::Integer(1))
    }
}
