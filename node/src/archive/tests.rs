//! States that go into blocks come out as commands.

use std::convert::Infallible;
use std::sync::Arc;

use base::Ballot;
use base::{Revision, Rng};
use data::{EntryContext, Tree};
use storage::MemoryStore;

use super::*;
use crate::image::{Image, Restorer};
use crate::origins::Origins;

const PARTITION: PartitionId = PartitionId { bucket: base::BucketId(3), index: 2 };

fn blocks() -> Vec<Vec<u8>> {
    let mut tree = Tree::new();
    for words in [&["SET", "a", "1"][..], &["HSET", "h", "f", "v"], &["RPUSH", "l", "x", "y"]] {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        data::apply(&mut tree, &EntryContext::default(), &words);
    }
    let mut image = Image::new(Position(9), Ballot::default(), &Origins::default(), &tree).with_block_bytes(1);
    let mut blocks = Vec::new();
    let mut block = Vec::new();
    while image.next_block(&mut block) {
        blocks.push(block.clone());
    }
    blocks
}

#[test]
fn a_state_comes_out_as_commands() {
    let store = MemoryStore::new();
    let below = Below::new(Arc::new(store.clone()), 1);
    let mut reader = ArchiveReader::new(PARTITION, &below);
    blocks().iter().for_each(|block| reader.push_block(block, Some(&store)).expect("it is one"));
    assert_eq!(reader.keys(), 3);
    let archive = reader.finish(&store).expect("it is whole");
    let mut said = Vec::new();
    let count = archive.keys(None, &[], |key, _, words| -> Result<(), Infallible> {
        said.push((key.to_vec(), words[0].to_vec()));
        Ok(())
    });
    assert_eq!(count.expect("it is read"), 3);
    said.sort();
    let expected = [("a", "SET"), ("h", "RESTORE"), ("l", "RESTORE")];
    assert_eq!(said, expected.map(|(key, word)| (key.as_bytes().to_vec(), word.as_bytes().to_vec())));
}

#[test]
fn without_a_store_it_is_looked_at() {
    let below = Below::new(Arc::new(MemoryStore::new()), 1);
    let all = blocks();
    let check = |blocks: &[Vec<u8>]| {
        let mut reader = ArchiveReader::new(PARTITION, &below);
        blocks.iter().try_for_each(|block| reader.push_block(block, None))?;
        reader.check()
    };
    assert_eq!(check(&all), Ok(Position(9)));
    for gone in 0..all.len() {
        let mut blocks = all.clone();
        blocks.remove(gone);
        assert!(check(&blocks).is_err(), "without block {gone} of {}", all.len());
    }
}

/// Blocks of a state, or of what has changed in it since then.
fn blocks_of(tree: &Tree, since: Option<Revision>) -> Vec<Vec<u8>> {
    let whole = Image::new(Position(9), Ballot::default(), &Origins::default(), tree).with_block_bytes(300);
    let mut image = since.map_or(whole, |since| {
        Image::new(Position(9), Ballot::default(), &Origins::default(), tree).with_block_bytes(300).since(since)
    });
    let mut blocks = Vec::new();
    let mut block = Vec::new();
    while image.next_block(&mut block) {
        blocks.push(block.clone());
    }
    blocks
}

fn archive(blocks: &[Vec<u8>]) -> Archive {
    let store = MemoryStore::new();
    let mut reader = ArchiveReader::new(PARTITION, &Below::new(Arc::new(store.clone()), 1));
    blocks.iter().for_each(|block| reader.push_block(block, Some(&store)).expect("it is one"));
    reader.finish(&store).expect("it is whole")
}

/// All commands, by their keys.
fn commands(archives: &[Archive]) -> Vec<(Vec<u8>, Vec<Vec<u8>>)> {
    let mut said: Vec<(Vec<u8>, Vec<Vec<u8>>)> = Vec::new();
    for (place, archive) in archives.iter().enumerate() {
        let count = archive.keys(None, &archives[..place], |key, _, words| -> Result<(), Infallible> {
            said.push((key.to_vec(), words.iter().map(|word| word.to_vec()).collect()));
            Ok(())
        });
        count.expect("it is read");
    }
    // Of each key in the order in which they were said.
    said.sort_by(|left, right| left.0.cmp(&right.0));
    said
}

/// Some command, of all that change what keys hold in different ways.
fn some_command(rng: &mut Rng, now: u64) -> Vec<String> {
    let mut number = |below: u64| rng.below(below).to_string();
    let (key, other, field, text) = (number(30), number(30), number(6), number(1000));
    let soon = (now + 1 + rng.below(40)).to_string();
    let line = match rng.below(29) {
        0 | 1 => format!("SET s{key} {text}"),
        2 => format!("APPEND s{key} {text}"),
        3 => format!("DEL s{key} h{key} z{key}"),
        4 => format!("RENAME s{key} s{other}"),
        5 => format!("COPY h{key} h{other} REPLACE"),
        6 | 7 => format!("HSET h{key} f{field} {text}"),
        8 => format!("HDEL h{key} f{field}"),
        9 => format!("HPEXPIREAT h{key} {soon} FIELDS 1 f{field}"),
        10 => format!("PEXPIREAT s{key} {soon}"),
        11 => format!("PERSIST s{key}"),
        12 => format!("SADD t{key} m{field}"),
        13 => format!("SREM t{key} m{field}"),
        14 => format!("ZADD z{key} {text} m{field}"),
        15 => format!("ZINCRBY z{key} 3 m{field}"),
        16 => format!("RPUSH l{key} {text}"),
        17 => format!("LPOP l{key}"),
        18 => format!("LINSERT l{key} BEFORE {text} {field}"),
        19 => format!("XADD x{key} * f {text}"),
        20 => format!("XGROUP CREATE x{key} g{field} 0 MKSTREAM"),
        21 => format!("XREADGROUP GROUP g{field} c{other} COUNT 2 STREAMS x{key} >"),
        22 => format!("XCLAIM x{key} g{field} c{other} 0 {}-0", now - rng.below(10)),
        23 if rng.chance(1, 2) => format!("XACK x{key} g{field} {}-0", now - rng.below(10)),
        23 => format!("XAUTOCLAIM x{key} g{field} c{field} 0 0"),
        24 => format!("XGROUP DELCONSUMER x{key} g{field} c{other}"),
        25 => format!("XTRIM x{key} MAXLEN 2"),
        26 => format!("JSON.SET j{key} $ {{\"a\":{text}}}"),
        27 => format!("GETEX s{key} PXAT {soon}"),
        _ if rng.chance(1, 40) => "FLUSHALL".to_owned(),
        _ => format!("JSON.NUMINCRBY j{key} $.a 1"),
    };
    line.split(' ').map(str::to_owned).collect()
}

/// An earlier state with all changes since is the later state, for every kind of command in between.
#[test]
fn a_state_and_all_that_has_changed_since_is_the_later_state() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let (mut tree, mut now) = (Tree::new(), 1_000_000);
        let mut archives: Vec<Archive> = Vec::new();
        let mut since = None;
        for link in 0..4 {
            for _ in 0..rng.below(if link == 0 { 400 } else { 60 }) {
                now += rng.below(3);
                let context =
                    EntryContext { time: WallTime(now), seed: now, version: NEWEST, ..EntryContext::default() };
                let words = some_command(&mut rng, now);
                let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
                data::apply(&mut tree, &context, &words);
            }
            let blocks = blocks_of(&tree, since);
            if since.is_some() {
                assert!(Restorer::default().push_block(&blocks[0]).is_ok());
                let mut whole = Restorer::default();
                let refused = blocks.iter().try_for_each(|block| whole.push_block(block));
                assert!(refused.is_err(), "no peer takes it for a state");
            }
            archives.insert(0, archive(&blocks));
            since = Some(tree.revision());
            let expected = commands(&[archive(&blocks_of(&tree, None))]);
            assert_eq!(commands(&archives), expected, "seed {seed}, link {link}");
        }
    }
}

#[test]
fn a_part_of_which_something_is_missing_is_refused() {
    let mut tree = Tree::new();
    let mut rng = Rng::new(5);
    for now in 1000..1300 {
        let context = EntryContext { time: WallTime(now), version: NEWEST, ..EntryContext::default() };
        let words = some_command(&mut rng, now);
        data::apply(&mut tree, &context, &words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>());
    }
    let all = blocks_of(&tree, Some(Revision(tree.revision().0 / 2)));
    let below = Below::new(Arc::new(MemoryStore::new()), 1);
    let check = |blocks: &[Vec<u8>]| {
        let mut reader = ArchiveReader::new(PARTITION, &below);
        blocks.iter().try_for_each(|block| reader.push_block(block, None))?;
        reader.check()
    };
    assert!(all.len() > 8, "{} blocks", all.len());
    assert_eq!(check(&all), Ok(Position(9)));
    for place in 0..all.len() {
        let mut blocks = all.clone();
        blocks.remove(place);
        // A block of elements may hold none.
        assert!(check(&blocks).is_err() || all[place].len() == 1, "without block {place} of {}", all.len());
        if place > 0 {
            let mut exchanged = all.clone();
            exchanged.swap(place - 1, place);
            assert!(check(&exchanged).is_err() || all[place].len() == 1, "block {place} too early");
        }
    }
}
