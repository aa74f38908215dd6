//! A backup has all that was acknowledged before it, and nothing that came later, whatever happens in between.

use sim::chaos::{Fault, Options};
use sim::run::run;

use crate::is_long;

#[test]
fn a_backup_is_of_the_moment_at_which_it_was_asked_for() {
    let (mut frozen, mut restored) = (0, 0);
    for seed in 9100..9100 + if is_long() { 40 } else { 12 } {
        let options = Options { seed, with: vec![Fault::Backups], ..Options::default() };
        let outcome = run(&options, false);
        if let Some(violation) = outcome.violations.first() {
            panic!("{}: {}: dictum sim {}", violation.property, violation.text, options.to_words());
        }
        let reached = |probe: &str| outcome.probes.get(probe).copied().unwrap_or(0);
        frozen += reached("node: state frozen for a backup");
        restored += reached("sim: keys restored from a backup beside the living");
    }
    assert!(frozen > 300 && restored > 50, "{frozen} frozen, {restored} restored");
}
