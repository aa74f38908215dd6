//! Commands of Dictum's own: keys with their revisions, on which HTTP's ETags stand.

pub mod del;
pub mod get;
pub mod named;
pub mod revision;
pub mod set;

use crate::commands::prelude::*;
use base::Revision;

/// Reads the number after `IFREVISION`: 0 says that the key must not exist.
fn parse_revision(args: Args<'_>, index: usize) -> Result<Revision, Failure> {
    u64::try_from(args.integer(index)?).map(Revision).map_err(|_| Failure::Text("ERR a revision is a number from 0 on"))
}

/// The revision of a key's last change; 0 if the key does not exist.
fn revision_of(tx: &mut Transaction<'_>, key: KeyRef<'_>) -> Revision {
    tx.get(key).map_or(Revision(0), |record| record.revision)
}

/// A revision as a reply. Revisions are counted up from 1 and never come near 2^63.
fn revision_reply(revision: Revision) -> Reply {
    Reply::Integer(i64::try_from(revision.0).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests;
