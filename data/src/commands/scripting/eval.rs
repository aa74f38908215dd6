//! `EVAL` and `EVALSHA`, and those that only read: `script | sha1 numkeys [key …] [arg …]`

use super::{FLAGS, KEYS, READ_FLAGS, Words, run_in, run_on};
use crate::commands::prelude::*;
use crate::script::{Code, Rules, check, sha1};

/// No script has this name.
const UNKNOWN: Failure = Failure::Text("NOSCRIPT No matching script. Please use EVAL.");

const EVAL: Spec = Spec {
    name: "eval",
    arity: -3,
    flags: FLAGS,
    keys: KEYS,
    group: Group::Scripting,
    since: "2.6.0",
    complexity: "Depends on the script that is executed.",
    summary: "Runs a script.",
    arguments: "script numkeys [key [key ...]] [arg [arg ...]]",
    example: "EVAL \"return {KEYS[1], ARGV[1]}\" 1 key argument",
    subcommands: &[],
};

/// Runs a script, and keeps it for EVALSHA.
pub struct Eval<'a> {
    body: &'a [u8],
    words: Words<'a>,
}

/// Refuses a script that is too long.
fn body(args: Args<'_>) -> Result<&[u8], Failure> {
    let body = args.get(1)?;
    super::script::check_length(body)?;
    Ok(body)
}

impl<'a> WriteCommand<'a> for Eval<'a> {
    const SPEC: Spec = EVAL;

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let words = Words::parse(args)?;
        Ok(Eval { body: body(args)?, words })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let sha = sha1(self.body);
        let collections = &tx.tree().collections;
        if collections.script(&sha).is_none() {
            check(self.body, Rules::of(tx.version()), tx.meter())?;
            if tx.tree().collections.has_room_for(self.body, false) {
                tx.tree_mut().collections.keep_script(&sha, self.body);
            }
        }
        Ok(run_in(tx, Code::Script { body: self.body, sha: &sha }, &self.words, false))
    }
}

/// Runs a script that is kept.
pub struct EvalSha<'a> {
    sha: String,
    words: Words<'a>,
}

fn sha_of(args: Args<'_>) -> Result<String, Failure> {
    Ok(String::from_utf8_lossy(args.get(1)?).to_ascii_lowercase())
}

impl<'a> WriteCommand<'a> for EvalSha<'a> {
    const SPEC: Spec = Spec {
        name: "evalsha",
        summary: "Runs a script that is kept, by its SHA1.",
        arguments: "sha1 numkeys [key [key ...]] [arg [arg ...]]",
        example: "EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 1 key",
        ..EVAL
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(EvalSha { words: Words::parse(args)?, sha: sha_of(args)? })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let body = tx.tree().collections.script(&self.sha).ok_or(UNKNOWN)?;
        Ok(run_in(tx, Code::Script { body: &body, sha: &self.sha }, &self.words, false))
    }
}

/// Runs a script that only reads.
pub struct EvalReadOnly<'a> {
    body: &'a [u8],
    words: Words<'a>,
}

impl<'a> ReadCommand<'a> for EvalReadOnly<'a> {
    const SPEC: Spec = Spec {
        name: "eval_ro",
        flags: READ_FLAGS,
        since: "7.0.0",
        summary: "Runs a script that only reads.",
        example: "EVAL_RO \"return redis.call('GET', KEYS[1])\" 1 key",
        ..EVAL
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let words = Words::parse(args)?;
        Ok(EvalReadOnly { body: body(args)?, words })
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        let sha = sha1(self.body);
        Ok(run_on(view, Code::Script { body: self.body, sha: &sha }, &self.words))
    }
}

/// Runs a script that is kept and only reads.
pub struct EvalShaReadOnly<'a> {
    sha: String,
    words: Words<'a>,
}

impl<'a> ReadCommand<'a> for EvalShaReadOnly<'a> {
    const SPEC: Spec = Spec {
        name: "evalsha_ro",
        flags: READ_FLAGS,
        since: "7.0.0",
        summary: "Runs a script that is kept and only reads, by its SHA1.",
        arguments: "sha1 numkeys [key [key ...]] [arg [arg ...]]",
        example: "EVALSHA_RO e0e1f9fabfc9d4800c877a703b823ac0578ff8db 1 key",
        ..EVAL
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(EvalShaReadOnly { words: Words::parse(args)?, sha: sha_of(args)? })
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        let body = view.collections().script(&self.sha).ok_or(UNKNOWN)?;
        Ok(run_on(view, Code::Script { body: &body, sha: &self.sha }, &self.words))
    }
}
