//! The tests of `sim` from outside, as one program: a file each, so that each crate is linked to them once.

mod budgets;
mod faults;
mod long_work;
mod planted;
mod seeds;
mod toy;
