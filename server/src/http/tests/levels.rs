//! Levels asked for by headers, on connections that requests share.

use serde_json::json;

use super::fake::SessionLevels;
use super::{Answer, Server};

const LOCAL: (&str, &str) = ("Dictum-Consistency", "local");
const ALL: (&str, &str) = ("Dictum-Durability", "all");

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("text"))
    }

    fn token(&self) -> Option<&str> {
        self.header("dictum-token")
    }

    fn age(&self) -> Option<&str> {
        self.header("dictum-age-ms")
    }
}

impl Server {
    /// What its connection had set when the last command was given.
    fn last_levels(&self) -> (Option<String>, Option<String>) {
        let SessionLevels { durability, consistency, .. } = self.node.lock().levels.last().cloned().expect("a command");
        (durability, consistency)
    }
}

fn some(word: &str) -> Option<String> {
    Some(word.to_owned())
}

#[test]
fn answers_tell_what_was_seen() {
    let server = Server::start();
    assert_eq!(server.ask("GET /v1/keys/k").token(), Some("0:0"), "404");
    assert_eq!(server.send("PUT /v1/keys/k", &[], "v").token(), Some("0:1"));
    let insert = server.send("POST /insertOrUpdate", &[], r#"{"key":"l","value":"v"}"#);
    assert_eq!(insert.token(), Some("0:2"));
    for (line, headers, status) in [
        ("GET /v1/keys/k", &[][..], 200),
        ("HEAD /v1/keys/k", &[], 200),
        ("GET /v1/keys/k", &[("If-None-Match", "\"1\"")], 304),
        ("GET /v1/keys/k", &[("If-Match", "\"9\"")], 412),
        ("PUT /v1/keys/k", &[("If-Match", "\"9\"")], 412),
        ("PUT /v1/keys/none", &[("If-Match", "*")], 412),
        ("DELETE /v1/keys/none", &[], 404),
        ("GET /getValue?key=k", &[], 200),
        ("GET /getValue?key=none", &[], 404),
        ("GET /getDictionary", &[], 200),
    ] {
        let answer = server.send(line, headers, "");
        assert_eq!((answer.status, answer.token(), answer.age()), (status, Some("0:2"), None), "{line}");
        if !line.starts_with("PUT") && !line.starts_with("DELETE") {
            for level in ["local", "session"] {
                let answer = server.send(line, &[headers, &[("Dictum-Consistency", level)]].concat(), "");
                assert_eq!((answer.status, answer.token(), answer.age()), (status, Some("0:2"), Some("7")), "{line}");
            }
        }
    }
    // What has seen nothing has no token.
    server.node.set_mood(super::Mood::Leaderless);
    for line in ["GET /v1/keys/k", "PUT /v1/keys/k", "GET /getValue?key=k", "GET /getDictionary"] {
        let answer = server.send(line, &[LOCAL], "");
        assert_eq!((answer.status, answer.token(), answer.age()), (503, None, None), "{line}");
    }
}

#[test]
fn a_bucket_of_weak_reads_tells_their_age() {
    let server = Server::start();
    server.node.lock().consistency = Some("local");
    assert_eq!(server.ask("GET /v1/keys/k").age(), Some("7"));
    assert_eq!(server.ask("GET /getDictionary").age(), Some("7"));
    assert_eq!(server.send("GET /v1/keys/k", &[("Dictum-Consistency", "linearizable")], "").age(), None);
    assert_eq!(server.last_levels().1, some("linearizable"));
    // A condition is judged by what is true now.
    server.send("PUT /v1/keys/k", &[("If-None-Match", "\"9\"")], "v");
    let state = server.node.lock();
    let look = state.commands.iter().rposition(|words| words[0] == b"DICTUM.GET").expect("a look");
    assert_eq!(state.levels[look].consistency, some("linearizable"));
}

#[test]
fn what_a_request_asks_for_is_not_the_next_ones() {
    let server = Server::start();
    server.send("PUT /v1/keys/k", &[ALL], "v");
    assert_eq!(server.last_levels().0, some("all"));
    server.send("PUT /v1/keys/k", &[], "v");
    assert_eq!(server.last_levels().0, None);
    server.send("DELETE /v1/keys/k", &[("Dictum-Durability", "majority")], "");
    assert_eq!(server.last_levels().0, some("majority"));
    server.send("GET /v1/keys/k", &[LOCAL], "");
    assert_eq!(server.last_levels().1, some("local"));
    server.ask("GET /v1/keys/k");
    assert_eq!(server.last_levels().1, None);
    server.send("GET /getDictionary", &[LOCAL], "");
    assert_eq!(server.last_levels().1, some("local"));
    server.ask("GET /getDictionary");
    assert_eq!(server.last_levels().1, None);
    assert_eq!(server.node.lock().opened, 1, "all on one connection");
}

#[test]
fn a_false_token_spoils_nobody_elses_connection() {
    let server = Server::start();
    server.send("PUT /v1/keys/k", &[], "v");
    let get = |token: &str| server.send("GET /v1/keys/k", &[("Dictum-Token", token)], "");
    assert_eq!((get("0:1").status, get("0:1").token()), (200, Some("0:1")));
    assert_eq!(server.last_levels().1, some("session"));
    assert_eq!(server.node.lock().opened, 1);
    for token in ["0:99", "4:1"] {
        let refused = get(token);
        assert_eq!((refused.problem(), refused.token()), ((409, "FALSE_TOKEN".to_owned()), None), "{token}");
        assert_eq!(server.ask("GET /v1/keys/k").token(), Some("0:1"));
    }
    assert_eq!(get("0:").problem().0, 400);
    let contradiction = server.send("GET /v1/keys/k", &[("Dictum-Token", "0:1"), LOCAL], "");
    assert_eq!(contradiction.problem(), (400, "BAD_REQUEST".to_owned()));
    // A write is newer than every token.
    assert_eq!(server.send("PUT /v1/keys/k", &[("Dictum-Token", "0:99")], "v").token(), Some("0:2"));
    // A token of a bucket that has the name by now, on a connection that has selected the one before.
    server.send("PUT /v1/buckets/users", &[], "{}");
    server.send("PUT /v1/buckets/users/keys/k", &[], "v");
    server.send("DELETE /v1/buckets/users?confirm=users", &[], "");
    server.send("PUT /v1/buckets/users", &[], "{}");
    let get = server.send("GET /v1/buckets/users/keys/k", &[("Dictum-Token", "2:1")], "");
    assert_eq!(get.problem(), (404, "NOT_FOUND".to_owned()), "the key is not there, but the bucket is");
    assert_eq!(get.token(), Some("2:3"));
}

#[test]
fn what_durability_could_not_be_had_is_told() {
    let server = Server::start();
    server.node.lock().not_on_all = true;
    let answer = server.send("PUT /v1/keys/k", &[ALL], "v");
    assert_eq!((answer.problem(), answer.token()), ((504, "NOTALL".to_owned()), Some("0:1")));
    server.send("PUT /v1/buckets/scratch", &[], "{}");
    let write = [("Dictum-Durability", "persist-majority")];
    let refused = server.send("PUT /v1/buckets/scratch/keys/k", &write, "v");
    assert_eq!(refused.problem(), (422, "CONTRADICTION".to_owned()));
    assert_eq!(server.sent("DICTUM.SET"), 1, "the write did not go out");
    assert_eq!(server.send("PUT /v1/buckets/scratch/keys/k", &[("Dictum-Durability", "any")], "v").problem().0, 400);
    for (level, words) in [
        ("majority", "a majority of the replicas has it"),
        ("persist-majority", "a majority of the replicas has it on disk"),
        ("all", "every replica has it"),
    ] {
        let insert = server.send("POST /insertOrUpdate", &[("Dictum-Durability", level)], r#"{"key":"k","value":"v"}"#);
        assert_eq!(insert.json()["message"], json!(format!("\"k\" is stored: {words}.")));
    }
}

#[test]
fn the_description_has_the_headers() {
    let server = Server::start();
    let paths = server.ask("GET /openapi.json").json()["paths"].clone();
    for (path, method, takes, tells) in [
        ("/getValue", "get", &["Dictum-Consistency", "Dictum-Token"][..], &["200", "404", "409"][..]),
        ("/getDictionary", "get", &["Dictum-Consistency", "Dictum-Token"], &["200"]),
        ("/insertOrUpdate", "post", &["Dictum-Durability"], &["200"]),
        ("/v1/keys/{key}", "get", &["Dictum-Consistency", "Dictum-Token"], &["200", "304", "404", "412"]),
        ("/v1/buckets/{name}/keys/{key}", "get", &["Dictum-Token"], &["200", "304", "404", "412"]),
        ("/v1/buckets/{name}/keys/{key}", "put", &["Dictum-Durability"], &["204", "412"]),
        ("/v1/keys/{key}", "delete", &["Dictum-Durability"], &["204", "404", "412"]),
    ] {
        let operation = &paths[path][method];
        let parameters = operation["parameters"].as_array().expect("parameters");
        for name in takes {
            assert!(parameters.iter().any(|parameter| parameter["name"] == json!(name)), "{method} {path} {name}");
        }
        for status in tells {
            let headers = &operation["responses"][status]["headers"];
            assert!(headers["Dictum-Token"].is_object(), "{method} {path} {status}");
            assert_eq!(headers["Dictum-Age-Ms"].is_object(), method == "get", "{method} {path} {status}");
        }
    }
}
