//! `updates`: whole values written over and over, as the replicated dictionary was measured (mission §1: a million updates from
//! 1,250 clients). Over `dictionary://` they go to `/insertOrUpdate`, as they did there.

use std::sync::Arc;

use base::Rng;

use super::{Distribution, Draft, Draw, Keys, Parameters, Shape, Text, Workload, push_decimal};

/// The workload's description.
pub const SHAPE: Shape = Shape {
    name: "updates",
    sentence: "whole values inserted or updated; the replicated dictionary's measurement is --clients 1250 --operations 1000000",
    parameters: &["records", "field-bytes", "distribution"],
    build,
};

#[derive(Clone)]
struct Updates {
    records: u64,
    bytes: usize,
    distribution: Distribution,
    text: Arc<Text>,
}

fn build(parameters: &Parameters) -> Result<Box<dyn Workload>, String> {
    let bytes = parameters.field_bytes_or(16)?;
    Ok(Box::new(Updates {
        records: parameters.records_or(10_000)?,
        bytes,
        distribution: parameters.distribution.unwrap_or(Distribution::Uniform),
        text: Arc::new(Text::new(bytes, parameters.seed)),
    }))
}

fn set(number: u64, value: &[u8], draft: &mut Draft) {
    draft.command(b"SET").word_with(|out| {
        out.extend_from_slice(b"entry:");
        push_decimal(out, number);
    });
    draft.word(value);
}

impl Workload for Updates {
    fn kinds(&self) -> Vec<String> {
        vec!["update".to_owned()]
    }

    fn records(&self) -> u64 {
        self.records
    }

    fn load(&self, number: u64, draft: &mut Draft) {
        set(number, self.text.cut_at(self.bytes, number), draft);
    }

    fn draw(&self, seed: u64) -> Result<Box<dyn Draw>, String> {
        let mut rng = Rng::new(seed);
        let keys = Keys::new(self.distribution, self.records, rng.next_u64())?;
        Ok(Box::new(Drawer { of: self.clone(), keys, rng }))
    }
}

struct Drawer {
    of: Updates,
    keys: Keys,
    rng: Rng,
}

impl Draw for Drawer {
    fn next(&mut self, _client: u32, draft: &mut Draft) -> bool {
        set(self.keys.next(), self.of.text.cut(self.of.bytes, &mut self.rng), draft);
        true
    }
}
