//! `COMMAND …`: what commands there are, as clients and redis-cli read it.

use data::algorithms::glob::Glob;
use data::key_flags::KeyFlags;
use data::spec::{Follows, Group, Keys};
use data::syntax::{Argument, ArgumentKind};
use data::{Failure, Reply, Spec};

use super::known::{self, Known};
use super::{ALWAYS, Context, Entry, Run, answers, helps, spec};

const GROUP: Group = Group::Server;
/// Longest pattern that is looked for among names.
const PATTERN_BYTES_MAX: usize = 1024;
/// Most commands that are described at once, unless it is all.
const NAMES_MAX: usize = 1024;

/// The table of this family.
pub(super) static ENTRIES: &[Entry] = &[Entry {
    spec: spec("command", -1, GROUP, "2.8.13", "Returns detailed information about all commands.", ""),
    marks: &["loading", "stale", "@connection"],
    run: Run::Container(SUBCOMMANDS),
}];

const CONNECTION: super::Marks = &["loading", "stale", "@connection"];

static SUBCOMMANDS: &[Entry] = &[
    answers(spec("command|count", 2, GROUP, "2.8.13", "Returns how many commands there are.", ""), CONNECTION, count),
    answers(
        spec(
            "command|docs",
            -2,
            GROUP,
            "7.0.0",
            "Returns the documentation of commands, of all if none is named.",
            "[command-name ...]",
        ),
        CONNECTION,
        docs,
    ),
    answers(
        spec("command|getkeys", -3, GROUP, "2.8.13", "Extracts the keys from a whole command.", "command [arg ...]"),
        CONNECTION,
        get_keys,
    ),
    answers(
        spec(
            "command|getkeysandflags",
            -3,
            GROUP,
            "7.0.0",
            "Extracts the keys from a whole command, and what is done with them.",
            "command [arg ...]",
        ),
        CONNECTION,
        get_keys_and_flags,
    ),
    answers(
        spec(
            "command|info",
            -2,
            GROUP,
            "2.8.13",
            "Returns details of commands, of all if none is named.",
            "[command-name ...]",
        ),
        CONNECTION,
        info,
    ),
    answers(
        spec(
            "command|list",
            -2,
            GROUP,
            "7.0.0",
            "Returns the names of commands.",
            "[FILTERBY [MODULE module-name | ACLCAT category | PATTERN pattern]]",
        ),
        CONNECTION,
        list,
    ),
    helps("command|help", GROUP, CONNECTION),
];

/// `COMMAND` alone: details of every command.
pub(super) fn everything() -> Reply {
    Reply::Array(known::all().map(details).collect())
}

fn count(_: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply, Failure> {
    Ok(Reply::count(known::all().count()))
}

fn info(_: &mut Context<'_>, words: &[&[u8]]) -> Result<Reply, Failure> {
    if words.len() == 2 {
        return Ok(everything());
    }
    let names = bounded(&words[2..])?;
    let one = |name: &&[u8]| known::named(name).map_or(Reply::NilArray, details);
    Ok(Reply::Array(names.iter().map(one).collect()))
}

/// A description is far larger than the name that asks for it.
fn bounded<'a, 'b>(names: &'a [&'b [u8]]) -> Result<&'a [&'b [u8]], Failure> {
    if names.len() <= NAMES_MAX { Ok(names) } else { Err(Failure::Text("ERR too many commands are asked for at once")) }
}

fn docs(_: &mut Context<'_>, words: &[&[u8]]) -> Result<Reply, Failure> {
    let pair = |command: Known| (Reply::bulk(command.spec().name), documentation(command));
    Ok(Reply::Map(if words.len() == 2 {
        known::all().map(pair).collect()
    } else {
        bounded(&words[2..])?.iter().filter_map(|name| known::named(name)).map(pair).collect()
    }))
}

fn list(_: &mut Context<'_>, words: &[&[u8]]) -> Result<Reply, Failure> {
    let names = |wanted: &dyn Fn(Known) -> bool| {
        let chosen = known::all_with_subcommands().filter(|command| wanted(*command));
        Reply::Array(chosen.map(|command| Reply::bulk(command.spec().name)).collect())
    };
    match words {
        [_, _] => Ok(names(&|_| true)),
        [_, _, filter, kind, argument] if filter.eq_ignore_ascii_case(b"filterby") => {
            if kind.eq_ignore_ascii_case(b"module") {
                Ok(Reply::Array(Vec::new()))
            } else if kind.eq_ignore_ascii_case(b"aclcat") {
                Ok(names(&|command| {
                    let mut categories = command.acl_categories().into_iter();
                    categories.any(|category| category.as_bytes()[1..].eq_ignore_ascii_case(argument))
                }))
            } else if kind.eq_ignore_ascii_case(b"pattern") {
                if argument.len() > PATTERN_BYTES_MAX {
                    return Ok(Reply::Array(Vec::new()));
                }
                let pattern = Glob::new(&argument.to_ascii_lowercase());
                Ok(names(&|command| pattern.matches(command.spec().name.as_bytes())))
            } else {
                Err(Failure::Syntax)
            }
        }
        _ => Err(Failure::Syntax),
    }
}

/// The whole command in `words`, and its keys.
fn keys_in<'a>(mut words: &[&'a [u8]]) -> Result<(Known, Vec<&'a [u8]>), Failure> {
    // A command within a command: the keys are those of the innermost one.
    let command = loop {
        let name = words.first().copied().unwrap_or_default();
        let command = known::named(name).ok_or(Failure::Text("ERR Invalid command specified"))?;
        let command = words.get(1).and_then(|word| command.subcommand(word)).unwrap_or(command);
        if !command.spec().arity_fits(words.len()) {
            return Err(Failure::Text("ERR Invalid number of arguments specified for command"));
        }
        if command.spec().name != super::dictum::ONCE {
            break command;
        }
        words = words.get(2..).unwrap_or_default();
    };
    if command.key_places() == Keys::None {
        return Err(Failure::Text("ERR The command has no key arguments"));
    }
    let keys = command.keys(words);
    if keys.is_empty() {
        return Err(Failure::Text("ERR Invalid arguments specified for command"));
    }
    Ok((command, keys))
}

fn get_keys(_: &mut Context<'_>, words: &[&[u8]]) -> Result<Reply, Failure> {
    let (_, keys) = keys_in(&words[2..])?;
    Ok(Reply::Array(keys.into_iter().map(Reply::bulk).collect()))
}

fn get_keys_and_flags(_: &mut Context<'_>, words: &[&[u8]]) -> Result<Reply, Failure> {
    let (command, keys) = keys_in(&words[2..])?;
    let flags = |place| match command {
        Known::OnKeys(spec) => spec.key_flags_in(place, &words[2..]),
        Known::Own(_) => OWN_KEYS,
    };
    let one =
        |(place, key): (usize, &[u8])| Reply::Array(vec![Reply::bulk(key), statuses(flags(place).iter().copied())]);
    Ok(Reply::Array(keys.into_iter().enumerate().map(one).collect()))
}

/// What commands that are not on keys do with those that they name.
const OWN_KEYS: KeyFlags = &["RO"];

fn statuses(texts: impl IntoIterator<Item = &'static str>) -> Reply {
    Reply::Set(texts.into_iter().map(Reply::Simple).collect())
}

/// What is done with a command's key at a place among its keys, as Redis has it.
fn key_flags(command: Known, place: usize) -> Reply {
    statuses(match command {
        Known::OnKeys(spec) => spec.key_flags(place).iter().copied(),
        Known::Own(_) => OWN_KEYS.iter().copied(),
    })
}

fn pair(key: &'static str, value: Reply) -> (Reply, Reply) {
    (Reply::bulk(key), value)
}

/// One item of `COMMAND INFO`.
fn details(command: Known) -> Reply {
    let spec = command.spec();
    let (first, last, step) = command.key_places().positions();
    let subcommands = command.subcommands();
    Reply::Array(vec![
        Reply::bulk(spec.name),
        Reply::Integer(i64::from(spec.arity)),
        statuses(command.flags()),
        Reply::Integer(first),
        Reply::Integer(last),
        Reply::Integer(step),
        statuses(command.categories()),
        // Tips are for proxies that spread a command over shards.
        Reply::Set(Vec::new()),
        Reply::Set(key_specifications(command)),
        if subcommands.is_empty() {
            Reply::Set(Vec::new())
        } else {
            Reply::Array(subcommands.into_iter().map(details).collect())
        },
    ])
}

/// Where the keys are, in the form of Redis 7.
fn key_specifications(command: Known) -> Vec<Reply> {
    match command.key_places() {
        Keys::Stored { count, first } => {
            let places = [Keys::ONE, Keys::Counted { count, first, step: 1 }];
            places.into_iter().enumerate().filter_map(|(at, places)| key_specification(command, places, at)).collect()
        }
        Keys::Named { from, words } => {
            let keys = words.iter().filter(|(_, follows)| *follows == Follows::Key);
            let named = keys.map(|(word, _)| named_key_specification(command, word, from));
            key_specification(command, Keys::ONE, 0).into_iter().chain(named).collect()
        }
        // Where the first key is treated otherwise than those that follow it stands by itself.
        Keys::Range { first, last, step: 1 } if differs(command) => {
            let places = [
                Keys::Range { first, last: first as isize as _, step: 1 },
                Keys::Range { first: first + 1, last, step: 1 },
            ];
            places.into_iter().enumerate().filter_map(|(at, places)| key_specification(command, places, at)).collect()
        }
        places => key_specification(command, places, 0).into_iter().collect(),
    }
}

fn typed(kind: &'static str, spec: Vec<(Reply, Reply)>) -> Reply {
    Reply::Map(vec![pair("type", Reply::bulk(kind)), pair("spec", Reply::Map(spec))])
}

fn number(key: &'static str, value: i64) -> (Reply, Reply) {
    pair(key, Reply::Integer(value))
}

fn index(at: usize) -> Reply {
    typed("index", vec![number("index", at as i64)])
}

fn range(last: i64, step: usize) -> Reply {
    typed("range", vec![number("lastkey", last), number("keystep", step as i64), number("limit", 0)])
}

/// Whether something else is done with the first key than with the second.
fn differs(command: Known) -> bool {
    matches!(command, Known::OnKeys(spec) if spec.key_flags(0) != spec.key_flags(1))
}

fn key_specification(command: Known, places: Keys, at: usize) -> Option<Reply> {
    let (begin, find) = match places {
        Keys::None | Keys::Stored { .. } | Keys::Named { .. } => return None,
        Keys::Range { first, last, step } => {
            // A positive last is counted from the first.
            let last = if last < 0 { i64::from(last) } else { i64::from(last) - first as i64 };
            (index(first), range(last, step))
        }
        Keys::Counted { count, first, step } => {
            let first = first as i64 - count as i64;
            let counted = vec![number("keynumidx", 0), number("firstkey", first), number("keystep", step as i64)];
            (index(count), typed("keynum", counted))
        }
        Keys::Streams => {
            // Behind the words that every such command has before it.
            let from = command.spec().arity.unsigned_abs() as i64 - 3;
            let keyword = vec![pair("keyword", Reply::bulk("STREAMS")), number("startfrom", from)];
            // The first half of what follows.
            let range = vec![number("lastkey", -1), number("keystep", 1), number("limit", 2)];
            (typed("keyword", keyword), typed("range", range))
        }
    };
    Some(whole_specification(command, at, begin, find))
}

/// A key that follows a word, somewhere behind `from`.
fn named_key_specification(command: Known, word: &'static str, from: usize) -> Reply {
    let begin = vec![pair("keyword", Reply::bulk(word)), number("startfrom", from as i64)];
    whole_specification(command, 1, typed("keyword", begin), range(0, 1))
}

fn whole_specification(command: Known, at: usize, begin: Reply, find: Reply) -> Reply {
    Reply::Map(vec![pair("flags", key_flags(command, at)), pair("begin_search", begin), pair("find_keys", find)])
}

/// One value of `COMMAND DOCS`.
fn documentation(command: Known) -> Reply {
    let spec: &Spec = command.spec();
    let mut pairs = vec![
        pair("summary", Reply::bulk(spec.summary)),
        pair("since", Reply::bulk(spec.since)),
        pair("group", Reply::bulk(spec.group.name())),
        pair("complexity", Reply::bulk(spec.complexity)),
    ];
    let subcommands = command.subcommands();
    let tree = if subcommands.is_empty() { argument_tree(spec) } else { Vec::new() };
    if !tree.is_empty() {
        pairs.push(pair("arguments", arguments(&tree)));
    }
    if !subcommands.is_empty() {
        let documented = |sub: Known| (Reply::bulk(sub.spec().name), documentation(sub));
        pairs.push(pair("subcommands", Reply::Map(subcommands.into_iter().map(documented).collect())));
    }
    Reply::Map(pairs)
}

/// The arguments as a tree. A notation whose choices stand in no brackets (`ON | OFF`) is one choice that must be made.
fn argument_tree(spec: &Spec) -> Vec<Argument> {
    let mut depth = 0;
    let mut choices = spec.arguments.split(|letter| {
        depth += match letter {
            '[' => 1,
            ']' => -1,
            _ => 0,
        };
        letter == '|' && depth == 0
    });
    let first = choices.next().unwrap_or_default();
    let others: Vec<&str> = choices.collect();
    if others.is_empty() {
        return spec.argument_tree();
    }
    let each = std::iter::once(first).chain(others).flat_map(data::syntax::arguments);
    let kind = ArgumentKind::OneOf(each.collect());
    vec![Argument { name: "option".to_owned(), kind, token: None, optional: false, multiple: false }]
}

fn arguments(tree: &[Argument]) -> Reply {
    Reply::Array(tree.iter().map(argument).collect())
}

fn argument(argument: &Argument) -> Reply {
    let inner = argument.kind.arguments();
    let mut pairs =
        vec![pair("name", Reply::bulk(argument.name.as_str())), pair("type", Reply::bulk(argument.kind.name()))];
    if inner.is_empty() {
        pairs.push(pair("display_text", Reply::bulk(argument.name.as_str())));
    }
    if argument.kind == ArgumentKind::Key {
        pairs.push(pair("key_spec_index", Reply::Integer(0)));
    }
    if let Some(token) = &argument.token {
        pairs.push(pair("token", Reply::bulk(token.as_str())));
    }
    if argument.optional || argument.multiple {
        let flags = [(argument.optional, "optional"), (argument.multiple, "multiple")];
        pairs.push(pair("flags", statuses(flags.into_iter().filter(|(set, _)| *set).map(|(_, name)| name))));
    }
    if !inner.is_empty() {
        pairs.push(pair("arguments", arguments(inner)));
    }
    Reply::Map(pairs)
}

const _: () = assert!(ALWAYS.len() == 2, "COMMAND's marks repeat these");
