//! `XREADGROUP GROUP group consumer [COUNT count] [BLOCK milliseconds] [NOACK] STREAMS key [key ...] id [id ...]`

use super::ids;
use super::xread::{Place, Reading, Room};
use crate::collections::streams::{Consumer, Group as Members, Pending};
use crate::commands::prelude::*;
use crate::transaction::StreamEdit;
use crate::value::StreamId;

/// Entries that no consumer of a group has got yet, or those that this one has.
pub struct XReadGroup<'a>(Reading<'a>);

impl<'a> WriteCommand<'a> for XReadGroup<'a> {
    const SPEC: Spec = Spec {
        name: "xreadgroup",
        arity: -7,
        flags: Flags::WRITE.and(Flags::BLOCKING).and(Flags::MOVABLE_KEYS),
        keys: Keys::Streams,
        group: Group::Stream,
        since: "5.0.0",
        complexity: "O(N) where N is the number of entries returned",
        summary: "Gives a consumer of a group entries that none of it has got yet, or returns what is pending with it.",
        arguments: "GROUP group consumer [COUNT count] [BLOCK milliseconds] [NOACK] STREAMS key [key ...] id [id ...]",
        example: "XREADGROUP GROUP printers anna COUNT 10 STREAMS readings >",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let reading = Reading::parse(args, true)?;
        super::xgroup::check_names(reading.group.iter().flat_map(|(group, consumer)| [*group, *consumer]))?;
        Ok(XReadGroup(reading))
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let reading = self.0;
        let (group, consumer) = reading.group.unwrap_or_default();
        for key in reading.keys.iter().map(|key| KeyRef::new(key)) {
            let stream = tx.stream(key)?;
            if stream.is_none_or(|stream| tx.tree().collections.group(&stream, group).is_none()) {
                return Err(ids::no_group(key, group, " in XREADGROUP with GROUP option"));
            }
        }
        let now = tx.time().0;
        let mut room = Room::default();
        let mut found = Vec::new();
        for (key, place) in reading.keys.iter().zip(&reading.places) {
            let entries = tx.edit_stream(KeyRef::new(key), |stream| {
                let new = match place {
                    Place::After(_) => None,
                    _ => Some(unread(stream, group, reading.count, &mut room)),
                };
                let stream_now = *stream.stream();
                let entries = stream.edit_group(group, |editing| {
                    let (number, _) = editing.consumer(consumer, now);
                    editing.saw(number, now);
                    let Some(new) = new else {
                        let (consumer, start) =
                            (editing.collections().consumer(&editing.group, consumer)?, place.start());
                        return Some(history(editing, (&stream_now, consumer, start), (reading.count, now), &mut room));
                    };
                    let mut entries = Vec::new();
                    for (id, value) in new {
                        if !reading.no_ack && !editing.has_room() {
                            break;
                        }
                        let Members { last, read, .. } = editing.group;
                        editing.group.read = stream_now.read_with((last, read), id);
                        editing.group.last = id;
                        if !reading.no_ack {
                            editing.set_pending(id, Pending { consumer: number, at: now, times: 1 });
                            editing.was_active(number, now);
                        }
                        entries.push(ids::entry_reply(id, &value));
                    }
                    (!entries.is_empty()).then_some(entries)
                });
                Ok(entries.flatten())
            })?;
            found.extend(entries.map(|entries| (Reply::bulk(*key), Reply::Array(entries))));
        }
        Ok(if found.is_empty() { Reply::NilArray } else { Reply::Named(found) })
    }
}

impl Place {
    /// Behind which entry is read.
    fn start(self) -> Option<StreamId> {
        match self {
            Place::After(id) => id.next(),
            Place::End | Place::Last | Place::New => None,
        }
    }
}

/// What a group has not been given yet.
fn unread(stream: &StreamEdit<'_, '_>, group: &[u8], count: usize, room: &mut Room) -> Vec<(StreamId, Blob)> {
    let head = *stream.stream();
    let Some(group) = stream.collections().group(&head, group) else { return Vec::new() };
    // Whoever has all of it asks often: no walk then.
    let Some(start) = group.last.next().filter(|start| *start <= head.last) else { return Vec::new() };
    let entries = stream.collections().entries(&head, start).take(count);
    entries.take_while(|(_, value)| room.takes(value.len())).collect()
}

/// What a consumer has, from an identifier on; of what is gone from the stream only the identifier.
fn history(
    editing: &mut crate::transaction::GroupEdit<'_>,
    (stream, consumer, start): (&crate::value::Stream, Consumer, Option<StreamId>),
    (count, now): (usize, u64),
    room: &mut Room,
) -> Vec<Reply> {
    let Some(start) = start else { return Vec::new() };
    let ids: Vec<StreamId> = editing.collections().pending_of(&editing.group, consumer, start).take(count).collect();
    let mut entries = Vec::new();
    for id in ids {
        let value = editing.collections().entry(stream, id);
        if !room.takes(value.as_ref().map_or(0, |value| value.len())) {
            break;
        }
        let Some(value) = value else {
            entries.push(Reply::Array(vec![ids::reply(id), Reply::NilArray]));
            continue;
        };
        if let Some(pending) = editing.collections().pending(&editing.group, id) {
            editing.set_pending(id, Pending { at: now, times: pending.times.saturating_add(1), ..pending });
        }
        entries.push(ids::entry_reply(id, &value));
    }
    entries
}
