//! What is done to a system under test while it is measured, and when.
//!
//! - [`schedule`] is the plan (`5s kill leader; 8s restart`), [`drawn`] draws one by chance, [`runner`] carries it out beside a load and marks what happened when.
//! - [`relay`] is a network that can be cut, [`noise`] a neighbour that takes processor time, [`hooks`] are shell commands for systems that
//!   the laboratory did not start.

pub mod drawn;
pub mod hooks;
pub mod noise;
pub mod relay;
pub mod runner;
pub mod schedule;

pub use hooks::Hooks;
pub use runner::{Outcome, Running};
pub use schedule::Schedule;
