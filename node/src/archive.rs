//! The state of a partition out of a backup: its blocks go into a store of the reader's own, and come out as the commands that make its keys anew.

use std::fmt;

use base::limits::WORK_DEFAULT;
use base::ordered::OrderedWrite;
use base::versions::NEWEST;
use base::{PartitionId, Position, WallTime};
use data::algorithms::rdb;
use data::rebuild::{self, Manner, WHOLE_BYTES_MAX};
use data::{EntryContext, Reply, Restored, Tree, lines};

use crate::below::{Below, Sorted, StoredRestorer};
use crate::image::RestoredState;

/// Takes the blocks, in their order. One that has no store keeps nothing and only looks whether they are a whole state.
#[derive(Debug)]
pub struct ArchiveReader {
    restorer: StoredRestorer,
    restored: Restored,
}

/// A whole state.
#[derive(Debug)]
pub struct Archive {
    state: RestoredState,
}

/// Why commands were not all said.
#[derive(Debug)]
pub enum RebuildError<E> {
    /// The store cannot be read; the text says why.
    Unreadable(String),
    /// The receiver of the commands has failed.
    Said(E),
}

impl<E: fmt::Display> fmt::Display for RebuildError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RebuildError::Unreadable(text) => write!(f, "{text}"),
            RebuildError::Said(error) => write!(f, "{error}"),
        }
    }
}

impl ArchiveReader {
    /// For the state of a partition; `below` is the store that is given to the other functions, if any is.
    #[must_use]
    pub fn new(partition: PartitionId, below: &Below) -> ArchiveReader {
        ArchiveReader { restorer: StoredRestorer::new(partition, below), restored: Restored::default() }
    }

    /// Takes the next block.
    ///
    /// # Errors
    /// It is no block of a state, it does not fit those before it, or the store cannot be written; the text says which.
    pub fn push_block(&mut self, block: &[u8], store: Option<&dyn OrderedWrite>) -> Result<(), String> {
        self.restorer.push_block(block, &mut self.restored)?;
        let restored = std::mem::take(&mut self.restored);
        let Some(store) = store else { return Ok(()) };
        let mut load = |of, pairs| self.restorer.load(store, of, pairs);
        load(Sorted::Records, restored.records)
            .and_then(|()| load(Sorted::Elements, restored.elements))
            .and_then(|()| if restored.batch.changes.is_empty() { Ok(()) } else { store.apply(&restored.batch) })
            .map_err(|error| error.text)
    }

    /// Keys so far.
    #[must_use]
    pub fn keys(&self) -> u64 {
        self.restorer.records()
    }

    /// After the last block, without a store: up to which position the state has its log.
    ///
    /// # Errors
    /// Blocks are missing, or do not fit together; the text says what is wrong.
    pub fn check(mut self) -> Result<Position, String> {
        self.restorer.finish(&mut self.restored.batch).map(|(position, _)| position)
    }

    /// After the last block: the state.
    ///
    /// # Errors
    /// As [`ArchiveReader::check`]; the store cannot be written or read.
    pub fn finish(mut self, store: &dyn OrderedWrite) -> Result<Archive, String> {
        let text = |error: base::ordered::OrderedError| error.text;
        for of in [Sorted::Records, Sorted::Elements] {
            self.restorer.finish_load(of).map_err(text)?;
        }
        self.restorer.finish(&mut self.restored.batch)?;
        store.apply(&self.restored.batch).map_err(text)?;
        Ok(Archive { state: self.restorer.open()? })
    }
}

impl Archive {
    /// Says the commands that make the keys anew, from the key `from` on ([`data::rebuild::keys`]): a key, and the words of one command at a time. Returns how many keys.
    ///
    /// # Errors
    /// The first error of `say`; or the store cannot be read.
    pub fn keys<E>(
        &self,
        from: Option<&[u8]>,
        say: impl FnMut(&[u8], Manner, &[&[u8]]) -> Result<(), E>,
    ) -> Result<u64, RebuildError<E>> {
        let count = rebuild::keys(&self.state.tree, from, WHOLE_BYTES_MAX, say).map_err(RebuildError::Said)?;
        match self.state.tree.trouble() {
            Some(error) => Err(RebuildError::Unreadable(error.text.clone())),
            None => Ok(count),
        }
    }

    /// Gives out a line of JSON for each key ([`data::lines`]). Returns how many keys.
    ///
    /// # Errors
    /// As [`Archive::keys`].
    pub fn lines<E>(&self, each: impl FnMut(&str) -> Result<(), E>) -> Result<u64, RebuildError<E>> {
        let count = lines::write(&self.state.tree, each).map_err(RebuildError::Said)?;
        match self.state.tree.trouble() {
            Some(error) => Err(RebuildError::Unreadable(error.text.clone())),
            None => Ok(count),
        }
    }

    /// Says the command that makes the libraries of functions anew, if there are any: all partitions of a bucket have the same.
    ///
    /// # Errors
    /// That of `say`.
    pub fn libraries<E>(&self, say: impl FnMut(&[&[u8]]) -> Result<(), E>) -> Result<(), E> {
        rebuild::libraries(&self.state.tree, say)
    }
}

/// A key from elsewhere, with its value.
#[derive(Debug)]
pub struct Row {
    name: Vec<u8>,
    /// A state with this key alone.
    tree: Tree,
    /// Of a small value the payload for `RESTORE`, as it came, and the deadline.
    payload: Option<(Vec<u8>, String)>,
}

impl Row {
    /// A key of an RDB file; none if its time is up at `now`.
    ///
    /// # Errors
    /// The value cannot be read here; the text says why.
    pub fn of_key(key: &rdb::Key, now: WallTime) -> Result<Option<Row>, String> {
        if key.deadline.is_some_and(|deadline| deadline <= now) {
            return Ok(None);
        }
        let at = key.deadline.map_or(0, |deadline| deadline.0).to_string();
        // The cluster would refuse what cannot be read, but only when other keys are on their way behind it.
        let mut tree = Tree::new();
        // Compressed strings may come to much more than the payload.
        let work_max = 4 * WORK_DEFAULT;
        let context = EntryContext { time: now, version: NEWEST, work_max, ..EntryContext::default() };
        let words: [&[u8]; 5] = [b"RESTORE", &key.name, at.as_bytes(), &key.payload, b"ABSTTL"];
        if let Reply::Error(failure) = data::apply(&mut tree, &context, &words).reply {
            return Err(failure.to_string());
        }
        let is_small = key.payload.len() as u64 <= WHOLE_BYTES_MAX;
        Ok(Some(Row { name: key.name.clone(), tree, payload: is_small.then(|| (key.payload.clone(), at)) }))
    }

    /// A line of JSON ([`data::lines`]); none if its time is up at `now`.
    ///
    /// # Errors
    /// It is none, or the value is none that a key can hold; the text says why.
    pub fn of_line(line: &str, now: WallTime) -> Result<Option<Row>, String> {
        let lines::Line { key, tree } = lines::read(line, now)?;
        Ok((!tree.is_empty()).then_some(Row { name: key, tree, payload: None }))
    }

    /// The key.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Says the commands that make it anew.
    ///
    /// # Errors
    /// The first error of `say`.
    pub fn say<E>(&self, mut say: impl FnMut(&[u8], Manner, &[&[u8]]) -> Result<(), E>) -> Result<(), E> {
        match &self.payload {
            Some((payload, at)) => {
                let words: [&[u8]; 6] = [b"RESTORE", &self.name, at.as_bytes(), payload, b"REPLACE", b"ABSTTL"];
                say(&self.name, Manner::Again, &words)
            }
            None => rebuild::keys(&self.tree, None, WHOLE_BYTES_MAX, say).map(drop),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;

    use base::Ballot;
    use data::{EntryContext, Tree};
    use storage::MemoryStore;

    use super::*;
    use crate::image::Image;
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
        let count = archive.keys(None, |key, _, words| -> Result<(), Infallible> {
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
}
