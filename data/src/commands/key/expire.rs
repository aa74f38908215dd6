//! `EXPIRE`, `PEXPIRE`, `EXPIREAT`, `PEXPIREAT`: a key, a number and conditions on the deadline that the key has.

use crate::commands::options::Expiry;
use crate::commands::prelude::*;

/// A deadline in seconds from now.
pub struct Expire<'a>(SetDeadline<'a>);

/// A deadline in milliseconds from now.
pub struct PExpire<'a>(SetDeadline<'a>);

/// A deadline in seconds since the epoch.
pub struct ExpireAt<'a>(SetDeadline<'a>);

/// A deadline in milliseconds since the epoch.
pub struct PExpireAt<'a>(SetDeadline<'a>);

struct SetDeadline<'a> {
    key: KeyRef<'a>,
    expiry: Expiry,
    only_if_none: bool,
    only_if_some: bool,
    only_if_later: bool,
    only_if_sooner: bool,
}

impl<'a> SetDeadline<'a> {
    fn parse(args: Args<'a>, unit_ms: i64, absolute: bool, command: &'static str) -> Result<Self, Failure> {
        let mut parsed = SetDeadline {
            key: args.key(1)?,
            expiry: Expiry { amount: 0, unit_ms, absolute, command },
            only_if_none: false,
            only_if_some: false,
            only_if_later: false,
            only_if_sooner: false,
        };
        for (index, option) in args.items().iter().enumerate().skip(3) {
            let flag = if args.is(index, "NX") {
                &mut parsed.only_if_none
            } else if args.is(index, "XX") {
                &mut parsed.only_if_some
            } else if args.is(index, "GT") {
                &mut parsed.only_if_later
            } else if args.is(index, "LT") {
                &mut parsed.only_if_sooner
            } else {
                return Err(Failure::built(&[b"ERR Unsupported option ", *option].concat()));
            };
            *flag = true;
        }
        if parsed.only_if_none && (parsed.only_if_some || parsed.only_if_later || parsed.only_if_sooner) {
            return Err(Failure::Text("ERR NX and XX, GT or LT options at the same time are not compatible"));
        }
        if parsed.only_if_later && parsed.only_if_sooner {
            return Err(Failure::Text("ERR GT and LT options at the same time are not compatible"));
        }
        parsed.expiry.amount = args.integer(2)?;
        if parsed.expiry.amount.checked_mul(unit_ms).is_none() {
            return Err(Failure::InvalidExpireTime(command));
        }
        Ok(parsed)
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let deadline = self.expiry.deadline(tx.time())?;
        let Some(record) = tx.get(self.key) else { return Ok(Reply::Integer(0)) };
        let present = record.deadline();
        // A key without a deadline lives forever: nothing is later, everything is sooner.
        let refused = (self.only_if_none && present.is_some())
            || (self.only_if_some && present.is_none())
            || (self.only_if_later && present.is_none_or(|present| deadline <= present))
            || (self.only_if_sooner && present.is_some_and(|present| deadline >= present));
        Ok(Reply::one_if(!refused && tx.set_deadline(self.key, Some(deadline))))
    }
}

/// What the four have in common; the rest is their own.
const FAMILY: Spec = Spec {
    name: "",
    arity: -3,
    flags: Flags::WRITE.and(Flags::OFTEN_NOTHING).and(Flags::FAST).and(Flags::BOUNDED),
    keys: Keys::ONE,
    group: Group::Generic,
    since: "",
    complexity: "O(log N) where N is the number of keys that expire.",
    summary: "",
    arguments: "",
    example: "",
    subcommands: &[],
};

impl<'a> WriteCommand<'a> for Expire<'a> {
    const SPEC: Spec = Spec {
        name: "expire",
        since: "1.0.0",
        summary: "Sets the expiration time of a key in seconds.",
        arguments: "key seconds [NX | XX | GT | LT]",
        example: "EXPIRE session 60",
        ..FAMILY
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        SetDeadline::parse(args, 1000, false, "expire").map(Expire)
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        self.0.apply(tx)
    }
}

impl<'a> WriteCommand<'a> for PExpire<'a> {
    const SPEC: Spec = Spec {
        name: "pexpire",
        since: "2.6.0",
        summary: "Sets the expiration time of a key in milliseconds.",
        arguments: "key milliseconds [NX | XX | GT | LT]",
        example: "PEXPIRE session 60000",
        ..FAMILY
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        SetDeadline::parse(args, 1, false, "pexpire").map(PExpire)
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        self.0.apply(tx)
    }
}

impl<'a> WriteCommand<'a> for ExpireAt<'a> {
    const SPEC: Spec = Spec {
        name: "expireat",
        since: "1.2.0",
        summary: "Sets the expiration time of a key to a Unix timestamp in seconds.",
        arguments: "key unix-time-seconds [NX | XX | GT | LT]",
        example: "EXPIREAT session 1893456000",
        ..FAMILY
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        SetDeadline::parse(args, 1000, true, "expireat").map(ExpireAt)
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        self.0.apply(tx)
    }
}

impl<'a> WriteCommand<'a> for PExpireAt<'a> {
    const SPEC: Spec = Spec {
        name: "pexpireat",
        since: "2.6.0",
        summary: "Sets the expiration time of a key to a Unix timestamp in milliseconds.",
        arguments: "key unix-time-milliseconds [NX | XX | GT | LT]",
        example: "PEXPIREAT session 1893456000000",
        ..FAMILY
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        SetDeadline::parse(args, 1, true, "pexpireat").map(PExpireAt)
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        self.0.apply(tx)
    }
}
