//! `SMEMBERS key`

use crate::commands::elements::whole;
use crate::commands::prelude::*;

/// All members.
pub struct SMembers<'a>(KeyRef<'a>);

impl<'a> ReadCommand<'a> for SMembers<'a> {
    const SPEC: Spec = Spec {
        name: "smembers",
        arity: 2,
        flags: Flags::READONLY,
        keys: Keys::ONE,
        group: Group::Set,
        since: "1.0.0",
        complexity: "O(N) where N is the number of members",
        summary: "Returns all members of a set.",
        arguments: "key",
        example: "SMEMBERS fruits",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        args.key(1).map(SMembers)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        let Some(set) = view.set(self.0)? else { return Ok(Reply::Set(Vec::new())) };
        Ok(Reply::Set(whole(view, Kind::Set, set)?.map(|(member, _)| Reply::Bulk(member)).collect()))
    }
}
