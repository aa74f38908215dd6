//! What a command answers.

use crate::blob::Blob;
use crate::failure::Failure;

/// What each part of an answer takes, whatever it holds, as [`Reply::bytes`] counts.
pub(crate) const ITEM_BYTES: u64 = 16;

/// An answer, independent of the protocol that carries it.
#[derive(Clone, PartialEq, Debug)]
pub enum Reply {
    /// `OK`.
    Ok,
    /// There is no such value (RESP2: null bulk string).
    Nil,
    /// There is no such list of values (RESP2: null array): what an aborted `EXEC` answers.
    NilArray,
    /// A whole number.
    Integer(i64),
    /// Any bytes.
    Bulk(Blob),
    /// A text for people (RESP2: a bulk string). Commands on keys answer none.
    Verbatim(Blob),
    /// A short status without line breaks.
    Simple(&'static str),
    /// The same, put together by a script.
    Status(Blob),
    /// A command that failed inside a transaction, where the others have answers of their own.
    Error(Failure),
    /// A list.
    Array(Vec<Reply>),
    /// Pairs in a fixed order (RESP2: a flat list).
    Map(Vec<(Reply, Reply)>),
    /// Pairs in a fixed order that may repeat (RESP2: a flat list, RESP3: a list of lists of two).
    Pairs(Vec<(Reply, Reply)>),
    /// Pairs in a fixed order, whose first parts are different (RESP2: a list of lists of two, RESP3: a map).
    Named(Vec<(Reply, Reply)>),
    /// Different values in a fixed order (RESP2: a list).
    Set(Vec<Reply>),
    /// A floating-point number (RESP2: its text as a bulk string).
    Double(f64),
    /// A floating-point number with all the decimals that seventeen can say (RESP2: its text, of that many, as a bulk string).
    Decimal(f64),
    /// Yes or no (RESP2: 1 or 0).
    Boolean(bool),
    /// What clients of RESP2 get, and what those of RESP3 get, where a command answers them differently.
    ByDialect(Box<[Reply; 2]>),
}

impl Reply {
    /// What clients of RESP2 get, and what those of RESP3 get.
    #[must_use]
    pub fn by_dialect(resp2: Reply, resp3: Reply) -> Reply {
        Reply::ByDialect(Box::new([resp2, resp3]))
    }

    /// Bytes as a reply.
    pub fn bulk(bytes: impl Into<Blob>) -> Reply {
        Reply::Bulk(bytes.into())
    }

    /// The text of a [`Reply::Decimal`]: seventeen decimals without the zeros at their end.
    #[must_use]
    pub fn decimal_text(number: f64) -> String {
        let text = format!("{number:.17}");
        match text.trim_end_matches('0').trim_end_matches('.') {
            "-0" => "0".to_owned(),
            text => text.to_owned(),
        }
    }

    /// 1 for yes, 0 for no: how commands older than RESP3 answer.
    #[must_use]
    pub fn one_if(condition: bool) -> Reply {
        Reply::Integer(i64::from(condition))
    }

    /// A count. Counts of bytes and keys are far below 2^63.
    #[must_use]
    pub fn count(count: usize) -> Reply {
        Reply::Integer(count as i64)
    }

    /// Approximate bytes that it takes.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> u64 {
        ITEM_BYTES
            + match self {
                Reply::Ok | Reply::Nil | Reply::Integer(_) => 0,
                Reply::Bulk(bytes) => bytes.len() as u64,
                _ => self.bytes_within(),
            }
    }

    fn bytes_within(&self) -> u64 {
        let of_pairs = |pairs: &[(Reply, Reply)]| pairs.iter().map(|(a, b)| a.bytes() + b.bytes()).sum::<u64>();
        match self {
            Reply::Bulk(bytes) | Reply::Verbatim(bytes) | Reply::Status(bytes) => bytes.len() as u64,
            Reply::Array(replies) | Reply::Set(replies) => replies.iter().map(Reply::bytes).sum(),
            Reply::Map(pairs) | Reply::Pairs(pairs) | Reply::Named(pairs) => of_pairs(pairs),
            Reply::ByDialect(both) => both[0].bytes().max(both[1].bytes()),
            Reply::Error(Failure::Built(text) | Failure::UnknownCommand(text)) => text.len() as u64,
            _ => 0,
        }
    }

    /// The value, or nil.
    #[must_use]
    pub fn bulk_or_nil(bytes: Option<Blob>) -> Reply {
        bytes.map_or(Reply::Nil, Reply::Bulk)
    }
}

impl From<Result<Reply, Failure>> for Reply {
    fn from(result: Result<Reply, Failure>) -> Reply {
        result.unwrap_or_else(Reply::Error)
    }
}
