//! A whole cluster of the shipping node in one thread, with simulated network, disks, clocks and clients.

pub mod chaos;
pub mod checkers;
pub mod client;
pub mod clock;
pub mod cluster;
pub mod command;
pub mod disk;
pub mod door;
pub mod events;
pub mod history;
pub mod network;
pub mod process;
pub mod report;
pub mod run;
pub mod shrink;
pub mod trace;
pub mod workload;
