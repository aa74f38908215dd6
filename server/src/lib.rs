//! The server around a node: the only room that touches sockets, files, threads and the wall clock; and the
//! command line.
//!
//! The threads of one process:
//! - the **loop** (`event_loop`) owns the node, all client sockets and all links to peers;
//! - the **journal thread** (`journal`) commits and syncs what the node wants on disk;
//! - the **audit thread** (`audit`) writes the audit trail;
//! - the **snapshot thread** (`snapshots`) writes snapshots while the node goes on;
//! - the **transfer thread** (`transfers`) makes and takes blocks of snapshots that go from node to node;
//! - up to two **full-sync threads** (`full_sync`) send all keys to clients as an RDB file;
//! - the **HTTP thread** (`http`) speaks to the node through a [`bridge::Bridge`];
//! - the **signal thread** turns SIGTERM and SIGINT into an orderly stop.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "clocks, threads and files are what this room is for"
)]

pub mod audit;
pub mod backup;
pub mod bridge;
pub mod bucket;
mod caches;
mod changes;
pub mod check;
pub mod cli;
pub mod client_tls;
pub mod clock_command;
pub mod dev;
pub mod http;
pub mod import;
pub mod init;
pub mod log;
pub mod nodes;
pub mod options;
pub mod passwords;
mod peer_tls;
pub mod private;
pub mod reset_password;
pub mod secrets;
pub mod sim_command;
pub mod start;
pub mod status;
pub mod sub;
pub mod unsafe_recover;
pub mod user;
pub mod watch;

mod admission;
mod advice;
mod alarm;
mod applying;
mod background;
mod children;
mod clock;
mod descriptors;
mod errands;
mod event_loop;
mod exit;
mod fault;
mod folder_watch;
mod full_sync;
mod journal;
mod low_disk;
mod memory;
mod naming;
mod parent;

mod process;
mod snapshots;
mod standing;
mod systemd;
mod transfers;
mod workers;
