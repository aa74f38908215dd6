//! `FUNCTION DELETE | DUMP | FLUSH | HELP | KILL | LIST | LOAD | RESTORE | STATS`

use super::script::check_length;
use crate::algorithms::dump::{dump_libraries, restore_libraries};
use crate::algorithms::glob::Glob;
use crate::apply::OUT_OF_MEMORY;
use crate::commands::prelude::*;
use crate::commands::subcommand;
use crate::script::library::{Registered, library_name};
use crate::script::{Rules, functions_of};
use std::collections::BTreeMap;

/// Keeps libraries of functions, and forgets them.
pub enum Function<'a> {
    /// Forgets a library.
    Delete(&'a [u8]),
    /// Gives all libraries as bytes.
    Dump,
    /// Forgets all libraries.
    Flush,
    /// Describes the subcommands.
    Help,
    /// Nothing is running that could be ended.
    Kill,
    /// Tells of libraries.
    #[allow(missing_docs)]
    List { pattern: Option<&'a [u8]>, with_code: bool },
    /// Keeps a library.
    #[allow(missing_docs)]
    Load { code: &'a [u8], replaces: bool },
    /// Keeps libraries that were dumped.
    #[allow(missing_docs)]
    Restore { payload: &'a [u8], policy: Policy },
    /// Tells how many there are.
    Stats,
}

/// What becomes of the libraries that are there when others are restored.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// They stay; names that are taken are an error.
    Append,
    /// They go.
    Flush,
    /// Those of the same names go.
    Replace,
}

const HELP: &[&str] = &[
    "FUNCTION <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "LOAD [REPLACE] <FUNCTION CODE>",
    "    Keep a library.",
    "DELETE <LIBRARY NAME>",
    "    Forget a library.",
    "LIST [LIBRARYNAME PATTERN] [WITHCODE]",
    "    Tell of all libraries: name, engine, functions, and the code if that is wanted.",
    "STATS",
    "    Tell how many libraries and functions there are.",
    "KILL",
    "    There is never a function to kill: each has a limit.",
    "FLUSH [ASYNC|SYNC]",
    "    Forget all libraries of this bucket.",
    "DUMP",
    "    Give all libraries as bytes for FUNCTION RESTORE.",
    "RESTORE <PAYLOAD> [FLUSH|APPEND|REPLACE]",
    "    Keep the libraries that FUNCTION DUMP gave.",
    "HELP",
    "    This text.",
];

const SUBCOMMANDS: &[Spec] = &[
    subcommand("function|delete", 3, "library-name", "Forgets a library."),
    subcommand("function|dump", 2, "", "Gives all libraries as bytes."),
    subcommand("function|flush", -2, "[ASYNC | SYNC]", "Forgets all libraries."),
    subcommand("function|help", 2, "", "Describes the subcommands."),
    subcommand("function|kill", 2, "", "Ends the function that is running."),
    subcommand("function|list", -2, "[LIBRARYNAME library-name-pattern] [WITHCODE]", "Tells of all libraries."),
    subcommand("function|load", -3, "[REPLACE] function-code", "Keeps a library."),
    subcommand(
        "function|restore",
        -3,
        "serialized-value [FLUSH | APPEND | REPLACE]",
        "Keeps libraries that were dumped.",
    ),
    subcommand("function|stats", 2, "", "Tells how many libraries and functions there are."),
];

const fn subcommand(name: &'static str, arity: i32, arguments: &'static str, summary: &'static str) -> Spec {
    let spec = subcommand::spec(Group::Scripting, name, arity, Keys::None, arguments, summary);
    Spec { flags: Flags::WRITE.and(Flags::NOSCRIPT), since: "7.0.0", ..spec }
}

fn list_options<'a>(args: Args<'a>) -> Result<Function<'a>, Failure> {
    let (mut pattern, mut with_code) = (None, false);
    let mut index = 2;
    while index < args.len() {
        if args.is(index, "WITHCODE") && !with_code {
            with_code = true;
        } else if args.is(index, "LIBRARYNAME") && pattern.is_none() {
            index += 1;
            pattern = Some(args.get(index).map_err(|_| Failure::Text("ERR library name argument was not given"))?);
        } else {
            return Err(Failure::built(&[b"ERR Unknown argument ", args.get(index)?].concat()));
        }
        index += 1;
    }
    Ok(Function::List { pattern, with_code })
}

impl<'a> WriteCommand<'a> for Function<'a> {
    const SPEC: Spec = Spec {
        name: "function",
        arity: -2,
        flags: Flags::WRITE.and(Flags::NOSCRIPT),
        keys: Keys::None,
        group: Group::Scripting,
        since: "7.0.0",
        complexity: "Depends on subcommand.",
        summary: "A container for commands about libraries of functions.",
        arguments: "",
        example: "FUNCTION LIST",
        subcommands: SUBCOMMANDS,
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(match subcommand::find(&Self::SPEC, args)?.name {
            "function|delete" => Function::Delete(args.get(2)?),
            "function|dump" => Function::Dump,
            "function|flush" if args.len() == 2 || (args.len() == 3 && (args.is(2, "SYNC") || args.is(2, "ASYNC"))) => {
                Function::Flush
            }
            "function|flush" => return Err(Failure::Text("ERR FUNCTION FLUSH only supports SYNC|ASYNC option")),
            "function|kill" => Function::Kill,
            "function|list" => list_options(args)?,
            "function|load" => {
                let replaces = args.len() > 3;
                if args.len() > 4 || (replaces && !args.is(2, "REPLACE")) {
                    return Err(Failure::built(&[b"ERR Unknown option given: ", args.get(2)?].concat()));
                }
                let code = args.get(args.len() - 1)?;
                check_length(code)?;
                Function::Load { code, replaces }
            }
            "function|restore" => {
                let policy = match args.len() {
                    3 => Policy::Append,
                    4 if args.is(3, "APPEND") => Policy::Append,
                    4 if args.is(3, "REPLACE") => Policy::Replace,
                    4 if args.is(3, "FLUSH") => Policy::Flush,
                    4 => {
                        return Err(Failure::Text(
                            "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.",
                        ));
                    }
                    _ => return Err(Failure::WrongArity("function|restore")),
                };
                Function::Restore { payload: args.get(2)?, policy }
            }
            "function|stats" => Function::Stats,
            _ => Function::Help,
        })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        Ok(match self {
            Function::Delete(name) => {
                if !tx.tree_mut().collections.forget_library(name) {
                    return Err(Failure::Text("ERR Library not found"));
                }
                Reply::Ok
            }
            Function::Dump => {
                let codes: Vec<Blob> = tx.tree().collections.libraries().map(|library| library.code).collect();
                // Each is compressed.
                tx.meter().parse(codes.iter().map(|code| code.len()).sum());
                tx.meter().check()?;
                Reply::bulk(dump_libraries(&codes))
            }
            Function::Flush => {
                tx.tree_mut().collections.forget_libraries();
                Reply::Ok
            }
            Function::Help => Reply::Array(HELP.iter().map(|line| Reply::Simple(line)).collect()),
            Function::Kill => return Err(Failure::Text("NOTBUSY No scripts in execution right now.")),
            Function::List { pattern, with_code } => list(tx, pattern, with_code),
            Function::Load { .. } | Function::Restore { .. } if tx.is_full() => return Err(OUT_OF_MEMORY),
            Function::Load { code, replaces } => {
                let (name, functions) = read(code, tx)?;
                let version = tx.version();
                tx.tree_mut().collections.keep_library(name, code, functions, replaces, version)?;
                Reply::bulk(name)
            }
            Function::Restore { payload, policy } => restore(tx, payload, policy)?,
            Function::Stats => {
                let collections = &tx.tree().collections;
                let counts = vec![
                    (Reply::bulk("libraries_count"), Reply::count(collections.libraries().count())),
                    (Reply::bulk("functions_count"), Reply::count(collections.functions().count())),
                ];
                let engines = Reply::Map(vec![(Reply::bulk("LUA"), Reply::Map(counts))]);
                Reply::Map(vec![(Reply::bulk("running_script"), Reply::Nil), (Reply::bulk("engines"), engines)])
            }
        })
    }
}

/// A library's name, and what it registers.
fn read<'c>(code: &'c [u8], tx: &Transaction<'_>) -> Result<(&'c [u8], Vec<Registered>), Failure> {
    let name = library_name(code)?;
    let functions = functions_of(code, Rules::of(tx.version()), tx.meter())?;
    if functions.is_empty() { Err(Failure::Text("ERR No functions registered")) } else { Ok((name, functions)) }
}

fn list(tx: &Transaction<'_>, pattern: Option<&[u8]>, with_code: bool) -> Reply {
    let collections = &tx.tree().collections;
    let pattern = pattern.map(Glob::new);
    let mut functions: BTreeMap<Blob, Vec<Registered>> = BTreeMap::new();
    for found in collections.functions() {
        tx.meter().visit(found.library.len());
        functions.entry(found.library).or_default().push(found.function);
    }
    let mut libraries = Vec::new();
    for library in collections.libraries() {
        tx.meter().visit(library.code.len());
        if pattern.as_ref().is_some_and(|pattern| !pattern.matches_within(&library.name, tx.meter())) {
            continue;
        }
        let functions = functions.remove(&library.name).unwrap_or_default().into_iter().map(|function| {
            let Registered { name, description, flags } = function;
            let flags = flags.iter().map(|flag| Reply::Simple(flag_name(flag))).collect();
            Reply::Map(vec![
                (Reply::bulk("name"), Reply::bulk(name)),
                (Reply::bulk("description"), Reply::bulk_or_nil(description.map(Blob::from))),
                (Reply::bulk("flags"), Reply::Set(flags)),
            ])
        });
        let mut told = vec![
            (Reply::bulk("library_name"), Reply::Bulk(library.name.clone())),
            (Reply::bulk("engine"), Reply::bulk("LUA")),
            (Reply::bulk("functions"), Reply::Array(functions.collect())),
        ];
        if with_code {
            told.push((Reply::bulk("library_code"), Reply::Bulk(library.code)));
        }
        libraries.push(Reply::Map(told));
    }
    Reply::Array(libraries)
}

/// A flag as a status.
fn flag_name(flag: &[u8]) -> &'static str {
    const NAMES: [&str; 5] = ["no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys"];
    NAMES.into_iter().find(|name| name.as_bytes() == flag).unwrap_or("unknown")
}

/// All or none of the libraries.
fn restore(tx: &mut Transaction<'_>, payload: &[u8], policy: Policy) -> Result<Reply, Failure> {
    let codes = restore_libraries(payload, tx.meter());
    tx.meter().check()?;
    let codes = codes?;
    let mut libraries = Vec::new();
    for code in &codes {
        check_length(code)?;
        let (name, functions) = read(code, tx)?;
        libraries.push((name, code, functions));
    }
    let version = tx.version();
    let before = tx.tree().collections.clone();
    let collections = &mut tx.tree_mut().collections;
    if policy == Policy::Flush {
        collections.forget_libraries();
    }
    for (name, code, functions) in libraries {
        if let Err(failure) = collections.keep_library(name, code, functions, policy == Policy::Replace, version) {
            // What was done so far has been paid for.
            let meter = collections.meter.clone();
            *collections = before;
            collections.meter = meter;
            return Err(failure);
        }
    }
    Ok(Reply::Ok)
}
