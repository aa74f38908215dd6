//! How long commands on one large stream take, alone on one thread: `cargo run --release -p data --example streams [entries]`.
//!
//! Once with the state in memory, and once over a store (an ordered map in memory, so what a disk would cost is not in it) that it is flushed to
//! as a server does. Figures are microseconds for one command.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "measures time")]

use base::WallTime;
use base::ordered::{OrderedBatch, Space};
use data::{EntryContext, Tree, View, apply, read};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;
use storage::MemoryStore;

const FLUSH_BYTES: u64 = base::limits::FLUSH_BYTES;
const OPERATIONS: u64 = 20_000;

struct State {
    tree: Tree,
    store: Option<MemoryStore>,
    spaces: u64,
}

impl State {
    fn write(&mut self, words: &str) {
        let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
        let context = EntryContext { time: WallTime(1_000_000), ..EntryContext::default() };
        black_box(apply(&mut self.tree, &context, &words));
        if self.store.is_some() && self.tree.unflushed_bytes().0 > FLUSH_BYTES {
            self.flush();
        }
    }

    fn ask(&self, words: &str) {
        let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
        black_box(read(&View::new(&self.tree, WallTime(1_000_000), 0), &words));
    }

    fn flush(&mut self) {
        let Some(store) = &self.store else { return };
        let spaces = &mut self.spaces;
        let flush = self.tree.begin_flush(|| {
            *spaces += 1;
            Space(*spaces)
        });
        let mut batch = OrderedBatch::default();
        flush.expect("none is under way").write(&mut batch).expect("the store is read");
        store.apply(&batch).and_then(|()| store.sync()).expect("there is room");
        self.tree.end_flush();
        drop(self.tree.take_trash());
    }

    /// Runs `operation` so often and prints how long one took.
    fn measure(&mut self, name: &str, count: u64, mut operation: impl FnMut(&mut State, u64)) {
        let begin = Instant::now();
        (0..count).for_each(|number| operation(self, number));
        println!("{name:<50} {:>10.2} us", begin.elapsed().as_secs_f64() * 1e6 / count as f64);
    }
}

fn main() {
    let entries: u64 = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(1_000_000).max(100_000);
    for store in [None, Some(MemoryStore::new())] {
        println!("{entries} entries, {}", if store.is_some() { "over a store" } else { "in memory" });
        let tree = match &store {
            Some(store) => Tree::new().over(Arc::new(store.clone())),
            None => Tree::new(),
        };
        let mut state = State { tree, store, spaces: 0 };
        let add =
            |state: &mut State, number: u64| state.write(&format!("XADD s 1-{} field value:{number:012}", number + 1));
        state.measure("XADD, the first 20,000", OPERATIONS, add);
        state.measure("XADD, the others", entries - OPERATIONS, |state, number| add(state, number + OPERATIONS));
        state.flush();
        let place = |number: u64| number.wrapping_mul(0x9e37_79b9) % entries + 1;
        state.measure("XRANGE of 10 anywhere", OPERATIONS, |state, number| {
            state.ask(&format!("XRANGE s 1-{} + COUNT 10", place(number)));
        });
        state.measure("XREVRANGE of 1 at the end", OPERATIONS, |state, _| state.ask("XREVRANGE s + - COUNT 1"));
        state.measure("XREVRANGE of 10 anywhere", OPERATIONS, |state, number| {
            state.ask(&format!("XREVRANGE s 1-{} - COUNT 10", place(number)));
        });
        state.write("XGROUP CREATE s g 0");
        state
            .measure("XREADGROUP of 1", OPERATIONS, |state, _| state.write("XREADGROUP GROUP g c COUNT 1 STREAMS s >"));
        state.measure("XREADGROUP of 10", OPERATIONS, |state, _| {
            state.write("XREADGROUP GROUP g c COUNT 10 STREAMS s >")
        });
        state.measure("XPENDING, the summary", OPERATIONS, |state, _| state.ask("XPENDING s g"));
        state.measure("XACK of 1, the oldest first", OPERATIONS, |state, number| {
            state.write(&format!("XACK s g 1-{}", number + 1))
        });
        state.measure("XPENDING, the summary, after that", OPERATIONS, |state, _| state.ask("XPENDING s g"));
        state.measure("XADD MAXLEN, one goes for one that comes", OPERATIONS, |state, number| {
            state.write(&format!("XADD s MAXLEN {entries} 2-{} field value", number + 1));
        });
        state.measure("XTRIM of a tenth", 1, |state, _| state.write(&format!("XTRIM s MAXLEN {}", entries / 10 * 9)));
        state.measure("XTRIM to a tenth", 1, |state, _| state.write(&format!("XTRIM s MAXLEN {}", entries / 10)));
        state.measure("XGROUP DESTROY of 200,000 pending", 1, |state, _| state.write("XGROUP DESTROY s g"));
        state.measure("DEL", 1, |state, _| state.write("DEL s"));
        state.flush();
    }
}
