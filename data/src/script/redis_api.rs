//! What of the table `redis` scripts call beside `call` and `pcall`.

use super::calls::{is_elsewhere, lookup_in};
use super::natives::{Answer, Arguments, Call, Refusal, Shared, as_number, raised_as_table};
use super::values::{Word, error, error_text};
use crate::commands::Entry;
use crate::meter::Meter;
use crate::transaction::is_own;
use mlua::Value;

pub(super) const REDIS: &[(&str, Call)] = &[
    ("error_reply", error_reply),
    ("status_reply", status_reply),
    ("sha1hex", sha1hex),
    ("log", log),
    ("setresp", setresp),
    ("set_repl", set_repl),
    ("acl_check_cmd", acl_check_cmd),
    ("replicate_commands", |_, _| Ok(vec![Value::Boolean(true)])),
    ("breakpoint", |_, _| Ok(vec![Value::Boolean(false)])),
    ("debug", |_, _| Ok(Vec::new())),
];

fn raise(text: &str) -> Refusal {
    Refusal::Lua(raised_as_table(text.as_bytes()))
}

/// The only argument, a string; or the table of an error, which these two return.
fn only_text(arguments: &Arguments<'_>) -> Result<Result<Vec<u8>, Value>, Refusal> {
    match arguments.values {
        [Value::String(text)] => {
            arguments.shared.work(text.as_bytes().len() / 4)?;
            Ok(Ok(text.as_bytes().to_vec()))
        }
        _ => Ok(Err(error(arguments.lua, b"ERR wrong number or type of arguments")?)),
    }
}

fn error_reply(_: &Shared, arguments: &Arguments<'_>) -> Answer {
    Ok(vec![match only_text(arguments)? {
        Ok(text) => error(arguments.lua, &error_text(&text))?,
        Err(error) => error,
    }])
}

fn status_reply(_: &Shared, arguments: &Arguments<'_>) -> Answer {
    Ok(vec![match only_text(arguments)? {
        Ok(text) => {
            let table = arguments.lua.create_table_with_capacity(0, 1)?;
            table.raw_set("ok", arguments.lua.create_string(&text)?)?;
            Value::Table(table)
        }
        Err(error) => error,
    }])
}

fn sha1hex(shared: &Shared, arguments: &Arguments<'_>) -> Answer {
    let [value] = arguments.values else { return Err(raise("ERR wrong number of arguments")) };
    let text = arguments.lua.coerce_string(value.clone())?.map_or(Vec::new(), |text| text.as_bytes().to_vec());
    shared.spend(text.len() as u64 / 4)?;
    shared.work(text.len() / 4)?;
    Ok(vec![arguments.string(super::sha1(&text).as_bytes())?])
}

/// Nothing is logged: every replica would.
fn log(_: &Shared, arguments: &Arguments<'_>) -> Answer {
    if arguments.values.len() < 2 {
        return Err(raise("ERR redis.log() requires two arguments or more."));
    }
    match as_number(&arguments.values[0]) {
        None => Err(raise("ERR First argument must be a number (log level).")),
        Some(level) if !(0.0..=3.0).contains(&level) => Err(raise("ERR Invalid log level.")),
        Some(_) => Ok(Vec::new()),
    }
}

fn setresp(shared: &Shared, arguments: &Arguments<'_>) -> Answer {
    let [version] = arguments.values else { return Err(raise("ERR redis.setresp() requires one argument.")) };
    match as_number(version) {
        Some(version) if version == 2.0 || version == 3.0 => shared.resp3.set(version == 3.0),
        _ => return Err(raise("ERR RESP version must be 2 or 3.")),
    }
    Ok(Vec::new())
}

/// Whether a command with subcommands is said with one of them, or alone.
fn names_subcommand(entry: &Entry, words: &[&[u8]]) -> bool {
    let subcommands = &entry.spec.subcommands;
    words.len() < 2 || subcommands.is_empty() || subcommands.iter().any(|sub| sub.name == entry.spec.name_of(words))
}

/// What replicas get is not a script's to say: they run it.
fn set_repl(_: &Shared, arguments: &Arguments<'_>) -> Answer {
    let [flags] = arguments.values else { return Err(raise("ERR redis.set_repl() requires one argument.")) };
    match as_number(flags) {
        Some(flags) if (0.0..=3.0).contains(&flags) => Ok(Vec::new()),
        _ => Err(raise("ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.")),
    }
}

fn acl_check_cmd(shared: &Shared, arguments: &Arguments<'_>) -> Answer {
    if arguments.values.is_empty() {
        return Err(raise("ERR Please specify at least one argument for this redis lib call"));
    }
    let name = arguments.text(0)?;
    let name = name.as_bytes();
    shared.work(64 + name.len() / 8)?;
    let entry = lookup_in(shared.version.get(), &name);
    if entry.is_none() && !is_elsewhere(&name) && !is_own(&name) {
        return Err(raise("ERR Invalid command passed to redis.acl_check_cmd()"));
    }
    let Some(permit) = shared.permit.borrow().clone() else { return Ok(vec![Value::Boolean(true)]) };
    let Some(words) = arguments.values.iter().map(Word::of).collect::<Option<Vec<Word>>>() else {
        return Err(raise("ERR Lua redis lib command arguments must be strings or integers"));
    };
    let words: Vec<&[u8]> = words.iter().map(|word| &**word).collect();
    if entry.is_some_and(|entry| !names_subcommand(entry, &words)) {
        return Err(raise("ERR Invalid command passed to redis.acl_check_cmd()"));
    }
    shared.work(3 * words.len() + words.iter().map(|word| word.len() / 16).sum::<usize>())?;
    let meter = Meter::limited(shared.instructions_left());
    let may = permit.allows(entry, &words, &meter);
    shared.spend(meter.spent())?;
    Ok(vec![Value::Boolean(may)])
}
