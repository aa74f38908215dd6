//! `dictum lab verify`: faults of every kind, drawn by chance, while clients do what the checker of histories understands. Then every key is
//! read, and the verdict is the report's first line.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;

use super::measure::{quoted, workload};
use super::own::{Own, OwnArguments, load_of};
use super::witness::{Plan, judge, witness};
use crate::beside::forge::forge;
use crate::beside::last::tidy;
use crate::cluster::{Options, System};
use crate::drive::{Protocol, Target};
use crate::faults::{Hooks, Schedule, drawn};
use crate::load::{Load, Pacing};
use crate::record::Arrivals;
use crate::workload::Parameters;

/// Operations of one run: a million take about 300 MB of memory while they are checked.
const OPERATIONS_MAX: f64 = 4e6;
/// Operations a second, as far as not more than [`OPERATIONS_MAX`] become of it.
const RATE_DEFAULT: f64 = 1_000.0;
/// Longest run: a day, which is the latest time of a step in a plan of faults.
const MINUTES_MAX: f64 = 24.0 * 60.0;
/// Steps of the plan that a note tells; the seed draws the others again.
const STEPS_TOLD: usize = 40;
/// An answer that takes longer is given up: nobody knows then whether the operation was done.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Arguments of `dictum lab verify`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  dictum lab verify --minutes 10\n  dictum lab verify --minutes 2 --nodes 5 --seed 7\n  \
    dictum lab verify --hooks staging.toml --minutes 30\n\nExits with 0 \
    if all that was promised held, 4 if something was broken, 5 if something could not be decided."
)]
pub struct VerifyArguments {
    #[command(flatten)]
    own: OwnArguments,
    /// Minutes of load with faults, at most 1440.
    #[arg(long, default_value_t = 2.0)]
    minutes: f64,
    /// Clients; each has one operation under way.
    #[arg(long, default_value_t = 12)]
    clients: u32,
    /// Operations a second, all clients together; by default 1000, or as many as let a long history be checked in memory (4 million in all).
    #[arg(long)]
    rate: Option<f64>,
    /// What the clients do: checked, or another workload whose history can be checked, such as queue, lock, counter or puts-gets.
    #[arg(long, default_value = "checked")]
    workload: String,
    /// Records of the workload: cold keys of checked, queues, locks, counters; by default as the workload has it.
    #[arg(long)]
    records: Option<u64>,
    /// A cluster that the laboratory did not start: redis://HOST:PORT,HOST:PORT. Without --hooks nothing is done to it. Keys that begin
    /// with lab-verify: are written there, and deleted at the end.
    #[arg(long, value_name = "URL", conflicts_with_all = ["nodes", "durability", "consistency", "keep", "workload"])]
    target: Option<String>,
    /// The nodes of a cluster that the laboratory did not start, and a shell command for each fault (docs/laboratory.md).
    #[arg(long, value_name = "FILE", conflicts_with_all = ["nodes", "durability", "consistency", "keep", "workload"])]
    hooks: Option<PathBuf>,
    /// Nodes of the cluster, 3 to 7.
    #[arg(long, default_value_t = 3)]
    nodes: usize,
    /// Where chance begins; by default the clock says. Equal seeds draw equal faults and operations.
    #[arg(long)]
    seed: Option<u64>,
    /// When a write is answered: majority, persist-majority or all.
    #[arg(long)]
    durability: Option<String>,
    /// What reads may miss: linearizable, session or local. Anything but linearizable is expected to be found broken.
    #[arg(long)]
    consistency: Option<String>,
    /// Changes one answer in the history before it is checked: to see that the alarm works.
    #[arg(long, hide = true)]
    forge: bool,
}

impl VerifyArguments {
    fn check(&self) -> Result<(), String> {
        if !(self.minutes > 0.0 && self.minutes <= MINUTES_MAX) {
            return Err(format!("--minutes {}: write more than 0 and at most {MINUTES_MAX}", self.minutes));
        }
        if !(3..=base::limits::VOTERS_MAX).contains(&self.nodes) {
            return Err(format!("--nodes {}: write 3 to {}", self.nodes, base::limits::VOTERS_MAX));
        }
        let operations = self.minutes * 60.0 * self.rate();
        if !(operations > 0.0 && operations <= OPERATIONS_MAX) {
            let most = OPERATIONS_MAX / (self.minutes * 60.0);
            return Err(format!(
                "{} minutes at {} operations a second are {operations:.0} operations: write a --rate above 0 and at most {most:.0}, \
                 so that the history can be checked in memory",
                self.minutes,
                self.rate()
            ));
        }
        Ok(())
    }

    /// Operations a second.
    fn rate(&self) -> f64 {
        self.rate.unwrap_or_else(|| RATE_DEFAULT.min((OPERATIONS_MAX / (self.minutes * 60.0)).floor()))
    }

    /// The cluster that the laboratory did not start, if it is told of one, and how clients reach it.
    fn foreign(&self) -> Result<Option<(Hooks, Target)>, String> {
        let target = self.target.as_deref().map(Target::parse).transpose()?;
        let addresses: Vec<String> =
            target.iter().flat_map(|target| &target.addresses).map(|(_, address)| address.to_string()).collect();
        let hooks = match (&self.hooks, &target) {
            (None, None) => return Ok(None),
            (Some(file), _) => Hooks::read(file, &addresses)?,
            (None, Some(_)) => Hooks::without_commands(&addresses)?,
        };
        let target = match target {
            Some(target) if target.protocol != Protocol::Resp => {
                return Err(format!("{target}: only of redis:// the answers can be checked"));
            }
            Some(target) if target.password.is_some() && self.hooks.is_some() => {
                return Err(
                    "who leads and who serves is asked without a password: with --hooks there can be none".to_owned()
                );
            }
            Some(target) => target,
            None => Target::parse(&format!("redis://{}", hooks.addresses().join(",")))?,
        };
        Ok(Some((hooks, target)))
    }
}

/// Carries `dictum lab verify` out.
///
/// # Errors
/// A sentence for people, also when nothing can be concluded.
pub(super) fn run(arguments: &VerifyArguments) -> Result<ExitCode, String> {
    arguments.check()?;
    let clock = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_nanos() as u64 % 1_000_000);
    let seed = arguments.seed.unwrap_or_else(clock);
    let length = Duration::from_secs_f64(arguments.minutes * 60.0);
    let mut own = arguments.own.begin(
        "verify",
        "Faults on, history checked",
        "Do the promises hold while nodes are killed, stopped, paused, cut off and slowed down?",
        None,
        length + Duration::from_secs(15),
    )?;
    own.record.command = command(std::env::args(), arguments.seed.is_none().then_some(seed));
    let foreign = arguments.foreign()?;
    let (system, mut load, prefix): (Arc<dyn System>, Load, String) = match foreign {
        Some((hooks, target)) => {
            begin_foreign(&mut own, &hooks)?;
            let prefix = format!("lab-verify:{}:", own.record.started_ms);
            (Arc::new(hooks), Load::new(target), prefix)
        }
        None => {
            let cluster = own.start(Options {
                nodes: arguments.nodes,
                relays: true,
                slow_disks: true,
                durability: arguments.durability.clone(),
                consistency: arguments.consistency.clone(),
                ..Options::default()
            })?;
            let load = load_of(cluster.as_ref())?;
            (cluster, load, String::new())
        }
    };
    let is_foreign = !prefix.is_empty();
    own.record.sides.push(system.side());
    let schedule = drawn::draw(seed, length, &system.names(), &|action| system.can(action))?;
    own.record.notes.push(told(&schedule, seed));
    if arguments.consistency.as_deref().is_some_and(|level| level != "linearizable") {
        let note =
            "Reads were not asked to be linearizable, and are checked as if they were: a violation is no fault then.";
        own.record.notes.push(note.to_owned());
    }
    (load.clients, load.seed, load.timeout, load.seconds) = (arguments.clients, seed, TIMEOUT, length.as_secs_f64());
    load.pacing = Pacing::Open { rate: arguments.rate(), arrivals: Arrivals::Poisson };
    let parameters = Parameters { seed, prefix, records: arguments.records, checked: true, ..Parameters::default() };
    let checked = workload(&arguments.workload, &parameters)?;
    let target = load.target.clone();
    let plan = Plan {
        id: "faults",
        system: Arc::clone(&system),
        load,
        workload: checked.as_ref(),
        workload_name: &arguments.workload,
        schedule: &schedule,
    };
    let mut seen = witness(&mut own, plan)?;
    if is_foreign && let Err(reason) = tidy(&target, &seen.history) {
        own.record.notes.push(format!("Keys that begin with lab-verify: are left in the cluster: {reason}."));
    }
    if arguments.forge {
        own.record.notes.push(forge(&mut seen.history)?);
    }
    own.keep(seen.measured);
    judge(&mut own, &seen.history, &seen.last, seen.of_nodes);
    own.say("ending the cluster");
    drop(system);
    own.finish()
}

/// What must be known before anything is done to a cluster that is not the laboratory's own.
fn begin_foreign(own: &mut Own, hooks: &Hooks) -> Result<(), String> {
    own.record.notes.push(
        "The laboratory did not start this cluster: the machine described below is its own, and what the nodes used is not known."
            .to_owned(),
    );
    if ["kill", "terminate", "pause", "cut"].iter().any(|action| hooks.can(action)) {
        // Half of the faults are for the leader: a plan that never finds one would prove little.
        hooks.leader().map_err(|reason| format!("who leads is not known: {reason}"))?;
    }
    Ok(())
}

/// The plan for people: all of it, or how it begins.
fn told(schedule: &Schedule, seed: u64) -> String {
    let steps = &schedule.steps;
    if steps.is_empty() {
        return "Nothing was done to the cluster: there are no commands for it.".to_owned();
    }
    let first = Schedule { steps: steps.iter().take(STEPS_TOLD).cloned().collect() };
    let more = match steps.len().saturating_sub(STEPS_TOLD) {
        0 => String::new(),
        more => format!("; and {more} more steps"),
    };
    format!("The faults, drawn from the seed {seed}: {first}{more}.")
}

/// The command line that carries the same out again: with the seed, if the clock has drawn it.
fn command(words: impl Iterator<Item = String>, drawn_seed: Option<u64>) -> String {
    let seed = drawn_seed.into_iter().flat_map(|seed| ["--seed".to_owned(), seed.to_string()]);
    words.chain(seed).map(|word| quoted(&word)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        verify: VerifyArguments,
    }

    #[test]
    fn limits_are_told() {
        let checked = |line: &str| Line::try_parse_from(line.split(' ')).unwrap().verify.check();
        assert_eq!(checked("x --minutes 0.1 --nodes 5"), Ok(()));
        assert_eq!(checked("x --minutes 61"), Ok(()));
        assert_eq!(checked("x --minutes 1440"), Ok(()), "the rate gives way");
        assert!(checked("x --minutes 1441").unwrap_err().contains("at most 1440"));
        assert!(checked("x --nodes 2").unwrap_err().contains("write 3 to"));
        let told = checked("x --minutes 60 --rate 9000").unwrap_err();
        assert!(told.contains("32400000 operations") && told.contains("at most 1111"), "{told}");
        assert!(checked("x --rate NaN").is_err());
    }

    #[test]
    fn plans_are_told_as_far_as_people_read() {
        let plan = |count: usize| Schedule::parse(&vec!["1s kill n1"; count].join("; ")).unwrap();
        assert!(told(&plan(0), 7).starts_with("Nothing was done"));
        assert!(told(&plan(2), 7).ends_with("seed 7: 1s kill n1; 1s kill n1."));
        assert!(told(&plan(50), 7).ends_with("1s kill n1; and 10 more steps."));
    }

    #[test]
    fn what_is_not_ours_is_not_set_up_by_us() {
        let parsed = |line: &str| Line::try_parse_from(line.split(' '));
        assert!(parsed("x --target redis://127.0.0.1:1 --nodes 5").is_err());
        let foreign = |line: &str| parsed(line).unwrap().verify.foreign();
        assert!(foreign("x").unwrap().is_none());
        let (hooks, target) = foreign("x --target redis://127.0.0.1:1,127.0.0.1:2").unwrap().unwrap();
        assert_eq!((hooks.names().len(), target.addresses.len()), (2, 2));
        assert!(foreign("x --target http://127.0.0.1:1").unwrap_err().contains("only of redis://"));
        assert!(foreign("x --hooks /nowhere.toml").unwrap_err().contains("/nowhere.toml"));
    }

    #[test]
    fn the_command_repeats_what_chance_drew() {
        let words = || ["dictum", "lab", "verify"].map(str::to_owned).into_iter();
        assert_eq!(command(words(), Some(7)), "dictum lab verify --seed 7");
        assert_eq!(command(words(), None), "dictum lab verify");
    }
}
