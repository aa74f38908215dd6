//! The crate's doors: applying, reading, transactions, once, expiry.

use base::{Revision, WallTime};
use data::{
    ChangeKind, EntryContext, Failure, Reply, Tree, View, apply, apply_once, apply_transaction, check, expire_due,
    outcome, read, read_transaction,
};

fn at(milliseconds: u64) -> EntryContext {
    EntryContext { time: WallTime(milliseconds), seed: 1 }
}

fn args(line: &str) -> Vec<&[u8]> {
    line.split(' ').map(str::as_bytes).collect()
}

fn get(tree: &Tree, clock: u64, key: &str) -> (Reply, bool) {
    let view = View::new(tree, WallTime(clock), 0);
    let reply = read(&view, &[b"GET", key.as_bytes()]);
    (reply, view.met_expired())
}

#[test]
fn set_then_get() {
    let mut tree = Tree::new();
    let applied = apply(&mut tree, &at(1000), &args("SET a 1"));
    assert_eq!(applied.reply, Reply::Ok);
    assert_eq!(applied.changes.len(), 1);
    assert_eq!(applied.changes[0].revision, Revision(1));
    assert_eq!(get(&tree, 1000, "a"), (Reply::bulk("1"), false));
    assert_eq!(get(&tree, 1000, "b"), (Reply::Nil, false));
}

#[test]
fn a_read_past_the_deadline_asks_for_an_expiry_entry_first() {
    let mut tree = Tree::new();
    apply(&mut tree, &at(1000), &args("SET a 1 PX 100"));
    assert_eq!(get(&tree, 1099, "a"), (Reply::bulk("1"), false));
    assert!(get(&tree, 1100, "a").1, "dead by the clock, alive by the log");
    let applied = expire_due(&mut tree, &at(1100), 10);
    assert_eq!(applied.changes[0].kind, ChangeKind::Expired);
    assert_eq!(get(&tree, 1100, "a"), (Reply::Nil, false));
    // A leader whose clock is behind cannot bring it back.
    assert_eq!(get(&tree, 900, "a"), (Reply::Nil, false));
    assert_eq!(tree.next_deadline(), None);
}

#[test]
fn a_limit_on_expiry_hides_the_rest_all_the_same() {
    let mut tree = Tree::new();
    apply(&mut tree, &at(1000), &args("SET a 1 PX 100"));
    apply(&mut tree, &at(1000), &args("SET b 1 PX 100"));
    assert_eq!(expire_due(&mut tree, &at(1100), 1).reply, Reply::Integer(1));
    assert_eq!((get(&tree, 1100, "a"), get(&tree, 1100, "b")), ((Reply::Nil, false), (Reply::Nil, false)));
    assert_eq!(tree.len(), 1);
}

#[test]
fn writing_over_an_expired_key_expires_it_first() {
    let mut tree = Tree::new();
    apply(&mut tree, &at(1000), &args("SET a 1 PX 100"));
    let applied = apply(&mut tree, &at(1200), &args("SET a 2"));
    let kinds: Vec<_> = applied.changes.iter().map(|change| (change.kind, change.revision.0)).collect();
    assert_eq!(kinds, [(ChangeKind::Expired, 2), (ChangeKind::Set, 3)]);
}

#[test]
fn a_transaction_runs_unless_a_watched_key_changed() {
    let mut tree = Tree::new();
    apply(&mut tree, &at(1), &args("SET a 1"));
    let (set, bad, get) = (args("SET a 2"), args("SET a"), args("GET a"));
    let commands: Vec<&[&[u8]]> = vec![&set, &bad, &get];
    let stale = [(&b"a"[..], Revision(0))];
    let applied = apply_transaction(&mut tree, &at(2), &stale, &commands);
    assert_eq!((applied.reply, applied.changes.len()), (Reply::NilArray, 0));
    let fresh = [(&b"a"[..], Revision(1)), (&b"absent"[..], Revision(0))];
    let applied = apply_transaction(&mut tree, &at(2), &fresh, &commands);
    let wrong = Reply::Error(Failure::WrongArity("set"));
    assert_eq!(applied.reply, Reply::Array(vec![Reply::Ok, wrong, Reply::bulk("2")]));
    let view = View::new(&tree, WallTime(2), 0);
    assert_eq!(read_transaction(&view, &fresh, &[&get]), Reply::NilArray);
    assert_eq!(read_transaction(&view, &[], &[&get]), Reply::Array(vec![Reply::bulk("2")]));
}

#[test]
fn once_happens_once() {
    let mut tree = Tree::new();
    let command = args("SET a 1 GET");
    let first = apply_once(&mut tree, &at(1), b"id", &command);
    let second = apply_once(&mut tree, &at(2), b"id", &command);
    assert_eq!(first.reply, second.reply);
    assert!(second.changes.is_empty());
    let view = View::new(&tree, WallTime(2), 0);
    assert_eq!(outcome(&view, b"id"), Some(&Reply::Nil));
    assert_eq!(outcome(&view, b"other"), None);
}

#[test]
fn wrong_commands_are_refused_in_redis_words() {
    let text = |line: &str| check(&args(line)).map(|entry| entry.spec.name).unwrap_err().to_string();
    assert_eq!(text("GET"), "ERR wrong number of arguments for 'get' command");
    assert_eq!(text("foo a b"), "ERR unknown command 'foo', with args beginning with: 'a' 'b' ");
    assert_eq!(text("foo"), "ERR unknown command 'foo', with args beginning with: ");
    assert_eq!(text("SET a b EX x"), "ERR value is not an integer or out of range");
    assert_eq!(text("SET a b EX 0"), "ERR invalid expire time in 'set' command");
    assert_eq!(text("SET a b EX"), "ERR syntax error");
    assert_eq!(text("SET a b NX XX"), "ERR syntax error");
    assert_eq!(check(&args("gEt a")).map(|entry| entry.spec.name), Ok("get"));
}

#[test]
fn what_a_flush_leaves_behind_is_freed_in_steps() {
    let mut tree = Tree::new();
    for number in 0..3000 {
        let key = format!("key:{number}");
        apply(&mut tree, &at(1), &[b"SET", key.as_bytes(), b"value", b"PX", b"1000"]);
    }
    let applied = apply(&mut tree, &at(2), &args("FLUSHALL"));
    assert_eq!((applied.changes.len(), applied.changes[0].kind), (1, ChangeKind::Flushed));
    assert_eq!((tree.len(), tree.volatile_len(), tree.bytes(), tree.next_deadline()), (0, 0, 0, None));
    let digest = tree.digest();
    let steps = (0..100).take_while(|_| tree.sweep(1000)).count();
    assert_eq!(steps, 3);
    assert_eq!(tree.digest(), digest);
    apply(&mut tree, &at(3), &args("FLUSHALL"));
    assert!(!tree.sweep(1), "an empty state leaves nothing behind");
}
