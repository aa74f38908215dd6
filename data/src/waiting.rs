//! Commands that wait: `BLPOP` and the others that begin with `B`.
//!
//! In an entry such a command does what it can do at once, and answers nil if that is nothing; that is all that replicas know of it. Waiting is the
//! business of the node that the client is connected to: it looks here for what a command waits for, and whether that is there now, and proposes the command again when it is.

use crate::args::Args;
use crate::commands;
use crate::commands::sorted::bounds::parse_score;
use crate::commands::stream::xread::{Place, Reading};
use crate::failure::Failure;
use crate::spec::{Flags, Group, Keys};
use crate::store::KeyRef;
use crate::tree::Tree;
use crate::value::{Kind, StreamId};
use crate::view::View;

/// What a command waits for, if there is nothing for it at once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wait {
    /// Anything that comes to one of these will do.
    pub keys: Vec<Vec<u8>>,
    /// Values of this kind.
    pub kind: Kind,
    /// How long, in milliseconds; 0: for ever.
    pub timeout_ms: u64,
    /// The group of streams that it takes entries for, and how many of each stream at most.
    pub group: Option<(Vec<u8>, u64)>,
}

/// Reads a timeout: seconds, also parts of them. Milliseconds, rounded up; 0: for ever.
///
/// # Errors
/// It is no number, is negative, or is too large.
pub fn parse_timeout(text: &[u8]) -> Result<u64, Failure> {
    let seconds = parse_score(text).ok_or(Failure::Text("ERR timeout is not a float or out of range"))?;
    let milliseconds = (seconds * 1000.0).ceil();
    if milliseconds > i64::MAX as f64 {
        return Err(Failure::Text("ERR timeout is out of range"));
    }
    // What is too far below is negative as well.
    u64::try_from(milliseconds as i64).map_err(|_| Failure::Text("ERR timeout is negative"))
}

/// What a command waits for; `None` if it is not one that waits, or cannot be read.
#[must_use]
pub fn wait_of(args: &[&[u8]]) -> Option<Wait> {
    let spec = commands::lookup(args.first()?)?.spec;
    if !spec.flags.has(Flags::BLOCKING) {
        return None;
    }
    if spec.keys == Keys::Streams {
        let reading = Reading::parse(Args::new(args), spec.flags.has(Flags::WRITE)).ok()?;
        return Some(Wait {
            keys: reading.keys.iter().map(|key| key.to_vec()).collect(),
            kind: Kind::Stream,
            timeout_ms: reading.block?,
            group: reading.group.map(|(group, _)| (group.to_vec(), reading.count as u64)),
        });
    }
    let is_counted = matches!(spec.keys, Keys::Counted { .. });
    let timeout = Args::new(args).get(if is_counted { 1 } else { args.len() - 1 }).ok()?;
    let mut keys = spec.keys_of(args);
    if spec.keys == Keys::TWO {
        // To the other one something is moved.
        keys.truncate(1);
    }
    let kind = if spec.group == Group::List { Kind::List } else { Kind::SortedSet };
    let keys = keys.into_iter().map(<[u8]>::to_vec).collect();
    Some(Wait { keys, kind, timeout_ms: parse_timeout(timeout).ok()?, group: None })
}

/// How many of those who wait for this key would find something in it now.
#[must_use]
pub fn offered(tree: &Tree, key: &[u8], kind: Kind) -> u64 {
    let view = View::new(tree, tree.time(), 0);
    let len = match kind {
        Kind::List => view.list(KeyRef::new(key)).map(|list| list.map(|list| list.len())),
        _ => view.collection(KeyRef::new(key), kind).map(|collection| collection.map(|collection| collection.len())),
    };
    len.ok().flatten().unwrap_or(0)
}

/// How many entries of a stream a group has still to be given, as far as so many are wanted; `None` if there is no such stream, or no such group of it.
#[must_use]
pub fn unread(tree: &Tree, key: &[u8], group: &[u8], wanted: usize) -> Option<u64> {
    let view = View::new(tree, tree.time(), 0);
    let stream = view.stream(KeyRef::new(key)).ok()??;
    let group = view.collections().group(&stream, group)?;
    let start = group.last.next().filter(|start| *start <= stream.last);
    Some(start.map_or(0, |start| view.collections().entries(&stream, start).take(wanted).count() as u64))
}

/// Whether there is a stream under this key.
#[must_use]
pub fn is_stream(tree: &Tree, key: &[u8]) -> bool {
    View::new(tree, tree.time(), 0).stream(KeyRef::new(key)).is_ok_and(|stream| stream.is_some())
}

/// `XREAD` as its client goes on waiting with it: `$` is what it was when nothing was found.
#[must_use]
pub fn settled(view: &View<'_>, args: &[&[u8]]) -> Vec<Vec<u8>> {
    let mut words: Vec<Vec<u8>> = args.iter().map(|word| word.to_vec()).collect();
    let Ok(reading) = Reading::parse(Args::new(args), false) else { return words };
    let first = words.len() - reading.keys.len();
    for ((word, key), place) in words[first..].iter_mut().zip(reading.keys).zip(&reading.places) {
        if *place == Place::End {
            let stream = view.stream(KeyRef::new(key)).ok().flatten();
            *word = stream.map_or(StreamId::MIN, |stream| stream.last).text().to_vec();
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EntryContext, apply};

    fn wait(line: &str) -> Option<Wait> {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        wait_of(&words)
    }

    #[test]
    fn keys_and_timeouts_are_found() {
        let of = |line: &str| {
            wait(line).map(|wait| {
                let keys: Vec<String> = wait.keys.iter().map(|key| String::from_utf8_lossy(key).into_owned()).collect();
                (keys.join(" "), wait.kind, wait.timeout_ms)
            })
        };
        let list = |keys: &str, ms| Some((keys.to_owned(), Kind::List, ms));
        assert_eq!(of("BLPOP a b 0"), list("a b", 0));
        assert_eq!(of("brpop a 0.0001"), list("a", 1));
        assert_eq!(of("BLMOVE a b LEFT LEFT 2"), list("a", 2000));
        assert_eq!(of("BRPOPLPUSH a b 2"), list("a", 2000));
        assert_eq!(of("BLMPOP 1.5 2 a b LEFT COUNT 3"), list("a b", 1500));
        assert_eq!(of("BZMPOP 1 1 a MIN"), Some(("a".to_owned(), Kind::SortedSet, 1000)));
        assert_eq!(of("LPOP a"), None);
        assert_eq!(of("XREAD BLOCK 5 STREAMS a b 0 $"), Some(("a b".to_owned(), Kind::Stream, 5)));
        assert_eq!(of("XREAD COUNT 5 STREAMS a 0"), None);
        assert_eq!(of("BLPOP a x"), None);
    }

    #[test]
    fn what_a_group_has_not_been_given_is_counted() {
        let group = |line: &str| wait(line).and_then(|wait| wait.group);
        assert_eq!(group("XREADGROUP GROUP g c COUNT 2 BLOCK 0 STREAMS a >"), Some((b"g".to_vec(), 2)));
        assert_eq!(group("XREAD BLOCK 0 STREAMS a 0"), None);
        let mut tree = Tree::new();
        let mut run = |line: &str| {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            drop(apply(&mut tree, &EntryContext::default(), &words));
        };
        run("XADD s 1-0 f v");
        run("XADD s 2-0 f v");
        run("XADD s 3-0 f v");
        run("XGROUP CREATE s g 1-0");
        run("XDEL s 2-0");
        run("SET text x");
        let of = |key: &[u8], group: &[u8]| unread(&tree, key, group, 5);
        assert_eq!((of(b"s", b"g"), of(b"s", b"h"), of(b"text", b"g"), of(b"none", b"g")), (Some(1), None, None, None));
        assert_eq!(unread(&tree, b"s", b"g", 0), Some(0));
        let words: Vec<&[u8]> = "XREAD BLOCK 0 STREAMS s none s $ $ 1".split(' ').map(str::as_bytes).collect();
        let settled = settled(&View::new(&tree, tree.time(), 0), &words).concat();
        assert_eq!(String::from_utf8_lossy(&settled), "XREADBLOCK0STREAMSsnones3-00-01");
    }

    #[test]
    fn timeouts_are_those_of_redis() {
        let text = |text: &str| parse_timeout(text.as_bytes()).map_err(|failure| failure.to_string());
        assert_eq!(text("0"), Ok(0));
        assert_eq!(text("1e3"), Ok(1_000_000));
        assert_eq!(text("-1"), Err("ERR timeout is negative".to_owned()));
        assert_eq!(text("-inf"), Err("ERR timeout is negative".to_owned()));
        assert_eq!(text("inf"), Err("ERR timeout is out of range".to_owned()));
        assert_eq!(text("nan"), Err("ERR timeout is not a float or out of range".to_owned()));
        assert_eq!(text(""), Err("ERR timeout is not a float or out of range".to_owned()));
    }

    #[test]
    fn only_values_of_the_kind_are_offered() {
        let mut tree = Tree::new();
        let mut run = |words: &[&[u8]]| drop(apply(&mut tree, &EntryContext::default(), words));
        run(&[b"RPUSH", b"list", b"a", b"b"]);
        run(&[b"ZADD", b"sorted", b"1", b"a"]);
        let of = |key: &[u8], kind| offered(&tree, key, kind);
        assert_eq!((of(b"list", Kind::List), of(b"list", Kind::SortedSet)), (2, 0));
        assert_eq!((of(b"sorted", Kind::List), of(b"sorted", Kind::SortedSet), of(b"none", Kind::List)), (0, 1, 0));
    }
}
