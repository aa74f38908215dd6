//! A node of one thread that knows as many commands as HTTP uses, and fails on request.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, mpsc};

use bytes::Bytes;
use wire::{Protocol, Request as Command, RequestParser, Value};

use crate::bridge::{Bridge, ReplyLine, Request, bridge};

/// How the node behaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mood {
    /// As it should.
    Good,
    /// There is no leader.
    Leaderless,
    /// Writes have an open outcome.
    Unsure,
    /// No room for writes.
    Full,
    /// No answer at all, but to HELLO.
    Silent,
    /// Closes every connection on its first command.
    Rude,
}

/// What the tests see of it.
#[derive(Default)]
pub(super) struct State {
    /// Of the bucket that the command under way is for.
    pub(super) records: BTreeMap<Vec<u8>, (Vec<u8>, u64)>,
    /// The words of each bucket's settings.
    pub(super) buckets: BTreeMap<Vec<u8>, Bucket>,
    /// Counts what was created: another bucket of the same name is another one.
    pub(super) created: usize,
    /// No bucket but the default one has a replica here yet.
    pub(super) no_replicas: bool,
    pub(super) revision: u64,
    /// Name and words of each command, in order; but not of those about levels.
    pub(super) commands: Vec<Vec<Vec<u8>>>,
    /// Of each of them: what its connection had set then.
    pub(super) levels: Vec<SessionLevels>,
    /// What every bucket says of reads; `linearizable` unless a test says otherwise.
    pub(super) consistency: Option<&'static str>,
    /// The command under way is answered that it was done, but not everywhere.
    pub(super) not_on_all: bool,
    pub(super) opened: usize,
    /// The user that each was opened for; empty: for the process.
    pub(super) users: Vec<String>,
    pub(super) closed: usize,
    /// By identifier: the command that came with it, and what it was answered.
    pub(super) outcomes: BTreeMap<Vec<u8>, (Vec<Vec<u8>>, Value)>,
    mood: Option<Mood>,
    /// Changes a key just before each DICTUM.SET is looked at, so many times.
    pub(super) interference: usize,
    /// After so many calls of SCAN there is no leader any more.
    pub(super) scans_left: Option<usize>,
}

/// One bucket beside the default one.
#[derive(Clone, Default)]
pub(super) struct Bucket {
    number: usize,
    pub(super) settings: Vec<Vec<u8>>,
    records: BTreeMap<Vec<u8>, (Vec<u8>, u64)>,
}

/// What a connection has set.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct SessionLevels {
    pub(super) durability: Option<String>,
    pub(super) consistency: Option<String>,
    /// The greatest revision of a token, and of what it has seen.
    pub(super) seen: u64,
}

#[derive(Clone)]
pub(super) struct FakeNode {
    pub(super) state: Arc<Mutex<State>>,
}

struct Session {
    line: ReplyLine,
    parser: RequestParser,
    /// Name and number of the bucket, unless it is the default one.
    selected: Option<(Vec<u8>, usize)>,
    levels: SessionLevels,
}

impl FakeNode {
    /// Starts it; it ends with the last handle to the bridge.
    pub(super) fn start() -> (FakeNode, Bridge) {
        let (wake, wakes) = mpsc::channel();
        let (bridge, requests) = bridge(Arc::new(AtomicU64::new(1)), Arc::new(move || wake.send(()).unwrap_or(())));
        let node = FakeNode { state: Arc::default() };
        let handle = node.clone();
        std::thread::spawn(move || {
            let mut sessions: BTreeMap<u64, Session> = BTreeMap::new();
            // The requests' end keeps the waker alive, so the thread ends with the test's process.
            while wakes.recv().is_ok() {
                let mut list = Vec::new();
                requests.take(&mut list);
                for request in list {
                    handle.on_request(&mut sessions, request);
                }
            }
        });
        (node, bridge)
    }

    pub(super) fn set_mood(&self, mood: Mood) {
        self.lock().mood = Some(mood);
    }

    pub(super) fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("no test panics under this lock")
    }

    fn on_request(&self, sessions: &mut BTreeMap<u64, Session>, request: Request) {
        match request {
            Request::Open { connection, line, user, .. } => {
                let mut state = self.lock();
                state.opened += 1;
                let user = user.map_or_else(String::new, |name| String::from_utf8_lossy(&name).into_owned());
                state.users.push(user);
                drop(state);
                sessions.insert(
                    connection,
                    Session {
                        line,
                        parser: RequestParser::new(Default::default()),
                        selected: None,
                        levels: SessionLevels::default(),
                    },
                );
            }
            Request::Taken { .. } => {}
            Request::Close { connection } => {
                self.lock().closed += 1;
                sessions.remove(&connection);
            }
            Request::Send { connection, bytes } => {
                let Some(session) = sessions.get_mut(&connection) else { return };
                session.line.consumed(bytes.len());
                let mut input = &bytes[..];
                let mut out = Vec::new();
                let mut rude = false;
                while let Some(Command::Command(words)) = session.parser.next(&mut input).expect("HTTP speaks RESP") {
                    let words: Vec<Vec<u8>> = words.iter().map(<[u8]>::to_vec).collect();
                    let mut state = self.lock();
                    let is_about_levels = ABOUT_LEVELS.contains(&words[0].as_slice());
                    if !is_about_levels {
                        state.commands.push(words.clone());
                        state.levels.push(session.levels.clone());
                    }
                    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
                    if words[0] == b"HELLO" {
                        Value::Map(vec![(Value::bulk("proto"), Value::Integer(3))]).encode(&mut out, Protocol::Resp3);
                        continue;
                    }
                    match state.mood {
                        Some(Mood::Silent) => {}
                        Some(Mood::Rude) => rude = true,
                        _ => {
                            // A pushed message may come before any reply.
                            Value::Push(vec![Value::bulk("message")]).encode(&mut out, Protocol::Resp3);
                            let answer = if is_about_levels {
                                let bucket = session.selected.as_ref().map_or(0, |(_, number)| *number);
                                state.answer_about_levels(&mut session.levels, bucket, &words)
                            } else {
                                state.answer_seen(&mut session.levels, &mut session.selected, &words)
                            };
                            answer.encode(&mut out, Protocol::Resp3);
                        }
                    }
                }
                // In two pieces, cut anywhere.
                let half = out.len() / 2;
                let rest = out.split_off(half);
                session.line.reply(Bytes::from(out));
                session.line.reply(Bytes::from(rest));
                if rude {
                    sessions.remove(&connection);
                }
            }
        }
    }
}

const ABOUT_LEVELS: [&[u8]; 4] = [b"DICTUM.DURABILITY", b"DICTUM.CONSISTENCY", b"DICTUM.TOKEN", b"DICTUM.AGE"];

impl State {
    fn answer_about_levels(&mut self, levels: &mut SessionLevels, bucket: usize, words: &[&[u8]]) -> Value {
        let set = |word: &[u8]| Some(String::from_utf8_lossy(word).into_owned()).filter(|word| word != "default");
        match words {
            [b"DICTUM.DURABILITY"] => Value::bulk(levels.durability.as_deref().unwrap_or("persist-majority")),
            [b"DICTUM.CONSISTENCY"] => {
                Value::bulk(levels.consistency.as_deref().or(self.consistency).unwrap_or("linearizable"))
            }
            [b"DICTUM.DURABILITY", b"persist-majority"] if bucket > 0 => {
                Value::Error("ERR an ephemeral bucket is in memory only: its durability is majority or all".to_owned())
            }
            [b"DICTUM.DURABILITY", word] => {
                levels.durability = set(word);
                Value::ok()
            }
            [b"DICTUM.CONSISTENCY", word, token @ ..] => {
                if let [token] = token {
                    let text = std::str::from_utf8(token).expect("digits");
                    let (number, revision) = text.split_once(':').expect("a colon");
                    if number != bucket.to_string() {
                        return Value::Error("ERR the token is of another bucket than the selected one".to_owned());
                    }
                    levels.seen = levels.seen.max(revision.parse().expect("digits"));
                }
                levels.consistency = set(word);
                Value::ok()
            }
            [b"DICTUM.TOKEN"] => Value::bulk(format!("{bucket}:{}", levels.seen)),
            _ => Value::Integer(7),
        }
    }

    fn answer_seen(
        &mut self,
        levels: &mut SessionLevels,
        selected: &mut Option<(Vec<u8>, usize)>,
        words: &[&[u8]],
    ) -> Value {
        if words[0] == b"DICTUM.GET" && levels.consistency.as_deref() == Some("session") && levels.seen > self.revision
        {
            return Value::Error("ERR the token stands for a state that has never been".to_owned());
        }
        let answer = self.answer_in(selected, words);
        if !matches!(answer, Value::Error(_)) {
            levels.seen = levels.seen.max(self.revision);
        }
        if std::mem::take(&mut self.not_on_all) {
            return Value::Error("NOTALL the command was done and a majority has it".to_owned());
        }
        answer
    }

    /// Answers for a connection that has selected a bucket.
    fn answer_in(&mut self, selected: &mut Option<(Vec<u8>, usize)>, words: &[&[u8]]) -> Value {
        let error = |text: &str| Value::Error(text.to_owned());
        match words {
            [b"SELECT", b"default"] => *selected = None,
            [b"SELECT", name] => match self.buckets.get(*name) {
                Some(bucket) => *selected = Some((name.to_vec(), bucket.number)),
                None => return error(&format!("ERR there is no bucket '{}'", String::from_utf8_lossy(name))),
            },
            [b"PING" | b"INFO" | b"DICTUM.STATUS" | b"DICTUM.BUCKET", ..] => return self.answer(words),
            _ => {
                let Some((name, number)) = selected else { return self.answer(words) };
                let known = self.buckets.get_mut(name).filter(|bucket| bucket.number == *number);
                let Some(bucket) = known.filter(|_| !self.no_replicas) else {
                    return error("ERR the selected bucket is not there any more; SELECT another one");
                };
                std::mem::swap(&mut self.records, &mut bucket.records);
                let answer = self.answer(words);
                if let Some(bucket) = self.buckets.get_mut(name) {
                    std::mem::swap(&mut self.records, &mut bucket.records);
                }
                return answer;
            }
        }
        Value::ok()
    }

    fn bucket(&mut self, words: &[&[u8]]) -> Value {
        let error = |text: &str, name: &[u8]| Value::Error(text.replace('@', &String::from_utf8_lossy(name)));
        let describe = |(name, bucket): (&Vec<u8>, &Bucket)| {
            let number = Value::Integer(bucket.number as i64);
            Value::Map(vec![(Value::bulk("name"), Value::bulk(name)), (Value::bulk("number"), number)])
        };
        match words {
            [b"LIST"] => Value::Array(self.buckets.iter().map(describe).collect()),
            [b"DROP", b"default", ..] => error("ERR the default bucket cannot be dropped", b""),
            [b"SHOW", b"default"] => describe((&b"default".to_vec(), &Bucket::default())),
            [b"CREATE", name, ..] if self.buckets.contains_key(*name) => {
                error("ERR there is a bucket '@' already", name)
            }
            [b"CREATE", _, settings @ ..] if settings == [&b"KIND"[..], b"cache"] => {
                error("ERR a cache needs a quota", b"")
            }
            [b"CREATE", name, settings @ ..] => {
                self.created += 1;
                let settings = settings.iter().map(|word| word.to_vec()).collect();
                let bucket = Bucket { number: self.created, settings, ..Bucket::default() };
                self.buckets.insert(name.to_vec(), bucket);
                Value::ok()
            }
            [_, name, ..] if !self.buckets.contains_key(*name) => error("ERR there is no bucket '@'", name),
            [b"SHOW", name] => describe((&name.to_vec(), &self.buckets[*name])),
            [b"SET", name, settings @ ..] => {
                let bucket = self.buckets.get_mut(*name).expect("looked at above");
                bucket.settings = settings.iter().map(|word| word.to_vec()).collect();
                Value::ok()
            }
            [b"DROP", name, b"CONFIRM"] => {
                self.buckets.remove(*name);
                Value::ok()
            }
            _ => error("ERR unknown subcommand", b""),
        }
    }

    fn answer(&mut self, words: &[&[u8]]) -> Value {
        let error = |text: &str| Value::Error(text.to_owned());
        let is_write = matches!(words[0], b"DICTUM.SET" | b"DICTUM.DEL" | b"DICTUM.ONCE")
            || matches!(words, [b"DICTUM.BUCKET", b"CREATE" | b"SET" | b"DROP", ..]);
        match self.mood {
            Some(Mood::Leaderless) if !matches!(words[0], b"PING" | b"DICTUM.STATUS" | b"INFO") => {
                return error("CLUSTERDOWN No leader can be reached");
            }
            Some(Mood::Unsure) if is_write => return error("UNKNOWN The write may or may not be done"),
            Some(Mood::Full) if is_write => return error("OOM No room"),
            _ => {}
        }
        match words {
            [b"PING"] => Value::Simple("PONG".into()),
            [b"DICTUM.GET", key] => self.records.get(*key).map_or(Value::Null, |(value, revision)| {
                Value::Array(vec![Value::bulk(value), Value::Integer(*revision as i64)])
            }),
            [b"DICTUM.SET", key, value, options @ ..] => {
                if self.interference > 0 {
                    self.interference -= 1;
                    self.revision += 1;
                    self.records.insert(key.to_vec(), (b"interference".to_vec(), self.revision));
                }
                if !self.meets(key, options) {
                    return Value::Null;
                }
                self.revision += 1;
                self.records.insert(key.to_vec(), (value.to_vec(), self.revision));
                Value::Integer(self.revision as i64)
            }
            [b"DICTUM.DEL", key, options @ ..] => {
                if !self.records.contains_key(*key) {
                    return Value::Integer(0);
                }
                if !self.meets(key, options) {
                    return Value::Null;
                }
                self.records.remove(*key);
                Value::Integer(1)
            }
            [b"DICTUM.ONCE", id, rest @ ..] => {
                let command: Vec<Vec<u8>> = rest.iter().map(|word| word.to_vec()).collect();
                match self.outcomes.get(*id) {
                    Some((known, outcome)) if *known == command => return outcome.clone(),
                    Some(_) => return error("REUSED this identifier was used for another command"),
                    None => {}
                }
                let outcome = self.answer(rest);
                self.outcomes.insert(id.to_vec(), (command, outcome.clone()));
                outcome
            }
            [b"SCAN", cursor, ..] => {
                const PAGE: usize = 3;
                if let Some(left) = &mut self.scans_left {
                    match left.checked_sub(1) {
                        Some(less) => *left = less,
                        None => return error("CLUSTERDOWN No leader can be reached"),
                    }
                }
                let start: usize = std::str::from_utf8(cursor).expect("digits").parse().expect("a number");
                let keys: Vec<Value> = self.records.keys().skip(start).take(PAGE).map(Value::bulk).collect();
                let next = if start + PAGE < self.records.len() { start + PAGE } else { 0 };
                Value::Array(vec![Value::bulk(next.to_string()), Value::Array(keys)])
            }
            [b"STRLEN", key] => Value::Integer(self.records.get(*key).map_or(0, |(value, _)| value.len() as i64)),
            [b"MGET", keys @ ..] => Value::Array(
                keys.iter()
                    .map(|key| self.records.get(*key).map_or(Value::Null, |(value, _)| Value::bulk(value)))
                    .collect(),
            ),
            [b"INFO", ..] => Value::Verbatim {
                format: *b"txt",
                text:
                    b"# Server\r\nredis_version:7.4.0\r\nuptime_in_seconds:5\r\n# Keyspace\r\ndb0:keys=2,expires=1\r\n"
                        .to_vec(),
            },
            [b"DICTUM.BUCKET", rest @ ..] => self.bucket(rest),
            [b"DICTUM.STATUS"] => {
                let leader = if self.mood == Some(Mood::Leaderless) { "null" } else { "\"n1\"" };
                let refuses =
                    if self.mood == Some(Mood::Full) { "MISCONF the disk of n1 has too little room" } else { "" };
                Value::bulk(format!(
                    "{{\"version\":\"0.1.0\",\"node\":\"n1\",\"refuses\":\"{refuses}\",\"cluster\":[\"n1\"],\"leader\":{leader},\"ballot\":\"2.n1\",\
                     \"partitions\":[],\"nodes\":[{{\"name\":\"n1\",\"me\":true,\"up\":true,\"role\":\"leader\",\
                     \"decided\":9,\"persisted\":9,\"applied\":8,\"lag\":1,\"disk\":\"ok\"}}]}}"
                ))
            }
            _ => error("ERR unknown command"),
        }
    }

    fn meets(&self, key: &[u8], options: &[&[u8]]) -> bool {
        let Some(at) = options.iter().position(|word| *word == b"IFREVISION") else { return true };
        let wanted: u64 = std::str::from_utf8(options[at + 1]).expect("digits").parse().expect("a number");
        wanted == self.records.get(key).map_or(0, |(_, revision)| *revision)
    }
}
