//! `/v1/buckets`: buckets are listed, created, changed and dropped.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use base::limits::{PARTITIONS_MAX, VALUE_BYTES_MAX};
use serde::{Deserialize, Deserializer};
use utoipa::openapi::schema::AdditionalProperties;
use utoipa::openapi::{ObjectBuilder, RefOr, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use super::Api;
use super::client::{Failure, strange};
use super::login::Caller;
use super::place::{BUCKETS, BucketName};
use super::problem::{Access, Problem};
use super::request::{Query, read_body};
use crate::bucket::{BucketInfo, CONSISTENCIES, DURABILITIES, KINDS, POLICIES};

/// Longest body with settings, in bytes.
const BODY_BYTES_MAX: usize = 16 * 1024;

/// Largest quota, in bytes: as the node has it.
const QUOTA_MAX: u64 = 1 << 50;

/// Longest time-to-live in seconds, a thousand years: as the node has it.
const TTL_SECONDS_MAX: u64 = 1000 * 366 * 24 * 3600;

/// Lists all buckets
#[utoipa::path(
    get,
    path = "/v1/buckets",
    tag = "buckets",
    responses((status = 200, description = "All of them, in the order of their numbers.", body = Vec<BucketInfo>))
)]
pub(super) async fn list_buckets(
    State(api): State<Arc<Api>>,
    caller: Caller,
    uri: Uri,
) -> Result<Json<Vec<BucketInfo>>, Problem> {
    Query::parse(&uri, &[])?;
    let reply = api.read(&caller, &[b"DICTUM.BUCKET", b"LIST"]).await?;
    let buckets = BucketInfo::read_list(&reply);
    buckets.map(Json).ok_or_else(|| Problem::from_failure(strange("DICTUM.BUCKET LIST", &reply), Access::Read))
}

/// Reads the settings of a bucket
#[utoipa::path(
    get,
    path = "/v1/buckets/{name}",
    tag = "buckets",
    params(("name" = String, Path, description = "The bucket's name.")),
    responses(
        (status = 200, description = "The bucket.", body = BucketInfo),
        (status = 404, description = "There is no such bucket.", body = Problem),
    )
)]
pub(super) async fn get_bucket(
    State(api): State<Arc<Api>>,
    caller: Caller,
    uri: Uri,
) -> Result<Json<BucketInfo>, Problem> {
    let (name, _) = BucketName::in_path(&uri)?;
    Query::parse(&uri, &[])?;
    let reply = api.read(&caller, &[b"DICTUM.BUCKET", b"SHOW", name.as_bytes()]).await?;
    let bucket = BucketInfo::read(&reply);
    bucket.map(Json).ok_or_else(|| Problem::from_failure(strange("DICTUM.BUCKET SHOW", &reply), Access::Read))
}

/// Creates a bucket
///
/// What is not said has its default. A cache needs a quota; the durability of an ephemeral bucket is `majority` (its default) or `all`.
#[utoipa::path(
    put,
    path = "/v1/buckets/{name}",
    tag = "buckets",
    params(("name" = String, Path, description = "The bucket's name.")),
    request_body(content = NewBucket, content_type = "application/json"),
    responses(
        (status = 201, description = "Created: decided by a majority and on its disks.",
            headers(("Location" = String, description = "Where the bucket is."))),
        (status = 408, description = "The body did not arrive in time.", body = Problem),
        (status = 409, description = "There is a bucket of this name already, or there are as many as possible.", body = Problem),
        (status = 422, description = "The settings contradict each other. Nothing was done.", body = Problem),
    )
)]
pub(super) async fn put_bucket(
    State(api): State<Arc<Api>>,
    caller: Caller,
    request: Request,
) -> Result<Response, Problem> {
    let (name, settings) = read_settings(&api, request).await?;
    order(&api, &caller, b"CREATE", &name, &settings.words()).await?;
    let location = header::HeaderValue::try_from(format!("{BUCKETS}{}", name.as_str()));
    let location = location.expect("a bucket's name is a header's value");
    Ok((StatusCode::CREATED, [(header::LOCATION, location)]).into_response())
}

/// Changes settings of a bucket
///
/// What is not said stays. The kind cannot be changed.
#[utoipa::path(
    patch,
    path = "/v1/buckets/{name}",
    tag = "buckets",
    params(("name" = String, Path, description = "The bucket's name.")),
    request_body(content = BucketChange, content_type = "application/json"),
    responses(
        (status = 204, description = "Changed: decided by a majority and on its disks."),
        (status = 404, description = "There is no such bucket.", body = Problem),
        (status = 408, description = "The body did not arrive in time.", body = Problem),
        (status = 422, description = "The settings would contradict each other. Nothing was changed.", body = Problem),
    )
)]
pub(super) async fn patch_bucket(
    State(api): State<Arc<Api>>,
    caller: Caller,
    request: Request,
) -> Result<StatusCode, Problem> {
    let (name, settings) = read_settings(&api, request).await?;
    if settings.kind.is_some() {
        return Err(Problem::bad_request("The kind of a bucket cannot be changed. Leave \"kind\" out."));
    }
    let words = settings.words();
    if words.is_empty() {
        return Err(Problem::bad_request("There is nothing to change in the body."));
    }
    order(&api, &caller, b"SET", &name, &words).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Drops a bucket with all its keys
///
/// For ever; so the name has to be said twice.
#[utoipa::path(
    delete,
    path = "/v1/buckets/{name}",
    tag = "buckets",
    params(
        ("name" = String, Path, description = "The bucket's name."),
        ("confirm" = Option<String>, Query, description = "The bucket's name once more."),
    ),
    responses(
        (status = 204, description = "Dropped: decided by a majority and on its disks."),
        (status = 404, description = "There is no such bucket.", body = Problem),
        (status = 409, description = "The default bucket cannot be dropped.", body = Problem),
        (status = 428, description = "The parameter `confirm` is not the bucket's name. Nothing was done.", body = Problem),
    )
)]
pub(super) async fn delete_bucket(
    State(api): State<Arc<Api>>,
    caller: Caller,
    uri: Uri,
) -> Result<StatusCode, Problem> {
    let (name, _) = BucketName::in_path(&uri)?;
    let query = Query::parse(&uri, &["confirm"])?;
    if query.get("confirm") != Some(name.as_bytes()) {
        let name = name.as_str();
        return Err(Problem::new(
            StatusCode::PRECONDITION_REQUIRED,
            "CONFIRMATION_REQUIRED",
            format!("Dropping a bucket removes all its keys for ever. If that is meant, say ?confirm={name}."),
        ));
    }
    // What was created at another node a moment ago is known here once this is answered.
    api.read(&caller, &[b"DICTUM.BUCKET", b"SHOW", name.as_bytes()]).await?;
    order(&api, &caller, b"DROP", &name, &[b"CONFIRM".to_vec()]).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Gives the node an order that changes the list of buckets.
async fn order(api: &Api, caller: &Caller, action: &[u8], name: &BucketName, words: &[Vec<u8>]) -> Result<(), Problem> {
    let mut order: Vec<&[u8]> = vec![b"DICTUM.BUCKET", action, name.as_bytes()];
    order.extend(words.iter().map(Vec::as_slice));
    api.pool.call(caller, &order).await.map(drop).map_err(refused)
}

/// What it means that an order was not carried out.
fn refused(failure: Failure) -> Problem {
    match &failure {
        Failure::Unanswered => Problem::new(
            StatusCode::GATEWAY_TIMEOUT,
            "UNKNOWN",
            "The node did not answer in time: it may or may not be done. GET /v1/buckets tells.",
        ),
        Failure::Refused(text) => {
            let Some(message) = text.strip_prefix("ERR ").filter(|message| !message.starts_with("there is no bucket"))
            else {
                return Problem::from_failure(failure, Access::Write);
            };
            let conflicts = ["there is a bucket", "there are", "the default bucket"];
            if conflicts.iter().any(|start| message.starts_with(start)) {
                Problem::new(StatusCode::CONFLICT, "CONFLICT", message)
            } else {
                // Each value by itself was looked at before.
                Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "CONTRADICTION", message)
            }
        }
        _ => Problem::from_failure(failure, Access::Write),
    }
}

/// Reads a request whose body has settings.
async fn read_settings(api: &Api, request: Request) -> Result<(BucketName, Settings), Problem> {
    let (parts, body) = request.into_parts();
    let (name, _) = BucketName::in_path(&parts.uri)?;
    Query::parse(&parts.uri, &[])?;
    let (body, _share) =
        read_body(&api.budget, &parts.headers, body, BODY_BYTES_MAX, BODY_BYTES_MAX).await.map_err(|problem| {
            match problem.status {
                StatusCode::PAYLOAD_TOO_LARGE => {
                    Problem { message: "Settings are not that long.".to_owned(), ..problem }
                }
                _ => problem,
            }
        })?;
    let settings = Settings::parse(&body).map_err(Problem::bad_request)?;
    Ok((name, settings))
}

/// The settings in a body. One that is there is no null.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    #[serde(deserialize_with = "present")]
    kind: Option<String>,
    #[serde(deserialize_with = "present")]
    partitions: Option<Whole>,
    #[serde(deserialize_with = "present")]
    quota: Option<Whole>,
    #[serde(deserialize_with = "present")]
    policy: Option<String>,
    #[serde(deserialize_with = "present")]
    durability: Option<String>,
    #[serde(deserialize_with = "present")]
    consistency: Option<String>,
    #[serde(deserialize_with = "present")]
    ttl: Option<Whole>,
    #[serde(deserialize_with = "present")]
    value_bytes_max: Option<Whole>,
    #[serde(deserialize_with = "present")]
    work_max: Option<Whole>,
}

/// A whole number, also when written `3600.0`: to JSON Schema that is an integer.
#[derive(Clone, Copy)]
struct Whole(u64);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Whole, D::Error> {
        // Up to here, floating-point numbers count one by one.
        const EXACT_MAX: f64 = (1_u64 << 53) as f64;
        let number = serde_json::Number::deserialize(from)?;
        let whole = |number: &f64| number.fract() == 0.0 && (0.0..=EXACT_MAX).contains(number);
        let found = number.as_u64().or_else(|| number.as_f64().filter(whole).map(|number| number as u64));
        found.map(Whole).ok_or_else(|| serde::de::Error::custom("a whole number from 0 is expected"))
    }
}

fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

impl Settings {
    fn parse(body: &[u8]) -> Result<Settings, String> {
        // Serde would take an array for the object's fields in their order.
        if body.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
            return Err("The body must be a JSON object with settings; {} for the defaults.".to_owned());
        }
        let settings: Settings =
            serde_json::from_slice(body).map_err(|error| format!("The body is not an object of settings: {error}."))?;
        let one_of = |field: &str, value: &Option<String>, names: &[&str]| match value {
            Some(value) if !names.contains(&value.as_str()) => {
                Err(format!("The field \"{field}\" must be one of {}.", names.join(", ")))
            }
            _ => Ok(()),
        };
        one_of("kind", &settings.kind, &KINDS)?;
        one_of("policy", &settings.policy, &POLICIES)?;
        one_of("durability", &settings.durability, &DURABILITIES)?;
        one_of("consistency", &settings.consistency, &CONSISTENCIES)?;
        let at_most = |field: &str, value: Option<Whole>, most: u64| match value {
            Some(Whole(value)) if value > most => Err(format!("The field \"{field}\" must be at most {most}.")),
            _ => Ok(()),
        };
        at_most("partitions", settings.partitions, u64::from(PARTITIONS_MAX))?;
        at_most("quota", settings.quota, QUOTA_MAX)?;
        at_most("ttl", settings.ttl, TTL_SECONDS_MAX)?;
        at_most("value_bytes_max", settings.value_bytes_max, VALUE_BYTES_MAX as u64)?;
        Ok(settings)
    }

    /// As `DICTUM.BUCKET` takes them: names and values in turn.
    fn words(self) -> Vec<Vec<u8>> {
        let named = [
            ("KIND", self.kind),
            ("PARTITIONS", self.partitions.map(|Whole(number)| number.to_string())),
            ("QUOTA", self.quota.map(|Whole(number)| number.to_string())),
            ("POLICY", self.policy),
            ("DURABILITY", self.durability),
            ("CONSISTENCY", self.consistency),
            ("TTL", self.ttl.map(|Whole(number)| number.to_string())),
            ("VALUE-BYTES-MAX", self.value_bytes_max.map(|Whole(number)| number.to_string())),
            ("WORK-MAX", self.work_max.map(|Whole(number)| number.to_string())),
        ];
        named.into_iter().filter_map(|(name, value)| Some([name.into(), value?.into_bytes()])).flatten().collect()
    }
}

/// The schema of the settings of a bucket that is made.
pub(super) struct NewBucket;

impl PartialSchema for NewBucket {
    fn schema() -> RefOr<Schema> {
        let kind =
            choice("Where its data is: on disk, in the memory of all replicas only, or on disk and bounded.", &KINDS);
        settings_schema()
            .property("kind", kind.default(Some("persistent".into())))
            .property(
                "partitions",
                ObjectBuilder::new()
                    .schema_type(Type::Integer)
                    .description(Some("How many partitions it is cut into; each has a leader of its own."))
                    .minimum(Some(1_u64))
                    .maximum(Some(u64::from(PARTITIONS_MAX)))
                    .default(Some(1.into())),
            )
            .examples([serde_json::json!({"kind": "cache", "quota": 67_108_864, "ttl": 3600})])
            .into()
    }
}

impl ToSchema for NewBucket {}

/// The schema of what can be changed of a bucket.
pub(super) struct BucketChange;

impl PartialSchema for BucketChange {
    fn schema() -> RefOr<Schema> {
        settings_schema().min_properties(Some(1)).examples([serde_json::json!({"ttl": 3600})]).into()
    }
}

impl ToSchema for BucketChange {}

fn choice(text: &str, names: &[&str]) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String).description(Some(text)).enum_values(Some(names.to_vec()))
}

fn settings_schema() -> ObjectBuilder {
    let number = |text: &str, most: u64| {
        let least = ObjectBuilder::new().schema_type(Type::Integer).description(Some(text)).minimum(Some(0_u64));
        least.maximum(Some(most))
    };
    ObjectBuilder::new()
        .schema_type(Type::Object)
        .property(
            "quota",
            number("Bytes of memory on each node; 0: no limit of its own. A cache needs one.", QUOTA_MAX),
        )
        .property("policy", choice("What a cache gives up first.", &POLICIES))
        .property("durability", choice("What must be true before a write is answered.", &DURABILITIES))
        .property("consistency", choice("What a read sees.", &CONSISTENCIES))
        .property(
            "ttl",
            number("Seconds after which keys expire that are made without a deadline; 0: never.", TTL_SECONDS_MAX),
        )
        .property("value_bytes_max", number("Longest value in bytes; 0: as the node says.", VALUE_BYTES_MAX as u64))
        .additional_properties(Some(AdditionalProperties::<Schema>::FreeForm(false)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(body: &str) -> Option<String> {
        let words = Settings::parse(body.as_bytes()).ok()?.words();
        Some(words.iter().map(|word| String::from_utf8_lossy(word)).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn what_settings_may_be() {
        assert_eq!(words(" {}").as_deref(), Some(""));
        assert_eq!(
            words(r#"{"ttl":60,"kind":"cache","quota":1024,"policy":"lru","durability":"all","value_bytes_max":0}"#)
                .as_deref(),
            Some("KIND cache QUOTA 1024 POLICY lru DURABILITY all TTL 60 VALUE-BYTES-MAX 0")
        );
        assert_eq!(words(r#"{"partitions":64}"#).as_deref(), Some("PARTITIONS 64"));
        assert_eq!(words(r#"{"quota":-0.0,"ttl":36e2}"#).as_deref(), Some("QUOTA 0 TTL 3600"));
        for wrong in [
            "",
            "[]",
            "{",
            r#"{"ttl":1e300}"#,
            r#"{"partitions":1025}"#,
            r#"{"ttl":true}"#,
            r#"{"kind":"odd"}"#,
            r#"{"kind":null}"#,
            r#"{"policy":"LRU"}"#,
            r#"{"quota":"64MiB"}"#,
            r#"{"quota":-1}"#,
            r#"{"quota":1.5}"#,
            r#"{"quota":1125899906842625}"#,
            r#"{"ttl":31622400001}"#,
            r#"{"value_bytes_max":536870913}"#,
            r#"{"ttl":1,"ttl":2}"#,
            r#"{"color":"red"}"#,
        ] {
            assert_eq!(words(wrong), None, "{wrong}");
        }
    }
}
