//! `dictum sim`: the simulator's command line. It gives the simulator what it must not have itself: a clock, files,
//! threads.

use std::cell::Cell;
use std::fs;
use std::io::{IsTerminal, Write};
use std::num::NonZero;
use std::process::ExitCode;
use std::thread;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand};
use sim::chaos::{FAULTS, Options, PLANTED};
use sim::command::{Amount, Judgement, SHRINK_RUNS_MAX, World, check_history, replay, run_one, run_seeds};
use sim::run::{Outcome, run as run_seed};

use crate::cli::asked;

/// Seeds that are run when nothing else is said.
const SEEDS_DEFAULT: u64 = 100;
/// Exit code when the options are wrong: that of the argument parser.
const EXIT_USAGE: u8 = 2;
/// Exit code when a history is too hard to judge.
const EXIT_TOO_HARD: u8 = 3;
/// Exit code when something was found, or a replay is not as the file tells.
const EXIT_FOUND: u8 = 1;

/// Example lines for `--help`.
const EXAMPLE: &str = "\
Examples:
  dictum sim --minutes 10                 as many seeds as fit; says what was reached and what never was
  dictum sim --seed 42                    one run, always the same
  dictum sim --seeds 500 --planted read-without-confirmation
                                          plants a bug and shows that the checkers find it
  dictum sim replay dictum-sim-42.events  steps through what a failing seed has left
Everything is drawn from the seed. A failing seed prints the command that repeats it.";

/// Flags of `dictum sim`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLE, args_conflicts_with_subcommands = true)]
pub struct SimArguments {
    #[command(subcommand)]
    command: Option<SimCommand>,
    /// How many seeds to run [default: 100, or 1 with --seed]
    #[arg(long, value_name = "COUNT", conflicts_with = "minutes")]
    seeds: Option<u64>,
    /// The first seed [default: another one each time]
    #[arg(long)]
    seed: Option<u64>,
    /// Run seeds for so many minutes
    #[arg(long)]
    minutes: Option<u64>,
    /// How many nodes [default: drawn]
    #[arg(long)]
    nodes: Option<u16>,
    /// How long faults happen, in simulated milliseconds [default: drawn]
    #[arg(long, value_name = "MILLISECONDS")]
    chaos_ms: Option<u64>,
    /// Kinds of faults that happen for certain, and often, separated by commas
    #[arg(long, value_name = "KIND,…")]
    with: Option<String>,
    /// Kinds of faults to leave out, separated by commas
    #[arg(long, value_name = "KIND,…")]
    without: Option<String>,
    /// Planned faults to leave out, by number, separated by commas
    #[arg(long, value_name = "NUMBER,…")]
    drop: Option<String>,
    /// A bug to plant, to see that it is found
    #[arg(long, value_name = "NAME")]
    planted: Option<String>,
    /// Leave the files of a failing run as it is, instead of looking for a smaller one first
    #[arg(long)]
    no_shrink: bool,
}

#[derive(Subcommand, Clone, Debug)]
enum SimCommand {
    /// Runs again what an event file tells, and prints and compares every event.
    #[command(after_help = "Example:\n  dictum sim replay dictum-sim-42.events --until 1000")]
    Replay {
        /// The file that a failing seed has left
        file: String,
        /// Stop after so many events
        #[arg(long, value_name = "COUNT")]
        until: Option<u64>,
    },
    /// Says whether a recorded history is linearizable; the format stands in sim/src/history.rs.
    #[command(after_help = "Exit codes: 0 linearizable, 1 not, 2 unreadable, 3 too hard to decide\n\
        Example:\n  dictum sim check-history dictum-sim-42.history")]
    CheckHistory {
        /// JSON lines, one operation a line
        file: String,
        /// How much too early, in milliseconds, a time to live may be taken for over
        #[arg(long, value_name = "MILLISECONDS", default_value_t = 10)]
        clock_error_ms: u64,
    },
}

/// Runs the simulator.
#[must_use]
pub fn run(arguments: SimArguments) -> ExitCode {
    let options = match options(&arguments) {
        Ok(options) => options,
        Err(reason) => {
            eprintln!("dictum sim: {reason}");
            return ExitCode::from(EXIT_USAGE);
        }
    };
    let begin = Instant::now();
    let shows_progress = std::io::stderr().is_terminal();
    let unprinted = Cell::new(false);
    let mut world = World {
        print: &mut |line| {
            if shows_progress {
                let _ = write!(std::io::stderr(), "\r\x1b[K");
            }
            // The run goes on for its files and its exit code; what cannot be written is told once.
            if let Err(reason) = asked::print(&format!("{line}\n")).map_err(|reason| format!("dictum sim: {reason}"))
                && !unprinted.replace(true)
            {
                eprintln!("{reason}");
            }
        },
        progress: &mut |line| {
            if shows_progress {
                // Back to the beginning of the line, and the rest of what stood there away.
                let _ = write!(std::io::stderr(), "\r{line}\x1b[K").and_then(|()| std::io::stderr().flush());
            }
        },
        clock_ms: &|| u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX),
        write_file: &mut |name, text| fs::write(name, text).map_err(|error| error.to_string()),
        read_file: &|name| fs::read_to_string(name).map_err(|error| error.to_string()),
        run_all: &run_all,
        parallel: thread::available_parallelism().map_or(1, NonZero::get),
        shrink_runs_max: if arguments.no_shrink { 0 } else { SHRINK_RUNS_MAX },
        commit: option_env!("DICTUM_COMMIT").unwrap_or(env!("CARGO_PKG_VERSION")).to_owned(),
    };
    if let Some(SimCommand::CheckHistory { file, clock_error_ms }) = &arguments.command {
        return ExitCode::from(match check_history(file, *clock_error_ms, &mut world) {
            Judgement::Linearizable if unprinted.get() => EXIT_USAGE,
            Judgement::Linearizable => 0,
            Judgement::NotLinearizable => EXIT_FOUND,
            Judgement::Unreadable => EXIT_USAGE,
            Judgement::TooHard => EXIT_TOO_HARD,
        });
    }
    let fine = match (&arguments.command, arguments.seeds, arguments.minutes) {
        (Some(SimCommand::Replay { file, until }), ..) => replay(file, *until, &mut world),
        (Some(SimCommand::CheckHistory { .. }), ..) => unreachable!("it has returned above"),
        (None, None, None) if arguments.seed.is_some() => run_one(&options, &mut world),
        (None, _, Some(minutes)) => run_seeds(&options, Amount::Minutes(minutes), &mut world),
        (None, seeds, None) => run_seeds(&options, Amount::Seeds(seeds.unwrap_or(SEEDS_DEFAULT)), &mut world),
    };
    match fine {
        true if unprinted.get() => ExitCode::from(EXIT_USAGE),
        true => ExitCode::SUCCESS,
        false => ExitCode::from(EXIT_FOUND),
    }
}

/// The run that the flags describe, in the simulator's own words.
fn options(arguments: &SimArguments) -> Result<Options, String> {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let drawn = since_epoch.as_micros() as u64;
    let mut words = format!("--seed {}", arguments.seed.unwrap_or(drawn));
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            words.push_str(&format!(" {name} {value}"));
        }
    };
    add("--nodes", arguments.nodes.map(|nodes| nodes.to_string()));
    add("--chaos-ms", arguments.chaos_ms.map(|milliseconds| milliseconds.to_string()));
    add("--with", arguments.with.clone());
    add("--without", arguments.without.clone());
    add("--drop", arguments.drop.clone());
    add("--planted", arguments.planted.clone());
    Options::parse(&words).map_err(|error| {
        let faults: Vec<&str> = FAULTS.iter().map(|fault| fault.name()).collect();
        let planted: Vec<&str> = PLANTED.iter().map(|(name, _)| *name).collect();
        format!(
            "{error}\nkinds of faults: {}\nbugs to plant: {}\nsee dictum sim --help",
            faults.join(", "),
            planted.join(", ")
        )
    })
}

/// Runs each on a thread of its own, named by its options, so that a panic, which ends this program, says how to have it
/// again. The simulator gives no more than there are processors.
fn run_all(all: &[Options]) -> Vec<Outcome> {
    thread::scope(|scope| {
        let start = |options: &'_ Options| {
            let name = format!("dictum sim {}", options.to_words());
            let options = options.clone();
            let started = thread::Builder::new().name(name).spawn_scoped(scope, move || run_seed(&options, false));
            started.expect("a thread can be started")
        };
        let running: Vec<_> = all.iter().map(start).collect();
        running.into_iter().map(|thread| thread.join().expect("a run that panics is a bug that must show")).collect()
    })
}
