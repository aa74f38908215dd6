//! Commands on lists: one file each, or one for a pair of ends.

pub mod blmove;
pub mod blmpop;
pub mod blpop;
pub mod lindex;
pub mod linsert;
pub mod llen;
pub mod lmove;
pub mod lmpop;
pub mod lpop;
pub mod lpos;
pub mod lpush;
pub mod lrange;
pub mod lrem;
pub mod lset;
pub mod ltrim;

/// What an element of an answer takes beside its bytes, in memory: in its block it may take two of them.
const ELEMENT_BYTES: u64 = 64;
