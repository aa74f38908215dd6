//! Every answer that is not a success: `{"code": "…", "message": "…"}` with a fitting status.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::client::Failure;

/// How the node begins to say that there is no bucket of a name.
pub(super) const NO_SUCH_BUCKET: &str = "ERR there is no bucket";

/// How it begins to say so where there was one.
const DROPPED: &[&str] = &["ERR the selected bucket is not there", "ERR the bucket was dropped"];

/// What went wrong.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(super) struct Problem {
    #[serde(skip)]
    #[schema(ignore)]
    pub(super) status: StatusCode,
    /// A word in capitals for programs, such as `NOT_FOUND` or `CLUSTERDOWN`.
    #[schema(example = "CLUSTERDOWN")]
    pub(super) code: String,
    /// A sentence for people.
    #[schema(example = "This node knows no leader. Nothing was done; try again.")]
    pub(super) message: String,
}

/// Whether a command may change something: then a lost answer leaves its outcome open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Access {
    /// It only looks.
    Read,
    /// It may change keys.
    Write,
}

impl Problem {
    pub(super) fn new(status: StatusCode, code: &str, message: impl Into<String>) -> Problem {
        Problem { status, code: code.to_owned(), message: message.into() }
    }

    /// 400.
    pub(super) fn bad_request(message: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, "BAD_REQUEST", message)
    }

    /// 404.
    pub(super) fn not_found(message: impl Into<String>) -> Problem {
        Problem::new(StatusCode::NOT_FOUND, "NOT_FOUND", message)
    }

    /// 412.
    pub(super) fn precondition_failed() -> Problem {
        Problem::new(
            StatusCode::PRECONDITION_FAILED,
            "PRECONDITION_FAILED",
            "The key's revision does not meet the request's condition. Nothing was changed.",
        )
    }

    /// 413.
    pub(super) fn too_large(limit: usize) -> Problem {
        Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "TOO_LARGE",
            format!("The value is longer than this server stores, which is {limit} bytes."),
        )
    }

    /// 500: the node answered what it never should.
    pub(super) fn internal(message: impl Into<String>) -> Problem {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL", message)
    }

    /// What a command's failure means over HTTP.
    pub(super) fn from_failure(failure: Failure, access: Access) -> Problem {
        match failure {
            Failure::Refused(text) => Problem::from_error(&text),
            Failure::Busy => Problem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "BUSY",
                "Too many requests are under way. Nothing was done; try again.",
            ),
            Failure::Unanswered if access == Access::Write => Problem::new(
                StatusCode::GATEWAY_TIMEOUT,
                "UNKNOWN",
                "The node did not answer in time: the write may or may not be done. \
                 Repeat it with an Idempotency-Key, or read the key.",
            ),
            Failure::Unanswered => Problem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "CLUSTERDOWN",
                "The node did not answer in time. Nothing was done; try again.",
            ),
            Failure::Strange(what) => Problem::internal(what),
        }
    }

    /// An error of the node: its code decides the status, its words stay.
    fn from_error(text: &str) -> Problem {
        let (code, message) = text.split_once(' ').unwrap_or((text, ""));
        if text.starts_with(NO_SUCH_BUCKET) || DROPPED.iter().any(|start| text.starts_with(start)) {
            return Problem::not_found(message);
        }
        let status = match code {
            "CLUSTERDOWN" | "LOADING" | "TRYAGAIN" | "BUSY" | "MASTERDOWN" => StatusCode::SERVICE_UNAVAILABLE,
            "UNKNOWN" | "NOTALL" => StatusCode::GATEWAY_TIMEOUT,
            "OOM" | "MISCONF" => StatusCode::INSUFFICIENT_STORAGE,
            "WRONGTYPE" => StatusCode::CONFLICT,
            "NOAUTH" | "WRONGPASS" => StatusCode::UNAUTHORIZED,
            "NOPERM" => StatusCode::FORBIDDEN,
            "REUSED" => StatusCode::UNPROCESSABLE_ENTITY,
            "ERR" if message.starts_with("the token") || message.starts_with("that is no token") => {
                return Problem::new(StatusCode::CONFLICT, "FALSE_TOKEN", message);
            }
            "ERR" if message.starts_with("an ephemeral bucket is in memory only") => {
                return Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "CONTRADICTION", message);
            }
            "ERR" if message.starts_with("key is longer than") => {
                return Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "TOO_LARGE", message);
            }
            "ERR" if message.contains("exceeds maximum allowed size") || message.contains("too large") => {
                StatusCode::PAYLOAD_TOO_LARGE
            }
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Problem::new(status, code, message)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status, axum::Json(&self)).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(
                header::WWW_AUTHENTICATE,
                HeaderValue::from_static("Basic realm=\"dictum\", charset=\"UTF-8\""),
            );
        }
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
