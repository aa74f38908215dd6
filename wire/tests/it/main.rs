//! The tests of `wire` from outside, as one program: a file each, so that each crate is linked to them once.

mod corpus;
mod properties;
