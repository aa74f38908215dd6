//! `MEMORY DOCTOR | HELP | MALLOC-STATS | PURGE | STATS | USAGE`

use crate::commands::prelude::*;
use crate::commands::subcommand::{self, KEY};

/// What keys and values occupy. The figures are those of the state, alike on every replica.
pub struct Memory<'a> {
    question: Question<'a>,
}

enum Question<'a> {
    Usage(KeyRef<'a>),
    Stats,
    Purge,
    AllocatorStats,
    Doctor,
    Help,
}

const HELP: &[&str] = &[
    "MEMORY <subcommand> [<argument> ...]. Subcommands are:",
    "DOCTOR",
    "    Says whether anything about the memory looks wrong.",
    "MALLOC-STATS",
    "    Figures of the allocator, of which there are none.",
    "PURGE",
    "    Returns memory to the system. Nothing is ever left to return.",
    "STATS",
    "    What keys and values occupy in all.",
    "USAGE <key> [SAMPLES <count>]",
    "    What a key and its value occupy, in bytes. The count is not needed: the figure is exact.",
    "HELP",
    "    This text.",
];

const SUBCOMMANDS: &[Spec] = &[
    subcommand("memory|doctor", 2, Keys::None, "", "Says whether anything about the memory looks wrong."),
    subcommand("memory|help", 2, Keys::None, "", "Describes the subcommands."),
    subcommand("memory|malloc-stats", 2, Keys::None, "", "Answers figures of the allocator."),
    subcommand("memory|purge", 2, Keys::None, "", "Returns memory to the system."),
    subcommand("memory|stats", 2, Keys::None, "", "Answers what keys and values occupy in all."),
    subcommand("memory|usage", -3, KEY, "key [SAMPLES count]", "Answers what a key and its value occupy, in bytes."),
];

const fn subcommand(
    name: &'static str,
    arity: i32,
    keys: Keys,
    arguments: &'static str,
    summary: &'static str,
) -> Spec {
    subcommand::spec(Group::Server, name, arity, keys, arguments, summary)
}

impl<'a> ReadCommand<'a> for Memory<'a> {
    const SPEC: Spec = Spec {
        name: "memory",
        arity: -2,
        flags: Flags::READONLY.and(Flags::NO_TOUCH),
        keys: KEY,
        group: Group::Server,
        since: "4.0.0",
        complexity: "O(1)",
        summary: "Tells what keys and values occupy.",
        arguments: "DOCTOR | HELP | MALLOC-STATS | PURGE | STATS | USAGE key [SAMPLES count]",
        example: "MEMORY USAGE greeting",
        subcommands: SUBCOMMANDS,
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let spec = subcommand::find(&Self::SPEC, args)?;
        let question = match spec.name {
            "memory|usage" => {
                for index in (3..args.len()).step_by(2) {
                    if !args.is(index, "SAMPLES") || index + 1 == args.len() || args.integer(index + 1)? < 0 {
                        return Err(Failure::Syntax);
                    }
                }
                Question::Usage(args.key(2)?)
            }
            "memory|stats" => Question::Stats,
            "memory|purge" => Question::Purge,
            "memory|malloc-stats" => Question::AllocatorStats,
            "memory|doctor" => Question::Doctor,
            _ => Question::Help,
        };
        Ok(Memory { question })
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        Ok(match self.question {
            Question::Usage(key) => match view.get(key) {
                Some(record) => Reply::Integer(record.bytes(&Blob::new(key.key)) as i64),
                None => Reply::Nil,
            },
            Question::Stats => {
                let (keys, bytes) = (view.tree().len(), view.tree().bytes());
                Reply::Map(vec![
                    (Reply::bulk("keys.count"), Reply::Integer(keys as i64)),
                    (Reply::bulk("keys.bytes-per-key"), Reply::Integer((bytes / keys.max(1)) as i64)),
                    (Reply::bulk("dataset.bytes"), Reply::Integer(bytes as i64)),
                ])
            }
            Question::Purge => Reply::Ok,
            Question::AllocatorStats => Reply::bulk("Stats not supported for the current allocator"),
            Question::Doctor => Reply::bulk("Nothing about the memory of keys and values looks wrong."),
            Question::Help => Reply::Array(HELP.iter().map(|line| Reply::Simple(line)).collect()),
        })
    }
}
