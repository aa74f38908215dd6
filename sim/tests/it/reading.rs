//! Clients that read slowly, or not at all for a while: their nodes stop to answer them, and go on when they read.

use sim::chaos::{Fault, Options};
use sim::run::run;

/// Seeds of each kind.
const SEEDS: u64 = 12;

#[test]
fn nodes_wait_for_clients_that_do_not_read() {
    let (mut stopped, mut waited) = (0, 0);
    for seed in 8700..8700 + SEEDS {
        let options = Options { seed, with: vec![Fault::SlowReaders], ..Options::default() };
        let outcome = run(&options, false);
        assert!(outcome.violations.is_empty(), "{:?}: dictum sim {}", outcome.violations, options.to_words());
        stopped += outcome.injected.get(&Fault::SlowReaders).copied().unwrap_or(0);
        waited += outcome.probes.get("node: client does not read").copied().unwrap_or(0);
    }
    assert!(
        stopped >= SEEDS && waited >= SEEDS,
        "{stopped} times clients did not read, {waited} times their node waited"
    );
}

#[test]
fn costly_commands_are_answered_whole_or_refused() {
    let (mut with_some, mut left) = (0, 0);
    for seed in 8800..8800 + SEEDS {
        let options = Options { seed, with: vec![Fault::CostlyCommands, Fault::SlowReaders], ..Options::default() };
        let outcome = run(&options, false);
        assert!(outcome.violations.is_empty(), "{:?}: dictum sim {}", outcome.violations, options.to_words());
        with_some += outcome.injected.get(&Fault::CostlyCommands).copied().unwrap_or(0);
        left += outcome.probes.get("node: entries left to the next turn").copied().unwrap_or(0);
    }
    assert!(
        with_some > 0 && left >= SEEDS,
        "{with_some} runs with costly commands, {left} times entries were left to the next turn"
    );
}
