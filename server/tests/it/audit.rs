//! The audit trail of a real node: what it tells, that it outlives `kill -9`, and that `dictum audit verify` sees what was changed in it.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests of real processes use real files and the real clock"
)]

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value as Json;
use tempfile::tempdir;
use wire::Value;

use crate::common::process::Process;
use crate::common::{Client, Dev, dictum, eventually, free_ports, http, output, wait_for};
use crate::start::start_command;

/// The beginning of a line, as an end in the middle of a write leaves it.
const TORN: &[u8] = b"{\"client\":\"127.";

fn start(folder: &Path) -> (Process, [String; 2]) {
    wait_for("a node", || {
        let [resp, http, peer] = free_ports();
        let process = Process::start(start_command(folder, [resp, http, peer], &[])).ok()?;
        Some((process, [format!("127.0.0.1:{resp}"), format!("127.0.0.1:{http}")]))
    })
}

fn must(client: &mut Client, words: &[&str]) {
    let reply = client.call(words).expect("a reply");
    assert!(reply.as_error().is_none(), "{words:?}: {reply:?}");
}

fn refused(client: &mut Client, words: &[&str], with: &str) {
    let reply = client.call(words).expect("a reply");
    assert!(reply.as_error().is_some_and(|error| error.starts_with(with)), "{words:?}: {reply:?}");
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let inner = fs::read_dir(folder.join("audit")).expect("the folder of the trail");
    let mut found: Vec<PathBuf> = inner.map(|entry| entry.expect("an entry").path()).collect();
    found.sort();
    found
}

fn text(folder: &Path) -> String {
    files(folder).iter().map(|path| fs::read_to_string(path).expect("text")).collect()
}

/// The records of a kind with these words in them.
fn records(folder: &Path, kind: &str, words: &[&str]) -> Vec<Json> {
    let text = text(folder);
    let lines = text.lines().filter(|line| words.iter().all(|word| line.contains(word)));
    let records = lines.filter_map(|line| serde_json::from_str::<Json>(line).ok());
    records.filter(|record| record["kind"] == kind).collect()
}

/// Waits until a record is on disk; the thread that writes is never waited for by clients.
fn told(folder: &Path, kind: &str, words: &[&str]) -> Json {
    wait_for(&format!("a record {kind} with {words:?}"), || records(folder, kind, words).pop())
}

/// The exit code and the report of `dictum audit verify`.
fn verify(path: &Path, more: &[&str]) -> (i32, Json) {
    let path = path.to_str().expect("a path");
    let output = output(dictum(&[&["audit", "verify", "--json", path], more].concat()));
    let code = output.status.code().expect("an exit code");
    (code, serde_json::from_slice(&output.stdout).unwrap_or(Json::Null))
}

#[test]
fn a_trail_outlives_kill_9_and_shows_what_was_changed() {
    let folder = tempdir().expect("a folder");
    let dir = folder.path();
    let (process, [resp, http]) = start(dir);
    wait_for("the version of the cluster", || {
        (eventually(&resp, &["ACL", "DELUSER", "nobody"]) == Value::Integer(0)).then_some(())
    });
    let mut root = Client::connect(&resp).expect("it listens");
    must(&mut root, &["ACL", "SETUSER", "ann", "on", ">hunter2secret", "~cart:*", "+get"]);
    refused(&mut root, &["ACL", "SETUSER", "ann", "misplacedsecret"], "ERR");
    must(&mut root, &["CONFIG", "SET", "slowlog-max-len", "99"]);
    must(&mut root, &["DICTUM.BUCKET", "CREATE", "shop"]);
    must(&mut root, &["FLUSHALL"]);
    must(&mut root, &["MULTI"]);
    must(&mut root, &["FLUSHDB"]);
    must(&mut root, &["EXEC"]);
    let mut ann = Client::connect(&resp).expect("it listens");
    refused(&mut ann, &["AUTH", "ann\u{1b}[31m", "wrongsecret"], "WRONGPASS");
    must(&mut ann, &["AUTH", "ann", "hunter2secret"]);
    refused(&mut ann, &["SET", "cart:1", "x"], "NOPERM");
    refused(&mut ann, &["GET", "stock:1"], "NOPERM");

    let login = told(dir, "login", &["\"ann\""]);
    assert!(login["client"].as_str().is_some_and(|client| client.starts_with("127.0.0.1:")), "{login}");
    let failed = told(dir, "login-failed", &[]);
    assert_eq!(failed["user"], "ann\\x1b[31m");
    told(dir, "refused", &["\"command\"", "\"set\""]);
    told(dir, "refused", &["\"key\"", "stock:1"]);
    let order = told(dir, "order", &["SETUSER", "\"ok\""]);
    assert_eq!(order["words"], serde_json::json!(["ACL", "SETUSER", "ann", "on", ">(redacted)", "~cart:*", "+get"]));
    told(dir, "order", &["SETUSER", "ERR Error in ACL SETUSER"]);
    told(dir, "order", &["CONFIG", "slowlog-max-len", "\"99\"", "\"ok\""]);
    told(dir, "order", &["DICTUM.BUCKET", "shop", "\"ok\""]);
    told(dir, "order", &["\"FLUSHALL\"", "\"ok\""]);
    told(dir, "order", &["\"FLUSHDB\"", "\"ok\""]);
    told(dir, "users-followed", &["\"ann\""]);
    told(dir, "bucket-made", &["shop"]);

    // Accesses to keys, where they are asked for.
    must(&mut root, &["CONFIG", "SET", "audit-keys", "~cart:*"]);
    must(&mut ann, &["GET", "cart:1"]);
    told(dir, "access", &["\"ann\"", "\"get\"", "\"default\"", "\"cart:1\"", "\"read\""]);

    // Over HTTP, too, with who asked.
    let basic = |user: &str| format!("Basic {}", STANDARD.encode(format!("{user}:hunter2secret")));
    let ask =
        |line: &str, user: &str| http::ask(&http, line, &[("Authorization", &basic(user))], b"").expect("answered");
    assert_eq!(ask("GET /v1/audit", "bob").status, 401);
    assert_eq!(ask("GET /v1/audit", "ann").status, 403, "she may not do everything");
    told(dir, "login-failed", &["\"bob\"", "http:127.0.0.1:"]);
    must(&mut root, &["ACL", "SETUSER", "boss", "on", ">hunter2secret", "~*", "&*", "+@all"]);
    wait_for("HTTP to know the user", || {
        (ask("DELETE /v1/buckets/shop?confirm=shop", "boss").status < 300).then_some(())
    });
    told(dir, "order", &["\"boss\"", "DELETE", "/v1/buckets/shop", "\"ok\""]);
    told(dir, "bucket-dropped", &["shop"]);
    ask("GET /v1/buckets/default/keys/cart:1", "boss");
    told(dir, "access", &["\"boss\"", "\"http", "\"cart:1\""]);
    let page = ask("GET /v1/audit?after=1&limit=2", "boss").json();
    assert_eq!((page["records"].as_array().map(Vec::len), &page["records"][0]["sequence"]), (Some(2), &Json::from(2)));
    assert_eq!((&page["next"], &page["is_failing"], &page["left_out"]), (&Json::from(3), &false.into(), &0.into()));
    assert_eq!(ask("GET /v1/audit?limit=0", "boss").status, 400);
    // One behind the records that are cut off below.
    let page = wait_for("a checkpoint", || {
        let page = ask("GET /v1/audit?limit=1000", "boss").json();
        page["checkpoint"]["sequence"].as_u64().is_some_and(|sequence| sequence > 4).then_some(page)
    });
    let noted = format!("{}:{}", page["checkpoint"]["sequence"], page["checkpoint"]["hash"].as_str().expect("a hash"));

    // No password, and nobody else's eyes.
    let all = text(dir);
    assert!(
        !all.contains("hunter2secret") && !all.contains("wrongsecret") && !all.contains("misplacedsecret"),
        "{all}"
    );
    let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!((mode(&dir.join("audit")), mode(&files(dir)[0])), (0o700, 0o600));

    process.kill();
    let (code, report) = verify(dir, &["--checkpoint", &noted]);
    assert_eq!((code, &report["is_sound"], &report["is_key_compared"]), (0, &true.into(), &true.into()), "{report}");
    assert_eq!((&report["cut"], &report["kinds"]["start"]), (&0.into(), &1.into()), "{report}");
    // As if the kill had come in the middle of a write.
    let last = files(dir).pop().expect("a file");
    let mut file = fs::OpenOptions::new().append(true).open(&last).expect("opened");
    file.write_all(TORN).expect("written");
    assert_eq!(verify(dir, &[]).1["torn_bytes"], TORN.len());

    let (process, _) = start(dir);
    assert_eq!(told(dir, "torn", &[])["bytes"], TORN.len());
    assert_eq!(records(dir, "start", &[])[1]["ended_before"], "cut");
    assert!(process.stop(), "it stops in order");
    let (code, report) = verify(dir, &["--checkpoint", &noted]);
    assert_eq!((code, &report["cut"], &report["unsigned"]), (0, &1.into(), &0.into()), "{report}");
    assert_eq!(report["kinds"]["end"], 1, "{report}");

    // Changed, cut, without the end, by another key, and not there.
    let whole = fs::read(&last).expect("read");
    let tampered = |bytes: &[u8], more: &[&str]| {
        fs::write(&last, bytes).expect("written");
        verify(dir, more).0
    };
    let text = String::from_utf8(whole.clone()).expect("text");
    assert_eq!(tampered(text.replacen("\"user\":\"ann\"", "\"user\":\"bob\"", 1).as_bytes(), &[]), 1);
    let lines: Vec<&str> = text.lines().collect();
    let without: String =
        lines.iter().enumerate().filter(|(n, _)| *n != 5).map(|(_, line)| format!("{line}\n")).collect();
    assert_eq!(tampered(without.as_bytes(), &[]), 1);
    let shorter: String = lines[..4].iter().map(|line| format!("{line}\n")).collect();
    assert_eq!(tampered(shorter.as_bytes(), &[]), 0, "the files alone cannot tell");
    assert_eq!(tampered(shorter.as_bytes(), &["--checkpoint", &noted]), 1);
    assert_eq!(tampered(&whole, &["--key", &"0".repeat(64)]), 1);
    assert_eq!(tampered(&whole, &[]), 0);
    assert_eq!(verify(&dir.join("nowhere"), &[]).0, 2);
}

/// Root of a machine has its key, and can write a trail that verifies. What other machines have noted of the trail is not root's to change.
#[test]
fn nodes_note_how_far_the_trails_of_the_others_are_signed() {
    let folder = tempdir().expect("a folder");
    let dir = folder.path().join("dev");
    let dev = Dev::start(&dir, &[]);
    let [first, second] = [0, 1].map(|place: usize| dev.nodes[place].dir.clone());
    let noted = told(&second, "trail-noted", &["\"n1\""]);
    assert!(noted["record"].as_u64().is_some_and(|record| record > 0), "{noted}");
    drop(dev);
    let witness = second.to_str().expect("a path");
    let (code, report) = verify(&first, &["--witness", witness]);
    assert_eq!(code, 0, "{report}");
    assert!(report["witnessed"].as_u64().is_some_and(|count| count > 0), "{report}");

    fs::remove_dir_all(first.join("audit")).expect("removed");
    drop(Dev::start(&dir, &[]));
    assert_eq!(verify(&first, &[]).0, 0, "the files alone cannot tell");
    let (code, report) = verify(&first, &["--witness", witness]);
    let text = report["findings"][0]["text"].as_str().unwrap_or_default();
    assert!(code == 1 && text.contains("n2 has noted"), "{report}");
    assert_eq!(verify(&first, &["--witness", "nowhere"]).0, 2);
}

#[test]
fn a_link_in_the_place_of_the_trail_is_not_followed() {
    let (folder, elsewhere) = (tempdir().expect("a folder"), tempdir().expect("a folder"));
    let (process, _) = start(folder.path());
    assert!(process.stop(), "it stops in order");
    fs::remove_dir_all(folder.path().join("audit")).expect("removed");
    std::os::unix::fs::symlink(elsewhere.path(), folder.path().join("audit")).expect("linked");
    let [resp, http, peer] = free_ports();
    let said = crate::common::failure(start_command(folder.path(), [resp, http, peer], &[]));
    assert!(said.contains("audit trail") && said.contains("no link is followed"), "{said}");
    assert_eq!(fs::read_dir(elsewhere.path()).expect("listed").count(), 0);
}
