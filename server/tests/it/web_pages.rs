//! Attacks on a node by a web page in an operator's browser, by another machine and by another user of this one: real processes, sockets and files.

#![allow(clippy::disallowed_methods, reason = "tests of real processes use real files")]

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use tempfile::tempdir;
use wire::Value;

use crate::common::process::Process;
use crate::common::{Client, PATIENCE, dictum, eventually, failure, free_ports, http, wait_for};

/// A node alone, which listens at `host`.
struct Alone {
    process: Process,
    resp: String,
    http: String,
}

fn command(dir: &Path, host: &str, more: &[&str]) -> (Command, String, String) {
    let [resp, http, peer] = free_ports();
    let mut command = dictum(&["start", "--node", "n1", "--cluster", &format!("n1=127.0.0.1:{peer}")]);
    command
        .args(["--resp", &format!("{host}:{resp}"), "--http", &format!("{host}:{http}"), "--dir"])
        .arg(dir)
        .args(more);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    (command, format!("127.0.0.1:{resp}"), format!("127.0.0.1:{http}"))
}

fn start(dir: &Path, host: &str, more: &[&str]) -> Alone {
    wait_for("a node", || {
        let (command, resp, http) = command(dir, host, more);
        match Process::start(command) {
            Ok(process) => Some(Alone { process, resp, http }),
            Err(reason) if reason.contains("is in use by another process; stop") => None,
            Err(reason) => panic!("it has ended: {reason}"),
        }
    })
}

/// The first line of the node's log that holds a text.
fn line_of(process: &Process, text: &str) -> String {
    wait_for(text, || process.lines().into_iter().find(|line| line.contains(text)))
}

/// All that comes back until the connection is closed.
fn exchange(address: &str, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time");
    // It may be closed while this is on its way.
    let _ = stream.write_all(bytes);
    let mut all = Vec::new();
    let mut piece = [0; 4096];
    loop {
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => all.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
            Err(error) => panic!("it is not closed: {error}"),
        }
    }
    String::from_utf8_lossy(&all).into_owned()
}

/// An address of this machine that is not loopback, if it has one.
fn own_address() -> Option<String> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Nothing is sent.
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then(|| address.to_string())
}

#[test]
fn a_page_reaches_nothing_by_the_port_for_resp() {
    let folder = tempdir().expect("a temporary folder");
    let node = start(folder.path(), "127.0.0.1", &[]);
    eventually(&node.resp, &["SET", "/k", "v"]);
    for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "SET", "DEL", "FLUSHALL"] {
        let request = format!(
            "{method} /k HTTP/1.1\r\nHost: {}\r\nContent-Type: text/plain\r\nContent-Length: 22\r\n\r\nSET /k stolen\r\nFLUSHALL\r\n",
            node.resp
        );
        let answer = exchange(&node.resp, request.as_bytes());
        assert!(
            answer.is_empty() || (method == "GET" && answer.starts_with("-ERR wrong number")),
            "{method}: {answer}"
        );
        assert_eq!(eventually(&node.resp, &["GET", "/k"]), Value::bulk("v"), "{method}");
    }
    assert_eq!(exchange(&node.resp, b"\x16\x03\x01\x00\x10\nSET /k stolen\r\n"), "");
    assert_eq!(eventually(&node.resp, &["GET", "/k"]), Value::bulk("v"));
    let line = line_of(&node.process, "sends an HTTP request to the port for RESP");
    assert!(line.contains("connection from 127.0.0.1:"), "{line}");
    assert!(node.process.stop());
}

#[test]
fn a_page_reaches_nothing_by_the_port_for_http() {
    let folder = tempdir().expect("a temporary folder");
    let more = ["--http-host", "db1.example", "--http-origin", "https://app.example"];
    let node = start(folder.path(), "127.0.0.1", &more);
    eventually(&node.resp, &["SET", "k", "v"]);
    let ask = |head: &str| {
        let answer = exchange(&node.http, format!("{head}\r\nConnection: close\r\n\r\n").as_bytes());
        answer.split(' ').nth(1).and_then(|code| code.parse::<u16>().ok()).unwrap_or_else(|| panic!("{head}: {answer}"))
    };
    let read = "GET /getValue?key=k HTTP/1.1\r\nHost:";
    assert_eq!(ask(&format!("{read} {}", node.http)), 200);
    assert_eq!(ask(&format!("{read} db1.example:8001")), 200);
    assert_eq!(ask(&format!("{read} n1")), 200);
    assert_eq!(ask(&format!("{read} rebound.example")), 421);
    assert_eq!(ask("GET /getValue?key=k HTTP/1.0"), 200, "a probe without Host");
    assert_eq!(ask("GET /livez HTTP/1.1\r\nHost: pod.cluster.local"), 200);
    assert_eq!(ask("GET /metrics HTTP/1.1\r\nHost: pod.cluster.local"), 200);
    let write = |origin: &str| {
        format!("PUT /v1/keys/k HTTP/1.1\r\nHost: {}\r\nOrigin: {origin}\r\nContent-Length: 0", node.http)
    };
    assert_eq!(ask(&write("https://evil.example")), 403);
    assert_eq!(eventually(&node.resp, &["GET", "k"]), Value::bulk("v"));
    assert_eq!(ask(&write("https://app.example")), 204);
    let preflight = "Access-Control-Request-Method: PUT\r\nOrigin: https://app.example";
    assert_eq!(ask(&format!("OPTIONS /v1/keys/k HTTP/1.1\r\nHost: {}\r\n{preflight}", node.http)), 204);
    assert!(line_of(&node.process, "refused (MISDIRECTED)").contains("rebound.example"));
    assert!(node.process.stop());
}

#[test]
fn without_a_password_other_machines_are_refused() {
    let Some(own) = own_address() else {
        println!("this machine has no address but loopback");
        return;
    };
    let folder = tempdir().expect("a temporary folder");
    let node = start(folder.path(), "0.0.0.0", &[]);
    let from_there = |address: &str| address.replacen("127.0.0.1", &own, 1);
    let (resp, web) = (from_there(&node.resp), from_there(&node.http));
    eventually(&node.resp, &["SET", "k", "v"]);
    line_of(&node.process, "PROTECTED MODE");
    for sent in [&b""[..], b"PING\r\n", b"GET k\r\n"] {
        let answer = exchange(&resp, sent);
        assert!(
            answer.starts_with("-DENIED Dictum is running in protected mode because") && answer.ends_with("\r\n"),
            "{answer}"
        );
    }
    let status = |line: &str| http::ask(&web, line, &[], b"").expect("it answers").status;
    assert_eq!((status("GET /getValue?key=k"), status("GET /metrics"), status("GET /livez")), (403, 403, 200));
    assert_eq!(
        http::ask(&node.http, "GET /getValue?key=k", &[], b"").expect("it answers").status,
        200,
        "from this machine"
    );

    assert_eq!(eventually(&node.resp, &["CONFIG", "SET", "protected-mode", "no"]), Value::ok());
    assert_eq!(eventually(&resp, &["GET", "k"]), Value::bulk("v"));
    assert_eq!(status("GET /getValue?key=k"), 200);
    assert!(node.process.stop());

    // Or so, until it is taken back.
    let node = start(folder.path(), "0.0.0.0", &["--protected-mode", "no"]);
    line_of(&node.process, "NO PASSWORD");
    let resp = from_there(&node.resp);
    assert_eq!(eventually(&resp, &["GET", "k"]), Value::bulk("v"));
    assert_eq!(eventually(&node.resp, &["CONFIG", "SET", "protected-mode", "yes"]), Value::ok());
    wait_for("the refusal", || exchange(&resp, b"QUIT\r\n").starts_with("-DENIED").then_some(()));
    assert!(node.process.stop());

    // With a password it is that which decides.
    let password = tempdir().expect("a temporary folder");
    let file = password.path().join("password");
    fs::write(&file, "secret\n").expect("a file");
    fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("it is ours");
    let node = start(folder.path(), "0.0.0.0", &["--password-file", file.to_str().expect("text")]);
    let resp = from_there(&node.resp);
    assert_eq!(exchange(&resp, b"GET k\r\nQUIT\r\n"), "-NOAUTH Authentication required.\r\n+OK\r\n");
    let mut client = Client::connect(&resp).expect("it listens");
    assert_eq!(client.call(&["AUTH", "secret"]).expect("it answers"), Value::ok());
    let value = wait_for("the value", || client.call(&["GET", "k"]).ok().filter(|it| it.as_error().is_none()));
    assert_eq!(value, Value::bulk("v"));
    assert!(node.process.stop());
}

/// The files of a folder and its folders, with permissions.
fn modes(folder: &Path, found: &mut Vec<(String, u32, bool)>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let (entry, name) = entry.map(|entry| (entry.path(), entry.file_name())).expect("it can be read");
        // A file of the store may go meanwhile.
        let Ok(metadata) = fs::symlink_metadata(&entry) else { continue };
        found.push((name.to_string_lossy().into_owned(), metadata.permissions().mode() & 0o777, metadata.is_dir()));
        if metadata.is_dir() {
            modes(&entry, found);
        }
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

#[test]
fn other_users_of_the_machine_cannot_read_the_folder() {
    let above = tempdir().expect("a temporary folder");
    let dir = above.path().join("data");
    let node = start(&dir, "127.0.0.1", &[]);
    eventually(&node.resp, &["SET", "k", "v"]);
    assert!(node.process.stop());
    let mut found = Vec::new();
    modes(&dir, &mut found);
    assert_eq!(mode(&dir), 0o700);
    assert!(found.len() > 5, "{found:?}");
    let open: Vec<_> = found.iter().filter(|(_, mode, _)| mode & 0o077 != 0).collect();
    assert!(open.is_empty(), "{open:?}");

    // As earlier versions have made it: narrowed.
    fs::set_permissions(&dir, Permissions::from_mode(0o755)).expect("it is ours");
    let node = start(&dir, "127.0.0.1", &[]);
    line_of(&node.process, "was open to all users of this machine");
    assert!(node.process.stop());
    assert_eq!(mode(&dir), 0o700);

    // For a group that makes backups: it stays, and what is new can be read by the group.
    fs::set_permissions(&dir, Permissions::from_mode(0o750)).expect("it is ours");
    fs::remove_file(dir.join("reserve")).unwrap_or_default();
    let node = start(&dir, "127.0.0.1", &[]);
    line_of(&node.process, "is open to its group");
    assert!(node.process.stop());
    assert_eq!(mode(&dir), 0o750);
    let mut found = Vec::new();
    modes(&dir, &mut found);
    assert!(found.iter().any(|(_, mode, is_folder)| !is_folder && *mode == 0o640), "{found:?}");
    assert!(found.iter().all(|(_, mode, _)| mode & 0o027 == 0 || mode & 0o007 == 0), "{found:?}");
}

#[test]
fn a_symbolic_link_in_the_folder_is_not_followed() {
    for name in ["LOCK", "identity.tmp"] {
        let above = tempdir().expect("a temporary folder");
        let (dir, victim) = (above.path().join("data"), above.path().join("victim"));
        fs::create_dir(&dir).expect("a folder");
        fs::write(&victim, "precious").expect("a file");
        symlink(&victim, dir.join(name)).expect("a link");
        let (mut command, ..) = command(&dir, "127.0.0.1", &[]);
        let output = command.stderr(Stdio::piped()).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(&format!("{name} is a symbolic link")), "{said}");
        assert_eq!(fs::read_to_string(&victim).expect("it is there"), "precious", "{name}");
    }
}

#[test]
fn passwords_come_from_files_and_are_warned_of_in_arguments() {
    let folder = tempdir().expect("a temporary folder");
    let file = folder.path().join("password");
    fs::write(&file, "secret\n").expect("a file");
    fs::set_permissions(&file, Permissions::from_mode(0o644)).expect("it is ours");
    let path = file.to_str().expect("text");
    let node = start(&folder.path().join("data"), "127.0.0.1", &["--password-file", path]);
    line_of(&node.process, "every user of this machine can read");
    wait_for("the node", || {
        dictum(&["cli", "-p", node.resp.rsplit(':').next()?, "--password-file", path, "ping"])
            .output()
            .ok()
            .filter(|it| it.stdout == b"PONG\n")
    });
    let told = dictum(&["status", "--at", &node.resp, "--password-file", path]).output().expect("it runs");
    assert!(String::from_utf8_lossy(&told.stdout).contains("n1"), "{told:?}");
    let told =
        dictum(&["bucket", "list", "--at", &node.resp]).env("DICTUM_PASSWORD_FILE", path).output().expect("it runs");
    assert!(told.status.success() && !String::from_utf8_lossy(&told.stderr).contains("list of processes"), "{told:?}");
    let told = dictum(&["node", "list", "--at", &node.resp, "--password", "secret"]).output().expect("it runs");
    let said = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(told.status.success() && said.contains("--password-file FILE") && !said.contains("secret"), "{said}");
    assert!(node.process.stop());
    fs::set_permissions(&file, Permissions::from_mode(0o666)).expect("it is ours");
    let said = failure(dictum(&["status", "--password-file", path]));
    assert!(said.contains("can be written by other users"), "{said}");
}

/// The operator writes another password into the file and sends SIGHUP: who is connected stays.
#[test]
fn the_password_is_read_again_at_a_signal() {
    let folder = tempdir().expect("a temporary folder");
    let file = folder.path().join("password");
    let write = |text: &str, mode| {
        fs::write(&file, text).expect("a file");
        fs::set_permissions(&file, Permissions::from_mode(mode)).expect("it is ours");
    };
    write("first\n", 0o600);
    let path = file.to_str().expect("text");
    let node = start(&folder.path().join("data"), "127.0.0.1", &["--password-file", path]);
    let status_of = |password: &str| {
        let request = format!(
            "GET /v1/buckets HTTP/1.1\r\nhost: n1\r\nauthorization: Bearer {password}\r\nconnection: close\r\n\r\n"
        );
        exchange(&node.http, request.as_bytes()).get(9..12).unwrap_or_default().to_owned()
    };
    wait_for("the node", || (status_of("first") == "200").then_some(()));
    let mut client = Client::connect(&node.resp).expect("it listens");
    assert_eq!(client.call(&["AUTH", "first"]).expect("an answer"), Value::ok());
    write("second\n", 0o666);
    node.process.send(Signal::HUP);
    line_of(&node.process, "the password stays as it was");
    assert_eq!((status_of("first"), status_of("second")), ("200".to_owned(), "401".to_owned()));
    write("second\n", 0o600);
    node.process.send(Signal::HUP);
    line_of(&node.process, "the password was read again and is another one");
    assert_eq!((status_of("first"), status_of("second")), ("401".to_owned(), "200".to_owned()));
    assert_eq!(client.call(&["SET", "k", "v"]).expect("an answer"), Value::ok());
    let mut other = Client::connect(&node.resp).expect("it listens");
    wait_for("the new password", || {
        let answer = other.call(&["AUTH", "second"]).expect("an answer");
        (answer == Value::ok()).then_some(())
    });
    assert!(
        other.call(&["AUTH", "first"]).expect("an answer").as_error().is_some_and(|it| it.starts_with("WRONGPASS"))
    );
    // The node goes on asking itself for what HTTP wants.
    assert_eq!(status_of("second"), "200");
    let request = "GET /metrics HTTP/1.1\r\nhost: n1\r\nauthorization: Bearer second\r\nconnection: close\r\n\r\n";
    let metrics = exchange(&node.http, request.as_bytes());
    assert!(metrics.contains("dictum_http_auth_failures_total 2"), "{metrics}");
}
