//! `MSET key value [key value ...]` and `MSETNX key value [key value ...]`

use crate::commands::prelude::*;

/// Gives several keys string values at once.
pub struct MSet<'a> {
    pairs: &'a [&'a [u8]],
}

/// Gives several keys string values at once, unless one of them exists.
pub struct MSetNx<'a> {
    pairs: &'a [&'a [u8]],
}

/// Keys and values in turn; an odd number of them is too few or too many.
fn pairs<'a>(args: Args<'a>, command: &'static str) -> Result<&'a [&'a [u8]], Failure> {
    let pairs = args.from(1);
    if pairs.len().is_multiple_of(2) { Ok(pairs) } else { Err(Failure::WrongArity(command)) }
}

fn put_all(tx: &mut Transaction<'_>, pairs: &[&[u8]]) {
    for pair in pairs.chunks_exact(2) {
        tx.put_string(KeyRef::new(pair[0]), pair[1]);
    }
}

impl<'a> WriteCommand<'a> for MSet<'a> {
    const SPEC: Spec = Spec {
        name: "mset",
        arity: -3,
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::BOUNDED),
        keys: Keys::PAIRS,
        group: Group::String,
        since: "1.0.1",
        complexity: "O(N) where N is the number of keys.",
        summary: "Sets the string values of several keys, all at one moment.",
        arguments: "key value [key value ...]",
        example: "MSET a 1 b 2",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(MSet { pairs: pairs(args, "mset")? })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        put_all(tx, self.pairs);
        Ok(Reply::Ok)
    }
}

impl<'a> WriteCommand<'a> for MSetNx<'a> {
    const SPEC: Spec = Spec {
        name: "msetnx",
        arity: -3,
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::BOUNDED),
        keys: Keys::PAIRS,
        group: Group::String,
        since: "1.0.1",
        complexity: "O(N) where N is the number of keys.",
        summary: "Sets the string values of several keys only when none of them exists.",
        arguments: "key value [key value ...]",
        example: "MSETNX a 1 b 2",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(MSetNx { pairs: pairs(args, "msetnx")? })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let taken = self.pairs.chunks_exact(2).any(|pair| tx.exists(KeyRef::new(pair[0])));
        if !taken {
            put_all(tx, self.pairs);
        }
        Ok(Reply::one_if(!taken))
    }
}
