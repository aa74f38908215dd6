//! What more partitions came to, in words: against the fewest that were measured, and never more than the repeats tell.

use std::collections::BTreeMap;

use super::laws::points;
use crate::record::{Limits, Record};
use crate::report::chart::dots::median;
use crate::report::format::number;
use crate::statistics::{Difference, compare};

/// How the sentence begins that the report's first page has.
pub const PARTITIONS_TOLD: &str = "More partitions";
/// Fewer repeats than these are never told apart by their ranks.
const RANKED_LEAST: usize = 4;

/// One number of partitions beside the fewest.
struct Row {
    partitions: u32,
    rate: f64,
    ratio: Limits,
    told_apart: bool,
}

/// What came out, the sentence for the first page first; none if fewer than two numbers were measured.
pub(super) fn told(record: &Record, seed: u64) -> Option<Vec<String>> {
    let mut by_count: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (partitions, throughput) in points(record, "partitions") {
        by_count.entry(partitions as u32).or_default().push(throughput);
    }
    let (fewest, base) = by_count.pop_first()?;
    let row = |(partitions, rates): (&u32, &Vec<f64>)| {
        let compared = compare(&base, rates, seed).ok()?;
        let ranked = base.len().min(rates.len()) >= RANKED_LEAST;
        let told_apart = !ranked || compared.difference != Difference::NotTold;
        Some(Row { partitions: *partitions, rate: median(rates)?, ratio: compared.ratio, told_apart })
    };
    let rows: Vec<Row> = by_count.iter().filter_map(row).collect();
    let repeats = by_count.values().map(Vec::len).min()?.min(base.len());
    let mut sentences = vec![headline(record, fewest, &rows, repeats)?];
    let mut all = vec![format!("{} with {fewest}", number(median(&base)?))];
    all.extend(rows.iter().map(|row| {
        format!(
            "{} with {} ({}×{})",
            number(row.rate),
            row.partitions,
            number(row.ratio.value),
            spread(&row.ratio, repeats)
        )
    }));
    sentences.push(format!("Operations/s against partitions: {}.", all.join(", ")));
    Some(sentences)
}

/// The limits of a ratio, behind it; nothing where it was measured once.
fn spread(ratio: &Limits, repeats: usize) -> String {
    if repeats < 2 { String::new() } else { format!(" [{} to {}]", number(ratio.low), number(ratio.high)) }
}

/// Whether it pays, in a sentence.
fn headline(record: &Record, fewest: u32, rows: &[Row], repeats: usize) -> Option<String> {
    let best = rows.iter().max_by(|a, b| a.ratio.value.total_cmp(&b.ratio.value))?;
    let worst = rows.iter().min_by(|a, b| a.ratio.value.total_cmp(&b.ratio.value))?;
    let seen = |row: &Row| {
        let ratio = format!("{}×{}", number(row.ratio.value), spread(&row.ratio, repeats));
        format!("{} served {ratio} of what {fewest} did", row.partitions)
    };
    let gains = |row: &Row| row.ratio.low > 1.0 && row.told_apart;
    let loses = |row: &Row| row.ratio.high < 1.0 && row.told_apart;
    let what = if repeats < 2 {
        return Some(format!("{PARTITIONS_TOLD} were measured once each, which tells little: {}.", seen(best)));
    } else if gains(best) {
        format!("served more: {}", seen(best))
    } else if rows.iter().all(loses) {
        format!("served less on this machine: {}", seen(worst))
    } else if rows.iter().any(loses) {
        format!("gained nothing on this machine, and too many cost something: {}", seen(worst))
    } else {
        format!(
            "gained nothing on this machine: at best {}, which is no difference that these repeats tell",
            seen(best)
        )
    };
    let shared = match busy(record, fewest) {
        Some(share) => format!(
            "; with {fewest} the nodes took {} of its {} processors, and the clients share them",
            number(share),
            record.environment.cores
        ),
        None => String::new(),
    };
    Some(format!("{PARTITIONS_TOLD} {what}{shared}."))
}

/// Processors that the nodes took with so many partitions.
fn busy(record: &Record, partitions: u32) -> Option<f64> {
    let word = partitions.to_string();
    let of = record.measurements.iter().filter(|m| m.variables.get("partitions") == Some(&word));
    median(&of.filter_map(|m| m.counters.get("cpu_share").copied()).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Measurement;

    fn record(rows: &[(u32, &[f64])]) -> Record {
        let mut record = Record::default();
        record.environment.cores = 2;
        for (partitions, rates) in rows {
            for (repeat, throughput) in rates.iter().enumerate() {
                let variables = [("partitions", partitions.to_string()), ("repeat", repeat.to_string())];
                record.measurements.push(Measurement {
                    variables: variables.map(|(name, value)| (name.to_owned(), value)).into(),
                    throughput: *throughput,
                    counters: [("cpu_share".to_owned(), 1.5)].into(),
                    ..Measurement::default()
                });
            }
        }
        record
    }

    fn headline_of(rows: &[(u32, &[f64])]) -> String {
        told(&record(rows), 1).expect("several numbers of partitions").swap_remove(0)
    }

    #[test]
    fn a_gain_is_told_as_one() {
        let told =
            headline_of(&[(1, &[100.0, 101.0, 99.0]), (4, &[150.0, 151.0, 149.0]), (16, &[300.0, 301.0, 302.0])]);
        assert!(told.starts_with("More partitions served more: 16 served 3.01×"), "{told}");
        assert!(
            told.ends_with("with 1 the nodes took 1.50 of its 2 processors, and the clients share them."),
            "{told}"
        );
    }

    #[test]
    fn no_gain_is_told_plainly() {
        let same = headline_of(&[(1, &[100.0, 110.0, 90.0]), (4, &[101.0, 95.0, 108.0])]);
        assert!(same.contains("gained nothing on this machine: at best 4 served 1.01×"), "{same}");
        let less = headline_of(&[(1, &[100.0, 101.0, 99.0]), (4, &[80.0, 81.0, 79.0]), (64, &[40.0, 41.0, 39.0])]);
        assert!(less.starts_with("More partitions served less on this machine: 64 served 0.400×"), "{less}");
        let some = headline_of(&[(1, &[100.0, 101.0, 99.0]), (4, &[100.0, 102.0, 99.0]), (64, &[40.0, 41.0, 39.0])]);
        assert!(some.contains("too many cost something: 64 served 0.400×"), "{some}");
    }

    #[test]
    fn what_was_seen_once_tells_little() {
        let once = headline_of(&[(1, &[100.0]), (4, &[300.0])]);
        assert_eq!(once, "More partitions were measured once each, which tells little: 4 served 3.00× of what 1 did.");
        let of_four = told(&record(&[(1, &[100.0]), (4, &[300.0])]), 1).expect("two");
        assert_eq!(of_four[1], "Operations/s against partitions: 100 with 1, 300 with 4 (3.00×).");
        assert_eq!(told(&record(&[(4, &[300.0])]), 1).map(|told| told.len()), None);
    }

    #[test]
    fn by_their_ranks_some_are_not_told_apart() {
        let told = headline_of(&[(1, &[100.0, 101.0, 99.0, 140.0]), (4, &[110.0, 111.0, 112.0, 98.0])]);
        assert!(told.contains("gained nothing"), "{told}");
    }
}
