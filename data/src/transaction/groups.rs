//! How a write changes the consumer groups of a stream.

use super::StreamEdit;
use crate::blob::Blob;
use crate::collections::Collections;
use crate::collections::streams::{Consumer, Group, Pending, group_key};
use crate::kept::ElementKey;
use crate::value::{COLLECTION_LEN_MAX, StreamId};
use std::collections::BTreeMap;

/// Elements of something pending.
const PENDING_ELEMENTS: u64 = 3;

/// A group that is being changed. It is written once at the end, and so are the consumers that were met.
#[derive(Debug)]
pub(crate) struct GroupEdit<'c> {
    collections: &'c mut Collections,
    pub(crate) group: Group,
    /// By number: name, and how it is now.
    met: BTreeMap<u64, (Blob, Consumer)>,
}

impl StreamEdit<'_, '_> {
    /// Makes a group; whether there was none of this name.
    pub fn create_group(&mut self, name: &[u8], last: StreamId, read: Option<u64>) -> bool {
        if self.stream.number() != 0 && self.collections().group(&self.stream, name).is_some() {
            return false;
        }
        self.touch();
        let held = self.collections_mut().new_collection();
        let front = StreamId::MAX;
        self.put_group(name, &Group { held, last, read, consumers: 0, pending: 0, front, last_consumer: 0 });
        true
    }

    /// Destroys a group; whether there was one. What it holds goes bit by bit.
    pub fn destroy_group(&mut self, name: &[u8]) -> bool {
        let key = group_key(self.stream.number(), name);
        let Some(value) = self.collections_mut().elements.remove(key.as_ref()) else { return false };
        self.changed = true;
        self.stream.groups = self.stream.groups.saturating_sub(1);
        self.stream.group_bytes = self.stream.group_bytes.saturating_sub(key.bytes_with(&value));
        if let Ok(group) = Group::read(&value) {
            self.stream.held_bytes = self.stream.held_bytes.saturating_sub(group.held.bytes());
            if !group.held.is_empty() {
                self.collections_mut().give_up_number(group.held.number());
            }
        }
        true
    }

    /// Writes how a group is now.
    pub(super) fn put_group(&mut self, name: &[u8], group: &Group) {
        self.changed = true;
        let (key, value) = (group_key(self.stream.number(), name), group.value());
        let bytes = key.bytes_with(&value);
        let old = self.collections_mut().insert(key.clone(), value);
        let held_before = old.as_deref().and_then(|old| Group::read(old).ok()).map_or(0, |old| old.held.bytes());
        let bytes_before = old.as_ref().map_or(0, |old| key.bytes_with(old));
        let stream = &mut self.stream;
        stream.groups += u32::from(old.is_none());
        stream.group_bytes = stream.group_bytes.saturating_add(bytes).saturating_sub(bytes_before);
        stream.held_bytes = stream.held_bytes.saturating_add(group.held.bytes()).saturating_sub(held_before);
    }

    /// Changes a group; nothing if there is none of this name.
    pub(crate) fn edit_group<R>(&mut self, name: &[u8], edit: impl FnOnce(&mut GroupEdit<'_>) -> R) -> Option<R> {
        let group = self.collections().group(&self.stream, name)?;
        let mut editing = GroupEdit { collections: self.collections_mut(), group, met: BTreeMap::new() };
        let result = edit(&mut editing);
        let group = editing.finish();
        self.put_group(name, &group);
        Some(result)
    }
}

impl GroupEdit<'_> {
    fn finish(mut self) -> Group {
        for (name, consumer) in std::mem::take(&mut self.met).into_values() {
            self.put(self.group.consumer_key(&name), consumer.value());
        }
        self.group
    }

    pub(crate) fn collections(&self) -> &Collections {
        self.collections
    }

    /// Puts an element in place; what stood there.
    fn put(&mut self, key: ElementKey, value: Blob) -> Option<Blob> {
        let bytes = key.bytes_with(&value);
        let old = self.collections.insert(key.clone(), value);
        match &old {
            Some(old) => self.group.held.resize(key.bytes_with(old), bytes),
            None => self.group.held.grow(bytes),
        }
        old
    }

    fn take(&mut self, key: ElementKey) -> Option<Blob> {
        let old = self.collections.elements.remove(key.as_ref())?;
        self.group.held.shrink(key.bytes_with(&old));
        Some(old)
    }

    /// The consumer of this name, which is made if there is none; whether it was.
    pub(crate) fn consumer(&mut self, name: &[u8], now: u64) -> (u64, bool) {
        if let Some(consumer) = self.collections.consumer(&self.group, name) {
            self.met.entry(consumer.number).or_insert((Blob::new(name), consumer));
            return (consumer.number, false);
        }
        self.group.last_consumer += 1;
        self.group.consumers += 1;
        let number = self.group.last_consumer;
        let consumer = Consumer { number, seen: now, active: None, pending: 0 };
        self.put(self.group.consumer_key(name), consumer.value());
        self.put(self.group.name_key(number), Blob::new(name));
        self.met.insert(number, (Blob::new(name), consumer));
        (number, true)
    }

    /// A consumer has asked.
    pub(crate) fn saw(&mut self, consumer: u64, now: u64) {
        self.with(consumer, |consumer| consumer.seen = now);
    }

    /// A consumer has got something.
    pub(crate) fn was_active(&mut self, consumer: u64, now: u64) {
        self.with(consumer, |consumer| consumer.active = Some(now));
    }

    fn with(&mut self, number: u64, change: impl FnOnce(&mut Consumer)) {
        if !self.met.contains_key(&number) {
            let Some(name) = self.collections.consumer_name(&self.group, number) else { return };
            let Some(consumer) = self.collections.consumer(&self.group, &name) else { return };
            self.met.insert(number, (name, consumer));
        }
        if let Some((_, consumer)) = self.met.get_mut(&number) {
            change(consumer);
        }
    }

    /// Whether something more can be pending.
    pub(crate) fn has_room(&self) -> bool {
        self.group.held.len() + PENDING_ELEMENTS <= COLLECTION_LEN_MAX
    }

    /// An entry is pending, with this consumer, whoever had it before.
    pub(crate) fn set_pending(&mut self, id: StreamId, pending: Pending) {
        let [by_group, backwards, by_consumer] = self.group.pending_keys(id, pending.consumer);
        let old = self.put(by_group, pending.value());
        let before = old.as_deref().and_then(Pending::read).map(|before| before.consumer);
        match before {
            Some(owner) if owner == pending.consumer => return,
            Some(owner) => {
                let [.., old_key] = self.group.pending_keys(id, owner);
                self.take(old_key);
                self.with(owner, |consumer| consumer.pending = consumer.pending.saturating_sub(1));
            }
            None => {
                self.group.front = if self.group.pending == 0 { id } else { self.group.front.min(id) };
                self.group.pending += 1;
                self.put(backwards, Blob::EMPTY);
            }
        }
        self.put(by_consumer, Blob::EMPTY);
        self.with(pending.consumer, |consumer| consumer.pending += 1);
    }

    /// An entry is not pending any more; whether it was.
    pub(crate) fn forget(&mut self, id: StreamId) -> bool {
        let Some(pending) = self.collections.pending(&self.group, id) else { return false };
        for key in self.group.pending_keys(id, pending.consumer) {
            self.take(key);
        }
        self.with(pending.consumer, |consumer| consumer.pending = consumer.pending.saturating_sub(1));
        self.group.pending = self.group.pending.saturating_sub(1);
        if id == self.group.front {
            let next = id.next().and_then(|next| self.collections.all_pending(&self.group, next).next());
            self.group.front = next.map_or(StreamId::MAX, |(id, _)| id);
        }
        true
    }

    /// Removes a consumer with all that it has; how much that was, or nothing if there is none.
    pub(crate) fn remove_consumer(&mut self, name: &[u8]) -> Option<u64> {
        let consumer = self.collections.consumer(&self.group, name)?;
        let pending: Vec<StreamId> = self.collections.pending_of(&self.group, consumer, StreamId::MIN).collect();
        let count = pending.len() as u64;
        pending.into_iter().for_each(|id| {
            self.forget(id);
        });
        self.met.remove(&consumer.number);
        self.take(self.group.consumer_key(name));
        self.take(self.group.name_key(consumer.number));
        self.group.consumers = self.group.consumers.saturating_sub(1);
        Some(count)
    }
}
