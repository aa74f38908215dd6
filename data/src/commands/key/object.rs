//! `OBJECT ENCODING | FREQ | HELP | IDLETIME | REFCOUNT`

use crate::args::parse_integer;
use crate::commands::prelude::*;
use crate::commands::subcommand::{self, KEY};

/// What Redis would tell of how it keeps a value. Nothing here depends on it; tools ask for it.
pub struct Object<'a> {
    question: Question<'a>,
}

enum Question<'a> {
    Encoding(KeyRef<'a>),
    Frequency(KeyRef<'a>),
    IdleTime(KeyRef<'a>),
    ReferenceCount(KeyRef<'a>),
    Help,
}

/// Longest string that Redis keeps together with its header.
const EMBEDDED_BYTES_MAX: usize = 44;
/// Most fields of a hash, most numbers that are all of a set, most members of another set or a sorted set, and most bytes of each, that Redis packs into one string.
const PACKED_ELEMENTS_MAX: u64 = 512;
const PACKED_MEMBERS_MAX: u64 = 128;
const PACKED_BYTES_MAX: usize = 64;
/// Most bytes of a list that Redis keeps in one string, and what an element takes in it beside its own.
const PACKED_LIST_BYTES_MAX: usize = 8 * 1024;
const PACKED_OVERHEAD_BYTES: usize = 2;
/// Integers below this are shared by all keys of a Redis.
const SHARED_INTEGERS: i64 = 10_000;

const NO_FREQUENCY: Failure = Failure::Text(
    "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between \
     policies at runtime LRU and LFU data will take some time to adjust.",
);
const NO_IDLE_TIME: Failure = Failure::Text(
    "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching between policies at \
     runtime LRU and LFU data will take some time to adjust.",
);
/// What every replica does must not depend on what one of them has been asked.
const IN_AN_ENTRY: Failure =
    Failure::Text("ERR each node knows for itself how keys are used: not in scripts and transactions that write");

const HELP: &[&str] = &[
    "OBJECT <subcommand> [<argument>]. Subcommands are:",
    "ENCODING <key>",
    "    The name of the representation that Redis would choose for the value.",
    "FREQ <key>",
    "    How often the key is used, from 0 to 15, in a bucket whose policy is lfu.",
    "IDLETIME <key>",
    "    Seconds since this node was last asked for the key.",
    "REFCOUNT <key>",
    "    How many references to the value a Redis would count.",
    "HELP",
    "    This text.",
];

const SUBCOMMANDS: &[Spec] = &[
    subcommand("object|encoding", 3, KEY, "key", "Answers the representation that Redis would choose for a value."),
    subcommand("object|freq", 3, KEY, "key", "Answers how often a key is used, under a policy that counts it."),
    subcommand("object|help", 2, Keys::None, "", "Describes the subcommands."),
    subcommand("object|idletime", 3, KEY, "key", "Answers how many seconds ago this node was last asked for a key."),
    subcommand("object|refcount", 3, KEY, "key", "Answers how many references to a value a Redis would count."),
];

const fn subcommand(
    name: &'static str,
    arity: i32,
    keys: Keys,
    arguments: &'static str,
    summary: &'static str,
) -> Spec {
    subcommand::spec(Group::Generic, name, arity, keys, arguments, summary)
}

impl<'a> ReadCommand<'a> for Object<'a> {
    const SPEC: Spec = Spec {
        name: "object",
        arity: -2,
        flags: Flags::READONLY.and(Flags::NO_TOUCH),
        keys: KEY,
        group: Group::Generic,
        since: "2.2.3",
        complexity: "O(1)",
        summary: "Tells how a Redis would keep a value.",
        arguments: "ENCODING key | FREQ key | HELP | IDLETIME key | REFCOUNT key",
        example: "OBJECT ENCODING greeting",
        subcommands: SUBCOMMANDS,
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let spec = subcommand::find(&Self::SPEC, args)?;
        let question = match spec.name {
            "object|encoding" => Question::Encoding(args.key(2)?),
            "object|freq" => Question::Frequency(args.key(2)?),
            "object|idletime" => Question::IdleTime(args.key(2)?),
            "object|refcount" => Question::ReferenceCount(args.key(2)?),
            _ => Question::Help,
        };
        Ok(Object { question })
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        let (Question::Encoding(key)
        | Question::Frequency(key)
        | Question::IdleTime(key)
        | Question::ReferenceCount(key)) = self.question
        else {
            return Ok(Reply::Array(HELP.iter().map(|line| Reply::Simple(line)).collect()));
        };
        let Some(record) = view.get(key) else { return Ok(Reply::Nil) };
        let integer = match &record.value {
            Value::String(bytes) => parse_integer(bytes),
            _ => None,
        };
        match self.question {
            Question::Encoding(_) => Ok(Reply::bulk(encoding(view, &record.value))),
            Question::Frequency(key) => match view.usage().map(|usage| usage.frequency(key)) {
                Some(Some(frequency)) => Ok(Reply::Integer(i64::try_from(frequency).unwrap_or(i64::MAX))),
                Some(None) => Err(NO_FREQUENCY),
                None => Err(IN_AN_ENTRY),
            },
            Question::ReferenceCount(_) if integer.is_some_and(|integer| (0..SHARED_INTEGERS).contains(&integer)) => {
                Ok(Reply::Integer(i64::from(i32::MAX)))
            }
            Question::ReferenceCount(_) => Ok(Reply::Integer(1)),
            Question::IdleTime(key) => match view.usage() {
                Some(usage) if usage.frequency(key).is_some() => Err(NO_IDLE_TIME),
                Some(usage) => Ok(Reply::Integer(i64::try_from(usage.idle_seconds(key)).unwrap_or(i64::MAX))),
                None => Err(IN_AN_ENTRY),
            },
            Question::Help => Ok(Reply::Nil),
        }
    }
}

/// The representation that Redis would choose for a value that is made at once.
fn encoding(view: &View<'_>, value: &Value) -> &'static str {
    let of = match value {
        Value::String(bytes) if parse_integer(bytes).is_some() => return "int",
        Value::String(bytes) if bytes.len() <= EMBEDDED_BYTES_MAX => return "embstr",
        Value::String(_) | Value::Json(_) => return "raw",
        Value::List(list) => {
            let elements = view.list_between(**list, 0, PACKED_LIST_BYTES_MAX as u64);
            let bytes: usize = elements.map(|element| element.len() + PACKED_OVERHEAD_BYTES).sum();
            return if bytes <= PACKED_LIST_BYTES_MAX { "listpack" } else { "quicklist" };
        }
        Value::Stream(_) => return "stream",
        Value::Hash(of) | Value::Set(of) | Value::SortedSet(of) => *of,
    };
    let all = |fits: fn(&Blob, &Blob) -> bool| view.elements(of, 0).all(|(_, name, value)| fits(&name, &value));
    let (most, otherwise) = match value {
        Value::Set(_) => (PACKED_MEMBERS_MAX, "hashtable"),
        Value::SortedSet(_) => (PACKED_MEMBERS_MAX, "skiplist"),
        _ => (PACKED_ELEMENTS_MAX, "hashtable"),
    };
    if of.len() > PACKED_ELEMENTS_MAX {
        return otherwise;
    }
    if matches!(value, Value::Set(_)) && all(|member, _| parse_integer(member).is_some()) {
        return "intset";
    }
    let packed = of.len() <= most && all(|name, value| name.len().max(value.len()) <= PACKED_BYTES_MAX);
    let some_expire = of.has_deadlines() && view.has_deadlines_ahead(of);
    match (packed, some_expire) {
        (true, true) => "listpackex",
        (true, false) => "listpack",
        (false, _) => otherwise,
    }
}
