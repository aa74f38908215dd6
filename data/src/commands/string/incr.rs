//! `INCR key`, `DECR key`, `INCRBY key increment`, `DECRBY key decrement`

use crate::args::parse_integer;
use crate::commands::prelude::*;

/// Adds one.
pub struct Incr<'a>(Step<'a>);

/// Takes one away.
pub struct Decr<'a>(Step<'a>);

/// Adds a number.
pub struct IncrBy<'a>(Step<'a>);

/// Takes a number away.
pub struct DecrBy<'a>(Step<'a>);

struct Step<'a> {
    key: KeyRef<'a>,
    increment: i64,
}

impl Step<'_> {
    /// A key that does not exist counts as 0; the deadline stays.
    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let (number, deadline) = match tx.get(self.key) {
            Some(record) => {
                let deadline = record.deadline();
                (parse_integer(&record.value.into_string()?).ok_or(Failure::NotAnInteger)?, deadline)
            }
            None => (0, tx.deadline_or_default(None)),
        };
        let number = number.checked_add(self.increment).ok_or(Failure::Overflow)?;
        let mut text = itoa::Buffer::new();
        tx.put(self.key, Value::String(Blob::from(text.format(number))), deadline);
        Ok(Reply::Integer(number))
    }
}

/// What the four have in common; the rest is their own.
const FAMILY: Spec = Spec {
    name: "",
    arity: 2,
    flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST).and(Flags::BOUNDED),
    keys: Keys::ONE,
    group: Group::String,
    since: "1.0.0",
    complexity: "O(1)",
    summary: "",
    arguments: "",
    example: "",
    subcommands: &[],
};

impl<'a> WriteCommand<'a> for Incr<'a> {
    const SPEC: Spec = Spec {
        name: "incr",
        arity: 2,
        summary: "Increments the integer value of a key by one. Uses 0 if the key does not exist.",
        arguments: "key",
        example: "INCR visits",
        ..FAMILY
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(Incr(Step { key: args.key(1)?, increment: 1 }))
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        self.0.apply(tx)
    }
}

impl<'a> WriteCommand<'a> for Decr<'a> {
    const SPEC: Spec = Spec {
        name: "decr",
        arity: 2,
        summary: "Decrements the integer value of a key by one. Uses 0 if the key does not exist.",
        arguments: "key",
        example: "DECR stock",
        ..FAMILY
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(Decr(Step { key: args.key(1)?, increment: -1 }))
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        self.0.apply(tx)
    }
}

impl<'a> WriteCommand<'a> for IncrBy<'a> {
    const SPEC: Spec = Spec {
        name: "incrby",
        arity: 3,
        summary: "Increments the integer value of a key by a number. Uses 0 if the key does not exist.",
        arguments: "key increment",
        example: "INCRBY visits 5",
        ..FAMILY
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(IncrBy(Step { key: args.key(1)?, increment: args.integer(2)? }))
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        self.0.apply(tx)
    }
}

impl<'a> WriteCommand<'a> for DecrBy<'a> {
    const SPEC: Spec = Spec {
        name: "decrby",
        arity: 3,
        summary: "Decrements the integer value of a key by a number. Uses 0 if the key does not exist.",
        arguments: "key decrement",
        example: "DECRBY stock 5",
        ..FAMILY
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        // The smallest integer has no negative.
        let increment = args.integer(2)?.checked_neg().ok_or(Failure::Text("ERR decrement would overflow"))?;
        Ok(DecrBy(Step { key: args.key(1)?, increment }))
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        self.0.apply(tx)
    }
}
