//! Commands on sorted sets: members in the order of their scores under one key.

pub(crate) mod algebra;
pub(crate) mod bounds;
pub mod bzmpop;
pub mod bzpop;
pub mod zadd;
pub mod zcard;
pub mod zcount;
pub mod zdiff;
pub mod zinter;
pub mod zintercard;
pub mod zmpop;
pub mod zpop;
pub mod zrandmember;
pub mod zrange;
pub mod zrangeby;
pub mod zrangestore;
pub mod zrank;
pub mod zrem;
pub mod zremrange;
pub mod zscan;
pub mod zscore;
pub mod zunion;
