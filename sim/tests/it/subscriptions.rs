//! A subscriber is told each change once, in order, and none is left out silently, whatever happens in between.

use sim::chaos::{Fault, Options};
use sim::run::run;

use crate::is_long;

#[test]
fn no_change_is_skipped_silently() {
    let (mut told, mut gaps, mut behind) = (0, 0, 0);
    for seed in 20_000..20_000 + if is_long() { 200 } else { 16 } {
        // Every other one has clients who stop reading, and every fourth one of whom most are lost.
        let mut with = vec![Fault::Subscriptions];
        with.extend((seed % 2 == 0).then_some(Fault::SlowReaders));
        with.extend((seed % 4 == 1).then_some(Fault::UnsafeRecover));
        let options = Options { seed, with, ..Options::default() };
        let outcome = run(&options, false);
        if let Some(violation) = outcome.violations.first() {
            panic!("{}: {}: dictum sim {}", violation.property, violation.text, options.to_words());
        }
        let reached = |probe: &str| outcome.probes.get(probe).copied().unwrap_or(0);
        told += reached("subscriptions: changes told");
        gaps += reached("subscriptions: a gap told");
        behind += reached("subscriptions: one fell behind");
    }
    assert!(told > 1000 && gaps > 5 && behind > 1, "{told} turns told changes, {gaps} gaps, {behind} fell behind");
}
