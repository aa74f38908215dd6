//! Judges recorded histories: by the simulator's linearizability checker, and the counters by plain addition.

use std::collections::BTreeMap;
use std::path::Path;

use sim::checkers::linearizability::{Limits, check};
use sim::history::{Op, Operation, Outcome, Reply, to_json_lines};

/// Configurations that the search may visit for one group of keys: as `dictum sim check-history` allows.
const CONFIGURATIONS_MAX: usize = 5_000_000;

/// Says what is wrong with a history, or in a line what it is.
pub fn judge(history: &[Operation]) -> Result<String, String> {
    let limits = Limits { clock_error: 0, configurations_max: CONFIGURATIONS_MAX, clients_in_order: false };
    let verdict = check(history, limits);
    let wrong: Vec<String> = verdict.violations.into_iter().chain(verdict.undecided).collect();
    if !wrong.is_empty() {
        return Err(wrong.join("\n"));
    }
    counters_add_up(history)?;
    let of = |outcome| history.iter().filter(|operation| operation.outcome == outcome).count();
    Ok(format!(
        "{} operations done, {} refused, {} unknown; {} configurations",
        of(Outcome::Done),
        of(Outcome::Failed),
        of(Outcome::Maybe),
        verdict.configurations
    ))
}

/// As [`judge`], and leaves a refused history behind for `dictum sim check-history`.
pub fn expect_linearizable(name: &str, history: &[Operation]) {
    match judge(history) {
        Ok(text) => eprintln!("{name}: {text}"),
        Err(wrong) => {
            let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}.history", std::process::id()));
            std::fs::write(&path, to_json_lines(history)).expect("the folder of the build can be written");
            panic!("{name}: {wrong}\nthe history is in {}", path.display());
        }
    }
}

/// Property: a counter ends at no less than its acknowledged increments, and at no more than those and the unknown ones.
fn counters_add_up(history: &[Operation]) -> Result<(), String> {
    let (mut acknowledged, mut possible, mut last) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for operation in history {
        for (place, command) in operation.commands.iter().enumerate() {
            let key = command.key.as_str();
            match (command.op, operation.outcome) {
                (Op::Incr, Outcome::Done) => *acknowledged.entry(key).or_insert(0) += 1,
                (Op::Incr, Outcome::Maybe) => *possible.entry(key).or_insert(0) += 1,
                (Op::Get, Outcome::Done) => drop(last.insert(key, &operation.replies[place])),
                _ => {}
            }
        }
    }
    for (key, least) in acknowledged {
        let most = least + possible.get(key).copied().unwrap_or(0);
        let found = match last.get(key) {
            Some(Reply::Text(text)) => text.parse().unwrap_or(-1),
            _ => -1,
        };
        if !(least..=most).contains(&found) {
            return Err(format!("{key} ends at {found}, and must be between {least} and {most}"));
        }
    }
    Ok(())
}
