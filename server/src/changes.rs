//! Messages to subscribers to changes (`DICTUM.SUBSCRIBE`): read as the node sends them, and written as JSON for those who do not speak RESP
//! (`GET /v1/buckets/{name}/changes`, `dictum watch --json`). The messages are described in docs/subscriptions.md.

mod message;
mod place;

pub(crate) use message::{Message, Then};
pub(crate) use place::Place;
