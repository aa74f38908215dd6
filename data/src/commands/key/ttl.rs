//! `TTL`, `PTTL`, `EXPIRETIME`, `PEXPIRETIME`: when a key ceases to exist.

use crate::commands::prelude::*;

/// Seconds left.
pub struct Ttl<'a>(KeyRef<'a>);

/// Milliseconds left.
pub struct PTtl<'a>(KeyRef<'a>);

/// The deadline in seconds since the epoch.
pub struct ExpireTime<'a>(KeyRef<'a>);

/// The deadline in milliseconds since the epoch.
pub struct PExpireTime<'a>(KeyRef<'a>);

/// The deadline in milliseconds, less `from`; -2 if the key does not exist, -1 if it does not expire.
fn remaining_ms(view: &View<'_>, key: KeyRef<'_>, from: u64) -> i64 {
    match view.get(key).map(|record| record.deadline()) {
        None => -2,
        Some(None) => -1,
        Some(Some(deadline)) => i64::try_from(deadline.0.saturating_sub(from)).unwrap_or(i64::MAX),
    }
}

/// Rounded to the nearest second, as Redis does; the negative answers stay.
fn to_seconds(milliseconds: i64) -> i64 {
    if milliseconds < 0 { milliseconds } else { milliseconds.saturating_add(500) / 1000 }
}

/// What the four have in common; the rest is their own.
const FAMILY: Spec = Spec {
    name: "",
    arity: 2,
    flags: Flags::READONLY.and(Flags::NO_TOUCH).and(Flags::FAST),
    keys: Keys::ONE,
    group: Group::Generic,
    since: "",
    complexity: "O(1)",
    summary: "",
    arguments: "key",
    example: "",
    subcommands: &[],
};

impl<'a> ReadCommand<'a> for Ttl<'a> {
    const SPEC: Spec = Spec {
        name: "ttl",
        since: "1.0.0",
        summary: "Returns the seconds that a key has left: -1 if it does not expire, -2 if it does not exist.",
        example: "TTL session",
        ..FAMILY
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        args.key(1).map(Ttl)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        Ok(Reply::Integer(to_seconds(remaining_ms(view, self.0, view.time().0))))
    }
}

impl<'a> ReadCommand<'a> for PTtl<'a> {
    const SPEC: Spec = Spec {
        name: "pttl",
        since: "2.6.0",
        summary: "Returns the milliseconds that a key has left: -1 if it does not expire, -2 if it does not exist.",
        example: "PTTL session",
        ..FAMILY
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        args.key(1).map(PTtl)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        Ok(Reply::Integer(remaining_ms(view, self.0, view.time().0)))
    }
}

impl<'a> ReadCommand<'a> for ExpireTime<'a> {
    const SPEC: Spec = Spec {
        name: "expiretime",
        since: "7.0.0",
        summary: "Returns the expiration time of a key as a Unix timestamp in seconds.",
        example: "EXPIRETIME session",
        ..FAMILY
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        args.key(1).map(ExpireTime)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        Ok(Reply::Integer(to_seconds(remaining_ms(view, self.0, 0))))
    }
}

impl<'a> ReadCommand<'a> for PExpireTime<'a> {
    const SPEC: Spec = Spec {
        name: "pexpiretime",
        since: "7.0.0",
        summary: "Returns the expiration time of a key as a Unix timestamp in milliseconds.",
        example: "PEXPIRETIME session",
        ..FAMILY
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        args.key(1).map(PExpireTime)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        Ok(Reply::Integer(remaining_ms(view, self.0, 0)))
    }
}
