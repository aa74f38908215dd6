//! `dictum cli` and `dictum status` as processes, against a server of the test's own.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a test of processes has clocks and threads")]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use wire::{Protocol, Request, RequestParser, Value};

const STATUS: &str = r#"{"version":"0.1.0","node":"n1","cluster":["n1"],"leader":"n1","ballot":"2.n1","partitions":[],
"nodes":[{"name":"n1","me":true,"up":true,"role":"leader","decided":9,"persisted":9,"applied":9,"lag":0,"disk":"ok"}]}"#;

/// A server that knows a few commands. It serves until the test's process ends.
struct Server {
    port: u16,
    /// Every command, as text.
    log: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start(password: Option<&'static str>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let log = Arc::new(Mutex::new(Vec::new()));
        let keys: Arc<Mutex<BTreeMap<Vec<u8>, Vec<u8>>>> = Arc::default();
        let shared = Arc::clone(&log);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (log, keys) = (Arc::clone(&shared), Arc::clone(&keys));
                std::thread::spawn(move || serve(stream.expect("a client"), password, &log, &keys));
            }
        });
        Server { port, log }
    }

    fn cli(&self, arguments: &[&str], input: Option<&str>) -> Output {
        let port = self.port.to_string();
        run(&[&["cli", "-p", &port], arguments].concat(), input)
    }

    fn status(&self, arguments: &[&str]) -> Output {
        run(&[&["status", "--at", &format!("127.0.0.1:{}", self.port)], arguments].concat(), None)
    }
}

fn serve(
    mut stream: TcpStream,
    password: Option<&str>,
    log: &Mutex<Vec<String>>,
    keys: &Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
) {
    let mut parser = RequestParser::new(Default::default());
    let mut protocol = Protocol::Resp2;
    let mut known = password.is_none();
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        let mut input = &buffer[..count];
        while let Some(Request::Command(words)) = parser.next(&mut input).expect("the client speaks RESP") {
            let words: Vec<&[u8]> = words.iter().collect();
            let shown: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word)).collect();
            log.lock().expect("no panic here").push(shown.join(" "));
            let name = words[0].to_ascii_uppercase();
            let error = |text: &str| Value::Error(text.to_owned());
            let mut keys = keys.lock().expect("no panic here");
            let reply = match (&name[..], &words[1..]) {
                (b"AUTH", [given]) => {
                    known = password.is_some_and(|password| password.as_bytes() == *given);
                    if known {
                        Value::ok()
                    } else {
                        error("WRONGPASS invalid username-password pair or user is disabled.")
                    }
                }
                _ if !known => error("NOAUTH Authentication required."),
                (b"HELLO", [b"3"]) => {
                    protocol = Protocol::Resp3;
                    Value::Map(vec![(Value::bulk("proto"), Value::Integer(3))])
                }
                (b"SET", [key, value]) => {
                    keys.insert(key.to_vec(), value.to_vec());
                    Value::ok()
                }
                (b"GET", [key]) => keys.get(*key).map_or(Value::Null, Value::bulk),
                (b"MAP", []) => Value::Map(vec![(Value::bulk("a"), Value::Integer(1))]),
                (b"DIE", []) => return,
                (b"DICTUM.STATUS", []) => Value::bulk(STATUS),
                (b"COMMAND", [b"DOCS"]) => Value::Map(vec![(
                    Value::bulk("get"),
                    Value::Map(vec![(Value::bulk("summary"), Value::bulk("Returns the value."))]),
                )]),
                _ => error("ERR unknown command"),
            };
            let mut out = Vec::new();
            reply.encode(&mut out, protocol);
            if stream.write_all(&out).is_err() {
                return;
            }
        }
    }
}

fn run(arguments: &[&str], input: Option<&str>) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_dictum"))
        .args(arguments)
        .env_remove("DICTUM_PASSWORD")
        .env_remove("DICTUM_AT")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    // A client that ends early does not read all of it.
    let _ = stdin.write_all(input.unwrap_or_default().as_bytes());
    drop(stdin);
    child.wait_with_output().expect("the client ends")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

/// Exit code and standard output.
fn told(output: &Output) -> (i32, &str) {
    (output.status.code().expect("no signal"), text(&output.stdout))
}

#[test]
fn one_command_from_the_command_line() {
    let server = Server::start(None);
    assert_eq!(told(&server.cli(&["set", "a", "hello world"], None)), (0, "OK\n"));
    assert_eq!(told(&server.cli(&["get", "a"], None)), (0, "hello world\n"));
    assert_eq!(told(&server.cli(&["--no-raw", "get", "a"], None)), (0, "\"hello world\"\n"));
    assert_eq!(told(&server.cli(&["--no-raw", "get", "b"], None)), (0, "(nil)\n"));
    assert_eq!(told(&server.cli(&["--no-raw", "foo", "-x", "--help"], None)), (1, "(error) ERR unknown command\n"));
    assert_eq!(told(&server.cli(&["-x", "set", "x"], Some("from\na pipe"))), (0, "OK\n"));
    assert_eq!(told(&server.cli(&["get", "x"], None)), (0, "from\na pipe\n"));
    assert_eq!(told(&server.cli(&["-h", "localhost", "get", "x"], None)).0, 0);
}

#[test]
fn lines_from_a_pipe() {
    let server = Server::start(None);
    let output = server.cli(&["--no-raw"], Some("set a \"\\x01 b\"\n\n  get a\r\nget 'a'\nmap\n"));
    assert_eq!(told(&output), (0, "OK\n\"\\x01 b\"\n\"\\x01 b\"\n1# \"a\" => (integer) 1\n"));
    let output = server.cli(&[], Some("get \"a\nfoo\nquit\nset never 1\n"));
    assert_eq!(told(&output), (1, "Invalid argument(s)\nERR unknown command\n"));
    assert!(!server.log.lock().expect("no panic").iter().any(|line| line.contains("never")));
    assert_eq!(told(&server.cli(&["--resp2", "--no-raw"], Some("map"))), (0, "1) \"a\"\n2) (integer) 1\n"));
}

#[test]
fn help_comes_from_the_server() {
    let server = Server::start(None);
    let output = server.cli(&[], Some("help get\nhelp nothing\nhelp\n"));
    let (code, told) = told(&output);
    assert_eq!(code, 0);
    assert!(told.starts_with("\n  GET\n  summary: Returns the value.\n"), "{told}");
    assert!(told.contains("There is no command or group nothing."), "{told}");
    assert!(told.contains("help @GROUP"), "{told}");
}

#[test]
fn a_broken_connection_is_told_and_made_anew_but_nothing_is_sent_twice() {
    let server = Server::start(None);
    let output = server.cli(&[], Some("set a 1\ndie\nget a\n"));
    assert_eq!(told(&output), (1, "OK\n1\n"));
    assert!(text(&output.stderr).contains("DIE may or may not have been carried out"), "{}", text(&output.stderr));
    let log = server.log.lock().expect("no panic");
    assert_eq!(log[..], ["HELLO 3", "set a 1", "die", "HELLO 3", "get a"]);
}

/// Of several nodes the first that answers is used, and the next one when the connection is lost.
#[test]
fn several_nodes_are_tried_in_turn() {
    let (first, second) = (Server::start(None), Server::start(None));
    let dead = TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("an address");
    // Connections are made to it, and nobody answers.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let of = |server: &Server| format!("127.0.0.1:{}", server.port);
    let at = format!("{dead},{},{},{}", silent.local_addr().expect("an address"), of(&first), of(&second));
    let output = run(&["cli", "--at", &at], Some("set a 1\ndie\nset a 2\nget a\n"));
    assert_eq!(told(&output), (1, "OK\nOK\n2\n"));
    let said = text(&output.stderr);
    assert!(said.contains("DIE may or may not have been carried out"), "{said}");
    assert!(said.contains(&format!("Connected to {} now.", of(&second))), "{said}");
    let log = |server: &Server| server.log.lock().expect("no panic").clone();
    assert_eq!(log(&first), ["HELLO 3", "set a 1", "die"], "nothing is sent twice");
    assert_eq!(log(&second), ["HELLO 3", "set a 2", "get a"]);
    // Both die, and the first one is asked again.
    let at = format!("{},{}", of(&first), of(&second));
    let output = run(&["cli", "--resp2", "--at", &at], Some("die\ndie\nget a\n"));
    assert_eq!(told(&output), (1, "1\n"));
    // The variable that names nodes to all commands; -p beats it.
    let with_variable = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dictum"));
        let output = command.arg("cli").args(more).env("DICTUM_AT", format!("{dead},{}", of(&second))).output();
        told(&output.expect("it runs")).1.to_owned()
    };
    assert_eq!(with_variable(&["get", "a"]), "2\n");
    assert_eq!(with_variable(&["-p", &first.port.to_string(), "get", "a"]), "1\n");
    let both = run(&["cli", "--at", &at, "-p", "1", "get", "a"], None);
    assert!(!both.status.success() && text(&both.stderr).contains("cannot be used with"), "{both:?}");
    let none = run(&["cli", "--at", &format!("{dead},a:b"), "get", "a"], None);
    assert!(text(&none.stderr).contains("HOST:PORT"), "{none:?}");
}

#[test]
fn passwords() {
    let server = Server::start(Some("secret"));
    assert_eq!(told(&server.cli(&["-a", "secret", "set", "a", "1"], None)), (0, "OK\n"));
    assert_eq!(told(&server.cli(&["get", "a"], None)), (1, "NOAUTH Authentication required.\n"));
    let output = server.cli(&["-a", "wrong", "get", "a"], None);
    assert_eq!(told(&output).0, 1);
    assert!(text(&output.stderr).contains("The password was refused: WRONGPASS"));
    assert_eq!(told(&server.cli(&["--no-raw"], Some("auth secret\nmap"))), (0, "OK\n1# \"a\" => (integer) 1\n"));
    let refused = server.status(&[]);
    assert_eq!(told(&refused), (1, ""));
    assert!(text(&refused.stderr).contains("--password"), "{}", text(&refused.stderr));
    assert_eq!(told(&server.status(&["--password", "secret"])).0, 0);
}

#[test]
fn nobody_there() {
    // Bound and dropped: nobody listens there now.
    let port = TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("an address").port();
    let output = run(&["cli", "-p", &port.to_string(), "get", "a"], None);
    assert_eq!(told(&output), (1, ""));
    assert!(text(&output.stderr).contains("dictum dev"), "{}", text(&output.stderr));
    let output = run(&["status", "--at", &format!("127.0.0.1:{port}")], None);
    assert_eq!(told(&output), (1, ""));
    assert!(text(&output.stderr).contains("dictum dev"), "{}", text(&output.stderr));
    let output = run(&["status", "--at", "a:b"], None);
    assert!(text(&output.stderr).contains("HOST:PORT"), "{}", text(&output.stderr));
}

#[test]
fn status_for_people_and_for_programs() {
    let server = Server::start(None);
    let output = server.status(&[]);
    let (code, table) = told(&output);
    assert_eq!(code, 0);
    assert!(
        table.starts_with("n1 leads with ballot 2.n1 · 1 of 1 nodes up · as n1 sees it\n\nnode  state  role"),
        "{table}"
    );
    let output = server.status(&["--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["nodes"][0]["decided"], 9);
    assert_eq!(text(&output.stdout).lines().count(), 1);
    assert_eq!(told(&server.status(&["--wait-healthy", "--timeout", "1s"])).0, 0);
}

/// A reader may close its pipe early, and a disk may be full: no command panics.
#[test]
fn a_closed_or_full_output_ends_a_command_without_a_panic() {
    let server = Server::start(None);
    let at = format!("127.0.0.1:{}", server.port);
    let commands: [&[&str]; 3] =
        [&["status", "--at", &at], &["clock", "--at", &at], &["status", "--json", "--at", &at]];
    for arguments in commands {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let said = |out: Stdio| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_dictum"));
            let output = command.args(arguments).stdout(out).stderr(Stdio::piped()).output().expect("it runs");
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!text.contains("panicked"), "{arguments:?}: {text}");
            (output.status.code(), text)
        };
        assert_eq!(said(Stdio::from(writer)), (Some(141), String::new()), "{arguments:?}");
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
        let (code, text) = said(Stdio::from(full));
        assert!(code == Some(1) && text.contains("No space left on device"), "{arguments:?}: {code:?} {text}");
    }
}
