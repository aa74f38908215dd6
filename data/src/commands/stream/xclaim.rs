//! `XCLAIM key group consumer min-idle-time id [id ...] [IDLE milliseconds] [TIME unix-time-milliseconds] [RETRYCOUNT count] [FORCE] [JUSTID] [LASTID id]`

use super::ids;
use super::xread::Room;
use crate::args::parse_integer;
use crate::collections::streams::Pending;
use crate::commands::prelude::*;
use crate::value::StreamId;

/// Gives a consumer what is pending with another.
pub struct XClaim<'a> {
    key: KeyRef<'a>,
    group: &'a [u8],
    consumer: &'a [u8],
    idle_min: u64,
    ids: Vec<StreamId>,
    delivered: Delivered,
    times: Option<u64>,
    force: bool,
    only_ids: bool,
    last: StreamId,
}

/// When an entry shall have been delivered.
#[derive(Clone, Copy)]
enum Delivered {
    Now,
    Before(i64),
    At(i64),
}

impl<'a> WriteCommand<'a> for XClaim<'a> {
    const SPEC: Spec = Spec {
        name: "xclaim",
        arity: -6,
        flags: Flags::WRITE.and(Flags::FAST),
        keys: Keys::ONE,
        group: Group::Stream,
        since: "5.0.0",
        complexity: "O(1) for each entry",
        summary: "Gives a consumer of a group entries that are pending with others for so long, and returns them.",
        arguments: "key group consumer min-idle-time id [id ...] [IDLE milliseconds] [TIME unix-time-milliseconds] [RETRYCOUNT count] [FORCE] [JUSTID] [LASTID id]",
        example: "XCLAIM readings printers bert 60000 1700000000000-0",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let number = |index, text| parse_integer(args.get(index)?).ok_or(Failure::Text(text));
        let idle_min = number(4, "ERR Invalid min-idle-time argument for XCLAIM")?;
        let (group, consumer) = (args.get(2)?, args.get(3)?);
        super::xgroup::check_names([group, consumer].into_iter())?;
        let ids: Vec<StreamId> = args.from(5).iter().map_while(|text| ids::parse(text, 0).ok()).collect();
        let mut index = 5 + ids.len();
        let mut claim = XClaim {
            key: args.key(1)?,
            group,
            consumer,
            idle_min: u64::try_from(idle_min).unwrap_or(0),
            ids,
            delivered: Delivered::Now,
            times: None,
            force: false,
            only_ids: false,
            last: StreamId::MIN,
        };
        while index < args.len() {
            let has_value = index + 1 < args.len();
            if args.is(index, "FORCE") {
                claim.force = true;
            } else if args.is(index, "JUSTID") {
                claim.only_ids = true;
            } else if args.is(index, "IDLE") && has_value {
                index += 1;
                claim.delivered = Delivered::Before(number(index, "ERR Invalid IDLE option argument for XCLAIM")?);
            } else if args.is(index, "TIME") && has_value {
                index += 1;
                claim.delivered = Delivered::At(number(index, "ERR Invalid TIME option argument for XCLAIM")?);
            } else if args.is(index, "RETRYCOUNT") && has_value {
                index += 1;
                let times = number(index, "ERR Invalid RETRYCOUNT option argument for XCLAIM")?;
                claim.times = u64::try_from(times).ok();
            } else if args.is(index, "LASTID") && has_value {
                index += 1;
                claim.last = ids::parse(args.get(index)?, 0)?;
            } else {
                let text = [b"ERR Unrecognized XCLAIM option '", args.get(index)?, b"'"].concat();
                return Err(Failure::built(&text));
            }
            index += 1;
        }
        Ok(claim)
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let stream = tx.stream(self.key)?;
        let group = stream.and_then(|stream| tx.tree().collections.group(&stream, self.group));
        group.ok_or_else(|| ids::no_group(self.key, self.group, ""))?;
        let now = tx.time().0;
        let at = match self.delivered {
            Delivered::Now => now,
            Delivered::Before(milliseconds) => now.checked_sub_signed(milliseconds).map_or(now, |at| at.min(now)),
            Delivered::At(at) => u64::try_from(at).map_or(now, |at| at.min(now)),
        };
        tx.edit_stream(self.key, |stream| {
            let head = *stream.stream();
            let claimed = stream.edit_group(self.group, |group| {
                group.group.last = group.group.last.max(self.last);
                let (consumer, _) = group.consumer(self.consumer, now);
                group.saw(consumer, now);
                let mut claimed = Vec::new();
                let mut room = Room::default();
                for id in &self.ids {
                    let pending = group.collections().pending(&group.group, *id);
                    let Some(value) = group.collections().entry(&head, *id) else {
                        group.forget(*id);
                        continue;
                    };
                    let times = match pending {
                        Some(pending) if now.saturating_sub(pending.at) < self.idle_min => continue,
                        Some(pending) => pending.times,
                        None if self.force && group.has_room() => 1,
                        None => continue,
                    };
                    if !self.only_ids && !room.takes(value.len()) {
                        break;
                    }
                    let times = self.times.unwrap_or(times.saturating_add(u64::from(!self.only_ids)));
                    group.set_pending(*id, Pending { consumer, at, times });
                    group.was_active(consumer, now);
                    claimed.push(if self.only_ids { ids::reply(*id) } else { ids::entry_reply(*id, &value) });
                }
                claimed
            });
            Ok(Reply::Array(claimed.unwrap_or_default()))
        })
    }
}
