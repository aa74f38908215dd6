//! The routes against a node of one thread.

mod buckets;
mod fake;
mod levels;
mod users;
mod web_pages;

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value as Json, json};
use tower::ServiceExt;

use super::{HttpOptions, router};
use fake::{FakeNode, Mood};

struct Server {
    node: FakeNode,
    router: Router,
    runtime: tokio::runtime::Runtime,
    _folder: tempfile::TempDir,
}

struct Answer {
    status: u16,
    etag: String,
    content_type: String,
    headers: axum::http::HeaderMap,
    body: Vec<u8>,
}

impl Answer {
    fn json(&self) -> Json {
        assert_eq!(self.content_type, "application/json", "{}", String::from_utf8_lossy(&self.body));
        serde_json::from_slice(&self.body).expect("JSON")
    }

    fn problem(&self) -> (u16, String) {
        let json = self.json();
        assert!(json["message"].as_str().is_some_and(|message| !message.is_empty()), "{json}");
        (self.status, json["code"].as_str().expect("a code").to_owned())
    }
}

impl Server {
    fn start() -> Server {
        Server::with(None, 1000, Duration::from_secs(5))
    }

    fn with(password: Option<&'static str>, value_bytes_max: usize, request_timeout: Duration) -> Server {
        Server::visited(password, value_bytes_max, request_timeout, super::Visitors::default())
    }

    fn visited(
        password: Option<&'static str>,
        value_bytes_max: usize,
        request_timeout: Duration,
        visitors: super::Visitors,
    ) -> Server {
        let (node, bridge) = FakeNode::start();
        let folder = tempfile::tempdir().expect("a folder");
        let key = tls::NodeKey::generate().expect("a key");
        let trail = crate::audit::Audit::start(folder.path(), "n1", key, crate::audit::Limits::default());
        let options = HttpOptions {
            node: "n1".to_owned(),
            value_bytes_max,
            request_timeout,
            password: crate::secrets::Password::new(password.map(str::to_owned)),
            passwords: crate::passwords::PasswordThread::start().expect("a thread"),
            logins: crate::secrets::SharedLogins::default(),
            journal_syncs: std::sync::Arc::default(),
            dir: std::env::temp_dir(),
            visitors,
            connections_max: 100,
            clients_by: None,
            audit: trail.expect("an audit trail"),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        Server { node, router: router(bridge, options), runtime, _folder: folder }
    }

    fn ask(&self, line: &str) -> Answer {
        self.send(line, &[], "")
    }

    /// `line` is method and target.
    fn send(&self, line: &str, headers: &[(&str, &str)], body: impl Into<Vec<u8>>) -> Answer {
        let (method, target) = line.split_once(' ').expect("method and target");
        let mut request = Request::builder().method(method).uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(body.into())).expect("a request");
        self.runtime.block_on(async {
            let response = self.router.clone().oneshot(request).await.expect("handlers do not fail");
            let headers = response.headers().clone();
            let text = |name: &str| {
                headers.get(name).map(|value| value.to_str().expect("text").to_owned()).unwrap_or_default()
            };
            Answer {
                status: response.status().as_u16(),
                etag: text("etag"),
                content_type: text("content-type"),
                body: response.into_body().collect().await.expect("a whole body").to_bytes().to_vec(),
                headers,
            }
        })
    }

    fn sent(&self, name: &str) -> usize {
        self.node.lock().commands.iter().filter(|words| words[0] == name.as_bytes()).count()
    }
}

#[test]
fn the_dictionary_inserts_updates_and_reads() {
    let server = Server::start();
    assert_eq!(server.ask("GET /getValue?key=a%20b").problem(), (404, "NOT_FOUND".to_owned()));
    let stored = server.send("POST /insertOrUpdate", &[], r#"{"key":"a b","value":"grüß"}"#);
    assert_eq!((stored.status, stored.json()["revision"].clone()), (200, json!(1)));
    assert_eq!(stored.json()["message"], json!("\"a b\" is stored: a majority of the replicas has it on disk."));
    let found = server.ask("GET /getValue?key=a%20b").json();
    assert_eq!((&found["key"], &found["value"], &found["revision"]), (&json!("a b"), &json!("grüß"), &json!(1)));
    server.send("POST /insertOrUpdate", &[], r#"{"key":"a b","value":{"base64":"/wA="}}"#);
    assert_eq!(server.ask("GET /getValue?key=a+b").json()["value"], json!({"base64": "/wA="}));
}

#[test]
fn the_whole_dictionary_is_streamed_page_by_page() {
    let server = Server::with(None, 4 << 20, Duration::from_secs(5));
    assert_eq!(server.ask("GET /getDictionary").json(), json!({}));
    let mut expected = serde_json::Map::new();
    for index in 0..10 {
        let (key, value) = (format!("key {index}"), "x".repeat(index * 300_000));
        server.send(&format!("PUT /v1/keys/key%20{index}"), &[], value.clone());
        expected.insert(key, json!(value));
    }
    server.send("PUT /v1/keys/%FF", &[], "binary key");
    expected.insert("base64:/w==".to_owned(), json!("binary key"));
    server.send("PUT /v1/keys/base64:", &[], "marked key");
    expected.insert("base64:YmFzZTY0Og==".to_owned(), json!("marked key"));
    assert_eq!(server.ask("GET /getDictionary").json(), Json::Object(expected));
    assert!(server.sent("MGET") > 4, "large values are not fetched all at once");
}

#[test]
fn a_stream_that_fails_on_the_way_breaks_off() {
    let server = Server::start();
    for index in 0..10 {
        server.send(&format!("PUT /v1/keys/{index}"), &[], "v");
    }
    server.node.lock().scans_left = Some(2);
    let request = Request::builder().uri("/getDictionary").body(Body::empty()).expect("a request");
    server.runtime.block_on(async {
        let response = server.router.clone().oneshot(request).await.expect("handlers do not fail");
        assert_eq!(response.status(), StatusCode::OK);
        let mut body = response.into_body();
        let mut text = Vec::new();
        let error = loop {
            match body.frame().await.expect("an error before the end") {
                Ok(frame) => text.extend_from_slice(&frame.into_data().expect("no trailers")),
                Err(error) => break error,
            }
        };
        assert!(text.starts_with(b"{\"0\":") && !text.ends_with(b"}"), "{}", String::from_utf8_lossy(&text));
        assert!(error.to_string().contains("No leader"), "{error}");
    });
}

#[test]
fn keys_are_any_bytes_and_have_entity_tags() {
    let server = Server::start();
    let target = "/v1/keys/a%2Fb%FF%00";
    assert_eq!(server.ask(&format!("GET {target}")).problem(), (404, "NOT_FOUND".to_owned()));
    let put = server.send(&format!("PUT {target}"), &[], &b"\x00\xfe"[..]);
    assert_eq!((put.status, put.etag.as_str(), put.body.len()), (204, "\"1\"", 0));
    assert!(server.node.lock().records.contains_key(&b"a/b\xff\0"[..]));
    let got = server.ask(&format!("GET {target}"));
    assert_eq!((got.status, got.etag.as_str(), &got.body[..]), (200, "\"1\"", &b"\x00\xfe"[..]));
    assert_eq!(got.content_type, "application/octet-stream");
    assert_eq!(got.headers["content-length"], "2");
    let head = server.ask(&format!("HEAD {target}"));
    assert_eq!((head.status, head.etag.as_str(), head.body.len()), (200, "\"1\"", 0));
    let unchanged = server.send(&format!("GET {target}"), &[("If-None-Match", "\"1\"")], "");
    assert_eq!((unchanged.status, unchanged.etag.as_str(), unchanged.body.len()), (304, "\"1\"", 0));
    let wrong = server.send(&format!("GET {target}"), &[("If-Match", "\"9\"")], "");
    assert_eq!(wrong.problem(), (412, "PRECONDITION_FAILED".to_owned()));
    assert_eq!(server.ask(&format!("DELETE {target}")).status, 204);
    assert_eq!(server.ask(&format!("DELETE {target}")).problem().0, 404);
    assert_eq!(server.send("PUT /v1/keys/", &[], "the empty key").status, 204);
    assert_eq!(server.ask("GET /v1/keys/").body, b"the empty key");
}

#[test]
fn writes_keep_their_conditions() {
    let server = Server::start();
    let put = |headers: &[(&str, &str)]| {
        let answer = server.send("PUT /v1/keys/k", headers, "v");
        (answer.status, answer.etag)
    };
    let ok = |etag: &str| (204, etag.to_owned());
    let failed = (412, String::new());
    assert_eq!(put(&[("If-Match", "\"1\"")]), failed);
    assert_eq!(put(&[("If-Match", "*")]), failed);
    assert_eq!(put(&[("If-None-Match", "*")]), ok("\"1\""));
    assert_eq!(put(&[("If-None-Match", "*")]), failed);
    assert_eq!(put(&[("If-Match", "\"1\"")]), ok("\"2\""));
    assert_eq!(put(&[("If-Match", "\"1\"")]), failed);
    assert_eq!(put(&[("If-Match", "\"1\", \"2\"")]), ok("\"3\""));
    assert_eq!(put(&[("If-Match", "*")]), ok("\"4\""));
    assert_eq!(put(&[("If-None-Match", "\"4\"")]), failed);
    assert_eq!(put(&[("If-None-Match", "\"3\"")]), ok("\"5\""));
    assert_eq!(put(&[("If-Match", "7")]).0, 400);
    // Others change the key between the look and the write: the judgement is repeated, in the end given up.
    server.node.lock().interference = 2;
    assert_eq!(put(&[("If-Match", "*")]), ok("\"8\""));
    server.node.lock().interference = 1000;
    assert_eq!(put(&[("If-Match", "*")]).0, 503);
    server.node.lock().interference = 0;

    let delete = |headers: &[(&str, &str)]| server.send("DELETE /v1/keys/d", headers, "").status;
    assert_eq!(delete(&[("If-Match", "\"1\"")]), 412);
    assert_eq!(delete(&[("If-None-Match", "\"1\"")]), 404);
    let etag = server.send("PUT /v1/keys/d", &[], "").etag;
    assert_eq!(delete(&[("If-Match", "\"1\"")]), 412);
    assert_eq!(delete(&[("If-Match", &etag)]), 204);
}

#[test]
fn a_repeated_request_is_carried_out_once() {
    let server = Server::start();
    let once = ("Idempotency-Key", "order 7");
    let first = server.send("PUT /v1/keys/k", &[once], "v").etag;
    server.send("PUT /v1/keys/k", &[], "other");
    assert_eq!(server.send("PUT /v1/keys/k", &[once], "v").etag, first);
    assert_eq!(server.ask("GET /v1/keys/k").body, b"other");
    let post = || server.send("POST /insertOrUpdate", &[("Idempotency-Key", "8")], r#"{"key":"p","value":1}"#);
    assert_eq!(post().json(), post().json());
    // An exact condition travels with it; one that needs a look cannot be repeated.
    let created = || server.send("PUT /v1/keys/n", &[("Idempotency-Key", "9"), ("If-None-Match", "*")], "v");
    assert_eq!((created().status, created().status), (204, 204));
    assert_eq!(server.send("PUT /v1/keys/n", &[once, ("If-Match", "*")], "v").problem().0, 422);
    // Another request under the same key must not be told that it is done.
    let refused = server.send("DELETE /v1/keys/n", &[("Idempotency-Key", "9")], "").problem();
    assert_eq!(refused, (422, "REUSED".to_owned()));
    assert!(server.node.lock().records.contains_key(&b"n"[..]));
    assert_eq!(server.send("PUT /v1/keys/n", &[once], "v").problem().0, 422);
    // The node is given the key itself, by which DICTUM.OUTCOME is asked.
    assert!(server.node.lock().outcomes.contains_key(&b"order 7"[..]));
    assert_eq!(server.send("PUT /v1/keys/n", &[("Idempotency-Key", "")], "v").problem().0, 400);
    assert_eq!(server.send("PUT /v1/keys/n", &[("Idempotency-Key", &"x".repeat(257))], "v").problem().0, 400);
}

#[test]
fn a_time_to_live_reaches_the_node() {
    let server = Server::start();
    assert_eq!(server.send("PUT /v1/keys/k?ttl_ms=1500", &[], "v").status, 204);
    let last = server.node.lock().commands.last().cloned().expect("a command");
    assert_eq!(last, [&b"DICTUM.SET"[..], b"k", b"v", b"PX", b"1500"]);
    for wrong in ["0", "-1", "+1", "1.5", "", "x", "9999999999999"] {
        assert_eq!(server.send(&format!("PUT /v1/keys/k?ttl_ms={wrong}"), &[], "v").problem().0, 400, "{wrong}");
    }
}

#[test]
fn whatever_is_wrong_is_told_in_json() {
    let server = Server::start();
    for (line, status, code) in [
        ("GET /", 404, "NOT_FOUND"),
        ("GET /nowhere?x", 404, "NOT_FOUND"),
        ("DELETE /nowhere", 404, "NOT_FOUND"),
        ("POST /getValue", 405, "METHOD_NOT_ALLOWED"),
        ("TRACE /v1/keys/k", 405, "METHOD_NOT_ALLOWED"),
        ("GET /getValue", 400, "BAD_REQUEST"),
        ("GET /getValue?kye=1", 400, "BAD_REQUEST"),
        ("GET /getValue?key=%zz", 400, "BAD_REQUEST"),
        ("GET /v1/keys/%zz", 400, "BAD_REQUEST"),
        ("GET /metrics?x=1", 400, "BAD_REQUEST"),
        ("POST /insertOrUpdate", 400, "BAD_REQUEST"),
    ] {
        assert_eq!(server.ask(line).problem(), (status, code.to_owned()), "{line}");
    }
    let allow = server.ask("PATCH /v1/keys/k").headers["allow"].to_str().expect("text").to_owned();
    assert_eq!(allow, "GET,HEAD,PUT,DELETE");
    assert_eq!(server.ask("PATCH /v1/keys/k").problem().0, 405);
    assert!(server.node.lock().commands.is_empty(), "none of this troubles the node");
}

#[test]
fn bodies_have_a_limit() {
    let server = Server::start();
    assert_eq!(server.send("PUT /v1/keys/k", &[], vec![b'x'; 1000]).status, 204);
    assert_eq!(server.send("PUT /v1/keys/k", &[], vec![b'x'; 1001]).problem(), (413, "TOO_LARGE".to_owned()));
    let declared = server.send("PUT /v1/keys/k", &[("Content-Length", "99999999999")], "");
    assert_eq!(declared.problem().0, 413);
    let body = |length: usize| format!(r#"{{"key":"k","value":"{}"}}"#, "x".repeat(length));
    assert_eq!(server.send("POST /insertOrUpdate", &[], body(1000)).status, 200);
    assert_eq!(server.send("POST /insertOrUpdate", &[], body(1001)).problem().0, 413);
    assert_eq!(server.send("POST /insertOrUpdate", &[], body(100_000)).problem().0, 413);
}

#[test]
fn the_nodes_errors_become_statuses() {
    let server = Server::start();
    let write = || server.send("POST /insertOrUpdate", &[], r#"{"key":"k","value":"v"}"#).problem();
    let read = || server.ask("GET /getValue?key=k").problem();
    server.node.set_mood(Mood::Leaderless);
    assert_eq!(write(), (503, "CLUSTERDOWN".to_owned()));
    assert_eq!(read(), (503, "CLUSTERDOWN".to_owned()));
    assert_eq!(server.ask("GET /v1/keys/k").json()["message"], json!("No leader can be reached"));
    assert_eq!(server.ask("GET /getDictionary").problem(), (503, "CLUSTERDOWN".to_owned()));
    assert_eq!(server.ask("GET /getDictionary").headers["retry-after"], "1");
    server.node.set_mood(Mood::Unsure);
    assert_eq!(write(), (504, "UNKNOWN".to_owned()));
    assert_eq!(server.send("PUT /v1/keys/k", &[], "v").problem(), (504, "UNKNOWN".to_owned()));
    assert_eq!(server.ask("DELETE /v1/keys/k").problem(), (504, "UNKNOWN".to_owned()));
    server.node.set_mood(Mood::Full);
    assert_eq!(write(), (507, "OOM".to_owned()));
}

#[test]
fn a_node_that_does_not_answer_leaves_writes_open_but_not_reads() {
    let server = Server::with(None, 1000, Duration::ZERO);
    assert_eq!(server.send("PUT /v1/keys/k", &[], "v").status, 204);
    for mood in [Mood::Silent, Mood::Rude] {
        server.node.set_mood(mood);
        assert_eq!(server.send("PUT /v1/keys/k", &[], "v").problem(), (504, "UNKNOWN".to_owned()), "{mood:?}");
        assert_eq!(server.ask("GET /v1/keys/k").problem(), (503, "CLUSTERDOWN".to_owned()), "{mood:?}");
    }
    // The connections that were given up are closed and not used again.
    server.node.set_mood(Mood::Good);
    assert_eq!(server.ask("GET /v1/keys/k").body, b"v");
    let state = server.node.lock();
    assert!(state.closed >= 4 && state.opened == state.closed + 1, "{} {}", state.opened, state.closed);
}

#[test]
fn connections_are_used_again() {
    let server = Server::start();
    for _ in 0..20 {
        assert_eq!(server.send("PUT /v1/keys/k", &[], "v").status, 204);
    }
    assert_eq!(server.sent("HELLO"), 1);
    assert_eq!(server.node.lock().opened, 1);
}

#[test]
fn many_requests_at_once_share_a_bounded_pool() {
    let server = Server::start();
    server.runtime.block_on(async {
        let requests = (0..2000).map(|index| {
            let request = Request::builder().method("PUT").uri(format!("/v1/keys/{index}"));
            server.router.clone().oneshot(request.body(Body::from("v")).expect("a request"))
        });
        let mut tasks: Vec<_> = requests.map(|request| tokio::spawn(request)).collect();
        for task in tasks.drain(..) {
            assert_eq!(task.await.expect("no panic").expect("no failure").status(), StatusCode::NO_CONTENT);
        }
    });
    let state = server.node.lock();
    assert_eq!(state.records.len(), 2000);
    assert!(state.opened <= 256, "{}", state.opened);
}

#[test]
fn a_password_is_asked_for() {
    let server = Server::with(Some("secret"), 1000, Duration::from_secs(5));
    let get = |authorization: &str| server.send("GET /getDictionary", &[("Authorization", authorization)], "").status;
    let refused = server.ask("GET /getDictionary");
    assert_eq!(refused.problem(), (401, "NOAUTH".to_owned()));
    assert!(refused.headers.contains_key("www-authenticate"));
    assert_eq!(get("Bearer secret"), 200);
    assert_eq!(get("bearer wrong"), 401);
    assert_eq!(get("Bearer secre"), 401);
    assert_eq!(get("Basic ZGVmYXVsdDpzZWNyZXQ="), 200, "default:secret");
    assert_eq!(get("Basic OnNlY3JldA=="), 200, ":secret");
    assert_eq!(get("Basic cm9vdDpzZWNyZXQ="), 401, "root:secret");
    assert_eq!(get("Basic ?"), 401);
    assert_eq!(server.ask("GET /metrics").status, 401);
    for open in ["/livez", "/readyz", "/openapi.json"] {
        assert_eq!(server.ask(&format!("GET {open}")).status, 200, "{open}");
    }
}

#[test]
fn health_and_status() {
    let server = Server::start();
    assert_eq!(server.ask("GET /livez").json()["status"], json!("ok"));
    assert_eq!(server.ask("GET /readyz").json()["message"], json!("n1 leads."));
    assert_eq!(server.ask("GET /v1/status").json()["nodes"][0]["lag"], json!(1));
    server.node.set_mood(Mood::Leaderless);
    assert_eq!(server.ask("GET /livez").status, 200);
    assert_eq!(server.ask("GET /readyz").problem(), (503, "CLUSTERDOWN".to_owned()));
    assert_eq!(server.ask("GET /v1/status").json()["leader"], Json::Null);
    // A disk with too little room: not ready, but for those who can do with less.
    server.node.set_mood(Mood::Full);
    assert_eq!(server.ask("GET /readyz").problem(), (503, "DISK".to_owned()));
    assert_eq!(server.ask("GET /readyz").json()["message"], json!("the disk of n1 has too little room"));
    assert_eq!(server.ask("GET /readyz?exclude=disk").status, 200);
    assert_eq!(server.ask("GET /readyz?exclude=leader").status, 400);
    assert_eq!(server.ask("GET /livez").status, 200);
}

#[test]
fn metrics_are_the_nodes_own() {
    let server = Server::start();
    server.ask("GET /getValue?key=none");
    let answer = server.ask("GET /metrics");
    assert_eq!(
        (answer.status, answer.content_type.as_str()),
        (200, "application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    let text = String::from_utf8(answer.body).expect("text");
    for line in [
        "dictum_node_info{node=\"n1\",version=\"0.1.0\"} 1",
        "dictum_has_leader 1",
        "dictum_ballot_round 2",
        "dictum_log_applied_position{node=\"n1\"} 8",
        "dictum_log_lag_entries{node=\"n1\"} 1",
        "dictum_disk_full{node=\"n1\"} 0",
        "dictum_uptime_seconds 5",
        "dictum_keys 2",
        "dictum_http_requests_total{method=\"GET\",route=\"/getValue\",status=\"404\"} 1",
    ] {
        assert!(text.lines().any(|have| have == line), "{line}\n{text}");
    }
    // Every sample belongs to a family that was announced.
    let mut family = "";
    for line in text.lines() {
        match line.strip_prefix("# TYPE ") {
            Some(rest) => family = rest.split(' ').next().unwrap_or_default(),
            None => assert!(line.starts_with('#') || line.starts_with(family), "{line}"),
        }
    }
}

#[test]
fn the_description_names_every_route_and_status() {
    let server = Server::start();
    let description = server.ask("GET /openapi.json").json();
    assert_eq!(description["openapi"], json!("3.1.0"));
    for (path, method, own) in [
        ("/getValue", "get", &["200", "404", "409"][..]),
        ("/getDictionary", "get", &["200", "409"]),
        ("/insertOrUpdate", "post", &["200", "408", "507"]),
        ("/v1/keys/{key}", "get", &["200", "304", "404", "409", "412"]),
        ("/v1/keys/{key}", "put", &["204", "408", "412", "422", "507"]),
        ("/v1/keys/{key}", "delete", &["204", "404", "412", "422"]),
        ("/v1/buckets/{name}/keys/{key}", "get", &["200", "304", "404", "409", "412"]),
        ("/v1/buckets/{name}/keys/{key}", "put", &["204", "408", "412", "422", "507"]),
        ("/v1/buckets/{name}/keys/{key}", "delete", &["204", "404", "412", "422"]),
        ("/v1/buckets", "get", &["200"]),
        ("/v1/buckets/{name}", "get", &["200", "404"]),
        ("/v1/buckets/{name}", "put", &["201", "408", "409", "422"]),
        ("/v1/buckets/{name}", "patch", &["204", "404", "408", "422"]),
        ("/v1/buckets/{name}", "delete", &["204", "404", "409", "428"]),
        ("/v1/buckets/{name}/changes", "get", &["200", "204", "409"]),
        ("/v1/nodes", "get", &["200"]),
        ("/v1/nodes", "patch", &["204", "408", "422"]),
        ("/v1/nodes/settings", "get", &["200"]),
        ("/v1/nodes/{name}/drain", "post", &["204", "404", "409"]),
        ("/v1/nodes/{name}/promote", "post", &["204", "404"]),
        ("/v1/nodes/pause", "post", &["204"]),
        ("/v1/nodes/resume", "post", &["204"]),
        ("/v1/status", "get", &["200"]),
        ("/v1/audit", "get", &["200"]),
        ("/metrics", "get", &["200"]),
        ("/livez", "get", &["200"]),
        ("/readyz", "get", &["200"]),
    ] {
        let responses = &description["paths"][path][method]["responses"];
        for status in own.iter().chain(&["400", "404", "405", "413", "500", "503", "504"]) {
            assert!(responses[status].is_object(), "{method} {path} {status}");
        }
        assert!(responses["401"].is_null(), "no password, no 401");
    }
    assert_eq!(description["paths"].as_object().map(serde_json::Map::len), Some(21));
    assert!(description["components"]["schemas"]["Problem"].is_object());
    let guarded = Server::with(Some("secret"), 1000, Duration::from_secs(5)).ask("GET /openapi.json").json();
    assert!(guarded["paths"]["/getValue"]["get"]["responses"]["401"].is_object());
    assert!(guarded["paths"]["/livez"]["get"]["responses"]["401"].is_null());
}
