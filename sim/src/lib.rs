//! A whole cluster of the shipping node in one thread, with simulated network, disks, clocks and clients.

pub mod chaos;
pub mod checkers;
pub mod client;
pub mod clock;
pub mod disk;
pub mod history;
pub mod trace;
pub mod workload;
