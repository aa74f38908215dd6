//! Systems under test that the laboratory starts itself, on this machine.
//!
//! - [`system`] is what every system can be asked and told; faults and experiments know nothing else of it.
//! - [`dictum`] is a cluster of Dictum; [`rivals`] are Redis and etcd, each as its own documentation recommends.
//! - [`process`] and `children` start processes, and see to it that none outlives the laboratory; [`child`] is what those do that are the
//!   laboratory's own.
//! - [`place`] finds folders and ports, [`ask`] asks servers, [`counters`] tells what they use.

pub mod ask;
pub mod child;
mod children;
pub mod counters;
pub mod dictum;
pub mod place;
pub mod process;
pub mod rivals;
pub mod system;

pub use counters::Counters;
pub use dictum::{Cluster, Options};
pub use system::{Cut, System};
