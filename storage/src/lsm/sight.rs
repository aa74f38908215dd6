//! Point reads that wait for nobody.
//!
//! fjall looks up the state of a space (its memtables and tables) under a lock for each read, and holds the same lock while it syncs each new list of tables:
//! four syncs, of which each waits for what the disk has to do at the moment. A node reads the store on its own loop, so it would stand still for as long.
//! Here the state is kept from one read to the next. What it lacks meanwhile is only what fjall has rearranged:
//!
//! - a batch goes into the active memtable, which is shared with fjall;
//! - a memtable is sealed here only ([`Sight::seal`]), and the state looked up anew before the next batch;
//! - a table that fjall has written since holds what the state still has as a memtable, and what a compaction has replaced stays as long as it is here.
//!
//! So whoever frees memory and disk looks anew from time to time ([`Sight::renew`]). Both are done by threads that may wait.
//!
//! This uses parts of `lsm-tree` that its documentation hides, as its own `Tree::get` does. `tests/ordered_beside.rs` compares what is read with what was written,
//! beside everything that rearranges; `tests/ordered_model.rs` compares point reads with walks, which go fjall's way.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use fjall::{AbstractTree, Keyspace, UserValue};
use lsm_tree::table::filter::standard_bloom::Builder as Filter;
use lsm_tree::{InternalValue, Memtable, SeqNo, ValueType};

/// Looks a key up in one state of a space. (The types of the state have no public name.)
type Look = Arc<dyn Fn(&[u8]) -> lsm_tree::Result<Option<InternalValue>> + Send + Sync>;

/// The state of a space that point reads use.
#[derive(Default)]
pub(super) struct Sight {
    /// None if it is not known: reads then ask fjall. Held to copy it, and to replace it.
    look: RwLock<Option<Look>>,
    /// Held by whoever seals or renews.
    renewal: Mutex<Renewal>,
}

#[derive(Default)]
struct Renewal {
    /// Memtables that were sealed, oldest first: fjall does not show its own list.
    sealed: Vec<Arc<Memtable>>,
    /// States that were replaced. A read may still go on in one, and must not be the last to let go of it: what it keeps in memory and on the disk takes
    /// long to free.
    replaced: Vec<Look>,
}

impl Sight {
    /// The value under `key`. Nobody is waited for, unless the state is not known or the value lies beside the tables.
    pub fn get(&self, keyspace: &Keyspace, key: &[u8]) -> fjall::Result<Option<UserValue>> {
        let look = self.look.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(look) = look {
            match look(key)? {
                None => return Ok(None),
                Some(found) => match found.key.value_type {
                    ValueType::Value => return Ok(Some(found.value)),
                    ValueType::Tombstone | ValueType::WeakTombstone => return Ok(None),
                    ValueType::Indirection => {}
                },
            }
        }
        keyspace.get(key)
    }

    /// Seals the active memtable, if there is anything in it, so that fjall writes it as a table. No batch may be applied meanwhile.
    pub fn seal(&self, keyspace: &Keyspace) -> fjall::Result<()> {
        let mut renewal = self.renewal();
        let active = keyspace.tree.active_memtable();
        if keyspace.rotate_memtable()? {
            renewal.sealed.push(active);
        }
        self.renew_with(keyspace, &mut renewal);
        Ok(())
    }

    /// Looks up the state as it is now, and lets go of the one before.
    pub fn renew(&self, keyspace: &Keyspace) {
        self.renew_with(keyspace, &mut self.renewal());
    }

    /// As [`Sight::renew`], if no state is known: that of a space which was just opened or made.
    pub fn renew_if_unknown(&self, keyspace: &Keyspace) {
        if self.look.read().unwrap_or_else(PoisonError::into_inner).is_none() {
            self.renew(keyspace);
        }
    }

    /// Lets go of the state: what it keeps in memory and on the disk may take long to free.
    pub fn close(&self) -> impl Send + 'static {
        (std::mem::take(&mut *self.renewal()), self.look.write().unwrap_or_else(PoisonError::into_inner).take())
    }

    fn renew_with(&self, keyspace: &Keyspace, Renewal { sealed, replaced }: &mut Renewal) {
        // In this order: a memtable that is written as a table in between is then seen twice, and none is missed.
        let active = keyspace.tree.active_memtable();
        let waiting = keyspace.tree.sealed_memtable_count();
        let version = keyspace.tree.current_version();
        // fjall writes the oldest first.
        sealed.drain(..sealed.len().saturating_sub(waiting));
        let look = (sealed.len() == waiting).then(|| {
            let newest_first = std::iter::once(active).chain(sealed.iter().rev().cloned());
            let memtables: Vec<Arc<Memtable>> = newest_first.collect();
            let look = move |key: &[u8]| {
                if let Some(found) = memtables.iter().find_map(|memtable| memtable.get(key, SeqNo::MAX)) {
                    return Ok(Some(found));
                }
                let hash = Filter::get_hash(key);
                for run in version.iter_levels().flat_map(|level| level.iter()) {
                    let Some(table) = run.get_for_key(key) else { continue };
                    if let Some(found) = table.get(key, SeqNo::MAX, hash)? {
                        return Ok(Some(found));
                    }
                }
                Ok(None)
            };
            Arc::new(look) as Look
        });
        let before = std::mem::replace(&mut *self.look.write().unwrap_or_else(PoisonError::into_inner), look);
        replaced.extend(before);
        // Nobody can come to one that only stands here.
        replaced.retain(|look| Arc::strong_count(look) > 1);
    }

    fn renewal(&self) -> MutexGuard<'_, Renewal> {
        self.renewal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
