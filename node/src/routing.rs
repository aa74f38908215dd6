//! Which partition a command is for. A bucket is cut into partitions by hash slots (`Bucket::partition_of`), so a command goes where its keys are.
//!
//! | keys | where it goes |
//! |---|---|
//! | of one partition | there |
//! | of several, and it only looks at each (`MGET`, `EXISTS`, `TOUCH`, `JSON.MGET`) | to each with its own keys; the answers are put together |
//! | of several otherwise | nowhere: `CROSSSLOT`, as in a Redis Cluster |
//! | none, and it is about all keys (`DBSIZE`, `KEYS`, `FLUSHALL`, `SCRIPT LOAD` …) | to all; the answers are put together |
//! | none, but a place among them (`SCAN`, `RANDOMKEY`) | to the partition of that place |
//!
//! What several partitions answer is not one moment of the bucket: each part is linearizable by itself.

use base::PartitionId;
use base::limits::HASH_SLOTS;
use base::slots::hash_slot;
use data::cursor::{self, Among};
use data::spec::{Flags, Spec};
use data::store::first_order;
use data::{Failure, Reply, Slots};
use wire::Arguments;

use crate::bucket::Bucket;
use crate::door::Planted;
use crate::node::{Node, place_of};
use crate::session::Session;

/// Redis's text, which clients know.
pub(crate) const CROSS_SLOT: Failure = Failure::Text("CROSSSLOT Keys in request don't hash to the same slot");

/// How the answers of several partitions become one reply. An error among them is the reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Combine {
    /// They are numbers, to be added.
    Sum,
    /// They are arrays, one behind the other.
    Concat,
    /// They are arrays, whose elements go to these places.
    Places(Vec<Vec<usize>>),
    /// They are all the same.
    First,
    /// The first that is not nil.
    Found,
    /// The identifier of the bucket that the connection selects.
    Selected,
    /// All of them, as an array.
    All,
    /// A page of a SCAN, which goes on with this cursor if its own partition has no more.
    Page(u64),
}

impl Combine {
    pub(crate) fn combine(self, answers: Vec<Reply>) -> Reply {
        if let Some(error) = answers.iter().find(|answer| matches!(answer, Reply::Error(_))) {
            return error.clone();
        }
        let mut answers = answers.into_iter();
        match self {
            Combine::Sum => Reply::Integer(
                answers.map(|answer| if let Reply::Integer(number) = answer { number } else { 0 }).sum::<i64>(),
            ),
            Combine::Concat => Reply::Array(answers.flat_map(elements).collect()),
            Combine::Places(places) => {
                let count = places.iter().map(Vec::len).sum();
                let mut all = vec![Reply::Nil; count];
                for (places, answer) in places.iter().zip(answers) {
                    for (place, element) in places.iter().zip(elements(answer)) {
                        all[*place] = element;
                    }
                }
                Reply::Array(all)
            }
            Combine::All => Reply::Array(answers.collect()),
            Combine::First | Combine::Selected => answers.next().unwrap_or(Reply::Nil),
            Combine::Found => answers.find(|answer| *answer != Reply::Nil).unwrap_or(Reply::Nil),
            Combine::Page(next) => {
                let mut page = answers.next().map(elements).unwrap_or_default();
                if let Some(cursor) = page.first_mut().filter(|cursor| **cursor == Reply::bulk("0")) {
                    *cursor = Reply::bulk(next.to_string());
                }
                Reply::Array(page)
            }
        }
    }
}

fn elements(answer: Reply) -> Vec<Reply> {
    if let Reply::Array(elements) = answer { elements } else { Vec::new() }
}

/// Where a command goes.
#[derive(Debug)]
pub(crate) enum Route {
    One(PartitionId),
    /// To several, to each with words of its own.
    Several {
        parts: Vec<(PartitionId, Arguments)>,
        how: Combine,
    },
}

/// The number of the partition that a hash slot belongs to, of so many.
pub(crate) fn index_of_slot(slot: u16, partitions: u16) -> u16 {
    (u32::from(slot) * u32::from(partitions) / u32::from(HASH_SLOTS)) as u16
}

impl Bucket {
    /// The partition that a hash slot belongs to.
    pub(crate) fn partition_of(&self, slot: u16) -> PartitionId {
        PartitionId { bucket: self.id, index: index_of_slot(slot, self.settings.partitions) }
    }

    /// The first slot of a partition, or of the end behind the last one.
    pub(crate) fn first_slot(&self, index: u16) -> u16 {
        let count = u32::from(self.settings.partitions);
        (u32::from(index) * u32::from(HASH_SLOTS)).div_ceil(count) as u16
    }

    /// The slots of a partition.
    pub(crate) fn slots_of(&self, partition: PartitionId) -> Slots {
        Slots { first: self.first_slot(partition.index), end: self.first_slot(partition.index + 1) }
    }

    pub(crate) fn partitions(&self) -> impl Iterator<Item = PartitionId> + use<> {
        let bucket = self.id;
        (0..self.settings.partitions).map(move |index| PartitionId { bucket, index })
    }
}

impl Node {
    /// Where a command of a connection goes: `words` fit `spec`.
    pub(crate) fn route(&self, session: &Session, spec: &Spec, words: &[&[u8]]) -> Result<Route, Failure> {
        let first = PartitionId { bucket: session.bucket, index: 0 };
        match self.buckets.of(session.bucket) {
            Some(bucket) if bucket.settings.partitions > 1 => self.route_among(session, bucket, spec, words),
            // Of a bucket that is not there the router will say so.
            _ => Ok(Route::One(first)),
        }
    }

    fn route_among(&self, session: &Session, bucket: &Bucket, spec: &Spec, words: &[&[u8]]) -> Result<Route, Failure> {
        data::slots::check_patterns(spec, words)?;
        let keys = spec.keys_of(words);
        let of = |key: &[u8]| bucket.partition_of(hash_slot(key));
        let Some((first, others)) = keys.split_first() else {
            // Whoever routes by itself asks every node for its part.
            let all = match session.redirected {
                Some(_) => self.partitions_shown_here(bucket),
                None => bucket.partitions().collect(),
            };
            return Ok(self.route_without_keys(bucket, &all, spec, words));
        };
        let first = of(first);
        let is_wrong = self.config.planted == Some(Planted::WrittenBesideItsPartition) && spec.flags.has(Flags::WRITE);
        if others.iter().all(|key| of(key) == first) || is_wrong {
            return Ok(Route::One(first));
        }
        let (how, behind): (_, &[&[u8]]) = match spec.name {
            "mget" => (Combine::Places(Vec::new()), &[]),
            "json.mget" => (Combine::Places(Vec::new()), &words[words.len() - 1..]),
            "exists" | "touch" => (Combine::Sum, &[]),
            _ => return Err(CROSS_SLOT),
        };
        let mut partitions: Vec<PartitionId> = keys.iter().map(|key| of(key)).collect();
        partitions.sort_unstable();
        partitions.dedup();
        let mut places = Vec::with_capacity(partitions.len());
        let mut parts = Vec::with_capacity(partitions.len());
        for partition in partitions {
            let its: Vec<usize> = (0..keys.len()).filter(|place| of(keys[*place]) == partition).collect();
            let command =
                words[..1].iter().copied().chain(its.iter().map(|place| keys[*place])).chain(behind.iter().copied());
            parts.push((partition, Arguments::from_words(command)));
            places.push(its);
        }
        let how = if matches!(how, Combine::Places(_)) { Combine::Places(places) } else { how };
        Ok(Route::Several { parts, how })
    }

    /// A command without keys, about those of these partitions.
    fn route_without_keys(&self, bucket: &Bucket, these: &[PartitionId], spec: &Spec, words: &[&[u8]]) -> Route {
        let as_it_is = || Arguments::from_words(words.iter().copied());
        let to = |ids: &mut dyn Iterator<Item = PartitionId>, how| {
            let parts = ids.map(|id| (id, as_it_is())).collect();
            Route::Several { parts, how }
        };
        let to_these = |how| match these {
            [only] => Route::One(*only),
            these => to(&mut these.iter().copied(), how),
        };
        let first = these.first().copied().unwrap_or(PartitionId { bucket: bucket.id, index: 0 });
        match spec.name_of(words) {
            "dbsize" => to_these(Combine::Sum),
            "keys" => to_these(Combine::Concat),
            "flushdb" | "flushall" => to_these(Combine::First),
            // Said twice they do no harm, and where a script will be asked for is not known.
            "script|load" | "script|flush" => to(&mut bucket.partitions(), Combine::First),
            "function|load" | "function|delete" | "function|flush" | "function|restore" => to_these(Combine::First),
            "scan" => {
                let version = self.entries_in;
                let cursor = words.get(1).and_then(|word| cursor::parse(word)).unwrap_or(0);
                let slot = ((Among::Keys.place_of(cursor, version) >> 48) as u16).min(HASH_SLOTS - 1);
                let partition = if cursor == 0 { first } else { bucket.partition_of(slot) };
                let skipped = usize::from(self.config.planted == Some(Planted::ScanSkipsAPartition));
                let next = these.iter().filter(|other| **other > partition).nth(skipped);
                let start = |next: &PartitionId| first_order(bucket.first_slot(next.index));
                let next = next.map_or(0, |next| Among::Keys.cursor_of(start(next), version));
                Route::Several { parts: vec![(partition, as_it_is())], how: Combine::Page(next) }
            }
            // As even as its partitions are: one with keys, if there is any.
            "randomkey" => {
                let keys =
                    |id: &PartitionId| place_of(&self.groups, *id).map_or(0, |g| self.groups[g].partition.tree.len());
                let counts: Vec<u64> = these.iter().map(keys).collect();
                let mut drawn =
                    (self.stats.commands.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) % counts.iter().sum::<u64>().max(1);
                let found = these.iter().zip(counts).find(|(_, count)| {
                    let is_here = drawn < *count;
                    drawn = drawn.saturating_sub(*count);
                    is_here
                });
                Route::One(found.map_or(first, |(id, _)| *id))
            }
            // What every partition has alike, and scripts that name no key.
            _ => Route::One(first),
        }
    }

    /// The one partition that a command is for, as part of something that only one partition can do.
    pub(crate) fn route_to_one(&self, session: &Session, spec: &Spec, words: &[&[u8]]) -> Result<PartitionId, Failure> {
        match self.route(session, spec, words)? {
            Route::One(partition) => Ok(partition),
            Route::Several { .. } => Err(CROSS_SLOT),
        }
    }

    /// The one partition that keys belong to.
    pub(crate) fn partition_of_keys<'a>(
        &self,
        session: &Session,
        mut keys: impl Iterator<Item = &'a [u8]>,
    ) -> Result<PartitionId, Failure> {
        let of = |key: &[u8]| match self.buckets.of(session.bucket) {
            Some(bucket) if bucket.settings.partitions > 1 => bucket.partition_of(hash_slot(key)),
            _ => PartitionId { bucket: session.bucket, index: 0 },
        };
        let first = keys.next().map_or(PartitionId { bucket: session.bucket, index: 0 }, of);
        if keys.all(|key| of(key) == first) { Ok(first) } else { Err(CROSS_SLOT) }
    }

    /// All partitions of the bucket that a connection has selected.
    pub(crate) fn partitions_selected(&self, session: &Session) -> Vec<PartitionId> {
        match self.buckets.of(session.bucket) {
            Some(bucket) => bucket.partitions().collect(),
            None => vec![PartitionId { bucket: session.bucket, index: 0 }],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::{BucketKind, Settings};

    #[test]
    fn every_slot_belongs_to_the_partition_between_whose_bounds_it_lies() {
        for partitions in [1, 2, 3, 7, 64, 1000, 1024] {
            let settings = Settings { partitions, ..Settings::of_kind(BucketKind::Persistent) };
            let bucket = Bucket { settings, ..Bucket::default_bucket() };
            for slot in 0..HASH_SLOTS {
                let index = bucket.partition_of(slot).index;
                assert!(
                    (bucket.first_slot(index)..bucket.first_slot(index + 1)).contains(&slot),
                    "{partitions} {slot}"
                );
            }
            assert_eq!(bucket.first_slot(0), 0);
            assert_eq!(bucket.first_slot(partitions), HASH_SLOTS);
            let sizes = (0..partitions).map(|index| bucket.first_slot(index + 1) - bucket.first_slot(index));
            assert!(sizes.clone().max().unwrap() - sizes.min().unwrap() <= 1, "{partitions}: even");
        }
    }

    #[test]
    fn answers_are_put_together() {
        let texts = |words: &[&str]| Reply::Array(words.iter().map(|word| Reply::bulk(word.as_bytes())).collect());
        let numbers = vec![Reply::Integer(2), Reply::Integer(0), Reply::Integer(5)];
        assert_eq!(Combine::Sum.combine(numbers), Reply::Integer(7));
        assert_eq!(
            Combine::Concat.combine(vec![texts(&["a"]), texts(&[]), texts(&["b", "c"])]),
            texts(&["a", "b", "c"])
        );
        let places = Combine::Places(vec![vec![1], vec![2, 0]]);
        assert_eq!(places.combine(vec![texts(&["b"]), texts(&["c", "a"])]), texts(&["a", "b", "c"]));
        let failed = Reply::Error(CROSS_SLOT);
        assert_eq!(Combine::Sum.combine(vec![Reply::Integer(1), failed.clone()]), failed);
        let page = |cursor: &str| Reply::Array(vec![Reply::bulk(cursor), texts(&["k"])]);
        assert_eq!(Combine::Page(77).combine(vec![page("5")]), page("5"));
        assert_eq!(Combine::Page(77).combine(vec![page("0")]), page("77"));
        assert_eq!(Combine::Found.combine(vec![Reply::Nil, Reply::Integer(3)]), Reply::Integer(3));
    }
}
