//! How operations reach a server: what is written for a command, and what its answer is.
//!
//! - [`Target`] is a system's addresses and what is spoken there.
//! - [`Driver`] turns commands into bytes and finds where answers end, by [`skim`] (RESP) or [`http`].
//! - [`cluster`] knows which node serves which key; [`blocking`] asks single questions outside a run.

pub mod blocking;
pub mod cluster;
pub mod http;
pub mod skim;
mod target;

use wire::{ReplyParser, Value};

pub use skim::{Kind, Reply};
pub use target::{Protocol, Target, resolve};

use crate::workload::Words;
use http::Routes;
use skim::Skimmer;

/// The writing and reading of one connection.
#[derive(Debug)]
pub enum Driver {
    /// RESP2.
    Resp(Skimmer),
    /// HTTP/1.1.
    Http {
        /// The routes used.
        routes: Routes,
        /// The `Host` header's value.
        host: String,
        /// The `Authorization` header as a line with its end, or empty.
        authorization: String,
    },
}

impl Driver {
    /// The driver of a new connection to the address that is written as `place`.
    #[must_use]
    pub fn new(target: &Target, place: &str) -> Driver {
        let routes = match target.protocol {
            Protocol::Resp | Protocol::RespCluster => return Driver::Resp(Skimmer::default()),
            Protocol::Http => Routes::Keys,
            Protocol::Dictionary => Routes::Dictionary,
        };
        let authorization = target.password.as_ref().map_or(String::new(), |password| {
            use base64::Engine as _;
            let pair = base64::engine::general_purpose::STANDARD.encode(format!("{}:{password}", target.user));
            format!("authorization: Basic {pair}\r\n")
        });
        Driver::Http { routes, host: place.to_owned(), authorization }
    }

    /// Appends one command to `out`.
    ///
    /// # Errors
    /// A sentence, if the protocol cannot carry the command.
    #[inline]
    pub fn encode(&self, out: &mut Vec<u8>, words: Words<'_>) -> Result<(), String> {
        match self {
            Driver::Resp(_) => {
                wire::encode_command(out, words);
                Ok(())
            }
            Driver::Http { routes, host, authorization } => http::encode(out, &words, *routes, host, authorization),
        }
    }

    /// The answer at the beginning of `bytes`, if all of it is there; and whether the server closes after it.
    ///
    /// # Errors
    /// A sentence, when the bytes cannot be understood: the connection is to be closed.
    #[inline]
    pub fn skim(&mut self, bytes: &[u8]) -> Result<Option<(Reply, bool)>, String> {
        match self {
            Driver::Resp(skimmer) => {
                skimmer.next(bytes).map(|reply| reply.map(|reply| (reply, false))).map_err(|error| error.to_string())
            }
            Driver::Http { .. } => Ok(http::skim(bytes)?.map(|response| (response.reply, response.closes))),
        }
    }

    /// What an answer is, complete in `bytes`.
    #[must_use]
    pub fn answer<'a>(&self, bytes: &'a [u8], kind: Kind) -> Answer<'a> {
        Answer { bytes, kind, http: matches!(self, Driver::Http { .. }) }
    }
}

/// One complete answer, not taken apart.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    bytes: &'a [u8],
    /// What kind it is.
    pub kind: Kind,
    http: bool,
}

impl<'a> Answer<'a> {
    /// An answer in RESP.
    #[must_use]
    pub fn resp(bytes: &'a [u8], kind: Kind) -> Answer<'a> {
        Answer { bytes, kind, http: false }
    }

    /// The value, taken apart: of an HTTP response its body as a string, nothing for 404. None if it is malformed.
    #[must_use]
    pub fn value(&self) -> Option<Value> {
        if self.http {
            let response = http::skim(self.bytes).ok()??;
            return Some(match self.kind {
                Kind::Value => Value::bulk(self.bytes.get(response.body_at..).unwrap_or_default()),
                Kind::Nothing => Value::Null,
                Kind::Error => Value::Error(self.error_text()),
            });
        }
        let mut parser = ReplyParser::default();
        parser.push(self.bytes);
        parser.next().ok().flatten()
    }

    /// What an error says, or as much of it as is on its first line.
    #[must_use]
    pub fn error_text(&self) -> String {
        if self.http {
            let line = self.bytes.split(|byte| *byte == b'\r').next().unwrap_or_default();
            let status = line.iter().position(|byte| *byte == b' ').map_or(line, |space| &line[space + 1..]);
            return format!("HTTP {}", String::from_utf8_lossy(status));
        }
        let mut lines = self.bytes.split(|byte| *byte == b'\r');
        let first = lines.next().unwrap_or_default();
        let text = match first.first() {
            Some(b'!') => lines.next().unwrap_or_default().trim_ascii(),
            _ => first.get(1..).unwrap_or_default(),
        };
        String::from_utf8_lossy(text).into_owned()
    }
}
