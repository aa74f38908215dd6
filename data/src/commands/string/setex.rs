//! `SETEX key seconds value` and `PSETEX key milliseconds value`

use crate::commands::options::Expiry;
use crate::commands::prelude::*;

/// Gives a key a string value and a deadline in seconds from now.
pub struct SetEx<'a>(WithExpiry<'a>);

/// Gives a key a string value and a deadline in milliseconds from now.
pub struct PSetEx<'a>(WithExpiry<'a>);

struct WithExpiry<'a> {
    key: KeyRef<'a>,
    expiry: Expiry,
    value: &'a [u8],
}

impl<'a> WithExpiry<'a> {
    fn parse(args: Args<'a>, unit_ms: i64, command: &'static str) -> Result<Self, Failure> {
        let expiry = Expiry::positive(args.get(2)?, unit_ms, false, command)?;
        Ok(WithExpiry { key: args.key(1)?, expiry, value: args.get(3)? })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let deadline = self.expiry.deadline(tx.time())?;
        tx.put(self.key, Value::String(Blob::new(self.value)), Some(deadline));
        Ok(Reply::Ok)
    }
}

impl<'a> WriteCommand<'a> for SetEx<'a> {
    const SPEC: Spec = Spec {
        name: "setex",
        arity: 4,
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::BOUNDED),
        keys: Keys::ONE,
        group: Group::String,
        since: "2.0.0",
        complexity: "O(1)",
        summary: "Sets the string value and the expiration time of a key in seconds.",
        arguments: "key seconds value",
        example: "SETEX session 60 abc",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        WithExpiry::parse(args, 1000, "setex").map(SetEx)
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        self.0.apply(tx)
    }
}

impl<'a> WriteCommand<'a> for PSetEx<'a> {
    const SPEC: Spec = Spec {
        name: "psetex",
        arity: 4,
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::BOUNDED),
        keys: Keys::ONE,
        group: Group::String,
        since: "2.6.0",
        complexity: "O(1)",
        summary: "Sets the string value and the expiration time of a key in milliseconds.",
        arguments: "key milliseconds value",
        example: "PSETEX session 60000 abc",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        WithExpiry::parse(args, 1, "psetex").map(PSetEx)
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        self.0.apply(tx)
    }
}
