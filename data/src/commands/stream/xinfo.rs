//! `XINFO CONSUMERS | GROUPS | HELP | STREAM`

use super::ids;
use super::xpending::PENDING_BYTES;
use crate::collections::streams::{Consumer, Group as Members};
use crate::commands::prelude::*;
use crate::commands::subcommand::{self, KEY};
use crate::value::{Stream, StreamId};

/// What a stream says of itself.
pub struct XInfo<'a> {
    question: Question<'a>,
}

enum Question<'a> {
    Consumers(KeyRef<'a>, &'a [u8]),
    Groups(KeyRef<'a>),
    Stream(KeyRef<'a>),
    /// With entries, groups, consumers and what is pending: so many of each.
    Full(KeyRef<'a>, usize),
    Help,
}

const COUNT_DEFAULT: usize = 10;

const HELP: &[&str] = &[
    "XINFO <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CONSUMERS <key> <groupname>",
    "    The consumers of a group.",
    "GROUPS <key>",
    "    The consumer groups of a stream.",
    "STREAM <key> [FULL [COUNT <count>]]",
    "    The stream, or all of it with its entries and groups.",
    "HELP",
    "    This text.",
];

const SUBCOMMANDS: &[Spec] = &[
    subcommand("xinfo|consumers", 4, KEY, "key group", "Describes the consumers of a group."),
    subcommand("xinfo|groups", 3, KEY, "key", "Describes the consumer groups of a stream."),
    subcommand("xinfo|help", 2, Keys::None, "", "Describes the subcommands."),
    subcommand("xinfo|stream", -3, KEY, "key [FULL [COUNT count]]", "Describes a stream."),
];

const fn subcommand(
    name: &'static str,
    arity: i32,
    keys: Keys,
    arguments: &'static str,
    summary: &'static str,
) -> Spec {
    Spec { since: "5.0.0", ..subcommand::spec(Group::Stream, name, arity, keys, arguments, summary) }
}

impl<'a> ReadCommand<'a> for XInfo<'a> {
    const SPEC: Spec = Spec {
        name: "xinfo",
        arity: -2,
        flags: Flags::READONLY,
        keys: KEY,
        group: Group::Stream,
        since: "5.0.0",
        complexity: "O(N) where N is the number of groups, consumers or entries described",
        summary: "Describes a stream, its consumer groups or the consumers of one.",
        arguments: "CONSUMERS key group | GROUPS key | HELP | STREAM key [FULL [COUNT count]]",
        example: "XINFO STREAM readings",
        subcommands: SUBCOMMANDS,
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let spec = subcommand::find(&Self::SPEC, args)?;
        let question = match spec.name {
            "xinfo|consumers" => Question::Consumers(args.key(2)?, args.get(3)?),
            "xinfo|groups" => Question::Groups(args.key(2)?),
            "xinfo|stream" => match args.from(3) {
                [] => Question::Stream(args.key(2)?),
                [_] if args.is(3, "FULL") => Question::Full(args.key(2)?, COUNT_DEFAULT),
                [_, _, _] if args.is(3, "FULL") && args.is(4, "COUNT") => {
                    let count = match args.integer(5)? {
                        0 => usize::MAX,
                        count => usize::try_from(count).unwrap_or(COUNT_DEFAULT),
                    };
                    Question::Full(args.key(2)?, count)
                }
                _ => {
                    let shown = &args.get(1)?[..args.get(1)?.len().min(128)];
                    let text =
                        [b"ERR unknown subcommand or wrong number of arguments for '", shown, b"'. Try XINFO HELP."];
                    return Err(Failure::built(&text.concat()));
                }
            },
            _ => Question::Help,
        };
        Ok(XInfo { question })
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        let stream_of = |key| view.stream(key)?.ok_or(Failure::NoSuchKey);
        let collections = view.collections();
        Ok(match self.question {
            Question::Help => Reply::Array(HELP.iter().map(|line| Reply::Simple(line)).collect()),
            Question::Stream(key) => described(view, &stream_of(key)?, None)?,
            Question::Full(key, count) => described(view, &stream_of(key)?, Some(count))?,
            Question::Groups(key) => {
                let stream = stream_of(key)?;
                let groups = collections.groups(stream.number());
                let groups = groups.take_while(|(name, _)| view.meter().put(name.len() as u64 + MAP_BYTES));
                let groups = groups.map(|(name, group)| {
                    let mut fields = vec![("name", Reply::Bulk(name))];
                    fields.push(("consumers", Reply::Integer(group.consumers as i64)));
                    fields.push(("pending", Reply::Integer(group.pending as i64)));
                    fields.extend(how_far(&stream, &group));
                    map(fields)
                });
                Reply::Array(groups.collect())
            }
            Question::Consumers(key, name) => {
                let group = collections.group(&stream_of(key)?, name);
                let group = group.ok_or_else(|| ids::no_group_of_key(key, name))?;
                let now = view.time().0;
                let since = |at: u64| Reply::Integer(now.saturating_sub(at) as i64);
                let consumers = collections.consumers(&group);
                let consumers = consumers.take_while(|(name, _)| view.meter().put(name.len() as u64 + MAP_BYTES));
                let consumers = consumers.map(|(name, consumer)| {
                    map(vec![
                        ("name", Reply::Bulk(name)),
                        ("pending", Reply::Integer(consumer.pending as i64)),
                        ("idle", since(consumer.seen)),
                        ("inactive", consumer.active.map_or(Reply::Integer(-1), since)),
                    ])
                });
                Reply::Array(consumers.collect())
            }
        })
    }
}

/// What the names and numbers of a group or a consumer take, about.
const MAP_BYTES: u64 = 512;

fn map(fields: Vec<(&str, Reply)>) -> Reply {
    Reply::Map(fields.into_iter().map(|(name, value)| (Reply::bulk(name), value)).collect())
}

/// What a group was given, and what it still has to be.
fn how_far(stream: &Stream, group: &Members) -> [(&'static str, Reply); 3] {
    let count = |count: Option<i64>| count.map_or(Reply::Nil, Reply::Integer);
    [
        ("last-delivered-id", ids::reply(group.last)),
        ("entries-read", count(group.read.map(|read| read as i64))),
        ("lag", count(stream.lag(group.last, group.read))),
    ]
}

/// A stream; with so many of its entries and of what is pending in each group.
fn described(view: &View<'_>, stream: &Stream, count: Option<usize>) -> Result<Reply, Failure> {
    let collections = view.collections();
    let mut fields = vec![
        ("length", Reply::Integer(stream.len() as i64)),
        ("radix-tree-keys", Reply::Integer(i64::from(stream.blocks))),
        ("radix-tree-nodes", Reply::Integer(i64::from(stream.blocks) + 1)),
        ("last-generated-id", ids::reply(stream.last)),
        ("max-deleted-entry-id", ids::reply(stream.deleted)),
        ("entries-added", Reply::Integer(stream.added as i64)),
        ("recorded-first-entry-id", ids::reply(stream.first)),
    ];
    let Some(count) = count else {
        let shown =
            |entry: Option<(StreamId, Blob)>| entry.map_or(Reply::Nil, |(id, value)| ids::entry_reply(id, &value));
        fields.push(("groups", Reply::Integer(i64::from(stream.groups))));
        fields.push(("first-entry", shown(collections.entries(stream, StreamId::MIN).next())));
        fields.push(("last-entry", shown(collections.entries_backwards(stream, StreamId::MAX).next())));
        return Ok(map(fields));
    };
    if stream.bytes() > view.meter().answer_max() && count > COUNT_DEFAULT {
        return Err(Kind::Stream.is_too_large());
    }
    let entries =
        collections.entries(stream, StreamId::MIN).take(count).map(|(id, value)| ids::entry_reply(id, &value));
    let entries = entries.take_while(|entry| view.meter().put(entry.bytes()));
    fields.push(("entries", Reply::Array(entries.collect())));
    let groups = collections.groups(stream.number());
    let groups = groups
        .take_while(|(name, _)| view.meter().put(name.len() as u64 + MAP_BYTES))
        .map(|(name, group)| group_in_full(view, stream, (name, &group), count));
    fields.push(("groups", Reply::Array(groups.collect())));
    Ok(map(fields))
}

fn group_in_full(view: &View<'_>, stream: &Stream, (name, group): (Blob, &Members), count: usize) -> Reply {
    let collections = view.collections();
    let pending = collections.all_pending(group, StreamId::MIN).take(count).map_while(|(id, pending)| {
        let name = collections.consumer_name(group, pending.consumer).unwrap_or_default();
        if !view.meter().put(name.len() as u64 + PENDING_BYTES) {
            return None;
        }
        let numbers = [pending.at, pending.times].map(|number| Reply::Integer(number as i64));
        Some(Reply::Array([vec![ids::reply(id), Reply::Bulk(name)], numbers.to_vec()].concat()))
    });
    let pending = pending.collect();
    let consumers = collections.consumers(group);
    let consumers = consumers
        .take_while(|(name, _)| view.meter().put(name.len() as u64 + MAP_BYTES))
        .map(|(name, consumer)| consumer_in_full(view, group, (name, consumer), count));
    let mut fields = vec![("name", Reply::Bulk(name))];
    fields.extend(how_far(stream, group));
    fields.push(("pel-count", Reply::Integer(group.pending as i64)));
    fields.push(("pending", Reply::Array(pending)));
    fields.push(("consumers", Reply::Array(consumers.collect())));
    map(fields)
}

fn consumer_in_full(view: &View<'_>, group: &Members, (name, consumer): (Blob, Consumer), count: usize) -> Reply {
    let collections = view.collections();
    let pending = collections.pending_of(group, consumer, StreamId::MIN).take(count);
    let pending = pending.take_while(|_| view.meter().put(PENDING_BYTES)).map(|id| {
        let pending = collections.pending(group, id);
        let numbers = pending.map_or([0, 0], |pending| [pending.at, pending.times]);
        Reply::Array([vec![ids::reply(id)], numbers.map(|number| Reply::Integer(number as i64)).to_vec()].concat())
    });
    let active = consumer.active.map_or(-1, |active| active as i64);
    map(vec![
        ("name", Reply::Bulk(name)),
        ("seen-time", Reply::Integer(consumer.seen as i64)),
        ("active-time", Reply::Integer(active)),
        ("pel-count", Reply::Integer(consumer.pending as i64)),
        ("pending", Reply::Array(pending.collect())),
    ])
}
