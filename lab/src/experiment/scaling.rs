//! `scaling`: throughput against clients and against nodes, with the Universal Scalability Law fitted to each, and what an operation
//! costs with more nodes.
//!
//! 1. Clients: on three nodes, step by step half as many again, each held until the standard error of the throughput is small enough.
//! 2. Nodes: fresh clusters of 1, 3 and 5, the same closed loop on each, repeated.
//!
//! More nodes of one replicated partition do not serve more: each has all the data. On a machine with few processors they only share
//! them. What scales without more processors is counted beside: processor time, messages, syncs and bytes for each operation.

use clap::Args;

use super::{Bench, Common, Experiment, Output, spread_in_words, within};
use crate::cluster::System;
use crate::load::ramp::ClientRamp;
use crate::record::{Fit, Measurement, Record};
use crate::report::format::number;
use crate::statistics::usl;

/// Most clients of a step.
const CLIENTS_MAX: u32 = 10_000;
/// Most repeats for each number of nodes.
const REPEATS_MAX: u32 = 50;
/// Most nodes of a cluster.
const NODES_MAX: usize = base::limits::VOTERS_MAX;
/// Longest stretch of one step, in seconds.
const SECONDS_MAX: u32 = 3_600;
/// A law that explains less of the variance than this is said to be unsure.
const EXPLAINED_LEAST: f64 = 0.8;
/// Seconds that a cluster takes to start and to be filled, about.
const START_SECONDS: f64 = 2.0;

/// Arguments of `dictum lab experiment scaling`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  dictum lab experiment scaling\n  dictum lab experiment scaling --short\n  \
    dictum lab experiment scaling --to 200 --nodes 1,3,5,7 -o scaling.html")]
pub struct Scaling {
    /// Clients of the first step.
    #[arg(long, default_value_t = 4)]
    from: u32,
    /// Clients of the last step; each has half as many again as the one before.
    #[arg(long, default_value_t = 1_000)]
    to: u32,
    /// A step is held until the standard error of the throughput is at most so many per cent …
    #[arg(long, default_value_t = 2.0, value_name = "PERCENT")]
    error_bound: f64,
    /// … but at least for so many seconds …
    #[arg(long, default_value_t = 5, value_name = "SECONDS")]
    least: u32,
    /// … and at most for so many.
    #[arg(long, default_value_t = 30, value_name = "SECONDS")]
    most: u32,
    /// Numbers of nodes, one after the other.
    #[arg(long, value_delimiter = ',', default_value = "1,3,5", value_name = "NODES,…")]
    nodes: Vec<u32>,
    /// How often each number of nodes is measured.
    #[arg(long, default_value_t = 3)]
    repeats: u32,
    /// Seconds of each of those.
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Clients on each number of nodes.
    #[arg(long, default_value_t = 64)]
    clients: u32,
    /// What all experiments are told.
    #[command(flatten)]
    common: Common,
}

impl Scaling {
    fn ramp(&self) -> ClientRamp {
        let error_share = self.error_bound / 100.0;
        if self.common.short {
            return ClientRamp { from: 4, to: 14, error_share: 1.0, seconds_min: 1, seconds_max: 1 };
        }
        ClientRamp { from: self.from, to: self.to, error_share, seconds_min: self.least, seconds_max: self.most }
    }

    fn nodes(&self) -> Vec<u32> {
        if self.common.short { vec![1] } else { self.nodes.clone() }
    }

    fn repeats(&self) -> u32 {
        if self.common.short { 1 } else { self.repeats }
    }

    fn seconds(&self) -> f64 {
        if self.common.short { 1.0 } else { self.seconds }
    }

    /// Step by step more clients on three nodes.
    fn sweep(&self, bench: &mut Bench, record: &mut Record) -> Result<(), String> {
        let cluster = bench.start(bench.options(&self.common))?;
        let mut side = cluster.side();
        side.configuration.push(("nodes".to_owned(), "3 while the clients grow; then as the table says".to_owned()));
        record.sides.push(side);
        let workload = bench.workload(&self.common, false)?;
        bench.fill(&bench.load(cluster.as_ref(), &self.common, self.clients)?, &workload)?;
        let ramp = self.ramp();
        for clients in ramp.steps() {
            if bench.is_ending() {
                return Ok(());
            }
            bench.begin_step(&format!("{clients} clients on 3 nodes"));
            let mut load = bench.load(cluster.as_ref(), &self.common, clients)?;
            load.seconds = f64::from(ramp.seconds_max);
            let measured = bench.measure_costs(&load, workload.as_ref(), cluster.as_ref(), &mut |snapshot| {
                let seconds = (snapshot.second + 1).saturating_sub(load.warm_up);
                let settled = snapshot.throughput_error <= snapshot.throughput_mean * ramp.error_share;
                snapshot.warming_up || seconds < ramp.seconds_min || !settled
            });
            let (mut measurement, mut notes) =
                measured.map_err(|reason| format!("{clients} clients on 3 nodes: {reason}"))?;
            if bench.is_ending() {
                return Ok(());
            }
            if measurement.throughput_error > measurement.throughput * ramp.error_share {
                notes.push(format!(
                    "the standard error of the throughput was still {:.1} % after {:.0} s",
                    100.0 * measurement.throughput_error / measurement.throughput.max(1e-9),
                    measurement.seconds
                ));
            }
            measurement.id = format!("clients-{clients}");
            self.keep(measurement, notes, &[("clients", clients), ("nodes", 3)], record);
        }
        Ok(())
    }

    /// The same load on so many nodes.
    fn of_nodes(&self, nodes: u32, bench: &mut Bench, record: &mut Record) -> Result<(), String> {
        let mut options = bench.options(&self.common);
        options.nodes = nodes as usize;
        let cluster = bench.start(options)?;
        let workload = bench.workload(&self.common, false)?;
        let mut load = bench.load(cluster.as_ref(), &self.common, self.clients)?;
        load.seconds = self.seconds();
        bench.fill(&load, &workload)?;
        for repeat in 1..=self.repeats() {
            if bench.is_ending() {
                return Ok(());
            }
            bench.begin_step(&format!(
                "{nodes} node{}, {repeat} of {}",
                if nodes == 1 { "" } else { "s" },
                self.repeats()
            ));
            bench.settle(&cluster)?;
            let (mut measurement, notes) =
                bench.measure_costs(&load, workload.as_ref(), cluster.as_ref(), &mut |_| true)?;
            if bench.is_ending() {
                return Ok(());
            }
            measurement.id = format!("nodes-{nodes}-{repeat}");
            let variables = [("clients", self.clients), ("nodes", nodes), ("repeat", repeat)];
            self.keep(measurement, notes, &variables, record);
        }
        Ok(())
    }

    fn keep(&self, mut measurement: Measurement, notes: Vec<String>, variables: &[(&str, u32)], record: &mut Record) {
        measurement.side = "dictum".to_owned();
        measurement.workload.clone_from(&self.common.workload);
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), value.to_string()));
        measurement.variables = variables.collect();
        record.notes.extend(notes.into_iter().map(|note| format!("{}: {note}", measurement.id)));
        record.measurements.push(measurement);
    }
}

impl Experiment for Scaling {
    fn name(&self) -> &'static str {
        "scaling"
    }

    fn title(&self) -> String {
        "Scaling with clients and nodes".to_owned()
    }

    fn question(&self) -> String {
        "How does the throughput grow with clients and nodes, where is its peak, and what does an operation cost?"
            .to_owned()
    }

    fn output(&self) -> &Output {
        &self.common.output
    }

    fn common(&self) -> Option<&Common> {
        Some(&self.common)
    }

    fn plan(&self) -> Result<(usize, f64), String> {
        within("--from", f64::from(self.from), 1.0, f64::from(self.to))?;
        within("--to", f64::from(self.to), 1.0, f64::from(CLIENTS_MAX))?;
        within("--error-bound", self.error_bound, 0.01, 100.0)?;
        within("--most", f64::from(self.most), 1.0, f64::from(SECONDS_MAX))?;
        within("--least", f64::from(self.least), 1.0, f64::from(self.most))?;
        within("--repeats", f64::from(self.repeats), 1.0, f64::from(REPEATS_MAX))?;
        within("--seconds", self.seconds, 1.0, f64::from(SECONDS_MAX))?;
        for nodes in &self.nodes {
            within("--nodes", f64::from(*nodes), 1.0, NODES_MAX as f64)?;
        }
        let (ramp, nodes) = (self.ramp(), self.nodes().len());
        let (steps, stretches) = (ramp.steps().len(), nodes * self.repeats() as usize);
        // Most steps are known well enough soon after the least time.
        let of_ramp = steps as f64 * (1.1 + f64::from(ramp.seconds_min.midpoint(ramp.seconds_max)));
        let of_nodes = stretches as f64 * (1.2 + self.seconds()) + START_SECONDS * nodes as f64;
        Ok((steps + stretches, START_SECONDS + of_ramp + of_nodes))
    }

    fn carry_out(&self, bench: &mut Bench, record: &mut Record) -> Result<(), String> {
        let mut outcome = self.sweep(bench, record);
        for nodes in self.nodes() {
            if outcome.is_ok() && !bench.is_ending() {
                outcome = self.of_nodes(nodes, bench, record).map_err(|reason| format!("{nodes} nodes: {reason}"));
            }
        }
        fit_laws(record);
        record.findings.extend(costs(record));
        record.notes.push(format!(
            "All nodes and the clients shared this machine's {} processors, and every node has all the data: the curves tell how the \
             system behaves when it is pressed, and not what more machines would serve. The figures for each operation do not depend \
             on that.",
            record.environment.cores
        ));
        outcome
    }
}

/// A variable's value and the throughput, of those measurements that the generator did not set itself.
fn points<'a>(measurements: impl Iterator<Item = &'a Measurement>, variable: &str) -> Vec<(f64, f64)> {
    let counted = measurements.filter(|m| !m.generator.saturated && m.throughput > 0.0);
    counted.filter_map(|m| Some((m.variables.get(variable)?.parse().ok()?, m.throughput))).collect()
}

/// Fits the law to both parts. What cannot be fitted is said in the notes.
fn fit_laws(record: &mut Record) {
    let repeated = |m: &&Measurement| m.variables.contains_key("repeat");
    let sweep = points(record.measurements.iter().filter(|m| !repeated(m)), "clients");
    let nodes = points(record.measurements.iter().filter(repeated), "nodes");
    for (variable, points) in [("clients", sweep), ("nodes", nodes)] {
        match usl::fit("dictum", variable, &points) {
            Ok(fit) => {
                record.findings.push(told(&fit));
                record.fits.push(fit);
            }
            Err(reason) => record.notes.push(format!("No law is drawn against {variable}: {reason}.")),
        }
    }
}

/// A fit in a sentence.
fn told(fit: &Fit) -> String {
    let limits = |limits: &crate::record::Limits| {
        format!("{} ({} to {})", number(limits.value), number(limits.low), number(limits.high))
    };
    let most = fit.points.iter().map(|(n, _)| *n).fold(0.0, f64::max);
    let peak = match fit.peak_at {
        Some(peak) if peak > most => {
            format!("the law's peak, at {} {}, is beyond what was measured", number(peak), fit.variable)
        }
        Some(peak) if peak > 1.0 => {
            format!(
                "greatest at {} {} with {} operations/s",
                number(peak),
                fit.variable,
                number(usl::law_of(fit).at(peak))
            )
        }
        Some(_) => "greatest at one, and less with each further one".to_owned(),
        None => "no peak".to_owned(),
    };
    let unsure = if fit.r_squared < EXPLAINED_LEAST { ", too little to rely on its constants" } else { "" };
    format!(
        "Against {}: σ {}, κ {}; {peak}; the law explains {:.0} % of the variance{unsure}.",
        fit.variable,
        limits(&fit.sigma),
        limits(&fit.kappa),
        100.0 * fit.r_squared
    )
}

/// What an operation costs with so many nodes, in a sentence for each.
fn costs(record: &Record) -> Vec<String> {
    let repeated = || record.measurements.iter().filter(|m| m.variables.contains_key("repeat"));
    let mut nodes: Vec<u32> = repeated().filter_map(|m| m.variables.get("nodes")?.parse().ok()).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let figures = [
        ("cpu_us_per_operation", "µs of processor time"),
        ("messages_per_operation", "messages"),
        ("message_bytes_per_operation", "bytes between nodes"),
        ("fsyncs_per_operation", "syncs"),
        ("bytes_written_per_operation", "bytes to disks"),
    ];
    let told = |nodes: u32| {
        let of = |m: &&Measurement| m.variables.get("nodes").is_some_and(|value| *value == nodes.to_string());
        let parts: Vec<String> = figures
            .iter()
            .filter_map(|(name, unit)| {
                let values: Vec<f64> = repeated().filter(of).filter_map(|m| m.counters.get(*name).copied()).collect();
                spread_in_words(&values, unit)
            })
            .collect();
        let word = if nodes == 1 { "node" } else { "nodes" };
        (!parts.is_empty()).then(|| format!("An operation on {nodes} {word} costs {}.", parts.join(", ")))
    };
    nodes.into_iter().filter_map(told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(variables: &[(&str, &str)], throughput: f64) -> Measurement {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Measurement { variables, throughput, ..Measurement::default() }
    }

    #[test]
    fn both_laws_are_fitted_to_their_own_points() {
        let mut record = Record::default();
        let law = usl::Law { lambda: 100.0, sigma: 0.05, kappa: 0.001 };
        for clients in [1, 2, 4, 8, 16, 64] {
            let clients = clients.to_string();
            record
                .measurements
                .push(measured(&[("clients", &clients), ("nodes", "3")], law.at(clients.parse().expect("a number"))));
        }
        for nodes in ["1", "3", "5"] {
            for repeat in ["1", "2"] {
                let mut measurement = measured(
                    &[("clients", "64"), ("nodes", nodes), ("repeat", repeat)],
                    900.0 / nodes.parse::<f64>().expect("a number"),
                );
                measurement.counters.insert("fsyncs_per_operation".to_owned(), nodes.parse().expect("a number"));
                record.measurements.push(measurement);
            }
        }
        let mut saturated = measured(&[("clients", "128"), ("nodes", "3")], 1.0);
        saturated.generator.saturated = true;
        record.measurements.push(saturated);
        fit_laws(&mut record);
        assert_eq!((record.fits[0].points.len(), record.fits[1].points.len()), (6, 6));
        assert!((record.fits[0].kappa.value - 0.001).abs() < 1e-6, "{:?}", record.fits[0]);
        assert!(record.findings[0].contains("greatest at 30.8 clients"), "{}", record.findings[0]);
        assert_eq!(costs(&record)[2], "An operation on 5 nodes costs 5.00 syncs (each of 2).");
        assert!(costs(&record)[0].starts_with("An operation on 1 node costs"));
    }

    #[test]
    fn too_few_points_are_said() {
        let mut record =
            Record { measurements: vec![measured(&[("clients", "4"), ("nodes", "3")], 9.0)], ..Record::default() };
        fit_laws(&mut record);
        assert!(record.fits.is_empty() && record.notes.len() == 2 && record.notes[0].contains("clients"));
    }
}
