//! The replicated dictionary's three routes, on which any HTTP load tool runs.

use std::collections::VecDeque;
use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Uri, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Serialize;
use utoipa::ToSchema;
use wire::Value;

use super::Api;
use super::body::{InsertBody, parse_insert};
use super::client::{Order, strange};
use super::keys::{fetch, no_such_key};
use super::levels::{Levels, Seen, Talk, stored_where};
use super::login::Caller;
use super::place::{BucketName, OwnBucket};
use super::problem::{Access, Problem};
use super::request::{Query, idempotency_key, read_body};
use super::text::{JsonBytes, shown, write_json, write_name};

/// Keys of one page of `getDictionary`.
const PAGE_KEYS: &[u8] = b"500";

/// Bytes of values that `getDictionary` fetches at a time, unless a single one is longer.
const CHUNK_BYTES_TARGET: u64 = 1024 * 1024;

/// A key's value.
#[derive(Serialize, ToSchema)]
pub(super) struct Found {
    key: JsonBytes,
    value: JsonBytes,
    /// The revision of the key's last change.
    #[schema(minimum = 1)]
    revision: u64,
    /// A sentence for people.
    message: String,
}

/// A write that is done.
#[derive(Serialize, ToSchema)]
pub(super) struct Stored {
    key: JsonBytes,
    /// The revision of this change.
    #[schema(minimum = 1)]
    revision: u64,
    /// A sentence for people.
    message: String,
}

/// Reads one value
#[utoipa::path(
    get,
    path = "/getValue",
    tag = "dictionary",
    params(("key" = String, Query, description = "The key, percent-encoded; any bytes.")),
    responses(
        (status = 200, description = "The value.", body = Found),
        (status = 404, description = "There is no such key.", body = Problem),
        (status = 409, description = "The key holds something else than a string; or the token stands for no state of this bucket.", body = Problem),
    )
)]
pub(super) async fn get_value(
    State(api): State<Arc<Api>>,
    caller: Caller,
    OwnBucket(bucket): OwnBucket,
    levels: Levels,
    uri: Uri,
) -> Response {
    let mut talk = Talk::new(&api, &caller, &bucket, levels);
    let outcome = find(&mut talk, &uri).await;
    talk.seal(outcome)
}

async fn find(talk: &mut Talk<'_>, uri: &Uri) -> Result<Json<Found>, Problem> {
    let query = Query::parse(uri, &["key"])?;
    let key = query.required("key")?;
    let (value, revision) = fetch(talk, key).await?.ok_or_else(|| no_such_key(key))?;
    let message = format!("{} was found.", shown(key));
    Ok(Json(Found { key: JsonBytes(key.to_vec()), value: JsonBytes(value), revision, message }))
}

/// Inserts or updates one value
///
/// Answers only when the write is decided: a majority of the nodes has it, on disk unless the bucket is ephemeral.
#[utoipa::path(
    post,
    path = "/insertOrUpdate",
    tag = "dictionary",
    params(
        ("Idempotency-Key" = Option<String>, Header,
            description = "The same request may be repeated under this key and is carried out once."),
    ),
    request_body(content = InsertBody, content_type = "application/json"),
    responses(
        (status = 200, description = "Stored, as safely as Dictum-Durability or the bucket says.", body = Stored),
        (status = 408, description = "The body did not arrive in time.", body = Problem),
        (status = 413, description = "The value, or the key, is longer than the server stores.", body = Problem),
        (status = 422, description = "The Idempotency-Key was used for another request, or the bucket is in memory only and cannot do what Dictum-Durability asks. Nothing was done.", body = Problem),
        (status = 507, description = "There is no room. Nothing was changed.", body = Problem),
    )
)]
pub(super) async fn insert_or_update(
    State(api): State<Arc<Api>>,
    caller: Caller,
    OwnBucket(bucket): OwnBucket,
    levels: Levels,
    request: Request,
) -> Response {
    let mut talk = Talk::new(&api, &caller, &bucket, levels.of_a_write());
    let outcome = insert(&api, &mut talk, request).await;
    talk.seal(outcome)
}

async fn insert(api: &Api, talk: &mut Talk<'_>, request: Request) -> Result<Json<Stored>, Problem> {
    let (parts, body) = request.into_parts();
    Query::parse(&parts.uri, &[])?;
    let once = idempotency_key(&parts.headers)?;
    let limit = api.options.value_bytes_max;
    // Base64 and escapes make a value longer than it is.
    let body_limit = limit.saturating_add(limit / 2).saturating_add(64 * 1024);
    let (body, _share) = read_body(&api.budget, &parts.headers, body, body_limit, limit).await?;
    let insert = parse_insert(&body).map_err(Problem::bad_request)?;
    if insert.value.len() > limit {
        return Err(Problem::too_large(limit));
    }
    drop(body);
    match talk.write_saying_level(once, &[b"DICTUM.SET", &insert.key, &insert.value]).await? {
        (Value::Integer(revision @ 1..), durability) => {
            let message = format!("{} is stored: {}.", shown(&insert.key), stored_where(durability));
            Ok(Json(Stored { key: JsonBytes(insert.key), revision: revision.unsigned_abs(), message }))
        }
        (other, _) => Err(Problem::from_failure(strange("DICTUM.SET", &other), Access::Write)),
    }
}

/// Reads everything
///
/// Streamed: the object is written while the keys are read, page by page. A key that changes meanwhile is given with one of the values that it
/// had; one that was there throughout is never left out. If something fails on the way, the stream breaks off
/// without the closing brace. The token and the age in the head are those of the first page; what follows may be newer.
#[utoipa::path(
    get,
    path = "/getDictionary",
    tag = "dictionary",
    responses(
        (status = 200, description = "All keys and their values. A name that begins with `base64:` is a key in base64.",
            body = std::collections::BTreeMap<String, JsonBytes>),
        (status = 409, description = "The token stands for no state of this bucket.", body = Problem),
    )
)]
pub(super) async fn get_dictionary(
    State(api): State<Arc<Api>>,
    caller: Caller,
    OwnBucket(bucket): OwnBucket,
    levels: Levels,
    uri: Uri,
) -> Result<Response, Problem> {
    Query::parse(&uri, &[])?;
    let (cursor, seen) = (Some(b"0".to_vec()), Seen::default());
    let mut dump = Dump { api, caller, bucket, levels, cursor, waiting: VecDeque::new(), begun: false, seen };
    // What fails at once still has a status of its own.
    let first = dump.next_chunk().await?;
    let seen = dump.seen.clone();
    let chunks = futures_util::stream::unfold((Some(first), Some(dump)), async |(first, dump)| {
        if let Some(first) = first {
            return Some((Ok(Bytes::from(first?)), (None, dump)));
        }
        let mut dump = dump?;
        match dump.next_chunk().await {
            Ok(chunk) => Some((Ok(Bytes::from(chunk?)), (None, Some(dump)))),
            Err(problem) => Some((Err(std::io::Error::other(problem.message)), (None, None))),
        }
    });
    let mut response = ([(header::CONTENT_TYPE, "application/json")], Body::from_stream(chunks)).into_response();
    seen.write(response.headers_mut());
    Ok(response)
}

/// `getDictionary` under way.
struct Dump {
    api: Arc<Api>,
    caller: Caller,
    bucket: BucketName,
    levels: Levels,
    /// Where the next page begins; `None` behind the last one.
    cursor: Option<Vec<u8>>,
    /// Keys whose values are still to be fetched, and the values' lengths.
    waiting: VecDeque<(Vec<u8>, u64)>,
    /// Whether the opening brace has been written; a comma belongs before each pair but the first.
    begun: bool,
    /// What the last command has seen.
    seen: Seen,
}

impl Dump {
    /// The next piece of JSON; `None` behind the last one. No connection is held between two pieces, so a client
    /// that reads slowly holds nothing up.
    async fn next_chunk(&mut self) -> Result<Option<Vec<u8>>, Problem> {
        let mut out = Vec::new();
        loop {
            if self.waiting.is_empty() {
                let Some(cursor) = self.cursor.take() else {
                    return Ok(None);
                };
                self.fetch_page(cursor).await?;
            }
            self.write_values(&mut out).await?;
            if self.cursor.is_none() && self.waiting.is_empty() {
                out.extend_from_slice(if self.begun { b"}" } else { b"{}" });
                return Ok(Some(out));
            }
            if !out.is_empty() {
                return Ok(Some(out));
            }
        }
    }

    /// Reads one page of keys, and the lengths of their values.
    async fn fetch_page(&mut self, cursor: Vec<u8>) -> Result<(), Problem> {
        let failed = |failure| Problem::from_failure(failure, Access::Read);
        let mut lease =
            self.api.pool.lease(&self.caller, &self.bucket, &self.levels, Access::Read).await.map_err(failed)?;
        let words: &[&[u8]] = &[b"SCAN", &cursor, b"COUNT", PAGE_KEYS, b"TYPE", b"string"];
        let order = Order { words, levels: &self.levels, access: Access::Read, wants_level: true };
        let told = lease.ask(&order).await;
        self.seen = Seen::of(&told, self.levels.consistency).unwrap_or_default();
        let reply = told.reply.map_err(failed)?;
        let page = match reply {
            Value::Array(parts) => <[Value; 2]>::try_from(parts).ok(),
            _ => None,
        };
        let Some([Value::Bulk(next), Value::Array(keys)]) = page else {
            return Err(Problem::internal("The node answered SCAN with something else than a cursor and keys."));
        };
        let keys: Vec<Vec<u8>> = keys
            .into_iter()
            .filter_map(|key| match key {
                Value::Bulk(key) => Some(key),
                _ => None,
            })
            .collect();
        for key in &keys {
            lease.send(&[b"STRLEN", key]).await.map_err(failed)?;
        }
        for key in keys {
            let length = lease.receive().await.map_err(failed)?.as_integer().unwrap_or(0);
            self.waiting.push_back((key, length.unsigned_abs()));
        }
        self.cursor = (next != b"0").then_some(next);
        Ok(())
    }

    /// Fetches as many values as fit a piece, and writes them.
    async fn write_values(&mut self, out: &mut Vec<u8>) -> Result<(), Problem> {
        let mut words: Vec<Vec<u8>> = vec![b"MGET".to_vec()];
        let mut bytes = 0u64;
        while let Some((_, length)) = self.waiting.front() {
            bytes = bytes.saturating_add(*length);
            if words.len() > 1 && bytes > CHUNK_BYTES_TARGET {
                break;
            }
            words.extend(self.waiting.pop_front().map(|(key, _)| key));
        }
        if words.len() == 1 {
            return Ok(());
        }
        let borrowed: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let order = Order { words: &borrowed, levels: &self.levels, access: Access::Read, wants_level: true };
        let told = self.api.pool.ask(&self.caller, &self.bucket, &order).await;
        self.seen = Seen::of(&told, self.levels.consistency).unwrap_or_default();
        let reply = told.reply.map_err(|failure| Problem::from_failure(failure, Access::Read))?;
        let Value::Array(values) = reply else {
            return Err(Problem::internal("The node answered MGET with something else than a list."));
        };
        for (key, value) in words.iter().skip(1).zip(values) {
            // One that is not there any more is left out.
            let Value::Bulk(value) = value else { continue };
            out.push(if self.begun { b',' } else { b'{' });
            self.begun = true;
            write_name(out, key);
            out.push(b':');
            write_json(out, &JsonBytes(value));
        }
        Ok(())
    }
}
