//! `GEOSEARCH key …`, `GEOSEARCHSTORE destination source …`

use super::search::{Form, Search};
use crate::commands::prelude::*;

/// What lies in a circle or a box.
pub struct GeoSearch<'a>(Search<'a>);

impl<'a> ReadCommand<'a> for GeoSearch<'a> {
    const SPEC: Spec = Spec {
        name: "geosearch",
        arity: -7,
        flags: Flags::READONLY,
        keys: Keys::ONE,
        group: Group::Geo,
        since: "6.2.0",
        complexity: "O(N+log(M)) where N is the number of members in the cells that are searched and M the size of the sorted set",
        summary: "Returns the members of a sorted set of places that lie in a circle or a box.",
        arguments: "key <FROMMEMBER member | FROMLONLAT longitude latitude> <BYRADIUS radius <M | KM | FT | MI> | BYBOX width height <M | KM | FT | MI>> [ASC | DESC] [COUNT count [ANY]] [WITHCOORD] [WITHDIST] [WITHHASH]",
        example: "GEOSEARCH cities FROMLONLAT 15 37 BYRADIUS 200 KM ASC WITHDIST",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Search::parse(args, Form::Search).map(GeoSearch)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        self.0.read(view)
    }
}

/// Puts what lies in a circle or a box under a key.
pub struct GeoSearchStore<'a>(Search<'a>);

impl<'a> WriteCommand<'a> for GeoSearchStore<'a> {
    const SPEC: Spec = Spec {
        name: "geosearchstore",
        arity: -8,
        flags: Flags::WRITE.and(Flags::DENYOOM),
        keys: Keys::TWO,
        group: Group::Geo,
        since: "6.2.0",
        complexity: "O(N+log(M)) where N is the number of members in the cells that are searched and M the size of the sorted set",
        summary: "Makes a sorted set of the members of another that lie in a circle or a box and returns how many these are.",
        arguments: "destination source <FROMMEMBER member | FROMLONLAT longitude latitude> <BYRADIUS radius <M | KM | FT | MI> | BYBOX width height <M | KM | FT | MI>> [ASC | DESC] [COUNT count [ANY]] [STOREDIST]",
        example: "GEOSEARCHSTORE near cities FROMLONLAT 15 37 BYRADIUS 200 KM",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Search::parse(args, Form::SearchStore).map(GeoSearchStore)
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        self.0.apply(tx)
    }
}
