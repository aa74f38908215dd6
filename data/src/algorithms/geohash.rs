//! Places on the Earth as numbers of 52 bits, so that what is near in both directions is often near as a number: the geohash that a Redis keeps as the score of a
//! member of a sorted set.
//!
//! Longitude and latitude each become a share of their range, with so many bits as there are *steps*, and the bits take turns: longitude first. So the beginning
//! of the bits names a cell, and the members in a cell are a range of scores. A search looks at the cell of its centre and at the eight around it.
//!
//! Results are compared with those of a Redis to the last cell, so the arithmetic is in the same order as there.

use super::trigonometry::{asin, cos, sin};

/// Bits for each of the two, in a score.
pub const STEPS_MAX: u32 = 26;
/// Degrees that there are of longitude.
const LONGITUDE: Range = Range { min: -180.0, max: 180.0 };
/// Degrees that there are of latitude: those of a square map by Mercator (EPSG:900913).
const LATITUDE: Range = Range { min: -85.05112878, max: 85.05112878 };
/// Degrees of latitude in the geohashes that others write.
const LATITUDE_OF_OTHERS: Range = Range { min: -90.0, max: 90.0 };
/// Metres: the quadratic mean of WGS 84.
const EARTH_RADIUS: f64 = 6372797.560856;
const RADIANS: f64 = std::f64::consts::PI / 180.0;
/// Metres: half of what is around the map.
const MERCATOR_MAX: f64 = 20037726.37;
/// Every other bit: of latitude, and of longitude.
const EVEN_BITS: u64 = 0x5555_5555_5555_5555;
const ODD_BITS: u64 = !EVEN_BITS;

#[derive(Clone, Copy, Debug)]
struct Range {
    min: f64,
    max: f64,
}

/// A place, in degrees.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Place {
    /// From −180 to 180.
    pub longitude: f64,
    /// From −85.05112878 to 85.05112878.
    pub latitude: f64,
}

/// A cell: the first bits of the places in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cell {
    bits: u64,
    steps: u32,
}

/// What a cell covers, in degrees.
#[derive(Clone, Copy, Debug)]
struct Area {
    longitude: Range,
    latitude: Range,
}

/// What is searched around a place; lengths in metres.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Shape {
    /// What is not further away than this.
    Circle(f64),
    /// What is in a box of this width and height, whose sides go north and east.
    Box(f64, f64),
}

/// The bits of `low` at even places, those of `high` at odd ones.
fn interleave(low: u32, high: u32) -> u64 {
    let spread = |bits: u32| (0..32).fold(0, |sum, bit| sum | u64::from(bits >> bit & 1) << (2 * bit));
    spread(low) | spread(high) << 1
}

/// The bits at even places.
fn even_bits(bits: u64) -> u32 {
    let mut bits = bits & EVEN_BITS;
    for (shift, mask) in [
        (1, 0x3333_3333_3333_3333),
        (2, 0x0f0f_0f0f_0f0f_0f0f),
        (4, 0x00ff_00ff_00ff_00ff),
        (8, 0x0000_ffff_0000_ffff),
        (16, 0x0000_0000_ffff_ffff),
    ] {
        bits = (bits | bits >> shift) & mask;
    }
    bits as u32
}

impl Place {
    /// The place, if there is one of these degrees.
    #[must_use]
    pub fn new(longitude: f64, latitude: f64) -> Option<Place> {
        let has = |range: Range, degrees: f64| range.min <= degrees && degrees <= range.max;
        (has(LONGITUDE, longitude) && has(LATITUDE, latitude)).then_some(Place { longitude, latitude })
    }

    /// The score of the place.
    #[must_use]
    pub fn score(self) -> f64 {
        Cell::of(self, STEPS_MAX, LATITUDE).bits as f64
    }

    /// The place of a score: the middle of the smallest cell. Of a score that is none, some place.
    #[must_use]
    pub fn of_score(score: f64) -> Place {
        // As a processor of Redis does it: what is negative wraps, what is too large is nothing.
        let bits = match score {
            _ if score < 9_223_372_036_854_775_808.0 => score as i64 as u64,
            _ if score < 18_446_744_073_709_551_616.0 => score as u64,
            _ => 0,
        };
        let Area { longitude, latitude } = Cell { bits, steps: STEPS_MAX }.area();
        let middle = |part: Range, whole: Range| ((part.min + part.max) / 2.0).clamp(whole.min, whole.max);
        Place { longitude: middle(longitude, LONGITUDE), latitude: middle(latitude, LATITUDE) }
    }

    /// The geohash by which others name the place: eleven characters, of which the last is always a zero.
    #[must_use]
    pub fn geohash(self) -> [u8; 11] {
        const ALPHABET: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
        let bits = Cell::of(self, STEPS_MAX, LATITUDE_OF_OTHERS).bits;
        std::array::from_fn(|at| if at == 10 { b'0' } else { ALPHABET[(bits >> (47 - 5 * at) & 31) as usize] })
    }

    /// Metres between two places, on a sphere.
    #[must_use]
    pub fn distance(self, other: Place) -> f64 {
        let east = sin((other.longitude * RADIANS - self.longitude * RADIANS) / 2.0);
        if east == 0.0 {
            return self.latitude_distance(other);
        }
        let (from, to) = (self.latitude * RADIANS, other.latitude * RADIANS);
        let north = sin((to - from) / 2.0);
        let square = north * north + cos(from) * cos(to) * east * east;
        2.0 * EARTH_RADIUS * asin(square.sqrt())
    }

    /// Metres from the parallel of one to that of the other.
    fn latitude_distance(self, other: Place) -> f64 {
        EARTH_RADIUS * (other.latitude * RADIANS - self.latitude * RADIANS).abs()
    }
}

impl Shape {
    /// Metres from the centre, if a place is in the shape.
    #[must_use]
    pub fn distance(self, centre: Place, place: Place) -> Option<f64> {
        match self {
            Shape::Circle(radius) => {
                // No way is shorter than that from parallel to parallel; its last digits may be others.
                if centre.latitude_distance(place) > radius * (1.0 + 1e-9) + 1e-3 {
                    return None;
                }
                Some(centre.distance(place)).filter(|distance| *distance <= radius)
            }
            Shape::Box(width, height) => {
                let is_too_far = place.latitude_distance(centre) > height / 2.0
                    || place.distance(Place { longitude: centre.longitude, ..place }) > width / 2.0;
                (!is_too_far).then(|| centre.distance(place))
            }
        }
    }

    /// Metres to the place in it that is furthest away.
    fn reach(self) -> f64 {
        match self {
            Shape::Circle(radius) => radius,
            Shape::Box(width, height) => ((width / 2.0) * (width / 2.0) + (height / 2.0) * (height / 2.0)).sqrt(),
        }
    }

    /// What it covers around a centre, in degrees; more than that in the east and the west.
    fn bounds(self, centre: Place) -> Area {
        let (width, height) = match self {
            Shape::Circle(radius) => (radius, radius),
            Shape::Box(width, height) => (width / 2.0, height / 2.0),
        };
        let north = height / EARTH_RADIUS / RADIANS;
        // Degrees of longitude are shorter where the poles are nearer.
        let nearest = if centre.latitude < 0.0 { centre.latitude - north } else { centre.latitude + north };
        let east = width / EARTH_RADIUS / cos(nearest * RADIANS) / RADIANS;
        Area {
            longitude: Range { min: centre.longitude - east, max: centre.longitude + east },
            latitude: Range { min: centre.latitude - north, max: centre.latitude + north },
        }
    }

    /// The cells in which its places are, in the order in which a Redis looks at them.
    #[must_use]
    pub fn cells(self, centre: Place) -> Vec<Cell> {
        let mut steps = steps_for(self.reach(), centre.latitude);
        let mut cell = Cell::of(centre, steps, LATITUDE);
        if steps == 1 {
            return cell.with_neighbours(|_, _| true);
        }
        let bounds = self.bounds(centre);
        let (south, west) = (cell.neighbour(0, -1).area(), cell.neighbour(-1, 0).area());
        let (north, east) = (cell.neighbour(0, 1).area(), cell.neighbour(1, 0).area());
        let is_too_small = north.latitude.max < bounds.latitude.max
            || south.latitude.min > bounds.latitude.min
            || east.longitude.max < bounds.longitude.max
            || west.longitude.min > bounds.longitude.min;
        if is_too_small {
            steps -= 1;
            cell = Cell::of(centre, steps, LATITUDE);
        }
        let area = cell.area();
        cell.with_neighbours(|east, north| {
            // What lies beyond a side of the cell that the shape does not reach is of no use.
            let (longitude, latitude) = (area.longitude, area.latitude);
            let reaches = |sign: i32, part: Range, whole: Range| match sign {
                -1 => part.min >= whole.min,
                1 => part.max <= whole.max,
                _ => true,
            };
            steps < 2 || reaches(east, longitude, bounds.longitude) && reaches(north, latitude, bounds.latitude)
        })
    }
}

/// With how many steps nine cells cover what is so far away, most often.
fn steps_for(reach: f64, latitude: f64) -> u32 {
    if reach == 0.0 {
        return STEPS_MAX;
    }
    let (mut reach, mut steps) = (reach, 1i32);
    while reach < MERCATOR_MAX && steps < 64 {
        reach *= 2.0;
        steps += 1;
    }
    // So that what is searched lies in the nine; and cells are narrow where the poles are near.
    steps -= 2 + i32::from(latitude.abs() > 66.0) + i32::from(latitude.abs() > 80.0);
    steps.clamp(1, STEPS_MAX as i32) as u32
}

impl Cell {
    fn of(place: Place, steps: u32, latitudes: Range) -> Cell {
        let share = |range: Range, degrees: f64| {
            ((degrees - range.min) / (range.max - range.min) * (1u64 << steps) as f64) as u32
        };
        let bits = interleave(share(latitudes, place.latitude), share(LONGITUDE, place.longitude));
        Cell { bits, steps }
    }

    /// What it covers.
    fn area(self) -> Area {
        let range = |whole: Range, number: u32| {
            let degrees =
                |number: u32| whole.min + f64::from(number) / (1u64 << self.steps) as f64 * (whole.max - whole.min);
            Range { min: degrees(number), max: degrees(number.wrapping_add(1)) }
        };
        Area { longitude: range(LONGITUDE, even_bits(self.bits >> 1)), latitude: range(LATITUDE, even_bits(self.bits)) }
    }

    /// The one beside it to the east or west and to the north or south; behind the last comes the first.
    fn neighbour(self, east: i32, north: i32) -> Cell {
        let unused = 64 - 2 * self.steps;
        // One more or less in every other bit: the bits between are all set, so that a carry passes over them, or all clear.
        let moved = |bits: u64, by: i32, own: u64, between: u64| {
            let (own_bits, between) = (bits & own, between >> unused);
            let bits = match by {
                0 => return own_bits,
                1.. => own_bits.wrapping_add(between + 1),
                _ => (own_bits | between).wrapping_sub(between + 1),
            };
            bits & own >> unused
        };
        let bits = moved(self.bits, east, ODD_BITS, EVEN_BITS) | moved(self.bits, north, EVEN_BITS, ODD_BITS);
        Cell { bits, ..self }
    }

    /// The cell and those of its neighbours for which `is_wanted` says so, each once.
    fn with_neighbours(self, is_wanted: impl Fn(i32, i32) -> bool) -> Vec<Cell> {
        const AROUND: [(i32, i32); 8] = [(0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];
        let mut cells = vec![self];
        for (east, north) in AROUND.into_iter().filter(|&(east, north)| is_wanted(east, north)) {
            let cell = self.neighbour(east, north);
            if !cells.contains(&cell) {
                cells.push(cell);
            }
        }
        cells
    }

    /// The scores of the places in it: from the first up to the second, which is not among them.
    #[must_use]
    pub fn scores(self) -> (f64, f64) {
        let unused = 2 * (STEPS_MAX - self.steps);
        ((self.bits << unused) as f64, (self.bits.wrapping_add(1) << unused) as f64)
    }
}

#[cfg(test)]
mod tests;
