//! `SCRIPT DEBUG | EXISTS | FLUSH | HELP | KILL | LOAD`

use crate::commands::prelude::*;
use crate::commands::subcommand;
use crate::script::{CODE_BYTES_MAX, Rules, check, sha1};

/// Keeps scripts, and forgets them.
pub enum Script<'a> {
    /// Nothing: there is no debugger.
    Debug,
    /// Tells which are kept.
    Exists(&'a [&'a [u8]]),
    /// Forgets all.
    Flush,
    /// Describes the subcommands.
    Help,
    /// Nothing is running that could be ended.
    Kill,
    /// Keeps one.
    Load(&'a [u8]),
}

const HELP: &[&str] = &[
    "SCRIPT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "DEBUG (YES|SYNC|NO)",
    "    There is no debugger: only NO is taken.",
    "EXISTS <sha1> [<sha1> ...]",
    "    Tell which scripts are kept.",
    "FLUSH [ASYNC|SYNC]",
    "    Forget all scripts of this bucket.",
    "KILL",
    "    There is never a script to kill: each has a limit.",
    "LOAD <script>",
    "    Keep a script without running it.",
    "HELP",
    "    This text.",
];

const SUBCOMMANDS: &[Spec] = &[
    subcommand("script|debug", 3, "<YES | SYNC | NO>", "Sets the debug mode for scripts."),
    subcommand("script|exists", -3, "sha1 [sha1 ...]", "Tells which scripts are kept."),
    subcommand("script|flush", -2, "[ASYNC | SYNC]", "Forgets all scripts."),
    subcommand("script|help", 2, "", "Describes the subcommands."),
    subcommand("script|kill", 2, "", "Ends the script that is running."),
    subcommand("script|load", 3, "script", "Keeps a script."),
];

const fn subcommand(name: &'static str, arity: i32, arguments: &'static str, summary: &'static str) -> Spec {
    let spec = subcommand::spec(Group::Scripting, name, arity, Keys::None, arguments, summary);
    Spec { flags: Flags::WRITE.and(Flags::NOSCRIPT), since: "2.6.0", ..spec }
}

/// Refuses code that is too long.
pub(crate) fn check_length(code: &[u8]) -> Result<(), Failure> {
    if code.len() > CODE_BYTES_MAX {
        return Err(Failure::built(format!("ERR a script has at most {CODE_BYTES_MAX} bytes").as_bytes()));
    }
    Ok(())
}

impl<'a> WriteCommand<'a> for Script<'a> {
    const SPEC: Spec = Spec {
        name: "script",
        arity: -2,
        flags: Flags::WRITE.and(Flags::NOSCRIPT),
        keys: Keys::None,
        group: Group::Scripting,
        since: "2.6.0",
        complexity: "Depends on subcommand.",
        summary: "A container for commands about scripts.",
        arguments: "",
        example: "SCRIPT LOAD \"return 1\"",
        subcommands: SUBCOMMANDS,
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(match subcommand::find(&Self::SPEC, args)?.name {
            "script|debug" if args.is(2, "NO") => Script::Debug,
            "script|debug" if args.is(2, "YES") || args.is(2, "SYNC") => {
                return Err(Failure::Text("ERR there is no debugger for scripts"));
            }
            "script|debug" => return Err(Failure::Text("ERR Use SCRIPT DEBUG YES/SYNC/NO")),
            "script|exists" => Script::Exists(args.from(2)),
            "script|flush" if args.len() == 2 || (args.len() == 3 && (args.is(2, "SYNC") || args.is(2, "ASYNC"))) => {
                Script::Flush
            }
            "script|flush" => return Err(Failure::Text("ERR SCRIPT FLUSH only support SYNC|ASYNC option")),
            "script|kill" => Script::Kill,
            "script|load" => {
                check_length(args.get(2)?)?;
                Script::Load(args.get(2)?)
            }
            _ => Script::Help,
        })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        Ok(match self {
            Script::Debug => Reply::Ok,
            Script::Exists(shas) => {
                let is_kept = |sha: &&[u8]| {
                    let sha = String::from_utf8_lossy(sha).to_ascii_lowercase();
                    Reply::one_if(tx.tree().collections.script(&sha).is_some())
                };
                Reply::Array(shas.iter().map(is_kept).collect())
            }
            Script::Flush => {
                tx.tree_mut().collections.forget_scripts();
                Reply::Ok
            }
            Script::Help => Reply::Array(HELP.iter().map(|line| Reply::Simple(line)).collect()),
            Script::Kill => return Err(Failure::Text("NOTBUSY No scripts in execution right now.")),
            Script::Load(body) => {
                let sha = sha1(body);
                if tx.tree().collections.script(&sha).is_none() {
                    check(body, Rules::of(tx.version()), tx.meter())?;
                    if !tx.tree().collections.has_room_for(body, true) {
                        return Err(Failure::Text("ERR too many scripts are kept; SCRIPT FLUSH forgets them"));
                    }
                    tx.tree_mut().collections.keep_script(&sha, body);
                }
                Reply::bulk(sha)
            }
        })
    }
}
