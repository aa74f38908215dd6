//! `/v1/buckets/{name}/changes`: changes of keys as server-sent events. What is told, and when, is the node's business (docs/subscriptions.md): this says it in the words of the
//! browser's EventSource.
//!
//! Each stream is a client of the node of its own. A stream whose client does not read is read no further here, and so the node tells it nothing more.
//!
//! The identifier of an event is what the client shows as `Last-Event-ID` when it comes again, and so it says how to go on: behind a token; with the stored keys
//! ([`ANEW`]); or not at all ([`ENDED`]), as an EventSource would come for ever.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use node::ChangesToken;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout, timeout_at};
use wire::{ReplyParser, Value};

use super::Api;
use super::client::{Failure, strange};
use super::connections::Busy;
use super::login::Caller;
use super::place::BucketName;
use super::problem::{Access, Problem};
use super::request::Query;
use super::web_pages::Remote;
use crate::bridge::VirtualConnection;
use crate::changes::{Message, Place};

/// Most streams of a node.
const STREAMS_MAX: usize = 1_000;
/// A stream that says nothing for so long says a comment: proxies end silent connections, and the node finds out that a client is gone.
const SILENCE_MAX: Duration = Duration::from_secs(15);
/// In buckets with up to so many partitions each change has an identifier; in others, whose identifiers are long, the last one of those that have come together.
const PARTITIONS_OF_SHORT: usize = 8;
/// About so many bytes are written at once.
const PIECE_BYTES: usize = 64 * 1024;

/// The identifier of what comes before `live`: a client with only a part of the stored keys begins with them anew.
const ANEW: &str = "state";
/// The identifier behind the last event of a subscription that is over.
const ENDED: &str = "ended";

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Asks a proxy (nginx) to pass each event on at once.
const UNBUFFERED: HeaderName = HeaderName::from_static("x-accel-buffering");
/// An EventSource that cannot be served now waits for so long, in milliseconds.
const COME_AGAIN_MS: u32 = 1_000;
/// How errors begin that another node may not have, or the same one later.
const PASSING: [&str; 2] = ["this node has as many subscriptions", "subscriptions to changes are there once"];
const PARAMETERS: [&str; 8] = ["key", "prefix", "match", "kind", "values", "from", "state", "gap"];
/// Those that may come several times.
const REPEATED: [&str; 4] = ["key", "prefix", "match", "kind"];

/// Most streams of a node that has so many HTTP connections. They make way for nobody, so others have at least half of the places.
pub(super) fn streams_max(connections_max: usize) -> usize {
    STREAMS_MAX.min(connections_max / 2)
}

/// Where a stream begins.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Beginning {
    Now,
    State,
    Token(Vec<u8>),
}

/// One of two words.
fn one_of(name: &str, value: &[u8], known: [&'static str; 2]) -> Result<&'static str, Problem> {
    let said = known.into_iter().find(|it| it.as_bytes() == value);
    said.ok_or_else(|| Problem::bad_request(format!("The query parameter {name:?} is {} or {}.", known[0], known[1])))
}

/// The order of a request.
struct Asked {
    /// The words of the command.
    words: Vec<Vec<u8>>,
    from: Beginning,
    /// Behind a gap the node tells the stored keys.
    restates: bool,
}

/// Reads a request. None if the client is to come no more.
fn read(uri: &Uri, headers: &HeaderMap) -> Result<Option<Asked>, Problem> {
    let query = Query::parse_repeated(uri, &PARAMETERS, &REPEATED)?;
    let mut words: Vec<Vec<u8>> = vec![b"DICTUM.SUBSCRIBE".to_vec()];
    let mut say = |of: &[&[u8]]| words.extend(of.iter().map(|word| word.to_vec()));
    let with_state = query.get("state").map(|value| one_of("state", value, ["1", "0"])).transpose()? == Some("1");
    let gap = query.get("gap").map(|value| one_of("gap", value, ["restate", "end"])).transpose()?;
    let values = query.get("values").map(|value| one_of("values", value, ["after", "none"])).transpose()?;
    let last = headers.get(LAST_EVENT_ID).map(HeaderValue::as_bytes).filter(|last| !last.is_empty());
    let from = match last.or(query.get("from")) {
        Some(ended) if ended == ENDED.as_bytes() => return Ok(None),
        Some(anew) if anew == ANEW.as_bytes() => Beginning::State,
        Some(b"now") if with_state => {
            return Err(Problem::bad_request(
                "\"from=now\" and \"state=1\" exclude each other: a stream begins with the stored keys, or now.",
            ));
        }
        Some(b"now") => Beginning::Now,
        Some(token) => Beginning::Token(token.to_vec()),
        None if with_state => Beginning::State,
        None => Beginning::Now,
    };
    match &from {
        Beginning::Now => say(&[b"FROM", b"NOW"]),
        Beginning::State => say(&[b"WITH", b"STATE"]),
        Beginning::Token(token) if ChangesToken::parse(token).is_ok() => say(&[b"FROM", token]),
        Beginning::Token(_) => {
            return Err(Problem::bad_request(
                "The place to go on from is no token of changes: Last-Event-ID and \"from\" take the identifier of an event.",
            ));
        }
    }
    for (name, word) in [("key", "KEY"), ("prefix", "PREFIX"), ("match", "MATCH"), ("kind", "KIND")] {
        for value in query.all(name) {
            say(&[word.as_bytes(), value]);
        }
    }
    if ["key", "prefix", "match"].iter().all(|name| query.get(name).is_none()) {
        say(&[b"ALL"]);
    }
    say(&[b"VALUES", values.unwrap_or("after").as_bytes()]);
    let default = if with_state || from == Beginning::State { "restate" } else { "end" };
    let gap = gap.unwrap_or(default);
    say(&[b"ON", b"GAP", gap.as_bytes()]);
    Ok(Some(Asked { words, from, restates: gap == "restate" }))
}

/// Tells every change of keys, as server-sent events
///
/// Each event has a kind (`event`), its data as JSON, and an identifier with which a client that comes again goes on without missing a change, at any node
/// (`Last-Event-ID`, which a browser's EventSource sends by itself). `begin` comes first and says from where it goes on; `state` is a stored key; `set`, `deadline`, `del`, `expire`,
/// `evict` and `flush` are changes; `live` says that all up to here was told, and `progress` says that every five seconds; `gap` says that changes cannot be told. The
/// stream has no end by itself.
#[utoipa::path(
    get,
    path = "/v1/buckets/{name}/changes",
    tag = "buckets",
    params(
        ("name" = String, Path, description = "The bucket's name."),
        ("key" = Option<String>, Query, description = "Changes of this key. This, prefix and match may come several times; without any all keys are meant."),
        ("prefix" = Option<String>, Query, description = "Changes of keys that begin so."),
        ("match" = Option<String>, Query, description = "Changes of keys that fit this pattern."),
        ("kind" = Option<String>, Query, description = "Changes of this kind alone: set, deadline, del, expire, evict or flush. It may come several times."),
        ("values" = Option<String>, Query, description = "after (the default): with the values behind the changes. none: without."),
        ("from" = Option<String>, Query, description = "The identifier of an event to go on from. now (the default): from now on. Last-Event-ID comes before it."),
        ("state" = Option<String>, Query, description = "1: the stored keys first, and then what changes."),
        ("gap" = Option<String>, Query, description = "What comes behind a gap. restate: the stored keys (the default with state). end: nothing (the default otherwise)."),
        ("Last-Event-ID" = Option<String>, Header, description = "The identifier of the last event that the client has had."),
    ),
    responses(
        (status = 200, description = "The events. Where Accept is text/event-stream alone, as that of a browser's EventSource, it is also the answer if the node cannot serve now: the stream ends at once, and the EventSource comes again.", body = String, content_type = "text/event-stream"),
        (status = 204, description = "A gap has ended the subscription that the client comes again for. An EventSource comes no more."),
        (status = 409, description = "The token is of another bucket, or of a subscription to other keys.", body = Problem),
    )
)]
pub(super) async fn changes(
    State(api): State<Arc<Api>>,
    caller: Caller,
    request: Request,
) -> Result<Response, Problem> {
    let (bucket, _) = BucketName::in_path(request.uri())?;
    let busy = request.extensions().get::<Busy>().cloned();
    let Some(Asked { words, from, restates }) = read(request.uri(), request.headers())? else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    let remote = request.extensions().get::<Remote>();
    let description = remote.map_or_else(|| "http".to_owned(), |remote| format!("http {}", remote.0));
    let begun = match Arc::clone(&api.streams).try_acquire_owned() {
        Err(_) => Err(too_many()),
        Ok(permit) => {
            begin(&api, &caller, (&bucket, &words), &description).await.map(|begun| (begun, permit)).map_err(problem)
        }
    };
    let ((line, token), permit) = match begun {
        Err(problem) if problem.status == StatusCode::SERVICE_UNAVAILABLE && is_event_source(request.headers()) => {
            return Ok((stream_headers(), come_again(&problem)).into_response());
        }
        begun => begun?,
    };
    let place = match (&token, &from) {
        (Some(token), _) => Place::At(token.clone()),
        // A gap comes next, and who loses the connection before it is to be told it again.
        (None, Beginning::Token(text)) if !restates => ChangesToken::parse(text).map_or(Place::Nowhere, Place::At),
        (None, _) => Place::Nowhere,
    };
    let stream = Stream { line, place, is_over: false, _permit: permit, _busy: busy };
    let first = stream.greet(&from, token.as_ref());
    let pieces = stream::unfold((Some(first), stream), |(first, mut stream)| async move {
        let piece = match first {
            Some(first) => first,
            None => stream.next().await?,
        };
        Some((Ok::<Bytes, Infallible>(piece), (None, stream)))
    });
    Ok((stream_headers(), Body::from_stream(pieces)).into_response())
}

fn stream_headers() -> [(HeaderName, HeaderValue); 3] {
    [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (UNBUFFERED, HeaderValue::from_static("no")),
    ]
}

fn too_many() -> Problem {
    let message = format!(
        "This node has as many streams of changes as it takes, which is {STREAMS_MAX} or half of its HTTP connections. Use another node, or try again later."
    );
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "BUSY", message)
}

fn is_event_source(headers: &HeaderMap) -> bool {
    headers.get(header::ACCEPT).is_some_and(|accept| accept == "text/event-stream")
}

/// A stream that ends at once. An EventSource comes again then, and after any other status but 200 it never does.
fn come_again(problem: &Problem) -> String {
    let message = problem.message.replace(['\n', '\r'], " ");
    format!("retry: {COME_AGAIN_MS}\n: {} {message}\n\n", problem.code)
}

/// The answer to a subscription that the node has refused. Most refusals are about the request. No refusal leaves an outcome open: a client can ask again, here or at another node.
fn problem(failure: Failure) -> Problem {
    let text = match &failure {
        Failure::Refused(text) => text.clone(),
        _ => String::new(),
    };
    let (code, message) = text.split_once(' ').unwrap_or_default();
    let passes =
        ["UNKNOWN", "NOCOPY", "MISCONF"].contains(&code) || PASSING.iter().any(|begin| message.starts_with(begin));
    let problem = Problem::from_failure(failure, Access::Read);
    match code {
        _ if passes => {
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, if code == "ERR" { "BUSY" } else { code }, message)
        }
        "ERR" if problem.status == StatusCode::INTERNAL_SERVER_ERROR => Problem::bad_request(message),
        _ => problem,
    }
}

/// Begins a subscription on a connection of its own. Answers its token.
async fn begin(
    api: &Api,
    caller: &Caller,
    (bucket, words): (&BucketName, &[Vec<u8>]),
    description: &str,
) -> Result<(Line, Option<ChangesToken>), Failure> {
    let connection = match caller {
        Caller::Process => api.pool.bridge().open(description),
        Caller::User(user) => api.pool.bridge().open_for(description, user),
    };
    let mut line = Line { connection, parser: ReplyParser::default() };
    let mut bytes = Vec::new();
    wire::encode_command(&mut bytes, [b"HELLO", &b"3"[..], b"SETNAME", b"http-changes"]);
    wire::encode_command(&mut bytes, [b"SELECT", bucket.as_bytes()]);
    wire::encode_command(&mut bytes, words);
    let deadline = Instant::now() + api.pool.patience();
    timeout_at(deadline, line.connection.send(bytes)).await.map_err(|_| Failure::Busy)?;
    let mut answer = Value::Null;
    for _ in 0..3 {
        answer = timeout_at(deadline, line.reply()).await.map_err(|_| Failure::Unanswered)??;
    }
    let token = match answer.as_array() {
        Some([_, token]) if token.is_null() => Some(None),
        Some([_, token]) => token.as_bytes().and_then(|bytes| ChangesToken::parse(bytes).ok()).map(Some),
        _ => None,
    };
    token.map(|token| (line, token)).ok_or_else(|| strange("DICTUM.SUBSCRIBE", &answer))
}

/// A connection to the node.
struct Line {
    connection: VirtualConnection,
    parser: ReplyParser,
}

impl Line {
    /// The next message of the node.
    async fn value(&mut self) -> Result<Value, Failure> {
        loop {
            if let Some(value) = self.said()? {
                return Ok(value);
            }
            let bytes = self.connection.receive().await.ok_or(Failure::Unanswered)?;
            self.parser.push(&bytes);
        }
    }

    /// The next one of those that have come already.
    fn said(&mut self) -> Result<Option<Value>, Failure> {
        self.parser.next().map_err(|error| Failure::Strange(error.to_string()))
    }

    /// The next answer. Messages come behind that to the subscription.
    async fn reply(&mut self) -> Result<Value, Failure> {
        loop {
            match self.value().await? {
                Value::Push(_) => {}
                Value::Error(text) => return Err(Failure::Refused(text)),
                value => return Ok(value),
            }
        }
    }
}

/// A client that is told.
struct Stream {
    line: Line,
    place: Place,
    is_over: bool,
    _permit: OwnedSemaphorePermit,
    /// The connection does not make way for others meanwhile.
    _busy: Option<Busy>,
}

impl Stream {
    /// The event before all others.
    fn greet(&self, from: &Beginning, token: Option<&ChangesToken>) -> Bytes {
        let from = match from {
            Beginning::Now => "now",
            Beginning::State => "state",
            Beginning::Token(_) => "token",
        };
        let token = token.map(ToString::to_string);
        let data = serde_json::json!({ "from": from, "token": token }).to_string();
        let mut out = Vec::new();
        event(&mut out, "begin", Some(&identifier(&self.place)), data.as_bytes());
        out.into()
    }

    /// The next events, or a comment. None if there is nothing more to come.
    async fn next(&mut self) -> Option<Bytes> {
        if self.is_over {
            return None;
        }
        let first = match timeout(SILENCE_MAX, self.line.value()).await {
            Err(_) => return Some(Bytes::from_static(b":\n\n")),
            Ok(value) => value.ok()?,
        };
        let (mut out, mut data, mut next) = (Vec::new(), Vec::new(), Some(first));
        while let Some(value) = next {
            let Value::Push(push) = &value else {
                next = self.line.said().ok()?;
                continue;
            };
            let Some(message) = Message::read(push) else {
                if Message::is_one(push) {
                    // The stream ends before a message that it cannot read, and the client comes again from there.
                    self.is_over = true;
                    break;
                }
                next = self.line.said().ok()?;
                continue;
            };
            next = if out.len() < PIECE_BYTES { self.line.said().ok()? } else { None };
            self.place.note(&message);
            let is_short = !matches!(&self.place, Place::At(token) if token.revisions.len() > PARTITIONS_OF_SHORT);
            let has_identifier = is_short || next.is_none() || !matches!(message, Message::Change(..));
            let identifier = has_identifier.then(|| identifier(&self.place));
            data.clear();
            message.write_json(&mut data);
            event(&mut out, message.name(), identifier.as_deref(), &data);
            if message.is_end() {
                self.is_over = true;
                break;
            }
        }
        Some(out.into())
    }
}

fn identifier(place: &Place) -> String {
    match place {
        Place::At(token) => token.to_string(),
        Place::Nowhere => ANEW.to_owned(),
        Place::Ended => ENDED.to_owned(),
    }
}

/// Writes an event. Neither its name nor its data has line breaks.
fn event(out: &mut Vec<u8>, name: &str, identifier: Option<&str>, data: &[u8]) {
    out.extend_from_slice(b"event: ");
    out.extend_from_slice(name.as_bytes());
    if let Some(identifier) = identifier {
        out.extend_from_slice(b"\nid: ");
        out.extend_from_slice(identifier.as_bytes());
    }
    out.extend_from_slice(b"\ndata: ");
    out.extend_from_slice(data);
    out.extend_from_slice(b"\n\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words_of(query: &str, last: Option<&str>) -> Result<Option<String>, String> {
        let uri: Uri = format!("/v1/buckets/b/changes?{query}").parse().expect("a URI");
        let mut headers = HeaderMap::new();
        if let Some(last) = last {
            headers.insert(LAST_EVENT_ID, HeaderValue::from_str(last).expect("a value"));
        }
        let said = read(&uri, &headers).map_err(|problem| problem.message)?;
        Ok(said.map(|Asked { words, .. }| String::from_utf8_lossy(&words[1..].join(&b' ')).into_owned()))
    }

    #[test]
    fn what_another_node_may_do_is_no_fault_of_the_request() {
        let of = |text: &str| {
            let problem = problem(Failure::Refused(text.to_owned()));
            (problem.status.as_u16(), problem.code)
        };
        for (text, status, code) in [
            ("UNKNOWN timeout", 503, "UNKNOWN"),
            ("NOCOPY this node has no copy", 503, "NOCOPY"),
            ("MISCONF the disk is full", 503, "MISCONF"),
            ("CLUSTERDOWN no leader", 503, "CLUSTERDOWN"),
            ("ERR this node has as many subscriptions to changes as it takes", 503, "BUSY"),
            ("ERR subscriptions to changes are there once all nodes speak version 8", 503, "BUSY"),
            ("ERR a kind of changes is one of", 400, "BAD_REQUEST"),
            ("ERR the token is for another bucket", 409, "FALSE_TOKEN"),
            ("ERR there is no bucket 'x'", 404, "NOT_FOUND"),
            ("NOPERM no", 403, "NOPERM"),
        ] {
            assert_eq!(of(text), (status, code.to_owned()), "{text}");
        }
        assert_eq!([streams_max(10_000), streams_max(184)], [1_000, 92]);
    }

    #[test]
    fn an_event_source_comes_again() {
        let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "CLUSTERDOWN", "a\nb");
        assert_eq!(come_again(&problem), "retry: 1000\n: CLUSTERDOWN a b\n\n");
    }

    #[test]
    fn a_request_becomes_a_command() {
        let token = "0~00000000000000fe:1,,3";
        for (query, last, expected) in [
            ("", None, "FROM NOW ALL VALUES after ON GAP end"),
            ("state=1", None, "WITH STATE ALL VALUES after ON GAP restate"),
            ("prefix=a%20b&prefix=c&key=k", None, "FROM NOW KEY k PREFIX a b PREFIX c VALUES after ON GAP end"),
            (
                "match=*x&kind=set&kind=del&values=none",
                None,
                "FROM NOW MATCH *x KIND set KIND del VALUES none ON GAP end",
            ),
            (
                "from=0~00000000000000fe:1,,3&gap=restate",
                None,
                "FROM 0~00000000000000fe:1,,3 ALL VALUES after ON GAP restate",
            ),
            ("from=now", Some(token), "FROM 0~00000000000000fe:1,,3 ALL VALUES after ON GAP end"),
            ("state=1", Some(token), "FROM 0~00000000000000fe:1,,3 ALL VALUES after ON GAP restate"),
            ("key=k", Some("state"), "WITH STATE KEY k VALUES after ON GAP restate"),
            ("key=k&from=state", None, "WITH STATE KEY k VALUES after ON GAP restate"),
            (
                "state=1&from=0~00000000000000fe:1,,3",
                None,
                "FROM 0~00000000000000fe:1,,3 ALL VALUES after ON GAP restate",
            ),
            ("key=k", Some(""), "FROM NOW KEY k VALUES after ON GAP end"),
        ] {
            assert_eq!(words_of(query, last), Ok(Some(expected.to_owned())), "{query}");
        }
        assert_eq!(words_of("state=1", Some("ended")), Ok(None));
        assert_eq!(words_of("from=ended", None), Ok(None));
        for (query, last) in [
            ("state=1&from=now", None),
            ("state=2", None),
            ("gap=x", None),
            ("values=old", None),
            ("from=x", None),
            ("", Some("x")),
            ("nosuch=1", None),
            ("state=1&state=1", None),
        ] {
            assert!(words_of(query, last).is_err(), "{query}");
        }
    }
}
