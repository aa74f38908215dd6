//! Chance with a law: which record is asked for next, and when the next operation is due.
//!
//! - [`Distribution`] names a law of keys and reads it from text: `zipfian:0.99`, `hotspot:0.2,0.8`.
//! - [`Keys`] draws records by it. The laws are those of YCSB's generators (brianfrankcooper/YCSB,
//!   `core/src/main/java/site/ycsb/generator`), so that figures can be set beside those of others; where YCSB's behaviour is
//!   an accident of its code, the law is kept and the accident is not, and the docstring says so.
//! - [`Arrivals`] draws when operations of an open loop are due.
//!
//! Everything comes from a seed: equal seeds, equal draws.

mod arrivals;
mod distribution;
mod keys;
mod zipfian;

pub use arrivals::Arrivals;
pub use distribution::Distribution;
pub use keys::Keys;
pub use zipfian::{Zipfian, zeta};
