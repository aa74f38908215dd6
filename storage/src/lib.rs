//! Bytes that survive: what a node writes to its folder, and what it finds there after a crash.
//!
//! ```text
//!            node                      server                 sim
//!             │                          │                     │
//!   Journal  Snapshot…  Identity       Files            a faulty disk in memory
//!             └─────── generic over ─────┴──── Disk ───────────┘
//! ```
//!
//! All of that is blocking and deterministic: no clock, no thread, no chance. The one file of it that touches the
//! real file system is `files.rs`; the simulator puts its own [`Disk`] underneath. The byte formats are drawn in
//! `docs/formats.md`.
//!
//! The state machine's data lies in an ordered store (`base::ordered`): [`LsmStore`] on disk, with threads and files
//! of its own beside [`Disk`]; [`MemoryStore`] in the simulator. [`CachedStore`] keeps values in memory above either.

pub mod cache;
pub mod disk;
pub mod files;
pub mod identity;
pub mod journal;
pub mod lsm;
pub mod memory;
pub mod snapshot;
pub mod verify;

pub use cache::{CachePolicy, CacheSettings, CacheStats, CachedStore};
pub use disk::{Disk, DiskFile};
pub use files::{Files, FolderError, LOCK_NAME, create_private_folder, explain_link, private_file};
pub use identity::{IDENTITY_NAME, Identity, LoadedIdentity};
pub use journal::{CommitError, Damage, Journal, JournalOptions, Preparation, Prepared, Recovered, Tail};
pub use lsm::{
    LsmOptions, LsmStats, LsmStore, ORDERED_VALUE_BYTES_MAX, StoreProblem, StoreReport, StoreView, verify_store,
};
pub use memory::{MemoryLoad, MemoryStore};
pub use snapshot::{
    SnapshotError, SnapshotId, SnapshotReader, SnapshotWriter, list_snapshots, remove_snapshot,
    remove_unfinished_snapshots,
};
pub use verify::{DamagedBlocks, DamagedPlace, JournalReport, ReadOnlyFolder, verify_journal};
