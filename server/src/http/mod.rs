//! HTTP/JSON, on a thread of its own: a client of the node through a [`Bridge`].
//!
//! - [`login`] says whose request it is: its commands have the rights of that user, and no route has rights of its own.
//! - [`request`] reads what several routes take, [`problem`] is every answer that is no success, [`text`] carries
//!   bytes through URLs and JSON, [`client`] keeps the connections to the node.
//! - [`place`] tells which bucket and key a request is about, [`levels`] how safe and how new it wants them.
//! - [`web_pages`] judges every request first: no web page gets further that is not meant to.
//! - [`audit`] tells the audit trail who has come, and reads it.
//! - The routes: [`dictionary`], [`keys`] (with [`conditions`]), [`changes`], [`buckets`], [`nodes`], [`health`], [`metrics`]; [`openapi`] describes them.

mod audit;
mod body;
mod buckets;
mod changes;
mod client;
mod conditions;
mod connections;
mod dictionary;
mod door;
mod guesses;
mod health;
mod keys;
mod levels;
mod login;
mod metrics;
mod nodes;
mod openapi;
mod place;
mod problem;
mod request;
mod text;
mod trials;
mod web_pages;

use std::io;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::{Method, StatusCode, Uri, header};
use axum::middleware;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::sync::Semaphore;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wire::Value;

use crate::audit::Audit;
use crate::bridge::Bridge;
use crate::client_tls::ClientSecurity;
use crate::journal::sync_times::SyncTimes;
use crate::passwords::PasswordThread;
use crate::secrets::{Password, SharedLogins};
use audit::Auditor;
use client::Pool;
use connections::{Busy, Connections};
use door::{Door, Visit};
use guesses::{Guesses, HasShown};
use login::{Caller, Certified};
use metrics::HttpCounts;
use problem::{Access, Problem};
use request::Budget;
pub(crate) use text::JsonBytes;
use trials::Trials;
pub use web_pages::Visitors;
use web_pages::{PageLog, Remote};

/// Most HTTP connections of a node; more wait to be accepted.
pub(crate) const CONNECTIONS_MAX: usize = base::limits::CONNECTIONS_DEFAULT;

/// How long a client may take to send a request's head, and how long a connection may idle between two requests.
const HEAD_TIMEOUT: Duration = Duration::from_secs(75);

/// How long a client may leave an answer unread, in milliseconds.
#[cfg(target_os = "linux")]
const STALL_TIMEOUT_MS: u32 = 60_000;

/// Paths that need no password: they tell nothing, and those who ask them have none. What they ask of the node, the process asks ([`Caller::Process`]).
const OPEN_PATHS: &[&str] = &["/livez", "/readyz", "/openapi.json"];

/// What the HTTP thread has to know about its node.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// The node's name.
    pub node: String,
    /// Longest value that a request may carry, in bytes.
    pub value_bytes_max: usize,
    /// How long a request may wait for its outcome.
    pub request_timeout: Duration,
    /// Password that a request must show, if any.
    pub password: Password,
    /// The users, once somebody has changed them: then these count, and not the password alone.
    pub logins: SharedLogins,
    /// Names, origins and machines that are let in.
    pub visitors: Visitors,
    /// Most connections; more wait to be accepted.
    pub connections_max: usize,
    /// How long the syncs of the node's journal took since the start; the threads that sync go on counting.
    pub journal_syncs: Arc<SyncTimes>,
    /// The node's folder, of whose disk it is told how much room it has.
    pub dir: PathBuf,
    /// How clients are spoken to under TLS, if they are.
    pub(crate) clients_by: Option<ClientSecurity>,
    /// Tries passwords.
    pub passwords: PasswordThread,
    /// The audit trail of the node.
    pub(crate) audit: Audit,
}

/// What every handler works with.
struct Api {
    pool: Pool,
    budget: Budget,
    counts: HttpCounts,
    page_log: PageLog,
    guesses: Arc<Guesses>,
    auditor: Auditor,
    trials: Trials,
    /// Places for those who are told changes.
    streams: Arc<Semaphore>,
    options: HttpOptions,
}

impl Api {
    /// A command that only looks, and concerns no bucket.
    async fn read(&self, caller: &Caller, words: &[&[u8]]) -> Result<Value, Problem> {
        self.pool.call(caller, words).await.map_err(|failure| Problem::from_failure(failure, Access::Read))
    }
}

/// Serves HTTP on `listener` until the process ends. Called on a thread of its own.
///
/// # Errors
/// When the runtime or the listener cannot be set up.
pub fn serve(listener: TcpListener, bridge: Bridge, options: HttpOptions) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    runtime.block_on(async {
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let connections_max = options.connections_max.min(CONNECTIONS_MAX);
        let door = options.clients_by.as_ref().map(Door::new);
        accept(listener, connections_max, door, router(bridge, options)).await;
        Ok(())
    })
}

/// What the fuzzer runs: reads `data` as the body of `POST /insertOrUpdate`. Whether it was one.
pub fn fuzz_body(data: &[u8]) -> bool {
    body::parse_insert(data).is_ok()
}

/// Accepts connections for ever.
async fn accept(listener: tokio::net::TcpListener, connections_max: usize, door: Option<Door>, router: Router) {
    let connections = Connections::new(connections_max);
    loop {
        let (stream, remote) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(_) => {
                // No file descriptors left, or the client is gone already: the listener itself stays good.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        // A socket that refuses this works all the same, only slower.
        let _ = stream.set_nodelay(true);
        // A client that stops reading must not keep its share of the budget for ever: the kernel cuts it off. One
        // that reads, however slowly, is left alone.
        #[cfg(target_os = "linux")]
        let _ = rustix::net::sockopt::set_tcp_user_timeout(&stream, STALL_TIMEOUT_MS);
        let Some(place) = connections.enter().await else { return };
        let inner = TowerToHyperService::new(router.clone());
        let of_requests = Arc::clone(&place);
        let door = door.clone();
        let has_shown = HasShown::default();
        let certified = Certified::default();
        let of_connection = certified.clone();
        let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
            request.extensions_mut().insert(Remote(remote));
            request.extensions_mut().insert(has_shown.clone());
            request.extensions_mut().insert(certified.clone());
            let busy = Busy::new(&of_requests);
            request.extensions_mut().insert(busy.clone());
            let answer = inner.call(request);
            async move {
                let answer = answer.await;
                drop(busy);
                answer
            }
        });
        tokio::spawn(async move {
            let mut http = hyper::server::conn::http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
            // An error here is the client's: it went away, or did not speak HTTP.
            let serve = async {
                match Door::let_in(door, stream, remote).await {
                    Some(Visit::Plain(stream)) => drop(http.serve_connection(TokioIo::new(stream), service).await),
                    Some(Visit::Secured(stream, name)) => {
                        of_connection.note(name);
                        drop(http.serve_connection(TokioIo::new(stream), service).await);
                    }
                    None => {}
                }
            };
            tokio::select! {
                () = serve => {}
                () = place.made_to_go() => {}
            }
        });
    }
}

/// All routes.
fn router(bridge: Bridge, options: HttpOptions) -> Router {
    let needs_password = options.password.get().is_some();
    let guesses = Arc::new(Guesses::default());
    let api = Arc::new(Api {
        pool: Pool::new(bridge, options.request_timeout),
        budget: Budget::new(options.value_bytes_max),
        counts: HttpCounts::default(),
        page_log: PageLog::default(),
        trials: Trials::new(options.passwords.clone(), Arc::clone(&guesses)),
        guesses,
        auditor: Auditor::new(options.audit.clone()),
        streams: Arc::new(Semaphore::new(changes::streams_max(options.connections_max.min(CONNECTIONS_MAX)))),
        options,
    });
    let (router, description) = OpenApiRouter::with_openapi(openapi::head())
        .routes(routes!(dictionary::get_value))
        .routes(routes!(dictionary::get_dictionary))
        .routes(routes!(dictionary::insert_or_update))
        .routes(routes!(keys::get_key, keys::put_key, keys::delete_key))
        .routes(routes!(buckets::list_buckets))
        .routes(routes!(buckets::get_bucket, buckets::put_bucket, buckets::patch_bucket, buckets::delete_bucket))
        .routes(routes!(changes::changes))
        .routes(routes!(nodes::list_nodes, nodes::patch_nodes))
        .routes(routes!(nodes::make_token))
        .routes(routes!(nodes::node_settings))
        .routes(routes!(nodes::pause_nodes))
        .routes(routes!(nodes::resume_nodes))
        .routes(routes!(nodes::remove_node))
        .routes(routes!(nodes::drain_node))
        .routes(routes!(nodes::promote_node))
        .routes(routes!(health::livez))
        .routes(routes!(health::readyz))
        .routes(routes!(health::status))
        .routes(routes!(audit::audit))
        .routes(routes!(metrics::metrics))
        .split_for_parts();
    let description = openapi::complete(description, OPEN_PATHS, needs_password);
    let description = serde_json::to_string(&description).expect("a description is plain data");
    let description = bytes::Bytes::from(description);
    let describe = async move || ([(header::CONTENT_TYPE, "application/json")], description.clone());
    let keys = axum::routing::get(keys::get_key).put(keys::put_key).delete(keys::delete_key);
    router
        .route(openapi::BUCKET_KEY, keys.clone())
        // The empty key, which the patterns do not match.
        .route("/v1/buckets/{name}/keys/", keys.clone())
        .route(place::KEYS, keys)
        .route("/openapi.json", axum::routing::get(describe))
        .fallback(unknown_route)
        .method_not_allowed_fallback(wrong_method)
        .layer(middleware::from_fn_with_state(Arc::clone(&api), audit::note_orders))
        .layer(middleware::from_fn_with_state(Arc::clone(&api), login::authenticate))
        .layer(middleware::from_fn_with_state(Arc::clone(&api), web_pages::keep_out))
        .layer(middleware::from_fn_with_state(Arc::clone(&api), metrics::count))
        .with_state(api)
}

async fn unknown_route(uri: Uri) -> Problem {
    Problem::not_found(format!(
        "There is nothing at {}. The routes are listed at /openapi.json.",
        text::shown(uri.path().as_bytes())
    ))
}

async fn wrong_method(method: Method, uri: Uri) -> Problem {
    let message = format!(
        "{} does not take {method}; the header Allow names the methods that it takes.",
        text::shown(uri.path().as_bytes())
    );
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", message)
}

#[cfg(test)]
mod tests;
