//! The audit trail: a node's record of who did what to it, which shows whether somebody has changed it afterwards.
//!
//! - [`record`]: what a line looks like, and what is signed.
//! - [`files`]: where the lines stand. [`trail`] appends to them, [`writer`] is the thread that does.
//! - [`verify`]: `dictum audit verify` ([`command`]), which needs nothing but the files.
//! - [`pages`]: what `GET /v1/audit` reads.
//!
//! [Why so](../docs/decisions/2026-11-29-audit.md).

pub mod command;
pub(crate) mod files;
pub(crate) mod pages;
pub(crate) mod record;
pub(crate) mod trail;
mod verify;
mod writer;

#[cfg(test)]
mod tests;

pub(crate) use files::FOLDER;
pub(crate) use record::{Entry, LEFT_OUT, hex};
pub(crate) use trail::{Limits, Link, note};
pub use writer::Audit;
