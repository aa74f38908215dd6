//! Commands on hashes: fields with values under one key.

pub(crate) mod fields;
pub mod hdel;
pub mod hexpire;
pub mod hget;
pub mod hgetall;
pub mod hgetdel;
pub mod hgetex;
pub mod hincrby;
pub mod hincrbyfloat;
pub mod hlen;
pub mod hpersist;
pub mod hrandfield;
pub mod hscan;
pub mod hset;
pub mod hsetex;
pub mod httl;

use super::elements;
use crate::commands::prelude::*;

/// Reads all of a hash, `None` if the key does not exist; an error if it is too large to be answered at once.
pub(crate) fn whole<'v>(
    view: &View<'v>,
    key: KeyRef<'_>,
) -> Result<Option<impl Iterator<Item = (Blob, Blob)> + use<'v>>, Failure> {
    let Some(hash) = view.hash(key)? else { return Ok(None) };
    elements::whole(view, Kind::Hash, hash).map(Some)
}

/// The value of a field.
pub(crate) fn field_value(view: &View<'_>, hash: Collection, field: &[u8]) -> Option<Blob> {
    view.field(hash, field)
}
