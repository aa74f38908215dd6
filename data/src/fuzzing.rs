//! What the fuzzer and the ordinary tests run on what clients send: scripts, paths, payloads, whole commands.

use crate::algorithms::dump::resealed;
use crate::algorithms::rdb::{Item, RdbReader};
use crate::lines;
use crate::reply::Reply;
use crate::script::fuzzing::{run_twice, script_of};
use crate::tree::Tree;
use crate::{EntryContext, apply};
use base::WallTime;
use base::versions::NEWEST;
use std::convert::Infallible;

fn context(work_max: u64) -> EntryContext {
    EntryContext { time: WallTime(1_700_000_000_000), seed: 3, version: NEWEST, work_max, ..EntryContext::default() }
}

/// Runs `data` as a script, and as choices of a grammar that makes one.
///
/// # Panics
/// If a machine that ran scripts before and a new one come to different ends.
pub fn fuzz_script(data: &[u8]) {
    let args: [&[u8]; 2] = [&data[..data.len().min(40)], b"10"];
    run_twice(data, &args);
    run_twice(script_of(data).as_bytes(), &args);
}

/// A document with something for most paths to find.
const DOCUMENT: &[u8] = br#"{"a":[1,2.5,-3,{"b":"x","c":[true,null,{"d":[[],{}]}]}],"b":{"a":{"a":{"a":"deep"}},"e":"x"},"":0,"k\u00e9y":[[1,[2,[3]]]]}"#;

/// Takes `data` as a JSONPath, with which a document is read and changed.
///
/// # Panics
/// If two states come to different ends.
pub fn fuzz_path(data: &[u8]) {
    let commands: [&[&[u8]]; 6] = [
        &[b"JSON.GET", b"j", data],
        &[b"JSON.TYPE", b"j", data],
        &[b"JSON.NUMINCRBY", b"j", data, b"2"],
        &[b"JSON.ARRAPPEND", b"j", data, b"[1]"],
        &[b"JSON.SET", b"j", data, b"{\"n\":1}"],
        &[b"JSON.DEL", b"j", data],
    ];
    for command in commands {
        on_two_states(&[&[b"JSON.SET", b"j", b"$", DOCUMENT], command, &[b"JSON.GET", b"j"]], 3_000_000);
    }
}

/// Takes `data` as the body of a payload for `RESTORE`. What can be restored can be dumped and restored again, and is the same then.
///
/// # Panics
/// If that promise is broken.
pub fn fuzz_restore(data: &[u8]) {
    let mut tree = Tree::new();
    let payload = resealed(data);
    let mut run = |words: &[&[u8]]| apply(&mut tree, &context(50_000_000), words).reply;
    if run(&[b"RESTORE", b"k", b"0", &payload]) != Reply::Ok {
        return;
    }
    // A value without elements is no key.
    let Reply::Bulk(dumped) = run(&[b"DUMP", b"k"]) else { return };
    assert_eq!(run(&[b"RESTORE", b"l", b"0", &dumped]), Reply::Ok, "what was dumped can be restored");
    let Reply::Bulk(again) = run(&[b"DUMP", b"l"]) else { panic!("what was restored is there") };
    assert!(dumped == again, "it is dumped alike again");
}

/// Takes `data` as an RDB file, whose checksum does not matter, in pieces; and each value in it as a payload.
///
/// # Panics
/// If it is read in another way when it comes in other pieces.
pub fn fuzz_rdb(data: &[u8]) {
    let read = |piece: usize| {
        let (mut reader, mut keys) = (RdbReader::default(), Vec::new());
        for piece in data.chunks(piece) {
            reader.push(piece);
            loop {
                match reader.next() {
                    Ok(Some(Item::Key(key))) => keys.push(key),
                    Ok(Some(Item::Library(_))) => {}
                    Ok(None) => break,
                    Err(error) => return (keys, Some(error)),
                }
            }
        }
        (keys, None)
    };
    let whole = read(data.len().max(1));
    assert!(whole == read(7), "the pieces in which it comes do not matter");
    let mut tree = Tree::new();
    for key in whole.0 {
        apply(&mut tree, &context(50_000_000), &[b"RESTORE", &key.name, b"0", &key.payload, b"REPLACE"]);
    }
}

/// Takes `data` as a line of JSON that is a key. One that can be read can be written and read again, and is the same then.
///
/// # Panics
/// If that promise is broken.
pub fn fuzz_json_line(data: &[u8]) {
    let written = |tree: &Tree| {
        let mut lines = Vec::new();
        let Ok(_) = lines::write(tree, |line| -> Result<(), Infallible> {
            lines.push(line.to_owned());
            Ok(())
        });
        lines
    };
    let now = WallTime(1_700_000_000_000);
    let Ok(line) = std::str::from_utf8(data).map_err(drop).and_then(|text| lines::read(text, now).map_err(drop)) else {
        return;
    };
    for first in written(&line.tree) {
        let again = lines::read(&first, now).unwrap_or_else(|text| panic!("{first}: {text}"));
        assert!(written(&again.tree) == [first.clone()], "{first}: it is written alike again");
    }
}

/// Takes each line of `data` as a command, with a space between its words.
///
/// # Panics
/// If two states come to different ends.
pub fn fuzz_commands(data: &[u8]) {
    let commands: Vec<Vec<&[u8]>> =
        data.split(|byte| *byte == b'\n').take(40).map(|line| line.split(|byte| *byte == b' ').collect()).collect();
    let commands: Vec<&[&[u8]]> = commands.iter().map(|words| &words[..]).collect();
    on_two_states(&commands, 3_000_000);
}

/// Applies commands to two states, as two replicas do.
fn on_two_states(commands: &[&[&[u8]]], work_max: u64) {
    let mut trees = [Tree::new(), Tree::new()];
    for words in commands {
        // Nobody proposes these.
        if words.is_empty() || words[0].is_empty() || crate::check(words).is_err() {
            continue;
        }
        let [one, other] = trees.each_mut().map(|tree| {
            let applied = apply(tree, &context(work_max), words);
            (applied, tree.meter().spent(), tree.revision())
        });
        assert!(one == other, "{words:?}: {one:?} here, {other:?} there");
    }
}
