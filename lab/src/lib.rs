//! The laboratory: loads a cluster through its front door, measures every answer, and tells what was seen.
//!
//! - [`record`] is what a run leaves behind: everything below either makes records or reads them.
//! - [`load`] is the engine that sends operations and counts answers, [`drive`] what it speaks, [`workload`] what it sends,
//!   [`draw`] the chance in that.
//! - [`store`] writes and reads records; [`command`] is `dictum lab …`.
//!
//! Nothing here reaches into a server: it speaks RESP and HTTP, as any client does, so that rivals can be measured alike.

// The laboratory is all clocks, files and threads.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

pub mod command;
pub mod draw;
pub mod drive;
pub mod history;
pub mod load;
pub mod record;
pub mod statistics;
pub mod store;
pub mod workload;

pub use record::Record;
