//! `dictum lab verify`: faults of every kind, drawn by chance, while clients do what the checker of histories understands. Then every key is
//! read, and the verdict is the report's first line.

use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;

use super::measure::{quoted, workload};
use super::own::{OwnArguments, load_of};
use super::witness::{Plan, judge, witness};
use crate::cluster::{Options, System};
use crate::faults::drawn;
use crate::history::{Answer, Ask, Operation, Outcome, Value};
use crate::load::Pacing;
use crate::record::Arrivals;
use crate::workload::Parameters;

/// Operations of one run: a million take about 300 MB of memory while they are checked.
const OPERATIONS_MAX: f64 = 4e6;
/// Longest run: a plan of faults has so many steps that longer ones would be mostly quiet.
const MINUTES_MAX: f64 = 60.0;
/// An answer that takes longer is given up: nobody knows then whether the operation was done.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Arguments of `dictum lab verify`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  dictum lab verify --minutes 10\n  dictum lab verify --minutes 2 --nodes 5 --seed 7\n\nExits with 0 \
    if all that was promised held, 4 if something was broken, 5 if something could not be decided."
)]
pub struct VerifyArguments {
    #[command(flatten)]
    own: OwnArguments,
    /// Minutes of load with faults, at most 60.
    #[arg(long, default_value_t = 2.0)]
    minutes: f64,
    /// Clients; each has one operation under way.
    #[arg(long, default_value_t = 12)]
    clients: u32,
    /// Operations a second, all clients together.
    #[arg(long, default_value_t = 1_000.0)]
    rate: f64,
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
        let operations = self.minutes * 60.0 * self.rate;
        if !(operations > 0.0 && operations <= OPERATIONS_MAX) {
            return Err(format!(
                "{} minutes at {} operations a second are {operations:.0} operations: write more than 0 and at most {OPERATIONS_MAX:.0}",
                self.minutes, self.rate
            ));
        }
        Ok(())
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
    let cluster = own.start(Options {
        nodes: arguments.nodes,
        relays: true,
        slow_disks: true,
        durability: arguments.durability.clone(),
        consistency: arguments.consistency.clone(),
        ..Options::default()
    })?;
    own.record.sides.push(cluster.side());
    let schedule = drawn::draw(seed, length, &cluster.names())?;
    own.record.notes.push(format!("The faults, drawn from the seed {seed}: {schedule}."));
    if arguments.consistency.as_deref().is_some_and(|level| level != "linearizable") {
        let note =
            "Reads were not asked to be linearizable, and are checked as if they were: a violation is no fault then.";
        own.record.notes.push(note.to_owned());
    }
    let mut load = load_of(&cluster)?;
    (load.clients, load.seed, load.timeout, load.seconds) = (arguments.clients, seed, TIMEOUT, length.as_secs_f64());
    load.pacing = Pacing::Open { rate: arguments.rate, arrivals: Arrivals::Poisson };
    let checked = workload("checked", &Parameters { seed, ..Parameters::default() })?;
    let plan = Plan {
        id: "faults",
        cluster: &cluster,
        load,
        workload: checked.as_ref(),
        workload_name: "checked",
        schedule: &schedule,
    };
    let mut seen = witness(&mut own, plan)?;
    if arguments.forge {
        own.record.notes.push(forge(&mut seen.history)?);
    }
    own.keep(seen.measured);
    judge(&mut own, &seen.history, &seen.last, seen.of_nodes);
    own.say("ending the cluster");
    drop(cluster);
    own.finish()
}

/// The command line that carries the same out again: with the seed, if the clock has drawn it.
fn command(words: impl Iterator<Item = String>, drawn_seed: Option<u64>) -> String {
    let seed = drawn_seed.into_iter().flat_map(|seed| ["--seed".to_owned(), seed.to_string()]);
    words.chain(seed).map(|word| quoted(&word)).collect::<Vec<_>>().join(" ")
}

/// Lets the last reading of a register that has a value answer with what nobody ever wrote. Says what was changed.
fn forge(history: &mut [Operation]) -> Result<String, String> {
    let read = |operation: &Operation| match operation.steps.as_slice() {
        [step] if operation.outcome == Outcome::Done && step.ask == Ask::Get && step.key.starts_with(b"r:") => {
            matches!(step.answer, Some(Answer::Value(_)))
        }
        _ => false,
    };
    let place = history.iter().rposition(read).ok_or("there is no answer that could be changed: let it run longer")?;
    let step = &mut history[place].steps[0];
    step.answer = Some(Answer::Value(Value::new(b"forged")));
    Ok(format!(
        "An answer was changed before the history was checked, to see the alarm: a GET of {}.",
        step.key.escape_ascii()
    ))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::history::{Limits, check};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        verify: VerifyArguments,
    }

    #[test]
    fn limits_are_told() {
        let checked = |line: &str| Line::try_parse_from(line.split(' ')).unwrap().verify.check();
        assert_eq!(checked("x --minutes 0.1 --nodes 5"), Ok(()));
        assert!(checked("x --minutes 61").unwrap_err().contains("at most 60"));
        assert!(checked("x --nodes 2").unwrap_err().contains("write 3 to"));
        assert!(checked("x --minutes 60 --rate 9000").unwrap_err().contains("32400000 operations"));
        assert!(checked("x --rate NaN").is_err());
    }

    #[test]
    fn the_command_repeats_what_chance_drew() {
        let words = || ["dictum", "lab", "verify"].map(str::to_owned).into_iter();
        assert_eq!(command(words(), Some(7)), "dictum lab verify --seed 7");
        assert_eq!(command(words(), None), "dictum lab verify");
    }

    #[test]
    fn what_is_forged_is_found() {
        let set = Operation::done(1, 1, 2, b"r:1:1", Ask::Set(Value::new(b"a")), Answer::Done);
        let get = Operation::done(2, 3, 4, b"r:1:1", Ask::Get, Answer::Value(Value::new(b"a")));
        let mut history = vec![set, get];
        assert!(check(&history, &[], Limits::default()).verdict.holds);
        assert!(forge(&mut history).unwrap().contains("r:1:1"));
        let verdict = check(&history, &[], Limits::default()).verdict;
        assert!(!verdict.holds && !verdict.offending.is_empty(), "{verdict:?}");
        assert!(forge(&mut []).is_err());
    }
}
