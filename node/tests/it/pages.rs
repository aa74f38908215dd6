//! Runs the transcripts of several connections in `tests/commands/*.md`: blocks of the kind `connections`.
//!
//! ```text
//! (two is a client of n2)
//! one> SUBSCRIBE news
//! 1) "subscribe"
//! 2) "news"
//! 3) (integer) 1
//! two> PUBLISH news hello
//! (integer) 1
//! one hears
//! 1) "message"
//! 2) "news"
//! 3) "hello"
//! ```
//! Each block has three nodes of its own; who is not said to be elsewhere is a client of n1. `(two is a cluster client of n2)` is one who routes by itself. `(one speaks RESP3)` and `(200 milliseconds later)` are
//! understood as well. `DICTUM_REWRITE=1 cargo test -p node --test it pages::` puts what was answered into the pages, to be read as prose.
//! `REDIS_SERVER=redis-server cargo test -p node --test it pages:: -- --ignored` asks a real Redis the same, where a block is not `connections ours`.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test may read files and clocks")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use std::{fs, thread};

use crate::common::Cluster;
use node::{ConnectionId, Input, Listener};
use wire::{ReplyLimits, ReplyParser, split_line};

/// Whoever answers.
trait World {
    /// Sends a command of a connection, which is made if it is new, and gives what it hears; without a command, what it has heard.
    fn say(&mut self, name: &str, node: u16, words: Option<&[Vec<u8>]>) -> Vec<u8>;
    /// Makes a connection of this name that routes by itself.
    fn open_routing(&mut self, name: &str, node: u16);
    fn pass(&mut self, milliseconds: u64);
}

struct Ours {
    cluster: Cluster,
    connections: BTreeMap<String, (u16, ConnectionId)>,
}

impl World for Ours {
    fn say(&mut self, name: &str, node: u16, words: Option<&[Vec<u8>]>) -> Vec<u8> {
        let next = ConnectionId(10 + self.connections.len() as u64);
        let (node, connection) = *self.connections.entry(name.to_owned()).or_insert((node, next));
        if connection == next {
            self.cluster.open(node, connection);
        }
        let mut heard = String::new();
        if let Some(words) = words {
            let mut bytes = Vec::new();
            wire::encode_command(&mut bytes, words);
            self.cluster.give(node, Input::Received { connection, bytes: &bytes });
        }
        // A command that waits says nothing.
        let mut left = if words.is_some() { 8 } else { 3 };
        while left > 0 {
            self.cluster.pass();
            let more = self.cluster.heard(node, connection);
            left = match heard.is_empty() && !more.is_empty() {
                true => 3,
                false if !self.cluster.errands.is_empty() => left,
                false => left - 1,
            };
            heard += &more;
        }
        heard.into_bytes()
    }

    fn open_routing(&mut self, name: &str, node: u16) {
        let connection = ConnectionId(10 + self.connections.len() as u64);
        self.connections.insert(name.to_owned(), (node, connection));
        self.cluster.open_at(node, connection, Listener::Redirects);
    }

    fn pass(&mut self, milliseconds: u64) {
        for _ in 0..milliseconds / 5 {
            self.cluster.pass();
        }
    }
}

fn ours() -> Ours {
    let mut cluster = Cluster::new(3);
    for me in 0..3 {
        assert_eq!(cluster.ask(me, "PING"), "+PONG\r\n");
        assert_eq!(cluster.ask(me, "GET nothing"), "$-1\r\n");
    }
    Ours { cluster, connections: BTreeMap::new() }
}

struct Redis {
    child: Child,
    port: u16,
    connections: BTreeMap<String, TcpStream>,
}

impl Redis {
    fn start() -> Redis {
        let program = std::env::var("REDIS_SERVER").expect("REDIS_SERVER names the program");
        let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port();
        let arguments =
            ["--port", &port.to_string(), "--save", "", "--appendonly", "no", "--enable-debug-command", "yes"];
        let mut child = Command::new(program).args(arguments).stdout(Stdio::piped()).spawn().expect("redis-server");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        assert!(lines.any(|line| line.is_ok_and(|line| line.contains("Ready to accept"))), "it starts");
        thread::spawn(move || lines.for_each(drop));
        Redis { child, port, connections: BTreeMap::new() }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl World for Redis {
    fn say(&mut self, name: &str, _: u16, words: Option<&[Vec<u8>]>) -> Vec<u8> {
        let port = self.port;
        let connect = || TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        let stream = self.connections.entry(name.to_owned()).or_insert_with(connect);
        if let Some(words) = words {
            let mut bytes = Vec::new();
            wire::encode_command(&mut bytes, words);
            stream.write_all(&bytes).expect("it reads");
        }
        // How many replies there are is what is to be seen: all until it is quiet.
        stream.set_read_timeout(Some(Duration::from_millis(40))).expect("a socket");
        let (mut heard, mut buffer) = (Vec::new(), [0; 4096]);
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => return heard,
                Ok(count) => heard.extend_from_slice(&buffer[..count]),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return heard,
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn open_routing(&mut self, _: &str, _: u16) {
        unreachable!("what needs a Redis Cluster is not asked of a Redis alone");
    }

    fn pass(&mut self, milliseconds: u64) {
        thread::sleep(Duration::from_millis(milliseconds));
    }
}

fn shown(bytes: &[u8]) -> String {
    let mut parser = ReplyParser::new(ReplyLimits::default());
    parser.push(bytes);
    let mut text = String::new();
    while let Some(value) = parser.next().expect("well-formed replies") {
        text += &value.pretty();
    }
    assert!(parser.is_idle(), "whole replies");
    text
}

/// The page with every reply replaced by what is really answered, in blocks that `wanted` wants.
fn replayed<W: World>(page: &str, wanted: impl Fn(&str) -> bool, make: impl Fn() -> W) -> String {
    let mut out = String::new();
    let mut world: Option<W> = None;
    let mut nodes: BTreeMap<String, u16> = BTreeMap::new();
    for line in page.lines() {
        if line.starts_with("```") {
            world = (world.is_none() && wanted(line)).then(&make);
            nodes.clear();
        } else if let Some(world) = &mut world {
            let told: Vec<&str> =
                line.strip_prefix('(').and_then(|it| it.strip_suffix(')')).unwrap_or("").split(' ').collect();
            let node = |name: &str| nodes.get(name).copied().unwrap_or(0);
            if let Some((name, command)) = line.split_once("> ").filter(|(name, _)| is_name(name)) {
                let words = split_line(command.as_bytes()).expect("a command");
                let heard = world.say(name, node(name), Some(&words));
                writeln!(out, "{line}").expect("a string takes all");
                out += &shown(&heard);
            } else if let Some(name) = line.strip_suffix(" hears").filter(|name| is_name(name)) {
                let heard = world.say(name, node(name), None);
                writeln!(out, "{line}").expect("a string takes all");
                out += &if heard.is_empty() { "nothing\n".to_owned() } else { shown(&heard) };
            } else if let [name, "is", "a", "client", "of", other] = told[..] {
                let number: u16 = other.strip_prefix('n').and_then(|it| it.parse().ok()).expect("n1, n2 or n3");
                nodes.insert(name.to_owned(), number - 1);
                writeln!(out, "{line}").expect("a string takes all");
            } else if let [name, "is", "a", "cluster", "client", "of", other] = told[..] {
                let number: u16 = other.strip_prefix('n').and_then(|it| it.parse().ok()).expect("n1, n2 or n3");
                world.open_routing(name, number - 1);
                writeln!(out, "{line}").expect("a string takes all");
            } else if let [name, "speaks", "RESP3"] = told[..] {
                world.say(name, node(name), Some(&[b"HELLO".to_vec(), b"3".to_vec()]));
                writeln!(out, "{line}").expect("a string takes all");
            } else if let [number, "milliseconds", "later"] = told[..] {
                world.pass(number.parse().expect("a number"));
                writeln!(out, "{line}").expect("a string takes all");
            }
            continue;
        }
        writeln!(out, "{line}").expect("a string takes all");
    }
    out
}

fn is_name(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase())
}

fn pages() -> Vec<(String, PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/commands");
    let files = fs::read_dir(folder).expect("the folder of pages").map(|entry| entry.expect("a file in it").path());
    let mut pages: Vec<_> = files
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .map(|path| {
            let name = path.file_stem().expect("it has an extension").to_string_lossy().into_owned();
            let page = fs::read_to_string(&path).expect("a page");
            (name, path, page)
        })
        .filter(|(_, _, page)| page.contains("```connections"))
        .collect();
    pages.sort();
    assert!(pages.len() >= 9, "{pages:?}");
    pages
}

fn difference(name: &str, page: &str, replayed: &str) -> Option<String> {
    let there = page.lines().chain(std::iter::repeat("(the end)"));
    let here = replayed.lines().chain(std::iter::repeat("(the end)"));
    let mut pairs = there.zip(here).take(page.lines().count().max(replayed.lines().count())).enumerate();
    let (line, (there, here)) = pairs.find(|(_, (there, here))| there != here)?;
    Some(format!("{name}.md:{}: the page says {there:?}, the answer was {here:?}\n", line + 1))
}

#[test]
fn transcripts_are_what_is_answered() {
    let rewrite = std::env::var_os("DICTUM_REWRITE").is_some();
    let mut differences = String::new();
    for (name, path, page) in pages() {
        let replayed = replayed(&page, |fence| fence.starts_with("```connections"), ours);
        if rewrite && replayed != page {
            fs::write(&path, &replayed).expect("the page can be written");
        } else {
            differences.extend(difference(&name, &page, &replayed));
        }
    }
    assert!(differences.is_empty(), "{differences}");
}

#[test]
#[ignore = "needs a redis-server"]
fn a_redis_answers_the_same() {
    let mut differences = String::new();
    for (name, _, page) in pages() {
        differences.extend(difference(&name, &page, &replayed(&page, |fence| fence == "```connections", Redis::start)));
    }
    assert!(differences.is_empty(), "{differences}");
}

#[test]
fn pages_begin_with_what_the_commands_say_of_themselves() {
    let mut cluster = crate::common::alone();
    for (name, _, page) in pages() {
        let docs = cluster.ask(0, &format!("COMMAND DOCS {name}"));
        let mut parts = docs.split("\r\n");
        let summary = parts.find(|part| *part == "summary").and_then(|_| parts.nth(1)).expect("it is known");
        let start = format!("# {}\n\n{summary}\n", name.to_uppercase());
        assert!(page.starts_with(&start), "{name}.md does not begin with {start:?}");
    }
}
