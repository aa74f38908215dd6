//! What reads of collections have in common, whatever the type.

pub(crate) mod chance;
pub(crate) mod page;

use crate::commands::prelude::*;

/// Reads the names and values of all elements; an error if they are too large to be answered at once.
pub(crate) fn whole<'v>(
    view: &View<'v>,
    kind: Kind,
    of: Collection,
) -> Result<impl Iterator<Item = (Blob, Blob)> + use<'v>, Failure> {
    if of.bytes() > view.meter().answer_max() {
        return Err(kind.is_too_large());
    }
    Ok(view.elements(of, 0).map(|(_, name, value)| (name, value)))
}
