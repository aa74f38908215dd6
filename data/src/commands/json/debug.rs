//! `JSON.DEBUG MEMORY key [path]`, `JSON.DEBUG HELP`

use super::{Json, path_or_root, read};
use crate::commands::prelude::*;
use crate::commands::subcommand::{self, KEY};
use crate::json::layout::compact_bytes;
use crate::json::path::Path;

/// What a document occupies.
pub struct JsonDebug<'a> {
    /// `None` for HELP.
    memory: Option<(KeyRef<'a>, Path<'a>)>,
}

const HELP: &[&str] = &[
    "JSON.DEBUG <subcommand> [<argument>]. Subcommands are:",
    "MEMORY <key> [path]",
    "    How many bytes the text of what the path finds has.",
    "HELP",
    "    This text.",
];

const SUBCOMMANDS: &[Spec] = &[
    subcommand::spec(
        Group::Json,
        "json.debug|memory",
        -3,
        KEY,
        "key [path]",
        "Answers how many bytes the text of what a path finds has.",
    ),
    subcommand::spec(Group::Json, "json.debug|help", 2, Keys::None, "", "Describes the subcommands."),
];

impl<'a> ReadCommand<'a> for JsonDebug<'a> {
    const SPEC: Spec = Spec {
        name: "json.debug",
        arity: -2,
        flags: Flags::READONLY,
        keys: KEY,
        group: Group::Json,
        since: "1.0.0",
        complexity: "O(N), where N is the size of the document",
        summary: "Tells what a document occupies.",
        arguments: "MEMORY key [path] | HELP",
        example: "JSON.DEBUG MEMORY user:7",
        subcommands: SUBCOMMANDS,
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let spec = subcommand::find(&Self::SPEC, args)?;
        let is_memory = spec.name == "json.debug|memory";
        let memory = is_memory.then(|| Ok::<_, Failure>((args.key(2)?, path_or_root(args, 3)?))).transpose()?;
        Ok(JsonDebug { memory })
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        let Some((key, path)) = self.memory else {
            return Ok(Reply::Array(HELP.iter().map(|line| Reply::Simple(line)).collect()));
        };
        let meter = view.meter();
        let bytes = |value: &Json| {
            meter.put(0);
            compact_bytes(value, meter).map(Reply::count)
        };
        match (read(view, key)?, path.is_legacy()) {
            (None, true) => Ok(Reply::Integer(0)),
            (None, false) => Ok(Reply::Array(Vec::new())),
            (Some(document), true) => path.first(&document, meter).and_then(bytes),
            (Some(document), false) => {
                let all = path.values(&document, meter)?.into_iter().map(bytes);
                all.collect::<Result<_, Failure>>().map(Reply::Array)
            }
        }
    }
}
