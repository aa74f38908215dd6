//! Makes a failing run smaller: fewer nodes, fewer kinds of faults, a shorter phase with faults, fewer single faults,
//! as long as the same property is still violated.

use crate::chaos::{FAULTS, Options};
use crate::run::Outcome;

/// Looks for a smaller run that violates the same property, with at most `runs_max` runs.
///
/// Answers the smallest that was found, perhaps the one given, and its outcome.
pub fn shrink(
    options: &Options,
    outcome: Outcome,
    runs_max: u32,
    run: &mut dyn FnMut(&Options) -> Outcome,
) -> (Options, Outcome) {
    let Some(property) = outcome.violations.first().map(|violation| violation.property.clone()) else {
        return (options.clone(), outcome);
    };
    let mut best = (options.clone(), outcome);
    let mut left = runs_max;
    let mut attempt = |best: &mut (Options, Outcome), candidate: Options| -> bool {
        if left == 0 || candidate == best.0 {
            return false;
        }
        left -= 1;
        let outcome = run(&candidate);
        let same = outcome.violations.iter().any(|violation| violation.property == property);
        if same {
            *best = (candidate, outcome);
        }
        same
    };
    // The end of the faults, brought forward as far as it goes.
    let ends_at = crate::chaos::Chaos::draw(&best.0).ends_at / crate::chaos::MS;
    let (mut fails, mut passes) = (ends_at, 0);
    while fails - passes > 500 {
        let middle = (fails + passes) / 2;
        let candidate = Options { chaos_ms: Some(middle), ..best.0.clone() };
        if attempt(&mut best, candidate) {
            fails = middle;
        } else {
            passes = middle;
        }
    }
    for fault in FAULTS {
        if !best.0.without.contains(&fault) {
            let mut without = best.0.without.clone();
            without.push(fault);
            let candidate = Options { without, ..best.0.clone() };
            attempt(&mut best, candidate);
        }
    }
    // Single faults: first by halves, then one by one.
    let mut size = best.1.planned.next_power_of_two() / 2;
    while size > 0 {
        let mut from = 0;
        while from < best.1.planned {
            let mut dropped = best.0.dropped.clone();
            dropped.extend((from..(from + size).min(best.1.planned)).filter(|number| !best.0.dropped.contains(number)));
            dropped.sort_unstable();
            let candidate = Options { dropped, ..best.0.clone() };
            attempt(&mut best, candidate);
            from += size;
        }
        size /= 2;
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::Fault;
    use crate::run::Violation;

    #[test]
    fn what_does_not_matter_is_left_out() {
        // It takes kills and the planned fault 5.
        let mut runs = 0;
        let mut run = |options: &Options| {
            runs += 1;
            let fails = !options.without.contains(&Fault::Kill) && !options.dropped.contains(&5);
            let violation = Violation { property: "p".to_string(), text: String::new() };
            Outcome { violations: if fails { vec![violation] } else { vec![] }, planned: 12, ..Outcome::default() }
        };
        let options = Options { seed: 1, ..Options::default() };
        let outcome = run(&options);
        let (smaller, outcome) = shrink(&options, outcome, 200, &mut run);
        assert_eq!(outcome.violations.len(), 1);
        assert_eq!(smaller.without.len(), FAULTS.len() - 1);
        assert_eq!(smaller.dropped, [0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11]);
        assert!(smaller.chaos_ms.is_some_and(|ms| ms <= 600), "{smaller:?}");
    }
}
