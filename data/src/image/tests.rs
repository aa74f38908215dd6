//! Blocks into a store: what is refused. That what is taken is right: `flush/tests.rs`.

use super::*;
use crate::{EntryContext, apply};
use base::ordered::Space;

fn blocks() -> Vec<Vec<u8>> {
    let mut tree = Tree::new();
    for key in 0..20u8 {
        apply(&mut tree, &EntryContext::default(), &[b"SET", &[b'k', key], &[key; 40]]);
        apply(&mut tree, &EntryContext::default(), &[b"HSET", &[b'h', key % 3], &[key], &[key; 40]]);
    }
    let mut image = tree.image().with_block_bytes(100);
    let mut blocks = Vec::new();
    let mut block = Vec::new();
    while image.next_block(&mut block) {
        blocks.push(std::mem::take(&mut block));
    }
    blocks
}

fn restore(blocks: &[Vec<u8>]) -> Result<Vec<u8>, Malformed> {
    let mut restorer = StoreRestorer::new([1, 2, 3, 4, 5].map(Space));
    for block in blocks {
        restorer.push_block(block, &mut Restored::default())?;
    }
    restorer.finish()
}

#[test]
fn missing_repeated_and_exchanged_blocks_are_refused() {
    let blocks = blocks();
    assert!(blocks.len() > 5 && restore(&blocks).is_ok());
    for at in 0..blocks.len() {
        let mut fewer = blocks.clone();
        fewer.remove(at);
        assert!(restore(&fewer).is_err(), "without block {at}");
        let mut twice = blocks.clone();
        twice.insert(at, blocks[at].clone());
        assert!(restore(&twice).is_err(), "block {at} twice");
        if at > 0 {
            let mut exchanged = blocks.clone();
            exchanged.swap(at - 1, at);
            assert!(restore(&exchanged).is_err(), "block {at} too early");
        }
    }
}
