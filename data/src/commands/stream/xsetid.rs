//! `XSETID key last-id [ENTRIESADDED entries-added] [MAXDELETEDID max-deleted-id]`

use super::ids;
use crate::commands::prelude::*;
use crate::value::StreamId;

/// Sets what a stream says was given and removed.
pub struct XSetId<'a> {
    key: KeyRef<'a>,
    last: StreamId,
    added: Option<u64>,
    deleted: StreamId,
}

impl<'a> WriteCommand<'a> for XSetId<'a> {
    const SPEC: Spec = Spec {
        name: "xsetid",
        arity: -3,
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST),
        keys: Keys::ONE,
        group: Group::Stream,
        since: "5.0.0",
        complexity: "O(1)",
        summary: "Sets the last identifier of a stream, and what it counts.",
        arguments: "key last-id [ENTRIESADDED entries-added] [MAXDELETEDID max-deleted-id]",
        example: "XSETID readings 1700000000000-0",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let mut set =
            XSetId { key: args.key(1)?, last: ids::parse(args.get(2)?, 0)?, added: None, deleted: StreamId::MIN };
        for index in (3..args.len()).step_by(2) {
            let has_value = index + 1 < args.len();
            if args.is(index, "ENTRIESADDED") && has_value {
                let added = u64::try_from(args.integer(index + 1)?);
                set.added = Some(added.map_err(|_| Failure::Text("ERR entries_added must be positive"))?);
            } else if args.is(index, "MAXDELETEDID") && has_value {
                set.deleted = ids::parse(args.get(index + 1)?, 0)?;
                if set.last < set.deleted {
                    return Err(Failure::Text(
                        "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id",
                    ));
                }
            } else {
                return Err(Failure::Syntax);
            }
        }
        Ok(set)
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        if tx.stream(self.key)?.is_none() {
            return Err(Failure::NoSuchKey);
        }
        tx.edit_stream(self.key, |editing| {
            let stream = *editing.stream();
            if self.last < stream.deleted {
                return Err(Failure::Text(
                    "ERR The ID specified in XSETID is smaller than current max_deleted_entry_id",
                ));
            }
            let top = editing.collections().entries_backwards(&stream, StreamId::MAX).next();
            if top.is_some_and(|(top, _)| self.last < top) {
                return Err(Failure::Text("ERR The ID specified in XSETID is smaller than the target stream top item"));
            }
            if self.added.is_some_and(|added| added < stream.len()) {
                return Err(Failure::Text(
                    "ERR The entries_added specified in XSETID is smaller than the target stream length",
                ));
            }
            editing.set_ids(self.last, self.added, Some(self.deleted).filter(|id| *id != StreamId::MIN));
            Ok(Reply::Ok)
        })
    }
}
