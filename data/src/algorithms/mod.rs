//! What commands work with and what knows no keys: patterns, bits, common subsequences, Redis's dump format.

pub mod bits;
pub mod dump;
pub mod glob;
pub mod lcs;
pub mod lzf;
