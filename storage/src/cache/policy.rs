//! Which entry goes when there is no room: FIFO, LRU, W-TinyLFU and S3-FIFO over queues of slots.
//!
//! S3-FIFO (Yang et al., SOSP 2023): what is new waits in a small queue, a tenth of all; who was read there goes on to the main queue, who was not is evicted,
//! and remembered by his hash for a while: if he comes back he begins in the main queue. There, an entry that was read gets another round for each read, up to
//! three.
//!
//! W-TinyLFU (Einziger et al., 2017): a window for what is new, then probation; who is read there is protected. Of the oldest in window and probation the one that a
//! sketch of counters has seen less often goes.

use std::collections::VecDeque;

use hashbrown::HashTable;

use super::CachePolicy;
use super::slots::{Queue, Slots};

/// A slot's frequency goes no higher.
const FREQUENCY_MAX: u8 = 3;
/// S3-FIFO's small queue, or the window of W-TinyLFU, has one part in so many of the capacity.
const NEW_PART: usize = 10;
/// Eight tenths of the capacity may be protected.
const PROTECTED_TENTHS: usize = 8;

/// The first queue of every policy: the only one, the small one, or the window.
const NEW: u8 = 0;
/// The main queue, or probation.
const MAIN: u8 = 1;
const PROTECTED: u8 = 2;

/// The state of a policy for one shard.
#[derive(Debug)]
pub(super) struct Policy {
    kind: CachePolicy,
    capacity: usize,
    queues: [Queue; 3],
    ghosts: Ghosts,
    sketch: Sketch,
}

impl Policy {
    pub fn new(kind: CachePolicy, capacity: usize) -> Policy {
        let sketch = if kind == CachePolicy::Lfu { Sketch::new() } else { Sketch::default() };
        let queues = [NEW, MAIN, PROTECTED].map(Queue::new);
        Policy { kind, capacity, queues, ghosts: Ghosts::default(), sketch }
    }

    /// Another capacity; what must go for it is for the caller to evict.
    pub fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity;
        self.ghosts.shrink(capacity);
    }

    /// The weight of all entries.
    pub fn weight(&self) -> usize {
        self.queues.iter().map(|queue| queue.weight).sum()
    }

    /// A new entry, which is in no queue yet.
    pub fn push(&mut self, slots: &mut Slots, number: u32) {
        let (hash, weight) = (slots.get(number).hash, weight_of(slots, number));
        let known = self.kind == CachePolicy::S3Fifo && self.ghosts.contains(hash);
        self.queue(if known { MAIN } else { NEW }).push(slots, number, weight);
        if self.kind == CachePolicy::Lfu {
            self.sketch.count(hash);
            while self.queues[usize::from(NEW)].weight > self.capacity / NEW_PART
                && let Some(oldest) = self.queues[usize::from(NEW)].first()
            {
                self.shift(slots, oldest, MAIN);
            }
        }
    }

    /// An entry was read.
    pub fn read(&mut self, slots: &mut Slots, number: u32) {
        match self.kind {
            CachePolicy::Fifo => {}
            CachePolicy::Lru => self.shift(slots, number, NEW),
            CachePolicy::S3Fifo => {
                let slot = slots.get_mut(number);
                slot.frequency = FREQUENCY_MAX.min(slot.frequency + 1);
            }
            CachePolicy::Lfu => {
                self.sketch.count(slots.get(number).hash);
                let queue = slots.get(number).queue;
                self.shift(slots, number, if queue == NEW { NEW } else { PROTECTED });
                while self.queues[usize::from(PROTECTED)].weight > self.capacity / 10 * PROTECTED_TENTHS
                    && let Some(oldest) = self.queues[usize::from(PROTECTED)].first()
                {
                    self.shift(slots, oldest, MAIN);
                }
            }
        }
    }

    /// An entry has got another value in its place, of another weight. FIFO, LRU and LFU take it for a use. S3-FIFO lets it stand where it stands: overwriting all
    /// keys tells nothing of what is read.
    pub fn rewritten(&mut self, slots: &mut Slots, number: u32, before: usize, now: usize) {
        let queue = self.queue(slots.get(number).queue);
        queue.weight = queue.weight - before + now;
        match self.kind {
            CachePolicy::Fifo => self.shift(slots, number, NEW),
            CachePolicy::Lru | CachePolicy::Lfu => self.read(slots, number),
            CachePolicy::S3Fifo => {}
        }
    }

    /// Takes an entry out of its queue.
    pub fn remove(&mut self, slots: &mut Slots, number: u32) {
        let weight = weight_of(slots, number);
        self.queue(slots.get(number).queue).remove(slots, number, weight);
    }

    /// Takes the entry that has to go out of its queue.
    pub fn evict(&mut self, slots: &mut Slots) -> Option<u32> {
        let number = match self.kind {
            CachePolicy::Fifo | CachePolicy::Lru => self.queues[usize::from(NEW)].first()?,
            CachePolicy::Lfu => {
                let [new, main, protected] = &self.queues;
                match (new.first(), main.first()) {
                    (Some(new), Some(main)) => {
                        let seen = |number| self.sketch.estimate(slots.get(number).hash);
                        if seen(new) < seen(main) { new } else { main }
                    }
                    (new, main) => new.or(main).or(protected.first())?,
                }
            }
            CachePolicy::S3Fifo => return self.evict_s3(slots),
        };
        self.remove(slots, number);
        Some(number)
    }

    fn evict_s3(&mut self, slots: &mut Slots) -> Option<u32> {
        while self.queues[usize::from(NEW)].weight > self.capacity / NEW_PART {
            let Some(oldest) = self.queues[usize::from(NEW)].first() else { break };
            if slots.get(oldest).frequency > 0 {
                self.shift(slots, oldest, MAIN);
                continue;
            }
            let weight = weight_of(slots, oldest);
            self.remove(slots, oldest);
            self.ghosts.push(slots.get(oldest).hash, weight, self.capacity);
            return Some(oldest);
        }
        while let Some(oldest) = self.queues[usize::from(MAIN)].first() {
            let slot = slots.get_mut(oldest);
            if slot.frequency <= 1 {
                slot.frequency = 0;
                self.remove(slots, oldest);
                return Some(oldest);
            }
            slot.frequency -= 1;
            self.shift(slots, oldest, MAIN);
        }
        let oldest = self.queues[usize::from(NEW)].first()?;
        self.remove(slots, oldest);
        Some(oldest)
    }

    /// To the end of a queue.
    fn shift(&mut self, slots: &mut Slots, number: u32, queue: u8) {
        let weight = weight_of(slots, number);
        self.remove(slots, number);
        self.queue(queue).push(slots, number, weight);
    }

    fn queue(&mut self, id: u8) -> &mut Queue {
        &mut self.queues[usize::from(id)]
    }
}

fn weight_of(slots: &Slots, number: u32) -> usize {
    super::group::weight(slots.get(number).bytes.len())
}

/// Hashes of what was evicted lately, as many as the cache could hold.
#[derive(Debug, Default)]
struct Ghosts {
    /// The hash, and the weight that the entry had.
    queue: VecDeque<(u32, u32)>,
    hashes: HashTable<u32>,
    weight: usize,
}

impl Ghosts {
    fn contains(&self, hash: u32) -> bool {
        self.hashes.find(spread(hash), |ghost| *ghost == hash).is_some()
    }

    fn push(&mut self, hash: u32, weight: usize, capacity: usize) {
        let weight = weight.min(u32::MAX as usize);
        self.shrink(capacity.saturating_sub(weight));
        self.queue.push_back((hash, weight as u32));
        self.weight += weight;
        if !self.contains(hash) {
            self.hashes.insert_unique(spread(hash), hash, |ghost| spread(*ghost));
        }
    }

    fn shrink(&mut self, weight: usize) {
        while self.weight > weight
            && let Some((hash, weight)) = self.queue.pop_front()
        {
            self.weight -= weight as usize;
            if let Ok(ghost) = self.hashes.find_entry(spread(hash), |ghost| *ghost == hash) {
                ghost.remove();
            }
        }
    }
}

/// All bits of a hash that has 32, for a table that looks at the highest and the lowest.
pub(super) fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Counts of hashes, approximate: too high where hashes meet in all rows. Halved now and then, so that what is long ago counts less.
#[derive(Debug, Default)]
struct Sketch {
    /// Rows one after the other.
    counters: Vec<u16>,
    counted: usize,
}

const SKETCH_ROWS: usize = 3;
const SKETCH_COUNTERS: usize = 2719;

impl Sketch {
    fn new() -> Sketch {
        Sketch { counters: vec![0; SKETCH_ROWS * SKETCH_COUNTERS], counted: 0 }
    }

    fn places(hash: u32) -> [usize; SKETCH_ROWS] {
        let hash = spread(hash);
        let step = (hash >> 32) | 1;
        std::array::from_fn(|row| {
            let mixed = hash.wrapping_add(step.wrapping_mul(row as u64)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
            row * SKETCH_COUNTERS + mixed as usize % SKETCH_COUNTERS
        })
    }

    fn count(&mut self, hash: u32) {
        for place in Sketch::places(hash) {
            self.counters[place] = self.counters[place].saturating_add(1);
        }
        self.counted += 1;
        if self.counted >= SKETCH_COUNTERS {
            self.counted /= 2;
            self.counters.iter_mut().for_each(|counter| *counter /= 2);
        }
    }

    fn estimate(&self, hash: u32) -> u16 {
        Sketch::places(hash).into_iter().map(|place| self.counters[place]).min().unwrap_or(0)
    }
}
