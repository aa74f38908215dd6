//! Buckets over HTTP: what is done to them, and how requests find theirs.

use std::time::Duration;

use serde_json::json;

use super::Server;
use super::fake::Mood;

fn with_buckets(names: &[&str]) -> Server {
    let server = Server::start();
    for name in names {
        assert_eq!(server.send(&format!("PUT /v1/buckets/{name}"), &[], "{}").status, 201);
    }
    server
}

#[test]
fn buckets_are_created_shown_changed_and_dropped() {
    let server = Server::start();
    let body = r#"{"kind":"cache","quota":1024,"ttl":60}"#;
    let created = server.send("PUT /v1/buckets/pages", &[], body);
    assert_eq!((created.status, created.body.len()), (201, 0));
    assert_eq!(created.headers["location"], "/v1/buckets/pages");
    let settings = || server.node.lock().buckets[&b"pages"[..]].settings.concat();
    assert_eq!(settings(), b"KINDcacheQUOTA1024TTL60");
    assert_eq!(server.send("PUT /v1/buckets/pages", &[], body).problem(), (409, "CONFLICT".to_owned()));
    assert_eq!(server.ask("GET /v1/buckets/pages").json()["name"], json!("pages"));
    assert_eq!(server.ask("GET /v1/buckets/p%61ges").json()["name"], json!("pages"));
    assert_eq!(server.ask("GET /v1/buckets").json()[0]["number"], json!(1));
    assert_eq!(server.ask("GET /v1/buckets/none").problem(), (404, "NOT_FOUND".to_owned()));
    assert_eq!(server.send("PATCH /v1/buckets/pages", &[], r#"{"policy":"lru"}"#).status, 204);
    assert_eq!(settings(), b"POLICYlru");
    assert_eq!(server.send("PATCH /v1/buckets/none", &[], r#"{"policy":"lru"}"#).problem().0, 404);
    for target in ["pages", "pages?confirm=", "pages?confirm=page", "none", "default"] {
        let refused = server.ask(&format!("DELETE /v1/buckets/{target}"));
        assert_eq!(refused.problem(), (428, "CONFIRMATION_REQUIRED".to_owned()), "{target}");
        assert!(refused.json()["message"].as_str().is_some_and(|text| text.contains("?confirm=")));
    }
    assert_eq!(server.ask("DELETE /v1/buckets/none?confirm=none").problem().0, 404);
    assert_eq!(server.ask("DELETE /v1/buckets/default?confirm=default").problem(), (409, "CONFLICT".to_owned()));
    assert_eq!(server.ask("DELETE /v1/buckets/pages?confirm=pages").status, 204);
    assert_eq!(server.ask("GET /v1/buckets").json(), json!([]));
}

#[test]
fn what_is_no_order_does_not_reach_the_node() {
    let server = with_buckets(&["users"]);
    let before = server.node.lock().commands.len();
    for (line, body, status) in [
        ("PUT /v1/buckets/7", "{}", 400),
        ("PUT /v1/buckets/a%2Fb", "{}", 400),
        ("PUT /v1/buckets/x", "", 400),
        ("PUT /v1/buckets/x", "[]", 400),
        ("PUT /v1/buckets/x", r#"{"kind":"odd"}"#, 400),
        ("PUT /v1/buckets/x?kind=cache", "{}", 400),
        ("PATCH /v1/buckets/users", "{}", 400),
        ("PATCH /v1/buckets/users", r#"{"kind":"persistent"}"#, 400),
        ("GET /v1/buckets/0/keys/a", "", 400),
        ("GET /v1/buckets/users/keys/%", "", 400),
        ("POST /v1/buckets/users", "{}", 405),
        ("GET /v1/buckets/users/", "", 404),
        ("GET /v1/buckets/users/key/a", "", 404),
        ("GET /v1/buckets//keys/a", "", 400),
    ] {
        assert_eq!(server.send(line, &[], body).problem().0, status, "{line} {body}");
    }
    assert_eq!(server.send("PUT /v1/buckets/x", &[], vec![b' '; 20_000]).problem(), (413, "TOO_LARGE".to_owned()));
    assert_eq!(server.node.lock().commands.len(), before);
    // Only the node knows what contradicts itself.
    let refused = server.send("PUT /v1/buckets/x", &[], r#"{"kind":"cache"}"#);
    assert_eq!(refused.problem(), (422, "CONTRADICTION".to_owned()));
    assert_eq!(refused.json()["message"], json!("a cache needs a quota"));
}

#[test]
fn orders_fail_as_writes_do() {
    let server = with_buckets(&["users"]);
    let order = || server.send("PATCH /v1/buckets/users", &[], r#"{"ttl":1}"#).problem();
    server.node.set_mood(Mood::Leaderless);
    assert_eq!(order(), (503, "CLUSTERDOWN".to_owned()));
    assert_eq!(server.ask("GET /v1/buckets").problem(), (503, "CLUSTERDOWN".to_owned()));
    server.node.set_mood(Mood::Unsure);
    assert_eq!(order(), (504, "UNKNOWN".to_owned()));
    server.node.set_mood(Mood::Rude);
    assert_eq!(order(), (504, "UNKNOWN".to_owned()));
    assert_eq!(server.ask("GET /v1/buckets").problem(), (503, "CLUSTERDOWN".to_owned()));
}

#[test]
fn keys_of_buckets_are_keys() {
    let server = with_buckets(&["users"]);
    let target = "/v1/buckets/users/keys/a%2Fb%FF";
    assert_eq!(server.ask(&format!("GET {target}")).problem().0, 404);
    let put = server.send(&format!("PUT {target}"), &[("If-None-Match", "*")], &b"\x00\xfe"[..]);
    assert_eq!((put.status, put.etag.as_str()), (204, "\"1\""));
    assert_eq!(server.send(&format!("PUT {target}"), &[("If-None-Match", "*")], "x").status, 412);
    assert_eq!(server.send(&format!("PUT {target}"), &[("If-Match", "*")], "x").status, 204);
    let got = server.ask(&format!("GET {target}"));
    assert_eq!((got.status, got.etag.as_str(), &got.body[..]), (200, "\"2\"", &b"x"[..]));
    assert_eq!(server.ask(&format!("HEAD {target}")).status, 200);
    // The default bucket has no such key, by whichever name it goes.
    assert_eq!(server.ask("GET /v1/keys/a%2Fb%FF").status, 404);
    assert_eq!(server.ask("GET /v1/buckets/default/keys/a%2Fb%FF").status, 404);
    assert_eq!(server.send("PUT /v1/buckets/default/keys/k", &[], "v").status, 204);
    assert_eq!(server.ask("GET /v1/keys/k").body, b"v");
    assert_eq!(server.ask(&format!("DELETE {target}")).status, 204);
    let once = [("Idempotency-Key", "one")];
    assert_eq!(server.send("PUT /v1/buckets/users/keys/?ttl_ms=5", &once, "the empty key").status, 204);
    assert_eq!(server.ask("GET /v1/buckets/users/keys/").body, b"the empty key");
    for (line, body) in [("GET", ""), ("PUT", "v"), ("DELETE", "")] {
        let refused = server.send(&format!("{line} /v1/buckets/none/keys/k"), &[], body);
        assert_eq!(refused.problem(), (404, "NOT_FOUND".to_owned()), "{line}");
        assert_eq!(refused.json()["message"], json!("there is no bucket 'none'"));
    }
}

#[test]
fn a_connection_selects_only_what_it_has_not() {
    let server = with_buckets(&["users", "pages"]);
    for _ in 0..10 {
        server.ask("GET /v1/keys/k");
    }
    assert_eq!(server.sent("SELECT"), 0, "a connection begins in the default bucket");
    for _ in 0..10 {
        server.ask("GET /v1/buckets/users/keys/k");
        server.ask("GET /v1/buckets");
    }
    assert_eq!(server.sent("SELECT"), 1, "what concerns no bucket selects none");
    server.ask("GET /v1/buckets/pages/keys/k");
    server.ask("GET /v1/buckets/none/keys/k");
    server.ask("GET /v1/buckets/pages/keys/k");
    server.ask("GET /v1/keys/k");
    assert_eq!((server.sent("SELECT"), server.node.lock().opened), (4, 1));
}

#[test]
fn another_bucket_of_the_same_name_is_found() {
    let server = with_buckets(&["users"]);
    let target = "/v1/buckets/users/keys/k";
    assert_eq!(server.send(&format!("PUT {target}"), &[], "old").status, 204);
    assert_eq!(server.ask("DELETE /v1/buckets/users?confirm=users").status, 204);
    assert_eq!(server.ask(&format!("GET {target}")).json()["message"], json!("there is no bucket 'users'"));
    assert_eq!(server.send("PUT /v1/buckets/users", &[], "{}").status, 201);
    // The connection has the dropped one selected.
    assert_eq!(server.ask(&format!("GET {target}")).problem().0, 404);
    assert_eq!(server.send(&format!("PUT {target}"), &[], "new").status, 204);
    assert_eq!(server.ask(&format!("GET {target}")).body, b"new");
    server.node.lock().no_replicas = true;
    assert_eq!(server.ask(&format!("GET {target}")).problem(), (503, "CLUSTERDOWN".to_owned()));
    assert_eq!(server.send(&format!("PUT {target}"), &[], "v").problem(), (503, "CLUSTERDOWN".to_owned()));
}

#[test]
fn the_users_name_is_a_bucket() {
    let server = Server::with(Some("secret"), 1000, Duration::from_secs(5));
    let send = |line: &str, user: &str, body: &str| {
        use base64::Engine;
        let pair = base64::engine::general_purpose::STANDARD.encode(format!("{user}:secret"));
        server.send(line, &[("Authorization", &format!("Basic {pair}"))], body)
    };
    assert_eq!(send("PUT /v1/keys/k", "users", "v").problem(), (401, "NOAUTH".to_owned()), "there is none such yet");
    assert_eq!(send("PUT /v1/buckets/users", "", "{}").status, 201);
    assert_eq!(send("PUT /v1/keys/k", "users", "v").status, 204);
    assert_eq!(send("GET /v1/buckets/users/keys/k", "default", "").body, b"v");
    assert_eq!(send("GET /v1/keys/k", "default", "").status, 404);
    assert_eq!(send("GET /getValue?key=k", "users", "").json()["value"], json!("v"));
    assert_eq!(send("POST /insertOrUpdate", "users", r#"{"key":"l","value":"w"}"#).status, 200);
    assert_eq!(send("GET /getDictionary", "users", "").json(), json!({"k": "v", "l": "w"}));
    assert_eq!(send("GET /getDictionary", "default", "").json(), json!({}));
    // The URL wins.
    assert_eq!(send("GET /v1/buckets/default/keys/k", "users", "").status, 404);
    assert_eq!(send("GET /v1/status", "users", "").status, 200);
    for stranger in ["root", "7", "us ers", "USERS"] {
        assert_eq!(send("GET /v1/status", stranger, "").problem(), (401, "NOAUTH".to_owned()), "{stranger}");
    }
    server.node.set_mood(Mood::Silent);
    assert_eq!(send("GET /livez", "root", "").status, 503, "a probe needs no password, and no user");
}

#[test]
fn without_a_password_the_user_still_names_a_bucket() {
    let server = with_buckets(&["users"]);
    let send = |line: &str, pair: &str| server.send(line, &[("Authorization", &format!("Basic {pair}"))], "v");
    assert_eq!(send("PUT /v1/keys/k", "dXNlcnM6eA==").status, 204, "users:x");
    assert_eq!(server.ask("GET /v1/buckets/users/keys/k").body, b"v");
    assert_eq!(send("PUT /v1/keys/k", "cm9vdDp4").problem(), (404, "NOT_FOUND".to_owned()), "root:x");
    assert_eq!(send("PUT /v1/keys/k", "Nzp4").problem(), (400, "BAD_REQUEST".to_owned()), "7:x");
    assert_eq!(send("PUT /v1/keys/k", "Ong=").status, 204, ":x");
    assert_eq!(server.ask("GET /v1/keys/k").body, b"v");
}
