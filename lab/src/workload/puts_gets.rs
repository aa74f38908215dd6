//! `puts-gets`: half puts, half gets of whole values, as the subscription store was measured (mission §2: 800 requests, half
//! and half, from 5 and 20 clients).

use std::sync::Arc;

use base::Rng;

use super::{Distribution, Draft, Draw, Keys, Mix, Parameters, Shape, Text, Workload, push_decimal};

/// The workload's description.
pub const SHAPE: Shape = Shape {
    name: "puts-gets",
    sentence: "half puts, half gets of whole values under plain keys, as the subscription store was measured",
    parameters: &["records", "field-bytes", "distribution", "mix (put, get)"],
    build,
};

struct PutsGets {
    records: u64,
    bytes: usize,
    distribution: Distribution,
    mix: Mix,
    text: Arc<Text>,
}

fn build(parameters: &Parameters) -> Result<Box<dyn Workload>, String> {
    let bytes = parameters.field_bytes_or(100)?;
    Ok(Box::new(PutsGets {
        records: parameters.records_or(1_000)?,
        bytes,
        distribution: parameters.distribution.unwrap_or(Distribution::Uniform),
        mix: Mix::new(&[("put", 50.0), ("get", 50.0)], parameters.mix.as_deref())?,
        text: Arc::new(Text::new(bytes, parameters.seed)),
    }))
}

fn key(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(b"key:");
    push_decimal(out, number);
}

impl Workload for PutsGets {
    fn kinds(&self) -> Vec<String> {
        self.mix.names()
    }

    fn records(&self) -> u64 {
        self.records
    }

    fn load(&self, number: u64, draft: &mut Draft) {
        draft.command(b"SET").word_with(|out| key(out, number)).word(self.text.cut_at(self.bytes, number));
    }

    fn draw(&self, seed: u64) -> Result<Box<dyn Draw>, String> {
        let mut rng = Rng::new(seed);
        let keys = Keys::new(self.distribution, self.records, rng.next_u64())?;
        Ok(Box::new(Drawer { bytes: self.bytes, mix: self.mix.clone(), text: Arc::clone(&self.text), keys, rng }))
    }
}

struct Drawer {
    bytes: usize,
    mix: Mix,
    text: Arc<Text>,
    keys: Keys,
    rng: Rng,
}

impl Draw for Drawer {
    fn next(&mut self, _client: u32, draft: &mut Draft) -> bool {
        let number = self.keys.next();
        draft.kind = self.mix.draw(&mut self.rng);
        if draft.kind == 0 {
            let value = self.text.cut(self.bytes, &mut self.rng);
            draft.command(b"SET").word_with(|out| key(out, number)).word(value);
        } else {
            draft.command(b"GET").word_with(|out| key(out, number));
        }
        true
    }
}
