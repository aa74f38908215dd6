//! `dictum sim`: many seeds, or one, or the replay of a file. The world outside comes in as functions, so that this
//! crate stays without clock, files and threads.

use crate::chaos::{Options, SECOND};
use crate::checkers::linearizability::{self, Limits};
use crate::report::Report;
use crate::run::{Outcome, run};
use crate::shrink::shrink;

/// The first line of an event file; the number is the version of the format.
const FILE_MAGIC: &str = "dictum-sim events 1";
/// Every so many seeds, a run is made twice.
const REPEATED_EVERY: u64 = 16;
/// Runs that making a failure smaller may cost, as a rule.
pub const SHRINK_RUNS_MAX: u32 = 120;
/// Configurations that the search may visit for one group of keys of a history from outside.
const HISTORY_CONFIGURATIONS_MAX: usize = 5_000_000;
/// Failing seeds after which no more are looked for.
const FAILURES_MAX: u64 = 3;

/// What the world does for the simulator.
pub struct World<'a> {
    /// Prints a line.
    pub print: &'a mut dyn FnMut(&str),
    /// Shows how far it is; replaced by the next.
    pub progress: &'a mut dyn FnMut(&str),
    /// Milliseconds since some moment.
    pub clock_ms: &'a dyn Fn() -> u64,
    /// Writes a file in the current folder.
    pub write_file: &'a mut dyn FnMut(&str, &str) -> Result<(), String>,
    /// Reads a file.
    pub read_file: &'a dyn Fn(&str) -> Result<String, String>,
    /// Runs several at once, on as many threads as there are; answers in the same order.
    pub run_all: &'a dyn Fn(&[Options]) -> Vec<Outcome>,
    /// How many runs make good use of `run_all`.
    pub parallel: usize,
    /// Runs that making a failure smaller may cost; with none it stays as it is.
    pub shrink_runs_max: u32,
    /// What the program was built from, for the head of files.
    pub commit: String,
}

/// How many seeds to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Amount {
    /// So many seeds.
    Seeds(u64),
    /// As many as fit into so many minutes.
    Minutes(u64),
}

/// Runs seeds from `options.seed` on. True if nothing was found.
pub fn run_seeds(options: &Options, amount: Amount, world: &mut World<'_>) -> bool {
    let started = (world.clock_ms)();
    let mut report = Report::default();
    let mut next = 0;
    loop {
        let elapsed = (world.clock_ms)() - started;
        let more = match amount {
            Amount::Seeds(seeds) => next < seeds,
            Amount::Minutes(minutes) => elapsed < minutes * 60_000,
        };
        if !more || report.failed >= FAILURES_MAX {
            break;
        }
        let mut batch: Vec<Options> = Vec::new();
        while batch.len() < world.parallel.max(1) && !matches!(amount, Amount::Seeds(seeds) if next >= seeds) {
            batch.push(Options { seed: options.seed.wrapping_add(next), ..options.clone() });
            next += 1;
        }
        let outcomes = (world.run_all)(&batch);
        for (options, outcome) in batch.iter().zip(outcomes) {
            report.add(&outcome);
            if report.runs % REPEATED_EVERY == 1 {
                report.repeated += 1;
                let again = run(options, false);
                if (again.digest, again.events) != (outcome.digest, outcome.events) {
                    report.failed += 1;
                    (world.print)(&format!("NOT DETERMINISTIC: dictum sim {}", options.to_words()));
                }
            }
            for group in &outcome.undecided {
                (world.print)(&format!("too hard to judge: dictum sim {}: {group}", options.to_words()));
            }
            if !outcome.violations.is_empty() {
                tell_failure(options, outcome, world);
            }
        }
        (world.progress)(&report.line((world.clock_ms)() - started));
    }
    (world.print)(&report.text(&[node::PROBES, &crate::probes()].concat(), (world.clock_ms)() - started));
    report.failed == 0
}

/// Runs one seed and tells what it came to; a failure also leaves its file. True if nothing was found.
pub fn run_one(options: &Options, world: &mut World<'_>) -> bool {
    let outcome = run(options, false);
    let fine = outcome.violations.is_empty();
    (world.print)(&format!(
        "seed {}: {:.3} simulated seconds, {} events, digest {:016x}, {} operations, {} acknowledged",
        options.seed,
        outcome.simulated as f64 / SECOND as f64,
        outcome.events,
        outcome.digest,
        outcome.operations,
        outcome.acknowledged
    ));
    if fine {
        (world.print)("nothing found");
    } else {
        tell_failure(options, outcome, world);
    }
    fine
}

fn tell_failure(options: &Options, outcome: Outcome, world: &mut World<'_>) {
    (world.print)(&format!("FAILED: dictum sim {}", options.to_words()));
    for violation in outcome.violations.iter().take(3) {
        (world.print)(&format!("  {}: {}", violation.property, violation.text));
    }
    if world.shrink_runs_max > 0 {
        (world.progress)("making it smaller …");
    }
    let (smaller, _) = shrink(options, outcome, world.shrink_runs_max, &mut |options| run(options, false));
    let told = run(&smaller, true);
    let name = format!("dictum-sim-{}.events", smaller.seed);
    if smaller != *options {
        (world.print)(&format!("  smaller: dictum sim {}", smaller.to_words()));
    }
    match (world.write_file)(&name, &event_file(&smaller, &told, &world.commit)) {
        Ok(()) => (world.print)(&format!("  step through it: dictum sim replay {name}")),
        Err(error) => (world.print)(&format!("  {name} cannot be written: {error}")),
    }
    let history = crate::history::to_json_lines(&told.history);
    if let Err(error) = (world.write_file)(&format!("dictum-sim-{}.history", smaller.seed), &history) {
        (world.print)(&format!("  the history cannot be written: {error}"));
    }
}

/// What became of a history that was given to be judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Judgement {
    /// Some order explains it.
    Linearizable,
    /// None does.
    NotLinearizable,
    /// The search was given up.
    TooHard,
    /// It cannot be read.
    Unreadable,
}

/// Judges a history of JSON lines (see [`crate::history`]). `clock_error_ms`: how much too early, in milliseconds, a time to
/// live may be taken for over.
pub fn check_history(path: &str, clock_error_ms: u64, world: &mut World<'_>) -> Judgement {
    let history = match (world.read_file)(path).and_then(|text| crate::history::from_json_lines(&text)) {
        Ok(history) => history,
        Err(error) => {
            (world.print)(&format!("{path} cannot be read: {error}"));
            return Judgement::Unreadable;
        }
    };
    let clock_error = clock_error_ms.saturating_mul(crate::chaos::MS);
    let limits = Limits { clock_error, configurations_max: HISTORY_CONFIGURATIONS_MAX, clients_in_order: false };
    let verdict = linearizability::check(&history, limits);
    for text in verdict.violations.iter().chain(&verdict.undecided) {
        (world.print)(text);
    }
    let (judgement, word) = match (verdict.violations.is_empty(), verdict.undecided.is_empty()) {
        (false, _) => (Judgement::NotLinearizable, "NOT linearizable"),
        (true, false) => (Judgement::TooHard, "too hard to judge"),
        (true, true) => (Judgement::Linearizable, "linearizable"),
    };
    let (operations, configurations) = (verdict.operations, verdict.configurations);
    (world.print)(&format!("{operations} operations are {word} ({configurations} configurations)"));
    judgement
}

/// The text of an event file: what to run, what was found, then every event.
#[must_use]
pub fn event_file(options: &Options, outcome: &Outcome, commit: &str) -> String {
    let mut text = format!("{FILE_MAGIC}\noptions {}\ncommit {commit}\n", options.to_words());
    text.push_str(&format!("digest {:016x} events {}\n", outcome.digest, outcome.events));
    for violation in &outcome.violations {
        text.push_str(&format!("violation {}: {}\n", violation.property, violation.text.replace('\n', "\n  | ")));
    }
    text.push_str("---\n");
    for line in &outcome.lines {
        text.push_str(line);
        text.push('\n');
    }
    text
}

/// Runs again what a file tells, compares event by event, and prints the first `until` events. True if all is as told.
pub fn replay(path: &str, until: Option<u64>, world: &mut World<'_>) -> bool {
    let text = match (world.read_file)(path) {
        Ok(text) => text,
        Err(error) => {
            (world.print)(&format!("{path} cannot be read: {error}"));
            return false;
        }
    };
    let Some((head, body)) = text.split_once("\n---\n") else {
        (world.print)(&format!("{path} is not an event file: it has no line with ---"));
        return false;
    };
    let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("").trim();
    if head.lines().next() != Some(FILE_MAGIC) {
        (world.print)(&format!("{path} is not an event file of this version: it does not begin with \"{FILE_MAGIC}\""));
        return false;
    }
    let options = match Options::parse(field("options ")) {
        Ok(options) => options,
        Err(error) => {
            (world.print)(&format!("{path}: {error}"));
            return false;
        }
    };
    if field("commit ") != world.commit {
        let (then, now) = (field("commit "), &world.commit);
        (world.print)(&format!("note: the file was made with {then}, this is {now}; events may differ"));
    }
    let outcome = run(&options, true);
    let told: Vec<&str> = body.lines().collect();
    let until = until.unwrap_or(u64::MAX).min(outcome.lines.len() as u64) as usize;
    for (number, line) in outcome.lines.iter().enumerate().take(until) {
        (world.print)(&format!("{:>7} {line}", number + 1));
        if told.get(number) != Some(&line.as_str()) {
            let was = told.get(number).unwrap_or(&"(the end)");
            (world.print)(&format!("DIFFERENT from the file at event {}, which has:\n        {was}", number + 1));
            return false;
        }
    }
    if until == outcome.lines.len() {
        for violation in &outcome.violations {
            (world.print)(&format!("VIOLATION of {}: {}", violation.property, violation.text));
        }
    }
    let same = told.len() == outcome.lines.len() && told.iter().zip(&outcome.lines).all(|(one, other)| one == other);
    (world.print)(if same { "every event is as in the file" } else { "the events are NOT those of the file" });
    same
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_names_its_run() {
        let options = Options { seed: 9, ..Options::default() };
        let outcome = Outcome { lines: vec!["one".into(), "two".into()], ..Outcome::default() };
        let text = event_file(&options, &outcome, "abc");
        assert!(text.starts_with("dictum-sim events 1\noptions --seed 9\ncommit abc\n"), "{text}");
        assert!(text.ends_with("---\none\ntwo\n"), "{text}");
    }
}
