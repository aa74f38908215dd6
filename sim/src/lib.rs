//! A whole cluster of the shipping node in one thread, with simulated network, disks, clocks and clients.

pub mod checkers;
pub mod disk;
pub mod history;
