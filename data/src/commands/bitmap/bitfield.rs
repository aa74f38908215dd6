//! `BITFIELD key [GET … | SET … | INCRBY … | OVERFLOW …]…` and `BITFIELD_RO key [GET …]…`

use super::{check_offset, parse_field_offset};
use crate::algorithms::bits::{FieldType, Overflow};
use crate::commands::prelude::*;
use crate::meter::VISIT;

/// One thing to do with one field.
#[derive(Clone, Copy)]
struct Operation {
    field: FieldType,
    offset: u64,
    action: Action,
    overflow: Overflow,
}

#[derive(Clone, Copy)]
enum Action {
    Get,
    Set(i64),
    Increment(i64),
}

impl Operation {
    fn get(&self, bytes: &[u8]) -> i64 {
        self.field.get(bytes, self.offset)
    }

    /// Bytes that a string must have to hold the field.
    fn bytes_needed(&self) -> u64 {
        (self.offset + u64::from(self.field.bits)).div_ceil(8)
    }

    /// What to write over `old`, and what to answer; `None` if the result does not fit and nothing shall happen.
    fn outcome(&self, old: i64) -> Option<(i64, i64)> {
        match self.action {
            Action::Get => Some((old, old)),
            Action::Set(value) => self.field.add(value, 0, self.overflow).map(|new| (new, old)),
            Action::Increment(by) => self.field.add(old, by, self.overflow).map(|new| (new, new)),
        }
    }
}

/// Reads the operations from argument 2 on.
fn parse_operations(args: Args<'_>) -> Result<Vec<Operation>, Failure> {
    const BAD_TYPE: Failure = Failure::Text(
        "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
    );
    let mut operations = Vec::new();
    let mut overflow = Overflow::Wrap;
    let mut index = 2;
    while index < args.len() {
        let following = args.len() - index - 1;
        if args.is(index, "OVERFLOW") && following >= 1 {
            overflow = if args.is(index + 1, "WRAP") {
                Overflow::Wrap
            } else if args.is(index + 1, "SAT") {
                Overflow::Saturate
            } else if args.is(index + 1, "FAIL") {
                Overflow::Fail
            } else {
                return Err(Failure::Text("ERR Invalid OVERFLOW type specified"));
            };
            index += 2;
            continue;
        }
        let is_get = args.is(index, "GET") && following >= 2;
        let is_set = args.is(index, "SET") && following >= 3;
        let is_increment = args.is(index, "INCRBY") && following >= 3;
        if !(is_get || is_set || is_increment) {
            return Err(Failure::Syntax);
        }
        let field = FieldType::named(args.get(index + 1)?).ok_or(BAD_TYPE)?;
        let offset = parse_field_offset(args.get(index + 2)?, field.bits)?;
        let action = if is_get {
            Action::Get
        } else if is_set {
            Action::Set(args.integer(index + 3)?)
        } else {
            Action::Increment(args.integer(index + 3)?)
        };
        operations.push(Operation { field, offset, action, overflow });
        index += if is_get { 3 } else { 4 };
    }
    Ok(operations)
}

/// Reads and changes integers of any width within a string.
pub struct BitField<'a> {
    key: KeyRef<'a>,
    operations: Vec<Operation>,
}

impl<'a> WriteCommand<'a> for BitField<'a> {
    const SPEC: Spec = Spec {
        name: "bitfield",
        arity: -2,
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::GROWS),
        keys: Keys::ONE,
        group: Group::Bitmap,
        since: "3.2.0",
        complexity: "O(1) for each operation",
        summary: "Reads, sets and increments integers of 1 to 64 bits within a string.",
        arguments: "key [GET encoding offset | [OVERFLOW WRAP | SAT | FAIL] SET encoding offset value | \
                    INCRBY encoding offset increment ...]",
        example: "BITFIELD player:1 SET u32 #0 1000 INCRBY u32 #1 1",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let operations = parse_operations(args)?;
        for operation in &operations {
            if !matches!(operation.action, Action::Get) {
                check_length(operation.bytes_needed())?;
            }
        }
        Ok(BitField { key: args.key(1)?, operations })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        for operation in &self.operations {
            if !matches!(operation.action, Action::Get) {
                check_offset(tx, operation.offset)?;
                tx.check_length(operation.bytes_needed())?;
            }
        }
        // They are looked at, and carried out.
        tx.meter().spend(VISIT.saturating_mul(2 * self.operations.len() as u64));
        tx.meter().check()?;
        let old = tx.string(self.key)?;
        let writes = self.operations.iter().filter(|operation| !matches!(operation.action, Action::Get));
        // As in Redis, a string grows for every operation that might write, even if it overflows and does not.
        let needed = writes.map(Operation::bytes_needed).max();
        let Some(needed) = needed else {
            let bytes = old.unwrap_or_default();
            return Ok(Reply::Array(self.operations.iter().map(|get| Reply::Integer(get.get(&bytes))).collect()));
        };
        let needed = needed as usize;
        let grows = old.is_none_or(|bytes| bytes.len() < needed);
        if !grows && !self.would_change(tx)? {
            let bytes = tx.string(self.key)?.unwrap_or_default();
            return Ok(Reply::Array(self.operations.iter().map(|operation| operation.answer(&bytes)).collect()));
        }
        let replies = tx.edit_string(self.key, |bytes| {
            if bytes.len() < needed {
                bytes.resize(needed, 0);
            }
            self.operations.iter().map(|operation| operation.carry_out(bytes)).collect()
        })?;
        Ok(Reply::Array(replies))
    }
}

impl BitField<'_> {
    /// Whether any operation would write something other than what is there: if none does, no change is recorded.
    /// The first that would is found on the string as it is, because those before it leave it alone.
    fn would_change(&self, tx: &mut Transaction<'_>) -> Result<bool, Failure> {
        let bytes = tx.string(self.key)?.unwrap_or_default();
        Ok(self.operations.iter().any(|operation| {
            let old = operation.get(&bytes);
            operation.outcome(old).is_some_and(|(new, _)| new != old)
        }))
    }
}

impl Operation {
    /// The answer of an operation that changes nothing.
    fn answer(&self, bytes: &[u8]) -> Reply {
        self.outcome(self.get(bytes)).map_or(Reply::Nil, |(_, answer)| Reply::Integer(answer))
    }

    /// Writes into `bytes`, which are long enough for what is written, and answers.
    fn carry_out(&self, bytes: &mut [u8]) -> Reply {
        let old = self.get(bytes);
        let Some((new, answer)) = self.outcome(old) else { return Reply::Nil };
        if new != old {
            self.field.set(bytes, self.offset, new);
        }
        Reply::Integer(answer)
    }
}

/// As [`BitField`], but only looks.
pub struct BitFieldReadOnly<'a> {
    key: KeyRef<'a>,
    operations: Vec<Operation>,
}

impl<'a> ReadCommand<'a> for BitFieldReadOnly<'a> {
    const SPEC: Spec = Spec {
        name: "bitfield_ro",
        arity: -2,
        flags: Flags::READONLY.and(Flags::FAST),
        keys: Keys::ONE,
        group: Group::Bitmap,
        since: "6.0.0",
        complexity: "O(1) for each operation",
        summary: "Reads integers of 1 to 64 bits within a string.",
        arguments: "key [GET encoding offset [GET encoding offset ...]]",
        example: "BITFIELD_RO player:1 GET u32 #0",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let operations = parse_operations(args)?;
        if operations.iter().any(|operation| !matches!(operation.action, Action::Get)) {
            return Err(Failure::Text("ERR BITFIELD_RO only supports the GET subcommand"));
        }
        Ok(BitFieldReadOnly { key: args.key(1)?, operations })
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        view.meter().spend(VISIT.saturating_mul(self.operations.len() as u64));
        view.meter().check()?;
        let bytes = view.string(self.key)?.unwrap_or_default();
        Ok(Reply::Array(self.operations.iter().map(|get| Reply::Integer(get.get(&bytes))).collect()))
    }
}
