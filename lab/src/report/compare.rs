//! Sides against each other: how many times the first side's figure each other side has, setting by setting.

use super::chart::bars::{self, Bar};
use super::chart::dots::median;
use super::chart::{Figure, Key, colour};
use super::gather::{self, Group, groups};
use crate::record::{Arrivals, Measurement, Record};

/// Most bars in one picture.
const BARS_MAX: usize = 40;

/// A measurement's figure, if it has one that may be compared.
type FigureOf = fn(&Measurement) -> Option<f64>;

/// The sides that were measured, in the record's order.
pub fn sides(record: &Record) -> Vec<&str> {
    let measured = |id: &&str| record.measurements.iter().any(|measurement| measurement.side == *id);
    let mut sides: Vec<&str> = record.sides.iter().map(|side| side.id.as_str()).filter(measured).collect();
    for measurement in &record.measurements {
        if !sides.contains(&measurement.side.as_str()) {
            sides.push(&measurement.side);
        }
    }
    sides
}

/// The greatest 99th percentile of a measurement's operations: 99 of 100 of all its operations were at most so slow.
pub fn p99(measurement: &Measurement) -> Option<f64> {
    let operations = measurement.operations.values().filter(|operation| operation.count > 0);
    operations.map(|operation| operation.latency.p99 as f64).filter(|&p99| p99 > 0.0).reduce(f64::max)
}

/// Throughput, for what no schedule held back.
fn throughput(measurement: &Measurement) -> Option<f64> {
    (measurement.arrivals == Arrivals::Closed && measurement.throughput > 0.0).then_some(measurement.throughput)
}

/// The ratios of two sides' repeats: each with the one measured in the same turn, or, if they are not equally many, each with the middle
/// one of the first side's.
fn ratios(of: &[f64], first: &[f64]) -> Vec<f64> {
    if of.len() == first.len() {
        return of.iter().zip(first).map(|(of, first)| of / first).collect();
    }
    let middle = median(first).unwrap_or(f64::NAN);
    of.iter().map(|of| of / middle).collect()
}

/// The bars of one figure of the measurements. Settings in which a generator was saturated are left out.
fn bars(record: &Record, figure: FigureOf) -> Vec<Bar> {
    let sides = sides(record);
    let groups = groups(record);
    let Some((first, others)) = sides.split_first() else { return Vec::new() };
    let values = |group: &Group| group.members.iter().filter_map(|m| figure(m)).collect::<Vec<f64>>();
    let mut bars = Vec::new();
    for base in groups.iter().filter(|group| group.side == *first && group.void().is_none()) {
        for (index, side) in others.iter().enumerate() {
            let same = |group: &&Group| group.side == *side && group.setting == base.setting && group.void().is_none();
            let Some(group) = groups.iter().find(same) else { continue };
            let ratios = ratios(&values(group), &values(base));
            let Some(middle) = median(&ratios) else { continue };
            let name = gather::side_name(record, side);
            // The colour says which side it is, if the words have to be cut.
            let name = if base.setting.is_empty() { name.to_owned() } else { format!("{} · {name}", base.setting) };
            let spread =
                ratios.iter().fold((middle, middle), |(least, most), &r| (f64::min(least, r), f64::max(most, r)));
            bars.push(Bar { name, side: index + 1, ratio: middle, spread });
        }
    }
    bars
}

/// The pictures of ratios: throughput, where sides worked as fast as they could, and the 99th percentile.
pub fn draw(record: &Record) -> Vec<Figure> {
    let sides = sides(record);
    let Some(first) = sides.first() else { return Vec::new() };
    let first = gather::side_name(record, first);
    let keys: Vec<Key> = sides
        .iter()
        .enumerate()
        .skip(1)
        .map(|(index, side)| Key {
            class: format!("fill bar {}", colour(index)),
            text: gather::side_name(record, side).to_owned(),
        })
        .collect();
    let kinds: [(&str, &str, FigureOf); 2] =
        [("Operations a second", "more", throughput), ("99th percentile of the latency", "slower", p99)];
    kinds
        .into_iter()
        .filter_map(|(what, right, figure)| {
            let mut bars = bars(record, figure);
            let all = bars.len();
            bars.truncate(BARS_MAX);
            let repeated = bars.iter().any(|bar| bar.spread.1 > bar.spread.0);
            let mut caption = if repeated {
                "The bar is the middle one of the repeats, the thin line reaches from the least to the greatest."
            } else {
                ""
            }
            .to_owned();
            if bars.len() < all {
                caption.push_str(&format!(" {} of {all} ratios are drawn; the table has all figures.", bars.len()));
            }
            let title = format!("{what}, compared with {first}");
            bars::figure(&title, &format!("right of 1×: {right} than {first}"), &bars, keys.clone(), caption.trim())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_are_compared_turn_by_turn() {
        assert_eq!(ratios(&[20.0, 60.0], &[10.0, 20.0]), [2.0, 3.0]);
        assert_eq!(ratios(&[30.0], &[10.0, 20.0, 15.0]), [2.0]);
        let measurement = |side: &str, throughput: f64, saturated: bool| Measurement {
            side: side.into(),
            throughput,
            generator: crate::record::Generator { saturated, ..Default::default() },
            ..Measurement::default()
        };
        let mut record = Record {
            measurements: vec![measurement("dictum", 10.0, false), measurement("redis", 40.0, false)],
            ..Record::default()
        };
        let found = bars(&record, throughput);
        assert_eq!(found, [Bar { name: "redis".into(), side: 1, ratio: 4.0, spread: (4.0, 4.0) }]);
        record.measurements[1].generator.saturated = true;
        assert!(bars(&record, throughput).is_empty(), "a saturated generator's figures are not compared");
    }
}
