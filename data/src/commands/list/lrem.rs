//! `LREM key count element`

use crate::commands::prelude::*;

/// Takes out what is the same as an element.
pub struct LRem<'a> {
    key: KeyRef<'a>,
    /// So many, from the end if it is negative; 0: all.
    count: i64,
    element: &'a [u8],
}

impl<'a> WriteCommand<'a> for LRem<'a> {
    const SPEC: Spec = Spec {
        name: "lrem",
        arity: 4,
        flags: Flags::WRITE.and(Flags::OFTEN_NOTHING),
        keys: Keys::ONE,
        group: Group::List,
        since: "1.0.0",
        complexity: "O(N) where N is the number of elements",
        summary: "Removes the first elements of a list that are the one named, the last with a negative count, all with 0, and returns how many they were.",
        arguments: "key count element",
        example: "LREM queue 1 a",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(LRem { key: args.key(1)?, count: args.integer(2)?, element: args.get(3)? })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let Some(list) = tx.list(self.key)? else { return Ok(Reply::Integer(0)) };
        let elements = (0..).zip(tx.tree().collections.list_between(list, 0, list.len()));
        let same = elements.filter(|(_, element)| **element == *self.element).map(|(index, _)| index);
        let most = match self.count {
            0 => usize::MAX,
            count => usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX),
        };
        let gone: Vec<u64> = if self.count < 0 {
            let all: Vec<u64> = same.collect();
            all[all.len().saturating_sub(most)..].to_vec()
        } else {
            same.take(most).collect()
        };
        if !gone.is_empty() {
            tx.edit_list(self.key, |list| {
                list.remove(&gone);
                Ok(())
            })?;
        }
        Ok(Reply::count(gone.len()))
    }
}
