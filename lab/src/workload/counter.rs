//! `counter`: numbers that everyone increments.

use base::Rng;

use super::{Distribution, Draft, Draw, Keys, Parameters, Shape, Workload, push_decimal};

/// The workload's description.
pub const SHAPE: Shape = Shape {
    name: "counter",
    sentence: "counters that everyone increments",
    parameters: &["records (counters)", "distribution"],
    build,
};

struct Counter {
    counters: u64,
    distribution: Distribution,
}

fn build(parameters: &Parameters) -> Result<Box<dyn Workload>, String> {
    let distribution = parameters.distribution.unwrap_or(Distribution::Uniform);
    Ok(Box::new(Counter { counters: parameters.records_or(100)?, distribution }))
}

fn counter(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(b"counter:");
    push_decimal(out, number);
}

impl Workload for Counter {
    fn kinds(&self) -> Vec<String> {
        vec!["increment".to_owned()]
    }

    fn records(&self) -> u64 {
        self.counters
    }

    fn load(&self, number: u64, draft: &mut Draft) {
        draft.command(b"SET").word_with(|out| counter(out, number)).word(b"0");
    }

    fn draw(&self, seed: u64) -> Result<Box<dyn Draw>, String> {
        let mut rng = Rng::new(seed);
        Ok(Box::new(Drawer { keys: Keys::new(self.distribution, self.counters, rng.next_u64())? }))
    }
}

struct Drawer {
    keys: Keys,
}

impl Draw for Drawer {
    fn next(&mut self, _client: u32, draft: &mut Draft) -> bool {
        let number = self.keys.next();
        draft.command(b"INCR").word_with(|out| counter(out, number));
        true
    }
}
