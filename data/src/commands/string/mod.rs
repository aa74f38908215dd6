//! Commands on strings.

pub mod get;
pub mod set;
