//! `SADD key member [member ...]`

use crate::commands::prelude::*;

/// Adds members; answers how many of them are new.
pub struct SAdd<'a> {
    key: KeyRef<'a>,
    members: &'a [&'a [u8]],
}

impl<'a> WriteCommand<'a> for SAdd<'a> {
    const SPEC: Spec = Spec {
        name: "sadd",
        arity: -3,
        flags: Flags::WRITE.and(Flags::OFTEN_NOTHING).and(Flags::DENYOOM).and(Flags::FAST).and(Flags::BOUNDED),
        keys: Keys::ONE,
        group: Group::Set,
        since: "1.0.0",
        complexity: "O(N) where N is the number of members",
        summary: "Adds members to a set and returns how many of them are new.",
        arguments: "key member [member ...]",
        example: "SADD fruits apple pear",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(SAdd { key: args.key(1)?, members: args.members_from(2)? })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        tx.edit_set(self.key, |set| {
            set.check_room(self.members.len())?;
            Ok(Reply::count(self.members.iter().filter(|member| set.add(member)).count()))
        })
    }
}
