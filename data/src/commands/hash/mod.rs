//! Commands on hashes: fields with values under one key.

pub mod hdel;
pub mod hget;
pub mod hgetall;
pub mod hgetdel;
pub mod hincrby;
pub mod hincrbyfloat;
pub mod hlen;
pub mod hrandfield;
pub mod hscan;
pub mod hset;

use crate::commands::prelude::*;
use base::limits::REPLY_BYTES_MAX;

/// Reads all of a hash, `None` if the key does not exist; an error if it is too large to be answered at once.
pub(crate) fn whole<'v>(
    view: &'v View<'_>,
    key: KeyRef<'_>,
) -> Result<Option<impl Iterator<Item = (Blob, Blob)> + use<'v>>, Failure> {
    let Some(hash) = view.hash(key)? else { return Ok(None) };
    if hash.bytes() > REPLY_BYTES_MAX {
        return Err(Failure::Text("ERR the hash is too large for one answer: go through it with HSCAN"));
    }
    Ok(Some(view.elements(hash, 0).map(|(_, field, value)| (field, value))))
}

/// The value of a field.
pub(crate) fn field_value(view: &View<'_>, hash: Collection, field: &[u8]) -> Option<Blob> {
    view.element(hash, field_order(field), field)
}
