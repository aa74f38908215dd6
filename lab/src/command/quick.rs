//! `dictum lab quick`: within a minute, on a fresh cluster of three nodes, what every user asks first.
//!
//! 1. YCSB A and B in closed loops: how much it serves
//! 2. YCSB A at half of that in an open loop: what users wait then, counted from when they wanted to ask
//! 3. the leader is killed and started again under load: how long nothing is answered, and whether all that was promised held

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use super::measure::{fill, workload};
use super::own::{OwnArguments, load_of};
use super::witness::{Plan, judge, witness};
use crate::cluster::{Options, System};
use crate::faults::Schedule;
use crate::load::Pacing;
use crate::record::Arrivals;
use crate::workload::Parameters;

/// Clients of every part: enough to be beyond one at a time, few enough for a small machine.
const CLIENTS: u32 = 16;
/// An answer that takes longer is given up; so long a client may hang on a node that is gone.
const TIMEOUT: Duration = Duration::from_secs(3);
/// Most operations a second while the leader is killed: as many as can be checked in a moment.
const WITNESSED_RATE_MAX: f64 = 1_000.0;
/// Least operations a second in an open loop.
const RATE_MIN: f64 = 20.0;

/// Arguments of `dictum lab quick`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Example:\n  dictum lab quick -o report.html\n\nExits with 0 if all that was promised held, 4 if something \
    was broken, 5 if something could not be decided."
)]
pub struct QuickArguments {
    #[command(flatten)]
    own: OwnArguments,
    /// Where chance begins.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Some seconds only, for tests: the figures mean little.
    #[arg(long, hide = true)]
    short: bool,
}

/// How long the parts are.
struct Lengths {
    records: u64,
    warm_up: u32,
    closed: f64,
    open: f64,
    witnessed: f64,
    schedule: &'static str,
    /// All of it, with what is around them.
    expected: Duration,
}

const LONG: Lengths = Lengths {
    records: 1_000,
    warm_up: 1,
    closed: 9.0,
    open: 9.0,
    witnessed: 12.0,
    schedule: "3s kill leader; 6s restart",
    expected: Duration::from_secs(52),
};

const SHORT: Lengths = Lengths {
    records: 100,
    warm_up: 0,
    closed: 1.0,
    open: 1.0,
    witnessed: 3.0,
    schedule: "0.5s kill leader; 1.2s restart",
    expected: Duration::from_secs(12),
};

/// Carries `dictum lab quick` out.
///
/// # Errors
/// A sentence for people.
pub(super) fn run(arguments: &QuickArguments) -> Result<ExitCode, String> {
    let lengths = if arguments.short { SHORT } else { LONG };
    let schedule = Schedule::parse(lengths.schedule)?;
    let mut own = arguments.own.begin(
        "quick",
        "A quick look",
        "How much does a cluster of three nodes on this machine serve, how long do its users wait, and what does the loss of its \
         leader cost?",
        None,
        lengths.expected,
    )?;
    if arguments.short {
        own.record.notes.push("It was carried out in its short form, for tests: the figures mean little.".to_owned());
    }
    own.record
        .notes
        .push("Generator and nodes share this machine's processors: on machines of their own figures differ.".into());
    let cluster = own.start(Options::default())?;
    own.record.sides.push(cluster.side());
    let mut load = load_of(cluster.as_ref())?;
    (load.clients, load.seed, load.timeout) = (CLIENTS, arguments.seed, TIMEOUT);
    (load.warm_up, load.seconds) = (lengths.warm_up, lengths.closed);
    let parameters = Parameters { records: Some(lengths.records), seed: arguments.seed, ..Parameters::default() };
    let ycsb_a = workload("ycsb-a", &parameters)?;
    own.say("loading records");
    fill(&load, &ycsb_a, &own.stop, true)?;

    let mut throughput = 0.0;
    for name in ["ycsb-a", "ycsb-b"] {
        if own.is_interrupted() {
            return own.finish();
        }
        let measured = own.measure(&cluster, &load, workload(name, &parameters)?.as_ref(), name, name, None)?;
        if name == "ycsb-a" {
            throughput = measured.0.throughput;
        }
        own.keep(measured);
    }
    let at = |rate: f64| Pacing::Open { rate: rate.max(RATE_MIN).round(), arrivals: Arrivals::Poisson };
    load.pacing = at(throughput / 2.0);
    load.seconds = lengths.open;
    if !own.is_interrupted() {
        let measured = own.measure(&cluster, &load, ycsb_a.as_ref(), "ycsb-a-open", "ycsb-a", None)?;
        own.keep(measured);
    }
    if own.is_interrupted() {
        return own.finish();
    }
    load.pacing = at((throughput / 3.0).min(WITNESSED_RATE_MAX));
    (load.warm_up, load.seconds) = (0, lengths.witnessed);
    let checked = workload("checked", &Parameters { records: None, checked: true, ..parameters })?;
    let plan = Plan {
        id: "leader-killed",
        system: cluster.clone(),
        load,
        workload: checked.as_ref(),
        workload_name: "checked",
        schedule: &schedule,
    };
    let seen = witness(&mut own, plan)?;
    own.keep(seen.measured);
    judge(&mut own, &seen.history, &seen.last, seen.of_nodes);
    own.say("ending the cluster");
    drop(cluster);
    own.finish()
}
