//! Records of fields, as hashes, with an index of all of them as a sorted set: what YCSB's workloads and those of the
//! tail-latency laboratory are made of.
//!
//! As YCSB's Redis binding has it (brianfrankcooper/YCSB, `redis/…/RedisClient.java`, and `core/…/CoreWorkload.java`): keys are
//! `user` and the FNV hash of the record's number; an insert is `HSET` of all fields and `ZADD` to the index; an update is
//! `HSET` of one field; a read is `HGETALL`; a scan is `ZRANGEBYSCORE` on the index and a read of each key found. Different
//! from it: the reads of a scan are sent together, and a read-modify-write is measured as one operation only.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::Rng;
use wire::Value;

use super::{Distribution, Draft, Draw, Follow, Keys, Mix, Parameters, Text, Workload, push_decimal};
use crate::drive::Answer;

/// The index of all records.
const INDEX: &[u8] = b"_indices";
/// Records of one scan, at most; evenly from 1.
const SCAN_MAX: u64 = 100;

/// The kinds, in the order of their numbers.
pub(super) const KINDS: [&str; 5] = ["read", "update", "insert", "scan", "read-modify-write"];
const READ: usize = 0;
const UPDATE: usize = 1;
const INSERT: usize = 2;
const SCAN: usize = 3;

/// What is different from one workload of records to another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Defaults {
    /// Shares of [`KINDS`].
    pub shares: [f64; 5],
    pub distribution: Distribution,
}

/// Builds a workload of records: by default 1,000 of 10 fields of 100 bytes, as YCSB's are.
pub(super) fn build(defaults: Defaults, parameters: &Parameters) -> Result<Box<dyn Workload>, String> {
    let bytes = parameters.field_bytes_or(100)?;
    let records = parameters.records_or(1_000)?;
    let shares: Vec<(&str, f64)> = KINDS.into_iter().zip(defaults.shares).collect();
    Ok(Box::new(Records {
        records,
        fields: parameters.fields_or(10)?,
        bytes,
        distribution: parameters.distribution.unwrap_or(defaults.distribution),
        mix: Mix::new(&shares, parameters.mix.as_deref())?,
        text: Arc::new(Text::new(bytes, parameters.seed)),
        counts: Arc::new(Counts { begun: AtomicU64::new(records), done: AtomicU64::new(records) }),
    }))
}

/// Records there are, shared by the threads.
struct Counts {
    /// The number of the next insert.
    begun: AtomicU64,
    /// How many have been acknowledged. Inserts that are under way at once may end in another order than they began: then a
    /// read may ask for one that is not there yet, and finds nothing.
    done: AtomicU64,
}

#[derive(Clone)]
struct Records {
    records: u64,
    fields: u32,
    bytes: usize,
    distribution: Distribution,
    mix: Mix,
    text: Arc<Text>,
    counts: Arc<Counts>,
}

/// FNV-1a over the number's eight bytes, the lowest first, as YCSB's `Utils.fnvhash64` (which takes the absolute value).
fn fnv(number: u64) -> u64 {
    let hash = number
        .to_le_bytes()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(1_099_511_628_211));
    (hash as i64).unsigned_abs()
}

fn key(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(b"user");
    push_decimal(out, fnv(number));
}

/// A record's place in the index: as many bits of its hash as a double holds.
fn score(number: u64) -> u64 {
    fnv(number) >> 10
}

fn field(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(b"field");
    push_decimal(out, number);
}

impl Records {
    fn insert(&self, number: u64, draft: &mut Draft) {
        draft.command(b"HSET").word_with(|out| key(out, number));
        for place in 0..u64::from(self.fields) {
            let value = self.text.cut_at(self.bytes, number.wrapping_mul(31).wrapping_add(place));
            draft.word_with(|out| field(out, place)).word(value);
        }
        draft.command(b"ZADD").word(INDEX).number(score(number)).word_with(|out| key(out, number));
    }
}

impl Workload for Records {
    fn kinds(&self) -> Vec<String> {
        self.mix.names()
    }

    fn records(&self) -> u64 {
        self.records
    }

    fn load(&self, number: u64, draft: &mut Draft) {
        self.insert(number, draft);
    }

    fn draw(&self, seed: u64) -> Result<Box<dyn Draw>, String> {
        let mut rng = Rng::new(seed);
        let known = self.counts.done.load(Ordering::Relaxed);
        let keys = Keys::new(self.distribution, known, rng.next_u64())?;
        Ok(Box::new(Drawer { of: self.clone(), keys, known, rng }))
    }
}

struct Drawer {
    of: Records,
    keys: Keys,
    known: u64,
    rng: Rng,
}

impl Drawer {
    fn update(&mut self, number: u64, draft: &mut Draft) {
        let place = self.rng.below(u64::from(self.of.fields));
        let value = self.of.text.cut(self.of.bytes, &mut self.rng);
        draft.command(b"HSET").word_with(|out| key(out, number)).word_with(|out| field(out, place)).word(value);
    }
}

impl Draw for Drawer {
    fn next(&mut self, _client: u32, draft: &mut Draft) -> bool {
        let known = self.of.counts.done.load(Ordering::Relaxed);
        if known > self.known {
            self.keys.inserted(known - self.known);
            self.known = known;
        }
        draft.kind = self.of.mix.draw(&mut self.rng);
        if draft.kind == INSERT {
            self.of.insert(self.of.counts.begun.fetch_add(1, Ordering::Relaxed), draft);
            draft.follow = true;
            return true;
        }
        let number = self.keys.next();
        match draft.kind {
            UPDATE => self.update(number, draft),
            SCAN => {
                let count = self.rng.between(1, SCAN_MAX);
                draft.command(b"ZRANGEBYSCORE").word(INDEX).number(score(number)).word(b"+inf");
                draft.word(b"LIMIT").word(b"0").number(count);
                draft.follow = true;
            }
            kind => {
                draft.command(b"HGETALL").word_with(|out| key(out, number));
                draft.follow = kind != READ;
                draft.token = number;
            }
        }
        true
    }

    fn follow(&mut self, _client: u32, answer: &Answer<'_>, draft: &mut Draft) -> Follow {
        match draft.kind {
            INSERT => {
                self.of.counts.done.fetch_add(1, Ordering::Relaxed);
                Follow::Done
            }
            SCAN => {
                let Some(Value::Array(keys)) = answer.value() else { return Follow::Done };
                for key in keys.iter().filter_map(Value::as_bytes) {
                    draft.command(b"HGETALL").word(key);
                }
                Follow::Again
            }
            _ => {
                let number = draft.token;
                self.update(number, draft);
                Follow::Again
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::Kind;

    fn of(shares: [f64; 5]) -> Box<dyn Workload> {
        let parameters =
            Parameters { records: Some(10), fields: Some(2), field_bytes: Some(3), ..Parameters::default() };
        build(Defaults { shares, distribution: Distribution::Uniform }, &parameters).unwrap()
    }

    fn words(draft: &Draft) -> Vec<Vec<String>> {
        draft.commands().map(|words| words.map(|word| String::from_utf8(word.to_vec()).unwrap()).collect()).collect()
    }

    #[test]
    fn keys_are_those_of_ycsb() {
        // Records 0 and 1 of YCSB's load phase with its defaults.
        let mut out = Vec::new();
        key(&mut out, 0);
        assert_eq!(out, b"user6284781860667377211");
        out.clear();
        key(&mut out, 1);
        assert_eq!(out, b"user8517097267634966620");
    }

    #[test]
    fn a_record_is_a_hash_and_a_place_in_the_index() {
        let mut draft = Draft::default();
        of([1.0; 5]).load(3, &mut draft);
        let commands = words(&draft);
        assert_eq!((commands[0][0].as_str(), commands[0].len()), ("HSET", 6));
        assert_eq!((commands[0][2].as_str(), commands[0][4].as_str(), commands[0][5].len()), ("field0", "field1", 3));
        assert_eq!(commands[1], ["ZADD", "_indices", &score(3).to_string(), &commands[0][1]]);
    }

    #[test]
    fn inserts_go_on_from_the_records_and_are_read_when_they_are_there() {
        let workload = of([0.0, 0.0, 1.0, 0.0, 0.0]);
        let mut draws = [workload.draw(1).unwrap(), workload.draw(2).unwrap()];
        let mut draft = Draft::default();
        let mut keys = Vec::new();
        for thread in [0, 1, 0] {
            let draw = &mut draws[thread];
            draft.clear();
            draw.next(0, &mut draft);
            assert!(draft.follow);
            keys.push(words(&draft)[0][1].clone());
            assert_eq!(draw.follow(0, &Answer::resp(b":1\r\n", Kind::Value), &mut draft), Follow::Done);
        }
        let expected: Vec<String> = (10..13).map(|number| format!("user{}", fnv(number))).collect();
        assert_eq!(keys, expected);
    }

    #[test]
    fn a_scan_reads_what_the_index_gives_and_a_read_modify_write_writes() {
        let mut draft = Draft::default();
        let mut draw = of([0.0, 0.0, 0.0, 1.0, 0.0]).draw(1).unwrap();
        draw.next(0, &mut draft);
        assert_eq!(words(&draft)[0][0], "ZRANGEBYSCORE");
        draft.clear();
        draft.kind = SCAN;
        let answer = Answer::resp(b"*2\r\n$2\r\nua\r\n$2\r\nub\r\n", Kind::Value);
        assert_eq!(draw.follow(0, &answer, &mut draft), Follow::Again);
        assert_eq!(words(&draft), [["HGETALL", "ua"], ["HGETALL", "ub"]]);
        assert!(!draft.follow);

        let mut draw = of([0.0, 0.0, 0.0, 0.0, 1.0]).draw(1).unwrap();
        draft.clear();
        draw.next(0, &mut draft);
        let read = words(&draft);
        let token = draft.token;
        draft.clear();
        (draft.kind, draft.token) = (4, token);
        draw.follow(0, &Answer::resp(b"*0\r\n", Kind::Value), &mut draft);
        let written = words(&draft);
        assert_eq!((read[0][0].as_str(), written[0][0].as_str()), ("HGETALL", "HSET"));
        assert_eq!((&read[0][1], written[0].len()), (&written[0][1], 4));
    }
}
