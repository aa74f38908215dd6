//! Doubly linked lists of keys that share one slab: moving a key from list to list costs a few stores, and a whole list joins another at
//! once.
//!
//! ```text
//!   slots: │ end of list 0 │ end of list 1 │ … │ key │ key │ (free) │ key │ …
//! ```
//! Each list is a ring through its end, a slot without a key: so taking a key out needs no look at which list it is in.

use data::Blob;

/// The place of a key in the slab.
pub(super) type Place = u32;

/// A key in one of the lists, or an end.
#[derive(Clone, Debug, Default)]
pub(super) struct Slot {
    pub key: Blob,
    next: Place,
    previous: Place,
    /// How often it was asked for, as its policy counts.
    pub count: u8,
    /// Which part of the cache it is in, where its policy has parts.
    pub part: u8,
    /// When it was counted last, where counts age.
    pub epoch: u16,
}

/// See the file's head.
#[derive(Clone, Debug)]
pub(super) struct Lists {
    slots: Vec<Slot>,
    /// Slots without a key, which are in no list.
    free: Vec<Place>,
    count: Place,
}

impl Lists {
    /// So many empty lists.
    pub(super) fn new(count: u8) -> Lists {
        let end = |place: Place| Slot { next: place, previous: place, ..Slot::default() };
        let count = Place::from(count);
        Lists { slots: (0..count).map(end).collect(), free: Vec::new(), count }
    }

    /// How many keys there are in all.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len() - self.count as usize
    }

    pub(super) fn get(&self, place: Place) -> &Slot {
        &self.slots[place as usize]
    }

    pub(super) fn get_mut(&mut self, place: Place) -> &mut Slot {
        &mut self.slots[place as usize]
    }

    /// The key that has been in a list for longest.
    pub(super) fn first(&self, list: u8) -> Option<Place> {
        let end = Place::from(list);
        Some(self.get(end).next).filter(|first| *first != end)
    }

    /// Puts a new key at the end of a list.
    pub(super) fn push(&mut self, list: u8, key: Blob) -> Place {
        let slot = Slot { key, ..Slot::default() };
        let place = match self.free.pop() {
            Some(place) => {
                self.slots[place as usize] = slot;
                place
            }
            None => {
                self.slots.push(slot);
                // Keys are counted in bytes elsewhere, more than a hundred each: four thousand million of them do not fit into memory.
                Place::try_from(self.slots.len() - 1).expect("fewer keys than 2^32")
            }
        };
        self.link(list, place);
        place
    }

    /// Moves a key to the end of a list.
    pub(super) fn move_to(&mut self, list: u8, place: Place) {
        self.unlink(place);
        self.link(list, place);
    }

    /// Takes a key out.
    pub(super) fn remove(&mut self, place: Place) -> Blob {
        self.unlink(place);
        self.free.push(place);
        std::mem::take(&mut self.get_mut(place).key)
    }

    /// Puts all of one list behind another.
    pub(super) fn join(&mut self, to: u8, from: u8) {
        let (to, from) = (Place::from(to), Place::from(from));
        let (first, last) = (self.get(from).next, self.get(from).previous);
        if first == from || to == from {
            return;
        }
        let before = self.get(to).previous;
        self.get_mut(before).next = first;
        self.get_mut(first).previous = before;
        self.get_mut(last).next = to;
        self.get_mut(to).previous = last;
        (self.get_mut(from).next, self.get_mut(from).previous) = (from, from);
    }

    fn link(&mut self, list: u8, place: Place) {
        let end = Place::from(list);
        let last = self.get(end).previous;
        (self.get_mut(place).previous, self.get_mut(place).next) = (last, end);
        self.get_mut(last).next = place;
        self.get_mut(end).previous = place;
    }

    fn unlink(&mut self, place: Place) {
        let (previous, next) = (self.get(place).previous, self.get(place).next);
        self.get_mut(previous).next = next;
        self.get_mut(next).previous = previous;
    }
}
