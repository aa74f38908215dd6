//! Fields of hashes that expire: deadlines by field and by time, and an index of the hashes that have some.
//!
//! ```text
//!   (deadlines of n, half of XXH3(field), field)  ─► deadline                  by field
//!   (deadlines of n, high bit + deadline, field)  ─► nothing                   by time
//!   (deadlines of 0, soonest deadline, key)       ─► n                         hashes, by their soonest field
//! ```
//! A hash whose head does not say that it has deadlines ([`Collection::has_deadlines`]) has none of this, and costs none of it. One whose head says so has at least one
//! deadline, and stands in the index once. So what is due next is the first of the index, and which field it is the first by time.
//!
//! The deadlines share the number of their hash, so a rename moves them with the head, and giving up queues two numbers. The index is a part of the queue's number,
//! which no collection has; like the queue it is flushed, sent and frozen with everything else, and needs no limit.

use super::{Collections, PARTS, QUEUE};
use crate::blob::Blob;
use crate::image::Malformed;
use crate::kept::{ElementKey, ElementRef};
use crate::transaction::name_order;
use crate::value::Collection;
use base::WallTime;
use base::checksum::xxh3;
use std::ops::Bound;
use std::sync::OnceLock;

/// The deadlines of a hash.
pub(crate) const PART_DEADLINES: u64 = PARTS;
/// The index.
pub(crate) const INDEX: u64 = QUEUE | PART_DEADLINES;
/// What is by time comes behind what is by field.
const BY_TIME: u64 = 1 << 63;

/// The soonest deadline of all fields, once it has been looked for. Follows from the elements.
#[derive(Clone, Debug, Default)]
pub(crate) struct Soonest(OnceLock<Option<WallTime>>);

impl Soonest {
    fn came(&mut self, deadline: WallTime) {
        if let Some(known) = self.0.take() {
            let soonest = known.map_or(deadline, |known| known.min(deadline));
            self.0 = OnceLock::from(Some(soonest));
        }
    }

    fn went(&mut self, deadline: WallTime) {
        if self.0.get().is_some_and(|known| *known == Some(deadline)) {
            self.0.take();
        }
    }
}

fn by_field(number: u64, field: &[u8]) -> ElementRef<'_> {
    ElementRef { collection: number | PART_DEADLINES, order: name_order(field) >> 1, name: field }
}

fn by_time(number: u64, deadline: WallTime, field: &[u8]) -> ElementKey {
    ElementKey { collection: number | PART_DEADLINES, order: BY_TIME | deadline.0, name: Blob::new(field) }
}

fn read_time(value: &[u8]) -> Option<WallTime> {
    Some(WallTime(u64::from_be_bytes(value.try_into().ok()?)))
}

impl Collections {
    /// When a field ceases to exist; none if it stays.
    pub(crate) fn field_deadline(&self, of: Collection, field: &[u8]) -> Option<WallTime> {
        let deadlines = of.has_deadlines().then(|| self.elements.get(by_field(of.number(), field)));
        deadlines.flatten().as_deref().and_then(read_time)
    }

    /// Whether a field has expired at `time`.
    pub(crate) fn is_due(&self, of: Collection, field: &[u8], time: WallTime) -> bool {
        self.field_deadline(of, field).is_some_and(|deadline| deadline <= time)
    }

    /// The deadlines of a hash, the soonest first.
    pub(crate) fn field_deadlines(&self, of: Collection) -> impl Iterator<Item = (WallTime, Blob)> {
        let from = Bound::Included((BY_TIME, &b""[..]));
        let times = of.has_deadlines().then(|| self.range(of.number() | PART_DEADLINES, from));
        times.into_iter().flatten().map(|(key, _)| (WallTime(key.order & !BY_TIME), key.name))
    }

    /// The soonest deadline of a hash.
    pub(crate) fn soonest_field(&self, of: Collection) -> Option<WallTime> {
        self.field_deadlines(of).next().map(|(deadline, _)| deadline)
    }

    /// The soonest deadline of a hash that is later than `time`.
    pub(crate) fn soonest_field_after(&self, of: Collection, time: WallTime) -> Option<WallTime> {
        let from = Bound::Included((BY_TIME | time.0.saturating_add(1), &b""[..]));
        let key = of.has_deadlines().then(|| self.range(of.number() | PART_DEADLINES, from).next()).flatten();
        key.map(|(key, _)| WallTime(key.order & !BY_TIME))
    }

    /// Sets or takes away the deadline of a field that had `before`.
    pub(crate) fn move_field_deadline(
        &mut self,
        number: u64,
        field: &[u8],
        before: Option<WallTime>,
        after: Option<WallTime>,
    ) {
        if let Some(before) = before {
            self.elements.erase(by_time(number, before, field));
        }
        match after {
            Some(after) => {
                self.insert(by_field(number, field).to_key(), Blob::new(&after.0.to_be_bytes()));
                self.insert_new(by_time(number, after, field), Blob::EMPTY);
            }
            None => self.elements.erase(by_field(number, field).to_key()),
        }
    }

    /// Puts the hash under a key into the index.
    pub(crate) fn index_hash(&mut self, key: &Blob, number: u64, soonest: WallTime) {
        let place = ElementKey { collection: INDEX, order: soonest.0, name: key.clone() };
        self.insert_new(place, Blob::new(&number.to_be_bytes()));
        self.soonest.came(soonest);
    }

    /// Takes the hash under a key out of the index.
    pub(crate) fn unindex_hash(&mut self, key: &Blob, soonest: WallTime) {
        self.elements.erase(ElementKey { collection: INDEX, order: soonest.0, name: key.clone() });
        self.soonest.went(soonest);
    }

    fn first_of_index(&self) -> Option<ElementKey> {
        self.range(INDEX, Bound::Unbounded).next().map(|(key, _)| key)
    }

    /// The soonest deadline of any field.
    pub(crate) fn next_field_deadline(&self) -> Option<WallTime> {
        *self.soonest.0.get_or_init(|| self.first_of_index().map(|key| WallTime(key.order)))
    }

    /// The key of the hash with the field that is due first at `time`, if any is.
    pub(crate) fn first_due_hash(&self, time: WallTime) -> Option<Blob> {
        self.next_field_deadline().filter(|deadline| *deadline <= time)?;
        self.first_of_index().map(|key| key.name)
    }
}

/// Holds deadlines and the index against each other and against what heads say. Sums do not care for the order.
#[derive(Clone, Debug, Default)]
pub(super) struct Balance {
    /// By field, less by time.
    fields: u64,
    /// Heads that say that there are deadlines, less those in the index.
    heads: u64,
    /// Soonest deadlines in the index, less those of hashes.
    soonest: u64,
    /// The hash that was met last by time.
    at: u64,
}

fn sign(number: u64, deadline: u64, field: &[u8]) -> u64 {
    xxh3(&[&number.to_be_bytes()[..], &deadline.to_be_bytes(), field].concat())
}

impl Balance {
    /// A head says so.
    pub(super) fn say(&mut self, number: u64) {
        self.heads = self.heads.wrapping_add(sign(number, 0, b""));
    }

    /// The next element of the part.
    pub(super) fn add(&mut self, key: &ElementKey, value: &[u8], is_given_up: bool) -> Result<(), Malformed> {
        let number = key.collection & !PARTS;
        let deadline = key.order & !BY_TIME;
        let malformed = Malformed("a deadline of a field is none");
        if key.collection == INDEX {
            let number = value.try_into().map(u64::from_be_bytes).map_err(|_| malformed)?;
            self.heads = self.heads.wrapping_sub(sign(number, 0, b""));
            self.soonest = self.soonest.wrapping_add(sign(number, key.order, b""));
        } else if key.order & BY_TIME == 0 {
            let deadline = read_time(value).filter(|_| key.order == name_order(&key.name) >> 1).ok_or(malformed)?;
            if !is_given_up {
                self.fields = self.fields.wrapping_add(sign(number, deadline.0, &key.name));
            }
        } else if !value.is_empty() {
            return Err(malformed);
        } else if !is_given_up {
            self.fields = self.fields.wrapping_sub(sign(number, deadline, &key.name));
            if self.at != number {
                self.at = number;
                self.soonest = self.soonest.wrapping_sub(sign(number, deadline, b""));
            }
        }
        Ok(())
    }

    /// After the last element.
    pub(super) fn check(&self) -> Result<(), Malformed> {
        let even = (self.fields, self.heads, self.soonest) == (0, 0, 0);
        if even { Ok(()) } else { Err(Malformed("deadlines of fields contradict each other")) }
    }
}

#[cfg(test)]
mod tests;
