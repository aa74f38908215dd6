//! Commands on a server as a whole that the state can answer.

pub mod memory;
