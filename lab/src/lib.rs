//! The laboratory: loads a cluster through its front door, measures every answer, and tells what was seen.
//!
//! - [`record`] is what a run leaves behind: everything below either makes records or reads them.
//!
//! Nothing here reaches into a server: it speaks RESP and HTTP, as any client does, so that rivals can be measured alike.

// The laboratory is all clocks, files and threads.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

pub mod draw;
pub mod history;
pub mod record;
pub mod statistics;

pub use record::Record;
