//! `XDELEX key [KEEPREF | DELREF | ACKED] IDS numids id [id ...]`

use super::references::{NEEDED, NOTHING, REMOVED, Removal, Wanted};
use crate::commands::prelude::*;

/// Removes entries by their identifiers, with regard to consumer groups.
pub struct XDelEx<'a> {
    key: KeyRef<'a>,
    wanted: Wanted,
}

impl<'a> WriteCommand<'a> for XDelEx<'a> {
    const SPEC: Spec = Spec {
        name: "xdelex",
        arity: -5,
        flags: Flags::WRITE.and(Flags::OFTEN_NOTHING).and(Flags::FAST),
        keys: Keys::ONE,
        group: Group::Stream,
        since: "8.2.0",
        complexity: "O(1) for each entry; with DELREF and ACKED, for each entry and each group",
        summary: "Removes entries of a stream, with regard to its consumer groups, and tells of each what became of it.",
        arguments: "key [KEEPREF | DELREF | ACKED] IDS numids id [id ...]",
        example: "XDELEX readings ACKED IDS 1 1700000000000-0",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(XDelEx { key: args.key(1)?, wanted: Wanted::parse(args, 2)? })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        if tx.stream(self.key)?.is_none() {
            return Ok(self.wanted.nothing());
        }
        tx.edit_stream(self.key, |stream| {
            let removals = self.wanted.remove(stream, |_| true).into_iter().map(|removal| match removal {
                Removal::Removed => REMOVED,
                Removal::Absent => NOTHING,
                Removal::Needed => NEEDED,
            });
            Ok(Reply::Array(removals.map(Reply::Integer).collect()))
        })
    }
}
