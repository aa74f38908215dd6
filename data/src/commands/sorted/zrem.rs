//! `ZREM key member [member ...]`

use crate::commands::prelude::*;

/// Removes members; a sorted set without members is removed, too.
pub struct ZRem<'a> {
    key: KeyRef<'a>,
    members: &'a [&'a [u8]],
}

impl<'a> WriteCommand<'a> for ZRem<'a> {
    const SPEC: Spec = Spec {
        name: "zrem",
        arity: -3,
        flags: Flags::WRITE.and(Flags::OFTEN_NOTHING).and(Flags::FAST).and(Flags::BOUNDED),
        keys: Keys::ONE,
        group: Group::SortedSet,
        since: "1.2.0",
        complexity: "O(M*log(N)) where N is the size of the sorted set and M the number of members to remove",
        summary: "Removes members of a sorted set and returns how many of them were there.",
        arguments: "key member [member ...]",
        example: "ZREM scores ada",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(ZRem { key: args.key(1)?, members: args.members_from(2)? })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        tx.edit_sorted(self.key, |set| {
            Ok(Reply::count(self.members.iter().filter(|member| set.remove_scored(member).is_some()).count()))
        })
    }
}
