//! Changes with what they leave behind: what subscribers are told.
//!
//! A [`Change`] says what became of a key, and is made for every change. A [`ChangeRecord`] also has the name, the deadline and the value behind the change. It is made only
//! where [`EntryContext::recorded_bytes_max`](crate::EntryContext) says so, which is a matter of the log: every replica makes the same records.
//!
//! The value is that of the moment: of two changes of a key in one transaction each has its own. It is shared with the state, so a record costs no copy of it. A string
//! that a command edits where it stands (`APPEND`, `SETBIT`) is copied first while a record shares it. That is one reason why longer values than the limit are left out;
//! the other is the memory that records take.

use std::collections::BTreeSet;

use base::{Revision, WallTime};

use crate::blob::Blob;
use crate::commands;
use crate::events::names_of;
use crate::spec::{Flags, Keys};
use crate::store::KeyRef;
use crate::transaction::{Change, ChangeKind};
use crate::tree::Tree;
use crate::value::Value;

/// A change, with what it leaves behind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChangeRecord {
    /// The partition's revision right after the change: without gaps, one for each change.
    pub revision: Revision,
    /// What happened.
    pub kind: ChangeKind,
    /// What Redis calls it, as in keyspace notifications: `set`, `hset`, `expired`, …; `flushed` of all keys.
    pub event: Blob,
    /// The key; empty where all were removed.
    pub key: Blob,
    /// The key was not there before.
    pub is_new: bool,
    /// When the key will expire, if it will.
    pub deadline: Option<WallTime>,
    /// What stands under the key behind the change.
    pub after: After,
}

/// What stands under a key behind a change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum After {
    /// Nothing.
    Gone,
    /// A string.
    String(Blob),
    /// A JSON document, as compact text.
    Json(Blob),
    /// A value with elements. What has changed in it: the command that changed it, without its key, where the words of that command say it.
    Effect(Vec<Blob>),
    /// It is not told: it is longer than the limit, or the command's words do not say what has changed, or the same command has changed it again. A client that wants it reads
    /// it, as of this revision or later.
    Omitted,
}

/// A word of an effect counts for so many bytes more than it has: a record of empty words takes memory, too.
const WORD_BYTES: usize = 8;

/// Commands on one key whose words say what they change in a value with elements. The others draw lots, take from other keys, or make names of their own.
const EFFECTS: [&str; 25] = [
    "hset",
    "hmset",
    "hsetnx",
    "hdel",
    "hincrby",
    "hincrbyfloat",
    "hpersist",
    "sadd",
    "srem",
    "zadd",
    "zrem",
    "zincrby",
    "zremrangebyrank",
    "zremrangebyscore",
    "zremrangebylex",
    "geoadd",
    "lpush",
    "lpushx",
    "rpush",
    "rpushx",
    "lset",
    "ltrim",
    "lrem",
    "linsert",
    "xdel",
];

impl ChangeRecord {
    /// The records of the changes of one command, right behind it.
    pub(crate) fn of_command(
        tree: &Tree,
        args: &[&[u8]],
        changes: &[Change],
        (bytes_max, is_of_fields): (usize, impl Fn(usize) -> bool),
        out: &mut Vec<ChangeRecord>,
    ) {
        let again = changed_again(changes);
        for (place, (change, event)) in changes.iter().zip(names_of(args, changes)).enumerate() {
            // Fields have expired before the command did anything: its words say nothing of that.
            let (args, event) = if is_of_fields(place) { (&[][..], "hexpired") } else { (args, event) };
            out.push(ChangeRecord::new(tree, args, (change, event), again[place], bytes_max));
        }
    }

    fn new(
        tree: &Tree,
        args: &[&[u8]],
        (change, event): (&Change, &str),
        is_changed_again: bool,
        bytes_max: usize,
    ) -> ChangeRecord {
        let is_there = matches!(change.kind, ChangeKind::Set | ChangeKind::Deadline);
        // A key that is changed again has another value by now.
        let record = if is_there && !is_changed_again { tree.get(KeyRef::new(&change.key)) } else { None };
        let after = match record.as_ref().map(|record| &record.value) {
            None if is_there => After::Omitted,
            None => After::Gone,
            Some(Value::String(bytes)) if bytes.len() <= bytes_max => After::String(bytes.clone()),
            Some(Value::Json(text)) if text.as_slice().len() <= bytes_max => After::Json(Blob::new(text.as_slice())),
            Some(Value::String(_) | Value::Json(_)) => After::Omitted,
            Some(_) => effect_of(args, change, bytes_max).map_or(After::Omitted, After::Effect),
        };
        ChangeRecord {
            revision: change.revision,
            kind: change.kind,
            event: Blob::new(event.as_bytes()),
            key: change.key.clone(),
            is_new: change.is_new,
            deadline: record.and_then(|record| record.deadline()),
            after,
        }
    }

    /// Bytes that the record takes, shared ones included.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let after = match &self.after {
            After::Gone | After::Omitted => 0,
            After::String(bytes) | After::Json(bytes) => bytes.heap_bytes(),
            After::Effect(words) => words.iter().map(|word| size_of::<Blob>() + word.heap_bytes()).sum(),
        };
        size_of::<ChangeRecord>() + self.key.heap_bytes() + self.event.heap_bytes() + after
    }
}

/// For each change, whether a later one is of the same key.
fn changed_again(changes: &[Change]) -> Vec<bool> {
    let mut again = vec![false; changes.len()];
    if changes.len() > 1 {
        let (mut later, mut is_flushed) = (BTreeSet::new(), false);
        for (change, again) in changes.iter().zip(&mut again).rev() {
            *again = !later.insert(change.key.as_slice()) || is_flushed;
            is_flushed |= change.kind == ChangeKind::Flushed;
        }
    }
    again
}

/// The words of a command, without its key, if they say what it has changed.
fn effect_of(args: &[&[u8]], change: &Change, bytes_max: usize) -> Option<Vec<Blob>> {
    if change.kind != ChangeKind::Set || args.get(1).is_none_or(|key| **key != *change.key) {
        return None;
    }
    let spec = commands::lookup(args.first()?)?.spec;
    debug_assert!(!spec.flags.has(Flags::RUNS) || !EFFECTS.contains(&spec.name), "{}", spec.name);
    let has_effect = EFFECTS.contains(&spec.name) && matches!(spec.keys, Keys::Range { first: 1, .. });
    let words = || std::iter::once(spec.name.as_bytes()).chain(args[2..].iter().copied());
    (has_effect && words().map(|word| word.len() + WORD_BYTES).sum::<usize>() <= bytes_max)
        .then(|| words().map(Blob::new).collect())
}

#[cfg(test)]
mod tests {
    use base::limits::RECORDED_CHANGES_MAX;

    use super::*;
    use crate::{EntryContext, apply, apply_transaction, evict, expire_due};

    fn context(ms: u64) -> EntryContext {
        EntryContext { time: WallTime(ms), recorded_bytes_max: Some(32), ..EntryContext::default() }
    }

    fn words(line: &str) -> Vec<&[u8]> {
        line.split(' ').map(str::as_bytes).collect()
    }

    /// A record in a line: event, key, whether it is new, deadline, and what is left.
    fn line(record: &ChangeRecord) -> String {
        let text = |bytes: &Blob| String::from_utf8_lossy(bytes).into_owned();
        let after = match &record.after {
            After::Gone => "gone".to_owned(),
            After::String(bytes) | After::Json(bytes) => text(bytes),
            After::Effect(words) => words.iter().map(text).collect::<Vec<_>>().join(","),
            After::Omitted => "omitted".to_owned(),
        };
        let deadline = record.deadline.map_or(String::new(), |deadline| format!(" until {}", deadline.0));
        let new = if record.is_new { " new" } else { "" };
        format!("{} {} {}{new}{deadline}: {after}", record.revision.0, text(&record.event), text(&record.key))
    }

    fn lines(records: &[ChangeRecord]) -> Vec<String> {
        records.iter().map(line).collect()
    }

    #[test]
    fn records_tell_what_each_change_leaves_behind() {
        let mut tree = Tree::new();
        let mut said = |ms: u64, line: &str| lines(&apply(&mut tree, &context(ms), &words(line)).records);
        assert_eq!(said(1, "SET k v"), ["1 set k new: v"]);
        assert_eq!(said(1, &format!("SET k {}", "1".repeat(33))), ["2 set k: omitted"]);
        assert_eq!(said(1, "SET k w PX 9"), ["3 set k until 10: w"]);
        assert_eq!(said(1, "PERSIST k"), ["4 persist k: w"]);
        assert_eq!(said(1, "APPEND k ww"), ["5 append k: www"]);
        assert_eq!(said(1, "GET k"), Vec::<String>::new());
        assert_eq!(said(1, "HSET h f 1"), ["6 hset h new: hset,f,1"]);
        assert_eq!(
            said(1, "HSET h f 1234"),
            ["7 hset h: omitted"],
            "its words count for 8 bytes each beside their own"
        );
        assert_eq!(said(1, "SADD s a"), ["8 sadd s new: sadd,a"]);
        assert_eq!(said(1, "SPOP s"), ["9 spop s: gone"]);
        assert_eq!(said(1, "RENAME k l"), ["10 rename_from k: gone", "11 rename_to l new: www"]);
        assert_eq!(said(1, "MSET a 1 b 2 a 3"), ["12 set a new: omitted", "13 set b new: 2", "14 set a: 3"]);
        assert_eq!(said(1, "DEL a b"), ["15 del a: gone", "16 del b: gone"]);
        assert_eq!(said(1, "JSON.SET d $ [1]"), ["17 json.set d new: [1]"]);
        assert_eq!(said(1, "PEXPIRE l 5"), ["18 expire l until 6: www"]);
        // It has expired, and another one is made.
        assert_eq!(said(7, "SET l x"), ["19 expired l: gone", "20 set l new: x"]);
        assert_eq!(said(7, "FLUSHALL"), ["21 flushed : gone"]);
    }

    #[test]
    fn each_command_of_a_transaction_has_its_own_values() {
        let mut tree = Tree::new();
        let commands = ["SET k 1", "INCR k", "DEL k", "SET k 9"].map(words);
        let commands: Vec<&[&[u8]]> = commands.iter().map(Vec::as_slice).collect();
        let applied = apply_transaction(&mut tree, &context(1), &[], &commands);
        assert_eq!(lines(&applied.records), ["1 set k new: 1", "2 incrby k: 2", "3 del k: gone", "4 set k new: 9"]);
        // A script's calls are commands as well.
        let script = ["EVAL", "redis.call('SET', KEYS[1], 'a') redis.call('APPEND', KEYS[1], 'b')", "1", "k"];
        let script: Vec<&[u8]> = script.iter().map(|word| word.as_bytes()).collect();
        assert_eq!(lines(&apply(&mut tree, &context(1), &script).records), ["5 set k: a", "6 append k: ab"]);
    }

    #[test]
    fn expiry_and_eviction_are_recorded_and_nothing_is_where_nobody_asks() {
        let mut tree = Tree::new();
        apply(&mut tree, &context(1), &words("SET e v PX 5"));
        assert_eq!(lines(&expire_due(&mut tree, &context(9), 10).records), ["2 expired e: gone"]);
        apply(&mut tree, &context(9), &words("SET v v"));
        let victims: [(&[u8], Revision); 1] = [(b"v", Revision(3))];
        assert_eq!(lines(&evict(&mut tree, &context(9), &victims, 0).records), ["4 evicted v: gone"]);
        let off = EntryContext { recorded_bytes_max: None, ..context(9) };
        assert_eq!(apply(&mut tree, &off, &words("SET v v")).records, []);
    }

    #[test]
    fn fields_that_expire_are_changes_of_their_own() {
        let newest = |ms: u64| EntryContext { version: base::versions::NEWEST, ..context(ms) };
        let hash = |tree: &mut Tree| {
            apply(tree, &newest(1), &words("HSET h a 1 b 2"));
            apply(tree, &newest(1), &words("HPEXPIREAT h 5 FIELDS 1 b"));
        };
        let mut tree = Tree::new();
        hash(&mut tree);
        // The command changes nothing, and finds a field whose time is up.
        let told = lines(&apply(&mut tree, &newest(9), &words("HSETNX h a 9")).records);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].ends_with("hexpired h: omitted"), "{told:?}");
        // The same where a watched hash is looked at.
        let mut tree = Tree::new();
        hash(&mut tree);
        let revision = tree.watch_revision(b"h");
        let command = words("SET k v");
        let applied = apply_transaction(&mut tree, &newest(9), &[(b"h", revision)], &[&command]);
        assert_eq!((&applied.reply, applied.changes.len()), (&crate::Reply::NilArray, 1));
        assert!(lines(&applied.records)[0].ends_with("hexpired h: omitted"), "{:?}", applied.records);
    }

    #[test]
    fn an_entry_with_very_many_changes_has_no_records() {
        let mut tree = Tree::new();
        let mut set = |count: usize| {
            let keys: Vec<String> = (0..count).map(|key| key.to_string()).collect();
            let mut words: Vec<&[u8]> = vec![b"MSET"];
            keys.iter().for_each(|key| words.extend([key.as_bytes(), b"v"]));
            let applied = apply(&mut tree, &context(1), &words);
            (applied.changes.len(), applied.records.len())
        };
        assert_eq!(set(RECORDED_CHANGES_MAX), (RECORDED_CHANGES_MAX, RECORDED_CHANGES_MAX));
        assert_eq!(set(RECORDED_CHANGES_MAX + 1), (RECORDED_CHANGES_MAX + 1, 0));
        assert_eq!(lines(&apply(&mut tree, &context(1), &words("SET k v")).records).len(), 1);
    }

    #[test]
    fn what_is_put_back_leaves_no_record() {
        let mut tree = Tree::new();
        let commands = ["SET a 1", "SUNIONSTORE d none"].map(words);
        let commands: Vec<&[&[u8]]> = commands.iter().map(Vec::as_slice).collect();
        // Past its budget a transaction has done nothing.
        let poor = EntryContext { work_max: 1, version: base::versions::NEWEST, ..context(1) };
        let applied = apply_transaction(&mut tree, &poor, &[], &commands);
        assert_eq!((applied.records, applied.changes), (Vec::new(), Vec::new()));
        assert_eq!(lines(&apply(&mut tree, &context(1), &words("SET a 2")).records), ["1 set a new: 2"]);
    }
}
