//! Commands on places: sorted sets whose scores are geohashes ([`crate::algorithms::geohash`]).

pub mod geoadd;
pub mod geodist;
pub mod geopos;
pub mod georadius;
pub mod geosearch;
pub(crate) mod search;

use super::sorted::bounds::parse_score;
use crate::algorithms::geohash::Place;
use crate::collections::Collections;
use crate::commands::prelude::*;

/// The place of the two arguments from `index` on.
fn parse_place(args: Args<'_>, index: usize) -> Result<Place, Failure> {
    let longitude = parse_score(args.get(index)?).ok_or(Failure::NotAFloat)?;
    let latitude = parse_score(args.get(index + 1)?).ok_or(Failure::NotAFloat)?;
    Place::new(longitude, latitude).ok_or_else(|| {
        // A zero keeps its sign in the text.
        let minus = |at: usize| args.get(at).is_ok_and(|text| text.starts_with(b"-"));
        let signed = |number: f64, at: usize| if number == 0.0 && minus(at) { -0.0 } else { number };
        let (longitude, latitude) = (signed(longitude, index), signed(latitude, index + 1));
        Failure::built(format!("ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}").as_bytes())
    })
}

/// Metres in the unit that argument `index` names.
fn parse_unit(args: Args<'_>, index: usize) -> Result<f64, Failure> {
    [("M", 1.0), ("KM", 1000.0), ("FT", 0.3048), ("MI", 1609.34)]
        .into_iter()
        .find(|(unit, _)| args.is(index, unit))
        .map(|(_, metres)| metres)
        .ok_or(Failure::Text("ERR unsupported unit provided. please use M, KM, FT, MI"))
}

/// A distance as it is answered: with four decimals.
fn distance_text(distance: f64) -> Reply {
    Reply::bulk(format!("{distance:.4}").as_bytes())
}

fn coordinates(place: Place) -> Reply {
    Reply::Array(vec![Reply::Decimal(place.longitude), Reply::Decimal(place.latitude)])
}

/// The score of a member, if it is there.
fn score_of(collections: &Collections, set: Option<Collection>, member: &[u8]) -> Option<f64> {
    collections.standing(set?, name_order(member), member).map(|standing| standing.score)
}
