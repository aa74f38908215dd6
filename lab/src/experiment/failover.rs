//! `failover`: what clients see of it when the leader of a three-node cluster is killed, stopped in good order, paused, cut off or
//! restarted.
//!
//! ```text
//! a fresh cluster ─ records loaded ─ 1 s of warming up ─┬─ before ─┬─ down ─┬─ after ─┐
//!                                                       0        fault    undone    end
//! ```
//! An open loop goes on all the time: what is due while nobody answers waits, and its latency counts from when it was due. Every
//! repeat has a cluster of its own, because nodes learn from outages (the φ detector takes the last one's silence for usual).

mod costs;

use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};

use super::lag::Watching;
use super::proof::{Proof, merged};
use super::{Bench, Common, Experiment, Output, within};
use crate::cluster::{Cluster, System};
use crate::faults::{Running, Schedule};
use crate::load::{Pacing, Recall};
use crate::record::{Arrivals, Measurement, Record, Verdict};
use costs::{costs, finding};

/// Most repeats of each fault.
const REPEATS_MAX: u32 = 50;
/// Longest stretch before, during and after a fault, in seconds each.
const STRETCH_MAX: f64 = 3_600.0;
/// How long it is waited, after the load, for what follows a fault.
const FOLLOW_PATIENCE: Duration = Duration::from_secs(60);
/// Seconds that a cluster takes to start and to be filled, about.
const START_SECONDS: f64 = 2.0;

/// Arguments of `dictum lab experiment failover`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  dictum lab experiment failover\n  dictum lab experiment failover --short\n  \
    dictum lab experiment failover --faults killed,cut-off --repeats 20 --check -o failover.html")]
pub struct Failover {
    /// What is done to the leader, one after the other.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "FAULT,…")]
    faults: Vec<Fault>,
    /// How often each is done.
    #[arg(long, default_value_t = 5)]
    repeats: u32,
    /// Operations a second, all clients together: an open loop with Poisson arrivals.
    #[arg(long, default_value_t = 1_000.0)]
    rate: f64,
    /// Clients; each is a connection, spread over the nodes.
    #[arg(long, default_value_t = 64)]
    clients: u32,
    /// Seconds of load before the fault.
    #[arg(long, default_value_t = 5.0, value_name = "SECONDS")]
    before: f64,
    /// Seconds until what was done is undone: the node is started again, goes on, or is heard again.
    #[arg(long, default_value_t = 5.0, value_name = "SECONDS")]
    down: f64,
    /// Seconds of load after that.
    #[arg(long, default_value_t = 8.0, value_name = "SECONDS")]
    after: f64,
    /// Records what the clients saw and checks it. No records are loaded first then. Exits with 4 if something that was promised was broken,
    /// with 5 if something could not be decided.
    #[arg(long)]
    check: bool,
    /// What all experiments are told.
    #[command(flatten)]
    common: Common,
}

/// What is done to the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Fault {
    /// `kill -9`; started again later.
    Killed,
    /// SIGTERM, which it obeys in good order; started again later.
    Terminated,
    /// Held with all its threads, as a machine that hangs; goes on later.
    Paused,
    /// No message to or from the other nodes passes; clients still reach it.
    CutOff,
    /// SIGTERM, and started again at once.
    Restarted,
}

const ALL: [Fault; 5] = [Fault::Killed, Fault::Terminated, Fault::Paused, Fault::CutOff, Fault::Restarted];

impl Fault {
    /// The word for it in records.
    fn word(self) -> &'static str {
        match self {
            Fault::Killed => "killed",
            Fault::Terminated => "terminated",
            Fault::Paused => "paused",
            Fault::CutOff => "cut off",
            Fault::Restarted => "restarted",
        }
    }

    /// The plan: done to the leader at `at`, undone at `until`, in seconds.
    fn schedule(self, at: f64, until: f64) -> Result<Schedule, String> {
        let down = until - at;
        Schedule::parse(&match self {
            Fault::Killed => format!("{at}s kill leader; {until}s restart"),
            Fault::Terminated => format!("{at}s terminate leader; {until}s restart"),
            Fault::Paused => format!("{at}s pause leader {down}s"),
            Fault::CutOff => format!("{at}s cut leader {down}s"),
            Fault::Restarted => format!("{at}s terminate leader; {at}s restart"),
        })
    }
}

/// The times of one repeat, in seconds since the measurement began.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Times {
    fault: f64,
    undone: f64,
    end: f64,
}

impl Failover {
    fn faults(&self) -> Vec<Fault> {
        match (self.faults.is_empty(), self.common.short) {
            (false, _) => self.faults.clone(),
            (true, true) => vec![Fault::Killed, Fault::Paused],
            (true, false) => ALL.to_vec(),
        }
    }

    fn repeats(&self) -> u32 {
        if self.common.short { 1 } else { self.repeats }
    }

    fn times(&self) -> Times {
        if self.common.short {
            return Times { fault: 1.0, undone: 2.5, end: 4.0 };
        }
        Times { fault: self.before, undone: self.before + self.down, end: self.before + self.down + self.after }
    }

    /// One repeat on a cluster of its own.
    fn once(&self, fault: Fault, bench: &mut Bench, record: &mut Record) -> Result<Once, String> {
        let mut options = bench.options(&self.common);
        options.relays = fault == Fault::CutOff;
        let cluster = bench.start(options)?;
        if record.sides.is_empty() {
            record.sides.push(self.side(&cluster));
        }
        let workload = bench.workload(&self.common, self.check)?;
        let mut load = bench.load(cluster.as_ref(), &self.common, self.clients)?;
        load.pacing = Pacing::Open { rate: self.rate, arrivals: Arrivals::Poisson };
        let times = self.times();
        load.seconds = times.end;
        let proof = if self.check {
            // Of keys that are loaded before, the history would not know.
            Some(Proof::begin(cluster.folder().join("history"))?)
        } else {
            bench.fill(&load, &workload)?;
            None
        };
        bench.settle(&cluster)?;
        let schedule = fault.schedule(times.fault, times.undone)?;
        let warm_up = Duration::from_secs(u64::from(load.warm_up));
        let (mut running, mut trouble): (Option<Running>, Option<String>) = (None, None);
        let mut watching: Option<Watching> = None;
        let observer = proof.as_ref().map(Proof::observer);
        let measured = bench.measure(&load, workload.as_ref(), observer, &mut |snapshot| {
            if running.is_none() && trouble.is_none() {
                // The first second is one of warming up: the plan's times are all yet to come.
                let began = snapshot.began.unwrap_or_else(Instant::now) + warm_up;
                let system = Arc::clone(&cluster) as Arc<dyn System>;
                // One fault for each cluster: clients stay where it has driven them.
                let begun = schedule.run(Arc::clone(&system), began, Recall::default()).and_then(|begun| {
                    watching = Some(Watching::begin(system, began)?);
                    Ok(begun)
                });
                match begun {
                    Ok(begun) => running = Some(begun),
                    Err(reason) => trouble = Some(reason),
                }
            }
            trouble.is_none()
        });
        let (mut measurement, mut notes) = measured?;
        if let Some(reason) = trouble {
            return Err(reason);
        }
        // Ended early, it would be waited in vain.
        let patience = if bench.is_ending() { Duration::ZERO } else { FOLLOW_PATIENCE };
        let outcome =
            running.ok_or("the load was over before the fault: give it more time with --before")?.finish(patience);
        if bench.is_ending() {
            return Err("it was ended during a fault".to_owned());
        }
        cluster.check()?;
        notes.extend(outcome.failures);
        measurement.marks = outcome.marks;
        measurement.lags = watching.map(Watching::finish).unwrap_or_default();
        measurement.counters.extend(costs(&measurement));
        let verdict = match proof {
            Some(proof) => {
                bench.settle(&cluster)?;
                Some(proof.finish(&load.target)?)
            }
            None => None,
        };
        Ok(Once { measurement, notes, verdict })
    }

    fn side(&self, cluster: &Cluster) -> crate::record::Side {
        let mut side = cluster.side();
        let links = "while the leader is cut off, messages between the nodes go through relays of the laboratory; else directly";
        side.configuration.retain(|(name, _)| name != "links");
        if self.faults().contains(&Fault::CutOff) {
            side.configuration.push(("links".to_owned(), links.to_owned()));
        }
        side
    }
}

/// What one repeat came to.
struct Once {
    measurement: Measurement,
    notes: Vec<String>,
    verdict: Option<Verdict>,
}

impl Experiment for Failover {
    fn name(&self) -> &'static str {
        "failover"
    }

    fn title(&self) -> String {
        "Failover of three nodes".to_owned()
    }

    fn question(&self) -> String {
        "How long does nobody get an answer when the leader fails, what do clients see, and when has it caught up?"
            .to_owned()
    }

    fn output(&self) -> &Output {
        &self.common.output
    }

    fn common(&self) -> Option<&Common> {
        Some(&self.common)
    }

    fn plan(&self) -> Result<(usize, f64), String> {
        within("--repeats", f64::from(self.repeats), 1.0, f64::from(REPEATS_MAX))?;
        within("--before", self.before, 1.0, STRETCH_MAX)?;
        within("--down", self.down, 0.1, STRETCH_MAX)?;
        within("--after", self.after, 1.0, STRETCH_MAX)?;
        let steps = self.faults().len() * self.repeats() as usize;
        Ok((steps, steps as f64 * (START_SECONDS + 1.0 + self.times().end)))
    }

    fn carry_out(&self, bench: &mut Bench, record: &mut Record) -> Result<(), String> {
        let mut verdicts = Vec::new();
        let mut result = Ok(());
        // Turn by turn, so that what changes on the machine meanwhile meets every fault.
        'all: for repeat in 1..=self.repeats() {
            for fault in self.faults() {
                if bench.is_ending() {
                    break 'all;
                }
                bench.begin_step(&format!("leader {}, {repeat} of {}", fault.word(), self.repeats()));
                match self.once(fault, bench, record) {
                    Ok(mut once) => {
                        once.measurement.id = format!("{}-{repeat}", fault.word().replace(' ', "-"));
                        once.measurement.side = "dictum".to_owned();
                        once.measurement.workload.clone_from(&self.common.workload);
                        let variables = [("fault", fault.word().to_owned()), ("repeat", repeat.to_string())];
                        once.measurement.variables = variables.map(|(name, value)| (name.to_owned(), value)).into();
                        let of = |note| format!("leader {}, {repeat}: {note}", fault.word());
                        record.notes.extend(once.notes.into_iter().map(of));
                        record.measurements.push(once.measurement);
                        verdicts.extend(once.verdict);
                    }
                    Err(_) if bench.is_ending() => break 'all,
                    Err(reason) => {
                        result = Err(format!("leader {}, {repeat} of {}: {reason}", fault.word(), self.repeats()));
                        break 'all;
                    }
                }
            }
        }
        record.verdict = merged(&verdicts);
        record.findings = self.faults().into_iter().filter_map(|fault| finding(fault, record)).collect();
        record.notes.push(format!(
            "All nodes, the clients and whatever else ran shared this machine's {} processors: a silence here is the nodes' waiting \
             for signs of life, an election and their recovery, without a network's delays.",
            record.environment.cores
        ));
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_has_a_plan_that_ends_in_time() {
        for fault in ALL {
            let plan = fault.schedule(5.0, 10.0).expect("it can be read");
            assert!(plan.end() <= Duration::from_secs(10), "{fault:?}: {plan}");
            assert_eq!(plan.needs_relays(), fault == Fault::CutOff);
        }
    }
}
