//! What several routes read from a request: query, body, idempotency key; and how large values go out.
//!
//! Bodies and large replies are counted against one budget of bytes, so that many clients with large values, or slow
//! ones, cannot fill the memory.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::problem::Problem;
use super::text::percent_decode;

/// How long a client may take to send a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// Values up to this many bytes are not counted against the budget: the bound on connections bounds them.
const SMALL_BYTES: usize = 64 * 1024;

/// Bytes that bodies and replies may occupy at the same time, unless a single one needs more.
const BUDGET_BYTES: usize = 256 * 1024 * 1024;

/// Bytes that one permit of the budget stands for.
const PERMIT_BYTES: usize = 1024;

/// Longest `Idempotency-Key`, in bytes.
const IDEMPOTENCY_KEY_BYTES_MAX: usize = 256;

/// The memory that large bodies and replies share.
pub(super) struct Budget(Arc<Semaphore>);

/// A part of the budget, given back when dropped.
pub(super) struct Share {
    _permit: Option<OwnedSemaphorePermit>,
}

impl Budget {
    /// Enough for at least two bodies of `bytes_max`.
    pub(super) fn new(bytes_max: usize) -> Budget {
        Budget(Arc::new(Semaphore::new(permits(BUDGET_BYTES.max(bytes_max.saturating_mul(2))))))
    }

    /// Waits until `bytes` are free, but not beyond `deadline`.
    pub(super) async fn take(&self, bytes: usize, deadline: Instant) -> Result<Share, Problem> {
        if bytes <= SMALL_BYTES {
            return Ok(Share { _permit: None });
        }
        let wanted = u32::try_from(permits(bytes)).unwrap_or(u32::MAX);
        match timeout_at(deadline, Arc::clone(&self.0).acquire_many_owned(wanted)).await {
            Ok(Ok(permit)) => Ok(Share { _permit: Some(permit) }),
            _ => Err(Problem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "BUSY",
                "Too many large values are under way. Nothing was done; try again.",
            )),
        }
    }
}

fn permits(bytes: usize) -> usize {
    bytes.div_ceil(PERMIT_BYTES).min(Semaphore::MAX_PERMITS)
}

/// Reads a whole body of at most `limit` bytes. `value_bytes_max` is only told to the client.
pub(super) async fn read_body(
    budget: &Budget,
    headers: &HeaderMap,
    mut body: Body,
    limit: usize,
    value_bytes_max: usize,
) -> Result<(Vec<u8>, Share), Problem> {
    let deadline = Instant::now() + BODY_TIMEOUT;
    let declared = headers.get(header::CONTENT_LENGTH).and_then(|text| text.to_str().ok()?.parse::<usize>().ok());
    if declared.is_some_and(|length| length > limit) {
        return Err(Problem::too_large(value_bytes_max));
    }
    let expected = declared.unwrap_or_else(|| if HttpBody::is_end_stream(&body) { 0 } else { limit });
    let share = budget.take(expected, deadline).await?;
    let mut bytes = Vec::with_capacity(declared.unwrap_or(0));
    loop {
        let frame = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context));
        match timeout_at(deadline, frame).await {
            Ok(None) => return Ok((bytes, share)),
            Ok(Some(Ok(frame))) => {
                let Ok(data) = frame.into_data() else { continue };
                if bytes.len() + data.len() > limit {
                    return Err(Problem::too_large(value_bytes_max));
                }
                bytes.extend_from_slice(&data);
            }
            Ok(Some(Err(error))) => return Err(Problem::bad_request(format!("The body could not be read: {error}."))),
            Err(_) => {
                let message = format!("The body did not arrive within {} seconds.", BODY_TIMEOUT.as_secs());
                return Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "TIMEOUT", message));
            }
        }
    }
}

/// A reply's bytes, which keep their share of the budget until they are sent.
pub(super) struct HeldBody {
    bytes: Bytes,
    _share: Share,
}

impl HeldBody {
    pub(super) fn new(bytes: Bytes, share: Share) -> HeldBody {
        HeldBody { bytes, _share: share }
    }
}

impl HttpBody for HeldBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::convert::Infallible>>> {
        // In pieces, so that what has been sent is known to be no more than a piece ahead of the socket.
        const PIECE_BYTES: usize = 256 * 1024;
        let length = self.bytes.len().min(PIECE_BYTES);
        Poll::Ready((length > 0).then(|| Ok(Frame::data(self.bytes.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.len() as u64)
    }
}

/// A query's parameters, decoded.
pub(super) struct Query<'a> {
    pairs: Vec<(&'a str, Vec<u8>)>,
}

impl<'a> Query<'a> {
    /// Reads the query. Parameters that are not among `known`, or that come twice, are refused: a misspelled one
    /// must not be taken for an absent one.
    pub(super) fn parse(uri: &'a Uri, known: &[&str]) -> Result<Query<'a>, Problem> {
        Query::parse_repeated(uri, known, &[])
    }

    /// The same where some parameters may come several times.
    pub(super) fn parse_repeated(uri: &'a Uri, known: &[&str], repeated: &[&str]) -> Result<Query<'a>, Problem> {
        let mut pairs: Vec<(&str, Vec<u8>)> = Vec::new();
        for pair in uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if !known.contains(&name) {
                let takes = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                return Err(Problem::bad_request(format!(
                    "There is no query parameter {name:?} here. Known ones: {takes}."
                )));
            }
            if !repeated.contains(&name) && pairs.iter().any(|(other, _)| *other == name) {
                return Err(Problem::bad_request(format!("The query parameter {name:?} comes twice.")));
            }
            let value = percent_decode(value, true).ok_or_else(|| {
                Problem::bad_request(format!(
                    "The query parameter {name:?} has a % that is not followed by two hexadecimal digits."
                ))
            })?;
            pairs.push((name, value));
        }
        Ok(Query { pairs })
    }

    /// A parameter's bytes.
    pub(super) fn get(&self, name: &str) -> Option<&[u8]> {
        self.pairs.iter().find(|(other, _)| *other == name).map(|(_, value)| value.as_slice())
    }

    /// The values of one parameter, in order.
    pub(super) fn all(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        self.pairs.iter().filter(move |(other, _)| *other == name).map(|(_, value)| value.as_slice())
    }

    /// A parameter that has to be there.
    pub(super) fn required(&self, name: &str) -> Result<&[u8], Problem> {
        self.get(name).ok_or_else(|| Problem::bad_request(format!("The query parameter {name:?} is missing.")))
    }
}

/// The `Idempotency-Key` header, if there is one.
pub(super) fn idempotency_key(headers: &HeaderMap) -> Result<Option<&[u8]>, Problem> {
    let mut values = headers.get_all("idempotency-key").iter();
    let Some(value) = values.next() else { return Ok(None) };
    let key = value.as_bytes();
    let fits =
        (1..=IDEMPOTENCY_KEY_BYTES_MAX).contains(&key.len()) && key.iter().all(|byte| matches!(byte, b' '..=b'~'));
    if values.next().is_some() || !fits {
        return Err(Problem::bad_request(format!(
            "Idempotency-Key must come once and have 1 to {IDEMPOTENCY_KEY_BYTES_MAX} characters of ASCII."
        )));
    }
    Ok(Some(key))
}

/// What the key may be, for the description: it neither begins nor ends with a space, which HTTP would drop.
pub(super) const IDEMPOTENCY_KEY_PATTERN: &str = "^[!-~]([ -~]{0,254}[!-~])?$";

#[cfg(test)]
mod tests {
    use super::*;

    fn query<'a>(uri: &'a Uri, known: &[&str]) -> Result<Query<'a>, String> {
        Query::parse(uri, known).map_err(|problem| problem.message)
    }

    #[test]
    fn a_query_is_read_strictly() {
        let uri: Uri = "/getValue?key=a%20b%ff&&ttl_ms=".parse().expect("a URI");
        let read = query(&uri, &["key", "ttl_ms"]).expect("all known");
        assert_eq!(read.get("key"), Some(&b"a b\xff"[..]));
        assert_eq!(read.get("ttl_ms"), Some(&b""[..]));
        assert!(read.get("other").is_none());
        assert!(read.required("other").is_err());
        for (uri, complaint) in [
            ("/?kye=1", "There is no query parameter \"kye\" here. Known ones: key."),
            ("/?key=1&key=2", "The query parameter \"key\" comes twice."),
            ("/?key=%2", "The query parameter \"key\" has a % that is not followed by two hexadecimal digits."),
        ] {
            let uri: Uri = uri.parse().expect("a URI");
            assert_eq!(query(&uri, &["key"]).err().as_deref(), Some(complaint));
        }
    }

    #[test]
    fn the_budget_holds_back_what_does_not_fit() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(async {
            let budget = Budget::new(0);
            let soon = Instant::now();
            let first = budget
                .take(BUDGET_BYTES, soon)
                .await
                .unwrap_or_else(|problem| panic!("all of it is free: {problem:?}"));
            assert!(budget.take(SMALL_BYTES, soon).await.is_ok(), "small ones are not counted");
            let refused = budget.take(SMALL_BYTES + 1, soon).await.err().expect("nothing is free");
            assert_eq!((refused.status, refused.code.as_str()), (StatusCode::SERVICE_UNAVAILABLE, "BUSY"));
            drop(first);
            assert!(budget.take(SMALL_BYTES + 1, soon).await.is_ok());
        });
    }
}
