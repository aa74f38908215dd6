//! Commands on keys of any type, and on all keys together.

pub mod dump;
pub mod keys;
pub mod object;
pub mod restore;
pub mod scan;
