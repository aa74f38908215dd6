//! What `dictum lab` can do, one file for each command: its arguments and the function that carries it out.

pub mod report;
