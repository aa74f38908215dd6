//! What the clients saw, and whether a correct store could have shown it to them.
//!
//! - [`Operation`] is one thing that a client asked for and what came of it.
//! - [`words::operation`] makes it of a command's words and the server's answer.
//! - [`Recorder`] takes finished operations from several threads and spills them to a file ([`mod@format`]).
//! - [`check`] looks for an order that explains every answer, for each key and each group of keys that transactions join, and
//!   whether the last reads show everything that was acknowledged. What it cannot decide it calls so.
//! - A violation comes with the smallest part of the history that was found to break the property, as
//!   [`crate::record::Event`]s to be drawn.
//!
//! ```text
//! Operation ──▶ Recorder ──▶ file ──▶ format::read ──▶ check ──▶ groups of keys ─┬▶ zones    keys that are only got and set
//!                                                                                ├▶ search   everything else
//!                                                                                └▶ minimise what breaks it
//! ```

mod check;
pub mod format;
mod group;
mod minimise;
mod model;
mod operation;
mod recorder;
mod search;
mod value;
pub mod words;
mod zones;

pub use check::{Checked, Limits, Violation, check, lists};
pub use operation::{Answer, Ask, End, Operation, Outcome, Step};
pub use recorder::{Recorded, Recorder, Witness};
pub use value::Value;

#[cfg(test)]
mod tests;
