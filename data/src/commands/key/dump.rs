//! `DUMP key`

use crate::algorithms::dump::{
    dump_fading_hash, dump_hash, dump_json, dump_list, dump_set, dump_sorted, dump_stream, dump_string,
};
use crate::collections::ranked::Standing;
use crate::commands::elements::whole;
use crate::commands::prelude::*;

/// A value as bytes that `RESTORE` takes, here or in a Redis.
pub struct Dump<'a> {
    key: KeyRef<'a>,
}

impl<'a> ReadCommand<'a> for Dump<'a> {
    const SPEC: Spec = Spec {
        name: "dump",
        arity: 2,
        flags: Flags::READONLY,
        keys: Keys::ONE,
        group: Group::Generic,
        since: "2.6.0",
        complexity: "O(N) where N is the size of the value",
        summary: "Answers the value of a key in the format of Redis's files, without its expiry.",
        arguments: "key",
        example: "DUMP greeting",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(Dump { key: args.key(1)? })
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        let Some(Record { value, .. }) = view.get(self.key) else { return Ok(Reply::Nil) };
        // Long words are compressed.
        view.meter().parse(usize::try_from(value.bytes()).unwrap_or(usize::MAX));
        view.meter().check()?;
        Ok(Reply::bulk(match value {
            Value::String(bytes) => dump_string(&bytes),
            Value::List(list) => {
                if list.collection.bytes() > view.meter().answer_max() {
                    return Err(Kind::List.is_too_large());
                }
                dump_list(list.len(), view.list_between(*list, 0, list.len()))
            }
            Value::Stream(stream) if stream.bytes() > view.meter().answer_max() => {
                return Err(Kind::Stream.is_too_large());
            }
            Value::Stream(stream) => dump_stream(view.collections(), &stream),
            Value::Json(text) => dump_json(text.as_slice()),
            Value::Hash(hash) if hash.has_deadlines() => {
                let fields = whole(view, Kind::Hash, hash)?;
                let fields = fields.map(|(field, value)| {
                    let deadline = view.field_deadline(hash, &field);
                    (field, value, deadline)
                });
                let fields: Vec<_> = fields.collect();
                match fields.iter().filter_map(|(.., deadline)| *deadline).min() {
                    Some(soonest) => dump_fading_hash(soonest, &fields),
                    None if fields.is_empty() => return Ok(Reply::Nil),
                    None => {
                        let lasting = fields.into_iter().map(|(field, value, _)| (field, value));
                        let lasting: Vec<(Blob, Blob)> = lasting.collect();
                        dump_hash(lasting.len() as u64, lasting.into_iter())
                    }
                }
            }
            Value::Hash(hash) => dump_hash(hash.len(), whole(view, Kind::Hash, hash)?),
            Value::Set(set) => dump_set(set.len(), whole(view, Kind::Set, set)?.map(|(member, _)| member)),
            Value::SortedSet(set) => {
                let scored = |(member, value): (Blob, Blob)| {
                    (member, Standing::read(&value).map_or(0.0, |standing| standing.score))
                };
                dump_sorted(set.len(), whole(view, Kind::SortedSet, set)?.map(scored))
            }
        }))
    }
}
