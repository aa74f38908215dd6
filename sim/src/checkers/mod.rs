//! One file per property. Each opens with the property in English and ends with forged violations that it must see.

pub mod agreement;
pub mod alone;
pub mod answers;
pub mod copies;
pub mod durability;
pub mod eviction;
pub mod expiry;
mod first_seen;
pub mod gone;
pub mod levels;
pub mod linearizability;
pub mod liveness;
pub mod messages;
pub mod model;
pub mod notes;
pub mod once;
pub mod quota;
pub mod redirections;
pub mod replicas;
pub mod rooms;
pub mod scan;
pub mod seats;
pub mod terms;
pub mod time;
pub mod voters;
pub mod waiting;
pub mod zones;
