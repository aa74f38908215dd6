//! Filling a new space with sorted pairs, past fjall's journal and memtables: each pair is written once, into a table that stays.
//!
//! By batches it would be written three or four times (reckoned): to the journal, into a table, and once more each time that the table is compacted. Compaction would not be
//! spared by the order of the keys, because with every batch the space's mark is written, which stands before all of them, so that all tables overlap.
//!
//! **What a crash leaves.** fjall enters a load's tables all at once, and synced. The space's mark, of the batch that made it, is in the journal before, and
//! synced before the tables are entered: a space never shows more than the journal knows. Tables of a load that was given up belong to no list,
//! and go with the space.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a load has a thread of its own, and waits for it"
)]

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::{self, JoinHandle};

use base::ordered::{Changes, OrderedError, OrderedLoad, PackedChange, Space};
use byteview::ByteView;

use super::failures::{disk_failure, failure};
use super::handles::Handle;
use super::inner::{self, Inner};
use super::{LsmStore, keys};
use crate::memory::check_pairs;

/// A space of an [`LsmStore`] that is being filled. fjall's part of it borrows the keyspace, so it lives on a thread's stack.
pub(super) struct Load {
    store: LsmStore,
    space: Space,
    last: Option<Vec<u8>>,
    /// None when the thread was told to end.
    orders: Option<SyncSender<Order>>,
    thread: Option<JoinHandle<Result<(), OrderedError>>>,
}

enum Order {
    Pairs(Changes),
    Finish,
}

impl Load {
    pub fn begin(store: LsmStore, space: Space) -> Result<Load, OrderedError> {
        // As long as it is here, or on the thread, the store is not opened a second time: what is filled is a space of this opening.
        let open = store.shared.read(|inner| Ok(Arc::clone(inner)))?;
        if open.space(space).is_some() {
            return Err(OrderedError { text: format!("{space:?} exists"), full: false });
        }
        let mut made = None;
        store.shared.write(|inner, writing| {
            made = Some(inner.make_empty(&mut writing.writer, space)?);
            Ok(())
        })?;
        // One that waits is enough: the next is decoded meanwhile.
        let (orders, receiver) = mpsc::sync_channel(1);
        let thread = thread::Builder::new().name("store-load".to_owned());
        let thread = thread.spawn(move || made.map_or(Ok(()), |handle| run(&open, &handle, &receiver)));
        let thread = thread.map_err(|error| disk_failure("be loaded", &error))?;
        Ok(Load { store, space, last: None, orders: Some(orders), thread: Some(thread) })
    }

    fn order(&mut self, order: Order) -> Result<(), OrderedError> {
        if self.orders.as_ref().is_some_and(|orders| orders.send(order).is_ok()) {
            return Ok(());
        }
        // It has ended before it was told to.
        self.end()?;
        Err(OrderedError { text: "a load of the ordered store has ended already".to_owned(), full: false })
    }

    fn end(&mut self) -> Result<(), OrderedError> {
        self.orders = None;
        let Some(thread) = self.thread.take() else { return Ok(()) };
        thread.join().unwrap_or_else(|_| {
            Err(OrderedError {
                text: "the ordered store could not be loaded: its thread has panicked".to_owned(),
                full: false,
            })
        })
    }
}

impl OrderedLoad for Load {
    fn push(&mut self, pairs: Changes) -> Result<(), OrderedError> {
        inner::check_values(&pairs)?;
        check_pairs(self.space, &mut self.last, &pairs)?;
        self.order(Order::Pairs(pairs))
    }

    fn finish(mut self: Box<Self>) -> Result<(), OrderedError> {
        self.store.sync()?;
        self.order(Order::Finish)?;
        self.end()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // Whoever gives it up asks no more; and the store is closed no later than that.
        let _ = self.end();
    }
}

impl fmt::Debug for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Load").field("space", &self.space).finish_non_exhaustive()
    }
}

/// The thread. Pairs were checked; without [`Order::Finish`] nothing comes of them.
fn run(_open: &Inner, handle: &Handle, orders: &Receiver<Order>) -> Result<(), OrderedError> {
    let failed = |error: fjall::Error| failure("be loaded", &error);
    let mut ingestion = handle.keyspace.start_ingestion().map_err(failed)?;
    for order in orders {
        let pairs = match order {
            Order::Pairs(pairs) => pairs,
            Order::Finish => {
                ingestion.finish().map_err(failed)?;
                handle.renew();
                return Ok(());
            }
        };
        let chunks: Vec<ByteView> = pairs.chunks().map(ByteView::from).collect();
        for number in 0..pairs.len() {
            let PackedChange { chunk, key, value, end, .. } = pairs.packed(number);
            let chunk = &chunks[chunk];
            let key = keys::encode_part(chunk, key..value);
            ingestion.write(key, chunk.slice(value..end.unwrap_or(value))).map_err(failed)?;
        }
    }
    Ok(())
}
