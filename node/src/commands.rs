//! Commands that concern the connection or the server, not keys. One function per command, in a file per family.
//!
//! Most only compute a reply ([`Run::Reply`]) and may stand inside a MULTI. A few change how the connection itself goes on
//! ([`Run::Special`]); `dispatch` carries those out. A command with subcommands is a [`Run::Container`].

pub(crate) mod access;
pub(crate) mod bucket;
mod client;
pub(crate) mod cluster;
pub(crate) mod config;
mod connection;
mod databases;
mod dictum;
mod docs;
mod info;
pub(crate) mod known;
pub(crate) mod levels;
mod monitoring;
pub(crate) mod nodes;
pub(crate) mod pubsub;
mod server;
mod tracking;

use data::spec::{Flags, Group, Keys};
use data::{Failure, Reply, Spec};

use crate::access::DEFAULT;
use crate::copies::Wanted;
use crate::node::Node;
use crate::pubsub::audience::Kind;
use crate::session::Session;

pub(crate) use client::{client_reply, line_of};
pub(crate) use connection::split_user_name;
pub(crate) use dictum::ONCE;
pub use server::COMPATIBLE_VERSION;
pub(crate) use server::shutdown;

/// What a command that only computes a reply is given.
pub(crate) struct Context<'a> {
    pub node: &'a mut Node,
    /// The connection that asks. It is not among `node.sessions` while its command runs.
    pub session: &'a mut Session,
}

/// A function that computes a reply. `words[0]` is the command's name; their number has been checked.
pub(crate) type Function = fn(&mut Context<'_>, &[&[u8]]) -> Result<Reply, Failure>;

/// What `COMMAND INFO` says of a command beside its description: flags by their names, and access-control categories
/// (with `@`) that do not follow from the flags and the group.
pub(crate) type Marks = &'static [&'static str];

/// A command of this file's kind.
#[derive(Debug)]
pub(crate) struct Entry {
    pub spec: Spec,
    pub marks: Marks,
    pub run: Run,
}

/// How a command is carried out.
#[derive(Debug)]
pub(crate) enum Run {
    Reply(Function),
    Special(Local),
    /// The word after the name says which of these.
    Container(&'static [Entry]),
}

/// Commands that change how the connection goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Local {
    Multi,
    Exec,
    Discard,
    Watch,
    Unwatch,
    Quit,
    ClientReply,
    Wait,
    Shutdown,
    Once,
    Outcome,
    Select,
    Move,
    Migrate,
    FullSync,
    Backup(crate::backup::Wanted),
    Bucket(bucket::Wanted),
    ConfigSet,
    User(access::Wanted),
    Node(nodes::Wanted),
    Durability,
    Consistency,
    Token,
    Age,
    Subscribe(Kind),
    Unsubscribe(Kind),
    Publish(Kind),
    SubscribeToChanges,
    UnsubscribeFromChanges,
}

/// Whether a command is not shown to MONITOR: those that tell or change how the server runs, as in Redis.
pub(crate) fn is_hidden(words: &[&[u8]]) -> bool {
    find(words).is_ok_and(|entry| entry.marks.contains(&"admin"))
}

/// Which words of a command are passwords, and names that go with them.
pub(crate) fn secrets(words: &[&[u8]]) -> std::ops::Range<usize> {
    let is = |place: usize, word: &str| words.get(place).is_some_and(|it| it.eq_ignore_ascii_case(word.as_bytes()));
    let behind = |from: usize, word: &str| (from..words.len()).find(|place| is(*place, word));
    if is(0, "auth") {
        return 1..words.len();
    }
    if is(0, "acl") && (is(1, "setuser") || is(1, "dryrun")) {
        return 2.min(words.len())..words.len();
    }
    if is(0, "hello") {
        return secrets_of_hello(words);
    }
    if !is(0, "migrate") {
        return 0..0;
    }
    // A key may have such a name.
    let keys = behind(6, "keys").unwrap_or(words.len());
    let before = |place: &usize| *place < keys;
    let (first, count) = match behind(6, "auth2").filter(before) {
        Some(place) => (Some(place), 2),
        None => (behind(6, "auth").filter(before), 1),
    };
    first.map_or(0..0, |place| place + 1..(place + 1 + count).min(words.len()))
}

/// As [`secrets`]: from the first login of a `HELLO` to the end of the last one. Where it cannot be read, a password may stand anywhere.
fn secrets_of_hello(words: &[&[u8]]) -> std::ops::Range<usize> {
    let begin = if words.get(1).is_some_and(|word| data::args::parse_integer(word).is_some()) { 2 } else { 1 };
    let (mut place, mut secret) = (begin, None);
    while let Some(word) = words.get(place) {
        let (from, next) = match () {
            () if word.eq_ignore_ascii_case(b"auth") => (place + 1, place + 3),
            () if word.eq_ignore_ascii_case(b"setname") => (usize::MAX, place + 2),
            () => (place, words.len()),
        };
        if from < words.len() {
            let first = secret.map_or(from, |(first, _)| first);
            secret = Some((first, next.min(words.len())));
        }
        place = next;
    }
    secret.map_or(0..0, |(first, end)| first..end)
}

/// The name and the password that a command shows to become a user; none if it does not, or cannot be read.
pub(crate) fn shown_login<'a>(words: &[&'a [u8]]) -> Option<(&'a [u8], &'a [u8])> {
    match words {
        [command, ..] if command.eq_ignore_ascii_case(b"hello") => connection::Hello::parse(words).ok()?.login,
        [command, login @ ..] if command.eq_ignore_ascii_case(b"auth") => match login {
            [name, password] => Some((name, password)),
            [password] => Some((DEFAULT, password)),
            _ => None,
        },
        _ => None,
    }
}

/// The same where the command names the user.
pub(crate) fn user_said<'a>(words: &[&'a [u8]]) -> Option<(&'a [u8], &'a [u8])> {
    shown_login(words).filter(|_| words.len() > 2)
}

/// Marks of commands that tell or change how the server runs.
const ADMIN: Marks = &["admin", "noscript", "loading", "stale"];
/// Marks of commands that anybody may send at any time.
const ALWAYS: Marks = &["loading", "stale"];

/// A description with what these commands have in common.
pub(crate) const fn spec(
    name: &'static str,
    arity: i32,
    group: Group,
    since: &'static str,
    summary: &'static str,
    arguments: &'static str,
) -> Spec {
    Spec {
        name,
        arity,
        flags: Flags::NONE,
        keys: Keys::None,
        group,
        since,
        complexity: "O(1)",
        summary,
        arguments,
        example: "",
        subcommands: &[],
    }
}

/// A command that only computes a reply.
pub(crate) const fn answers(spec: Spec, marks: Marks, function: Function) -> Entry {
    Entry { spec, marks, run: Run::Reply(function) }
}

/// A command that changes how the connection goes on.
pub(crate) const fn special(spec: Spec, marks: Marks, local: Local) -> Entry {
    Entry { spec, marks, run: Run::Special(local) }
}

/// A command that is nothing without its subcommands.
const fn container(
    name: &'static str,
    group: Group,
    since: &'static str,
    summary: &'static str,
    subcommands: &'static [Entry],
) -> Entry {
    let spec = Spec { complexity: "Depends on subcommand.", ..spec(name, -2, group, since, summary, "") };
    Entry { spec, marks: &[], run: Run::Container(subcommands) }
}

/// The subcommand HELP of a container; `name` is the whole name.
const fn helps(name: &'static str, group: Group, marks: Marks) -> Entry {
    answers(spec(name, 2, group, "5.0.0", "Lists the subcommands.", ""), marks, help)
}

/// All tables, one per family.
pub(crate) static TABLES: &[&[Entry]] = &[
    connection::ENTRIES,
    cluster::ENTRIES,
    client::ENTRIES,
    docs::ENTRIES,
    server::ENTRIES,
    info::ENTRIES,
    config::ENTRIES,
    dictum::ENTRIES,
    bucket::ENTRIES,
    nodes::ENTRIES,
    levels::ENTRIES,
    monitoring::ENTRIES,
    access::ENTRIES,
    databases::ENTRIES,
    pubsub::ENTRIES,
    crate::subscriptions::command::ENTRIES,
];

/// All commands of these tables.
fn all() -> impl Iterator<Item = &'static Entry> {
    TABLES.iter().flat_map(|table| table.iter())
}

/// The part of a name that stands for the subcommand.
fn last_name(spec: &Spec) -> &str {
    spec.name.split('|').next_back().unwrap_or(spec.name)
}

/// The command, or the subcommand, that `words` name, if there is one and so many words suit it.
pub(crate) fn find(words: &[&[u8]]) -> Result<&'static Entry, Failure> {
    let name = words.first().copied().unwrap_or_default();
    let Some(entry) = all().find(|entry| entry.spec.name.as_bytes().eq_ignore_ascii_case(name)) else {
        return Err(Failure::unknown_command(words));
    };
    if !entry.spec.arity_fits(words.len()) {
        return Err(entry.spec.wrong_arity());
    }
    // COMMAND alone has an answer of its own, its subcommands are tried only if there is a second word.
    let (Run::Container(subcommands), Some(wanted)) = (&entry.run, words.get(1)) else { return Ok(entry) };
    let Some(found) = subcommands.iter().find(|sub| last_name(&sub.spec).as_bytes().eq_ignore_ascii_case(wanted))
    else {
        return Err(Failure::unknown_subcommand(&entry.spec.name.to_ascii_uppercase(), wanted));
    };
    if found.spec.arity_fits(words.len()) { Ok(found) } else { Err(found.spec.wrong_arity()) }
}

/// Runs a command that only computes a reply.
pub(crate) fn run_local(node: &mut Node, session: &mut Session, words: &[&[u8]]) -> Reply {
    let entry = match find(words) {
        Ok(entry) => entry,
        Err(failure) => return Reply::Error(failure),
    };
    match entry.run {
        Run::Reply(function) => {
            let answer = function(&mut Context { node: &mut *node, session }, words);
            if let Err(failure) = &answer {
                node.stats.note_error(failure);
            }
            answer.into()
        }
        // COMMAND alone.
        Run::Container(_) => docs::everything(),
        // Inside a transaction nothing waits.
        Run::Special(Local::Wait) => match Wanted::parse(words) {
            Ok((wanted, _)) => {
                let written: Vec<_> = session.last_positions().collect();
                wanted.reply(node.replicas_with(&written))
            }
            Err(failure) => Reply::Error(failure),
        },
        Run::Special(Local::Unwatch) => Reply::Ok,
        Run::Special(Local::Select) if session.redirected.is_some() => cluster::select(words[1]).into(),
        Run::Special(Local::Select) => match node.find_bucket(words[1]) {
            Ok(bucket) if bucket.id == session.bucket => Reply::Ok,
            Ok(_) => {
                Reply::Error(Failure::Text("ERR a transaction is about one bucket: SELECT another one before MULTI"))
            }
            Err(failure) => Reply::Error(failure),
        },
        Run::Special(_) => Reply::Error(NOT_IN_TRANSACTION),
    }
}

const NOT_IN_TRANSACTION: Failure = Failure::Text("ERR Command not allowed inside a transaction");

/// Whether a MULTI may queue this command of these tables.
pub(crate) fn check_queued(words: &[&[u8]]) -> Result<(), Failure> {
    match find(words)?.run {
        Run::Reply(_) | Run::Container(_) => Ok(()),
        Run::Special(Local::Wait | Local::Unwatch | Local::Select) => Ok(()),
        Run::Special(Local::Subscribe(_) | Local::Unsubscribe(_) | Local::Publish(_)) => Ok(()),
        Run::Special(_) => Err(NOT_IN_TRANSACTION),
    }
}

/// Commands that are allowed before the password.
pub(crate) fn without_password(name: &[u8]) -> bool {
    [&b"auth"[..], b"hello", b"quit", b"reset"].iter().any(|allowed| name.eq_ignore_ascii_case(allowed))
}

/// Commands that are carried out, not queued, inside MULTI.
pub(crate) fn runs_inside_multi(name: &[u8]) -> bool {
    let these: [&[u8]; 6] = [b"multi", b"exec", b"discard", b"watch", b"quit", b"reset"];
    these.iter().any(|allowed| name.eq_ignore_ascii_case(allowed))
}

/// `… HELP`: the subcommands of the container that `words[0]` names.
fn help(_: &mut Context<'_>, words: &[&[u8]]) -> Result<Reply, Failure> {
    let Some(entry) = all().find(|entry| entry.spec.name.as_bytes().eq_ignore_ascii_case(words[0])) else {
        return Err(Failure::unknown_command(words));
    };
    let name = entry.spec.name.to_ascii_uppercase();
    let mut lines = vec![format!("{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:")];
    if let Run::Container(subcommands) = entry.run {
        for sub in subcommands {
            let line = format!("{} {}", last_name(&sub.spec).to_ascii_uppercase(), sub.spec.arguments);
            lines.push(line.trim_end().to_owned());
            lines.push(format!("    {}", sub.spec.summary));
        }
    }
    Ok(Reply::Array(lines.into_iter().map(Reply::bulk).collect()))
}
