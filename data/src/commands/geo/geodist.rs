//! `GEODIST key member1 member2 [M | KM | FT | MI]`

use super::{distance_text, parse_unit, score_of};
use crate::algorithms::geohash::Place;
use crate::commands::prelude::*;

/// How far two members are apart; nil if one of them is not there.
pub struct GeoDist<'a> {
    key: KeyRef<'a>,
    members: [&'a [u8]; 2],
    unit: f64,
}

impl<'a> ReadCommand<'a> for GeoDist<'a> {
    const SPEC: Spec = Spec {
        name: "geodist",
        arity: -4,
        flags: Flags::READONLY,
        keys: Keys::ONE,
        group: Group::Geo,
        since: "3.2.0",
        complexity: "O(1)",
        summary: "Returns the distance between two members of a sorted set of places.",
        arguments: "key member1 member2 [M | KM | FT | MI]",
        example: "GEODIST cities Palermo Catania KM",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let unit = match args.len() {
            4 => 1.0,
            5 => parse_unit(args, 4)?,
            _ => return Err(Failure::Syntax),
        };
        Ok(GeoDist { key: args.key(1)?, members: [args.member(2)?, args.member(3)?], unit })
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        let set = view.sorted(self.key)?;
        let [one, other] = self.members.map(|member| score_of(view.collections(), set, member).map(Place::of_score));
        let Some((one, other)) = one.zip(other) else { return Ok(Reply::Nil) };
        Ok(distance_text(one.distance(other) / self.unit))
    }
}
