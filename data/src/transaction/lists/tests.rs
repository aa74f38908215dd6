//! Lists against a plain deque: at the ends, in the middle, of short elements and of long ones.

use super::*;
use crate::apply::EntryContext;
use crate::collections::Tally;
use crate::tree::Tree;
use crate::{Reply, apply};
use base::Rng;
use std::collections::VecDeque;
use std::ops::Bound;

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
