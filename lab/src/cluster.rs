//! Systems under test that the laboratory starts itself.

pub mod child;
pub mod process;
