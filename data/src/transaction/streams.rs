//! How a write changes a stream: at its end, at its front, or an entry in the middle.

use super::Transaction;
use crate::algorithms::dump::{DumpedConsumer, DumpedStream};
use crate::blob::Blob;
use crate::collections::streams::{Pending, block_key, block_value, entry_key};
use crate::collections::{Collections, PART_BLOCKS, PART_GROUPS};
use crate::failure::Failure;
use crate::kept::ElementKey;
use crate::store::KeyRef;
use crate::value::{COLLECTION_LEN_MAX, Collection, Kind, OpenBlock, Stream, StreamId, Value};
use base::versions::Feature;
use std::ops::Bound;

/// A block takes no more entries than that, and none with which it would have so many bytes: as a node of a Redis.
pub(crate) const BLOCK_ENTRIES_MAX: u32 = if cfg!(test) { 4 } else { 100 };
pub(crate) const BLOCK_BYTES: u32 = 4096;
/// Of a stream of so many entries it is asked whether what stays is less than what goes.
const REWRITTEN_MIN: u64 = if cfg!(test) { 8 } else { 1000 };

/// What of a stream is to stay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keep {
    /// The last entries, so many.
    Newest(u64),
    /// Those from an identifier on.
    From(StreamId),
}

/// A stream that is being changed. One that did not exist is made by the first change.
#[derive(Debug)]
pub struct StreamEdit<'t, 'a> {
    pub(super) tx: &'t mut Transaction<'a>,
    /// Of number 0 until there is one.
    pub(super) stream: Stream,
    pub(super) changed: bool,
}

impl StreamEdit<'_, '_> {
    /// Its head, as it is by now.
    #[must_use]
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// For what goes over the same stream while it changes.
    pub(crate) fn collections(&self) -> &Collections {
        &self.tx.tree.collections
    }

    pub(super) fn collections_mut(&mut self) -> &mut Collections {
        &mut self.tx.tree.collections
    }

    /// Refuses one more entry than a stream may have. Before the first change.
    pub fn check_room(&self) -> Result<(), Failure> {
        if self.stream.len() < COLLECTION_LEN_MAX { Ok(()) } else { Err(Kind::Stream.is_full()) }
    }

    /// From now on there is a stream, also if it is without entries.
    pub fn touch(&mut self) {
        self.changed = true;
        if self.stream.number() == 0 {
            let number = self.collections_mut().new_number();
            self.stream.entries = Collection::new(number, 0, 0);
        }
    }

    /// Adds an entry behind the last; its identifier is higher than all that were given.
    pub fn append(&mut self, id: StreamId, value: Blob) {
        self.touch();
        self.put_last(id, value);
        self.stream.last = id;
        self.stream.added = self.stream.added.saturating_add(1);
    }

    fn put_last(&mut self, id: StreamId, value: Blob) {
        let number = self.stream.number();
        let open = self.stream.open;
        let bytes = u32::try_from(value.len()).unwrap_or(u32::MAX);
        // A node of a Redis does not take the entry with which it would pass its limit. Before that version a block took it.
        let is_as_redis = Feature::AsRedis.is_in(self.tx.version);
        let filled = if is_as_redis { open.bytes.saturating_add(bytes) } else { open.bytes };
        if open.live == 0 || open.added >= BLOCK_ENTRIES_MAX || filled >= BLOCK_BYTES {
            if open.live > 0 {
                self.collections_mut().elements.replace(block_key(number, open.first), block_value(open.live));
            }
            self.collections_mut().insert_new(block_key(number, id), block_value(0));
            self.stream.blocks = self.stream.blocks.saturating_add(1);
            self.stream.open = OpenBlock { first: id, ..OpenBlock::default() };
        }
        let open = &mut self.stream.open;
        open.added += 1;
        open.live += 1;
        open.bytes = open.bytes.saturating_add(bytes);
        if self.stream.is_empty() {
            self.stream.first = id;
        }
        let key = entry_key(number, id);
        self.stream.entries.grow(key.bytes_with(&value));
        self.collections_mut().insert_new(key, value);
    }

    /// The block of an entry: with which entry it began, and how many it has.
    fn block_of(&self, id: StreamId) -> (StreamId, u32) {
        let open = self.stream.open;
        if open.live > 0 && id >= open.first {
            return (open.first, open.live);
        }
        self.collections().blocks(self.stream.number(), id).next().unwrap_or((id, 0))
    }

    /// A block has so many entries now.
    fn set_block(&mut self, first: StreamId, live: u32) {
        let is_open = self.stream.open.live > 0 && first == self.stream.open.first;
        let key = block_key(self.stream.number(), first);
        if live == 0 {
            if self.collections_mut().elements.remove(key.as_ref()).is_some() {
                self.stream.blocks = self.stream.blocks.saturating_sub(1);
            }
            if is_open {
                self.stream.open = OpenBlock::default();
            }
        } else if is_open {
            self.stream.open.live = live;
        } else {
            self.collections_mut().elements.replace(key, block_value(live));
        }
    }

    /// Takes an entry out; whether it was there.
    pub fn remove(&mut self, id: StreamId) -> bool {
        if id < self.stream.first || id > self.stream.last {
            return false;
        }
        let key = entry_key(self.stream.number(), id);
        let Some(value) = self.collections_mut().elements.remove(key.as_ref()) else { return false };
        self.changed = true;
        self.stream.entries.shrink(key.bytes_with(&value));
        let (first, live) = self.block_of(id);
        self.set_block(first, live.saturating_sub(1));
        if id == self.stream.first {
            let next = id.next().and_then(|next| self.collections().entries(&self.stream, next).next());
            self.stream.first = next.map_or(StreamId::MIN, |(id, _)| id);
        }
        self.stream.deleted = self.stream.deleted.max(id);
        true
    }

    /// Takes out entries from the front on; how many. Either what goes or what stays is written, whichever is less.
    pub fn trim(&mut self, keep: Keep) -> u64 {
        let before = self.stream.len();
        if self.stays_little(keep) {
            let from_end = self.collections().entries_backwards(&self.stream, StreamId::MAX);
            let mut kept: Vec<_> = match keep {
                Keep::Newest(count) => from_end.take(usize::try_from(count).unwrap_or(usize::MAX)).collect(),
                Keep::From(id) => from_end.take_while(|(at, _)| *at >= id).collect(),
            };
            kept.reverse();
            self.begin_anew(kept);
        } else {
            let (most, from) = match keep {
                Keep::Newest(count) => (before.saturating_sub(count), None),
                Keep::From(id) => (u64::MAX, Some(id)),
            };
            self.cut(most, from);
        }
        before - self.stream.len()
    }

    /// Takes out whole blocks of which nothing is to be kept, up to `limit` entries (0: any number); how many entries.
    pub fn trim_blocks(&mut self, keep: Keep, limit: u64) -> u64 {
        let mut gone = 0;
        while !self.stream.is_empty() {
            let (_, live) = self.block_of(self.stream.first);
            let live = u64::from(live.max(1));
            let goes = match keep {
                Keep::Newest(count) => self.stream.len().saturating_sub(live) >= count && self.stream.len() > count,
                Keep::From(id) => {
                    let last = self.collections().entries(&self.stream, self.stream.first).nth(live as usize - 1);
                    last.is_some_and(|(last, _)| last < id)
                }
            };
            if !goes || limit > 0 && gone + live > limit {
                break;
            }
            let cut = self.cut(live, None);
            gone += cut;
            if cut == 0 {
                break;
            }
        }
        gone
    }

    /// Whether it is worth while to write anew what stays.
    fn stays_little(&self, keep: Keep) -> bool {
        let (len, blocks) = (self.stream.len(), u64::from(self.stream.blocks));
        if len < REWRITTEN_MIN {
            return false;
        }
        match keep {
            Keep::Newest(count) => count.saturating_add(u64::from(self.stream.groups)) < len / 2,
            Keep::From(id) => {
                let from_end = self.collections().blocks(self.stream.number(), StreamId::MAX);
                let stays = from_end.take(blocks as usize).take_while(|(first, _)| *first >= id).count() as u64;
                (stays + 1) * u64::from(BLOCK_ENTRIES_MAX) + u64::from(self.stream.groups) < len / 2
            }
        }
    }

    /// Gives up all entries but these. The groups move to the new number.
    fn begin_anew(&mut self, kept: Vec<(StreamId, Blob)>) {
        self.changed = true;
        let old = self.stream;
        let collections = self.collections_mut();
        let number = collections.new_number();
        let groups: Vec<_> = collections.range(old.number() | PART_GROUPS, Bound::Unbounded).collect();
        for (key, value) in groups {
            collections.insert_new(ElementKey { collection: number | PART_GROUPS, ..key.clone() }, value);
            collections.elements.erase(key);
        }
        collections.give_up_number(old.number());
        collections.give_up_number(old.number() | PART_BLOCKS);
        let (entries, open) = (Collection::new(number, 0, 0), OpenBlock::default());
        self.stream = Stream { entries, open, blocks: 0, first: StreamId::MIN, ..old };
        kept.into_iter().for_each(|(id, value)| self.put_last(id, value));
    }

    /// Takes out up to `most` entries at the front, of those before `from` if that is said; how many.
    fn cut(&mut self, most: u64, from: Option<StreamId>) -> u64 {
        let number = self.stream.number();
        let (mut gone, mut first) = (Vec::new(), StreamId::MIN);
        for (id, value) in self.collections().entries(&self.stream, self.stream.first) {
            if gone.len() as u64 >= most || from.is_some_and(|from| id >= from) {
                first = id;
                break;
            }
            gone.push((id, value));
        }
        let count = gone.len() as u64;
        if count == 0 {
            return 0;
        }
        self.changed = true;
        let mut gone = gone.into_iter().peekable();
        while let Some((id, _)) = gone.peek() {
            let (block, live) = self.block_of(*id);
            let mut left = live.max(1);
            while let Some((id, value)) = gone.next_if(|_| left > 0) {
                let key = entry_key(number, id);
                self.stream.entries.shrink(key.bytes_with(&value));
                self.collections_mut().elements.erase(key);
                left -= 1;
            }
            self.set_block(block, left);
        }
        self.stream.first = first;
        count
    }

    /// Says what was given and removed: of `XSETID`.
    pub fn set_ids(&mut self, last: StreamId, added: Option<u64>, deleted: Option<StreamId>) {
        self.changed = true;
        self.stream.last = last;
        self.stream.added = added.unwrap_or(self.stream.added);
        self.stream.deleted = deleted.unwrap_or(self.stream.deleted);
    }
}

impl<'a> Transaction<'a> {
    /// A stream, `None` if the key does not exist; an error if it holds something else.
    pub fn stream(&mut self, key: KeyRef<'_>) -> Result<Option<Stream>, Failure> {
        self.get(key).map(|record| record.value.into_stream()).transpose()
    }

    /// Changes a stream, which is made by a change if there is none; its deadline stays. An error if the key holds something else, or what `edit` refuses: before it has
    /// changed anything.
    pub fn edit_stream<R>(
        &mut self,
        key: KeyRef<'_>,
        edit: impl FnOnce(&mut StreamEdit<'_, 'a>) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let before = self.stream(key)?;
        let stream = before.unwrap_or(Stream::new(Collection::new(0, 0, 0)));
        let mut editing = StreamEdit { tx: self, stream, changed: false };
        let result = edit(&mut editing);
        let StreamEdit { stream, changed, .. } = editing;
        if changed {
            debug_assert!(result.is_ok(), "refused after a change");
            self.put_edited_value(key, before.is_none(), Value::Stream(Box::new(stream)), false);
        }
        result
    }

    /// A stream that stands under no key yet, as a payload says it.
    pub(crate) fn make_stream(&mut self, dumped: DumpedStream) -> Value {
        let stream = Stream::new(self.tree.collections.new_collection());
        let mut editing = StreamEdit { tx: self, stream, changed: false };
        dumped.entries.into_iter().for_each(|(id, value)| editing.put_last(id, value));
        editing.set_ids(dumped.last, Some(dumped.added), Some(dumped.deleted));
        for group in dumped.groups {
            let read = group.read.unwrap_or_else(|| editing.stream.added_up_to(group.last));
            editing.create_group(&group.name, group.last, read);
            editing.edit_group(&group.name, |editing| {
                for DumpedConsumer { name, seen, active, pending } in group.consumers {
                    let (consumer, _) = editing.consumer(&name, seen);
                    if let Some(active) = active {
                        editing.was_active(consumer, active);
                    }
                    for (id, at, times) in pending {
                        editing.set_pending(id, Pending { consumer, at, times });
                    }
                }
            });
        }
        Value::Stream(Box::new(editing.stream))
    }

    /// A copy of a stream, with its groups.
    pub(super) fn copy_stream(&mut self, stream: &Stream) -> Value {
        let held = usize::try_from(stream.held_bytes).unwrap_or(usize::MAX);
        if !self.pay_copy(stream.entries) || !self.meter().make(held) {
            return Value::Stream(Box::new(*stream));
        }
        let collections = &mut self.tree.collections;
        let number = collections.new_number();
        // What is copied stays as it was: a frozen copy of the map can be read meanwhile.
        let source = collections.clone();
        for part in [0, PART_BLOCKS] {
            for (key, value) in source.range(stream.number() | part, Bound::Unbounded) {
                collections.insert_new(ElementKey { collection: number | part, ..key }, value);
            }
        }
        let entries = Collection::new(number, stream.len() as u32, stream.entries.bytes());
        let copy = Stream { entries, groups: 0, group_bytes: 0, held_bytes: 0, ..*stream };
        let mut editing = StreamEdit { tx: self, stream: copy, changed: false };
        for (name, mut group) in source.groups(stream.number()) {
            let (old, held) = (group.held.number(), editing.collections_mut().new_number());
            group.held = Collection::new(held, group.held.len() as u32, group.held.bytes());
            for (key, value) in source.range(old, Bound::Unbounded) {
                editing.collections_mut().insert_new(ElementKey { collection: held, ..key }, value);
            }
            editing.put_group(&name, &group);
        }
        Value::Stream(Box::new(editing.stream))
    }
}

#[cfg(test)]
mod tests;
