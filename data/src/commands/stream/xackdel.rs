//! `XACKDEL key group [KEEPREF | DELREF | ACKED] IDS numids id [id ...]`

use super::references::{NEEDED, NOTHING, REMOVED, Removal, Wanted};
use crate::commands::prelude::*;

/// Says that entries are dealt with, and removes them with regard to all groups.
pub struct XAckDel<'a> {
    key: KeyRef<'a>,
    group: &'a [u8],
    wanted: Wanted,
}

impl<'a> WriteCommand<'a> for XAckDel<'a> {
    const SPEC: Spec = Spec {
        name: "xackdel",
        arity: -6,
        flags: Flags::WRITE.and(Flags::OFTEN_NOTHING).and(Flags::FAST),
        keys: Keys::ONE,
        group: Group::Stream,
        since: "8.2.0",
        complexity: "O(1) for each entry; with DELREF and ACKED, for each entry and each group",
        summary: "Says that a consumer group has dealt with entries and removes these, and tells of each what became of it.",
        arguments: "key group [KEEPREF | DELREF | ACKED] IDS numids id [id ...]",
        example: "XACKDEL readings printers ACKED IDS 1 1700000000000-0",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(XAckDel { key: args.key(1)?, group: args.get(2)?, wanted: Wanted::parse(args, 3)? })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let Some(stream) = tx.stream(self.key)? else { return Ok(self.wanted.nothing()) };
        let collections = &tx.tree().collections;
        let Some(group) = collections.group(&stream, self.group) else { return Ok(self.wanted.nothing()) };
        // Nothing is written if nothing was pending; what is not pending in this group is not removed either.
        if !self.wanted.ids.iter().any(|id| collections.pending(&group, *id).is_some()) {
            return Ok(self.wanted.nothing());
        }
        tx.edit_stream(self.key, |stream| {
            let ids = &self.wanted.ids;
            let acknowledged: Option<Vec<bool>> =
                stream.edit_group(self.group, |group| ids.iter().map(|id| group.forget(*id)).collect());
            let acknowledged = acknowledged.unwrap_or_default();
            let is_acknowledged = |at: usize| acknowledged.get(at).copied().unwrap_or_default();
            let removals = self.wanted.remove(stream, is_acknowledged).into_iter().enumerate();
            let replies = removals.map(|(at, removal)| match removal {
                _ if !is_acknowledged(at) => NOTHING,
                Removal::Needed => NEEDED,
                // That of an entry which was removed before has been acknowledged all the same.
                Removal::Removed | Removal::Absent => REMOVED,
            });
            Ok(Reply::Array(replies.map(Reply::Integer).collect()))
        })
    }
}
