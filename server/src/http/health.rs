//! Whether the node lives, whether it can serve, and what it knows of the cluster.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::{Extension, Json};
use serde::Serialize;
use utoipa::ToSchema;
use wire::Value;

use super::Api;
use super::client::strange;
use super::login::Caller;
use super::problem::{Access, Problem};
use super::request::Query;
use super::web_pages::UnderForeignName;
use crate::status::ClusterStatus;

/// How long a probe may take: those who ask give up after a few seconds.
const PROBE_PATIENCE: Duration = Duration::from_secs(2);

/// A probe's good answer.
#[derive(Serialize, ToSchema)]
pub(super) struct Health {
    /// Always `ok`.
    status: &'static str,
    /// The node's name; empty where the request is to a host that the node does not know as itself.
    node: String,
    /// A sentence for people.
    message: String,
}

/// Whether the node's loop turns
///
/// Says nothing about the cluster. A process that does not answer this should be restarted.
#[utoipa::path(
    get,
    path = "/livez",
    tag = "operation",
    responses((status = 200, description = "It turns.", body = Health))
)]
pub(super) async fn livez(
    State(api): State<Arc<Api>>,
    foreign: Option<Extension<UnderForeignName>>,
    uri: Uri,
) -> Result<Json<Health>, Problem> {
    Query::parse(&uri, &[])?;
    let reply = api.pool.call_within(&Caller::Process, PROBE_PATIENCE, &[b"PING"]).await;
    let found = reply.map_err(|failure| Problem::from_failure(failure, Access::Read));
    api.health(foreign.is_some(), found.map(|_| "The node answers.".to_owned()))
}

/// Whether the node can serve requests
///
/// It can if it is not recovering, knows a leader that it can reach, and takes writes. If it takes none that grow, for want of room on a disk, the code
/// is `DISK`; `exclude=disk` is for those who would send it reads, and what frees room, all the same.
#[utoipa::path(
    get,
    path = "/readyz",
    tag = "operation",
    params(("exclude" = Option<String>, Query, description = "`disk`: a disk with too little room does not count.")),
    responses((status = 200, description = "It can.", body = Health))
)]
pub(super) async fn readyz(
    State(api): State<Arc<Api>>,
    foreign: Option<Extension<UnderForeignName>>,
    uri: Uri,
) -> Result<Json<Health>, Problem> {
    let query = Query::parse(&uri, &["exclude"])?;
    let spares_disks = match query.get("exclude") {
        None => false,
        Some(b"disk") => true,
        Some(_) => return Err(Problem::bad_request("All that can be excluded is `disk`.")),
    };
    let status = fetch_status(&api, &Caller::Process, PROBE_PATIENCE).await;
    api.health(foreign.is_some(), status.and_then(|status| readiness(&status, spares_disks)))
}

/// Says in a sentence for people that the node can serve, or why it cannot.
fn readiness(status: &ClusterStatus, spares_disks: bool) -> Result<String, Problem> {
    let unready = |message| Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "CLUSTERDOWN", message));
    if !status.founding.is_empty() {
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "CLUSTERDOWN", format!("{}.", status.founding)));
    }
    if status.me().is_some_and(|me| me.role == "recovering") {
        return unready("This node recovers what it missed and does not serve yet.");
    }
    match &status.leader {
        Some(_) if status.has_leader() && !status.refuses.is_empty() && !spares_disks => {
            let why = status.refuses.trim_start_matches("MISCONF ").to_owned();
            Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "DISK", why))
        }
        Some(leader) if status.has_leader() && !status.lacking.is_empty() => {
            // It serves: that nothing more may fail is for people.
            Ok(format!("{leader} leads. But {}.", status.lacking))
        }
        Some(leader) if status.has_leader() => Ok(format!("{leader} leads.")),
        Some(_) => unready("This node cannot reach the leader that it knows."),
        None => unready("This node knows no leader."),
    }
}

/// What the node knows of the cluster
#[utoipa::path(
    get,
    path = "/v1/status",
    tag = "operation",
    responses((status = 200, description = "Nodes, leader, positions.", body = ClusterStatus))
)]
pub(super) async fn status(
    State(api): State<Arc<Api>>,
    caller: Caller,
    uri: Uri,
) -> Result<Json<ClusterStatus>, Problem> {
    Query::parse(&uri, &[])?;
    fetch_status(&api, &caller, api.pool.patience()).await.map(Json)
}

/// Asks the node for its status.
pub(super) async fn fetch_status(api: &Api, caller: &Caller, patience: Duration) -> Result<ClusterStatus, Problem> {
    let reply = api.pool.call_within(caller, patience, &[b"DICTUM.STATUS"]).await;
    let reply = reply.map_err(|failure| Problem::from_failure(failure, Access::Read))?;
    let Some(json) = reply.as_bytes() else {
        return Err(Problem::from_failure(strange("DICTUM.STATUS", &reply), Access::Read));
    };
    ClusterStatus::parse(json).map_err(|error| Problem::internal(format!("DICTUM.STATUS cannot be read: {error}.")))
}

/// Asks the node for `INFO`.
pub(super) async fn fetch_info(api: &Api, caller: &Caller) -> Result<String, Problem> {
    let reply = api.read(caller, &[b"INFO", b"everything"]).await?;
    match &reply {
        Value::Bulk(text) | Value::Verbatim { text, .. } => Ok(String::from_utf8_lossy(text).into_owned()),
        other => Err(Problem::from_failure(strange("INFO", other), Access::Read)),
    }
}

impl Api {
    /// The answer to a probe. Under a foreign name it has no names in it, and nothing else that tells of the cluster.
    fn health(&self, is_foreign: bool, found: Result<String, Problem>) -> Result<Json<Health>, Problem> {
        let node = if is_foreign { String::new() } else { self.options.node.clone() };
        match found {
            Ok(message) => {
                let message = if is_foreign { "It serves.".to_owned() } else { message };
                Ok(Json(Health { status: "ok", node, message }))
            }
            Err(problem) if is_foreign => {
                let message = "It does not serve. The reason is told to those who ask by a name of this node.";
                Err(Problem { message: message.to_owned(), ..problem })
            }
            Err(problem) => Err(problem),
        }
    }
}
