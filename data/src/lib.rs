//! What commands mean: the state of one partition, and what each command reads and changes in it.
//!
//! The crate is deterministic and does nothing to the world. A write is applied with the time and the seed of its log
//! entry, so that every replica comes to the same state byte for byte; a read is given the leader's clock.
//!
//! ```text
//!   entry ─► apply(tree, context, args) ─► Applied { reply, changes }
//!   read  ─► read(view, args)           ─► reply          (View = tree + clock)
//!   tree.image() ─► blocks of bytes ─► Restorer ─► an equal tree
//! ```
//!
//! Where things are: [`tree`] is the state, [`store`] the ordered map under it, [`view`] how reads see it,
//! [`transaction`] how writes change it, `collections.rs` how values with elements are kept, [`commands`] one file per command and the table of all, [`mod@apply`] the doors.
//!
//! **Expiry is decided by the log.** A key exists if its deadline lies after the state's time, which is the largest
//! time of an entry applied so far. When a read meets a key that is past its deadline by the leader's clock only, the
//! view says so ([`view::View::met_expired`]); the caller then proposes [`apply::expire_due`] with that clock as its
//! time and repeats the read, so no replica can show a key again that was shown as gone.

pub mod algorithms;
pub mod apply;
pub mod args;
pub mod blob;
mod called;
mod change;
mod codec;
mod collections;
pub mod commands;
pub mod cursor;
mod deadlines;
mod events;
pub mod failure;
pub mod flush;
pub mod fuzzing;
pub mod image;
mod json;
mod kept;
pub mod key_flags;
mod layers;
pub mod lines;
mod merge;
pub mod meter;
pub mod named;
pub mod once;
pub mod permit;
mod pieces;
pub mod rdb_file;
pub mod rebuild;
mod removals;
pub mod reply;
mod restate;
pub mod room;
pub mod rows;
mod runs;
mod script;
pub mod slots;
pub mod spec;
pub mod store;
pub mod syntax;
pub mod token;
pub mod transaction;
pub mod tree;
mod undo;
pub mod value;
pub mod view;
pub mod waiting;

pub use apply::{
    Applied, EntryContext, OUT_OF_MEMORY, Published, apply, apply_once, apply_transaction, evict, expire_batch,
    expire_due, look, outcome, read, read_transaction, set_time_back, uses_keys, watch_revision,
};
pub use args::Args;
pub use blob::Blob;
pub use called::{Called, CalledWords};
pub use change::{After, ChangeRecord};
pub use collections::Tally;
pub use commands::{Entry, check, check_keys, check_names, check_words, lookup};
pub use events::{Class, KeyEvent};
pub use failure::Failure;
pub use flush::Flush;
pub use image::{Image, Malformed, Restored, Restorer, StoreRestorer};
pub use permit::Permit;
pub use reply::Reply;
pub use restate::value_as_told;
pub use slots::Slots;
pub use spec::Spec;
pub use store::{KeyRef, StoreKey};
pub use transaction::{Change, ChangeKind, Transaction};
pub use tree::{Trash, Tree};
pub use value::{Collection, Record, Value};
pub use view::{Usage, View};
