//! `/v1/audit`: the audit trail of the node that answers; and what HTTP itself tells that trail.
//!
//! The node does not see who asks over HTTP: logins, failures and orders that come this way are told here, with the address of the client.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::Response;
use base::Time;
use node::AuditAllowance;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::Semaphore;
use utoipa::ToSchema;

use super::Api;
use super::login::Caller;
use super::place::Credentials;
use super::problem::Problem;
use super::request::Query;
use super::web_pages::Remote;
use crate::audit::{self, Audit, Entry, Link, hex, pages};

/// Records of a page, unless it is said how many.
const PAGE_RECORDS: usize = 100;
const PAGE_RECORDS_MAX: usize = 1000;
/// So many pages are read at a time; others wait.
const READERS_MAX: usize = 2;
/// Most bytes of a text of a client in a record.
const TEXT_BYTES_MAX: usize = 256;
/// How often it is told what was left out.
const REPORT_EVERY: Duration = Duration::from_secs(10);

/// A record that others can be compared with: to be noted on another machine.
#[derive(Serialize, ToSchema)]
pub(super) struct Noted {
    /// Its number.
    sequence: u64,
    /// SHA-256 of its line, in hexadecimal digits.
    hash: String,
}

/// A page of the audit trail.
#[derive(Serialize, ToSchema)]
pub(super) struct AuditPage {
    /// The node whose trail it is.
    node: String,
    /// The records, each exactly as it stands in the node's file.
    #[schema(value_type = Vec<Object>)]
    records: Vec<Box<RawValue>>,
    /// The number of the last of them: `after` for the next page. Left out if there are no further records.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<u64>,
    /// The newest record.
    last: Noted,
    /// The newest checkpoint that is on disk. Left out if there is none yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint: Option<Noted>,
    /// Whether the last attempt to write to the trail has failed.
    is_failing: bool,
    /// Events since the start of the node that found no room, because there were too many or the disk has failed.
    left_out: u64,
}

fn noted(link: Link) -> Noted {
    Noted { sequence: link.sequence, hash: hex(&link.name) }
}

/// The audit trail of this node
///
/// Who has logged in, who was refused, what was ordered: docs/security.md. Each node has a trail of its own. Only for users who may do everything.
#[utoipa::path(
    get,
    path = "/v1/audit",
    tag = "operation",
    params(
        ("after" = Option<u64>, Query, description = "The records behind the one with this number. Left out: from the first one that is there."),
        ("limit" = Option<u64>, Query, description = "How many at the most: 1 to 1000. Left out: 100."),
    ),
    responses((status = 200, description = "Some of the records, in order.", body = AuditPage))
)]
pub(super) async fn audit(State(api): State<Arc<Api>>, caller: Caller, uri: Uri) -> Result<Json<AuditPage>, Problem> {
    let may = match (&caller, api.options.logins.get()) {
        (Caller::User(name), Some(logins)) => logins.may_everything(name),
        // Until somebody has changed users there is `default` alone.
        (Caller::User(_), None) => true,
        (Caller::Process, _) => false,
    };
    if !may {
        let message = "The audit trail is for users who may do everything (+@all ~* &* allbuckets).";
        return Err(Problem::new(StatusCode::FORBIDDEN, "NOPERM", message));
    }
    // The node may know better by now who may do what, or that it does not know it.
    api.read(&caller, &[b"ACL", b"LOG", b"0"]).await?;
    let query = Query::parse(&uri, &["after", "limit"])?;
    let number = |name: &str| -> Result<Option<u64>, Problem> {
        let Some(value) = query.get(name) else { return Ok(None) };
        let number = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
        number.map(Some).ok_or_else(|| Problem::bad_request(format!("The query parameter {name:?} is a whole number.")))
    };
    let after = number("after")?.unwrap_or(0);
    let most = match number("limit")? {
        None => PAGE_RECORDS,
        Some(most) => {
            usize::try_from(most).ok().filter(|most| (1..=PAGE_RECORDS_MAX).contains(most)).ok_or_else(|| {
                Problem::bad_request(format!("The query parameter \"limit\" is 1 to {PAGE_RECORDS_MAX}."))
            })?
        }
    };
    let auditor = &api.auditor;
    let _place =
        auditor.readers.acquire().await.map_err(|_| Problem::internal("The audit trail is not read any more."))?;
    let folder = auditor.audit.folder().to_path_buf();
    let read = tokio::task::spawn_blocking(move || pages::read(&folder, after, most)).await;
    let page = read.map_err(|_| Problem::internal("The audit trail was not read to its end."))?;
    let page = page.map_err(|error| Problem::internal(format!("The audit trail cannot be read: {error}.")))?;
    let next = page.lines.last().map(|(sequence, _)| *sequence).filter(|_| page.has_more);
    let wrong =
        |_| Problem::internal("A line of the audit trail is no JSON: run dictum audit verify on the node's folder.");
    let records = page.lines.into_iter().map(|(_, line)| RawValue::from_string(line));
    let records = records.collect::<Result<_, _>>().map_err(wrong)?;
    let figures = auditor.audit.figures();
    let (last, checkpoint) = figures.state();
    Ok(Json(AuditPage {
        node: api.options.node.clone(),
        records,
        next,
        last: noted(last),
        checkpoint: checkpoint.map(noted),
        is_failing: figures.is_failing(),
        left_out: figures.left_out(),
    }))
}

/// The records that HTTP makes for the audit trail.
pub(super) struct Auditor {
    audit: Audit,
    readers: Semaphore,
    begun: Instant,
    limits: Mutex<Limits>,
}

/// As the node's, for the same reason.
#[derive(Default)]
struct Limits {
    logins: AuditAllowance,
    failures: AuditAllowance,
    orders: AuditAllowance,
    reported: Time,
}

/// The user that a request has logged in as, for its records.
#[derive(Clone)]
struct Who {
    user: String,
    client: String,
}

fn shown(bytes: &[u8]) -> String {
    let quoted = wire::quote(&bytes[..bytes.len().min(TEXT_BYTES_MAX)]);
    quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(&quoted).to_owned()
}

/// The user and the address of a client, as they stand in records.
fn who(shown_by: Option<&Credentials>, remote: Option<Remote>) -> Who {
    let user = shown_by.map(|shown| shown.user.as_slice()).filter(|user| !user.is_empty()).unwrap_or(b"default");
    let client = remote.map(|remote| remote.0.to_string()).unwrap_or_default();
    Who { user: shown(user), client: format!("http:{client}") }
}

impl Auditor {
    pub(super) fn new(audit: Audit) -> Auditor {
        Auditor { audit, readers: Semaphore::new(READERS_MAX), begun: Instant::now(), limits: Mutex::default() }
    }

    pub(super) fn trail(&self) -> &Audit {
        &self.audit
    }

    fn tell(&self, kind: &'static str, fields: Vec<(&'static str, serde_json::Value)>) {
        let now = Time::default() + self.begun.elapsed();
        let mut limits = self.limits.lock().unwrap_or_else(PoisonError::into_inner);
        let passes = match kind {
            "login" => limits.logins.take(now),
            "login-failed" => limits.failures.take(now),
            _ => limits.orders.take(now),
        };
        if passes {
            self.audit.tell(Entry::new(kind, fields));
        }
        if now.since(limits.reported) >= REPORT_EVERY {
            limits.reported = now;
            let Limits { logins, failures, orders, .. } = &mut *limits;
            for (of, allowance) in [("login", logins), ("login-failed", failures), ("order", orders)] {
                if let Some(count) = allowance.take_left_out() {
                    let fields = vec![("of", of.into()), ("count", count.into()), ("client", "http".into())];
                    self.audit.tell(Entry::new(audit::LEFT_OUT, fields));
                }
            }
        }
    }

    /// A connection has shown a password for the first time.
    pub(super) fn logged_in(&self, shown: Option<&Credentials>, remote: Option<Remote>) {
        let Who { user, client } = who(shown, remote);
        self.tell("login", vec![("user", user.into()), ("client", client.into())]);
    }

    /// A password was wrong, or the name of no user.
    pub(super) fn login_failed(&self, shown: Option<&Credentials>, remote: Option<Remote>) {
        let Who { user, client } = who(shown, remote);
        self.tell("login-failed", vec![("user", user.into()), ("client", client.into())]);
    }
}

/// True if a request is an order about buckets or nodes.
fn is_order(method: &Method, path: &str) -> bool {
    let changes = !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
    changes && (path == "/v1/buckets/{name}" || path == "/v1/nodes" || path.starts_with("/v1/nodes/"))
}

/// Tells the trail of orders, with their outcome.
pub(super) async fn note_orders(State(api): State<Arc<Api>>, request: Request, next: Next) -> Response {
    let is_told =
        request.extensions().get::<MatchedPath>().is_some_and(|path| is_order(request.method(), path.as_str()));
    if !is_told {
        return next.run(request).await;
    }
    let remote = request.extensions().get::<Remote>().copied();
    let Who { mut user, client } = who(None, remote);
    if let Some(Caller::User(name)) = request.extensions().get::<Caller>() {
        user = shown(name);
    }
    let words = [request.method().as_str().to_owned(), shown(request.uri().to_string().as_bytes())];
    let response = next.run(request).await;
    let status: StatusCode = response.status();
    let outcome = if status.is_success() { "ok".to_owned() } else { status.to_string() };
    api.auditor.tell(
        "order",
        vec![
            ("user", user.into()),
            ("client", client.into()),
            ("words", words.to_vec().into()),
            ("outcome", outcome.into()),
        ],
    );
    response
}
