//! `LTRIM key start stop`

use crate::commands::prelude::*;
use crate::transaction::End;

/// Leaves only a part of the elements.
pub struct LTrim<'a> {
    key: KeyRef<'a>,
    start: i64,
    stop: i64,
}

/// So many elements are taken out one by one, whatever is left.
const ONE_BY_ONE_MAX: u64 = 32;

impl<'a> WriteCommand<'a> for LTrim<'a> {
    const SPEC: Spec = Spec {
        name: "ltrim",
        arity: 4,
        flags: Flags::WRITE.and(Flags::OFTEN_NOTHING),
        keys: Keys::ONE,
        group: Group::List,
        since: "1.0.0",
        complexity: "O(N) where N is the number of elements that go, or that stay if these are fewer",
        summary: "Leaves only the elements of a list from one index to another; negative ones count from the end.",
        arguments: "key start stop",
        example: "LTRIM log -1000 -1",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(LTrim { key: args.key(1)?, start: args.integer(2)?, stop: args.integer(3)? })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let Some(list) = tx.list(self.key)? else { return Ok(Reply::Ok) };
        let (start, end) = list.part(self.start, self.stop);
        let (kept, gone) = (end - start, list.len() - (end - start));
        if kept == 0 {
            tx.remove(self.key);
        } else if gone > kept && gone > ONE_BY_ONE_MAX {
            // What stays makes a new list, and the old one goes bit by bit.
            let kept: Vec<Blob> = tx.tree().collections.list_between(list, start, end).collect();
            let value = tx.make_list(kept.into_iter());
            tx.put_keeping_deadline(self.key, value);
        } else {
            tx.edit_list(self.key, |edit| {
                (0..start).for_each(|_| drop(edit.pop(End::Left)));
                (end..list.len()).for_each(|_| drop(edit.pop(End::Right)));
                Ok(())
            })?;
        }
        Ok(Reply::Ok)
    }
}
