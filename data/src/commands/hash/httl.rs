//! `HTTL`, `HPTTL`, `HEXPIRETIME`, `HPEXPIRETIME`: when fields cease to exist.

use super::fields::{NOT_POSITIVE, parse_fields};
use super::hexpire::NO_FIELD;
use crate::commands::prelude::*;

/// Seconds left.
pub struct HTtl<'a>(Asked<'a>);
/// Milliseconds left.
pub struct HPTtl<'a>(Asked<'a>);
/// Deadlines in seconds since the epoch.
pub struct HExpireTime<'a>(Asked<'a>);
/// Deadlines in milliseconds since the epoch.
pub struct HPExpireTime<'a>(Asked<'a>);

struct Asked<'a> {
    key: KeyRef<'a>,
    fields: &'a [&'a [u8]],
}

impl<'a> Asked<'a> {
    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(Asked { fields: parse_fields(args, 2, NOT_POSITIVE)?, key: args.key(1)? })
    }

    /// Deadlines less `from` milliseconds, in this unit, begun units counted whole: -2 of a field that is not there, -1 of one that stays.
    fn read(self, view: &View<'_>, from: u64, unit_ms: u64) -> Result<Reply, Failure> {
        let hash = view.hash(self.key)?;
        let of = |field: &&[u8]| {
            let Some(hash) = hash.filter(|hash| view.field(*hash, field).is_some()) else { return NO_FIELD };
            let left = view.field_deadline(hash, field).map(|deadline| deadline.0.saturating_sub(from));
            left.map_or(-1, |left| left.div_ceil(unit_ms) as i64)
        };
        Ok(Reply::Array(self.fields.iter().map(|field| Reply::Integer(of(field))).collect()))
    }
}

/// What the four have in common; the rest is their own.
const FAMILY: Spec = Spec {
    name: "",
    arity: -5,
    flags: Flags::READONLY.and(Flags::FAST),
    keys: Keys::ONE,
    group: Group::Hash,
    since: "7.4.0",
    complexity: "O(N) where N is the number of fields that are named",
    summary: "",
    arguments: "key FIELDS numfields field [field ...]",
    example: "",
    subcommands: &[],
};

impl<'a> ReadCommand<'a> for HTtl<'a> {
    const SPEC: Spec = Spec {
        name: "httl",
        summary: "Returns the seconds that fields of a hash have left: -1 if a field does not expire, -2 if it does not exist.",
        example: "HTTL user:7 FIELDS 1 token",
        ..FAMILY
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Asked::parse(args).map(HTtl)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        self.0.read(view, view.time().0, 1000)
    }
}

impl<'a> ReadCommand<'a> for HPTtl<'a> {
    const SPEC: Spec = Spec {
        name: "hpttl",
        summary: "Returns the milliseconds that fields of a hash have left: -1 if a field does not expire, -2 if it does not exist.",
        example: "HPTTL user:7 FIELDS 1 token",
        ..FAMILY
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Asked::parse(args).map(HPTtl)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        self.0.read(view, view.time().0, 1)
    }
}

impl<'a> ReadCommand<'a> for HExpireTime<'a> {
    const SPEC: Spec = Spec {
        name: "hexpiretime",
        summary: "Returns the expiration times of fields of a hash as Unix timestamps in seconds.",
        example: "HEXPIRETIME user:7 FIELDS 1 token",
        ..FAMILY
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Asked::parse(args).map(HExpireTime)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        self.0.read(view, 0, 1000)
    }
}

impl<'a> ReadCommand<'a> for HPExpireTime<'a> {
    const SPEC: Spec = Spec {
        name: "hpexpiretime",
        summary: "Returns the expiration times of fields of a hash as Unix timestamps in milliseconds.",
        example: "HPEXPIRETIME user:7 FIELDS 1 token",
        ..FAMILY
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Asked::parse(args).map(HPExpireTime)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        self.0.read(view, 0, 1)
    }
}
