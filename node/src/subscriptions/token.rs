//! Places in the changes of a bucket: see [`data::token`].

pub(crate) use data::token::{Token, history};
