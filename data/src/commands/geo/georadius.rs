//! `GEORADIUS`, `GEORADIUSBYMEMBER` and their forms that only read: older names for what `GEOSEARCH` does.

use super::search::{Form, Search};
use crate::commands::prelude::*;
use crate::spec::Follows;

/// What lies in a circle around a place.
pub struct GeoRadius<'a>(Search<'a>);

impl<'a> WriteCommand<'a> for GeoRadius<'a> {
    const SPEC: Spec = Spec {
        name: "georadius",
        arity: -6,
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::MOVABLE_KEYS),
        keys: RADIUS_KEYS,
        group: Group::Geo,
        since: "3.2.0",
        complexity: "O(N+log(M)) where N is the number of members in the cells that are searched and M the size of the sorted set",
        summary: "Returns the members of a sorted set of places that lie in a circle around a place, or stores them.",
        arguments: "key longitude latitude radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC | DESC] [STORE key | STOREDIST key]",
        example: "GEORADIUS cities 15 37 200 KM STORE near",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Search::parse(args, Form::Radius(true)).map(GeoRadius)
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        self.0.apply(tx)
    }
}

/// The same, and never stores it.
pub struct GeoRadiusReadOnly<'a>(Search<'a>);

impl<'a> ReadCommand<'a> for GeoRadiusReadOnly<'a> {
    const SPEC: Spec = Spec {
        name: "georadius_ro",
        arity: -6,
        flags: Flags::READONLY,
        keys: Keys::ONE,
        group: Group::Geo,
        since: "3.2.10",
        complexity: "O(N+log(M)) where N is the number of members in the cells that are searched and M the size of the sorted set",
        summary: "Returns the members of a sorted set of places that lie in a circle around a place.",
        arguments: "key longitude latitude radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC | DESC]",
        example: "GEORADIUS_RO cities 15 37 200 KM",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Search::parse(args, Form::Radius(false)).map(GeoRadiusReadOnly)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        self.0.read(view)
    }
}

/// What lies in a circle around a member.
pub struct GeoRadiusByMember<'a>(Search<'a>);

impl<'a> WriteCommand<'a> for GeoRadiusByMember<'a> {
    const SPEC: Spec = Spec {
        name: "georadiusbymember",
        arity: -5,
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::MOVABLE_KEYS),
        keys: RADIUS_KEYS,
        group: Group::Geo,
        since: "3.2.0",
        complexity: "O(N+log(M)) where N is the number of members in the cells that are searched and M the size of the sorted set",
        summary: "Returns the members of a sorted set of places that lie in a circle around another, or stores them.",
        arguments: "key member radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC | DESC] [STORE key | STOREDIST key]",
        example: "GEORADIUSBYMEMBER cities Palermo 200 KM",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Search::parse(args, Form::RadiusByMember(true)).map(GeoRadiusByMember)
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        self.0.apply(tx)
    }
}

/// The same, and never stores it.
pub struct GeoRadiusByMemberReadOnly<'a>(Search<'a>);

impl<'a> ReadCommand<'a> for GeoRadiusByMemberReadOnly<'a> {
    const SPEC: Spec = Spec {
        name: "georadiusbymember_ro",
        arity: -5,
        flags: Flags::READONLY,
        keys: Keys::ONE,
        group: Group::Geo,
        since: "3.2.10",
        complexity: "O(N+log(M)) where N is the number of members in the cells that are searched and M the size of the sorted set",
        summary: "Returns the members of a sorted set of places that lie in a circle around another.",
        arguments: "key member radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC | DESC]",
        example: "GEORADIUSBYMEMBER_RO cities Palermo 200 KM",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Search::parse(args, Form::RadiusByMember(false)).map(GeoRadiusByMemberReadOnly)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        self.0.read(view)
    }
}

/// The sorted set, and where the result goes.
const RADIUS_KEYS: Keys = Keys::Named { from: 5, words: &[("STORE", Follows::Key), ("STOREDIST", Follows::Key)] };
