//! Faults.

pub mod noise;
