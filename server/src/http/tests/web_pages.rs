//! Web pages against all routes: what is refused reaches no command.

use std::time::Duration;

use super::super::Visitors;
use super::Server;
use super::fake::Mood;

const PAGE: [(&str, &str); 2] = [("host", "127.0.0.1:8001"), ("origin", "https://app.example")];

fn server(password: Option<&'static str>) -> Server {
    let visitors = Visitors { origins: vec!["https://app.example".to_owned()], ..Visitors::default() };
    Server::visited(password, 1000, Duration::from_secs(5), visitors)
}

#[test]
fn no_route_is_carried_out_for_a_foreign_page() {
    let server = server(None);
    let lines = [
        "GET /getDictionary",
        "GET /getValue?key=a",
        "POST /insertOrUpdate",
        "GET /v1/keys/a",
        "PUT /v1/keys/a",
        "DELETE /v1/keys/a",
        "GET /v1/buckets",
        "PUT /v1/buckets/b",
        "DELETE /v1/buckets/b",
        "GET /v1/nodes",
        "POST /v1/nodes/token",
        "POST /v1/nodes/n2/drain",
        "DELETE /v1/nodes/n2",
        "GET /status",
        "GET /metrics",
        "GET /nothing",
        "TRACE /",
    ];
    for line in lines {
        for (headers, expected) in [
            ([("host", "127.0.0.1:8001"), ("origin", "https://evil.example")], (403, "ORIGIN")),
            ([("host", "127.0.0.1:8001"), ("sec-fetch-site", "cross-site")], (403, "ORIGIN")),
            ([("host", "evil.example:8001"), ("accept-language", "en")], (421, "MISDIRECTED")),
        ] {
            let answer = server.send(line, &headers, r#"{"key":"a","value":"b"}"#);
            if line != "HEAD" {
                assert_eq!(answer.problem(), (expected.0, expected.1.to_owned()), "{line} {headers:?}");
            }
            assert!(!answer.headers.contains_key("access-control-allow-origin"), "{line}");
            assert_eq!(answer.headers["x-content-type-options"], "nosniff");
        }
    }
    assert_eq!(server.node.lock().commands.len(), 0, "nothing came to the node");
    let message = server.send("GET /status", &[("host", "evil.example\t\u{fc}")], "").json()["message"].to_string();
    assert!(message.contains("--http-host") && !message.contains(['\t', '\u{fc}']), "{message}");
}

#[test]
fn what_somebody_goes_to_looks_alike_whether_a_key_is_there() {
    let server = server(None);
    assert_eq!(server.send("PUT /v1/keys/there", &[], "v").status, 204);
    let of = |target: &str, headers: &[(&str, &str)]| {
        let answer = server.send(&format!("GET /v1/keys/{target}"), headers, "");
        assert_eq!(answer.headers["x-frame-options"], "DENY");
        assert!(answer.headers["content-security-policy"].to_str().unwrap().contains("frame-ancestors 'none'"));
        assert!(!answer.headers.contains_key("content-disposition"));
        (answer.status, answer.content_type)
    };
    let shown = |status, of: &str| (status, of.to_owned());
    for goes in [
        ("sec-fetch-mode", "navigate"),
        // Where a browser says nothing of that.
        ("upgrade-insecure-requests", "1"),
        ("accept", "text/html,application/xhtml+xml"),
    ] {
        assert_eq!(of("there", &[goes]), shown(200, "text/plain; charset=utf-8"), "{goes:?}");
        assert_eq!(of("gone", &[goes]), shown(404, "application/json"), "{goes:?}");
    }
    assert_eq!(
        of("there", &[("accept", "*/*")]),
        shown(200, "application/octet-stream"),
        "a program is told what it is"
    );
}

#[test]
fn probes_tell_no_names_under_a_foreign_one() {
    let server = server(None);
    for (path, said) in [("/livez", "The node answers."), ("/readyz", "n1 leads.")] {
        for (host, node, message) in [("127.0.0.1:8001", "n1", said), ("evil.example:8001", "", "It serves.")] {
            let answer = server.send(&format!("GET {path}"), &[("host", host)], "").json();
            assert_eq!((&answer["node"], &answer["message"]), (&node.into(), &message.into()), "{path} {host}");
        }
    }
    server.node.set_mood(Mood::Full);
    let refused = server.send("GET /readyz", &[("host", "evil.example")], "");
    assert_eq!(refused.problem(), (503, "DISK".to_owned()));
    assert!(!refused.json()["message"].to_string().contains("n1"), "{}", refused.json());
}

#[test]
fn a_page_that_is_let_in_is_answered_so_that_it_can_read_it() {
    let server = server(Some("secret"));
    let asks = [
        PAGE[0],
        PAGE[1],
        ("access-control-request-method", "PUT"),
        ("access-control-request-headers", "authorization"),
    ];
    let preflight = server.send("OPTIONS /v1/keys/a", &asks, "");
    assert_eq!(preflight.status, 204, "without a password, which browsers do not send with it");
    assert_eq!(preflight.headers["access-control-allow-origin"], "https://app.example");
    for (name, part) in
        [("access-control-allow-methods", "PUT"), ("access-control-allow-headers", "authorization"), ("vary", "Origin")]
    {
        assert!(preflight.headers[name].to_str().unwrap().contains(part), "{name}");
    }
    assert!(!preflight.headers.contains_key("access-control-allow-private-network"));
    let private = [&asks[..], &[("access-control-request-private-network", "true")]].concat();
    assert_eq!(server.send("OPTIONS /v1/keys/a", &private, "").headers["access-control-allow-private-network"], "true");

    let refused = server.send("PUT /v1/keys/a", &PAGE, "v");
    assert_eq!(
        (refused.status, refused.headers["access-control-allow-origin"].to_str().unwrap()),
        (401, "https://app.example")
    );
    let stored = server.send("PUT /v1/keys/a", &[PAGE[0], PAGE[1], ("authorization", "Bearer secret")], "v");
    assert_eq!(
        (stored.status, stored.headers["access-control-allow-origin"].to_str().unwrap()),
        (204, "https://app.example")
    );
    assert!(stored.headers["access-control-expose-headers"].to_str().unwrap().contains("etag"));
    let foreign =
        [("host", "127.0.0.1:8001"), ("origin", "https://evil.example"), ("access-control-request-method", "PUT")];
    assert_eq!(server.send("OPTIONS /v1/keys/a", &foreign, "").problem(), (403, "ORIGIN".to_owned()));
}

#[test]
fn programs_are_served_as_before() {
    let server = server(None);
    let curl = [
        ("host", "localhost:8001"),
        ("user-agent", "curl/8.5.0"),
        ("accept", "*/*"),
        ("content-type", "application/x-www-form-urlencoded"),
    ];
    assert_eq!(server.send("POST /insertOrUpdate", &curl, r#"{"key":"a","value":"b"}"#).status, 200);
    assert_eq!(server.send("GET /getValue?key=a", &curl, "").status, 200);
    assert_eq!(server.send("GET /getValue?key=a", &[], "").status, 200, "HTTP/1.0 without Host");
}
