//! `XACK key group id [id ...]`

use super::ids;
use crate::commands::prelude::*;
use crate::value::StreamId;

/// Says that entries are dealt with.
pub struct XAck<'a> {
    key: KeyRef<'a>,
    group: &'a [u8],
    ids: Vec<StreamId>,
}

impl<'a> WriteCommand<'a> for XAck<'a> {
    const SPEC: Spec = Spec {
        name: "xack",
        arity: -4,
        flags: Flags::WRITE.and(Flags::OFTEN_NOTHING).and(Flags::FAST).and(Flags::BOUNDED),
        keys: Keys::ONE,
        group: Group::Stream,
        since: "5.0.0",
        complexity: "O(1) for each entry",
        summary: "Says that a consumer group has dealt with entries, and returns how many of them were pending.",
        arguments: "key group id [id ...]",
        example: "XACK readings printers 1700000000000-0",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(XAck { key: args.key(1)?, group: args.get(2)?, ids: ids::ids_from(args, 3)? })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let Some(stream) = tx.stream(self.key)? else { return Ok(Reply::Integer(0)) };
        let collections = &tx.tree().collections;
        let Some(group) = collections.group(&stream, self.group) else { return Ok(Reply::Integer(0)) };
        // Nothing is written if nothing was pending.
        if !self.ids.iter().any(|id| collections.pending(&group, *id).is_some()) {
            return Ok(Reply::Integer(0));
        }
        tx.edit_stream(self.key, |stream| {
            let acknowledged =
                stream.edit_group(self.group, |group| self.ids.iter().filter(|id| group.forget(**id)).count());
            Ok(Reply::count(acknowledged.unwrap_or(0)))
        })
    }
}
