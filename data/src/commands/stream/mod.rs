//! Commands on streams: one file each, or one for a pair of directions.

pub(crate) mod ids;
pub(crate) mod references;
pub(crate) mod trimming;
pub mod xack;
pub mod xackdel;
pub mod xadd;
pub mod xautoclaim;
pub mod xclaim;
pub mod xdel;
pub mod xdelex;
pub mod xgroup;
pub mod xinfo;
pub mod xlen;
pub mod xpending;
pub mod xrange;
pub mod xread;
pub mod xreadgroup;
pub mod xsetid;
pub mod xtrim;
