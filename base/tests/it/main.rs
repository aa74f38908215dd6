//! The tests of `base` from outside, as one program: a file each, so that each crate is linked to them once.

mod tidy;
mod vendored;
