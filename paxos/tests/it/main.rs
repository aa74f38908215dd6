//! The tests of `paxos` from outside, as one program: a file each, so that each crate is linked to them once.

mod far;
mod harness;
mod members;
mod memory;
mod rules;
mod schedules;
mod stories;
