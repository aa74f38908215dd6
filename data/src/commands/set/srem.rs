//! `SREM key member [member ...]`

use crate::commands::prelude::*;

/// Removes members; a set without members is removed, too.
pub struct SRem<'a> {
    key: KeyRef<'a>,
    members: &'a [&'a [u8]],
}

impl<'a> WriteCommand<'a> for SRem<'a> {
    const SPEC: Spec = Spec {
        name: "srem",
        arity: -3,
        flags: Flags::WRITE.and(Flags::OFTEN_NOTHING).and(Flags::FAST).and(Flags::BOUNDED),
        keys: Keys::ONE,
        group: Group::Set,
        since: "1.0.0",
        complexity: "O(N) where N is the number of members",
        summary: "Removes members of a set and returns how many of them were there.",
        arguments: "key member [member ...]",
        example: "SREM fruits apple pear",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(SRem { key: args.key(1)?, members: args.members_from(2)? })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        tx.edit_set(self.key, |set| {
            Ok(Reply::count(self.members.iter().filter(|member| set.remove(member).is_some()).count()))
        })
    }
}
