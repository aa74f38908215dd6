//! What Redis calls the changes of keys, for those who want to be told of them (`notify-keyspace-events`).
//!
//! A change says what became of a key; the command that made it gives that a name. So the names are derived here from both, and no command knows of
//! them. Nothing is derived unless somebody asks for it (see [`EntryContext`](crate::EntryContext)).

use std::borrow::Cow;

use crate::blob::Blob;
use crate::commands;
use crate::spec::Group;
use crate::transaction::{Change, ChangeKind};

/// Which kinds of changes somebody wants to be told of, as letters choose them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// `g`: commands that are for keys of all types.
    Generic,
    /// `$`
    String,
    /// `l`
    List,
    /// `s`
    Set,
    /// `h`
    Hash,
    /// `z`
    SortedSet,
    /// `t`
    Stream,
    /// `x`: a key has reached its deadline.
    Expired,
    /// `e`: a key had to make room.
    Evicted,
    /// `d`: what modules have in Redis, documents here.
    Module,
    /// `n`: there is a key that was not there.
    New,
}

/// A change as Redis names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyEvent {
    /// Its kind.
    pub class: Class,
    /// Its name: `set`, `del`, `expired`, …
    pub name: &'static str,
    /// The key.
    pub key: Blob,
}

/// What a command's change of an existing key is called: the kind, the name, and whether that is also said, before `del`, when the key goes because it has nothing left.
type Named = (Class, &'static str, bool);

/// Names of the changes that a command made; those that happened to keys by themselves have their own.
pub(crate) fn name_changes(args: &[&[u8]], changes: &[Change], events: &mut Vec<KeyEvent>) {
    if changes.is_empty() {
        return;
    }
    let lower = args.first().map(|name| name.to_ascii_lowercase()).unwrap_or_default();
    let (lower, args) = without_waiting(lower, args);
    let args = &args[..];
    for change in changes {
        let mut say = |class, name| events.push(KeyEvent { class, name, key: change.key.clone() });
        match change.kind {
            ChangeKind::Expired => say(Class::Expired, "expired"),
            ChangeKind::Evicted => say(Class::Evicted, "evicted"),
            ChangeKind::Flushed => {}
            ChangeKind::Deadline => {
                let persists = lower == b"persist" || has_word(args, b"persist");
                say(Class::Generic, if persists { "persist" } else { "expire" });
            }
            ChangeKind::Deleted => match named(&lower, args, &change.key) {
                // What is moved is there under the other name before it is gone under the first.
                _ if lower == b"rename" || lower == b"renamenx" => {
                    let to = args.get(2).copied().unwrap_or_default();
                    events.push(KeyEvent { class: Class::New, name: "new", key: Blob::new(to) });
                    events.push(KeyEvent { class: Class::Generic, name: "rename_from", key: change.key.clone() });
                }
                // A document that goes is called as the command, and nothing else.
                Some((class @ Class::Module, name, _)) => say(class, name),
                Some((class, name, true)) => {
                    say(class, name);
                    say(Class::Generic, "del");
                }
                _ => say(Class::Generic, "del"),
            },
            ChangeKind::Set => {
                let is_moved = lower == b"rename" || lower == b"renamenx";
                if (change.is_new || replaces(&lower)) && !is_moved {
                    say(Class::New, "new");
                }
                if args.is_empty() {
                    // Nobody's command: fields have reached their deadlines.
                    say(Class::Hash, "hexpired");
                }
                // What comes back to the list that it was taken from is one change, and two events.
                if matches!(&lower[..], b"lmove" | b"rpoplpush") && args.get(1) == args.get(2) {
                    let is_right = lower == b"lmove" && is_word(args, 4, b"right");
                    say(Class::List, if is_right { "rpush" } else { "lpush" });
                }
                if let Some((class, name, _)) = named(&lower, args, &change.key) {
                    say(class, name);
                }
                if sets_deadline(&lower, args) {
                    let is_of_fields = lower == b"hsetex";
                    let class = if is_of_fields { Class::Hash } else { Class::Generic };
                    say(class, if is_of_fields { "hexpire" } else { "expire" });
                }
            }
        }
    }
}

/// What Redis calls each of the changes of a command: one name, where [`name_changes`] may say several.
pub(crate) fn names_of(args: &[&[u8]], changes: &[Change]) -> Vec<&'static str> {
    let lower = args.first().map(|name| name.to_ascii_lowercase()).unwrap_or_default();
    let (lower, args) = without_waiting(lower, args);
    let args = &args[..];
    let is_moved = lower == b"rename" || lower == b"renamenx";
    let name = |change: &Change| match change.kind {
        ChangeKind::Expired => "expired",
        ChangeKind::Evicted => "evicted",
        ChangeKind::Flushed => "flushed",
        ChangeKind::Deadline if lower == b"persist" || has_word(args, b"persist") => "persist",
        ChangeKind::Deadline => "expire",
        ChangeKind::Deleted if is_moved => "rename_from",
        ChangeKind::Deleted => named(&lower, args, &change.key).map_or("del", |(_, name, _)| name),
        ChangeKind::Set if args.is_empty() => "hexpired",
        ChangeKind::Set => match named(&lower, args, &change.key) {
            Some((_, name, _)) => name,
            // No event of Redis's, and a change all the same.
            None => commands::lookup(&lower).map_or("set", |entry| entry.spec.name),
        },
    };
    changes.iter().map(name).collect()
}

/// What a command that may wait does is called as if it were the one that does not.
fn without_waiting<'a>(lower: Vec<u8>, args: &'a [&'a [u8]]) -> (Vec<u8>, Cow<'a, [&'a [u8]]>) {
    let to: &[u8] = match &lower[..] {
        b"blpop" => b"lpop",
        b"brpop" => b"rpop",
        b"blmove" => b"lmove",
        b"brpoplpush" => b"rpoplpush",
        b"blmpop" => b"lmpop",
        b"bzpopmin" => b"zpopmin",
        b"bzpopmax" => b"zpopmax",
        b"bzmpop" => b"zmpop",
        _ => return (lower, Cow::Borrowed(args)),
    };
    let is_counted = matches!(to, b"lmpop" | b"zmpop");
    let args = args.iter().enumerate().filter(|(place, _)| !(is_counted && *place == 1)).map(|(_, arg)| *arg).collect();
    (to.to_vec(), Cow::Owned(args))
}

/// What stands in the way of these is deleted first, so that the key counts as new.
fn replaces(command: &[u8]) -> bool {
    matches!(command, b"copy" | b"restore")
}

fn named(command: &[u8], args: &[&[u8]], key: &[u8]) -> Option<Named> {
    let is_first = args.get(1).is_some_and(|first| *first == key);
    Some(match command {
        b"rename" | b"renamenx" => (Class::Generic, "rename_to", false),
        b"copy" => (Class::Generic, "copy_to", false),
        b"restore" => (Class::Generic, "restore", false),
        b"set" | b"setnx" | b"setex" | b"psetex" | b"getset" | b"mset" | b"msetnx" | b"msetex" | b"bitop"
        | b"dictum.set" => (Class::String, "set", false),
        b"append" => (Class::String, "append", false),
        b"setrange" => (Class::String, "setrange", false),
        b"incr" | b"decr" | b"incrby" | b"decrby" => (Class::String, "incrby", false),
        b"incrbyfloat" => (Class::String, "incrbyfloat", false),
        b"setbit" | b"bitfield" => (Class::String, "setbit", false),
        b"hset" | b"hmset" | b"hsetnx" => (Class::Hash, "hset", false),
        b"hincrby" => (Class::Hash, "hincrby", false),
        b"hincrbyfloat" => (Class::Hash, "hincrbyfloat", false),
        b"hdel" | b"hgetdel" => (Class::Hash, "hdel", true),
        b"sadd" => (Class::Set, "sadd", false),
        b"srem" => (Class::Set, "srem", true),
        b"spop" => (Class::Set, "spop", true),
        b"smove" if is_first => (Class::Set, "srem", true),
        b"smove" => (Class::Set, "sadd", false),
        b"sinterstore" => (Class::Set, "sinterstore", false),
        b"sunionstore" => (Class::Set, "sunionstore", false),
        b"sdiffstore" => (Class::Set, "sdiffstore", false),
        b"zadd" if has_word(args.get(..args.len().saturating_sub(2)).unwrap_or_default(), b"incr") => {
            (Class::SortedSet, "zincr", false)
        }
        b"zadd" => (Class::SortedSet, "zadd", false),
        b"zincrby" => (Class::SortedSet, "zincr", false),
        b"zrem" => (Class::SortedSet, "zrem", true),
        b"zremrangebyrank" => (Class::SortedSet, "zremrangebyrank", true),
        b"zremrangebyscore" => (Class::SortedSet, "zremrangebyscore", true),
        b"zremrangebylex" => (Class::SortedSet, "zremrangebylex", true),
        b"zpopmin" => (Class::SortedSet, "zpopmin", true),
        b"zpopmax" => (Class::SortedSet, "zpopmax", true),
        b"zmpop" if is_behind_keys(args, b"max") => (Class::SortedSet, "zpopmax", true),
        b"zmpop" => (Class::SortedSet, "zpopmin", true),
        b"geoadd" => (Class::SortedSet, "zadd", false),
        b"georadius" | b"georadiusbymember" => (Class::SortedSet, "georadiusstore", false),
        b"pfadd" | b"pfmerge" => (Class::String, "pfadd", false),
        b"sort" => (Class::List, "sortstore", false),
        b"hexpire" | b"hpexpire" | b"hexpireat" | b"hpexpireat" => (Class::Hash, "hexpire", true),
        b"hpersist" => (Class::Hash, "hpersist", false),
        b"hgetex" => (Class::Hash, if has_word(args, b"persist") { "hpersist" } else { "hexpire" }, true),
        b"hsetex" => (Class::Hash, "hset", true),
        b"lpush" | b"lpushx" => (Class::List, "lpush", false),
        b"rpush" | b"rpushx" => (Class::List, "rpush", false),
        b"lmpop" if is_behind_keys(args, b"right") => (Class::List, "rpop", true),
        b"lmpop" => (Class::List, "lpop", true),
        b"lmove" if is_first => (Class::List, if is_word(args, 3, b"right") { "rpop" } else { "lpop" }, true),
        b"lmove" => (Class::List, if is_word(args, 4, b"right") { "rpush" } else { "lpush" }, false),
        b"rpoplpush" if is_first => (Class::List, "rpop", true),
        b"rpoplpush" => (Class::List, "lpush", false),
        // What is delivered, acknowledged or claimed is nobody's event. (A Redis says of these whether they made a consumer; the change does not.)
        b"xreadgroup" | b"xack" | b"xclaim" | b"xautoclaim" => return None,
        b"xdelex" | b"xackdel" => (Class::Stream, "xdel", false),
        b"xgroup" => (Class::Stream, group_event(args.get(1).copied().unwrap_or_default()), false),
        b"json.forget" => (Class::Module, "json.del", false),
        b"zrangestore" => (Class::SortedSet, "zrangestore", false),
        b"zunionstore" => (Class::SortedSet, "zunionstore", false),
        b"zinterstore" => (Class::SortedSet, "zinterstore", false),
        b"zdiffstore" => (Class::SortedSet, "zdiffstore", false),
        // What removes keys, or gives them other deadlines, and nothing else.
        b"del" | b"unlink" | b"delex" | b"getdel" | b"getex" | b"persist" | b"expire" | b"pexpire" | b"expireat"
        | b"pexpireat" | b"flushall" | b"flushdb" | b"dictum.del" => return None,
        _ => return by_itself(command),
    })
}

/// What a subcommand of XGROUP is called.
fn group_event(subcommand: &[u8]) -> &'static str {
    match &subcommand.to_ascii_lowercase()[..] {
        b"create" => "xgroup-create",
        b"createconsumer" => "xgroup-createconsumer",
        b"delconsumer" => "xgroup-delconsumer",
        b"destroy" => "xgroup-destroy",
        _ => "xgroup-setid",
    }
}

/// A command without a row of its own is called as it is; what it empties goes with its name.
fn by_itself(command: &[u8]) -> Option<Named> {
    let spec = commands::lookup(command)?.spec;
    let class = match spec.group {
        Group::String | Group::Bitmap => Class::String,
        Group::Hash => Class::Hash,
        Group::List => Class::List,
        Group::Set => Class::Set,
        Group::SortedSet => Class::SortedSet,
        Group::Stream => Class::Stream,
        Group::Json => Class::Module,
        _ => Class::Generic,
    };
    Some((class, spec.name, !matches!(class, Class::Generic | Class::String | Class::Module)))
}

/// Whether this word stands there.
fn is_word(args: &[&[u8]], index: usize, word: &[u8]) -> bool {
    args.get(index).is_some_and(|arg| arg.eq_ignore_ascii_case(word))
}

/// Whether a word stands right behind the keys, of a command that says first how many there are.
fn is_behind_keys(args: &[&[u8]], word: &[u8]) -> bool {
    let count = args.get(1).and_then(|count| crate::args::parse_integer(count)).unwrap_or(0);
    usize::try_from(count).is_ok_and(|count| is_word(args, count.saturating_add(2), word))
}

/// Whether a word stands behind the key.
fn has_word(args: &[&[u8]], word: &[u8]) -> bool {
    args.iter().skip(2).any(|arg| arg.eq_ignore_ascii_case(word))
}

/// Whether a command that gives a key a value gives it a deadline as well.
fn sets_deadline(command: &[u8], args: &[&[u8]]) -> bool {
    match command {
        b"setex" | b"psetex" => true,
        b"set" | b"dictum.set" => options_with_deadline(args.get(3..).unwrap_or_default()),
        b"hsetex" => {
            let before = args.iter().take_while(|word| !word.eq_ignore_ascii_case(b"fields"));
            let before: Vec<&[u8]> = before.skip(2).copied().collect();
            options_with_deadline(&before)
        }
        b"msetex" => {
            let pairs = args.get(1).and_then(|count| crate::args::parse_integer(count)).unwrap_or(0);
            let start = usize::try_from(pairs).ok().and_then(|pairs| pairs.checked_mul(2)?.checked_add(2));
            options_with_deadline(start.and_then(|start| args.get(start..)).unwrap_or_default())
        }
        _ => false,
    }
}

fn options_with_deadline(mut options: &[&[u8]]) -> bool {
    while let Some((word, rest)) = options.split_first() {
        let is = |names: &[&str]| names.iter().any(|name| word.eq_ignore_ascii_case(name.as_bytes()));
        if is(&["EX", "PX", "EXAT", "PXAT"]) {
            return true;
        }
        let has_value = is(&["IFEQ", "IFNE", "IFDEQ", "IFDNE"]);
        options = rest.get(usize::from(has_value)..).unwrap_or_default();
    }
    false
}

#[cfg(test)]
mod tests {
    use crate::{EntryContext, Tree, apply, expire_due};
    use base::WallTime;

    #[test]
    fn streams_have_the_names_of_redis() {
        let mut tree = Tree::new();
        let context = EntryContext { names_events: true, ..EntryContext::default() };
        let mut names = |line: &str| -> String {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let events = apply(&mut tree, &context, &words).events;
            events.iter().map(|event| event.name).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names("XADD s 1-1 a b"), "new xadd");
        assert_eq!(names("XGROUP CREATE s g 0"), "xgroup-create");
        assert_eq!(names("XREADGROUP GROUP g c STREAMS s >"), "");
        assert_eq!(names("XGROUP DELCONSUMER s g c"), "xgroup-delconsumer");
        assert_eq!(names("XGROUP DESTROY s g"), "xgroup-destroy");
        assert_eq!(names("XDEL s 1-1"), "xdel");
        assert_eq!(names("XTRIM s MAXLEN 0"), "");
        names("XADD s 2-1 a b");
        assert_eq!(names("XDELEX s IDS 2 2-1 2-1"), "xdel");
        assert_eq!(names("XDELEX s IDS 1 2-1"), "");
        assert_eq!(names("DEL s"), "del");
    }

    #[test]
    fn documents_have_the_names_of_their_commands() {
        let mut tree = Tree::new();
        let context = EntryContext { names_events: true, ..EntryContext::default() };
        let mut names = |line: &str| -> String {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let events = apply(&mut tree, &context, &words).events;
            events.iter().map(|event| event.name).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names("JSON.SET doc $ {\"a\":1}"), "new json.set");
        assert_eq!(names("JSON.NUMINCRBY doc $.a 1"), "json.numincrby");
        assert_eq!(names("JSON.DEL doc $.a"), "json.del");
        assert_eq!(names("JSON.FORGET doc"), "json.del");
        assert_eq!(names("JSON.FORGET doc"), "");
    }

    #[test]
    fn fields_that_expire_have_the_names_of_redis_8() {
        let mut tree = Tree::new();
        let context = |ms| EntryContext { names_events: true, time: WallTime(ms), ..EntryContext::default() };
        let mut names = |line: &str| -> String {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let events = apply(&mut tree, &context(1), &words).events;
            events.iter().map(|event| event.name).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names("HSET h a 1 b 2 c 3"), "new hset");
        assert_eq!(names("HPEXPIRE h 10 FIELDS 1 a"), "hexpire");
        assert_eq!(names("HGETEX h PX 10 FIELDS 1 b"), "hexpire");
        assert_eq!(names("HGETEX h PERSIST FIELDS 1 b"), "hpersist");
        assert_eq!(names("HSETEX h PX 10 FIELDS 1 d 4"), "hset hexpire");
        assert_eq!(names("HSETEX h FIELDS 1 c 4"), "hset");
        let expired = expire_due(&mut tree, &context(100), 10).events;
        assert_eq!(expired.iter().map(|event| event.name).collect::<Vec<_>>(), ["hexpired"]);
    }

    #[test]
    fn nothing_is_named_for_nobody() {
        let mut tree = Tree::new();
        let applied = apply(&mut tree, &EntryContext::default(), &[b"SET", b"k", b"v"]);
        assert!(applied.events.is_empty() && applied.changes.len() == 1);
    }
}
