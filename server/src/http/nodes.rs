//! `/v1/nodes`: nodes are listed, drained and let serve again.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, Uri};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Api;
use super::client::{Failure, strange};
use super::login::Caller;
use super::problem::{Access, Problem};
use super::request::{Query, read_body};
use crate::nodes::NodeInfo;
use crate::nodes::settings::Settings;

/// Longest body, in bytes.
const BODY_BYTES_MAX: usize = 1024;

/// A node's name in the path, or what is wrong with that.
type Name = Result<Path<String>, PathRejection>;

fn named(name: Name) -> Result<String, Problem> {
    name.map(|Path(name)| name).map_err(|_| Problem::bad_request("The node's name in the path is not UTF-8."))
}

/// Lists all nodes
#[utoipa::path(
    get,
    path = "/v1/nodes",
    tag = "nodes",
    responses((status = 200, description = "All of them, in the order of their numbers.", body = Vec<NodeInfo>))
)]
pub(super) async fn list_nodes(
    State(api): State<Arc<Api>>,
    caller: Caller,
    uri: Uri,
) -> Result<Json<Vec<NodeInfo>>, Problem> {
    Query::parse(&uri, &[])?;
    let reply = api.read(&caller, &[b"DICTUM.NODE", b"LIST"]).await?;
    let nodes = NodeInfo::read_list(&reply);
    nodes.map(Json).ok_or_else(|| Problem::from_failure(strange("DICTUM.NODE LIST", &reply), Access::Read))
}

/// Drains a node
///
/// Its leaderships go to other nodes, and its votes as far as other nodes can have them. `GET /v1/nodes` tells how far that is.
#[utoipa::path(
    post,
    path = "/v1/nodes/{name}/drain",
    tag = "nodes",
    params(("name" = String, Path, description = "The node's name.")),
    responses(
        (status = 204, description = "Decided by a majority and on its disks; it goes on by itself."),
        (status = 404, description = "There is no such node.", body = Problem),
        (status = 409, description = "It is the last node that serves.", body = Problem),
    )
)]
pub(super) async fn drain_node(
    State(api): State<Arc<Api>>,
    caller: Caller,
    name: Name,
    uri: Uri,
) -> Result<StatusCode, Problem> {
    Query::parse(&uri, &[])?;
    order(&api, &caller, b"DRAIN", named(name)?.as_bytes()).await
}

/// Lets a drained node lead and vote again
#[utoipa::path(
    post,
    path = "/v1/nodes/{name}/promote",
    tag = "nodes",
    params(("name" = String, Path, description = "The node's name.")),
    responses(
        (status = 204, description = "Decided by a majority and on its disks; its leaderships come back by themselves."),
        (status = 404, description = "There is no such node.", body = Problem),
    )
)]
pub(super) async fn promote_node(
    State(api): State<Arc<Api>>,
    caller: Caller,
    name: Name,
    uri: Uri,
) -> Result<StatusCode, Problem> {
    Query::parse(&uri, &[])?;
    order(&api, &caller, b"PROMOTE", named(name)?.as_bytes()).await
}

/// What lets a node join.
#[derive(Serialize, ToSchema)]
pub(super) struct NodeToken {
    /// For `dictum start --token`; good for one node, for a day.
    token: String,
}

/// Makes a token with which one node can join
#[utoipa::path(
    post,
    path = "/v1/nodes/token",
    tag = "nodes",
    responses((status = 200, description = "Decided by a majority and on its disks.", body = NodeToken))
)]
pub(super) async fn make_token(
    State(api): State<Arc<Api>>,
    caller: Caller,
    uri: Uri,
) -> Result<Json<NodeToken>, Problem> {
    Query::parse(&uri, &[])?;
    let reply = api.pool.call(&caller, &[b"DICTUM.NODE", b"TOKEN"]).await.map_err(refused)?;
    let token = reply.as_bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let token = token.ok_or_else(|| Problem::from_failure(strange("DICTUM.NODE TOKEN", &reply), Access::Write))?;
    Ok(Json(NodeToken { token }))
}

/// Removes a node
///
/// What it has goes to others first; `GET /v1/nodes` lists it as long as that takes. With `force=true` it may be down.
#[utoipa::path(
    delete,
    path = "/v1/nodes/{name}",
    tag = "nodes",
    params(
        ("name" = String, Path, description = "The node's name."),
        ("force" = Option<bool>, Query, description = "Although it is down."),
    ),
    responses(
        (status = 204, description = "Decided by a majority and on its disks; it goes on by itself."),
        (status = 404, description = "There is no such node.", body = Problem),
        (status = 409, description = "It is the last node that serves.", body = Problem),
        (status = 422, description = "It is down, or what it has cannot move.", body = Problem),
    )
)]
pub(super) async fn remove_node(
    State(api): State<Arc<Api>>,
    caller: Caller,
    name: Name,
    uri: Uri,
) -> Result<StatusCode, Problem> {
    let query = Query::parse(&uri, &["force"])?;
    let name = named(name)?;
    let words: &[&[u8]] = &[b"DICTUM.NODE", b"REMOVE", name.as_bytes(), b"FORCE"];
    let forced = match query.get("force") {
        None | Some(b"false") => false,
        Some(b"true") => true,
        Some(_) => return Err(Problem::bad_request("force is true or false.")),
    };
    api.pool.call(&caller, &words[..if forced { 4 } else { 3 }]).await.map_err(refused)?;
    Ok(StatusCode::NO_CONTENT)
}

/// Shows the settings of the nodes
#[utoipa::path(
    get,
    path = "/v1/nodes/settings",
    tag = "nodes",
    responses((status = 200, description = "As far as the node that answers knows.", body = Settings))
)]
pub(super) async fn node_settings(
    State(api): State<Arc<Api>>,
    caller: Caller,
    uri: Uri,
) -> Result<Json<Settings>, Problem> {
    Query::parse(&uri, &[])?;
    let reply = api.read(&caller, &[b"DICTUM.NODE", b"SETTINGS"]).await?;
    let settings = Settings::read(&reply);
    settings.map(Json).ok_or_else(|| Problem::from_failure(strange("DICTUM.NODE SETTINGS", &reply), Access::Read))
}

/// The change of one setting: `voters` or `auto_replace`. A request changes one, so that none is carried out by half.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NodesChange {
    /// How many vote in each partition; 0: as many as founded the cluster. Those without a vote have a copy, too.
    #[schema(minimum = 0, maximum = 7, example = 3)]
    voters: Option<u8>,
    /// After so many seconds a node that is gone is replaced; 0: never.
    #[schema(minimum = 0, maximum = 31_536_000, example = 300)]
    auto_replace: Option<u32>,
}

/// Sets how many nodes vote in each partition, or when a node that is gone is replaced
#[utoipa::path(
    patch,
    path = "/v1/nodes",
    tag = "nodes",
    request_body(content = NodesChange, content_type = "application/json"),
    responses(
        (status = 204, description = "Decided by a majority and on its disks; votes move by themselves."),
        (status = 408, description = "The body did not arrive in time.", body = Problem),
        (status = 422, description = "There are not so many nodes, or it is more than a year. Nothing was changed.", body = Problem),
    )
)]
pub(super) async fn patch_nodes(
    State(api): State<Arc<Api>>,
    caller: Caller,
    request: Request,
) -> Result<StatusCode, Problem> {
    let (parts, body) = request.into_parts();
    Query::parse(&parts.uri, &[])?;
    let (body, _share) = read_body(&api.budget, &parts.headers, body, BODY_BYTES_MAX, BODY_BYTES_MAX).await?;
    let change: NodesChange = serde_json::from_slice(&body).map_err(|error| {
        Problem::bad_request(format!(
            "The body is not {{\"voters\": number}} or {{\"auto_replace\": seconds}}: {error}."
        ))
    })?;
    match (change.voters, change.auto_replace) {
        (Some(voters), None) => order(&api, &caller, b"VOTERS", voters.to_string().as_bytes()).await,
        (None, Some(seconds)) => order(&api, &caller, b"AUTO-REPLACE", seconds.to_string().as_bytes()).await,
        _ => Err(Problem::bad_request(
            "The body has to have either `voters` or `auto_replace`: one is changed at a time.",
        )),
    }
}

/// Leaves all votes and leaderships where they are
///
/// Copies for nodes without a vote go on at the lowest rate. `GET /v1/nodes` tells that movement is paused.
#[utoipa::path(
    post,
    path = "/v1/nodes/pause",
    tag = "nodes",
    responses((status = 204, description = "Decided by a majority and on its disks."))
)]
pub(super) async fn pause_nodes(State(api): State<Arc<Api>>, caller: Caller, uri: Uri) -> Result<StatusCode, Problem> {
    Query::parse(&uri, &[])?;
    api.pool.call(&caller, &[b"DICTUM.NODE", b"PAUSE"]).await.map_err(refused)?;
    Ok(StatusCode::NO_CONTENT)
}

/// Lets votes, leaderships and copies move again
#[utoipa::path(
    post,
    path = "/v1/nodes/resume",
    tag = "nodes",
    responses((status = 204, description = "Decided by a majority and on its disks."))
)]
pub(super) async fn resume_nodes(State(api): State<Arc<Api>>, caller: Caller, uri: Uri) -> Result<StatusCode, Problem> {
    Query::parse(&uri, &[])?;
    api.pool.call(&caller, &[b"DICTUM.NODE", b"RESUME"]).await.map_err(refused)?;
    Ok(StatusCode::NO_CONTENT)
}

/// Gives the node an order that changes the registry.
async fn order(api: &Api, caller: &Caller, action: &[u8], word: &[u8]) -> Result<StatusCode, Problem> {
    api.pool.call(caller, &[b"DICTUM.NODE", action, word]).await.map_err(refused)?;
    Ok(StatusCode::NO_CONTENT)
}

/// What it means that an order was not carried out.
fn refused(failure: Failure) -> Problem {
    let Failure::Refused(text) = &failure else { return Problem::from_failure(failure, Access::Write) };
    match text.strip_prefix("ERR ") {
        Some(text) if text.starts_with("there is no node") => Problem::new(StatusCode::NOT_FOUND, "NOT_FOUND", text),
        Some(text) if text.starts_with("it is the last node") => Problem::new(StatusCode::CONFLICT, "CONFLICT", text),
        Some(text) => Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "CONTRADICTION", text),
        None => Problem::from_failure(failure, Access::Write),
    }
}
