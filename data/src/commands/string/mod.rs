//! Commands on strings.

pub mod append;
pub mod delex;
pub mod digest;
pub(crate) mod extended;
pub mod get;
pub mod getdel;
pub mod getex;
pub mod getrange;
pub mod getset;
pub mod incr;
pub mod incrbyfloat;
pub mod lcs;
pub mod mget;
pub mod mset;
pub mod msetex;
pub mod set;
pub mod setex;
pub mod setnx;
pub mod setrange;
pub mod strlen;
