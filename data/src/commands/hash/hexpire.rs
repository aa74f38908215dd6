//! `HEXPIRE`, `HPEXPIRE`, `HEXPIREAT`, `HPEXPIREAT`: a key, a number, a condition and fields.

use super::fields::{deadline_of, parse_expiry, parse_fields};
use crate::commands::options::Expiry;
use crate::commands::prelude::*;
use crate::transaction::NamedEdit;
use base::WallTime;

/// Deadlines in seconds from now.
pub struct HExpire<'a>(SetDeadlines<'a>);
/// Deadlines in milliseconds from now.
pub struct HPExpire<'a>(SetDeadlines<'a>);
/// Deadlines in seconds since the epoch.
pub struct HExpireAt<'a>(SetDeadlines<'a>);
/// Deadlines in milliseconds since the epoch.
pub struct HPExpireAt<'a>(SetDeadlines<'a>);

struct SetDeadlines<'a> {
    key: KeyRef<'a>,
    expiry: Expiry,
    condition: Condition,
    fields: &'a [&'a [u8]],
}

/// On the deadline that a field has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition {
    Always,
    None,
    Some,
    Later,
    Sooner,
}

impl Condition {
    fn allows(self, present: Option<WallTime>, deadline: WallTime) -> bool {
        // A field without a deadline stays for ever: nothing is later, everything is sooner.
        match self {
            Condition::Always => true,
            Condition::None => present.is_none(),
            Condition::Some => present.is_some(),
            Condition::Later => present.is_some_and(|present| deadline > present),
            Condition::Sooner => present.is_none_or(|present| deadline < present),
        }
    }
}

impl<'a> SetDeadlines<'a> {
    fn parse(args: Args<'a>, unit: (i64, bool), command: &'static str) -> Result<Self, Failure> {
        let expiry = parse_expiry(args, 2, unit, command)?;
        let conditions =
            [("NX", Condition::None), ("XX", Condition::Some), ("GT", Condition::Later), ("LT", Condition::Sooner)];
        let condition = conditions.into_iter().find(|(word, _)| args.is(3, word)).map(|(_, condition)| condition);
        let fields_at = if condition.is_some() { 4 } else { 3 };
        let fields = parse_fields(args, fields_at, "ERR Parameter `numFields` should be greater than 0")?;
        Ok(SetDeadlines { key: args.key(1)?, expiry, condition: condition.unwrap_or(Condition::Always), fields })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let (deadline, now) = (deadline_of(self.expiry, tx.time())?, tx.time());
        tx.edit_hash(self.key, |hash| {
            let one = |hash: &mut NamedEdit<'_, '_>, field: &[u8]| {
                if hash.get(field).is_none() {
                    return NO_FIELD;
                }
                if !self.condition.allows(hash.deadline(field), deadline) {
                    return 0;
                }
                hash.set_deadline(field, Some(deadline));
                if deadline <= now { 2 } else { 1 }
            };
            Ok(Reply::Array(self.fields.iter().map(|field| Reply::Integer(one(hash, field))).collect()))
        })
    }
}

/// What is said of a field that is not there.
pub(super) const NO_FIELD: i64 = -2;

/// What the four have in common; the rest is their own.
const FAMILY: Spec = Spec {
    name: "",
    arity: -6,
    flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST).and(Flags::BOUNDED),
    keys: Keys::ONE,
    group: Group::Hash,
    since: "7.4.0",
    complexity: "O(N) where N is the number of fields that are named",
    summary: "",
    arguments: "",
    example: "",
    subcommands: &[],
};

impl<'a> WriteCommand<'a> for HExpire<'a> {
    const SPEC: Spec = Spec {
        name: "hexpire",
        summary: "Sets the expiration time of fields of a hash in seconds.",
        arguments: "key seconds [NX | XX | GT | LT] FIELDS numfields field [field ...]",
        example: "HEXPIRE user:7 60 FIELDS 1 token",
        ..FAMILY
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        SetDeadlines::parse(args, (1000, false), "hexpire").map(HExpire)
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        self.0.apply(tx)
    }
}

impl<'a> WriteCommand<'a> for HPExpire<'a> {
    const SPEC: Spec = Spec {
        name: "hpexpire",
        summary: "Sets the expiration time of fields of a hash in milliseconds.",
        arguments: "key milliseconds [NX | XX | GT | LT] FIELDS numfields field [field ...]",
        example: "HPEXPIRE user:7 60000 FIELDS 1 token",
        ..FAMILY
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        SetDeadlines::parse(args, (1, false), "hpexpire").map(HPExpire)
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        self.0.apply(tx)
    }
}

impl<'a> WriteCommand<'a> for HExpireAt<'a> {
    const SPEC: Spec = Spec {
        name: "hexpireat",
        summary: "Sets the expiration time of fields of a hash to a Unix timestamp in seconds.",
        arguments: "key unix-time-seconds [NX | XX | GT | LT] FIELDS numfields field [field ...]",
        example: "HEXPIREAT user:7 1924992000 FIELDS 1 token",
        ..FAMILY
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        SetDeadlines::parse(args, (1000, true), "hexpireat").map(HExpireAt)
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        self.0.apply(tx)
    }
}

impl<'a> WriteCommand<'a> for HPExpireAt<'a> {
    const SPEC: Spec = Spec {
        name: "hpexpireat",
        summary: "Sets the expiration time of fields of a hash to a Unix timestamp in milliseconds.",
        arguments: "key unix-time-milliseconds [NX | XX | GT | LT] FIELDS numfields field [field ...]",
        example: "HPEXPIREAT user:7 1924992000000 FIELDS 1 token",
        ..FAMILY
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        SetDeadlines::parse(args, (1, true), "hpexpireat").map(HPExpireAt)
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        self.0.apply(tx)
    }
}
