//! What `GEOSEARCH`, `GEORADIUS` and their relatives have in common: what is around a place.

use super::{coordinates, distance_text, parse_place, parse_unit, score_of};
use crate::algorithms::geohash::{Place, Shape};
use crate::collections::Collections;
use crate::commands::prelude::*;
use crate::commands::sorted::bounds::parse_score;
use crate::meter::VISIT;

/// Around what is searched.
#[derive(Clone, Copy, Debug)]
enum Centre<'a> {
    Place(Place),
    Member(&'a [u8]),
}

/// What is searched, and what is told of it.
pub(crate) struct Search<'a> {
    key: KeyRef<'a>,
    centre: Centre<'a>,
    shape: Shape,
    /// Metres.
    unit: f64,
    with: With,
    order: Option<Order>,
    /// At most so many, and whether any will do.
    count: Option<(usize, bool)>,
    /// Where the result goes.
    store: Option<Store<'a>>,
}

#[derive(Clone, Copy, Default)]
struct With {
    distance: bool,
    hash: bool,
    coordinates: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Nearest,
    Furthest,
}

#[derive(Clone, Copy)]
struct Store<'a> {
    key: KeyRef<'a>,
    /// Distances become the scores, and not places.
    distances: bool,
}

/// Which command it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// `GEORADIUS`, and whether it may store.
    Radius(bool),
    /// `GEORADIUSBYMEMBER`, and whether it may store.
    RadiusByMember(bool),
    Search,
    SearchStore,
}

/// A member that was found.
struct Found {
    member: Blob,
    score: f64,
    place: Place,
    /// Metres.
    distance: f64,
}

/// A number of metres in a unit, at `index`, and the unit.
fn parse_radius(args: Args<'_>, index: usize) -> Result<(f64, f64), Failure> {
    let radius = parse_score(args.get(index)?).ok_or(Failure::Text("ERR need numeric radius"))?;
    if radius < 0.0 {
        return Err(Failure::Text("ERR radius cannot be negative"));
    }
    let unit = parse_unit(args, index + 1)?;
    Ok((radius * unit, unit))
}

fn parse_box(args: Args<'_>, index: usize) -> Result<(Shape, f64), Failure> {
    let width = parse_score(args.get(index)?).ok_or(Failure::Text("ERR need numeric width"))?;
    let height = parse_score(args.get(index + 1)?).ok_or(Failure::Text("ERR need numeric height"))?;
    if width < 0.0 || height < 0.0 {
        return Err(Failure::Text("ERR height or width cannot be negative"));
    }
    let unit = parse_unit(args, index + 2)?;
    Ok((Shape::Box(width * unit, height * unit), unit))
}

impl<'a> Search<'a> {
    pub(crate) fn parse(args: Args<'a>, form: Form) -> Result<Self, Failure> {
        let circle = |(radius, unit): (f64, f64)| (Shape::Circle(radius), unit);
        let (mut centre, mut shape) = (None, None);
        let (source, mut index) = match form {
            Form::Radius(_) => {
                centre = Some(Centre::Place(parse_place(args, 2)?));
                shape = Some(circle(parse_radius(args, 4)?));
                (1, 6)
            }
            Form::RadiusByMember(_) => {
                centre = Some(Centre::Member(args.member(2)?));
                shape = Some(circle(parse_radius(args, 3)?));
                (1, 5)
            }
            Form::Search => (1, 2),
            Form::SearchStore => (2, 3),
        };
        let searches = matches!(form, Form::Search | Form::SearchStore);
        let may_store = matches!(form, Form::Radius(true) | Form::RadiusByMember(true));
        let (mut with, mut order, mut count, mut any) = (With::default(), None, None, false);
        let mut store =
            if form == Form::SearchStore { Some(Store { key: args.key(1)?, distances: false }) } else { None };
        while index < args.len() {
            let has = |more: usize| index + more < args.len();
            let centre_is = |member: bool| match centre {
                Some(Centre::Member(_)) => member,
                Some(Centre::Place(_)) => !member,
                None => true,
            };
            let shape_is = |circle: bool| shape.is_none_or(|(shape, _)| matches!(shape, Shape::Circle(_)) == circle);
            let used = match args.get(index)?.to_ascii_uppercase().as_slice() {
                b"WITHDIST" => {
                    with.distance = true;
                    0
                }
                b"WITHHASH" => {
                    with.hash = true;
                    0
                }
                b"WITHCOORD" => {
                    with.coordinates = true;
                    0
                }
                b"ANY" => {
                    any = true;
                    0
                }
                b"ASC" => {
                    order = Some(Order::Nearest);
                    0
                }
                b"DESC" => {
                    order = Some(Order::Furthest);
                    0
                }
                b"COUNT" if has(1) => {
                    let number = args.integer(index + 1)?;
                    let most = usize::try_from(number).ok().filter(|most| *most > 0);
                    count = Some(most.ok_or(Failure::Text("ERR COUNT must be > 0"))?);
                    1
                }
                option @ (b"STORE" | b"STOREDIST") if may_store && has(1) => {
                    store = Some(Store { key: args.key(index + 1)?, distances: option == b"STOREDIST" });
                    1
                }
                b"STOREDIST" if form == Form::SearchStore => {
                    store = store.map(|store| Store { distances: true, ..store });
                    0
                }
                b"FROMMEMBER" if searches && has(1) && centre_is(true) => {
                    centre = Some(Centre::Member(args.member(index + 1)?));
                    1
                }
                b"FROMLONLAT" if searches && has(2) && centre_is(false) => {
                    centre = Some(Centre::Place(parse_place(args, index + 1)?));
                    2
                }
                b"BYRADIUS" if searches && has(2) && shape_is(true) => {
                    shape = Some(circle(parse_radius(args, index + 1)?));
                    2
                }
                b"BYBOX" if searches && has(3) && shape_is(false) => {
                    shape = Some(parse_box(args, index + 1)?);
                    3
                }
                _ => return Err(Failure::Syntax),
            };
            index += 1 + used;
        }
        if store.is_some() && (with.distance || with.hash || with.coordinates) {
            return Err(Failure::Text(if form == Form::SearchStore {
                "ERR GEOSEARCHSTORE is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
            } else {
                "ERR STORE option in GEORADIUS is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
            }));
        }
        let missing = |what: &str| {
            let name = String::from_utf8_lossy(args.items().first().copied().unwrap_or_default());
            Failure::built(format!("ERR exactly one of {what} can be specified for {name}").as_bytes())
        };
        let centre = centre.ok_or_else(|| missing("FROMMEMBER or FROMLONLAT"))?;
        let (shape, unit) = shape.ok_or_else(|| missing("BYRADIUS and BYBOX"))?;
        if any && count.is_none() {
            return Err(Failure::Text("ERR the ANY argument requires COUNT argument"));
        }
        // The nearest of all, unless any will do.
        let order = order.or((count.is_some() && !any).then_some(Order::Nearest));
        let count = count.map(|most| (most, any));
        Ok(Search { key: args.key(source)?, centre, shape, unit, with, order, count, store })
    }

    fn find(&self, collections: &Collections, set: Collection) -> Result<Vec<Found>, Failure> {
        let centre = match self.centre {
            Centre::Place(place) => place,
            Centre::Member(member) => score_of(collections, Some(set), member)
                .map(Place::of_score)
                .ok_or(Failure::Text("ERR could not decode requested zset member"))?,
        };
        let enough = self.count.filter(|(_, any)| *any).map_or(usize::MAX, |(most, _)| most);
        let mut found = Vec::new();
        let mut bytes = 0;
        'cells: for cell in self.shape.cells(centre) {
            let (least, before) = cell.scores();
            for (member, score) in collections.scored(set, least, before) {
                let place = Place::of_score(score);
                let Some(distance) = self.shape.distance(centre, place) else { continue };
                bytes += member.len() as u64 + FOUND_BYTES;
                collections.meter.make(FOUND_BYTES as usize);
                if bytes > collections.meter.answer_max() {
                    return Err(Failure::Text("ERR so many members are too large for one answer"));
                }
                found.push(Found { member, score, place, distance });
                if found.len() >= enough {
                    break 'cells;
                }
            }
        }
        // Sorting compares each about as often as their number has digits; an answer has several parts for each.
        let digits = u64::from(found.len().max(1).ilog2() + 1);
        collections.meter.spend((digits + VISIT).saturating_mul(found.len() as u64));
        collections.meter.check()?;
        match self.order {
            Some(Order::Nearest) => found.sort_by(|one, other| one.distance.total_cmp(&other.distance)),
            Some(Order::Furthest) => found.sort_by(|one, other| other.distance.total_cmp(&one.distance)),
            None => {}
        }
        if let Some((most, _)) = self.count {
            found.truncate(most);
        }
        Ok(found)
    }

    fn answer(&self, found: Vec<Found>) -> Reply {
        let With { distance, hash, coordinates: place } = self.with;
        let item = |found: Found| {
            if !(distance || hash || place) {
                return Reply::Bulk(found.member);
            }
            let parts = [
                Some(Reply::Bulk(found.member)),
                distance.then(|| distance_text(found.distance / self.unit)),
                hash.then_some(Reply::Integer(found.score as i64)),
                place.then(|| coordinates(found.place)),
            ];
            Reply::Array(parts.into_iter().flatten().collect())
        };
        Reply::Array(found.into_iter().map(item).collect())
    }

    pub(crate) fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        let Some(set) = view.sorted(self.key)? else { return Ok(Reply::Array(Vec::new())) };
        Ok(self.answer(self.find(view.collections(), set)?))
    }

    pub(crate) fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let found = match tx.collection(self.key, Kind::SortedSet)? {
            Some(set) => self.find(&tx.tree().collections, set)?,
            None => Vec::new(),
        };
        let Some(Store { key, distances }) = self.store else { return Ok(self.answer(found)) };
        let score = |found: &Found| if distances { found.distance / self.unit } else { found.score };
        let members = found.into_iter().map(|found| (found.member.clone(), score(&found))).collect();
        Ok(tx.store_sorted(key, members))
    }
}

/// What a member that was found takes beside its bytes.
const FOUND_BYTES: u64 = 128;
