//! The tests of `storage` from outside, as one program: a file each, so that each crate is linked to them once.

mod common;
mod corpus;
mod fixtures;
mod journal_crashes;
mod journal_damage;
mod ordered_beside;
mod ordered_faults;
mod ordered_full;
mod ordered_kills;
mod ordered_load;
mod ordered_lsm;
mod ordered_model;
mod ordered_parts;
mod ordered_rest;
mod ordered_support;
mod real_files;
mod snapshots;
