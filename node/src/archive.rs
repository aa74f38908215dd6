//! The state of a partition out of a backup: its blocks go into a store of the reader's own, and come out as the commands that make its keys anew.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use base::limits::WORK_DEFAULT;
use base::ordered::{OrderedError, OrderedRead, OrderedWrite, Space};
use base::versions::NEWEST;
use base::{PartitionId, Position, WallTime};
use data::algorithms::rdb::{self, RdbWriter};
use data::rebuild::{self, Manner, WHOLE_BYTES_MAX};
use data::{EntryContext, Reply, Restored, Tree, lines, rdb_file, rows};

use crate::below::{Below, Sorted, StoredRestorer};
use crate::image::RestoredState;

/// Takes the blocks, in their order. One that has no store keeps nothing and only looks whether they are a whole state.
#[derive(Debug)]
pub struct ArchiveReader {
    restorer: StoredRestorer,
    restored: Restored,
    read: Arc<dyn OrderedRead>,
    unchanged: Space,
}

/// A whole state, or what has changed since an earlier one.
#[derive(Debug)]
pub struct Archive {
    state: RestoredState,
    /// Where the keys are that have not changed, if it is no whole state.
    unchanged: Option<Unchanged>,
}

#[derive(Debug)]
struct Unchanged {
    read: Arc<dyn OrderedRead>,
    space: Space,
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
        let (unchanged, read) = (below.new_space(), Arc::clone(&below.read));
        let restorer = StoredRestorer::new(partition, below).with_unchanged(unchanged);
        ArchiveReader { restorer, restored: Restored::default(), read, unchanged }
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

    /// Keys so far, those that have not changed among them.
    #[must_use]
    pub fn keys(&self) -> u64 {
        self.restorer.records() + self.restorer.unchanged()
    }

    /// True if the blocks hold the changes since an earlier state.
    #[must_use]
    pub fn is_part(&self) -> bool {
        self.restorer.is_part()
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
        let unchanged = self.is_part().then_some(Unchanged { read: self.read, space: self.unchanged });
        Ok(Archive { state: self.restorer.open()?, unchanged })
    }
}

impl Archive {
    /// Says the commands that make the keys anew, from the key `from` on ([`data::rebuild::keys`]): a key, and the words of one command at a time. Returns how many keys.
    ///
    /// `later` are the states that build on this one, in any order: keys that have changed there, or are gone, are left out.
    ///
    /// # Errors
    /// The first error of `say`; or the store cannot be read.
    pub fn keys<E>(
        &self,
        from: Option<&[u8]>,
        later: &[Archive],
        say: impl FnMut(&[u8], Manner, &[&[u8]]) -> Result<(), E>,
    ) -> Result<u64, RebuildError<E>> {
        self.keys_whole_up_to(WHOLE_BYTES_MAX, from, later, say)
    }

    /// The same, where values of more than `whole_bytes_max` bytes are made bit by bit.
    ///
    /// # Errors
    /// As [`Archive::keys`].
    pub fn keys_whole_up_to<E>(
        &self,
        whole_bytes_max: u64,
        from: Option<&[u8]>,
        later: &[Archive],
        say: impl FnMut(&[u8], Manner, &[&[u8]]) -> Result<(), E>,
    ) -> Result<u64, RebuildError<E>> {
        let trouble = RefCell::new(None);
        let is_wanted = |key: &[u8]| stays(key, later, &trouble);
        let said = rebuild::wanted_keys(&self.state.tree, self.time_of(later), from, whole_bytes_max, is_wanted, say);
        self.outcome(said, trouble.into_inner())
    }

    /// Gives out a line of JSON for each key ([`data::lines`]); `later` as above. Returns how many keys.
    ///
    /// # Errors
    /// As [`Archive::keys`].
    pub fn lines<E>(&self, later: &[Archive], each: impl FnMut(&str) -> Result<(), E>) -> Result<u64, RebuildError<E>> {
        let trouble = RefCell::new(None);
        let said = lines::write_wanted(&self.state.tree, self.time_of(later), |key| stays(key, later, &trouble), each);
        self.outcome(said, trouble.into_inner())
    }

    /// Gives out the rows of each key ([`data::rows`]); `later` as above. Returns how many keys.
    ///
    /// # Errors
    /// As [`Archive::keys`].
    pub fn rows<E>(&self, later: &[Archive], each: impl FnMut(&str) -> Result<(), E>) -> Result<u64, RebuildError<E>> {
        let trouble = RefCell::new(None);
        let said = rows::write_wanted(&self.state.tree, self.time_of(later), |key| stays(key, later, &trouble), each);
        self.outcome(said, trouble.into_inner())
    }

    /// Writes the keys into an RDB file ([`data::rdb_file`]); `later` as above. Returns how many keys.
    ///
    /// # Errors
    /// As [`Archive::keys`]; the file is of no use then.
    pub fn rdb<E, S: FnMut(&[u8]) -> Result<(), E>>(
        &self,
        later: &[Archive],
        out: &mut RdbWriter<S>,
    ) -> Result<u64, RebuildError<E>> {
        let trouble = RefCell::new(None);
        let is_wanted = |key: &[u8]| stays(key, later, &trouble);
        let written = rdb_file::write_wanted(&self.state.tree, self.time_of(later), is_wanted, out);
        self.outcome(written, trouble.into_inner())
    }

    /// Writes the libraries of functions into an RDB file: all partitions of a bucket have the same.
    ///
    /// # Errors
    /// Those of the file's sink.
    pub fn rdb_libraries<E, S: FnMut(&[u8]) -> Result<(), E>>(&self, out: &mut RdbWriter<S>) -> Result<(), E> {
        rdb_file::write_libraries(&self.state.tree, out)
    }

    /// Whether there are libraries of functions.
    #[must_use]
    pub fn has_libraries(&self) -> bool {
        rdb_file::has_libraries(&self.state.tree)
    }

    /// The time by which deadlines have passed: that of the newest state.
    fn time_of(&self, later: &[Archive]) -> WallTime {
        later.iter().map(|archive| archive.state.tree.time()).fold(self.state.tree.time(), WallTime::max)
    }

    /// A store that cannot be read ends the walk early, and is the reason then.
    fn outcome<E>(&self, said: Result<u64, E>, trouble: Option<OrderedError>) -> Result<u64, RebuildError<E>> {
        let count = said.map_err(RebuildError::Said)?;
        match self.state.tree.trouble().or(trouble.as_ref()) {
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

/// True if a key has not changed in any of these states. An error of a store is noted.
fn stays(key: &[u8], later: &[Archive], trouble: &RefCell<Option<OrderedError>>) -> bool {
    later.iter().filter_map(|archive| archive.unchanged.as_ref()).all(|unchanged| {
        unchanged.read.get(unchanged.space, key).map(|found| found.is_some()).unwrap_or_else(|error| {
            trouble.borrow_mut().get_or_insert(error);
            false
        })
    })
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
mod tests;
