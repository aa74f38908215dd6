//! `XDEL key id [id ...]`

use super::ids;
use crate::commands::prelude::*;
use crate::value::StreamId;

/// Removes entries by their identifiers.
pub struct XDel<'a> {
    key: KeyRef<'a>,
    ids: Vec<StreamId>,
}

impl<'a> WriteCommand<'a> for XDel<'a> {
    const SPEC: Spec = Spec {
        name: "xdel",
        arity: -3,
        flags: Flags::WRITE.and(Flags::OFTEN_NOTHING).and(Flags::FAST).and(Flags::BOUNDED),
        keys: Keys::ONE,
        group: Group::Stream,
        since: "5.0.0",
        complexity: "O(1) for each entry",
        summary: "Removes entries of a stream and returns how many there were.",
        arguments: "key id [id ...]",
        example: "XDEL readings 1700000000000-0",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(XDel { key: args.key(1)?, ids: ids::ids_from(args, 2)? })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        if tx.stream(self.key)?.is_none() {
            return Ok(Reply::Integer(0));
        }
        tx.edit_stream(self.key, |stream| Ok(Reply::count(self.ids.iter().filter(|id| stream.remove(**id)).count())))
    }
}
