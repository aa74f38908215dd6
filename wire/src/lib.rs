//! Bytes ↔ frames: what clients and peers send, taken apart and put together.
//!
//! Nothing here reads a socket: callers hand in the bytes that have arrived, in whatever pieces, and get
//! complete frames out. Every parser is resumable (no piece is looked at twice), bounded (a limit stands before
//! every growth of memory) and total (no bytes make it panic).
//!
//! - Clients speak RESP: [`RequestParser`] takes their commands apart, [`ReplyWriter`] writes the replies in
//!   RESP2 or RESP3. [`Arguments`] and [`ArgumentsRef`] are a command's words, owned and borrowed.
//! - Our own clients use the other direction: [`encode_command`], [`ReplyParser`], [`Value`] and its
//!   [`pretty`](Value::pretty) form.
//! - Peers send checksummed frames: [`FrameWriter`], [`FrameReader`], [`split_frames`]. The [`Hello`] frame opens
//!   a link. Message bodies are written by [`Writer`] and read by [`Reader`].
//! - [`fuzzing`] holds the entry points that both the fuzzer and the ordinary tests run.

mod arguments;
mod body;
mod frame;
pub mod fuzzing;
mod hello;
pub mod http;
mod inline;
mod join;
mod pretty;
mod reply;
mod reply_parser;
mod request;
mod value;

pub use arguments::{Arguments, ArgumentsIter, ArgumentsRef};
pub use base::number::{format_double, parse_integer};
pub use body::{Malformed, Reader, Writer};
pub use frame::{FRAME_HEADER_BYTES, FrameError, FrameReader, FrameWriter, Frames, split_frames};
pub use hello::{Hello, HelloError, NODE_NAME_BYTES_MAX, PEER_PROTOCOL_VERSION, apart};
pub use inline::{UnbalancedQuotes, split_line};
pub use join::{JoinMember, JoinReply, JoinRequest};
pub use pretty::quote;
pub use reply::{Protocol, ReplyWriter, encode_command};
pub use reply_parser::{ReplyError, ReplyLimits, ReplyParser};
pub use request::{Foreign, ProtocolError, Request, RequestLimits, RequestParser};
pub use value::Value;
