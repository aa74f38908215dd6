//! `XTRIM key <MAXLEN | MINID> [= | ~] threshold [LIMIT count]`

use super::trimming::{Options, Trimming};
use crate::commands::prelude::*;

/// Removes the oldest entries of a stream.
pub struct XTrim<'a> {
    key: KeyRef<'a>,
    trimming: Option<Trimming>,
}

impl<'a> WriteCommand<'a> for XTrim<'a> {
    const SPEC: Spec = Spec {
        name: "xtrim",
        arity: -4,
        flags: Flags::WRITE,
        keys: Keys::ONE,
        group: Group::Stream,
        since: "5.0.0",
        complexity: "O(N) where N is the number of entries that go, or that stay if those are fewer",
        summary: "Removes the oldest entries of a stream and returns how many.",
        arguments: "key <MAXLEN | MINID> [= | ~] threshold [LIMIT count]",
        example: "XTRIM readings MAXLEN 1000",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let (options, _) = Options::parse(args, 2, false)?;
        Ok(XTrim { key: args.key(1)?, trimming: options.trimming })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        if tx.stream(self.key)?.is_none() {
            return Ok(Reply::Integer(0));
        }
        tx.edit_stream(self.key, |stream| {
            let gone = self.trimming.map_or(0, |trimming| trimming.apply(stream));
            Ok(Reply::Integer(gone as i64))
        })
    }
}
