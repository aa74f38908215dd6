//! The tests of `sim` from outside, as one program: a file each, so that each crate is linked to them once.

mod faults;
mod planted;
mod seeds;
mod toy;
