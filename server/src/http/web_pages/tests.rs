//! The rules, each with what is let in beside what is not.

use super::*;

const HERE: &str = "127.0.0.1:50000";
const ELSEWHERE: &str = "10.0.0.9:50000";

fn visitors() -> Visitors {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    Visitors {
        hosts: texts(&["n1", "db1.example", "*.ns.svc"]),
        origins: texts(&["https://app.example"]),
        is_protected: Arc::default(),
    }
}

/// The code of the refusal, or how it passes.
fn judged(visitors: &Visitors, remote: &str, line: &str, given: &[(&str, &str)]) -> String {
    let (method, target) = line.split_once(' ').expect("method and target");
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        headers.append(name.parse::<HeaderName>().expect("a name"), value.parse().expect("a value"));
    }
    let (method, uri) = (method.parse().expect("a method"), target.parse().expect("a target"));
    match visitors.judge(remote.parse().ok(), &method, &uri, &headers) {
        Verdict::Pass => "pass".to_owned(),
        Verdict::PassTo(origin) => format!("pass to {}", origin.to_str().expect("text")),
        Verdict::Preflight(_) => "preflight".to_owned(),
        Verdict::Refused(problem) => problem.code,
    }
}

#[track_caller]
fn check(line: &str, headers: &[(&str, &str)], expected: &str) {
    assert_eq!(judged(&visitors(), HERE, line, headers), expected, "{line} {headers:?}");
}

#[test]
fn a_request_is_addressed_to_a_name_that_nobody_else_can_own() {
    for host in [
        "127.0.0.1:8001",
        "127.0.0.1",
        "10.1.2.3:8001",
        "[::1]:8001",
        "[2001:db8::1]",
        "localhost",
        "LocalHost:8001",
        "localhost.",
        "n1",
        "N1:80",
        "db1.example:8001",
        "a.ns.svc",
        "a.b.NS.svc.",
    ] {
        check("GET /getDictionary", &[("host", host)], "pass");
    }
    for host in [
        "evil.example",
        "evil.example:8001",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "xn1",
        "ns.svc",
        ".ns.svc",
        "evilns.svc",
        "",
        ":8001",
        "a b",
        "u@127.0.0.1",
        "127.0.0.1@evil.example",
        "0x7f.1",
        "db1.example.evil",
        "127.0.0.1/",
        "[::1].evil",
    ] {
        check("GET /getDictionary", &[("host", host)], "MISDIRECTED");
    }
    // Old probes have no header `Host`; a browser always has one.
    check("GET /getDictionary", &[], "pass");
    check("GET /getDictionary", &[("host", "n1"), ("host", "evil.example")], "BAD_REQUEST");
    check("GET http://evil.example/getDictionary", &[("host", "127.0.0.1")], "MISDIRECTED");
    check("GET http://127.0.0.1/getDictionary", &[("host", "evil.example")], "MISDIRECTED");
    let all = Visitors { hosts: vec!["*".to_owned()], ..Visitors::default() };
    assert_eq!(judged(&all, HERE, "GET /getDictionary", &[("host", "evil.example")]), "pass");
}

#[test]
fn probes_and_metrics_are_answered_by_any_name() {
    for path in ["/livez", "/readyz", "/openapi.json", "/metrics"] {
        for host in ["dictum-0.dictum:8001", "evil.example", ""] {
            check(&format!("GET {path}"), &[("host", host), ("user-agent", "kube-probe/1.34")], "pass");
        }
    }
    // A page whose name leads here reads no figures. Browsers send this header with everything, and pages cannot take it away.
    check("GET /metrics", &[("host", "evil.example"), ("accept-language", "*")], "MISDIRECTED");
    check("GET /metrics", &[("host", "127.0.0.1:8001"), ("accept-language", "de")], "pass");
    check("GET /metrics/", &[("host", "evil.example")], "MISDIRECTED");
}

#[test]
fn a_page_of_another_origin_neither_reads_nor_writes() {
    for line in [
        "GET /getDictionary",
        "POST /insertOrUpdate",
        "DELETE /v1/keys/a",
        "OPTIONS /v1/keys/a",
        "GET /metrics",
        "GET /livez",
    ] {
        for origin in [
            "https://evil.example",
            "null",
            "",
            "http://127.0.0.1:9999",
            "http://127.0.0.1",
            "http://localhost:8001",
            "ftp://127.0.0.1:8001",
            "http://127.0.0.1:8001.evil.example",
            "http://u@127.0.0.1:8001",
            "https://app.example.evil",
            "https://app.example:444",
            "http://app.example",
        ] {
            check(line, &[("host", "127.0.0.1:8001"), ("origin", origin)], "ORIGIN");
        }
        check(
            line,
            &[("host", "127.0.0.1:8001"), ("origin", "http://127.0.0.1:8001"), ("origin", "https://evil.example")],
            "BAD_REQUEST",
        );
        check(line, &[("origin", "http://127.0.0.1:8001")], "ORIGIN");
        check(line, &[("host", "127.0.0.1:8001"), ("origin", "http://127.0.0.1:8001")], "pass");
    }
    check("GET /status", &[("host", "db1.example"), ("origin", "https://db1.example")], "pass");
    check("GET /status", &[("host", "db1.example:443"), ("origin", "https://db1.example")], "pass");
    check("GET /status", &[("host", "evil.example"), ("origin", "http://evil.example")], "MISDIRECTED");
}

#[test]
fn what_a_browser_says_of_the_page_counts_where_there_is_no_origin() {
    let site =
        |site: &'static str| [("host", "127.0.0.1:8001"), ("sec-fetch-site", site), ("sec-fetch-mode", "no-cors")];
    for line in ["GET /getDictionary", "POST /v1/nodes/token"] {
        for foreign in ["cross-site", "same-site", "Cross-Site", "else", ""] {
            check(line, &site(foreign), "ORIGIN");
        }
        check(line, &site("same-origin"), "pass");
        check(line, &site("none"), "pass");
    }
    // Somebody follows a link of another page.
    let link = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
    check("GET /status", &link, "pass");
    check("POST /v1/nodes/token", &link, "ORIGIN");
    check("GET /status", &[link[0], link[1], ("sec-fetch-dest", "iframe")], "ORIGIN");
}

#[test]
fn forms_change_nothing() {
    let own = [("host", "n1:8001"), ("origin", "http://n1:8001")];
    for form in [
        "text/plain",
        "TEXT/PLAIN;charset=UTF-8",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=a",
    ] {
        check("POST /insertOrUpdate", &[own[0], own[1], ("content-type", form)], "FORM");
        check("POST /insertOrUpdate", &[own[0], ("content-type", form)], "pass");
        check("POST /insertOrUpdate", &[own[0], ("content-type", form), ("referer", "http://evil.example/")], "ORIGIN");
        check("POST /v1/nodes/token", &[own[0], ("content-type", form), ("accept-language", "de,en;q=0.5")], "ORIGIN");
    }
    for other in ["application/json", "application/octet-stream", "application/json; charset=utf-8"] {
        check("POST /insertOrUpdate", &[own[0], own[1], ("content-type", other)], "pass");
    }
    // Node.js.
    check("PUT /v1/keys/a", &[own[0], ("accept-language", "*"), ("sec-fetch-mode", "cors")], "pass");
}

#[test]
fn pages_of_allowed_origins_read_and_write() {
    let page = [("host", "127.0.0.1:8001"), ("origin", "https://app.example"), ("sec-fetch-site", "cross-site")];
    check("GET /getDictionary", &page, "pass to https://app.example");
    check("DELETE /v1/keys/a", &page, "pass to https://app.example");
    check("POST /insertOrUpdate", &[page[0], page[1], page[2], ("content-type", "text/plain")], "FORM");
    check("OPTIONS /v1/keys/a", &[page[0], page[1], ("access-control-request-method", "PUT")], "preflight");
    check("OPTIONS /v1/keys/a", &page, "pass to https://app.example");
    check("GET /getDictionary", &[("host", "evil.example"), page[1]], "MISDIRECTED");
    check("GET /getDictionary", &[page[0], page[2]], "ORIGIN");
}

#[test]
fn in_protected_mode_only_this_machine_is_answered() {
    let visitors = visitors();
    let ask = |remote: &str, path: &str| judged(&visitors, remote, &format!("GET {path}"), &[]);
    assert_eq!(ask(ELSEWHERE, "/getDictionary"), "pass");
    visitors.is_protected.store(true, Ordering::Relaxed);
    for (remote, expected) in [
        (HERE, "pass"),
        ("127.5.6.7:1", "pass"),
        ("[::1]:1", "pass"),
        ("[::ffff:127.0.0.1]:1", "pass"),
        (ELSEWHERE, "DENIED"),
        ("[::ffff:10.0.0.9]:1", "DENIED"),
        ("[fe80::1]:1", "DENIED"),
        ("unknown", "DENIED"),
    ] {
        assert_eq!(ask(remote, "/getDictionary"), expected, "{remote}");
        assert_eq!(ask(remote, "/metrics"), expected, "{remote}");
        assert_eq!(ask(remote, "/livez"), "pass", "{remote}");
    }
}
