//! How long nothing was answered after something happened: what a failover costs those who wait.

use std::collections::BTreeMap;

use super::chart::Figure;
use super::chart::dots::{self, Row};
use super::gather::{self, Names};
use crate::record::{Mark, Measurement, Record};

/// Most marks of a measurement that are looked at.
pub const MARKS_MAX: usize = 10_000;

/// So much before its mark a silence may begin, in milliseconds: it begins with the last answer, and the mark is written afterwards.
const EARLY_MS: f64 = 50.0;

/// A mark and the longest stretch without an answer that began with it or after it, before the next mark.
#[derive(Clone, Debug, PartialEq)]
pub struct Silence {
    /// [`crate::record::Mark::what`], without the names of nodes.
    pub what: String,
    /// Milliseconds.
    pub length_ms: f64,
}

/// What happened, without names of nodes: `n2 killed` and `n1 killed` are the same kind of thing. A name is a letter and a number.
pub fn kind(what: &str) -> String {
    let node = |word: &str| {
        let word = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        let rest = word.strip_prefix(|first: char| first.is_ascii_lowercase());
        rest.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
    };
    // What a node was stands behind its name in parentheses: `n2 (leader) killed`.
    let bare = |word| if word == "(leader)" { "leader" } else { word };
    let mut words: Vec<&str> = Vec::new();
    let mut all = what.split_whitespace().peekable();
    while let Some(word) = all.next() {
        let next = all.peek().copied().unwrap_or_default();
        if node(word) {
            // `of n2` goes with the name.
            words.pop_if(|last| *last == "of");
        } else if word.parse::<f64>().is_ok() && matches!(next, "ms" | "s" | "%") {
            // However much it was, it is the same kind of thing.
            all.next();
        } else if word != "and" {
            words.push(bare(word));
        }
    }
    // What an amount was of goes with it: `noise of 50 %`.
    words.pop_if(|last| *last == "of");
    words.join(" ").trim_matches([',', ':', ' ']).to_owned()
}

/// Whether this kind of mark only tells what followed: another node leads, one has caught up. Nobody did that to the system.
pub fn is_consequence(kind: &str) -> bool {
    matches!(kind, "leads" | "is current")
}

/// The silences of a measurement, in order of its marks. A mark after which everything was answered has none.
pub fn silences(measurement: &Measurement) -> Vec<Silence> {
    let mut marks: Vec<_> = measurement.marks.iter().filter(|mark| mark.at_ms.is_finite()).take(MARKS_MAX).collect();
    marks.sort_by(|a, b| a.at_ms.total_cmp(&b.at_ms));
    let mut longest = vec![0.0; marks.len()];
    for gap in measurement.gaps.iter().filter(|gap| gap.at_ms.is_finite() && gap.length_ms.is_finite()) {
        let began = |at: f64| at <= gap.at_ms + EARLY_MS && at < gap.at_ms + gap.length_ms;
        let Some(last) = marks.iter().rposition(|mark| began(mark.at_ms)) else { continue };
        // What was done at the same moment has silenced them, and not what followed from something before.
        let done = |mark: &Mark| !is_consequence(&kind(&mark.what)) && mark.at_ms + EARLY_MS > gap.at_ms;
        let place = marks[..=last].iter().rposition(|mark| done(mark)).unwrap_or(last);
        longest[place] = f64::max(longest[place], gap.length_ms);
    }
    let pairs = marks.into_iter().zip(longest).filter(|(_, length_ms)| *length_ms > 0.0);
    pairs.map(|(mark, length_ms)| Silence { what: kind(&mark.what), length_ms }).collect()
}

/// The silences of a record, in nanoseconds, by what happened and what was measured.
pub fn rows(record: &Record) -> Vec<Row> {
    let names = Names::new(record);
    let several = gather::groups(record).len() > 1;
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let mut rows: Vec<Row> = Vec::new();
    for measurement in &record.measurements {
        for silence in silences(measurement) {
            let label = names.of(measurement, false);
            // `leader killed` says all that `killed` would.
            let name = if several && !silence.what.contains(&label) {
                format!("{label}: {}", silence.what)
            } else {
                silence.what
            };
            let place = *places.entry(name.clone()).or_insert(rows.len());
            if place == rows.len() {
                rows.push(Row { name, values: Vec::new() });
            }
            rows[place].values.push(silence.length_ms * 1e6);
        }
    }
    rows
}

/// A dot for each silence.
pub fn draw(record: &Record) -> Vec<Figure> {
    let caption = "The longest stretch without any answer after each time that it happened.";
    dots::figure("How long nobody was answered", "silence", &rows(record), caption).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Gap;

    #[test]
    fn names_of_nodes_do_not_make_another_kind() {
        assert_eq!(kind("n2 killed"), "killed");
        assert_eq!(kind("e3 (leader) killed"), "leader killed", "a node of etcd");
        assert_eq!(kind("leader n10 killed"), "leader killed");
        assert_eq!(kind("n1 (leader) killed"), "leader killed");
        assert_eq!(kind("leader (n1) paused"), "leader paused");
        assert_eq!(kind("network cut"), "network cut");
        assert_eq!(kind("messages of n1 take 56 ms longer"), "messages take longer");
        assert_eq!(kind("syncs of n3 take no longer"), "syncs take no longer");
        assert_eq!(kind("noise of 50 % and 50 %"), "noise");
    }

    #[test]
    fn what_followed_from_something_before_silences_nobody() {
        let mark = |at_ms: f64, what: &str| Mark { at_ms, what: what.into() };
        let measurement = Measurement {
            marks: vec![
                mark(1_000.0, "n1 (leader) cut off"),
                mark(1_002.0, "n2 is current"),
                mark(3_000.0, "n1 leads"),
            ],
            gaps: vec![Gap { at_ms: 1_009.0, length_ms: 3_105.0 }, Gap { at_ms: 3_500.0, length_ms: 20.0 }],
            ..Measurement::default()
        };
        let told: Vec<(String, f64)> = silences(&measurement).into_iter().map(|s| (s.what, s.length_ms)).collect();
        assert_eq!(told, [("leader cut off".to_owned(), 3_105.0), ("leads".to_owned(), 20.0)]);
    }

    #[test]
    fn each_silence_belongs_to_the_mark_before_it() {
        let mark = |at_ms: f64, what: &str| Mark { at_ms, what: what.into() };
        let gap = |at_ms: f64, length_ms: f64| Gap { at_ms, length_ms };
        let measurement = Measurement {
            marks: vec![mark(1_000.0, "n1 killed"), mark(3_000.0, "n1 back"), mark(5_000.0, "n2 killed")],
            gaps: vec![gap(998.0, 512.0), gap(1_800.0, 20.0), gap(5_001.0, 430.0)],
            ..Measurement::default()
        };
        let lengths: Vec<(String, f64)> = silences(&measurement).into_iter().map(|s| (s.what, s.length_ms)).collect();
        assert_eq!(lengths, [("killed".to_owned(), 512.0), ("killed".to_owned(), 430.0)]);
    }
}
