//! `neighbour`: what a program beside the database costs that eats a share of the processors, and what one node costs whose disk is
//! slow.
//!
//! One cluster, one closed loop, turn after turn of all settings, so that what changes on the machine meanwhile meets each of them.
//! Every setting is a side of the record: the report draws how many times the quiet one's figures each has.

use std::time::Duration;

use clap::Args;

use super::proof::Verdicts;
use super::{Bench, Common, Experiment, Output, within};
use crate::beside::{Beside, CheckArguments};
use crate::cluster::{Cluster, System};
use crate::record::{Measurement, Record, Side};
use crate::report::chart::dots::median;
use crate::report::compare::p99;
use crate::statistics::{Difference, compare};

/// Most repeats of each setting.
const REPEATS_MAX: u32 = 50;
/// Longest stretch of one setting, in seconds.
const SECONDS_MAX: f64 = 3_600.0;
/// Greatest delay of a sync, in milliseconds.
const DELAY_MS_MAX: u64 = 60_000;
/// Seconds that a cluster takes to start and to be filled, about.
const START_SECONDS: f64 = 3.0;

/// Arguments of `dictum lab experiment neighbour`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  dictum lab experiment neighbour\n  dictum lab experiment neighbour --short\n  \
    dictum lab experiment neighbour --noise 50 --disk-ms 10,50 --repeats 5 -o neighbour.html")]
pub struct Neighbour {
    /// Shares of every processor that the neighbour takes, in per cent, one after the other; for each processor it has a process.
    #[arg(long, value_delimiter = ',', default_value = "25,50,75", value_name = "PERCENT,…")]
    noise: Vec<u32>,
    /// Milliseconds that are added to each sync of one node, one after the other: first the leader's, then a follower's.
    #[arg(long, value_delimiter = ',', default_value = "10", value_name = "MILLISECONDS,…")]
    disk_ms: Vec<u64>,
    /// How often each setting is measured; from 4 on it can be told whether two differ.
    #[arg(long, default_value_t = 4)]
    repeats: u32,
    /// Seconds of each.
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Clients of the closed loop; each is a connection, spread over the nodes.
    #[arg(long, default_value_t = 64)]
    clients: u32,
    #[command(flatten)]
    check: CheckArguments,
    /// What all experiments are told.
    #[command(flatten)]
    common: Common,
}

/// What is beside the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Setting {
    Quiet,
    /// Per cent of every processor.
    Noise(u32),
    /// Milliseconds for each sync of the leader.
    SlowLeader(u64),
    /// The same for a follower.
    SlowFollower(u64),
}

impl Setting {
    /// The side's word.
    fn id(self) -> String {
        match self {
            Setting::Quiet => "quiet".to_owned(),
            Setting::Noise(percent) => format!("noise-{percent}"),
            Setting::SlowLeader(delay) => format!("slow-leader-{delay}"),
            Setting::SlowFollower(delay) => format!("slow-follower-{delay}"),
        }
    }

    /// For people.
    fn told(self) -> String {
        match self {
            Setting::Quiet => "a quiet machine".to_owned(),
            Setting::Noise(percent) => format!("noise of {percent} %"),
            Setting::SlowLeader(delay) => format!("leader’s syncs {delay} ms slower"),
            Setting::SlowFollower(delay) => format!("a follower’s syncs {delay} ms slower"),
        }
    }

    fn side(self, cluster: &Cluster) -> Side {
        let mut side = cluster.side();
        side.id = self.id();
        side.name = self.told();
        side.configuration.push((
            "beside it".to_owned(),
            match self {
                Setting::Quiet => "nothing".to_owned(),
                Setting::Noise(percent) => format!("a process for each processor that takes {percent} % of it"),
                Setting::SlowLeader(_) | Setting::SlowFollower(_) => self.told(),
            },
        ));
        side
    }
}

impl Neighbour {
    fn settings(&self) -> Vec<Setting> {
        let (noise, delays) =
            if self.common.short { (&[50][..], &[10][..]) } else { (&self.noise[..], &self.disk_ms[..]) };
        let noise = noise.iter().filter(|percent| **percent > 0).map(|percent| Setting::Noise(*percent));
        let leader = delays.iter().map(|delay| Setting::SlowLeader(*delay));
        let follower = delays.iter().map(|delay| Setting::SlowFollower(*delay));
        let settings = [Setting::Quiet].into_iter().chain(noise);
        if self.common.short {
            settings.chain(follower).collect()
        } else {
            settings.chain(leader).chain(follower).collect()
        }
    }

    fn repeats(&self) -> u32 {
        if self.common.short { 1 } else { self.repeats }
    }

    fn seconds(&self) -> f64 {
        if self.common.short { 2.0 } else { self.seconds }
    }

    fn once(
        &self,
        setting: Setting,
        cluster: &Cluster,
        beside: Option<&Beside>,
        bench: &mut Bench,
    ) -> Result<(Measurement, Vec<String>), String> {
        let workload = bench.workload(&self.common, false)?;
        let mut load = bench.load(cluster, &self.common, self.clients)?;
        load.seconds = self.seconds();
        let leader = cluster.leader()?;
        let follower = (leader + 1) % cluster.names().len();
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
        match setting {
            Setting::Quiet => {}
            Setting::Noise(percent) => cluster.noise(&vec![f64::from(percent) / 100.0; cores])?,
            Setting::SlowLeader(delay) => cluster.slow_disk(leader, Duration::from_millis(delay))?,
            Setting::SlowFollower(delay) => cluster.slow_disk(follower, Duration::from_millis(delay))?,
        }
        let measured = bench.measure_costs(&load, workload.as_ref(), cluster, beside, &mut |_| true);
        // Whatever came of it, the next setting begins in silence.
        cluster.noise(&[])?;
        for node in [leader, follower] {
            cluster.slow_disk(node, Duration::ZERO)?;
        }
        let (measurement, mut notes) = measured?;
        let names = cluster.names();
        match cluster.leader() {
            Ok(now) if now == leader => {}
            Ok(now) => notes.push(format!("the leadership went from {} to {} meanwhile", names[leader], names[now])),
            Err(reason) => notes.push(reason),
        }
        Ok((measurement, notes))
    }
}

impl Experiment for Neighbour {
    fn name(&self) -> &'static str {
        "neighbour"
    }

    fn title(&self) -> String {
        "A noisy neighbour, and one slow disk".to_owned()
    }

    fn question(&self) -> String {
        "How much do throughput and tails suffer from a program that takes a share of the processors, and from one node whose disk is slow?"
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
        within("--seconds", self.seconds, 1.0, SECONDS_MAX)?;
        for percent in self.noise.iter().filter(|percent| **percent > 0) {
            within("--noise", f64::from(*percent), 1.0, 100.0)?;
        }
        for delay in &self.disk_ms {
            within("--disk-ms", *delay as f64, 1.0, DELAY_MS_MAX as f64)?;
        }
        let steps = self.settings().len() * self.repeats() as usize;
        // A second of warming up, and waiting for slow nodes.
        Ok((steps, START_SECONDS + steps as f64 * (self.seconds() + 1.5)))
    }

    fn carry_out(&self, bench: &mut Bench, record: &mut Record) -> Result<(), String> {
        let mut options = bench.options(&self.common);
        options.slow_disks = true;
        let cluster = bench.start(options)?;
        let workload = bench.workload(&self.common, false)?;
        let load = bench.load(cluster.as_ref(), &self.common, self.clients)?;
        bench.fill(&load, &workload)?;
        // One history from the first setting to the last: what one of them does to the cluster may show in the next.
        let beside = bench.witnesses(&self.check, &self.common, &load, record, "neighbour")?;
        record.notes.extend(self.check.note());
        record.sides = self.settings().iter().map(|setting| setting.side(&cluster)).collect();
        record.notes.push(format!(
            "The clients, the nodes and the noise shared this machine's {} processors: noise takes from the clients too.",
            record.environment.cores
        ));
        let mut result = Ok(());
        'all: for repeat in 1..=self.repeats() {
            for setting in self.settings() {
                if bench.is_ending() {
                    break 'all;
                }
                bench.begin_step(&format!("{}, {repeat} of {}", setting.told(), self.repeats()));
                let measured =
                    bench.settle(&cluster).and_then(|()| self.once(setting, &cluster, beside.as_ref(), bench));
                match measured {
                    Ok(_) if bench.is_ending() => break 'all,
                    Ok((mut measurement, notes)) => {
                        measurement.id = format!("{}-{repeat}", setting.id());
                        measurement.side = setting.id();
                        measurement.workload.clone_from(&self.common.workload);
                        measurement.variables = [("repeat".to_owned(), repeat.to_string())].into();
                        let of = |note| format!("{}, {repeat}: {note}", setting.told());
                        record.notes.extend(notes.into_iter().map(of));
                        record.measurements.push(measurement);
                    }
                    Err(reason) => {
                        result = Err(format!("{}, {repeat} of {}: {reason}", setting.told(), self.repeats()));
                        break 'all;
                    }
                }
            }
        }
        let judged = Verdicts::default().add(beside, record);
        if self.repeats() > 1 {
            record.notes.push(
                "The sentences compare medians, with the spread of their ratio in parentheses; of few repeats that is only what was seen, and \
                 whether it tells two apart is judged by ranks (the test of Wilcoxon, Mann and Whitney). The bars show the middle one of the \
                 ratios turn by turn, which may differ."
                    .to_owned(),
            );
        }
        compare_with_quiet(record);
        record.findings =
            self.settings().into_iter().filter_map(|setting| finding(setting, self.common.seed, record)).collect();
        result.and(judged)
    }
}

/// Figures of a side's measurements that the generator did not set itself.
fn figures(record: &Record, side: &str, of: fn(&Measurement) -> Option<f64>) -> Vec<f64> {
    let counts = |m: &&Measurement| m.side == side && !m.generator.saturated;
    record.measurements.iter().filter(counts).filter_map(of).filter(|figure| *figure > 0.0).collect()
}

fn throughput(measurement: &Measurement) -> Option<f64> {
    Some(measurement.throughput)
}

/// Adds to every measurement how many times the quiet one's middle figures it has.
fn compare_with_quiet(record: &mut Record) {
    let quiet = Setting::Quiet.id();
    let bases = [
        (
            "throughput_times_quiet",
            median(&figures(record, &quiet, throughput)),
            throughput as fn(&Measurement) -> Option<f64>,
        ),
        ("p99_times_quiet", median(&figures(record, &quiet, p99)), p99),
    ];
    for measurement in &mut record.measurements {
        for (name, base, of) in bases {
            if let (Some(base), Some(figure)) = (base, of(measurement)) {
                measurement.counters.insert(name.to_owned(), figure / base);
            }
        }
    }
}

/// What came out for one setting, in a sentence.
fn finding(setting: Setting, seed: u64, record: &Record) -> Option<String> {
    let told = setting.told();
    let (rates, tails) = (figures(record, &setting.id(), throughput), figures(record, &setting.id(), p99));
    let (rate, tail) = (median(&rates)?, median(&tails)?);
    let number = crate::report::format::number;
    let seen = format!("{} operations/s, p99 {}", number(rate), crate::report::format::duration(tail));
    if setting == Setting::Quiet {
        let times = if rates.len() == 1 { "once".to_owned() } else { format!("median of {}", rates.len()) };
        return Some(format!("Quiet: {seen} ({times})."));
    }
    let quiet = Setting::Quiet.id();
    let against = |base: &[f64], of: &[f64]| {
        let compared = compare(base, of, seed).ok()?;
        let mut words = Vec::new();
        if of.len() > 1 {
            words.push(format!("{} to {}", number(compared.ratio.low), number(compared.ratio.high)));
        }
        // Of fewer the test of ranks never says anything.
        if base.len().min(of.len()) >= 4 && compared.difference == Difference::NotTold {
            words.push("by their ranks these repeats do not tell it from 1×".to_owned());
        }
        let words = if words.is_empty() { String::new() } else { format!(" ({})", words.join("; ")) };
        Some(format!("{}×{words}", number(compared.ratio.value)))
    };
    let rate_ratio = against(&figures(record, &quiet, throughput), &rates)?;
    let tail_ratio = against(&figures(record, &quiet, p99), &tails)?;
    let mut letters = told.chars();
    let capital: String = letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect();
    Some(format!("{capital}: {seen}; of the quiet one’s throughput {rate_ratio}, of its p99 {tail_ratio}."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Operation, Spread};

    fn measured(side: &str, throughput: f64, p99_ms: u64) -> Measurement {
        let latency = Spread { p99: p99_ms * 1_000_000, ..Spread::default() };
        let operation = Operation { count: 1_000, latency, ..Operation::default() };
        Measurement {
            side: side.to_owned(),
            throughput,
            operations: [("get".to_owned(), operation)].into(),
            ..Measurement::default()
        }
    }

    #[test]
    fn every_figure_is_told_against_the_quiet_one() {
        let mut record = Record::default();
        for throughput in [900.0, 1_000.0, 1_100.0, 1_000.0] {
            record.measurements.push(measured("quiet", throughput, 10));
            record.measurements.push(measured("noise-50", throughput / 2.0, 30));
            record.measurements.push(measured("slow-follower-10", throughput, 10));
        }
        compare_with_quiet(&mut record);
        assert_eq!(record.measurements[1].counters["throughput_times_quiet"], 0.45);
        assert_eq!(record.measurements[1].counters["p99_times_quiet"], 3.0);
        let told = finding(Setting::Noise(50), 1, &record).expect("it was measured");
        assert!(
            told.starts_with("Noise of 50 %: 500 operations/s, p99 30.0") && told.contains("throughput 0.500×"),
            "{told}"
        );
        assert!(!told.contains("do not tell"), "{told}");
        let same = finding(Setting::SlowFollower(10), 1, &record).expect("it was measured");
        assert!(
            same.contains("1.00× (") && same.contains("by their ranks these repeats do not tell it from 1×"),
            "{same}"
        );
        assert!(finding(Setting::Quiet, 1, &record).expect("it was measured").contains("median of 4"));
        assert_eq!(finding(Setting::SlowLeader(10), 1, &record), None);
        record.measurements[0].generator.saturated = true;
        assert_eq!(figures(&record, "quiet", throughput).len(), 3);
    }
}
