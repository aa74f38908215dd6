//! What scripts call: `redis.call` and `redis.pcall`, from Lua's values to a command and back.

use super::natives::{ERROR_WORK, Limit, Shared};
use super::values::{Word, from_reply};
use super::{CALL_INSTRUCTIONS, Host};
use crate::commands::{self, Entry};
use crate::reply::Reply;
use crate::spec::{Flags, Keys, Spec};
use base::versions::command_since;
use mlua::{Error, Lua, Value};
use std::borrow::Cow;

/// Carries out what a script calls: its answer, or the text of its error.
pub(super) fn carry_out(
    lua: &Lua,
    shared: &Shared,
    values: &[Value],
    read_only: bool,
    host: &mut dyn Host,
) -> Result<Result<Value, Vec<u8>>, Error> {
    let reply = match answer(shared, values, read_only, host)? {
        Ok(Reply::Error(failure)) => {
            shared.work(ERROR_WORK)?;
            return Ok(Err(failure.to_string().into_bytes()));
        }
        Ok(reply) => reply,
        Err(text) => {
            shared.work(ERROR_WORK)?;
            return Ok(Err(text.into_owned().into_bytes()));
        }
    };
    shared.work(units_of(&reply))?;
    let resp3 = shared.resp3.get();
    if !is_small(&reply) {
        return from_reply(lua, &reply, resp3).map(Ok);
    }
    // See `Machine::limited`.
    lua.set_memory_limit(0)?;
    let value = from_reply(lua, &reply, resp3);
    lua.set_memory_limit(shared.memory_limit.get())?;
    value.map(Ok)
}

/// What it counts for to hand a reply to a script.
fn units_of(reply: &Reply) -> usize {
    const VALUE: usize = 5;
    let all = |items: &[Reply]| items.iter().map(units_of).sum::<usize>();
    let pairs =
        |pairs: &[(Reply, Reply)]| pairs.iter().map(|(key, value)| units_of(key) + units_of(value)).sum::<usize>();
    VALUE
        + match reply {
            Reply::Bulk(bytes) | Reply::Status(bytes) => bytes.len() / 16,
            Reply::Array(items) | Reply::Set(items) => all(items),
            Reply::Map(of) | Reply::Named(of) | Reply::Pairs(of) => VALUE * of.len() + pairs(of),
            Reply::ByDialect(replies) => all(&replies[..]),
            _ => 0,
        }
}

/// Whether a reply is so small that it does not matter if a script gets it beyond its limit of bytes: what it does with it next is refused.
fn is_small(reply: &Reply) -> bool {
    const BYTES: usize = 16 * 1024;
    const ITEMS: usize = 128;
    fn bytes(reply: &Reply) -> Option<usize> {
        match reply {
            Reply::Bulk(bytes) | Reply::Status(bytes) => Some(bytes.len()),
            Reply::Ok | Reply::Simple(_) | Reply::Nil | Reply::NilArray | Reply::Integer(_) | Reply::Boolean(_) => {
                Some(0)
            }
            Reply::Double(_) | Reply::Decimal(_) => Some(0),
            _ => None,
        }
    }
    match reply {
        Reply::Array(items) => {
            items.len() <= ITEMS
                && items.iter().try_fold(0, |sum, item| Some(sum + bytes(item)?)).is_some_and(|sum| sum <= BYTES)
        }
        reply => bytes(reply).is_some_and(|bytes| bytes <= BYTES),
    }
}

/// The command of this name, if entries of the version have it.
pub(super) fn lookup_in(version: u16, name: &[u8]) -> Option<&'static Entry> {
    commands::lookup(name).filter(|entry| version >= command_since(entry.spec.name))
}

/// What a script's call is answered, or the text of the error if it is no call that scripts may make.
fn answer(
    shared: &Shared,
    values: &[Value],
    read_only: bool,
    host: &mut dyn Host,
) -> Result<Result<Reply, Cow<'static, str>>, Error> {
    let refused = |text: &'static str| Ok(Err(Cow::Borrowed(text)));
    if values.is_empty() {
        return refused("ERR Please specify at least one argument for this redis lib call");
    }
    let Some(words) = values.iter().map(Word::of).collect::<Option<Vec<Word>>>() else {
        return refused("ERR Lua redis lib command arguments must be strings or integers");
    };
    let words: Vec<&[u8]> = words.iter().map(|word| &**word).collect();
    shared.spend(CALL_INSTRUCTIONS)?;
    let bytes = words.iter().map(|word| word.len()).sum();
    shared.spend_bytes(bytes)?;
    shared.work(3 * words.len() + bytes / 16)?;
    if let Some(entry) = lookup_in(host.version(), words[0]) {
        if !entry.spec.arity_fits(words.len()) {
            return refused("ERR Wrong number of args calling Redis command from script");
        }
        if words.len() > 1 && !entry.spec.subcommands.is_empty() {
            let own = |spec: &&Spec| {
                spec.name.split('|').next_back().is_some_and(|name| words[1].eq_ignore_ascii_case(name.as_bytes()))
            };
            match entry.spec.subcommands.iter().find(own) {
                None => return refused("ERR Unknown Redis command called from script"),
                Some(found) if !found.arity_fits(words.len()) => {
                    return refused("ERR Wrong number of args calling Redis command from script");
                }
                Some(_) => {}
            }
        }
        if entry.spec.flags.has(Flags::NOSCRIPT) {
            return refused("ERR This Redis command is not allowed from script");
        }
        if read_only && entry.is_write() {
            return refused("ERR Write commands are not allowed from read-only scripts.");
        }
        if entry.spec.keys == Keys::Streams && asks_to_wait(&words) {
            let name = String::from_utf8_lossy(words[0]);
            let text = format!("ERR {name} command is not allowed with BLOCK option from scripts");
            return Ok(Err(Cow::Owned(text)));
        }
        if let Err(failure) = commands::check_keys(entry.spec, &words) {
            return Ok(Err(Cow::Owned(failure.to_string())));
        }
        if let Err(failure) = host.slots().check(entry.spec, &words) {
            return Ok(Err(Cow::Owned(failure.to_string())));
        }
    } else if read_only && publishes(words[0]) && host.may_publish_nothing() {
        return refused("ERR Write commands are not allowed from read-only scripts.");
    } else if is_elsewhere(words[0]) {
        return refused("ERR This Redis command is not allowed from script");
    }
    // Here, and nowhere else, a script's command is carried out. It pays the entry's meter; past the budget a script has nothing left to do, as the door
    // that limits the work takes all of it back.
    let reply = host.call(&words);
    if host.is_over_budget() {
        return Err(shared.break_limit(Limit::Instructions));
    }
    Ok(Ok(reply))
}

fn publishes(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"publish") || name.eq_ignore_ascii_case(b"spublish")
}

/// Whether XREAD or XREADGROUP says that it would wait.
fn asks_to_wait(words: &[&[u8]]) -> bool {
    let is = |word: &&&[u8], name: &str| word.eq_ignore_ascii_case(name.as_bytes());
    words.iter().take_while(|word| !is(word, "STREAMS")).any(|word| is(&word, "BLOCK"))
}

/// Whether a command is one of the server or the connection, which scripts have nothing to do with.
pub(super) fn is_elsewhere(name: &[u8]) -> bool {
    const NAMES: [&str; 31] = [
        "acl",
        "asking",
        "auth",
        "bgrewriteaof",
        "bgsave",
        "client",
        "cluster",
        "config",
        "debug",
        "discard",
        "exec",
        "failover",
        "hello",
        "info",
        "latency",
        "module",
        "monitor",
        "multi",
        "psubscribe",
        "psync",
        "punsubscribe",
        "quit",
        "readonly",
        "readwrite",
        "replconf",
        "replicaof",
        "reset",
        "save",
        "shutdown",
        "slowlog",
        "subscribe",
    ];
    const MORE: [&str; 9] =
        ["ssubscribe", "sunsubscribe", "swapdb", "sync", "unsubscribe", "unwatch", "wait", "waitaof", "watch"];
    NAMES.iter().chain(&MORE).any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}
