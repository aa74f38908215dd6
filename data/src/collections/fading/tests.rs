use crate::apply::{EntryContext, apply, expire_due, read_transaction, watch_revision};
use crate::collections::Tally;
use crate::store::KeyRef;
use crate::tree::Tree;
use crate::value::Value;
use crate::view::View;
use crate::{Reply, read};
use base::{Rng, WallTime};
use std::collections::BTreeMap;
use std::ops::Bound;

const KEYS: [&str; 3] = ["a", "b", "c"];

/// Keys, fields and their deadlines; what has expired is taken out.
type Model = BTreeMap<String, BTreeMap<String, Option<u64>>>;

fn run(tree: &mut Tree, now: u64, line: &str) -> Reply {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    apply(tree, &EntryContext { time: WallTime(now), ..EntryContext::default() }, &words).reply
}

/// Heads, elements, deadlines and index agree, and say what the model says.
fn check(tree: &Tree, model: &Model, now: u64) {
    let mut tally = Tally::default();
    tree.records(Bound::Unbounded).for_each(|(_, record)| tally.say(&record.value));
    tree.check_elements(tally, &mut |_| {}).expect("they agree");
    for key in KEYS {
        let view = View::new(tree, WallTime(now), 0);
        let mut found = BTreeMap::new();
        if let Some(Value::Hash(of)) = view.get(KeyRef::new(key.as_bytes())).map(|record| record.value) {
            for (_, field, _) in view.elements(of, 0) {
                let name = String::from_utf8(field.to_vec()).expect("text");
                found.insert(name, view.field_deadline(of, &field).map(|deadline| deadline.0));
            }
            let any = found.values().any(Option::is_some);
            assert!(of.has_deadlines() || !any, "a head does not say so");
        }
        assert_eq!(found, model.get(key).cloned().unwrap_or_default(), "{key} at {now}");
    }
    let soonest = model.values().flat_map(BTreeMap::values).flatten().min();
    if let (Some(soonest), Some(next)) = (soonest, tree.next_deadline()) {
        assert!(next.0 <= *soonest);
    }
    assert!(soonest.is_none() || tree.next_deadline().is_some());
}

#[test]
fn fields_expire_as_a_model_says() {
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let (mut tree, mut model, mut now) = (Tree::new(), Model::new(), 1000);
        for _ in 0..300 {
            now += rng.below(30);
            model.values_mut().for_each(|fields| fields.retain(|_, deadline| deadline.is_none_or(|at| at > now)));
            model.retain(|_, fields| !fields.is_empty());
            let (key, other) = (*rng.pick(&KEYS), *rng.pick(&KEYS));
            let field = format!("f{}", rng.below(8));
            let lifetime = rng.below(100);
            match rng.below(12) {
                0..3 => {
                    run(&mut tree, now, &format!("HSET {key} {field} v"));
                    model.entry(key.into()).or_default().insert(field, None);
                }
                3..6 => {
                    let reply = run(&mut tree, now, &format!("HPEXPIRE {key} {lifetime} FIELDS 1 {field}"));
                    let known = model.get_mut(key).filter(|fields| fields.contains_key(&field));
                    let answer = match known {
                        None => -2,
                        Some(fields) if lifetime == 0 => {
                            fields.remove(&field);
                            2
                        }
                        Some(fields) => {
                            fields.insert(field, Some(now + lifetime));
                            1
                        }
                    };
                    assert_eq!(reply, Reply::Array(vec![Reply::Integer(answer)]));
                }
                6 => {
                    run(&mut tree, now, &format!("HPERSIST {key} FIELDS 1 {field}"));
                    let known = model.get_mut(key).and_then(|fields| fields.get_mut(&field));
                    known.into_iter().for_each(|deadline| *deadline = None);
                }
                7 => {
                    let reply = run(&mut tree, now, &format!("HDEL {key} {field}"));
                    let known = model.get_mut(key).is_some_and(|fields| fields.remove(&field).is_some());
                    assert_eq!(reply, Reply::one_if(known));
                }
                8 => {
                    run(&mut tree, now, &format!("HSETEX {key} PX {} FIELDS 1 {field} v", lifetime + 1));
                    model.entry(key.into()).or_default().insert(field, Some(now + lifetime + 1));
                }
                9 if key != other && model.contains_key(key) => {
                    run(&mut tree, now, &format!("RENAME {key} {other}"));
                    let moved = model.remove(key).unwrap_or_default();
                    model.insert(other.into(), moved);
                }
                10 if key != other && model.contains_key(key) => {
                    run(&mut tree, now, &format!("COPY {key} {other} REPLACE"));
                    let copied = model[key].clone();
                    model.insert(other.into(), copied);
                }
                11 if rng.chance(1, 4) => {
                    let line = *rng.pick(&["DEL a b", "SET a x", "FLUSHALL"]);
                    run(&mut tree, now, line);
                    if line == "SET a x" {
                        run(&mut tree, now, "DEL a");
                    }
                    let gone: &[&str] = if line == "FLUSHALL" {
                        &KEYS
                    } else if line == "DEL a b" {
                        &KEYS[..2]
                    } else {
                        &KEYS[..1]
                    };
                    gone.iter().for_each(|key| drop(model.remove(*key)));
                }
                _ => {
                    expire_due(&mut tree, &EntryContext { time: WallTime(now), ..EntryContext::default() }, 3);
                }
            }
            model.retain(|_, fields| !fields.is_empty());
            check(&tree, &model, now);
        }
        // In the end everything that expires does, and nothing is left of it.
        now += 1000;
        while expire_due(&mut tree, &EntryContext { time: WallTime(now), ..EntryContext::default() }, 3).reply
            != Reply::Integer(0)
        {}
        run(&mut tree, now, "DEL a b c");
        assert_eq!(tree.next_deadline(), None);
        while tree.has_garbage() {
            expire_due(&mut tree, &EntryContext { time: WallTime(now), ..EntryContext::default() }, 100);
        }
        assert_eq!(tree.elements_len(), 0, "seed {seed}");
    }
}

#[test]
fn many_that_are_due_at_once_are_invisible_at_once() {
    let mut tree = Tree::new();
    let fields: Vec<String> = (0..50).map(|number| format!("f{number}")).collect();
    let pairs: Vec<String> = fields.iter().map(|field| format!("{field} v")).collect();
    run(&mut tree, 1, &format!("HSETEX h PX 10 FIELDS 50 {}", pairs.join(" ")));
    run(&mut tree, 1, "HSET h stays v");
    // More than one entry takes out on its way.
    assert_eq!(run(&mut tree, 100, "HSET h f3 w"), Reply::Integer(1), "it was gone");
    assert_eq!(run(&mut tree, 100, "HGETALL h"), {
        let mut pairs = vec![("f3", "w"), ("stays", "v")];
        pairs.sort_by_key(|(field, _)| crate::transaction::name_order(field.as_bytes()));
        Reply::Map(
            pairs
                .into_iter()
                .map(|(field, value)| (Reply::bulk(field.as_bytes()), Reply::bulk(value.as_bytes())))
                .collect(),
        )
    });
    assert_eq!(run(&mut tree, 100, "HDEL h f9"), Reply::Integer(0));
    assert_eq!(run(&mut tree, 100, "HEXISTS h f20"), Reply::Integer(0));
    let view = View::new(&tree, WallTime(100), 7);
    for line in [&["HRANDFIELD", "h", "10"][..], &["HKEYS", "h"], &["HSCAN", "h", "0", "COUNT", "100", "NOVALUES"]] {
        let words: Vec<&[u8]> = line.iter().map(|word| word.as_bytes()).collect();
        let shown = format!("{:?}", read(&view, &words));
        assert!(!shown.contains("f20"), "{shown}");
    }
    assert!(!view.met_expired(), "the entries have decided it");
    assert_eq!(run(&mut tree, 100, "HINCRBY h f11 2"), Reply::Integer(2));
}

/// Fields of which an entry has decided that their time is up may still be there: they are not asked for, and hide no other.
#[test]
fn a_read_asks_for_an_entry_behind_fields_that_wait_to_be_removed() {
    let mut tree = Tree::new();
    let pairs: Vec<String> = (0..50).map(|number| format!("f{number} v")).collect();
    run(&mut tree, 1, &format!("HSETEX h PX 10 FIELDS 50 {}", pairs.join(" ")));
    run(&mut tree, 1, "HSETEX h PX 20 FIELDS 1 later v");
    run(&mut tree, 15, "SET other v");
    let words: [&[u8]; 3] = [b"HGET", b"h", b"later"];
    let view = View::new(&tree, WallTime(20), 0);
    assert_eq!((read(&view, &words), view.met_expired()), (Reply::bulk(&b"v"[..]), false));
    let view = View::new(&tree, WallTime(21), 0);
    assert_eq!((read(&view, &words), view.met_expired()), (Reply::Nil, true));
}

/// As for a transaction that writes, which takes them out first.
#[test]
fn fields_that_wait_to_be_removed_have_changed_their_hash_for_a_transaction_that_reads() {
    for others in ["", "HSET h stays v"] {
        let mut tree = Tree::new();
        let pairs: Vec<String> = (0..50).map(|number| format!("f{number} v")).collect();
        run(&mut tree, 1, &format!("HSETEX h PX 10 FIELDS 50 {}", pairs.join(" ")));
        if !others.is_empty() {
            run(&mut tree, 1, others);
        }
        let words: [&[u8]; 3] = [b"HEXISTS", b"h", b"f1"];
        let watches = [(&b"h"[..], watch_revision(&View::new(&tree, WallTime(5), 0), b"h"))];
        let executed = |tree: &Tree| read_transaction(&View::new(tree, WallTime(0), 0), &watches, &[&words]);
        assert_eq!(executed(&tree), Reply::Array(vec![Reply::Integer(1)]));
        run(&mut tree, 15, "SET other v");
        assert_eq!(executed(&tree), Reply::NilArray, "{others}");
    }
}

#[test]
fn a_read_asks_for_an_entry_first() {
    let mut tree = Tree::new();
    run(&mut tree, 1, "HSETEX h PX 10 FIELDS 1 f v");
    let words: [&[u8]; 3] = [b"HGET", b"h", b"f"];
    let view = View::new(&tree, WallTime(10), 0);
    assert_eq!((read(&view, &words), view.met_expired()), (Reply::bulk(&b"v"[..]), false));
    let view = View::new(&tree, WallTime(11), 0);
    assert_eq!((read(&view, &words), view.met_expired()), (Reply::Nil, true));
    assert_eq!(tree.next_deadline(), Some(WallTime(11)));
    expire_due(&mut tree, &EntryContext { time: WallTime(11), ..EntryContext::default() }, 100);
    assert_eq!((tree.len(), tree.next_deadline(), tree.expired_count()), (0, None, 1));
}

#[test]
fn a_field_that_expires_changes_its_hash_for_watch() {
    let mut tree = Tree::new();
    run(&mut tree, 1, "HSETEX h PX 10 FIELDS 1 f v");
    run(&mut tree, 1, "HSET h stays v");
    let watched = tree.watch_revision(b"h");
    let mut execute = |now: u64| {
        let command: [&[u8]; 3] = [b"HGET", b"h", b"f"];
        let context = EntryContext { time: WallTime(now), ..EntryContext::default() };
        crate::apply_transaction(&mut tree, &context, &[(b"h", watched)], &[&command]).reply
    };
    assert_eq!(execute(10), Reply::Array(vec![Reply::bulk(&b"v"[..])]));
    assert_eq!(execute(11), Reply::NilArray);
    assert_eq!(execute(12), Reply::NilArray);
}
