//! The laboratory: loads a cluster through its front door, measures every answer, and tells what was seen.
//!
//! - [`record`] is what a run leaves behind: everything below either makes records or reads them.
//! - [`load`] is the engine that sends operations and counts answers, [`drive`] what it speaks, [`workload`] what it sends,
//!   [`draw`] the chance in that.
//! - [`cluster`] starts the systems that are measured, [`faults`] disturbs them, [`environment`] describes the machine.
//! - [`compare`] gives the same work to Dictum and its rivals; [`peers`] is how rivals are driven that do not speak RESP.
//! - [`beside`] is what any of them can have beside its load: clients whose history is recorded and checked.
//! - [`experiment`] are questions with an answer in figures: what a failover costs, a neighbour, more clients, a larger machine.
//! - [`history`] records what clients saw and checks it; [`statistics`] fits and compares.
//! - [`store`] writes and reads records, [`report`] draws them; [`command`] is `dictum lab …`.
//!
//! Nothing here reaches into a server: it speaks RESP and HTTP, as any client does, so that rivals can be measured alike.

// The laboratory is all clocks, files and threads.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

pub mod beside;
pub mod cluster;
pub mod command;
pub mod compare;
pub mod draw;
pub mod drive;
pub mod environment;
pub mod experiment;
pub mod faults;
pub mod history;
pub mod load;
pub mod peers;
pub mod record;
pub mod report;
pub mod saying;
pub mod statistics;
pub mod store;
pub mod workload;

pub use record::Record;
