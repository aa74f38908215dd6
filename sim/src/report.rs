//! What many runs came to: speed, simulated time, faults by kind, probes that were never reached.

use std::collections::BTreeMap;

use crate::chaos::{FAULTS, Fault, SECOND};
use crate::run::Outcome;

/// Sums over runs.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Runs.
    pub runs: u64,
    /// Runs with a violation.
    pub failed: u64,
    /// Runs made twice to see that they are the same.
    pub repeated: u64,
    /// Groups of keys for which the linearizability search gave up.
    pub undecided: u64,
    simulated: u64,
    events: u64,
    operations: u64,
    acknowledged: u64,
    injected: BTreeMap<Fault, u64>,
    probes: BTreeMap<&'static str, u64>,
}

impl Report {
    /// Adds a run.
    pub fn add(&mut self, outcome: &Outcome) {
        self.runs += 1;
        self.failed += u64::from(!outcome.violations.is_empty());
        self.undecided += outcome.undecided.len() as u64;
        self.simulated += outcome.simulated;
        self.events += outcome.events;
        self.operations += outcome.operations as u64;
        self.acknowledged += outcome.acknowledged as u64;
        for (fault, count) in &outcome.injected {
            *self.injected.entry(*fault).or_default() += count;
        }
        for (probe, count) in &outcome.probes {
            *self.probes.entry(probe).or_default() += count;
        }
    }

    /// How often a probe was reached.
    #[must_use]
    pub fn probe(&self, name: &str) -> u64 {
        self.probes.get(name).copied().unwrap_or(0)
    }

    /// How often a kind of fault happened.
    #[must_use]
    pub fn injected(&self, fault: Fault) -> u64 {
        self.injected.get(&fault).copied().unwrap_or(0)
    }

    /// One line for while it runs. `elapsed_ms`: real time.
    #[must_use]
    pub fn line(&self, elapsed_ms: u64) -> String {
        let seconds = elapsed_ms.max(1) as f64 / 1000.0;
        format!(
            "{} seeds, {:.1} seeds/s, {:.2} simulated hours, {} operations, {} failed",
            self.runs,
            self.runs as f64 / seconds,
            self.hours(),
            self.operations,
            self.failed
        )
    }

    fn hours(&self) -> f64 {
        self.simulated as f64 / (3600 * SECOND) as f64
    }

    /// Everything. `probes`: all that exist. `elapsed_ms`: real time.
    #[must_use]
    pub fn text(&self, probes: &[&str], elapsed_ms: u64) -> String {
        let seconds = elapsed_ms.max(1) as f64 / 1000.0;
        let mut text =
            format!("seeds            {} in {seconds:.1} s: {:.1} seeds/s\n", self.runs, self.runs as f64 / seconds);
        text.push_str(&format!(
            "simulated        {:.2} hours, {:.0} times as fast as real time\n",
            self.hours(),
            self.hours() * 3600.0 / seconds
        ));
        text.push_str(&format!("events           {}\n", self.events));
        text.push_str(&format!("operations       {}, {} acknowledged\n", self.operations, self.acknowledged));
        text.push_str(&format!("made twice       {} runs, to see that they are the same\n", self.repeated));
        text.push_str(&format!("too hard         {} histories of a group of keys\n", self.undecided));
        text.push_str("faults injected\n");
        for fault in FAULTS {
            // Two kinds are properties of a whole run and have no number.
            let standing = matches!(fault, Fault::SlowNetwork | Fault::ClockOffset | Fault::ClockRate);
            if !standing {
                text.push_str(&format!("  {:<16}{}\n", fault.name(), self.injected(fault)));
            }
        }
        let missed: Vec<&str> = probes.iter().copied().filter(|probe| self.probe(probe) == 0).collect();
        text.push_str(&format!("probes           {} of {} reached\n", probes.len() - missed.len(), probes.len()));
        for (probe, count) in &self.probes {
            text.push_str(&format!("  {probe:<51}{count}\n"));
        }
        if !missed.is_empty() {
            text.push_str(&format!("never reached    {}\n", missed.join(", ")));
        }
        text.push_str(&format!("failed           {}\n", self.failed));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_that_were_not_reached_are_named() {
        let mut report = Report::default();
        let probes = BTreeMap::from([("seen", 3)]);
        report.add(&Outcome { probes, simulated: 3600 * SECOND, ..Outcome::default() });
        let text = report.text(&["seen", "unseen"], 1000);
        assert!(text.contains("1 of 2 reached") && text.contains("never reached    unseen"), "{text}");
        assert!(text.contains("1.00 hours"), "{text}");
    }
}
