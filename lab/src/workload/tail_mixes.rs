//! `mix-100-0` … `mix-0-100`: the nine mixes of the tail-latency laboratory (mission §4), from reads only to writes only. What
//! is not read is inserted and updated in equal parts. The laboratory varied records, fields and their length too: [`sizes`].

use super::records::{Defaults, build};
use super::{Distribution, Shape};

/// One of the nine, with so many per cent reads.
macro_rules! mix {
    ($name:literal, $reads:literal, $writes:literal) => {
        Shape {
            name: $name,
            sentence: concat!(
                $reads,
                " % reads, ",
                $writes,
                " % writes of records, half of these inserts, half updates (tail-latency laboratory)"
            ),
            parameters: &["records", "fields", "field-bytes", "distribution", "mix (read, update, insert)"],
            build: |parameters| {
                let half = f64::from($writes) / 2.0;
                let shares = [f64::from($reads), half, half, 0.0, 0.0];
                build(Defaults { shares, distribution: Distribution::Uniform }, parameters)
            },
        }
    };
}

/// The nine.
pub const SHAPES: [Shape; 9] = [
    mix!("mix-100-0", 100, 0),
    mix!("mix-90-10", 90, 10),
    mix!("mix-75-25", 75, 25),
    mix!("mix-60-40", 60, 40),
    mix!("mix-50-50", 50, 50),
    mix!("mix-40-60", 40, 60),
    mix!("mix-25-75", 25, 75),
    mix!("mix-10-90", 10, 90),
    mix!("mix-0-100", 0, 100),
];

/// The laboratory's table of sizes: records × fields × bytes of each field.
#[must_use]
pub fn sizes() -> Vec<(u64, u32, usize)> {
    let mut sizes = Vec::new();
    for records in [1_000, 10_000, 100_000] {
        for fields in [10, 500] {
            for bytes in [10, 100] {
                sizes.push((records, fields, bytes));
            }
        }
    }
    sizes
}
