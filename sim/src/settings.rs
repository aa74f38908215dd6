//! What was asked of buckets' settings in a run: what they may be at a moment, and the history of changing and showing them.
//!
//! A node goes by the settings that it knows of, and it may hear of a change late. So what a bucket's entries may be subject to at a
//! moment is everything that was asked for before. What `DICTUM.BUCKET SHOW` answers is more: each setting is a register (`t#ttl`), a
//! change of several is a transaction that writes them, and showing them is one that reads them all. So the search for
//! an order of operations judges this history as well.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{Command, Op, Operation, Outcome, Reply, bucket_of};

/// The bucket that is always there, by the name that `DICTUM.BUCKET` has for it. In histories it is not named.
pub const DEFAULT: &str = "default";

/// Every setting that is changed here, and what it is if nobody has said anything.
pub const SETTINGS: [(&str, &str); 4] = [(QUOTA, "0"), ("policy", "node"), (TTL, "0"), (VALUE_BYTES_MAX, "0")];

const QUOTA: &str = "quota";
const TTL: &str = "ttl";
const VALUE_BYTES_MAX: &str = "value-bytes-max";

/// Stands for whoever made the buckets.
const MAKER: u64 = u64::MAX;

/// The earliest and the latest that something happened, in nanoseconds.
pub type Span = (u64, u64);

/// What keys that a command makes without a deadline live for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lifetime {
    /// The shortest that it may be, in milliseconds.
    pub least_ms: u64,
    /// The longest.
    pub most_ms: u64,
    /// They certainly have one.
    pub certain: bool,
}

/// See the file's head.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// By bucket and setting, as histories name buckets: from when on it may have been what, ascending.
    asked: BTreeMap<(String, &'static str), Vec<(u64, u64)>>,
    /// Buckets that refuse at their quota. To others it is what they keep in memory.
    bounded: BTreeSet<String>,
    /// Buckets that evict at their quota, and refuse somewhat above it.
    evicting: BTreeSet<String>,
    /// How many partitions buckets are cut into: each of these has its share of the quota.
    partitions: BTreeMap<String, u64>,
    /// Buckets with settings that every node has heard of: since when, and what they are.
    settled: BTreeMap<String, (u64, Vec<u64>)>,
    /// Changing and showing, as operations on registers.
    pub history: Vec<Operation>,
}

impl Settings {
    /// A bucket that is made with the settings that `CREATE` names in `words`.
    pub fn made(&mut self, bucket: &str, words: &str) {
        let words: Vec<&str> = words.split_whitespace().collect();
        if words.contains(&"ephemeral") {
            self.bounded.insert(bucket.to_owned());
        }
        if words.contains(&"cache") {
            self.evicting.insert(bucket.to_owned());
        }
        let mut pairs = words.windows(2).filter(|pair| pair[0].eq_ignore_ascii_case("partitions"));
        let partitions = pairs.next().and_then(|pair| pair[1].parse().ok()).unwrap_or(1);
        self.partitions.insert(bucket.to_owned(), partitions);
        let mut commands = Vec::new();
        for (name, usual) in SETTINGS {
            let said = words.as_chunks::<2>().0.iter().find(|[said, _]| said.eq_ignore_ascii_case(name));
            let value = said.map_or(usual, |[_, value]| value);
            self.note(bucket, name, value, 0);
            commands.push(Command::new(Op::Set, register(bucket, name)).with_argument(value));
        }
        let replies = vec![Reply::Text("OK".to_owned()); commands.len()];
        self.history.push(Operation {
            client: MAKER,
            commands,
            watched: Vec::new(),
            invoke: 0,
            finish: Some(0),
            outcome: Outcome::Done,
            replies,
        });
    }

    /// A change is asked for. The number of the operation, to be answered.
    pub fn begin_change(&mut self, client: u64, bucket: &str, pairs: &[(&'static str, String)], now: u64) -> usize {
        let mut commands = Vec::new();
        for (name, value) in pairs {
            self.note(bucket, name, value, now);
            commands.push(Command::new(Op::Set, register(bucket, name)).with_argument(value.clone()));
        }
        self.begin(client, commands, now)
    }

    /// Somebody wants to be shown the settings. The number of the operation.
    pub fn begin_show(&mut self, client: u64, bucket: &str, now: u64) -> usize {
        let commands = SETTINGS.iter().map(|(name, _)| Command::new(Op::Get, register(bucket, name))).collect();
        self.begin(client, commands, now)
    }

    fn begin(&mut self, client: u64, commands: Vec<Command>, invoke: u64) -> usize {
        let (watched, replies) = (Vec::new(), Vec::new());
        let outcome = Outcome::Maybe;
        self.history.push(Operation { client, commands, watched, invoke, finish: None, outcome, replies });
        self.history.len() - 1
    }

    /// The end of an operation.
    pub fn end(&mut self, operation: usize, outcome: Outcome, replies: Vec<Reply>, now: u64) {
        let operation = &mut self.history[operation];
        operation.finish = Some(now);
        operation.outcome = outcome;
        operation.replies = replies;
    }

    fn note(&mut self, bucket: &str, setting: &'static str, value: &str, at: u64) {
        // What is no number nobody asks for as one.
        let value = value.parse().unwrap_or(0);
        let bucket = if bucket == DEFAULT { "" } else { bucket };
        self.asked.entry((bucket.to_owned(), setting)).or_default().push((at, value));
    }

    /// All nodes have heard of all changes. Settings of which it is not known what became of them stay as doubtful as they were.
    pub fn settle(&mut self, now: u64) {
        let mut buckets: BTreeMap<String, (Vec<u64>, bool)> = BTreeMap::new();
        for operation in &self.history {
            let Some((bucket, _)) = operation.commands[0].key.split_once('#') else { continue };
            let bucket = if bucket == DEFAULT { "" } else { bucket };
            let (shown, is_certain) = buckets.entry(bucket.to_owned()).or_insert_with(|| (Vec::new(), true));
            if operation.commands[0].op == Op::Set {
                *is_certain &= operation.outcome != Outcome::Maybe;
                shown.clear();
            } else if operation.outcome == Outcome::Done {
                *shown = operation.replies.iter().map(number_of).collect();
            }
        }
        for (bucket, (shown, _)) in
            buckets.into_iter().filter(|(_, (shown, is_certain))| *is_certain && !shown.is_empty())
        {
            self.settled.insert(bucket, (now, shown));
        }
    }

    /// Everything that a setting may have been for what was asked at `from` and was over by `until`; it is 0 where nobody has said anything.
    fn possible(&self, bucket: &str, setting: &'static str, (from, until): Span) -> Vec<u64> {
        if let Some((_, shown)) = self.settled.get(bucket).filter(|(since, _)| *since <= from) {
            let place = SETTINGS.iter().position(|(name, _)| *name == setting);
            return place.and_then(|place| shown.get(place)).into_iter().copied().collect();
        }
        let asked = self.asked.get(&(bucket.to_owned(), setting)).map_or(&[][..], Vec::as_slice);
        let mut values: Vec<u64> = asked.iter().filter(|(at, _)| *at <= until).map(|(_, value)| *value).collect();
        if values.is_empty() {
            values.push(0);
        }
        values
    }

    /// What keys get that are made in a bucket without a deadline; none if they certainly get none.
    #[must_use]
    pub fn lifetime(&self, bucket: &str, span: Span) -> Option<Lifetime> {
        let all = self.possible(bucket, TTL, span);
        let seconds = || all.iter().copied().filter(|seconds| *seconds > 0);
        let (least, most) = (seconds().min()?, seconds().max()?);
        let certain = all.iter().all(|seconds| *seconds > 0);
        Some(Lifetime { least_ms: 1000 * least, most_ms: 1000 * most, certain })
    }

    /// The longest values that a bucket takes: the least and the greatest that this may be; none if it may be without a limit.
    #[must_use]
    pub fn value_bytes_max(&self, bucket: &str, span: Span) -> (Option<u64>, Option<u64>) {
        let own = bounds(&self.possible(bucket, VALUE_BYTES_MAX, span));
        if !self.evicting.contains(bucket) {
            return own;
        }
        // No value may be longer than all that there may be.
        let quota = self.quota_of_partition(bucket, span);
        let less = |one: Option<u64>, other: Option<u64>| one.into_iter().chain(other).min();
        (less(own.0, quota.0), less(own.1, quota.1))
    }

    /// The quota at which a partition of a bucket refuses, or evicts: the least and the greatest that it may be; none if there may be none.
    #[must_use]
    pub fn quota(&self, bucket: &str, span: Span) -> (Option<u64>, Option<u64>) {
        if !self.bounded.contains(bucket) && !self.evicting.contains(bucket) {
            return (None, None);
        }
        self.quota_of_partition(bucket, span)
    }

    /// What each partition has of its bucket's quota.
    fn quota_of_partition(&self, bucket: &str, span: Span) -> (Option<u64>, Option<u64>) {
        let partitions = self.partitions.get(bucket).copied().unwrap_or(1);
        let (least, greatest) = bounds(&self.possible(bucket, QUOTA, span));
        (least.map(|quota| quota.div_ceil(partitions)), greatest.map(|quota| quota.div_ceil(partitions)))
    }

    /// The lifetime that a command gives to what it makes.
    #[must_use]
    pub fn lifetime_of(&self, command: &Command, operation: &Operation) -> Option<Lifetime> {
        self.lifetime(bucket_of(&command.key), span_of(operation))
    }
}

/// When an operation may have happened.
#[must_use]
pub fn span_of(operation: &Operation) -> Span {
    let end = operation.finish.filter(|_| operation.outcome == Outcome::Done);
    (operation.invoke, end.unwrap_or(u64::MAX))
}

fn number_of(reply: &Reply) -> u64 {
    match reply {
        // What is no number nobody asks for as one.
        Reply::Text(text) => text.parse().unwrap_or(0),
        _ => 0,
    }
}

/// The least of limits of which 0 is none, and the greatest.
fn bounds(limits: &[u64]) -> (Option<u64>, Option<u64>) {
    let least = limits.iter().copied().filter(|limit| *limit > 0).min();
    let greatest = limits.iter().copied().max().filter(|_| limits.iter().all(|limit| *limit > 0));
    (least, greatest)
}

fn register(bucket: &str, setting: &str) -> String {
    format!("{bucket}#{setting}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_partition_has_its_share_of_the_quota() {
        let mut settings = Settings::default();
        settings.made("k", "KIND cache QUOTA 1000 PARTITIONS 3");
        assert_eq!(settings.quota("k", (0, 1)), (Some(334), Some(334)));
        assert_eq!(settings.value_bytes_max("k", (0, 1)), (Some(334), Some(334)));
    }

    #[test]
    fn what_was_asked_for_is_possible_from_then_on() {
        let mut settings = Settings::default();
        settings.made("t", "KIND ephemeral TTL 2 QUOTA 700");
        settings.begin_change(1, "t", &[("ttl", "5".to_owned()), ("value-bytes-max", "64".to_owned())], 100);
        let lifetime = |until| settings.lifetime("t", (0, until));
        assert_eq!(lifetime(99), Some(Lifetime { least_ms: 2000, most_ms: 2000, certain: true }));
        assert_eq!(lifetime(100), Some(Lifetime { least_ms: 2000, most_ms: 5000, certain: true }));
        assert_eq!(settings.value_bytes_max("t", (0, 99)), (None, None));
        assert_eq!(settings.value_bytes_max("t", (0, 100)), (Some(64), None), "somebody may not have heard of it");
        assert_eq!(settings.quota("t", (0, 100)), (Some(700), Some(700)));
        settings.settle(200);
        assert_eq!(settings.value_bytes_max("t", (200, 300)), (Some(64), None), "the change may still be made");
        settings.end(1, Outcome::Done, vec![Reply::Text("OK".into()); 2], 210);
        let shown = settings.begin_show(1, "t", 220);
        let replies = ["700", "node", "5", "64"].map(|text| Reply::Text(text.into())).to_vec();
        settings.end(shown, Outcome::Done, replies, 230);
        settings.settle(300);
        assert_eq!(settings.value_bytes_max("t", (299, 310)), (Some(64), None));
        assert_eq!(settings.value_bytes_max("t", (300, 310)), (Some(64), Some(64)));
        assert_eq!(settings.lifetime("t", (300, 310)), Some(Lifetime { least_ms: 5000, most_ms: 5000, certain: true }));
        assert_eq!(settings.lifetime("elsewhere", (0, 100)), None);
        settings.made("c", "KIND cache QUOTA 700");
        settings.begin_change(1, "c", &[("quota", "900".to_owned())], 100);
        assert_eq!(
            (settings.quota("c", (0, 99)), settings.quota("c", (0, 100))),
            ((Some(700), Some(700)), (Some(700), Some(900)))
        );
        assert_eq!(
            settings.value_bytes_max("c", (0, 100)),
            (Some(700), Some(900)),
            "no value is longer than the quota"
        );
    }
}
