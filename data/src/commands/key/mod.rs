//! Commands on keys of any type, and on all keys together.

pub mod copy;
pub mod dbsize;
pub mod del;
pub mod dump;
pub mod exists;
pub mod expire;
pub mod flush;
pub mod keys;
pub mod object;
pub mod persist;
pub mod randomkey;
pub mod rename;
pub mod restore;
pub mod scan;
pub mod sort;
pub mod ttl;
pub mod type_of;
