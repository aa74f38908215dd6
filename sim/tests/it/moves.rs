//! Keys that go from one database to another are in one of them, whatever happens in between.

use sim::chaos::{Fault, Options};
use sim::run::run;

use crate::is_long;

#[test]
fn no_key_is_lost_between_two_databases() {
    let mut errands = 0;
    for seed in 9000..9000 + if is_long() { 40 } else { 12 } {
        let options = Options { seed, with: vec![Fault::Moves], ..Options::default() };
        let outcome = run(&options, false);
        if let Some(violation) = outcome.violations.first() {
            panic!("{}: {}: dictum sim {}", violation.property, violation.text, options.to_words());
        }
        errands += outcome.probes.get("node: errand").copied().unwrap_or(0);
    }
    assert!(errands > 500, "{errands}");
}
