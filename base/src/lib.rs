//! Words that every room uses: identifiers, time, seeded chance, checksums, hash slots and limits.
//!
//! Nothing here does anything to the world, and nothing here knows another room. A type belongs in this
//! crate when at least two rooms must agree on it; a helper that one room needs belongs in that room.

pub mod checksum;
pub mod ids;
pub mod limits;
pub mod number;
pub mod ordered;
pub mod random;
pub mod slots;
pub mod time;
pub mod versions;

pub use ids::{Ballot, BucketId, NodeId, PartitionId, Position, Revision};
pub use random::Rng;
pub use time::{Now, Time, WallTime};
