//! What commands work with and what knows no keys: patterns, bits, common subsequences, counts of different elements, places on the Earth, Redis's dump format.

pub mod bits;
pub mod dump;
pub mod geohash;
pub mod glob;
pub mod hyperloglog;
pub mod lcs;
pub mod lzf;
pub mod rdb;
pub mod trigonometry;
