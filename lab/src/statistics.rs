//! What measurements say, and how surely.
//!
//! - [`usl`] fits the Universal Scalability Law, with confidence limits.
//! - [`Hold`] decides, second by second, how long a step of load must be held.
//! - [`repeats`] sums up repeated measurements and tells whether two sets of them differ.
//! - [`steps`] are coarse histograms, small enough to keep one of each second.
//! - [`student`] is Student's t, which the limits above come from.

pub mod hold;
pub mod repeats;
pub mod steps;
pub mod student;
pub mod usl;

pub use hold::{Decision, Hold, Rule};
pub use repeats::{Comparison, Difference, Repeats, compare};
