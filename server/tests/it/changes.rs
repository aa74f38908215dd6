//! Changes for those who do not speak RESP: server-sent events over HTTP, and `dictum watch`.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a test of processes has clocks and threads")]

use std::io::{BufRead, BufReader, Error, ErrorKind, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::process::Signal;
use serde_json::{Value as Json, json};

use crate::common::http::ask;
use crate::common::{Client, Dev, PATIENCE, dictum, eventually, signal, start_alone, wait_for, wait_for_end};
use wire::Value;

/// An event as an EventSource sees it.
#[derive(Debug)]
struct Event {
    name: String,
    id: Option<String>,
    data: Json,
}

/// A stream of events.
struct Events {
    stream: BufReader<TcpStream>,
    status: u16,
    /// Bytes of chunks that no event was made of yet.
    text: String,
}

impl Events {
    fn open(address: &str, path: &str, last: Option<&str>) -> std::io::Result<Events> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let last = last.map_or_else(String::new, |last| format!("Last-Event-ID: {last}\r\n"));
        let head = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n{last}\r\n");
        stream.write_all(head.as_bytes())?;
        let mut events = Events { stream: BufReader::new(stream), status: 0, text: String::new() };
        let first = events.line()?;
        let status = first.split(' ').nth(1).and_then(|status| status.parse().ok());
        events.status = status.ok_or_else(|| Error::other(first))?;
        while !events.line()?.is_empty() {}
        Ok(events)
    }

    fn line(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end_matches(['\r', '\n']).to_owned())
    }

    /// The next event; none at the end of the answer.
    fn next(&mut self) -> std::io::Result<Option<Event>> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let field = |name: &str| event.lines().find_map(|line| Some(line.strip_prefix(name)?.to_owned()));
                let made = field("event: ").map(|name| {
                    let data = field("data: ").and_then(|data| serde_json::from_str(&data).ok()).expect("JSON");
                    Event { name, id: field("id: "), data }
                });
                self.text = rest.to_owned();
                match made {
                    Some(event) => return Ok(Some(event)),
                    // A comment.
                    None => continue,
                }
            }
            let length = usize::from_str_radix(&self.line()?, 16).map_err(Error::other)?;
            if length == 0 {
                return Ok(None);
            }
            let mut chunk = vec![0; length];
            std::io::Read::read_exact(&mut self.stream, &mut chunk)?;
            self.text += std::str::from_utf8(&chunk).map_err(Error::other)?;
            self.line()?;
        }
    }

    fn expect(&mut self, name: &str) -> Event {
        loop {
            let event = self.next().expect("a stream").expect("an event");
            if event.name != "progress" {
                assert_eq!(event.name, name, "{event:?}");
                return event;
            }
        }
    }
}

const ALL: &str = "/v1/buckets/default/changes";

/// Waits until the cluster tells changes.
fn is_ready(dev: &Dev) {
    for node in &dev.nodes {
        wait_for("subscriptions", || {
            let mut client = Client::connect(&node.resp).ok()?;
            client.call(&["DICTUM.SUBSCRIBE", "KEY", "none"]).ok()?.as_array().map(drop)
        });
    }
}

#[test]
fn what_is_there_and_every_change_are_events() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dev = Dev::start(folder.path(), &[]);
    is_ready(&dev);
    let (resp, http) = (dev.nodes[0].resp.as_str(), dev.nodes[1].http.as_str());
    for words in [&["SET", "cart:1", "apples"][..], &["HSET", "cart:h", "f", "v"], &["SET", "other", "x"]] {
        eventually(resp, words);
    }
    let mut events = Events::open(http, &format!("{ALL}?prefix=cart:&state=1"), None).expect("it answers");
    assert_eq!(events.status, 200);
    let begin = events.expect("begin");
    assert_eq!((begin.id.as_deref(), &begin.data), (Some("state"), &json!({ "from": "state", "token": null })));
    let mut states = [events.expect("state"), events.expect("state")];
    assert!(states.iter().all(|event| event.id.as_deref() == Some("state")), "{states:?}");
    states.sort_by_key(|event| event.data["key"].to_string());
    let told = states.each_ref().map(|event| &event.data);
    assert_eq!((&told[0]["type"], &told[0]["value"]), (&json!("string"), &json!("apples")));
    assert_eq!((&told[1]["type"], &told[1]["effect"]), (&json!("hash"), &json!(["hset", "f", "v"])));
    let live = events.expect("live");
    assert_eq!(live.id.as_deref(), live.data["token"].as_str());

    eventually(resp, &["SET", "cart:1", "pears\n", "PXAT", "4000000000000"]);
    eventually(resp, &["JSON.SET", "cart:j", "$", "{\"a\": [1, 2.0]}"]);
    eventually(resp, &["DEL", "cart:1"]);
    let set = events.expect("set");
    assert_eq!((&set.data["key"], &set.data["value"]), (&json!("cart:1"), &json!("pears\n")));
    assert_eq!((&set.data["event"], &set.data["deadline_ms"]), (&json!("set"), &json!(4_000_000_000_000_u64)));
    let document = events.expect("set");
    assert_eq!((&document.data["json"], &document.data["new"]), (&json!({ "a": [1, 2.0] }), &json!(true)));
    let deleted = events.expect("del");
    assert_eq!((&deleted.data["key"], &deleted.data["value"]), (&json!("cart:1"), &Json::Null));

    // Any node goes on behind the identifier of any event.
    let last = document.id.expect("an identifier");
    // The replica there may be a moment behind.
    eventually(&dev.nodes[2].resp, &["GET", "cart:1"]);
    let mut again = Events::open(&dev.nodes[2].http, &format!("{ALL}?prefix=cart:&state=1"), Some(&last)).expect("it");
    assert_eq!(again.expect("begin").data, json!({ "from": "token", "token": last }));
    assert_eq!(again.expect("del").data, deleted.data);
    assert_eq!(again.expect("live").id, deleted.id);
}

#[test]
fn what_cannot_be_told_is_said() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dev = Dev::start(folder.path(), &[]);
    is_ready(&dev);
    let (resp, http) = (dev.nodes[0].resp.as_str(), dev.nodes[0].http.as_str());
    let problem = |path: &str| {
        let answer = ask(http, &format!("GET {path}"), &[], b"").expect("an answer");
        (answer.status, answer.json()["code"].as_str().expect("a code").to_owned())
    };
    let bad = (400, "BAD_REQUEST".to_owned());
    assert_eq!(problem(&format!("{ALL}?kind=x")), bad);
    assert_eq!(problem(&format!("{ALL}?state=1&kind=set")), bad);
    assert_eq!(problem(&format!("{ALL}?from=x")), bad);
    assert_eq!(problem("/v1/buckets/nosuch/changes"), (404, "NOT_FOUND".to_owned()));
    assert_eq!(problem(&format!("{ALL}?from=7~00000000000000fe:1")), (409, "FALSE_TOKEN".to_owned()));
    // A token of another history ends the stream, and the client comes no more.
    let mut events = Events::open(http, ALL, Some("0~00000000000000fe:1")).expect("it answers");
    events.expect("begin");
    let gap = events.expect("gap");
    assert_eq!((&gap.data["reason"], &gap.data["then"]), (&json!("begun-anew"), &json!("end")));
    assert_eq!(gap.id.as_deref(), Some("ended"));
    assert!(events.next().expect("it has ended well").is_none());
    assert_eq!(Events::open(http, ALL, Some("ended")).expect("it answers").status, 204);
    // Or what is there is told.
    let mut events = Events::open(http, &format!("{ALL}?gap=restate"), Some("0~00000000000000fe:1")).expect("it");
    events.expect("begin");
    assert_eq!(events.expect("gap").id.as_deref(), Some("state"));
    events.expect("live");

    // Rights are those of the user.
    eventually(resp, &["ACL", "SETUSER", "ann", "on", ">secret", "%R~cart:*", "+@all", "bucket=default"]);
    let shown = [("Authorization", "Basic YW5uOnNlY3JldA==")];
    let refused = ask(http, &format!("GET {ALL}"), &shown, b"").expect("an answer");
    assert_eq!((refused.status, refused.json()["code"].as_str()), (403, Some("NOPERM")));
    let path = format!("{ALL}?prefix=cart:");
    let mut stream = TcpStream::connect(http).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
    let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {}\r\n\r\n", shown[0].1);
    stream.write_all(head.as_bytes()).expect("written");
    let mut events = Events { stream: BufReader::new(stream), status: 200, text: String::new() };
    while !events.line().expect("a head").is_empty() {}
    events.expect("begin");
    events.expect("live");
    eventually(resp, &["ACL", "DELUSER", "ann"]);
    // The stream ends with its user, as if the connection were lost: it is no end by a gap.
    assert!(events.next().is_ok_and(|event| event.is_none()), "it is over");
}

#[test]
fn an_event_source_goes_on_at_other_nodes_and_misses_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dev = Dev::start(folder.path(), &[]);
    is_ready(&dev);
    let (stops, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let (mut heard, mut last, mut opened) = (Vec::<u64>::new(), None::<String>, 0);
    let mut revisions = Vec::<u64>::new();
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut number = 0;
            while !stops.load(Ordering::Relaxed) {
                for node in &dev.nodes {
                    let Ok(mut client) = Client::connect(&node.resp) else { continue };
                    let mut write = |number: u64| client.call(&["SET", "n", &number.to_string()]);
                    while !stops.load(Ordering::Relaxed) && write(number + 1).is_ok_and(|answer| answer == Value::ok())
                    {
                        number += 1;
                        written.store(number, Ordering::Relaxed);
                    }
                }
            }
            number
        });
        let mut started = Vec::new();
        for (turn, node) in dev.nodes.iter().enumerate() {
            // It hears from a node until that is killed.
            let mut events = wait_for("a stream", || {
                let path = format!("{ALL}?key=n&state=1");
                Events::open(&node.http, &path, last.as_deref()).ok().filter(|events| events.status == 200)
            });
            opened += 1;
            let until = written.load(Ordering::Relaxed) + 300;
            let mut is_killed = false;
            while let Ok(Some(event)) = events.next() {
                if let Some(number) = event.data["value"].as_str() {
                    heard.push(number.parse().expect("a number"));
                    revisions.push(event.data["revision"].as_u64().expect("a revision"));
                }
                last = event.id.or(last);
                if !is_killed && heard.last().is_some_and(|number| *number > until) {
                    signal(node.pid, Signal::KILL);
                    is_killed = true;
                }
            }
            assert!(is_killed, "turn {turn}: the stream has ended before");
            wait_for("its end", || wait_for_end(node.pid).then_some(()));
            started.push(start_alone(node));
        }
        stops.store(true, Ordering::Relaxed);
        let number = writer.join().expect("it has written");
        let mut events = wait_for("a stream", || {
            let path = format!("{ALL}?key=n&state=1");
            Events::open(&dev.nodes[0].http, &path, last.as_deref()).ok().filter(|events| events.status == 200)
        });
        while heard.last().is_none_or(|last| *last < number) {
            let event = events.next().expect("a stream").expect("an event");
            if let Some(number) = event.data["value"].as_str() {
                heard.push(number.parse().expect("a number"));
                revisions.push(event.data["revision"].as_u64().expect("a revision"));
            }
        }
        drop(started);
    });
    // A write whose outcome was unknown is written again.
    assert!(heard.windows(2).all(|two| two[1] == two[0] || two[1] == two[0] + 1), "{heard:?}");
    assert!(revisions.windows(2).all(|two| two[0] < two[1]), "none is told twice: {revisions:?}");
    assert!(opened == 3 && heard.len() > 900, "{} changes", heard.len());
}

#[test]
fn identifiers_of_many_partitions_stand_where_they_are_needed() {
    const COUNT: usize = 500;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dev = Dev::start(folder.path(), &[]);
    is_ready(&dev);
    let mut client = Client::connect(&dev.nodes[0].resp).expect("it listens");
    wait_for("a bucket", || {
        client
            .call(&["DICTUM.BUCKET", "CREATE", "many", "PARTITIONS", "16"])
            .ok()
            .filter(|answer| *answer == Value::ok())
    });
    let path = "/v1/buckets/many/changes";
    let open = |node: usize, last: Option<&str>| {
        wait_for("a stream", || {
            Events::open(&dev.nodes[node].http, path, last).ok().filter(|events| events.status == 200)
        })
    };
    let mut events = open(1, None);
    let mut last = events.expect("begin").id.expect("an identifier");
    wait_for("the bucket", || client.call(&["SELECT", "many"]).ok().filter(|answer| *answer == Value::ok()));
    let (mut told, mut without) = (Vec::new(), 0);
    // Each at its own node, and behind its last identifier.
    for part in 0..3 {
        for number in 0..COUNT {
            client.send(&["SET", &format!("{part}:{number}"), "v"]).expect("sent");
        }
        for _ in 0..COUNT {
            assert_eq!(client.receive().expect("an answer"), Value::ok());
        }
        let mut behind = Vec::new();
        while told.len() + behind.len() < (part + 1) * COUNT {
            let event = events.next().expect("a stream").expect("an event");
            if event.name == "set" {
                behind.push(event.data["key"].as_str().expect("a key").to_owned());
            }
            match event.id {
                Some(id) => {
                    last = id;
                    told.append(&mut behind);
                }
                None => without += 1,
            }
        }
        // The stream tells the changes behind the last identifier again.
        events = open((part + 2) % 3, Some(&last));
    }
    while told.len() < 3 * COUNT {
        let event = events.next().expect("a stream").expect("an event");
        told.extend(
            Some(event)
                .filter(|event| event.name == "set")
                .map(|event| event.data["key"].as_str().expect("a key").to_owned()),
        );
    }
    let kinds: std::collections::BTreeSet<&String> = told.iter().collect();
    assert_eq!((told.len(), kinds.len()), (3 * COUNT, 3 * COUNT), "each once");
    assert!(without > 0, "not each change has an identifier");
}

#[test]
fn a_stream_that_is_not_read_is_told_no_more() {
    const VALUE_BYTES: usize = 4000;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dev = Dev::start(folder.path(), &[]);
    is_ready(&dev);
    let node = &dev.nodes[0];
    let mut events = Events::open(&node.http, ALL, None).expect("it answers");
    events.expect("begin");
    events.expect("live");
    let mut client = Client::connect(&node.resp).expect("it listens");
    let value = "v".repeat(VALUE_BYTES);
    // More than sockets and buffers hold, and less than what nodes keep.
    for _ in 0..32 {
        for _ in 0..256 {
            client.send(&["SET", "n", &value]).expect("sent");
        }
        for _ in 0..256 {
            assert_eq!(client.receive().expect("an answer"), Value::ok());
        }
    }
    eventually(&node.resp, &["SET", "last", "1"]);
    let list = client.call(&["CLIENT", "LIST"]).expect("an answer");
    let list = String::from_utf8_lossy(list.as_bytes().expect("text")).into_owned();
    let line = list.lines().find(|line| line.contains("name=http-changes")).unwrap_or_else(|| panic!("{list}"));
    let unread = line.split(' ').find_map(|field| field.strip_prefix("omem=")?.parse::<usize>().ok());
    assert!(unread.is_some_and(|unread| (1..1 << 20).contains(&unread)), "{line}");
    // It reads on, and has missed nothing.
    let mut count = 0;
    loop {
        let event = events.next().expect("a stream").expect("an event");
        match event.data["key"].as_str() {
            Some("n") => count += 1,
            Some("last") => break,
            _ => assert_eq!(event.name, "progress"),
        }
    }
    assert_eq!(count, 32 * 256);
}

/// A running `dictum watch`.
struct Watch {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Watch {
    fn start(words: &[&str]) -> Watch {
        let mut command = dictum(&[&["watch"], words].concat());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("it can be started");
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let written = Arc::clone(&lines);
        thread::spawn(move || {
            out.lines().map_while(Result::ok).for_each(|line| written.lock().expect("no panic").push(line));
        });
        Watch { child, lines }
    }

    fn line(&self, place: usize) -> Option<Json> {
        let lines = self.lines.lock().expect("no panic");
        let line = lines.get(place)?;
        Some(serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}")))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // It has ended by itself if that fails.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_watch_goes_on_at_the_next_node() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dev = Dev::start(folder.path(), &[]);
    is_ready(&dev);
    let resp = dev.nodes[2].resp.as_str();
    eventually(resp, &["SET", "cart:1", "apples"]);
    let at: Vec<&str> = dev.nodes.iter().map(|node| node.resp.as_str()).collect();
    let watch = Watch::start(&["cart:*", "--state", "--json", "--at", &at.join(",")]);
    let said = |place: usize| wait_for("a line", || watch.line(place));
    assert_eq!((&said(0)["kind"], &said(0)["from"]), (&json!("begin"), &json!("state")));
    assert_eq!((&said(1)["kind"], &said(1)["value"]), (&json!("state"), &json!("apples")));
    assert_eq!(said(2)["kind"], json!("live"));
    signal(dev.nodes[0].pid, Signal::KILL);
    wait_for("its end", || wait_for_end(dev.nodes[0].pid).then_some(()));
    eventually(resp, &["SET", "cart:1", "pears"]);
    let mut rest = (3..).map(said).filter(|line| line["kind"] != json!("live") && line["kind"] != json!("progress"));
    assert_eq!(rest.next().expect("a line")["from"], json!("token"));
    let change = rest.next().expect("a line");
    assert_eq!((&change["kind"], &change["value"]), (&json!("set"), &json!("pears")));

    let refused = crate::common::output(dictum(&["watch", "--bucket", "nosuch", "--at", resp]));
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("nosuch"), "{refused:?}");
    let refused = crate::common::output(dictum(&["watch", "--from", "0~00000000000000fe:1", "--at", resp]));
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && text.contains("begun-anew") && text.contains("--state"), "{text}");
}
