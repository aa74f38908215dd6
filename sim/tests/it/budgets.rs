//! Budgets of entries in whole clusters: small ones are passed often, and all replicas agree on which entries have.

use sim::chaos::{Fault, Options};
use sim::run::run;

const WITH: [Fault; 4] = [Fault::BucketTerms, Fault::Sets, Fault::SortedSets, Fault::Lists];

fn options(seed: u64) -> Options {
    Options { seed, nodes: Some(3), with: WITH.to_vec(), without: vec![Fault::Versions], ..Options::default() }
}

#[test]
fn entries_pass_their_budgets_and_replicas_agree() {
    let mut refused = 0;
    for seed in 8600..8612 {
        let outcome = run(&options(seed), false);
        let violation = outcome.violations.first();
        assert!(violation.is_none(), "{violation:?}: dictum sim {}", options(seed).to_words());
        refused += outcome.probes.get("node: entry over its budget").copied().unwrap_or(0);
    }
    assert!(refused > 0, "no entry has passed its budget");
}
