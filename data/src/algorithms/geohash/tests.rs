use super::*;
use base::Rng;

fn drawn(rng: &mut Rng) -> Place {
    let share = |rng: &mut Rng| rng.below(1 << 52) as f64 / (1u64 << 52) as f64;
    let (east, north) = (share(rng), share(rng));
    // Half of them are near one another, some near the edges of the map.
    let (longitude, latitude) = match rng.below(4) {
        0 | 1 => (15.0 + east, 37.0 + north),
        2 => (-180.0 + 360.0 * east, -85.05 + 170.1 * north),
        _ => (
            if east < 0.5 { -180.0 + east } else { 180.0 - (1.0 - east) },
            84.0 * if north < 0.5 { -1.0 } else { 1.0 } + north,
        ),
    };
    Place::new(longitude, latitude).expect("on the map")
}

#[test]
fn scores_and_names_are_those_of_redis() {
    // From Redis' documentation.
    let palermo = Place::new(13.361389, 38.115556).expect("on the map");
    let catania = Place::new(15.087269, 37.502669).expect("on the map");
    assert_eq!((palermo.score(), catania.score()), (3479099956230698.0, 3479447370796909.0));
    let (palermo, catania) = (Place::of_score(palermo.score()), Place::of_score(catania.score()));
    assert_eq!((&palermo.geohash(), &catania.geohash()), (b"sqc8b49rny0", b"sqdtr74hyu0"));
    assert_eq!(format!("{:.4}", palermo.distance(catania)), "166274.1516");
}

#[test]
fn a_place_is_in_its_cell() {
    let mut rng = Rng::new(1);
    for _ in 0..20_000 {
        let place = drawn(&mut rng);
        let score = place.score();
        let again = Place::of_score(score);
        assert!((again.longitude - place.longitude).abs() < 6e-6 && (again.latitude - place.latitude).abs() < 3e-6);
        assert_eq!(again.score(), score);
        let steps = 1 + rng.below(26) as u32;
        let cell = Cell::of(place, steps, LATITUDE);
        let (least, before) = cell.scores();
        assert!(least <= score && score < before);
        let there_and_back = [(1, 0), (0, 1), (1, 1), (-1, 1)];
        for (east, north) in there_and_back {
            assert_eq!(cell.neighbour(east, north).neighbour(-east, -north), cell);
        }
    }
}

/// What is in a shape lies in its cells, but around the poles and at the edge of the map, where a Redis misses some, too.
#[test]
fn nothing_in_a_shape_lies_outside_its_cells() {
    let mut rng = Rng::new(2);
    let (mut inside, mut searched) = (0, 0);
    for _ in 0..300 {
        let centre = Place::new(-150.0 + rng.below(300) as f64, -60.0 + rng.below(120) as f64).expect("on the map");
        let metres = 10f64.powi(rng.below(7) as i32) * (1 + rng.below(9)) as f64;
        let shape = if rng.chance(1, 2) { Shape::Circle(metres) } else { Shape::Box(metres, metres * 1.5) };
        if metres > 500_000.0 {
            continue;
        }
        let cells = shape.cells(centre);
        for _ in 0..300 {
            let mut near = |degrees: f64| (rng.below(2001) as f64 / 1000.0 - 1.0) * metres / 60_000.0 + degrees;
            let (longitude, latitude) = (near(centre.longitude), near(centre.latitude));
            let Some(place) = Place::new(longitude, latitude) else { continue };
            let score = place.score();
            let is_searched = cells.iter().any(|cell| cell.scores().0 <= score && score < cell.scores().1);
            searched += u32::from(is_searched);
            if shape.distance(centre, Place::of_score(score)).is_some() {
                inside += 1;
                assert!(is_searched, "{shape:?} {centre:?} {place:?}");
            }
        }
    }
    assert!(inside > 10_000 && searched > inside);
}

#[test]
fn any_score_has_some_place() {
    let mut rng = Rng::new(4);
    let strange = [f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.5, -0.0, 1e300, 9.3e18, 1.9e19, 9_007_199_254_740_993.0];
    for round in 0..10_000 {
        let drawn = f64::from_bits(rng.next_u64());
        let score = strange.get(round).copied().unwrap_or(if drawn.is_nan() { 0.0 } else { drawn });
        let place = Place::of_score(score);
        assert!(Place::new(place.longitude, place.latitude).is_some(), "{score}: {place:?}");
        let metres = f64::from_bits(rng.next_u64()).abs();
        if !metres.is_nan() {
            assert!(!Shape::Circle(metres).cells(place).is_empty());
            assert!(!Shape::Box(metres, metres / 2.0).cells(place).is_empty());
        }
    }
}
