//! Streams against a plain vector, and groups against plain maps: whatever is added, removed and trimmed, in memory and over a store's worth of blocks.

use super::*;
use crate::apply::EntryContext;
use crate::collections::Tally;
use crate::tree::Tree;
use base::{Rng, WallTime};
use std::collections::BTreeMap;

const KEY: &[u8] = b"s";

fn run(tree: &mut Tree, time: u64, words: &str) -> crate::Reply {
    let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
    let context = EntryContext { time: WallTime(time), ..EntryContext::default() };
    crate::apply(tree, &context, &words).reply
}

fn head(tree: &Tree) -> Stream {
    let record = tree.get(KeyRef::new(KEY)).expect("it is there");
    record.value.into_stream().expect("a stream")
}

fn check(tree: &Tree) {
    let mut tally = Tally::default();
    tree.records(Bound::Unbounded).for_each(|(_, record)| tally.say(&record.value));
    tree.check_elements(tally, &mut |_| ()).expect("elements are those of the heads");
}

/// Both ways through all entries, and what the head and the blocks say, are those of the model.
fn compare(tree: &Tree, model: &[StreamId]) {
    let (stream, collections) = (head(tree), &tree.collections);
    let forwards: Vec<StreamId> = collections.entries(&stream, StreamId::MIN).map(|(id, _)| id).collect();
    assert_eq!(forwards, model);
    let mut backwards: Vec<StreamId> =
        collections.entries_backwards(&stream, StreamId::MAX).map(|(id, _)| id).collect();
    backwards.reverse();
    assert_eq!(backwards, model);
    assert_eq!((stream.len(), stream.first), (model.len() as u64, model.first().copied().unwrap_or_default()));
    let blocks: Vec<(StreamId, u32)> = collections.blocks(stream.number(), StreamId::MAX).collect();
    assert_eq!(blocks.len() as u32, stream.blocks);
    let live = |&(first, live): &(StreamId, u32)| {
        if first == stream.open.first && stream.open.live > 0 { stream.open.live } else { live }
    };
    assert_eq!(blocks.iter().map(|block| u64::from(live(block))).sum::<u64>(), stream.len());
    assert!(blocks.iter().all(|block| live(block) > 0 && live(block) <= BLOCK_ENTRIES_MAX));
    let middle = model.get(model.len() / 2).copied().unwrap_or_default();
    let up_to = collections.entries_backwards(&stream, middle).map(|(id, _)| id).take(3).collect::<Vec<_>>();
    assert!(up_to.into_iter().eq(model[..model.len().min(model.len() / 2 + 1)].iter().rev().take(3).copied()));
}

#[test]
fn a_stream_is_what_a_vector_is() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let mut tree = Tree::new();
        let mut model: Vec<StreamId> = Vec::new();
        run(&mut tree, 1, "XGROUP CREATE s g 0 MKSTREAM");
        for time in 1..150 {
            let drawn = if model.is_empty() { StreamId::MIN } else { *rng.pick(&model) };
            match rng.below(12) {
                0..7 => {
                    let value = "v".repeat(rng.below(60) as usize);
                    run(&mut tree, time, &format!("XADD s * f {value}x"));
                    model.push(head(&tree).last);
                }
                7 | 8 => {
                    run(&mut tree, time, &format!("XDEL s {}-{}", drawn.ms, drawn.seq));
                    model.retain(|id| *id != drawn);
                }
                9 => {
                    let keep = rng.below(model.len() as u64 + 2) as usize;
                    let before = model.len();
                    let gone = run(&mut tree, time, &format!("XTRIM s MAXLEN {keep}"));
                    model.drain(..before.saturating_sub(keep));
                    assert_eq!(gone, crate::Reply::count(before - model.len()));
                }
                10 => {
                    run(&mut tree, time, &format!("XTRIM s MINID {}-{}", drawn.ms, drawn.seq));
                    model.retain(|id| *id >= drawn);
                }
                _ => {
                    let keep = rng.below(model.len() as u64 + 1);
                    run(&mut tree, time, &format!("XTRIM s MAXLEN ~ {keep}"));
                    let stays = head(&tree).len() as usize;
                    assert!(
                        stays as u64 >= keep && (stays as u64) < keep + 2 * u64::from(BLOCK_ENTRIES_MAX)
                            || stays == model.len()
                    );
                    model.drain(..model.len() - stays);
                }
            }
            compare(&tree, &model);
            check(&tree);
        }
        run(&mut tree, 200, "COPY s t");
        check(&tree);
        run(&mut tree, 200, "DEL s t");
        for _ in 0..200 {
            crate::expire_due(&mut tree, &EntryContext { time: WallTime(200), ..EntryContext::default() }, 10);
            check(&tree);
        }
        assert_eq!(tree.elements_len(), 0, "all is reclaimed, the groups, too");
    }
}

#[test]
fn what_is_pending_is_with_one_consumer() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let mut tree = Tree::new();
        run(&mut tree, 1, "XGROUP CREATE s g 0 MKSTREAM");
        // Pending: by identifier, whose, and how often it was delivered.
        let mut model: BTreeMap<StreamId, (String, u64)> = BTreeMap::new();
        let mut last = StreamId::MIN;
        for time in 1..150 {
            let consumer = format!("c{}", rng.below(3));
            let all: Vec<StreamId> = if time > 1 {
                tree.collections.entries(&head(&tree), StreamId::MIN).map(|(id, _)| id).collect()
            } else {
                Vec::new()
            };
            let drawn = if all.is_empty() { StreamId::MIN } else { *rng.pick(&all) };
            let id = format!("{}-{}", drawn.ms, drawn.seq);
            match rng.below(12) {
                0..4 => drop(run(&mut tree, time, "XADD s * f v")),
                4..6 => {
                    run(&mut tree, time, &format!("XREADGROUP GROUP g {consumer} COUNT 2 STREAMS s >"));
                    let before = last;
                    for id in all.into_iter().filter(|id| *id > before).take(2) {
                        model.insert(id, (consumer.clone(), 1));
                        last = id;
                    }
                }
                6 => {
                    run(&mut tree, time, &format!("XACK s g {id}"));
                    model.remove(&drawn);
                }
                7 => {
                    let told = run(&mut tree, time, &format!("XREADGROUP GROUP g {consumer} STREAMS s 0"));
                    let mine = model.iter_mut().filter(|(_, pending)| pending.0 == consumer);
                    let mut count = 0;
                    for (id, pending) in mine {
                        pending.1 += u64::from(all.contains(id));
                        count += 1;
                    }
                    let crate::Reply::Named(streams) = told else { panic!("{told:?}") };
                    assert!(matches!(&streams[0].1, crate::Reply::Array(entries) if entries.len() == count));
                }
                8 if !all.is_empty() => {
                    run(&mut tree, time, &format!("XCLAIM s g {consumer} 0 {id} FORCE"));
                    let times = model.get(&drawn).map_or(1, |pending| pending.1) + 1;
                    model.insert(drawn, (consumer, times));
                }
                9 => {
                    run(&mut tree, time, &format!("XAUTOCLAIM s g {consumer} 0 0 COUNT 1000"));
                    model.retain(|id, _| all.contains(id));
                    model.values_mut().for_each(|pending| *pending = (consumer.clone(), pending.1 + 1));
                }
                10 => {
                    let gone = run(&mut tree, time, &format!("XGROUP DELCONSUMER s g {consumer}"));
                    let before = model.len();
                    model.retain(|_, pending| pending.0 != consumer);
                    assert_eq!(gone, crate::Reply::count(before - model.len()));
                }
                _ => drop(run(&mut tree, time, &format!("XDEL s {id}"))),
            }
            let (stream, collections) = (head(&tree), &tree.collections);
            let group = collections.group(&stream, b"g").expect("it is there");
            let name = |number| collections.consumer_name(&group, number).expect("a consumer has a name");
            let pending: Vec<_> = collections.all_pending(&group, StreamId::MIN).collect();
            let said = pending.iter().map(|(id, pending)| {
                (*id, (String::from_utf8_lossy(&name(pending.consumer)).into_owned(), pending.times))
            });
            assert_eq!(said.collect::<BTreeMap<_, _>>(), model);
            assert_eq!((group.pending, group.last), (model.len() as u64, last));
            assert_eq!(collections.last_pending(&group), model.keys().last().copied());
            assert!(model.keys().next().is_none_or(|first| *first == group.front));
            for (name, consumer) in collections.consumers(&group) {
                let mine: Vec<_> = collections.pending_of(&group, consumer, StreamId::MIN).collect();
                let of_model = model.iter().filter(|(_, pending)| pending.0.as_bytes() == &*name).map(|(id, _)| *id);
                assert!(mine.iter().copied().eq(of_model) && consumer.pending == mine.len() as u64);
            }
            check(&tree);
        }
        run(&mut tree, 200, "XGROUP DESTROY s g");
        check(&tree);
        run(&mut tree, 200, "DEL s");
        for _ in 0..100 {
            crate::expire_due(&mut tree, &EntryContext { time: WallTime(200), ..EntryContext::default() }, 10);
        }
        check(&tree);
        assert_eq!(tree.elements_len(), 0);
    }
}

/// What is behind all identifiers that could be asked for goes like any other.
#[test]
fn the_highest_identifier_is_trimmed_too() {
    for trim in ["XTRIM s MAXLEN 0", "XTRIM s MAXLEN ~ 0"] {
        let mut tree = Tree::new();
        run(&mut tree, 1, "XADD s 1-1 f v");
        run(&mut tree, 1, "XADD s 18446744073709551615-18446744073709551615 f v");
        assert_eq!(run(&mut tree, 1, trim), crate::Reply::count(2));
        compare(&tree, &[]);
        check(&tree);
    }
}

/// As Redis 7.4 counts: after XTRIM what is left, after XDEL nothing unless it does not matter.
#[test]
fn the_lag_is_known_where_it_can_be() {
    let mut tree = Tree::new();
    (1..=5).for_each(|id| drop(run(&mut tree, 1, &format!("XADD s {id}-0 f v"))));
    let id = |ms| StreamId { ms, seq: 0 };
    assert_eq!(head(&tree).lag(id(0), None), Some(5));
    assert_eq!(head(&tree).lag(id(1), None), Some(4));
    assert_eq!(head(&tree).lag(id(3), None), None);
    assert_eq!(head(&tree).lag(id(3), Some(3)), Some(2));
    assert_eq!(head(&tree).lag(id(5), None), Some(0));
    run(&mut tree, 1, "XTRIM s MAXLEN 3");
    assert_eq!(head(&tree).lag(id(0), Some(0)), Some(3));
    assert_eq!(head(&tree).lag(id(3), Some(3)), Some(2));
    run(&mut tree, 1, "XDEL s 4-0");
    assert_eq!(head(&tree).lag(id(3), Some(3)), None);
    assert_eq!(head(&tree).lag(id(4), Some(4)), None);
    assert_eq!(head(&tree).lag(id(5), Some(5)), Some(0));
    run(&mut tree, 1, "XTRIM s MAXLEN 0");
    assert_eq!(head(&tree).lag(id(0), None), Some(0));
    // A group that stood before what was trimmed does not count on from where it was: 7.0 did, and told of a negative lag.
    let mut tree = Tree::new();
    (1..=5).for_each(|id| drop(run(&mut tree, 1, &format!("XADD s {id}-0 f v"))));
    run(&mut tree, 1, "XGROUP CREATE s g 0 ENTRIESREAD 4");
    run(&mut tree, 1, "XTRIM s MAXLEN 2");
    run(&mut tree, 1, "XREADGROUP GROUP g c STREAMS s >");
    let group = tree.collections.group(&head(&tree), b"g").expect("it is there");
    assert_eq!((group.read, head(&tree).lag(group.last, group.read)), (Some(5), Some(0)));
}
