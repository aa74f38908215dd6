//! `XPENDING key group [[IDLE min-idle-time] start end count [consumer]]`

use super::ids;
use crate::commands::prelude::*;

/// What an answer takes for each consumer, and for each entry that is pending, beside the consumer's name: their parts and an identifier.
pub(super) const CONSUMER_BYTES: u64 = 64;
pub(super) const PENDING_BYTES: u64 = 112;
use crate::value::StreamId;
use std::collections::BTreeMap;

/// Most entries of one answer, whatever the count: the next page begins behind the last.
const COUNT_MAX: usize = 1024 * 1024;

/// What was delivered and not acknowledged.
pub struct XPending<'a> {
    key: KeyRef<'a>,
    group: &'a [u8],
    /// None: a summary.
    part: Option<Part<'a>>,
}

struct Part<'a> {
    idle_min: u64,
    start: StreamId,
    end: StreamId,
    count: usize,
    consumer: Option<&'a [u8]>,
}

impl<'a> ReadCommand<'a> for XPending<'a> {
    const SPEC: Spec = Spec {
        name: "xpending",
        arity: -3,
        flags: Flags::READONLY,
        keys: Keys::ONE,
        group: Group::Stream,
        since: "5.0.0",
        complexity: "O(N) where N is the number of entries looked at; of the summary, the number of consumers",
        summary: "Returns what a consumer group has been given and not acknowledged: a summary, or the entries of an interval.",
        arguments: "key group [[IDLE min-idle-time] start end count [consumer]]",
        example: "XPENDING readings printers\nXPENDING readings printers IDLE 60000 - + 10",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let (key, group) = (args.key(1)?, args.get(2)?);
        if args.len() == 3 {
            return Ok(XPending { key, group, part: None });
        }
        if !(6..=9).contains(&args.len()) {
            return Err(Failure::Syntax);
        }
        let (mut index, mut idle_min) = (3, 0);
        if args.is(3, "IDLE") {
            idle_min = u64::try_from(args.integer(4)?).unwrap_or(0);
            if args.len() < 8 {
                return Err(Failure::Syntax);
            }
            index = 5;
        }
        let count = usize::try_from(args.integer(index + 2)?).unwrap_or(0).min(COUNT_MAX);
        let (start, end) = (ids::interval_start(args, index)?, ids::interval_end(args, index + 1)?);
        let part = Part { idle_min, start, end, count, consumer: args.items().get(index + 3).copied() };
        Ok(XPending { key, group, part: Some(part) })
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        let collections = view.collections();
        let group = view.stream(self.key)?.and_then(|stream| collections.group(&stream, self.group));
        let group = group.ok_or_else(|| ids::no_group(self.key, self.group, ""))?;
        let Some(part) = self.part else {
            let (first, last) =
                (collections.all_pending(&group, StreamId::MIN).next(), collections.last_pending(&group));
            let (Some((first, _)), Some(last)) = (first, last) else {
                return Ok(Reply::Array(vec![Reply::Integer(0), Reply::Nil, Reply::Nil, Reply::NilArray]));
            };
            let busy = collections.consumers(&group).filter(|(_, consumer)| consumer.pending > 0);
            let busy = busy.take_while(|(name, _)| view.meter().put(name.len() as u64 + CONSUMER_BYTES));
            let busy = busy.map(|(name, consumer)| {
                Reply::Array(vec![Reply::Bulk(name), Reply::bulk(consumer.pending.to_string())])
            });
            let count = Reply::Integer(group.pending as i64);
            return Ok(Reply::Array(vec![count, ids::reply(first), ids::reply(last), Reply::Array(busy.collect())]));
        };
        let only = match part.consumer {
            None => None,
            Some(name) => match collections.consumer(&group, name) {
                Some(consumer) => Some(consumer),
                None => return Ok(Reply::Array(Vec::new())),
            },
        };
        let of_one = only.map(|consumer| {
            let ids = collections.pending_of(&group, consumer, part.start);
            ids.filter_map(|id| Some((id, collections.pending(&group, id)?)))
        });
        let of_all = only.is_none().then(|| collections.all_pending(&group, part.start));
        let found = of_one.into_iter().flatten().chain(of_all.into_iter().flatten());
        let now = view.time().0;
        let mut names = BTreeMap::new();
        let shown = found
            .take_while(|(id, _)| *id <= part.end)
            .filter(|(_, pending)| now.saturating_sub(pending.at) >= part.idle_min);
        let shown = shown.take(part.count).map_while(|(id, pending)| {
            let name = names.entry(pending.consumer);
            let name = name.or_insert_with(|| collections.consumer_name(&group, pending.consumer).unwrap_or_default());
            if !view.meter().put(name.len() as u64 + PENDING_BYTES) {
                return None;
            }
            let numbers = [now.saturating_sub(pending.at), pending.times].map(|number| Reply::Integer(number as i64));
            let [idle, times] = numbers;
            Some(Reply::Array(vec![ids::reply(id), Reply::Bulk(name.clone()), idle, times]))
        });
        Ok(Reply::Array(shown.collect()))
    }
}
