//! `/v1/keys/{key}` and `/v1/buckets/{name}/keys/{key}`: values as they are, with their revision as entity tag.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use tokio::time::Instant;
use wire::Value;

use super::Api;
use super::client::strange;
use super::conditions::{Conditions, Plan, Verdict, etag};
use super::levels::{Levels, Talk};
use super::login::Caller;
use super::place::Place;
use super::problem::{Access, Problem};
use super::request::{HeldBody, Query, idempotency_key, read_body};
use super::text::{RawBytes, shown};

/// How often a condition that needs a look at the key is tried, if others keep changing the key in between.
const ATTEMPTS_MAX: usize = 16;

/// Reads a value
///
/// HEAD answers the same without the bytes.
#[utoipa::path(
    get,
    path = "/v1/keys/{key}",
    tag = "keys",
    params(
        ("key" = String, Path, description = "The key, percent-encoded; any bytes.", min_length = 1),
        ("If-None-Match" = Option<String>, Header, description = "Answer 304 if the revision is one of these."),
        ("If-Match" = Option<String>, Header, description = "Answer 412 unless the revision is one of these."),
    ),
    responses(
        (status = 200, description = "The value.", body = RawBytes, content_type = "application/octet-stream",
            headers(("ETag" = String, description = "The revision of the key's last change, in quotes."))),
        (status = 304, description = "The revision is one of those in If-None-Match.",
            headers(("ETag" = String, description = "The revision of the key's last change, in quotes."))),
        (status = 404, description = "There is no such key.", body = Problem),
        (status = 409, description = "The key holds something else than a string; or the token stands for no state of this bucket.", body = Problem),
        (status = 412, description = "The revision is none of those in If-Match.", body = Problem),
    )
)]
pub(super) async fn get_key(
    State(api): State<Arc<Api>>,
    caller: Caller,
    place: Place,
    levels: Levels,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let mut talk = Talk::new(&api, &caller, &place.bucket, levels);
    let outcome = get(&api, &mut talk, &place.key, &uri, &headers).await;
    talk.seal(outcome)
}

async fn get(api: &Api, talk: &mut Talk<'_>, key: &[u8], uri: &Uri, headers: &HeaderMap) -> Result<Response, Problem> {
    let deadline = Instant::now() + api.pool.patience();
    Query::parse(uri, &[])?;
    let conditions = Conditions::parse(headers)?;
    let found = fetch(talk, key).await?;
    match (conditions.judge(found.as_ref().map(|(_, revision)| *revision)), found) {
        (Verdict::Mismatch, _) => Err(Problem::precondition_failed()),
        (Verdict::NotModified, Some((_, revision))) => {
            Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, etag(revision))]).into_response())
        }
        (_, None) => Err(no_such_key(key)),
        (_, Some((value, revision))) => {
            let share = api.budget.take(value.len(), deadline).await?;
            let body = Body::new(HeldBody::new(Bytes::from(value), share));
            let headers = [
                (header::ETAG, etag(revision)),
                (header::CONTENT_TYPE, header::HeaderValue::from_static("application/octet-stream")),
                (header::CACHE_CONTROL, header::HeaderValue::from_static("no-cache")),
            ];
            Ok((headers, body).into_response())
        }
    }
}

/// Stores a value
///
/// Answers only when the write is decided: a majority of the nodes has it, on disk unless the bucket is ephemeral.
#[utoipa::path(
    put,
    path = "/v1/keys/{key}",
    tag = "keys",
    params(
        ("key" = String, Path, description = "The key, percent-encoded; any bytes.", min_length = 1),
        ("ttl_ms" = Option<i64>, Query, minimum = 1, maximum = 4_000_000_000_000_i64,
            description = "Remove the key after so many milliseconds."),
        ("If-Match" = Option<String>, Header, description = "Store only if the revision is one of these (* for any)."),
        ("If-None-Match" = Option<String>, Header, description = "Store only if the revision is none of these (* if there is no such key)."),
        ("Idempotency-Key" = Option<String>, Header,
            description = "The same request may be repeated under this key and is carried out once. \
            With it, a condition may be only `If-Match` with one tag, or `If-None-Match: *`."),
    ),
    request_body(content = RawBytes, content_type = "application/octet-stream", description = "The value."),
    responses(
        (status = 204, description = "Stored, as safely as Dictum-Durability or the bucket says.",
            headers(("ETag" = String, description = "The new revision, in quotes."))),
        (status = 408, description = "The body did not arrive in time.", body = Problem),
        (status = 412, description = "The condition is not met. Nothing was changed.", body = Problem),
        (status = 422, description = "The Idempotency-Key was used for another request, the condition is too complex to go with one, or the bucket is in memory only and cannot do what Dictum-Durability asks. Nothing was done.", body = Problem),
        (status = 413, description = "The value, or the key, is longer than the server stores.", body = Problem),
        (status = 507, description = "There is no room. Nothing was changed.", body = Problem),
    )
)]
pub(super) async fn put_key(
    State(api): State<Arc<Api>>,
    caller: Caller,
    place: Place,
    levels: Levels,
    request: Request,
) -> Response {
    let mut talk = Talk::new(&api, &caller, &place.bucket, levels.of_a_write());
    let outcome = put(&api, &mut talk, &place.key, request).await;
    talk.seal(outcome)
}

async fn put(api: &Api, talk: &mut Talk<'_>, key: &[u8], request: Request) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let query = Query::parse(&parts.uri, &["ttl_ms"])?;
    let ttl_ms = query.get("ttl_ms").map(parse_ttl).transpose()?;
    let conditions = Conditions::parse(&parts.headers)?;
    let once = once_of(&parts.headers, &conditions)?;
    let limit = api.options.value_bytes_max;
    let (value, _share) = read_body(&api.budget, &parts.headers, body, limit, limit).await?;
    let ttl_ms = ttl_ms.map(|ttl_ms| ttl_ms.to_string());
    let mut words: Vec<&[u8]> = vec![b"DICTUM.SET", key, &value];
    if let Some(ttl_ms) = &ttl_ms {
        words.extend([&b"PX"[..], ttl_ms.as_bytes()]);
    }
    match conditional(talk, key, &conditions, once, &words).await? {
        Value::Integer(revision @ 1..) => {
            Ok((StatusCode::NO_CONTENT, [(header::ETAG, etag(revision.unsigned_abs()))]).into_response())
        }
        other => Err(Problem::from_failure(strange("DICTUM.SET", &other), Access::Write)),
    }
}

/// Removes a key
///
/// Answers only when the removal is decided: a majority of the nodes has it, on disk unless the bucket is ephemeral.
#[utoipa::path(
    delete,
    path = "/v1/keys/{key}",
    tag = "keys",
    params(
        ("key" = String, Path, description = "The key, percent-encoded; any bytes.", min_length = 1),
        ("If-Match" = Option<String>, Header, description = "Remove only if the revision is one of these (* for any)."),
        ("If-None-Match" = Option<String>, Header, description = "Remove only if the revision is none of these."),
        ("Idempotency-Key" = Option<String>, Header,
            description = "The same request may be repeated under this key and is carried out once. \
            With it, a condition may be only `If-Match` with one tag."),
    ),
    responses(
        (status = 204, description = "Removed, as safely as Dictum-Durability or the bucket says."),
        (status = 404, description = "There is no such key.", body = Problem),
        (status = 412, description = "The condition is not met. Nothing was changed.", body = Problem),
        (status = 422, description = "The Idempotency-Key was used for another request, the condition is too complex to go with one, or the bucket is in memory only and cannot do what Dictum-Durability asks. Nothing was done.", body = Problem),
    )
)]
pub(super) async fn delete_key(
    State(api): State<Arc<Api>>,
    caller: Caller,
    place: Place,
    levels: Levels,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let mut talk = Talk::new(&api, &caller, &place.bucket, levels.of_a_write());
    let outcome = delete(&mut talk, &place.key, &uri, &headers).await;
    talk.seal(outcome)
}

async fn delete(talk: &mut Talk<'_>, key: &[u8], uri: &Uri, headers: &HeaderMap) -> Result<StatusCode, Problem> {
    Query::parse(uri, &[])?;
    let conditions = Conditions::parse(headers)?;
    let once = once_of(headers, &conditions)?;
    match conditional(talk, key, &conditions, once, &[b"DICTUM.DEL", key]).await? {
        Value::Integer(1) => Ok(StatusCode::NO_CONTENT),
        Value::Integer(0) if conditions.judge(None) == Verdict::Mismatch => Err(Problem::precondition_failed()),
        Value::Integer(0) => Err(no_such_key(key)),
        other => Err(Problem::from_failure(strange("DICTUM.DEL", &other), Access::Write)),
    }
}

/// Runs a write under its conditions and returns its reply, which is never nil: that is 412.
///
/// Where the conditions are more than `IFREVISION` can say, the present revision is judged first, and the write
/// insists on that revision; if somebody else was faster, the judgement is repeated.
async fn conditional(
    talk: &mut Talk<'_>,
    key: &[u8],
    conditions: &Conditions,
    once: Option<&[u8]>,
    words: &[&[u8]],
) -> Result<Value, Problem> {
    let exact = match conditions.plan() {
        Plan::Unconditional => None,
        Plan::Exactly(revision) => Some(revision),
        Plan::LookFirst => {
            for _ in 0..ATTEMPTS_MAX {
                let present = fetch(talk, key).await?.map(|(_, revision)| revision);
                if conditions.judge(present) != Verdict::Go {
                    return Err(Problem::precondition_failed());
                }
                if let Some(reply) = write_if(talk, once, words, Some(present.unwrap_or(0))).await? {
                    return Ok(reply);
                }
            }
            return Err(Problem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "BUSY",
                "Others keep changing this key. Nothing was done; try again.",
            ));
        }
    };
    write_if(talk, once, words, exact).await?.ok_or_else(Problem::precondition_failed)
}

/// A write that insists on a revision; `None` if the key has another.
async fn write_if(
    talk: &mut Talk<'_>,
    once: Option<&[u8]>,
    words: &[&[u8]],
    revision: Option<u64>,
) -> Result<Option<Value>, Problem> {
    let text = revision.map(|revision| revision.to_string());
    let mut words = words.to_vec();
    if let Some(text) = &text {
        words.extend([&b"IFREVISION"[..], text.as_bytes()]);
    }
    let reply = talk.write(once, &words).await?;
    Ok((!reply.is_null()).then_some(reply))
}

/// A key's value and revision.
pub(super) async fn fetch(talk: &mut Talk<'_>, key: &[u8]) -> Result<Option<(Vec<u8>, u64)>, Problem> {
    let reply = talk.read(&[b"DICTUM.GET", key]).await?;
    match reply {
        Value::Null | Value::NullArray => Ok(None),
        Value::Array(mut parts) => match (parts.pop(), parts.pop(), parts.is_empty()) {
            (Some(Value::Integer(revision)), Some(Value::Bulk(value)), true) => {
                Ok(Some((value, revision.unsigned_abs())))
            }
            _ => Err(Problem::internal("The node answered DICTUM.GET with something else than value and revision.")),
        },
        other => Err(Problem::from_failure(strange("DICTUM.GET", &other), Access::Read)),
    }
}

/// The answer for a key that is not there.
pub(super) fn no_such_key(key: &[u8]) -> Problem {
    Problem::not_found(format!("There is no key {}.", shown(key)))
}

fn parse_ttl(text: &[u8]) -> Result<u64, Problem> {
    const TTL_MS_MAX: u64 = 4_000_000_000_000;
    std::str::from_utf8(text)
        .ok()
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|text| text.parse().ok())
        .filter(|ttl_ms| (1..=TTL_MS_MAX).contains(ttl_ms))
        .ok_or_else(|| Problem::bad_request(format!("ttl_ms must be a number of milliseconds from 1 to {TTL_MS_MAX}.")))
}

/// The idempotency key, where the conditions can be repeated as well: those that a single command can check.
fn once_of<'a>(headers: &'a HeaderMap, conditions: &Conditions) -> Result<Option<&'a [u8]>, Problem> {
    let once = idempotency_key(headers)?;
    if once.is_some() && conditions.plan() == Plan::LookFirst {
        return Err(Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "CONDITION_TOO_COMPLEX",
            "With Idempotency-Key, a condition may be only If-Match with one tag, or If-None-Match: *.",
        ));
    }
    Ok(once)
}
