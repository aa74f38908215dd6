//! `LRANGE key start stop`

use super::ELEMENT_BYTES;
use crate::commands::prelude::*;

/// Room for so many elements at most is made before the first of them is seen.
const ROOM_AT_ONCE: usize = 1024;

/// A part of the elements.
pub struct LRange<'a> {
    key: KeyRef<'a>,
    start: i64,
    stop: i64,
}

impl<'a> ReadCommand<'a> for LRange<'a> {
    const SPEC: Spec = Spec {
        name: "lrange",
        arity: 4,
        flags: Flags::READONLY,
        keys: Keys::ONE,
        group: Group::List,
        since: "1.0.0",
        complexity: "O(N) where N is the number of elements returned",
        summary: "Returns the elements of a list from one index to another; negative ones count from the end.",
        arguments: "key start stop",
        example: "LRANGE queue 0 -1",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(LRange { key: args.key(1)?, start: args.integer(2)?, stop: args.integer(3)? })
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        let Some(list) = view.list(self.key)? else { return Ok(Reply::Array(Vec::new())) };
        let (start, end) = list.part(self.start, self.stop);
        let room = usize::try_from(end.saturating_sub(start)).unwrap_or(usize::MAX);
        let (mut elements, mut bytes) = (Vec::with_capacity(room.min(ROOM_AT_ONCE)), 0);
        for element in view.list_between(list, start, end) {
            bytes += element.len() as u64 + ELEMENT_BYTES;
            if bytes > view.meter().answer_max() {
                return Err(Kind::List.is_too_large());
            }
            elements.push(Reply::Bulk(element));
        }
        Ok(Reply::Array(elements))
    }
}
