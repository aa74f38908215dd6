//! `XAUTOCLAIM key group consumer min-idle-time start [COUNT count] [JUSTID]`

use super::ids;
use super::xread::Room;
use crate::args::parse_integer;
use crate::collections::streams::Pending;
use crate::commands::prelude::*;
use crate::value::StreamId;

const COUNT_DEFAULT: i64 = 100;
const COUNT_MAX: i64 = i64::MAX / 16;
/// Of so many times the count is looked at.
const LOOKED_AT: usize = 10;

/// Gives a consumer what is pending with others, from an identifier on.
pub struct XAutoClaim<'a> {
    key: KeyRef<'a>,
    group: &'a [u8],
    consumer: &'a [u8],
    idle_min: u64,
    start: StreamId,
    count: usize,
    only_ids: bool,
}

impl<'a> WriteCommand<'a> for XAutoClaim<'a> {
    const SPEC: Spec = Spec {
        name: "xautoclaim",
        arity: -6,
        flags: Flags::WRITE.and(Flags::FAST),
        keys: Keys::ONE,
        group: Group::Stream,
        since: "6.2.0",
        complexity: "O(N) where N is the count",
        summary: "Gives a consumer of a group what is pending with others for so long, page by page, and returns it.",
        arguments: "key group consumer min-idle-time start [COUNT count] [JUSTID]",
        example: "XAUTOCLAIM readings printers bert 60000 0-0 COUNT 25",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let idle_min = parse_integer(args.get(4)?);
        let idle_min = idle_min.ok_or(Failure::Text("ERR Invalid min-idle-time argument for XAUTOCLAIM"))?;
        let start = ids::interval_start(args, 5)?;
        let (mut count, mut only_ids, mut index) = (COUNT_DEFAULT, false, 6);
        while index < args.len() {
            if args.is(index, "COUNT") && index + 1 < args.len() {
                index += 1;
                count = parse_integer(args.get(index)?)
                    .filter(|count| (1..=COUNT_MAX).contains(count))
                    .ok_or(Failure::Text("ERR COUNT must be > 0"))?;
            } else if args.is(index, "JUSTID") {
                only_ids = true;
            } else {
                return Err(Failure::Syntax);
            }
            index += 1;
        }
        let (group, consumer) = (args.get(2)?, args.get(3)?);
        super::xgroup::check_names([group, consumer].into_iter())?;
        let idle_min = u64::try_from(idle_min).unwrap_or(0);
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        Ok(XAutoClaim { key: args.key(1)?, group, consumer, idle_min, start, count, only_ids })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let stream = tx.stream(self.key)?;
        let group = stream.and_then(|stream| tx.tree().collections.group(&stream, self.group));
        group.ok_or_else(|| ids::no_group(self.key, self.group, ""))?;
        let now = tx.time().0;
        tx.edit_stream(self.key, |stream| {
            let head = *stream.stream();
            let claimed = stream.edit_group(self.group, |group| {
                let (consumer, _) = group.consumer(self.consumer, now);
                group.saw(consumer, now);
                // What is pending is looked at as it was; one more tells where the next page begins.
                let (mut claimed, mut gone, mut next) = (Vec::new(), Vec::new(), StreamId::MIN);
                let mut room = Room::default();
                let before = group.collections().clone();
                let paid = before.meter.spent();
                let old_group = group.group.clone();
                for (place, (id, pending)) in before.all_pending(&old_group, self.start).enumerate() {
                    let answered = claimed.len() + gone.len();
                    if answered >= self.count || place >= self.count.saturating_mul(LOOKED_AT) {
                        next = id;
                        break;
                    }
                    let Some(value) = before.entry(&head, id) else {
                        group.forget(id);
                        gone.push(ids::reply(id));
                        continue;
                    };
                    if now.saturating_sub(pending.at) < self.idle_min {
                        continue;
                    }
                    if !self.only_ids && !room.takes(value.len()) {
                        next = id;
                        break;
                    }
                    let times = pending.times.saturating_add(u64::from(!self.only_ids));
                    group.set_pending(id, Pending { consumer, at: now, times });
                    group.was_active(consumer, now);
                    claimed.push(if self.only_ids { ids::reply(id) } else { ids::entry_reply(id, &value) });
                }
                group.collections().meter.join(&before.meter, paid);
                vec![ids::reply(next), Reply::Array(claimed), Reply::Array(gone)]
            });
            Ok(Reply::Array(claimed.unwrap_or_default()))
        })
    }
}
