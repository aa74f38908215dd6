//! `scaling`: throughput against clients, partitions and nodes, with the Universal Scalability Law fitted to each, and what an operation
//! costs with more partitions and more nodes.
//!
//! 1. Clients: on three nodes, step by step half as many again, each held until the standard error of the throughput is small enough.
//! 2. Partitions: on the same three nodes fresh buckets of 1, 4, 16 and 64, one after the other, each held in the same way, repeated.
//! 3. Nodes: fresh clusters of 1, 3 and 5, the same closed loop on each, repeated.
//!
//! More nodes of one replicated partition do not serve more: each has all the data. More partitions have more leaders, which do serve more
//! where there are processors for them. On a machine with few processors they only share them. What scales without more processors is
//! counted beside: processor time, messages, syncs and bytes for each operation.

mod laws;
mod partitions;

use clap::{Args, ValueEnum};

use super::proof::Verdicts;
use super::{Bench, Common, Experiment, Output, within};
use crate::beside::{Beside, CheckArguments};
use crate::cluster::{Cluster, System};
use crate::load::ramp::ClientRamp;
use crate::load::{Load, Measured};
use crate::record::{Measurement, Record};
use crate::report::gather::note_name;
use crate::workload::Workload;
pub use partitions::PARTITIONS_TOLD;

/// Most clients of a step.
const CLIENTS_MAX: u32 = 10_000;
/// Most repeats for each number of nodes.
const REPEATS_MAX: u32 = 50;
/// Most nodes of a cluster.
const NODES_MAX: usize = base::limits::VOTERS_MAX;
/// Longest stretch of one step, in seconds.
const SECONDS_MAX: u32 = 3_600;
/// Most partitions of a bucket.
const PARTITIONS_MAX: u16 = base::limits::PARTITIONS_MAX;
/// Seconds that a cluster takes to start and to be filled, about.
const START_SECONDS: f64 = 1.5;
/// Seconds that a bucket takes to be made and filled, about.
const BUCKET_SECONDS: f64 = 0.5;

/// Arguments of `dictum lab experiment scaling`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  dictum lab experiment scaling\n  dictum lab experiment scaling --short\n  \
    dictum lab experiment scaling --to 200 --nodes 1,3,5,7 -o scaling.html\n  \
    dictum lab experiment scaling --parts partitions --partitions 1,8,64,256 --partition-clients 512 --check")]
pub struct Scaling {
    /// What is varied, one after the other; by default all of it.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "clients,partitions,nodes", value_name = "PART,…")]
    parts: Vec<Part>,
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
    /// Numbers of partitions of a bucket on three nodes, one after the other; each is held as a step of clients is.
    #[arg(long, value_delimiter = ',', default_value = "1,4,16,64", value_name = "PARTITIONS,…")]
    partitions: Vec<u32>,
    /// Clients on each number of partitions: enough that each partition has some at any time.
    #[arg(long, default_value_t = 256, value_name = "CLIENTS")]
    partition_clients: u32,
    /// Numbers of nodes, one after the other.
    #[arg(long, value_delimiter = ',', default_value = "1,3,5", value_name = "NODES,…")]
    nodes: Vec<u32>,
    /// How often each number of partitions and of nodes is measured.
    #[arg(long, default_value_t = 3)]
    repeats: u32,
    /// Seconds of each number of nodes.
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Clients on each number of nodes.
    #[arg(long, default_value_t = 64)]
    clients: u32,
    #[command(flatten)]
    check: CheckArguments,
    /// What all experiments are told.
    #[command(flatten)]
    common: Common,
}

/// What can be varied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Step by step more clients.
    Clients,
    /// Buckets of more and more partitions.
    Partitions,
    /// Clusters of more and more nodes.
    Nodes,
}

impl Scaling {
    fn has(&self, part: Part) -> bool {
        self.parts.contains(&part)
    }

    fn ramp(&self) -> ClientRamp {
        let error_share = self.error_bound / 100.0;
        if self.common.short {
            return ClientRamp { from: 4, to: 6, error_share: 1.0, seconds_min: 1, seconds_max: 1 };
        }
        ClientRamp { from: self.from, to: self.to, error_share, seconds_min: self.least, seconds_max: self.most }
    }

    /// Clients of each step.
    fn steps(&self) -> Vec<u32> {
        if self.has(Part::Clients) { self.ramp().steps() } else { Vec::new() }
    }

    fn partitions(&self) -> Vec<u32> {
        match (self.has(Part::Partitions), self.common.short) {
            (false, _) => Vec::new(),
            (true, true) => vec![1, 4],
            (true, false) => self.partitions.clone(),
        }
    }

    fn nodes(&self) -> Vec<u32> {
        match (self.has(Part::Nodes), self.common.short) {
            (false, _) => Vec::new(),
            (true, true) => vec![1],
            (true, false) => self.nodes.clone(),
        }
    }

    fn repeats(&self) -> u32 {
        if self.common.short { 1 } else { self.repeats }
    }

    fn seconds(&self) -> f64 {
        if self.common.short { 1.0 } else { self.seconds }
    }

    /// A stretch that is held until its throughput is known well enough. None if it was ended early.
    fn held(
        &self,
        bench: &mut Bench,
        mut load: Load,
        workload: &dyn Workload,
        cluster: &Cluster,
        beside: Option<&Beside>,
    ) -> Result<Option<Measured>, String> {
        let ramp = self.ramp();
        load.seconds = f64::from(ramp.seconds_max);
        let measured = bench.measure_costs(&load, workload, cluster, beside, &mut |snapshot| {
            let seconds = (snapshot.second + 1).saturating_sub(load.warm_up);
            let settled = snapshot.throughput_error <= snapshot.throughput_mean * ramp.error_share;
            snapshot.warming_up || seconds < ramp.seconds_min || !settled
        });
        let (measurement, mut notes) = measured?;
        if bench.is_ending() {
            return Ok(None);
        }
        if measurement.throughput_error > measurement.throughput * ramp.error_share {
            notes.push(format!(
                "the standard error of the throughput was still {:.1} % after {:.0} s",
                100.0 * measurement.throughput_error / measurement.throughput.max(1e-9),
                measurement.seconds
            ));
        }
        Ok(Some((measurement, notes)))
    }

    /// What is varied on three nodes: clients, then partitions.
    fn on_three(&self, bench: &mut Bench, verdicts: &mut Verdicts, record: &mut Record) -> Result<(), String> {
        if self.steps().is_empty() && self.partitions().is_empty() {
            return Ok(());
        }
        let cluster = bench.start(bench.options(&self.common))?;
        put_side(cluster.side(), record);
        self.sweep(&cluster, bench, verdicts, record)?;
        self.buckets(&cluster, bench, verdicts, record)
    }

    /// Step by step more clients.
    fn sweep(
        &self,
        cluster: &Cluster,
        bench: &mut Bench,
        verdicts: &mut Verdicts,
        record: &mut Record,
    ) -> Result<(), String> {
        let steps = self.steps();
        if steps.is_empty() {
            return Ok(());
        }
        let workload = bench.workload(&self.common, false)?;
        let load = bench.load(cluster, &self.common, self.clients)?;
        bench.fill(&load, &workload)?;
        let beside = bench.witnesses(&self.check, &self.common, &load, record, "clients")?;
        for clients in steps {
            if bench.is_ending() {
                break;
            }
            bench.begin_step(&format!("{clients} clients on 3 nodes"));
            let load = bench.load(cluster, &self.common, clients)?;
            let measured = self.held(bench, load, workload.as_ref(), cluster, beside.as_ref());
            let measured = measured.map_err(|reason| format!("{clients} clients on 3 nodes: {reason}"))?;
            let Some((mut measurement, notes)) = measured else { break };
            measurement.id = format!("clients-{clients}");
            self.keep(measurement, notes, &[("clients", clients), ("nodes", 3)], record);
        }
        verdicts.add(beside, record)
    }

    /// Buckets of more and more partitions, turn by turn, so that what changes on the machine meanwhile meets each of them.
    fn buckets(
        &self,
        cluster: &Cluster,
        bench: &mut Bench,
        verdicts: &mut Verdicts,
        record: &mut Record,
    ) -> Result<(), String> {
        for repeat in 1..=self.repeats() {
            for partitions in self.partitions() {
                if bench.is_ending() {
                    return Ok(());
                }
                let many = if partitions == 1 { "" } else { "s" };
                bench.begin_step(&format!("{partitions} partition{many}, {repeat} of {}", self.repeats()));
                self.bucket(partitions, repeat, cluster, bench, verdicts, record).map_err(|reason| {
                    format!("{partitions} partition{many}, {repeat} of {}: {reason}", self.repeats())
                })?;
            }
        }
        Ok(())
    }

    /// One bucket: made, filled, measured and dropped, so that nothing else is beside the one that is measured.
    fn bucket(
        &self,
        partitions: u32,
        repeat: u32,
        cluster: &Cluster,
        bench: &mut Bench,
        verdicts: &mut Verdicts,
        record: &mut Record,
    ) -> Result<(), String> {
        let name = &format!("partitions-{partitions}-{repeat}");
        cluster.make_bucket(name, partitions)?;
        let workload = bench.workload(&self.common, false)?;
        let mut load = bench.load(cluster, &self.common, self.partition_clients)?;
        load.target.bucket = Some(name.clone());
        bench.fill(&load, &workload)?;
        bench.settle(cluster)?;
        let beside = bench.witnesses(&self.check, &self.common, &load, record, name)?;
        if let Some((mut measurement, notes)) = self.held(bench, load, workload.as_ref(), cluster, beside.as_ref())? {
            measurement.id.clone_from(name);
            let variables =
                [("clients", self.partition_clients), ("nodes", 3), ("partitions", partitions), ("repeat", repeat)];
            self.keep(measurement, notes, &variables, record);
        }
        verdicts.add(beside, record)?;
        cluster.drop_bucket(name)
    }

    /// The same load on so many nodes.
    fn of_nodes(
        &self,
        nodes: u32,
        bench: &mut Bench,
        verdicts: &mut Verdicts,
        record: &mut Record,
    ) -> Result<(), String> {
        let mut options = bench.options(&self.common);
        options.nodes = nodes as usize;
        let cluster = bench.start(options)?;
        put_side(cluster.side(), record);
        let workload = bench.workload(&self.common, false)?;
        let mut load = bench.load(cluster.as_ref(), &self.common, self.clients)?;
        load.seconds = self.seconds();
        bench.fill(&load, &workload)?;
        let beside = bench.witnesses(&self.check, &self.common, &load, record, &format!("nodes-{nodes}"))?;
        for repeat in 1..=self.repeats() {
            if bench.is_ending() {
                break;
            }
            let many = if nodes == 1 { "" } else { "s" };
            bench.begin_step(&format!("{nodes} node{many}, {repeat} of {}", self.repeats()));
            bench.settle(&cluster)?;
            let (mut measurement, notes) =
                bench.measure_costs(&load, workload.as_ref(), cluster.as_ref(), beside.as_ref(), &mut |_| true)?;
            if bench.is_ending() {
                break;
            }
            measurement.id = format!("nodes-{nodes}-{repeat}");
            let variables = [("clients", self.clients), ("nodes", nodes), ("repeat", repeat)];
            self.keep(measurement, notes, &variables, record);
        }
        verdicts.add(beside, record)
    }

    fn keep(&self, mut measurement: Measurement, notes: Vec<String>, variables: &[(&str, u32)], record: &mut Record) {
        measurement.side = "dictum".to_owned();
        measurement.workload.clone_from(&self.common.workload);
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), value.to_string()));
        measurement.variables = variables.collect();
        record.notes.extend(notes.into_iter().map(|note| format!("{}: {note}", note_name(&measurement))));
        record.measurements.push(measurement);
    }
}

impl Experiment for Scaling {
    fn name(&self) -> &'static str {
        "scaling"
    }

    fn title(&self) -> String {
        "Scaling with clients, partitions and nodes".to_owned()
    }

    fn question(&self) -> String {
        "How does the throughput grow with clients, partitions and nodes, where is its peak, and what does an operation cost?"
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
        for partitions in &self.partitions {
            within("--partitions", f64::from(*partitions), 1.0, f64::from(PARTITIONS_MAX))?;
        }
        within("--partition-clients", f64::from(self.partition_clients), 1.0, f64::from(CLIENTS_MAX))?;
        let (ramp, nodes, repeats) = (self.ramp(), self.nodes().len(), self.repeats() as usize);
        let (steps, buckets, stretches) = (self.steps().len(), self.partitions().len() * repeats, nodes * repeats);
        // Most steps are known well enough soon after the least time.
        let held = 1.1 + f64::from(ramp.seconds_min.midpoint(ramp.seconds_max));
        let of_three = START_SECONDS + steps as f64 * held + buckets as f64 * (held + BUCKET_SECONDS);
        let of_nodes = stretches as f64 * (1.2 + self.seconds()) + START_SECONDS * nodes as f64;
        Ok((steps + buckets + stretches, of_three + of_nodes))
    }

    fn carry_out(&self, bench: &mut Bench, record: &mut Record) -> Result<(), String> {
        let mut verdicts = Verdicts::default();
        record.notes.extend(self.check.note());
        let mut outcome = self.on_three(bench, &mut verdicts, record);
        for nodes in self.nodes() {
            if outcome.is_ok() && !bench.is_ending() {
                outcome = self
                    .of_nodes(nodes, bench, &mut verdicts, record)
                    .map_err(|reason| format!("{nodes} nodes: {reason}"));
            }
        }
        if let Some(told) = partitions::told(record, self.common.seed) {
            record.findings.extend(told);
        }
        laws::fit_laws(record);
        record.findings.extend(laws::costs(record));
        record.notes.push(format!(
            "All nodes and the clients shared this machine's {} processors, and every node has all the data: the curves tell how the \
             system behaves when it is pressed, and not what more machines would serve. The figures for each operation do not depend \
             on that.",
            record.environment.cores
        ));
        outcome
    }
}

/// Adds the system once, of however many nodes it is.
fn put_side(mut side: crate::record::Side, record: &mut Record) {
    if record.sides.is_empty() {
        side.configuration
            .push(("nodes".to_owned(), "3 while clients or partitions grow; else as the table says".to_owned()));
        record.sides.push(side);
    }
}
