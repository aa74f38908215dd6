//! What went wrong, in our words.

use std::io;

use base::ordered::OrderedError;

use crate::disk::is_full;

pub(super) fn damaged(text: &str) -> OrderedError {
    OrderedError { text: format!("the ordered store is damaged: {text}"), full: false }
}

pub(super) fn disk_failure(doing: &str, error: &io::Error) -> OrderedError {
    OrderedError { text: format!("the ordered store could not {doing}: {error}"), full: is_full(error) }
}

/// What fjall says, in our words: the error under it, where there is one from the disk.
pub(super) fn failure(doing: &str, error: &fjall::Error) -> OrderedError {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(inner) = cause {
        if let Some(error) = inner.downcast_ref::<io::Error>() {
            return disk_failure(doing, error);
        }
        cause = inner.source();
    }
    OrderedError { text: format!("the ordered store could not {doing}: {error}"), full: false }
}
