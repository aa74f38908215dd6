//! Lists against a plain deque: at the ends, in the middle, of short elements and of long ones.

use super::*;
use crate::apply::EntryContext;
use crate::collections::Tally;
use crate::collections::listed::PACKED_BYTES_MAX;
use crate::tree::Tree;
use crate::{Reply, apply};
use base::Rng;
use base::ordered::{OrderedBatch, OrderedError, OrderedRead, Pair, Space};
use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use storage::MemoryStore;

type Model = VecDeque<Vec<u8>>;

fn run(tree: &mut Tree, words: &[&[u8]]) -> Reply {
    apply(tree, &EntryContext::default(), words).reply
}

fn with_number(tree: &mut Tree, words: &str, number: usize) -> Reply {
    let words = format!("{words} {number}");
    run(tree, &words.split(' ').map(str::as_bytes).collect::<Vec<_>>())
}

fn bulks(elements: impl Iterator<Item = Vec<u8>>) -> Reply {
    Reply::Array(elements.map(Reply::bulk).collect())
}

/// What the commands say, what is stored, and how many bytes it has.
fn compare(tree: &mut Tree, model: &Model) {
    let mut tally = Tally::default();
    let mut bytes = 0;
    for (key, record) in tree.records(Bound::Unbounded) {
        bytes += record.bytes(&key.key);
        tally.say(&record.value);
    }
    assert_eq!(bytes, tree.bytes());
    tree.check_elements(tally, &mut |_| ()).expect("elements are those of the heads");
    assert_eq!(run(tree, &[b"LLEN", b"l"]), Reply::Integer(model.len() as i64));
    assert_eq!(run(tree, &[b"LRANGE", b"l", b"0", b"-1"]), bulks(model.iter().cloned()));
    if model.is_empty() && !tree.has_garbage() {
        assert_eq!((tree.len(), tree.elements_len()), (0, 0));
    }
}

/// Few different ones, so that LREM and LPOS find them; around the length from which on they stand by themselves.
fn element(rng: &mut Rng) -> Vec<u8> {
    let length = *rng.pick(&[0, 1, 3, 22, 23, 24, 25, 26, 60]);
    vec![b'a' + rng.below(3) as u8; length]
}

fn step(rng: &mut Rng, tree: &mut Tree, model: &mut Model) {
    let at = rng.below(model.len().max(1) as u64) as usize;
    let one = element(rng);
    match rng.below(13) {
        0..=2 => {
            run(tree, &[b"RPUSH", b"l", &one]);
            model.push_back(one);
        }
        3..=5 => {
            run(tree, &[b"LPUSH", b"l", &one]);
            model.push_front(one);
        }
        6 => {
            let expected = model.pop_front().map(Blob::from);
            assert_eq!(run(tree, &[b"LPOP", b"l"]), Reply::bulk_or_nil(expected));
        }
        7 => {
            let expected = model.pop_back().map(Blob::from);
            assert_eq!(run(tree, &[b"RPOP", b"l"]), Reply::bulk_or_nil(expected));
        }
        8 if !model.is_empty() => {
            assert_eq!(with_number(tree, "LINDEX l", at), Reply::bulk(model[at].clone()));
            run(tree, &[b"LSET", b"l", at.to_string().as_bytes(), &one]);
            model[at] = one;
        }
        9 => {
            let found = model.iter().position(|element| *element == one);
            let is_after = rng.chance(1, 2);
            run(tree, &[b"LINSERT", b"l", if is_after { b"AFTER" } else { b"BEFORE" }, &one, b"!"]);
            if let Some(found) = found {
                model.insert(found + usize::from(is_after), b"!".to_vec());
            }
        }
        10 => {
            let backwards: Vec<Reply> = (0..model.len())
                .rev()
                .filter(|index| model[*index] == one)
                .map(|index| Reply::Integer(index as i64))
                .collect();
            assert_eq!(run(tree, &[b"LPOS", b"l", &one, b"RANK", b"-1", b"COUNT", b"0"]), Reply::Array(backwards));
        }
        11 => {
            let most = rng.below(3) as i64 - 1;
            run(tree, &[b"LREM", b"l", most.to_string().as_bytes(), &one]);
            let mut found: Vec<usize> = (0..model.len()).filter(|index| model[*index] == one).collect();
            match most {
                1 => found.truncate(1),
                -1 => drop(found.drain(..found.len().saturating_sub(1))),
                _ => {}
            }
            found.into_iter().rev().for_each(|index| drop(model.remove(index)));
        }
        _ => {
            let end = at + rng.below(12) as usize;
            run(tree, &[b"LTRIM", b"l", at.to_string().as_bytes(), end.to_string().as_bytes()]);
            let kept = model.iter().skip(at).take(end - at + 1).cloned().collect();
            *model = kept;
        }
    }
}

#[test]
fn a_list_is_what_a_deque_is() {
    for seed in 0..80 {
        let mut rng = Rng::new(seed);
        let mut tree = Tree::new();
        let mut model = Model::new();
        for _ in 0..200 {
            step(&mut rng, &mut tree, &mut model);
            compare(&mut tree, &model);
        }
        run(&mut tree, &[b"COPY", b"l", b"copy"]);
        run(&mut tree, &[b"DEL", b"l"]);
        run(&mut tree, &[b"RENAME", b"copy", b"l"]);
        compare(&mut tree, &model);
    }
}

#[test]
fn many_elements_share_a_place_in_the_store() {
    let mut tree = Tree::new();
    (0..40).for_each(|number| drop(with_number(&mut tree, "RPUSH l", number)));
    assert_eq!(tree.elements_len(), 40 / BLOCK_PLACES);
    (0..39).for_each(|_| drop(run(&mut tree, &[b"LPOP", b"l"])));
    assert_eq!(tree.elements_len(), 1);
}

/// A store that counts the bytes of the values that are read.
#[derive(Clone, Debug)]
struct Counting {
    store: MemoryStore,
    bytes: Arc<AtomicUsize>,
}

impl OrderedRead for Counting {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, OrderedError> {
        let value = self.store.get(space, key)?;
        self.bytes.fetch_add(value.as_ref().map_or(0, Vec::len), Ordering::Relaxed);
        Ok(value)
    }

    fn range<'a>(
        &'a self,
        space: Space,
        start: Bound<&[u8]>,
    ) -> Box<dyn Iterator<Item = Result<Pair, OrderedError>> + 'a> {
        let count = move |pair: &Result<Pair, OrderedError>| {
            self.bytes.fetch_add(pair.as_ref().map_or(0, |(_, value)| value.len()), Ordering::Relaxed);
        };
        Box::new(self.store.range(space, start).inspect(count))
    }

    fn freeze(&self) -> Arc<dyn OrderedRead> {
        Arc::new(self.clone())
    }
}

#[test]
fn of_long_elements_only_those_are_read_that_are_wanted() {
    const LONG: usize = 10_000;
    let store = Counting { store: MemoryStore::new(), bytes: Arc::default() };
    let mut tree = Tree::new().over(Arc::new(store.clone()));
    let long = [b'l'; LONG];
    (0..3 * BLOCK_PLACES).for_each(|_| drop(run(&mut tree, &[b"RPUSH", b"l", &long])));
    let mut spaces = 1..;
    let flush = tree.begin_flush(|| Space(spaces.next().unwrap())).unwrap();
    let mut batch = OrderedBatch::default();
    flush.write(&mut batch).unwrap();
    store.store.apply(&batch).unwrap();
    tree.end_flush();
    tree.set_known_bytes_max(0);
    let word = "l".repeat(LONG);
    let asked: [(&[&str], usize); 5] = [
        (&["LRANGE", "l", "-1", "-1"], 1),
        (&["LRANGE", "l", "2", "2"], 1),
        (&["LRANGE", "l", "3", "5"], 3),
        (&["LPOS", "l", &word, "RANK", "-1"], 1),
        (&["SORT", "l", "BY", "nothing", "LIMIT", "6", "2"], 2),
    ];
    for (words, elements) in asked {
        store.bytes.store(0, Ordering::Relaxed);
        run(&mut tree, &words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>());
        let read = store.bytes.load(Ordering::Relaxed);
        assert_eq!(read / LONG, elements, "{words:?}");
    }
}

/// Spare room of the blocks of all lists, in bytes that are allocated for nothing.
fn spare_bytes(tree: &Tree) -> usize {
    tree.collections.elements.range(Bound::Unbounded).map(|(_, block)| block.spare_bytes()).sum()
}

#[test]
fn full_blocks_have_no_room_to_spare() {
    let mut tree = Tree::new();
    for end in [&b"RPUSH"[..], b"LPUSH"] {
        for number in 0..10 * BLOCK_PLACES {
            let length = if number % BLOCK_PLACES == 1 { 1 } else { PACKED_BYTES_MAX };
            run(&mut tree, &[end, b"l", &vec![b'e'; length]]);
        }
        assert_eq!(spare_bytes(&tree), 0, "{}", end.escape_ascii());
    }
    for index in 0..20 * BLOCK_PLACES {
        run(&mut tree, &[b"LSET", b"l", index.to_string().as_bytes(), &[b'e'; PACKED_BYTES_MAX]]);
    }
    assert_eq!(spare_bytes(&tree), 0);
}

#[test]
fn blocks_that_much_was_taken_out_of_give_their_room_back() {
    let mut content = vec![b'e'; 8000];
    content.truncate(4000);
    fit(&mut content, false);
    assert!(content.capacity() >= 8000, "a queue that is filled and emptied in turn is not copied each time");
    content.truncate(100);
    fit(&mut content, false);
    assert!(content.capacity() <= 400);
}

/// A list as it was stored before version 11: each element by itself, at its place.
fn old_list(tree: &mut Tree, elements: &[&[u8]]) {
    run(tree, &[b"RPUSH", b"l", b"in place of it"]);
    let key = KeyRef::new(b"l");
    let mut list = List { own: List::BY_PLACE, ..tree.get(key).unwrap().value.into_list().unwrap() };
    let number = list.collection.number();
    tree.collections.elements.erase(block_ref(number, list.front).to_key());
    list.collection = crate::value::Collection::new(number, 0, 0);
    for (order, element) in (list.front..).zip(elements) {
        let key = crate::kept::ElementKey { collection: number, order, name: Blob::EMPTY };
        list.collection.grow(key.bytes_with(&Blob::new(element)));
        tree.collections.insert_new(key, Blob::new(element));
    }
    tree.update(key, |record| record.value = Value::List(Box::new(list))).unwrap();
}

#[test]
fn lists_of_before_blocks_are_read_and_made_anew_when_they_change() {
    let long = [b'l'; 60];
    let elements: [&[u8]; 7] = [b"a", b"b", &long, b"", b"a", b"c", b"d"];
    let model: Model = elements.iter().map(|element| element.to_vec()).collect();
    let changes: [&[&[u8]]; 7] = [
        &[b"RPUSH", b"l", b"e"],
        &[b"LPOP", b"l", b"2"],
        &[b"LINSERT", b"l", b"BEFORE", b"c", b"x"],
        &[b"LREM", b"l", b"0", b"a"],
        &[b"LSET", b"l", b"-2", b"y"],
        &[b"LTRIM", b"l", b"1", b"3"],
        &[b"LMOVE", b"l", b"l", b"LEFT", b"RIGHT"],
    ];
    for change in changes {
        let mut tree = Tree::new();
        old_list(&mut tree, &elements);
        compare(&mut tree, &model);
        let all = Reply::Array([4, 0].map(Reply::Integer).into());
        assert_eq!(run(&mut tree, &[b"LPOS", b"l", b"a", b"RANK", b"-1", b"COUNT", b"0"]), all);
        assert_eq!(run(&mut tree, &[b"LINDEX", b"l", b"2"]), Reply::bulk(long.to_vec()));
        run(&mut tree, &[b"COPY", b"l", b"new"]);
        run(&mut tree, &[b"DEL", b"new"]);
        let mut new = Tree::new();
        elements.iter().for_each(|element| drop(run(&mut new, &[b"RPUSH", b"l", element])));
        assert_eq!(run(&mut tree, change), run(&mut new, change));
        let Reply::Array(left) = run(&mut new, &[b"LRANGE", b"l", b"0", b"-1"]) else { panic!("a list") };
        let left = left
            .into_iter()
            .map(|element| if let Reply::Bulk(bytes) = element { bytes.to_vec() } else { panic!("an element") });
        compare(&mut tree, &left.collect());
        assert!(!tree.get(KeyRef::new(b"l")).unwrap().value.into_list().unwrap().is_by_place());
    }
}
