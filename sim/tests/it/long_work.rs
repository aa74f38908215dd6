//! Long work costs nobody a leadership: a node whose loop is at one large entry is not suspected, as its owner says that it lives.

use node::Planted;
use sim::chaos::{FAULTS, Fault, Options};
use sim::run::run;

/// Seeds of each kind.
const SEEDS: u64 = 12;

/// How often work was long, and how often a peer was suspected, in runs in which nothing else happens to nodes.
fn suspected(planted: Option<Planted>) -> (u64, u64) {
    let misfortunes = |fault: &Fault| *fault < Fault::CommitHere || *fault >= Fault::VotersChange;
    let without: Vec<Fault> =
        FAULTS.into_iter().filter(misfortunes).filter(|fault| *fault != Fault::LongWork).collect();
    let (mut worked, mut suspected) = (0, 0);
    for seed in 8500..8500 + SEEDS {
        let (with, without) = (vec![Fault::LongWork], without.clone());
        let options = Options { seed, nodes: Some(3), with, without, planted, ..Options::default() };
        let outcome = run(&options, false);
        for violation in &outcome.violations {
            assert!(planted.is_some(), "{}: {}: dictum sim {}", violation.property, violation.text, options.to_words());
        }
        worked += outcome.injected.get(&Fault::LongWork).copied().unwrap_or(0);
        suspected += outcome.probes.get("node: peer suspected").copied().unwrap_or(0);
    }
    (worked, suspected)
}

#[test]
fn nobody_is_suspected_for_long_work() {
    let (worked, suspected) = suspected(None);
    assert!(worked >= SEEDS, "work was long {worked} times");
    assert_eq!(suspected, 0, "of {worked}");
}

#[test]
fn the_alarm_works() {
    let (worked, suspected) = suspected(Some(Planted::BusyUnheard));
    assert!(suspected > 0, "of {worked}");
}
