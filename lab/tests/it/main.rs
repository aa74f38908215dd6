//! The tests of `lab` from outside, as one program: a file each, so that each crate is linked to them once.

mod redis;
mod report;
