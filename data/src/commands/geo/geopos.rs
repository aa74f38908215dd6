//! `GEOPOS key [member [member ...]]`, `GEOHASH key [member [member ...]]`

use super::{coordinates, score_of};
use crate::algorithms::geohash::Place;
use crate::commands::prelude::*;

/// Longitude and latitude of members; nil where there is no such member.
pub struct GeoPos<'a>(Members<'a>);

/// The geohashes of members, as others write them; nil where there is no such member.
pub struct GeoHash<'a>(Members<'a>);

struct Members<'a> {
    key: KeyRef<'a>,
    members: &'a [&'a [u8]],
}

impl<'a> Members<'a> {
    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(Members { key: args.key(1)?, members: args.members_from(2)? })
    }

    fn read(self, view: &View<'_>, absent: Reply, answer: impl Fn(Place) -> Reply) -> Result<Reply, Failure> {
        let set = view.sorted(self.key)?;
        let of = |member: &&[u8]| {
            let score = score_of(view.collections(), set, member);
            score.map_or_else(|| absent.clone(), |score| answer(Place::of_score(score)))
        };
        Ok(Reply::Array(self.members.iter().map(of).collect()))
    }
}

impl<'a> ReadCommand<'a> for GeoPos<'a> {
    const SPEC: Spec = Spec {
        name: "geopos",
        arity: -2,
        flags: Flags::READONLY,
        keys: Keys::ONE,
        group: Group::Geo,
        since: "3.2.0",
        complexity: "O(N) where N is the number of members that are asked for",
        summary: "Returns the longitude and the latitude of members of a sorted set of places.",
        arguments: "key [member [member ...]]",
        example: "GEOPOS cities Palermo Catania",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Members::parse(args).map(GeoPos)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        self.0.read(view, Reply::NilArray, coordinates)
    }
}

impl<'a> ReadCommand<'a> for GeoHash<'a> {
    const SPEC: Spec = Spec {
        name: "geohash",
        arity: -2,
        flags: Flags::READONLY,
        keys: Keys::ONE,
        group: Group::Geo,
        since: "3.2.0",
        complexity: "O(N) where N is the number of members that are asked for",
        summary: "Returns the geohashes of members of a sorted set of places.",
        arguments: "key [member [member ...]]",
        example: "GEOHASH cities Palermo Catania",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Members::parse(args).map(GeoHash)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        self.0.read(view, Reply::Nil, |place| Reply::bulk(&place.geohash()[..]))
    }
}
