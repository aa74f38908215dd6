//! Buckets of the kind `cache`: at their quota keys go, by the bucket's policy, through the log.
//!
//! 1. Every replica watches what is asked of its bucket ([`Tracker`]): writes as they are applied, reads as it serves them. What followers
//!    read they tell the leader, ten times a second.
//! 2. After a write that takes the state above its quota, the leader chooses what has to go and proposes an *eviction entry*: keys with the
//!    revisions that they had, and down to how many bytes.
//! 3. Applied, a key goes if it still has that revision, while there are more bytes than that. So what was written in the meantime stays,
//!    and an entry that comes late or twice takes away nothing that has room.
//!
//! Keys that the tracker does not know (after a restart, after a snapshot from a peer) have not been asked for since, so they go first: a cursor
//! finds them in the state, in the order of keys.
//!
//! One eviction entry is under way at a time. Until it is applied writes go on, up to a ceiling somewhat above the quota, which goes with each
//! write into its entry ([`crate::words::Terms`]): at the ceiling what may grow is refused.

mod lists;
mod tracker;

use std::collections::BTreeSet;
use std::ops::Bound;
use std::time::Duration;

use base::limits::{EVICT_BATCH_MAX, EVICT_KEY_BYTES_MAX, TOUCHED_MAX};
use base::{Revision, Time};
use bytes::Bytes;
use data::{Blob, Change, KeyRef, StoreKey, Tree};
use wire::{Malformed, Reader, Writer};

use crate::bucket::Policy;
use crate::door::Rubbish;
use crate::router::ReadKind;
use crate::words::{self, Words};
pub(crate) use tracker::Tracker;

/// How often a follower tells the leader what it has read.
pub(crate) const TELL_EVERY: Duration = Duration::from_millis(100);
/// Of keys that are known so many are passed in the search for others, each time.
const PASSED_MAX: usize = 256;
/// Of so many keys another policy takes over what is known of them.
const TAKEN_OVER_MAX: u64 = 50_000;

/// A state of this size is full: at a quota of so many bytes, beyond which keys go, what may grow it is refused.
pub(crate) fn ceiling(quota_bytes: u64) -> u64 {
    quota_bytes + quota_bytes / 8
}

/// Down to so many bytes keys go: slightly below the quota, so that not each single write needs an eviction.
pub(crate) fn room_at(quota_bytes: u64) -> u64 {
    quota_bytes - quota_bytes / 64
}

/// The body of an eviction entry.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Eviction<'a> {
    /// With so many bytes or fewer nothing more goes.
    pub down_to: u64,
    /// Keys and the revisions that they have to have.
    pub victims: Vec<(&'a [u8], Revision)>,
}

impl<'a> Eviction<'a> {
    pub(crate) fn encode(down_to: u64, victims: &[(Blob, Revision)]) -> Bytes {
        let mut out = Vec::new();
        let mut w = Writer::new(&mut out);
        w.u64(down_to);
        w.count(victims.len());
        for (key, revision) in victims {
            w.bytes(key);
            w.revision(*revision);
        }
        Bytes::from(out)
    }

    pub(crate) fn decode(body: &'a [u8]) -> Result<Eviction<'a>, Malformed> {
        let mut r = Reader::from_slice(body);
        let mut eviction = Eviction { down_to: r.u64()?, victims: Vec::new() };
        for _ in 0..r.count(2)? {
            eviction.victims.push((r.slice()?, r.revision()?));
        }
        r.finish()?;
        Ok(eviction)
    }
}

/// What a replica of such a bucket keeps beside its state.
#[derive(Debug)]
pub(crate) struct Evicting {
    tracker: Tracker,
    /// Up to where the state was searched for keys that the tracker does not know.
    cursor: Option<StoreKey>,
    /// Keys evicted since the start.
    pub evicted: u64,
    /// The most bytes that the state has had after any entry.
    pub bytes_most: u64,
    /// What this replica has read since it told the leader, by the keys' places in the store's order.
    read: BTreeSet<u64>,
    pub next_told: Time,
}

impl Evicting {
    pub(crate) fn new(policy: Policy) -> Evicting {
        Evicting {
            tracker: Tracker::new(policy),
            cursor: None,
            evicted: 0,
            bytes_most: 0,
            read: BTreeSet::new(),
            next_told: Time(0),
        }
    }

    /// When the leader is to be told of what was read, if anything was.
    pub(crate) fn due(&self) -> Option<Time> {
        (!self.read.is_empty()).then_some(self.next_told)
    }

    /// How often a key is asked for, as the policy LFU counts.
    pub(crate) fn count_of(&self, key: KeyRef<'_>) -> u64 {
        u64::from(self.tracker.count_of(key))
    }

    pub(crate) fn policy(&self) -> Policy {
        self.tracker.policy()
    }

    /// Another policy takes over what is known, unless that is so much that it would hold everything up. Returns what is to be freed.
    pub(crate) fn set_policy(&mut self, policy: Policy) -> Option<Rubbish> {
        if policy == self.policy() {
            return None;
        }
        let few = self.tracker.len() <= TAKEN_OVER_MAX;
        let tracker = if few { self.tracker.under(policy) } else { Tracker::new(policy) };
        Some(Rubbish::new(std::mem::replace(&mut self.tracker, tracker)))
    }

    /// The state was replaced by another one: nothing is known of its keys.
    pub(crate) fn forget(&mut self) -> Rubbish {
        self.cursor = None;
        let policy = self.policy();
        Rubbish::new(std::mem::replace(&mut self.tracker, Tracker::new(policy)))
    }

    /// An entry has changed the state. Returns what is to be freed.
    pub(crate) fn follow(&mut self, changes: &[Change], bytes: u64) -> Option<Rubbish> {
        use data::ChangeKind as Kind;
        let mut rubbish = None;
        for change in changes {
            let key = || KeyRef::new(&change.key);
            match change.kind {
                Kind::Set => self.tracker.written(&change.key),
                Kind::Deadline => {
                    self.tracker.touched(key());
                }
                Kind::Deleted | Kind::Expired => self.tracker.removed(key()),
                Kind::Evicted => {
                    self.evicted += 1;
                    self.tracker.removed(key());
                }
                Kind::Flushed => rubbish = Some(self.forget()),
            }
        }
        self.bytes_most = self.bytes_most.max(bytes);
        rubbish
    }

    /// A key was asked for here. One that nothing was known of is looked for in the state.
    fn touch(&mut self, key: &[u8], tree: &Tree, tells: bool) {
        let at = KeyRef::new(key);
        if !self.tracker.touched(at) {
            if tree.get(at).is_none() {
                return;
            }
            self.tracker.written(&Blob::new(key));
        }
        if tells && self.read.len() < TOUCHED_MAX {
            self.read.insert(at.order);
        }
    }

    /// A read is served here. `uses`: the client uses what it reads; `tells`: the leader is to hear of it.
    pub(crate) fn touch_read(&mut self, kind: ReadKind, bytes: &[u8], tree: &Tree, uses: bool, tells: bool) {
        let mut touch = |words: &[&[u8]]| {
            if data::uses_keys(words, uses) {
                self.touch_keys(words, tree, tells);
            }
        };
        match kind {
            ReadKind::Command => {
                let words = Words::decode(bytes);
                words.iter().for_each(|words| touch(words.as_slice()));
            }
            ReadKind::Transaction => {
                let commands = words::decode_transaction(bytes).map(|(_, commands)| commands).unwrap_or_default();
                commands.iter().for_each(|words| touch(words.as_slice()));
            }
            ReadKind::Outcome
            | ReadKind::Buckets
            | ReadKind::Nodes
            | ReadKind::Select
            | ReadKind::Backup
            | ReadKind::Revisions
            | ReadKind::Look => {}
        }
    }

    /// The keys of a command were asked for.
    pub(crate) fn touch_keys(&mut self, words: &[&[u8]], tree: &Tree, tells: bool) {
        let entry = words.first().and_then(|name| data::lookup(name));
        let keys = entry.map(|entry| entry.spec.keys_of(words)).unwrap_or_default();
        keys.into_iter().for_each(|key| self.touch(key, tree, tells));
    }

    /// A follower says what it has read.
    pub(crate) fn touch_orders(&mut self, orders: &[u64], tree: &Tree) {
        for order in orders.iter().take(TOUCHED_MAX) {
            if !self.tracker.touched_at(*order)
                && let Some((key, _)) = tree.records(Bound::Included(KeyRef { order: *order, key: b"" })).next()
                && key.order == *order
            {
                self.tracker.written(&key.key);
            }
        }
    }

    /// What was read here since the leader was told.
    pub(crate) fn take_read(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.read).into_iter().collect()
    }

    /// Chooses what has to go, so that no more than `down_to` bytes stay, as far as it fits into one entry.
    pub(crate) fn choose(&mut self, tree: &Tree, down_to: u64) -> Vec<(Blob, Revision)> {
        let mut chosen = Chosen { victims: Vec::new(), key_bytes: 0, excess: tree.bytes().saturating_sub(down_to) };
        if tree.len() > self.tracker.len() {
            self.choose_unknown(tree, &mut chosen);
        }
        while chosen.has_room()
            && let Some(key) = self.tracker.pop()
        {
            // One whose time is up is left to the expiry.
            if let Some(record) = tree.get(KeyRef::new(&key)) {
                chosen.add(record.bytes(&key), key, record.revision);
            }
        }
        chosen.victims
    }

    fn choose_unknown(&mut self, tree: &Tree, chosen: &mut Chosen) {
        let cursor = self.cursor.take();
        let start = match &cursor {
            Some(key) => Bound::Excluded(key.as_ref()),
            None => Bound::Unbounded,
        };
        let (mut passed, mut at) = (0, None);
        for (key, record) in tree.records(start) {
            if passed >= PASSED_MAX || !chosen.has_room() {
                // Otherwise once more from the beginning, next time.
                self.cursor = at.or_else(|| cursor.clone());
                return;
            }
            if self.tracker.knows(key.as_ref()) {
                passed += 1;
            } else {
                chosen.add(record.bytes(&key.key), key.key.clone(), record.revision);
            }
            at = Some(key);
        }
    }
}

struct Chosen {
    victims: Vec<(Blob, Revision)>,
    key_bytes: usize,
    /// Bytes that still have to go.
    excess: u64,
}

impl Chosen {
    fn has_room(&self) -> bool {
        self.excess > 0 && self.victims.len() < EVICT_BATCH_MAX && self.key_bytes < EVICT_KEY_BYTES_MAX
    }

    fn add(&mut self, bytes: u64, key: Blob, revision: Revision) {
        self.excess = self.excess.saturating_sub(bytes);
        self.key_bytes += key.len();
        self.victims.push((key, revision));
    }
}

#[cfg(test)]
mod tests;
