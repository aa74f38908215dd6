//! Revisions as conditions, and as answers.

use crate::apply::{EntryContext, apply, read};
use crate::{Failure, Reply, Tree, View};
use base::WallTime;

fn write(tree: &mut Tree, time: u64, line: &str) -> Reply {
    let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    apply(tree, &EntryContext { time: WallTime(time), seed: 1, ..EntryContext::default() }, &args).reply
}

fn look(tree: &Tree, key: &str) -> Reply {
    read(&View::new(tree, WallTime(0), 0), &[b"DICTUM.GET", key.as_bytes()])
}

fn found(value: &str, revision: i64) -> Reply {
    Reply::Array(vec![Reply::bulk(value), Reply::Integer(revision)])
}

#[test]
fn every_change_gives_another_revision() {
    let mut tree = Tree::new();
    assert_eq!(look(&tree, "a"), Reply::Nil);
    assert_eq!(write(&mut tree, 1, "DICTUM.SET a 1"), Reply::Integer(1));
    assert_eq!(write(&mut tree, 1, "DICTUM.SET b 1"), Reply::Integer(2));
    assert_eq!(write(&mut tree, 1, "SET a 2"), Reply::Ok);
    assert_eq!((look(&tree, "a"), look(&tree, "b")), (found("2", 3), found("1", 2)));
}

#[test]
fn a_condition_that_fails_changes_nothing() {
    let mut tree = Tree::new();
    assert_eq!(write(&mut tree, 1, "DICTUM.SET a 1 IFREVISION 1"), Reply::Nil);
    assert_eq!(write(&mut tree, 1, "DICTUM.SET a 1 IFREVISION 0"), Reply::Integer(1));
    assert_eq!(write(&mut tree, 1, "DICTUM.SET a 2 ifrevision 0"), Reply::Nil);
    assert_eq!(write(&mut tree, 1, "DICTUM.SET a 2 IFREVISION 1"), Reply::Integer(2));
    assert_eq!(write(&mut tree, 1, "DICTUM.DEL a IFREVISION 1"), Reply::Nil);
    assert_eq!(look(&tree, "a"), found("2", 2));
    assert_eq!(write(&mut tree, 1, "DICTUM.DEL a IFREVISION 2"), Reply::Integer(1));
    assert_eq!(write(&mut tree, 1, "DICTUM.DEL a IFREVISION 2"), Reply::Integer(0));
    assert_eq!(write(&mut tree, 1, "DICTUM.DEL a"), Reply::Integer(0));
}

#[test]
fn a_key_that_reached_its_deadline_has_no_revision() {
    let mut tree = Tree::new();
    assert_eq!(write(&mut tree, 1000, "DICTUM.SET a 1 PX 100"), Reply::Integer(1));
    assert_eq!(write(&mut tree, 1099, "DICTUM.SET a 2 IFREVISION 0 PX 100"), Reply::Nil);
    // The expiry is a change of its own and takes revision 2.
    assert_eq!(write(&mut tree, 1100, "DICTUM.SET a 2 IFREVISION 0"), Reply::Integer(3));
    assert_eq!(write(&mut tree, 9999, "DICTUM.SET a 3 IFREVISION 3"), Reply::Integer(4), "no deadline any more");
}

#[test]
fn arguments_that_do_not_fit_are_refused() {
    for line in [
        "DICTUM.SET a 1 IFREVISION",
        "DICTUM.SET a 1 PX",
        "DICTUM.SET a 1 NX",
        "DICTUM.SET a 1 PX 1 PX 1",
        "DICTUM.DEL a IFREVISION",
        "DICTUM.DEL a b c",
        "DICTUM.DEL a IFREVISION 1 2",
    ] {
        assert_eq!(write(&mut Tree::new(), 1, line), Reply::Error(Failure::Syntax), "{line}");
    }
    for (line, text) in [
        ("DICTUM.SET a 1 PX 0", "ERR invalid expire time in 'dictum.set' command"),
        ("DICTUM.SET a 1 PX 9223372036854775807", "ERR invalid expire time in 'dictum.set' command"),
        ("DICTUM.SET a 1 PX x", "ERR value is not an integer or out of range"),
        ("DICTUM.SET a 1 IFREVISION -1", "ERR a revision is a number from 0 on"),
    ] {
        let Reply::Error(failure) = write(&mut Tree::new(), 1, line) else { panic!("{line} was accepted") };
        assert_eq!(failure.to_string(), text, "{line}");
    }
}
