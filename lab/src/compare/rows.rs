//! The rows of a comparison: which work, and which figure of it is compared.

use crate::record::Measurement;
use crate::workload::{Parameters, parse_mix};

/// Bytes of a plain value.
const VALUE_BYTES: usize = 256;
/// Writers on all nodes while a leader is killed.
const KILL_CLIENTS: u32 = 32;

/// The figure of a measurement that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Operations a second: more is better.
    Throughput,
    /// The latency that half the operations do not exceed, in milliseconds: less is better.
    Median,
    /// The longest time without an answer, in milliseconds: less is better.
    LongestGap,
}

impl Figure {
    /// Its unit.
    #[must_use]
    pub fn unit(self) -> &'static str {
        match self {
            Figure::Throughput => "operations/s",
            Figure::Median | Figure::LongestGap => "ms",
        }
    }

    /// It, of a measurement. None if the load generator says that it was saturated: then it is not the side's.
    #[must_use]
    pub fn of(self, measurement: &Measurement) -> Option<f64> {
        if measurement.generator.saturated {
            return None;
        }
        let figure = match self {
            Figure::Throughput => measurement.throughput,
            Figure::Median => {
                let most = measurement.operations.values().max_by_key(|of| of.count)?;
                most.latency.p50 as f64 / 1e6
            }
            Figure::LongestGap => measurement.gaps.iter().map(|gap| gap.length_ms).fold(0.0, f64::max),
        };
        (figure > 0.0).then_some(figure)
    }
}

/// Load on the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// One of [`crate::workload::SHAPES`].
    pub workload: &'static str,
    /// [`Parameters::mix`], as [`parse_mix`] reads it; empty for the workload's own.
    pub mix: &'static str,
    /// Clients.
    pub clients: u32,
    /// Operations of each that are under way at once.
    pub pipeline: u32,
}

impl Shape {
    /// Whether it works on plain values, and not on records of fields.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.workload == "puts-gets"
    }

    /// What is to be there before, in words; the same words, the same content.
    #[must_use]
    pub fn records_of(&self) -> &'static str {
        if self.is_plain() { "plain values" } else { "records" }
    }

    /// Whether it writes.
    #[must_use]
    pub fn writes(&self) -> bool {
        self.mix != "get=1" && self.workload != "ycsb-c"
    }

    /// The parameters with so many plain values, and so many records of YCSB's.
    ///
    /// # Errors
    /// Never for the rows that there are.
    pub fn parameters(&self, keys: u64, records: u64) -> Result<Parameters, String> {
        Ok(Parameters {
            records: Some(if self.is_plain() { keys } else { records }),
            field_bytes: self.is_plain().then_some(VALUE_BYTES),
            mix: if self.mix.is_empty() { None } else { Some(parse_mix(self.mix)?) },
            seed: 1,
            ..Parameters::default()
        })
    }
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Load.
    Load(Shape),
    /// Writes on all nodes, whose leader is killed on the way.
    Kill,
}

/// One row.
#[derive(Debug, PartialEq, Eq)]
pub struct Row {
    /// The word that it is called by.
    pub name: &'static str,
    /// What it is, for people.
    pub title: &'static str,
    /// The work, as a measurement names it.
    pub work_name: &'static str,
    /// What is compared.
    pub figure: Figure,
    /// What is done.
    pub work: Work,
}

impl Row {
    /// The load: of [`Work::Kill`], that of its writers.
    #[must_use]
    pub fn load(&self) -> Shape {
        match self.work {
            Work::Load(shape) => shape,
            Work::Kill => plain("put=1", KILL_CLIENTS, 1),
        }
    }

    /// Names the work in its measurement.
    pub fn describe(&self, measurement: &mut Measurement) {
        measurement.workload = self.work_name.to_owned();
        let pipeline = self.load().pipeline;
        if pipeline > 1 {
            measurement.variables.insert("pipeline".to_owned(), pipeline.to_string());
        }
    }
}

const fn plain(mix: &'static str, clients: u32, pipeline: u32) -> Shape {
    Shape { workload: "puts-gets", mix, clients, pipeline }
}

const fn row(name: &'static str, title: &'static str, work_name: &'static str, figure: Figure, load: Shape) -> Row {
    Row { name, title, work_name, figure, work: Work::Load(load) }
}

const fn ycsb(name: &'static str, title: &'static str) -> Row {
    row(name, title, name, Figure::Throughput, Shape { workload: name, mix: "", clients: 64, pipeline: 1 })
}

/// All rows. Plain values have 256 bytes, YCSB's records ten fields of 100.
pub const ROWS: &[Row] = &[
    row("set1", "SET, 1 client, p50", "set", Figure::Median, plain("put=1", 1, 1)),
    row("set256", "SET, 256 clients", "set", Figure::Throughput, plain("put=1", 256, 1)),
    row("set50x16", "SET, 50 clients, pipeline 16", "set", Figure::Throughput, plain("put=1", 50, 16)),
    row("get256", "GET, 256 clients", "get", Figure::Throughput, plain("get=1", 256, 1)),
    row("get50x16", "GET, 50 clients, pipeline 16", "get", Figure::Throughput, plain("get=1", 50, 16)),
    ycsb("ycsb-a", "YCSB A, 64 clients"),
    ycsb("ycsb-b", "YCSB B, 64 clients"),
    ycsb("ycsb-c", "YCSB C, 64 clients"),
    Row {
        name: "kill",
        title: "kill -9 of the leader under load: longest gap",
        work_name: "set-leader-killed",
        figure: Figure::LongestGap,
        work: Work::Kill,
    },
];

/// The rows of these names, separated by commas, in the order of [`ROWS`].
///
/// # Errors
/// A sentence with the names that there are.
pub fn parse(text: &str) -> Result<Vec<&'static Row>, String> {
    let asked: Vec<&str> = text.split(',').map(str::trim).collect();
    let names: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
    if let Some(other) = asked.iter().find(|name| !names.contains(name)) {
        return Err(format!("there is no row `{other}`: write some of {}", names.join(",")));
    }
    Ok(ROWS.iter().filter(|row| asked.contains(&row.name)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Gap, Generator, Operation, Spread};
    use crate::workload::find;

    #[test]
    fn rows_are_read_in_their_order() {
        let names: Vec<&str> = parse("kill, set1").unwrap().iter().map(|row| row.name).collect();
        assert_eq!(names, ["set1", "kill"]);
        assert!(parse("set2").unwrap_err().contains("set1,set256"));
    }

    #[test]
    fn every_row_is_work_that_can_be_built() {
        for row in ROWS {
            let load = row.load();
            let workload = (find(load.workload).unwrap().build)(&load.parameters(10, 20).unwrap()).unwrap();
            assert_eq!(workload.records(), if load.is_plain() { 10 } else { 20 }, "{}", row.name);
        }
    }

    #[test]
    fn figures_are_those_of_the_side_or_none() {
        let latency = Spread { p50: 1_500_000, ..Spread::default() };
        let mut measurement = Measurement {
            throughput: 10.0,
            operations: [("put".to_owned(), Operation { count: 5, latency, ..Operation::default() })].into(),
            gaps: vec![Gap { at_ms: 1.0, length_ms: 7.0 }, Gap { at_ms: 9.0, length_ms: 5.0 }],
            ..Measurement::default()
        };
        let all = [Figure::Throughput, Figure::Median, Figure::LongestGap];
        assert_eq!(all.map(|figure| figure.of(&measurement)), [Some(10.0), Some(1.5), Some(7.0)]);
        measurement.generator = Generator { saturated: true, ..Generator::default() };
        assert_eq!(all.map(|figure| figure.of(&measurement)), [None; 3]);
    }
}
