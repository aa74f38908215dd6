//! What a bucket is: a named key space with a kind, a quota and defaults. The council keeps the list ([`crate::council`]); every node
//! has a copy.

use base::limits::{BUCKET_NAME_BYTES_MAX, DATABASES_MAX, PARTITIONS_MAX, VALUE_BYTES_MAX, WORK_DEFAULT, WORK_MIN};
use base::{BucketId, NodeId, Position};
use data::{Failure, Reply};
use wire::{Malformed, Reader, Writer};

use crate::memories::Voting;

/// Where a bucket's data is, and what happens when it is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum BucketKind {
    /// On disk; the quota is for what is kept in memory of it.
    #[default]
    Persistent,
    /// In the memory of all replicas. At its quota it refuses what would grow it.
    Ephemeral,
    /// On disk; at its quota keys go by its policy, through the log.
    Cache,
}

/// What is given up first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Policy {
    Fifo,
    Lru,
    Lfu,
    S3Fifo,
}

/// What must be true before a write is answered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Durability {
    /// A majority has it, in memory at least.
    Majority,
    /// A majority has it on disk.
    PersistMajority,
    /// Every replica has it, on disk if the bucket is on disk.
    All,
}

/// What a read sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Consistency {
    /// Every write that was answered before it.
    #[default]
    Linearizable,
    /// Every write that a token stands for, and whatever the connection has seen.
    Session,
    /// Whatever this node's replica has.
    Local,
}

/// A word for each variant, as clients write it and the log stores it.
pub(crate) trait Named: Copy + PartialEq + Sized + 'static {
    const NAMES: &'static [(Self, &'static str)];

    fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(value, _)| *value == self).map_or("", |(_, name)| name)
    }

    fn from_name(word: &[u8]) -> Option<Self> {
        Self::NAMES.iter().find(|(_, name)| name.as_bytes().eq_ignore_ascii_case(word)).map(|(value, _)| *value)
    }

    fn write(self, w: &mut Writer<'_>) {
        w.u8(Self::NAMES.iter().position(|(value, _)| *value == self).unwrap_or_default() as u8);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Self::NAMES.get(usize::from(r.u8()?)).map(|(value, _)| *value).ok_or(Malformed)
    }
}

// The order is that of the stored numbers: append only.
impl Named for BucketKind {
    const NAMES: &'static [(BucketKind, &'static str)] =
        &[(BucketKind::Persistent, "persistent"), (BucketKind::Ephemeral, "ephemeral"), (BucketKind::Cache, "cache")];
}

impl Named for Policy {
    const NAMES: &'static [(Policy, &'static str)] =
        &[(Policy::Fifo, "fifo"), (Policy::Lru, "lru"), (Policy::Lfu, "lfu"), (Policy::S3Fifo, "s3-fifo")];
}

impl Named for Durability {
    const NAMES: &'static [(Durability, &'static str)] = &[
        (Durability::Majority, "majority"),
        (Durability::PersistMajority, "persist-majority"),
        (Durability::All, "all"),
    ];
}

impl Named for Consistency {
    const NAMES: &'static [(Consistency, &'static str)] = &[
        (Consistency::Linearizable, "linearizable"),
        (Consistency::Session, "session"),
        (Consistency::Local, "local"),
    ];
}

/// What may be set of a bucket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Settings {
    pub kind: BucketKind,
    /// How many partitions it is cut into, 1 to [`PARTITIONS_MAX`]. Cannot be changed.
    pub partitions: u16,
    /// Bytes of memory on each node, of a cache all of its bytes; 0: as the node's `--memory-quota` says, or no limit for an ephemeral bucket.
    pub quota_bytes: u64,
    /// None: as the node's `--cache-policy` says.
    pub policy: Option<Policy>,
    pub durability: Durability,
    pub consistency: Consistency,
    /// Keys that are made without a deadline get one so much later, in milliseconds; 0: none.
    pub ttl_ms: u64,
    /// Longest value, in bytes; 0: as the node's `--value-bytes-max` says.
    pub value_bytes_max: u64,
    /// Most units of work that one entry or one read may cost; 0: [`WORK_DEFAULT`].
    pub work_max: u64,
}

impl Settings {
    /// Whether words that change settings name one that nodes of the oldest version do not know.
    pub(crate) fn names_work_max(words: &[Vec<u8>]) -> bool {
        words.iter().step_by(2).any(|name| name.eq_ignore_ascii_case(b"work-max"))
    }

    /// Most units of work that one entry or one read may cost.
    pub(crate) fn work_max(&self) -> u64 {
        if self.work_max == 0 { WORK_DEFAULT } else { self.work_max }
    }

    pub(crate) fn of_kind(kind: BucketKind) -> Settings {
        let durability = match kind {
            BucketKind::Ephemeral => Durability::Majority,
            BucketKind::Persistent | BucketKind::Cache => Durability::PersistMajority,
        };
        Settings {
            kind,
            partitions: 1,
            quota_bytes: 0,
            policy: None,
            durability,
            consistency: Consistency::default(),
            ttl_ms: 0,
            value_bytes_max: 0,
            work_max: 0,
        }
    }

    /// Changes what `words` say: pairs of a name and a value. The kind can only be given to a bucket that is being made.
    pub(crate) fn change(&mut self, words: &[&[u8]], is_new: bool) -> Result<(), Failure> {
        let (pairs, rest) = words.as_chunks::<2>();
        if !rest.is_empty() {
            return Err(Failure::Syntax);
        }
        // The kind first: it decides on the defaults of what is not said.
        if let Some([_, value]) = pairs.iter().find(|[name, _]| name.eq_ignore_ascii_case(b"kind")) {
            let kind =
                BucketKind::from_name(value).ok_or(Failure::Text("ERR a kind is persistent, ephemeral or cache"))?;
            if !is_new && kind != self.kind {
                return Err(Failure::Text("ERR the kind of a bucket cannot be changed"));
            }
            if is_new {
                *self = Settings { partitions: self.partitions, ..Settings::of_kind(kind) };
            }
        }
        for [name, value] in pairs {
            match name.to_ascii_lowercase().as_slice() {
                b"kind" => {}
                b"partitions" => {
                    let count = data::args::parse_integer(value).and_then(|it| u16::try_from(it).ok());
                    let count = count.filter(|count| (1..=PARTITIONS_MAX).contains(count)).ok_or(NO_PARTITIONS)?;
                    if !is_new && count != self.partitions {
                        return Err(Failure::Text("ERR the number of partitions of a bucket cannot be changed"));
                    }
                    self.partitions = count;
                }
                b"quota" => self.quota_bytes = bytes(value)?,
                b"policy" => {
                    const NO_POLICY: Failure =
                        Failure::Text("ERR a policy is fifo, lru, lfu, s3-fifo, or node for the node's own");
                    self.policy = match Policy::from_name(value) {
                        None if value.eq_ignore_ascii_case(OF_NODE.as_bytes()) => None,
                        policy => Some(policy.ok_or(NO_POLICY)?),
                    };
                }
                b"durability" => self.durability = Durability::from_name(value).ok_or(NO_DURABILITY)?,
                b"consistency" => self.consistency = Consistency::from_name(value).ok_or(NO_CONSISTENCY)?,
                b"ttl" => {
                    let seconds = data::args::parse_integer(value).and_then(|it| u64::try_from(it).ok());
                    let ttl = seconds.and_then(|seconds| seconds.checked_mul(1000)).filter(|it| *it <= TTL_MS_MAX);
                    self.ttl_ms = ttl.ok_or(Failure::Text("ERR a time-to-live is in seconds, 0 for none"))?;
                }
                b"value-bytes-max" => {
                    self.value_bytes_max = bytes(value)?;
                    if self.value_bytes_max > VALUE_BYTES_MAX as u64 {
                        return Err(Failure::Text("ERR no value may be longer than 512 MiB"));
                    }
                }
                b"work-max" => {
                    let units = data::args::parse_integer(value).and_then(|it| u64::try_from(it).ok());
                    self.work_max = units.filter(|units| *units == 0 || *units >= WORK_MIN).ok_or(NO_WORK)?;
                }
                _ => {
                    let names =
                        "kind, partitions, quota, policy, durability, consistency, ttl, value-bytes-max and work-max";
                    let text = [b"ERR a bucket has no setting '", *name, b"'; there are ", names.as_bytes()].concat();
                    return Err(Failure::built(&text));
                }
            }
        }
        if self.kind == BucketKind::Ephemeral && self.durability == Durability::PersistMajority {
            return Err(NOT_PERSISTENT);
        }
        if self.kind == BucketKind::Cache && self.quota_bytes == 0 {
            return Err(Failure::Text("ERR a cache needs a quota: the most bytes that its keys and values may have"));
        }
        Ok(())
    }

    /// What each partition may have of the bucket's quota, in bytes; 0: no limit.
    pub(crate) fn quota_of_partition(&self) -> u64 {
        self.quota_bytes.div_ceil(u64::from(self.partitions))
    }

    /// Without the number of partitions and the budget, which stand elsewhere: see [`crate::council`].
    fn encode(&self, w: &mut Writer<'_>) {
        self.kind.write(w);
        w.u64(self.quota_bytes);
        w.option(self.policy, |w, policy| policy.write(w));
        self.durability.write(w);
        self.consistency.write(w);
        w.u64(self.ttl_ms);
        w.u64(self.value_bytes_max);
    }

    fn decode(r: &mut Reader<'_>) -> Result<Settings, Malformed> {
        Ok(Settings {
            kind: BucketKind::read(r)?,
            partitions: 1,
            quota_bytes: r.u64()?,
            policy: r.option(Policy::read)?,
            durability: Durability::read(r)?,
            consistency: Consistency::read(r)?,
            ttl_ms: r.u64()?,
            value_bytes_max: r.u64()?,
            work_max: 0,
        })
    }
}

/// Stands for the policy that the node's `--cache-policy` names.
const OF_NODE: &str = "node";
/// A thousand years: far from where times overflow.
const NO_PARTITIONS: Failure = Failure::Text("ERR a bucket has 1 to 1024 partitions");
const _: () = assert!(PARTITIONS_MAX == 1024, "the text says so");
const NO_WORK: Failure = Failure::Text("ERR work-max is a number of units from 100 on, or 0 for the default");
const _: () = assert!(WORK_MIN == 100, "the text says so");
const TTL_MS_MAX: u64 = 1000 * 366 * 24 * 3600 * 1000;
pub(crate) const NO_DURABILITY: Failure = Failure::Text("ERR a durability is majority, persist-majority or all");
pub(crate) const NO_CONSISTENCY: Failure = Failure::Text("ERR a consistency is linearizable, session or local");
/// What an ephemeral bucket says to `persist-majority`.
pub(crate) const NOT_PERSISTENT: Failure =
    Failure::Text("ERR an ephemeral bucket is in memory only: its durability is majority or all");

/// A number of bytes with an optional unit: `1048576`, `64mb`, `64MiB`.
fn bytes(word: &[u8]) -> Result<u64, Failure> {
    const UNITS: [(&[u8], u64); 10] = [
        (b"kib", 1 << 10),
        (b"mib", 1 << 20),
        (b"gib", 1 << 30),
        (b"tib", 1 << 40),
        // As in Redis's configuration.
        (b"kb", 1 << 10),
        (b"mb", 1 << 20),
        (b"gb", 1 << 30),
        (b"tb", 1 << 40),
        (b"b", 1),
        (b"", 1),
    ];
    let word = word.to_ascii_lowercase();
    let (digits, unit) =
        UNITS.iter().find_map(|(name, unit)| Some((word.strip_suffix(*name)?, *unit))).unwrap_or_default();
    let number = std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let number = number.and_then(|text| text.parse::<u64>().ok()).and_then(|number| number.checked_mul(unit));
    number
        .filter(|bytes| *bytes <= 1 << 50)
        .ok_or(Failure::Text("ERR a size is a number of bytes, as 1048576 or 64MiB"))
}

/// One bucket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Bucket {
    /// Never used again.
    pub id: BucketId,
    /// What `SELECT` calls it beside its name; free again once it is dropped.
    pub number: u16,
    pub name: String,
    pub settings: Settings,
    /// Which memory each voter had when the bucket was made, in the voters' order; 0 where that was not known. A voter with another
    /// one has lost what it may have promised. Empty for the default bucket, which is founded by its voters themselves.
    pub identities: Vec<u64>,
    /// Who has founded it, if that is not everybody who has founded the cluster; sorted. In `identities` and `memories` all others count for nothing.
    pub founders: Vec<NodeId>,
    /// Of an ephemeral bucket: which voters have its memory, in their order. Who has not recovers from those who have, and is counted
    /// here before it votes. With too few left to recover from the bucket begins anew under another number.
    pub memories: Vec<bool>,
    /// Of an ephemeral bucket: who votes, if that has moved.
    pub voting: Voting,
    /// Its first number: an ephemeral bucket gets another one whenever it begins anew.
    pub born: BucketId,
    /// Where in the council's log it was created.
    pub made_at: Position,
}

impl Bucket {
    /// The bucket that is always there.
    pub(crate) fn default_bucket() -> Bucket {
        Bucket {
            id: BucketId(0),
            number: 0,
            name: DEFAULT_NAME.to_owned(),
            settings: Settings::of_kind(BucketKind::Persistent),
            identities: Vec::new(),
            founders: Vec::new(),
            memories: Vec::new(),
            voting: Voting::default(),
            born: BucketId(0),
            made_at: Position(0),
        }
    }

    /// One that the council's log tells of, further on than it is applied.
    pub(crate) fn unknown(id: BucketId) -> Bucket {
        Bucket { id, born: id, name: format!("number {}", id.0), ..Bucket::default_bucket() }
    }

    pub(crate) fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.id.0);
        w.u16(self.number);
        w.bytes(self.name.as_bytes());
        self.settings.encode(w);
        w.count(self.identities.len());
        for identity in &self.identities {
            w.u64(*identity);
        }
        w.count(self.memories.len());
        for memory in &self.memories {
            w.bool(*memory);
        }
        w.u32(self.born.0);
        w.position(self.made_at);
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Bucket, Malformed> {
        let mut bucket = Bucket {
            id: BucketId(r.u32()?),
            number: r.u16()?,
            name: r.text()?.to_owned(),
            settings: Settings::decode(r)?,
            identities: Vec::new(),
            founders: Vec::new(),
            memories: Vec::new(),
            voting: Voting::default(),
            born: BucketId(0),
            made_at: Position(0),
        };
        for _ in 0..r.count(8)? {
            bucket.identities.push(r.u64()?);
        }
        for _ in 0..r.count(1)? {
            bucket.memories.push(r.bool()?);
        }
        bucket.born = BucketId(r.u32()?);
        bucket.made_at = r.position()?;
        Ok(bucket)
    }

    /// Whether it is one of the numbered databases, the default bucket among them: `FLUSHALL` is about all of these.
    pub(crate) fn is_database(&self) -> bool {
        self.number == 0 || database_number(self.name.as_bytes()).is_some()
    }

    /// What `DICTUM.BUCKET SHOW` answers.
    pub(crate) fn describe(&self) -> Reply {
        let text = |name: &str, value: &str| (Reply::bulk(name.as_bytes()), Reply::bulk(value.as_bytes()));
        let number = |name: &str, value: u64| (Reply::bulk(name.as_bytes()), Reply::Integer(value as i64));
        let it = &self.settings;
        Reply::Map(vec![
            text("name", &self.name),
            number("number", u64::from(self.number)),
            number("id", u64::from(self.id.0)),
            text("kind", it.kind.name()),
            number("partitions", u64::from(it.partitions)),
            number("quota", it.quota_bytes),
            text("policy", it.policy.map_or(OF_NODE, Policy::name)),
            text("durability", it.durability.name()),
            text("consistency", it.consistency.name()),
            number("ttl", it.ttl_ms / 1000),
            number("value-bytes-max", it.value_bytes_max),
            number("work-max", it.work_max),
        ])
    }
}

/// The name of the bucket that is always there.
pub(crate) const DEFAULT_NAME: &str = "default";

/// The number of the database that a bucket's name says, if it does: its number as it is, but for 0, which is the default bucket.
pub(crate) fn database_number(name: &[u8]) -> Option<u16> {
    let well = !name.is_empty() && name.iter().all(u8::is_ascii_digit) && name[0] != b'0';
    std::str::from_utf8(name).ok().filter(|_| well)?.parse().ok().filter(|number| *number < DATABASES_MAX)
}

/// A bucket's name, which may be the number of a database.
pub(crate) fn check_any_name(name: &[u8]) -> Result<&str, Failure> {
    match std::str::from_utf8(name) {
        Ok(number) if database_number(name).is_some() => Ok(number),
        _ => check_name(name),
    }
}

/// Whether a bucket may be called so: a letter, then letters, digits, `-`, `_` and `.`, so that no name is a number, and every name can
/// stand in a URL as it is.
pub(crate) fn check_name(name: &[u8]) -> Result<&str, Failure> {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    let well = name.first().is_some_and(u8::is_ascii_alphabetic)
        && name.iter().all(plain)
        && name.len() <= BUCKET_NAME_BYTES_MAX;
    std::str::from_utf8(name).ok().filter(|_| well).ok_or(Failure::Text(
        "ERR a bucket's name is a letter, then letters, digits, '-', '_' and '.', 64 bytes at most",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_validated() {
        for good in ["a", "sessions", "A-b_c.9"] {
            assert_eq!(check_name(good.as_bytes()), Ok(good));
        }
        for bad in ["", "0", "9a", "a b", "a/b", "é", &"x".repeat(65)] {
            assert!(check_name(bad.as_bytes()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn numbers_are_names_of_databases() {
        for (name, number) in [("1", 1), ("15", 15), ("1023", 1023)] {
            assert_eq!((database_number(name.as_bytes()), check_any_name(name.as_bytes())), (Some(number), Ok(name)));
        }
        for bad in ["", "0", "01", "1024", "70000", "-1", "1a", "+1"] {
            assert_eq!(database_number(bad.as_bytes()), None, "{bad:?}");
            assert!(check_any_name(bad.as_bytes()).is_err(), "{bad:?}");
        }
        assert_eq!((database_number(b"users"), check_any_name(b"users")), (None, Ok("users")));
    }

    #[test]
    fn sizes_have_units() {
        for (text, expected) in
            [("0", 0), ("17", 17), ("64MiB", 64 << 20), ("64mb", 64 << 20), ("1b", 1), ("2Gb", 2 << 30)]
        {
            assert_eq!(bytes(text.as_bytes()), Ok(expected), "{text}");
        }
        for bad in ["", "-1", "+1", "1.5mb", "mb", "99999999999999999999", "1000000000tb"] {
            assert!(bytes(bad.as_bytes()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_bucket_survives_encoding() {
        let mut settings = Settings::of_kind(BucketKind::Persistent);
        let words: [&[u8]; 8] = [b"KIND", b"ephemeral", b"quota", b"1mb", b"policy", b"lru", b"ttl", b"60"];
        settings.change(&words, true).unwrap();
        let bucket = Bucket {
            id: BucketId(7),
            number: 3,
            name: "x".to_owned(),
            settings,
            identities: vec![1, u64::MAX, 0],
            founders: Vec::new(),
            memories: vec![true, false],
            voting: Voting::default(),
            born: BucketId(5),
            made_at: Position(9),
        };
        let mut encoded = Vec::new();
        bucket.encode(&mut Writer::new(&mut encoded));
        assert_eq!(Bucket::decode(&mut Reader::from_slice(&encoded)), Ok(bucket));
    }

    #[test]
    fn contradictions_are_refused() {
        let change = |words: &[&[u8]]| Settings::of_kind(BucketKind::Persistent).change(words, true);
        assert!(change(&[b"kind"]).is_err());
        assert!(change(&[b"kind", b"odd"]).is_err());
        assert!(change(&[b"kind", b"cache", b"quota", b"1mb"]).is_ok());
        assert!(change(&[b"kind", b"cache"]).is_err() && change(&[b"quota", b"0", b"kind", b"cache"]).is_err());
        assert!(change(&[b"durability", b"some"]).is_err());
        assert!(change(&[b"consistency", b"eventual"]).is_err());
        assert!(change(&[b"durability", b"all", b"consistency", b"local"]).is_ok());
        assert!(change(&[b"kind", b"ephemeral", b"durability", b"persist-majority"]).is_err());
        assert!(change(&[b"durability", b"majority", b"kind", b"ephemeral"]).is_ok(), "in any order");
        assert!(change(&[b"color", b"red"]).is_err());
        assert!(
            change(&[b"partitions", b"1024"]).is_ok() && change(&[b"partitions", b"3", b"kind", b"ephemeral"]).is_ok()
        );
        for bad in [&b"0"[..], b"1025", b"-1", b"x", b"65537"] {
            assert!(change(&[b"partitions", bad]).is_err());
        }
        let mut settings = Settings::of_kind(BucketKind::Persistent);
        settings.change(&[b"kind", b"cache", b"quota", b"1mb", b"partitions", b"7"], true).unwrap();
        assert_eq!((settings.partitions, settings.quota_of_partition()), (7, (1 << 20) / 7 + 1));
        assert!(
            settings.change(&[b"partitions", b"7"], false).is_ok()
                && settings.change(&[b"partitions", b"8"], false).is_err()
        );
        assert!(Settings::of_kind(BucketKind::Persistent).change(&[b"kind", b"ephemeral"], false).is_err());
    }
}
