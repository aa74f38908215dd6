//! Commands on sets: different members under one key.

pub(crate) mod algebra;
pub mod sadd;
pub mod scard;
pub mod sdiff;
pub mod sinter;
pub mod sintercard;
pub mod sismember;
pub mod smembers;
pub mod smove;
pub mod spop;
pub mod srandmember;
pub mod srem;
pub mod sscan;
pub mod sunion;
