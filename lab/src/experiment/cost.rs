//! `cost`: what size of machine is worth its price, from records of the same load on several machines.
//!
//! Measurements are compared that were carried out alike on every machine: workload, variables, clients, arrivals and rate. Repeats
//! count as one, by their middle figures.
//!
//! - **Price for a million operations** = price for an hour / (operations a second × 3,600) × 1,000,000. Of a closed loop that is what
//!   the machine can do at most; of an open loop it is at the rate that was asked for.
//! - **Inflection**: machines in the order of their price (of their processors and memory, where a price is missing), x the price, y the
//!   p99, both from 0 to 1 between the first and the last machine. It is the machine farthest below the straight line from the first to
//!   the last: up to there each further coin buys much of a better tail, beyond it buys little. No machine below the line by a tenth or
//!   more: no inflection (the method of Satopää and others, "Finding a Kneedle in a Haystack", 2011, without its smoothing).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;

use super::{Bench, Experiment, Output};
use crate::record::{Environment, Measurement, Record};
use crate::report::chart::dots::median;
use crate::report::compare::p99;
use crate::report::format;
use crate::store;

/// Most records that are put together.
const RUNS_MAX: usize = 50;
/// So far, as a share of both axes, an inflection lies below the line.
const KNEE_LEAST: f64 = 0.1;
/// The word in the sentence that answers the question.
pub(crate) const INFLECTION: &str = "inflection of p99";
/// Greatest price for an hour.
const PRICE_MAX: f64 = 1e6;

/// Arguments of `dictum lab experiment cost`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  dictum lab experiment cost m5.large=run-1 m5.xlarge=run-2 m5.2xlarge=run-3 \\\n    \
    --price m5.large=0.096 --price m5.xlarge=0.192 --price m5.2xlarge=0.384 -o cost.html"
)]
pub struct Cost {
    /// Folders of runs, one for each machine, as NAME=FOLDER; without a name the machine is called by its size.
    #[arg(required = true, value_name = "[NAME=]RUN", num_args = 2..=RUNS_MAX)]
    runs: Vec<String>,
    /// What a machine costs for an hour, in any currency.
    #[arg(long, value_name = "NAME=PRICE")]
    price: Vec<String>,
    /// Where the results go.
    #[command(flatten)]
    output: Output,
}

/// One machine with its record.
#[derive(Clone, Debug)]
struct Machine {
    name: String,
    price: Option<f64>,
    record: Record,
}

impl Cost {
    fn prices(&self) -> Result<BTreeMap<String, f64>, String> {
        let read = |text: &String| {
            let wrong = || format!("--price {text}: write NAME=PRICE, such as m5.large=0.096, above 0");
            let (name, price) = text.rsplit_once('=').ok_or_else(wrong)?;
            let price = price.trim().parse::<f64>().ok().filter(|price| *price > 0.0 && *price <= PRICE_MAX);
            Ok((name.to_owned(), price.ok_or_else(wrong)?))
        };
        self.price.iter().map(read).collect()
    }

    /// Names and folders. What has a `/` before its `=` is all folder.
    fn folders(&self) -> Vec<(Option<String>, PathBuf)> {
        let split = |text: &String| match text.split_once('=') {
            Some((name, path)) if !name.contains('/') => (Some(name.to_owned()), PathBuf::from(path)),
            _ => (None, PathBuf::from(text)),
        };
        self.runs.iter().map(split).collect()
    }

    fn machines(&self, read: impl Fn(&Path) -> Result<Record, String>) -> Result<Vec<Machine>, String> {
        let mut prices = self.prices()?;
        let mut machines: Vec<Machine> = Vec::new();
        for (name, folder) in self.folders() {
            let record = read(&folder)?;
            let name = name.unwrap_or_else(|| size(&record.environment));
            if machines.iter().any(|machine| machine.name == name) {
                return Err(format!("two machines are called {name}: write NAME=FOLDER for {}", folder.display()));
            }
            machines.push(Machine { price: prices.remove(&name), name, record });
        }
        if let Some(name) = prices.keys().next() {
            let names: Vec<&str> = machines.iter().map(|machine| machine.name.as_str()).collect();
            return Err(format!("--price {name}: there is no such machine; write one of {}", names.join(", ")));
        }
        // From the smallest to the largest, in the pictures too.
        let key = |machine: &Machine| {
            let environment = &machine.record.environment;
            (machine.price.unwrap_or(0.0), environment.cores, environment.memory_bytes)
        };
        machines.sort_by(|a, b| key(a).partial_cmp(&key(b)).unwrap_or(std::cmp::Ordering::Equal));
        Ok(machines)
    }
}

impl Experiment for Cost {
    fn name(&self) -> &'static str {
        "cost"
    }

    fn title(&self) -> String {
        "Size of machine, tail and price".to_owned()
    }

    fn question(&self) -> String {
        "How does a larger machine change the tail and the price of an operation, and from which on is it no longer worth it?".to_owned()
    }

    fn output(&self) -> &Output {
        &self.output
    }

    fn common(&self) -> Option<&super::Common> {
        None
    }

    fn plan(&self) -> Result<(usize, f64), String> {
        self.prices().map(|_| (1, 0.0))
    }

    fn carry_out(&self, _: &mut Bench, record: &mut Record) -> Result<(), String> {
        put_together(&self.machines(store::read)?, record)
    }
}

/// `2 cores, 8 GiB`.
fn size(environment: &Environment) -> String {
    let memory = environment.memory_bytes as f64 / f64::from(1 << 30);
    let memory = if environment.memory_bytes > 0 { format!(", {memory:.0} GiB") } else { String::new() };
    format!("{} core{}{memory}", environment.cores, if environment.cores == 1 { "" } else { "s" })
}

/// What must be alike for two measurements to be compared, in words.
fn setting(measurement: &Measurement) -> String {
    let variables = measurement.variables.iter().filter(|(name, _)| !crate::report::gather::is_repeat(name));
    let mut words = vec![measurement.workload.clone(), measurement.side.clone()];
    words.extend(variables.filter(|(name, _)| *name != "clients").map(|(name, value)| format!("{name} {value}")));
    words.push(format!("{} clients, {}", measurement.clients, crate::report::gather::rate(measurement)));
    words.retain(|word| !word.is_empty());
    words.join(", ")
}

/// The middle throughput and p99 of a machine in one setting, of what its generator did not set itself.
fn figures(machine: &Machine, wanted: &str) -> Option<(f64, f64)> {
    let counted = || machine.record.measurements.iter().filter(|m| setting(m) == wanted && !m.generator.saturated);
    let rates: Vec<f64> = counted().map(|m| m.throughput).filter(|rate| *rate > 0.0).collect();
    let tails: Vec<f64> = counted().filter_map(p99).collect();
    Some((median(&rates)?, median(&tails)?))
}

fn price_per_million(price: f64, throughput: f64) -> f64 {
    price / (throughput * 3_600.0) * 1e6
}

/// Fills the record in.
fn put_together(machines: &[Machine], record: &mut Record) -> Result<(), String> {
    let first = machines.first().ok_or("no run was given")?;
    let mut settings: Vec<String> = Vec::new();
    for measurement in &first.record.measurements {
        let setting = setting(measurement);
        if !settings.contains(&setting) && machines.iter().all(|machine| figures(machine, &setting).is_some()) {
            settings.push(setting);
        }
    }
    if settings.is_empty() {
        return Err("no setting was measured on every machine without a saturated generator: carry out the same command on each, \
                    such as dictum lab run ycsb-a --clients 64 --seconds 60"
            .to_owned());
    }
    record.environment = first.record.environment.clone();
    record.sides = first.record.sides.clone();
    for (index, machine) in machines.iter().enumerate() {
        let environment = &machine.record.environment;
        for measurement in machine.record.measurements.iter().filter(|m| settings.contains(&setting(m))) {
            let mut measurement = measurement.clone();
            measurement.id = format!("m{}.{}", index + 1, measurement.id);
            measurement.variables.insert("machine".to_owned(), machine.name.clone());
            let counters = &mut measurement.counters;
            // What an operation costs in money stands alone: the rest is in the runs' own reports.
            counters.clear();
            counters.insert("cores".to_owned(), f64::from(environment.cores));
            counters.insert("memory_gib".to_owned(), environment.memory_bytes as f64 / f64::from(1 << 30));
            if let Some(price) = machine.price {
                counters.insert("price_per_hour".to_owned(), price);
                if measurement.throughput > 0.0 {
                    counters.insert(
                        "price_per_million_operations".to_owned(),
                        price_per_million(price, measurement.throughput),
                    );
                }
            }
            record.measurements.push(measurement);
        }
        record.notes.push(format!(
            "{}: {} ({}), {}, {}, disk {} (4 KiB and fdatasync: median {}), measured {}.",
            machine.name,
            environment.cpu,
            size(environment),
            environment.kernel,
            machine.price.map_or_else(|| "no price given".to_owned(), |price| format!("{price} for an hour")),
            environment.disk,
            format::duration(environment.fsync_p50 as f64),
            format::date(machine.record.started_ms)
        ));
        record.notes.extend(machine.record.notes.iter().map(|note| format!("{}: {note}", machine.name)));
    }
    let several = settings.len() > 1;
    for setting in &settings {
        let told = findings(machines, setting);
        record.findings.extend(told.into_iter().map(|told| if several { format!("{setting}: {told}") } else { told }));
    }
    if several {
        record.notes.push(format!("{} settings were measured on every machine; others are left out.", settings.len()));
    }
    Ok(())
}

/// What came out in one setting, in sentences.
fn findings(machines: &[Machine], setting: &str) -> Vec<String> {
    let known: Vec<(&Machine, f64, f64)> = machines
        .iter()
        .filter_map(|machine| figures(machine, setting).map(|(rate, tail)| (machine, rate, tail)))
        .collect();
    let mut findings: Vec<String> = known
        .iter()
        .map(|(machine, rate, tail)| {
            let price = machine.price.map_or_else(String::new, |price| {
                format!(", {} for a million operations", format::number(price_per_million(price, *rate)))
            });
            format!("{}: {} operations/s, p99 {}{price}.", machine.name, format::number(*rate), format::duration(*tail))
        })
        .collect();
    let priced: Vec<(&str, f64)> =
        known.iter().filter_map(|(m, rate, _)| Some((m.name.as_str(), price_per_million(m.price?, *rate)))).collect();
    if let Some((name, _)) = priced.iter().min_by(|a, b| a.1.total_cmp(&b.1)).filter(|_| priced.len() > 1) {
        findings.push(format!("The cheapest operation is that of {name}."));
    }
    let (axis, xs): (&str, Vec<f64>) = if known.iter().all(|(machine, ..)| machine.price.is_some()) {
        ("price", known.iter().filter_map(|(machine, ..)| machine.price).collect())
    } else {
        ("cores", known.iter().map(|(machine, ..)| f64::from(machine.record.environment.cores)).collect())
    };
    let points: Vec<(f64, f64)> = xs.into_iter().zip(known.iter().map(|(.., tail)| *tail)).collect();
    findings.push(match knee(&points) {
        Ok(Some(place)) => format!(
            "The {INFLECTION} against {axis} is at {}: up to it a larger machine buys much of a better tail, beyond it little.",
            known[place].0.name
        ),
        Ok(None) => format!("There is no {INFLECTION} against {axis}: no machine lies a tenth below the line from the first to the last."),
        Err(reason) => format!("No {INFLECTION} against {axis}: {reason}."),
    });
    findings
}

/// The place of the knee of a falling curve, in order of x: the point farthest below the line from the first to the last, both axes
/// taken from 0 to 1; none if no point is [`KNEE_LEAST`] below it.
///
/// # Errors
/// Why there cannot be one.
pub(crate) fn knee(points: &[(f64, f64)]) -> Result<Option<usize>, &'static str> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return Err("there is no machine") };
    if points.len() < 3 {
        return Err("it takes three machines or more");
    }
    if !points.is_sorted_by(|a, b| a.0 <= b.0) || last.0 <= first.0 {
        return Err("the machines do not differ in size");
    }
    if last.1 >= first.1 {
        return Err("the largest machine has no better tail than the smallest");
    }
    let below = points.iter().map(|(x, y)| {
        let (x, y) = ((x - first.0) / (last.0 - first.0), (y - last.1) / (first.1 - last.1));
        // The line goes from (0, 1) to (1, 0).
        (1.0 - x) - y
    });
    let deepest = below.enumerate().max_by(|a, b| a.1.total_cmp(&b.1));
    Ok(deepest.filter(|(_, depth)| *depth >= KNEE_LEAST).map(|(place, _)| place))
}

#[cfg(test)]
mod tests;
