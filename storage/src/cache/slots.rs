//! Entries of a cache in numbered slots, and queues of them. A slot's number takes four bytes where a pointer takes eight, and an entry is one allocation.

/// No slot.
const NONE: u32 = u32::MAX;
/// The queue of free slots.
const FREE: u8 = u8::MAX;
/// Slots are taken in chunks of this many, so that growing moves nothing and leaves nothing spare.
const CHUNK: usize = 1024;

/// `space << 16 | bytes of the key`.
pub(super) type Place = u64;

/// A key and its value, with what queues and policies note of them.
#[derive(Debug)]
pub(super) struct Slot {
    /// Space, and length of the key.
    pub place: Place,
    /// The key, then the value. Empty in a free slot.
    pub bytes: Box<[u8]>,
    /// Neighbours in the queue; `next` also leads from one free slot to another.
    previous: u32,
    next: u32,
    /// The lower half of the key's hash: a table that grows need not work it out again.
    pub hash: u32,
    /// Which queue it is in, or [`FREE`].
    pub queue: u8,
    /// Reads since it came, up to a small number; for the policies that want it.
    pub frequency: u8,
    /// It came for a read that has not come yet.
    pub ahead: bool,
}

const _: () = assert!(size_of::<Slot>() == 40, "entries are counted in millions");

impl Slot {
    /// Nothing is in it.
    pub fn is_free(&self) -> bool {
        self.queue == FREE
    }

    /// Key and value.
    pub fn parts(&self) -> (&[u8], &[u8]) {
        self.bytes.split_at((self.place & 0xffff) as usize)
    }
}

/// All slots of a shard.
#[derive(Debug)]
pub(super) struct Slots {
    chunks: Vec<Vec<Slot>>,
    free: u32,
}

impl Slots {
    pub fn new() -> Slots {
        Slots { chunks: Vec::new(), free: NONE }
    }

    pub fn get(&self, number: u32) -> &Slot {
        &self.chunks[number as usize / CHUNK][number as usize % CHUNK]
    }

    pub fn get_mut(&mut self, number: u32) -> &mut Slot {
        &mut self.chunks[number as usize / CHUNK][number as usize % CHUNK]
    }

    /// Slots that were ever used: those from there on have no number yet.
    pub fn end(&self) -> u32 {
        let last = self.chunks.last().map_or(0, Vec::len);
        (self.chunks.len().saturating_sub(1) * CHUNK + last) as u32
    }

    /// Puts an entry into a free slot. `None` if there are no numbers left (after four thousand million entries).
    pub fn insert(&mut self, place: Place, hash: u32, bytes: Box<[u8]>) -> Option<u32> {
        let slot = Slot { place, bytes, previous: NONE, next: NONE, hash, queue: 0, frequency: 0, ahead: false };
        if self.free != NONE {
            let number = self.free;
            self.free = self.get(number).next;
            *self.get_mut(number) = slot;
            return Some(number);
        }
        let number = self.end();
        if number == NONE - 1 {
            return None;
        }
        if (number as usize).is_multiple_of(CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        self.chunks.last_mut().expect("there is one with room").push(slot);
        Some(number)
    }

    /// Frees a slot that is in no queue, and returns what was in it.
    pub fn remove(&mut self, number: u32) -> Box<[u8]> {
        let free = std::mem::replace(&mut self.free, number);
        let slot = self.get_mut(number);
        (slot.next, slot.queue) = (free, FREE);
        std::mem::take(&mut slot.bytes)
    }
}

/// A queue of slots, with the weight of its entries.
#[derive(Debug)]
pub(super) struct Queue {
    /// Written into the slots that are in it.
    id: u8,
    first: u32,
    last: u32,
    pub weight: usize,
}

impl Queue {
    pub fn new(id: u8) -> Queue {
        Queue { id, first: NONE, last: NONE, weight: 0 }
    }

    /// The oldest.
    pub fn first(&self) -> Option<u32> {
        (self.first != NONE).then_some(self.first)
    }

    /// Puts a slot that is in no queue at the end.
    pub fn push(&mut self, slots: &mut Slots, number: u32, weight: usize) {
        let slot = slots.get_mut(number);
        (slot.previous, slot.next, slot.queue) = (self.last, NONE, self.id);
        match self.last {
            NONE => self.first = number,
            last => slots.get_mut(last).next = number,
        }
        self.last = number;
        self.weight += weight;
    }

    /// Takes a slot of this queue out of it.
    pub fn remove(&mut self, slots: &mut Slots, number: u32, weight: usize) {
        let slot = slots.get(number);
        debug_assert_eq!(slot.queue, self.id, "it is in this queue");
        let (previous, next) = (slot.previous, slot.next);
        match previous {
            NONE => self.first = next,
            previous => slots.get_mut(previous).next = next,
        }
        match next {
            NONE => self.last = previous,
            next => slots.get_mut(next).previous = previous,
        }
        self.weight -= weight;
    }
}
