//! `queue`: half of the operations push a job to the left of a list, half take one from the right.

use std::sync::Arc;

use base::Rng;

use super::{Draft, Draw, Mix, Parameters, Shape, Text, Workload, push_decimal};

/// The workload's description.
pub const SHAPE: Shape = Shape {
    name: "queue",
    sentence: "jobs pushed to lists and taken from their other end, in equal parts",
    parameters: &["records (queues)", "field-bytes (of a job)", "mix (push, take)"],
    build,
};

#[derive(Clone)]
struct Queue {
    queues: u64,
    bytes: usize,
    mix: Mix,
    text: Arc<Text>,
}

fn build(parameters: &Parameters) -> Result<Box<dyn Workload>, String> {
    let bytes = parameters.field_bytes_or(100)?;
    Ok(Box::new(Queue {
        queues: parameters.records_or(10)?,
        bytes,
        mix: Mix::new(&[("push", 50.0), ("take", 50.0)], parameters.mix.as_deref())?,
        text: Arc::new(Text::new(bytes, parameters.seed)),
    }))
}

fn queue(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(b"queue:");
    push_decimal(out, number);
}

impl Workload for Queue {
    fn kinds(&self) -> Vec<String> {
        self.mix.names()
    }

    fn records(&self) -> u64 {
        self.queues
    }

    fn load(&self, number: u64, draft: &mut Draft) {
        // A hundred jobs, so that few find nothing.
        draft.command(b"LPUSH").word_with(|out| queue(out, number));
        for job in 0..100 {
            draft.word(self.text.cut_at(self.bytes, number * 100 + job));
        }
    }

    fn draw(&self, seed: u64) -> Result<Box<dyn Draw>, String> {
        Ok(Box::new(Drawer { of: self.clone(), rng: Rng::new(seed) }))
    }
}

struct Drawer {
    of: Queue,
    rng: Rng,
}

impl Draw for Drawer {
    fn next(&mut self, _client: u32, draft: &mut Draft) -> bool {
        let number = self.rng.below(self.of.queues);
        draft.kind = self.of.mix.draw(&mut self.rng);
        if draft.kind == 0 {
            let job = self.of.text.cut(self.of.bytes, &mut self.rng);
            draft.command(b"LPUSH").word_with(|out| queue(out, number)).word(job);
        } else {
            draft.command(b"RPOP").word_with(|out| queue(out, number));
        }
        true
    }
}
