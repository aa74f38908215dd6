//! The tests of `data` from outside, as one program: a file each, so that each crate is linked to them once.

mod answers;
mod budget;
mod commands;
mod corpus;
mod documents;
mod doors;
mod draw;
mod lines;
mod long_names;
mod properties;
mod rdb_file;
mod rebuild;
mod redis;
mod redis_events;
mod redis_json;
mod references;
mod revisions;
mod scan;
mod server;
mod transcript;
mod trimming;
