//! `LINSERT key <BEFORE | AFTER> pivot element`

use crate::commands::prelude::*;

/// Puts an element beside another one.
pub struct LInsert<'a> {
    key: KeyRef<'a>,
    is_after: bool,
    pivot: &'a [u8],
    element: &'a [u8],
}

impl<'a> WriteCommand<'a> for LInsert<'a> {
    const SPEC: Spec = Spec {
        name: "linsert",
        arity: 5,
        flags: Flags::WRITE.and(Flags::DENYOOM),
        keys: Keys::ONE,
        group: Group::List,
        since: "2.2.0",
        complexity: "O(N) where N is the number of elements",
        summary: "Puts an element before or after the first that is the pivot, and returns how many the list has.",
        arguments: "key <BEFORE | AFTER> pivot element",
        example: "LINSERT queue BEFORE b a",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let is_after = match (args.is(2, "BEFORE"), args.is(2, "AFTER")) {
            (false, false) => return Err(Failure::Syntax),
            (_, is_after) => is_after,
        };
        Ok(LInsert { key: args.key(1)?, is_after, pivot: args.get(3)?, element: args.get(4)? })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let Some(list) = tx.list(self.key)? else { return Ok(Reply::Integer(0)) };
        let mut elements = tx.tree().collections.list_between(list, 0, list.len());
        let Some(index) = elements.position(|element| *element == *self.pivot) else {
            return Ok(Reply::Integer(-1));
        };
        drop(elements);
        tx.edit_list(self.key, |list| {
            list.check_room(1)?;
            list.insert(index as u64 + u64::from(self.is_after), self.element);
            Ok(Reply::Integer(list.len() as i64))
        })
    }
}
