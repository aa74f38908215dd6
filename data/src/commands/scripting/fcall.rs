//! `FCALL` and `FCALL_RO`: `function numkeys [key …] [arg …]`

use super::{FLAGS, KEYS, READ_FLAGS, Words, run_in, run_on};
use crate::commands::prelude::*;
use crate::script::Code;

const UNKNOWN: Failure = Failure::Text("ERR Function not found");

const FCALL: Spec = Spec {
    name: "fcall",
    arity: -3,
    flags: FLAGS,
    keys: KEYS,
    group: Group::Scripting,
    since: "7.0.0",
    complexity: "Depends on the function that is executed.",
    summary: "Runs a function of a library.",
    arguments: "function numkeys [key [key ...]] [arg [arg ...]]",
    example: "FCALL echo 1 key argument",
    subcommands: &[],
};

/// What is called. That the count of keys is wrong is told only if the function is there.
struct Named<'a> {
    name: &'a [u8],
    words: Result<Words<'a>, Failure>,
}

impl<'a> Named<'a> {
    fn parse(args: Args<'a>) -> Result<Named<'a>, Failure> {
        let words = Words::parse(args).map_err(|failure| match failure {
            Failure::NotAnInteger => Failure::Text("ERR Bad number of keys provided"),
            other => other,
        });
        Ok(Named { name: args.get(1)?, words })
    }
}

/// Runs a function.
pub struct FCall<'a>(Named<'a>);

impl<'a> WriteCommand<'a> for FCall<'a> {
    const SPEC: Spec = FCALL;

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(FCall(Named::parse(args)?))
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let Named { name, words } = self.0;
        let collections = &tx.tree().collections;
        let found = collections.function_in_any_case(name, tx.version()).ok_or(UNKNOWN)?;
        let words = words?;
        let library = collections.library(&found.library).ok_or(UNKNOWN)?;
        let code = Code::Function { library: &library, sha: &found.sha, name: &found.function.name };
        Ok(run_in(tx, code, &words, found.function.no_writes()))
    }
}

/// Runs a function that only reads.
pub struct FCallReadOnly<'a>(Named<'a>);

impl<'a> ReadCommand<'a> for FCallReadOnly<'a> {
    const SPEC: Spec = Spec {
        name: "fcall_ro",
        flags: READ_FLAGS,
        summary: "Runs a function of a library that only reads.",
        example: "FCALL_RO echo 1 key argument",
        ..FCALL
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(FCallReadOnly(Named::parse(args)?))
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        let Named { name, words } = self.0;
        let found = view.collections().function_in_any_case(name, view.version()).ok_or(UNKNOWN)?;
        let words = words?;
        if !found.function.no_writes() {
            return Err(Failure::Text("ERR Can not execute a script with write flag using *_ro command."));
        }
        let library = view.collections().library(&found.library).ok_or(UNKNOWN)?;
        Ok(run_on(view, Code::Function { library: &library, sha: &found.sha, name: &found.function.name }, &words))
    }
}
