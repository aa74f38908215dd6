//! An operator has entries stepped over while everything else goes wrong: by all replicas or by none, and what is acknowledged stays.

use std::collections::BTreeMap;

use sim::chaos::{Fault, Options};
use sim::run::run;

use crate::is_long;

#[test]
fn entries_are_stepped_over_by_all_replicas_or_by_none() {
    let mut probes: BTreeMap<&str, u64> = BTreeMap::new();
    let seeds = if is_long() { 300 } else { 24 };
    for seed in 9300..9300 + seeds {
        let options = Options { seed, with: vec![Fault::StepOver], ..Options::default() };
        let outcome = run(&options, false);
        if let Some(violation) = outcome.violations.first() {
            panic!("{}: {}: dictum sim {}", violation.property, violation.text, options.to_words());
        }
        outcome.probes.into_iter().for_each(|(probe, count)| *probes.entry(probe).or_default() += count);
    }
    let wanted = [
        "node: an entry replaced by one without effect",
        "node: a replaced entry put back",
        "node: an entry stepped over",
        "node: holds before a void",
        "sim: all nodes have gone over an entry",
        "sim: operator gave stepping over up",
        "sim: node lost its flag between the rounds",
    ];
    for probe in wanted {
        assert!(probes.contains_key(probe), "never: {probe}");
    }
}
