//! `ZSCORE key member`, `ZMSCORE key member [member ...]`

use crate::commands::prelude::*;

/// The score of a member.
pub struct ZScore<'a>(Members<'a>);

/// The scores of several members; nil where there is no such member.
pub struct ZMScore<'a>(Members<'a>);

struct Members<'a> {
    key: KeyRef<'a>,
    members: &'a [&'a [u8]],
}

impl<'a> Members<'a> {
    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(Members { key: args.key(1)?, members: args.members_from(2)? })
    }

    fn read(self, view: &View<'_>) -> Result<impl Iterator<Item = Reply>, Failure> {
        let set = view.sorted(self.key)?;
        Ok(self.members.iter().map(move |member| {
            let standing = set.and_then(|set| view.collections().standing(set, name_order(member), member));
            standing.map_or(Reply::Nil, |standing| Reply::Double(standing.score))
        }))
    }
}

impl<'a> ReadCommand<'a> for ZScore<'a> {
    const SPEC: Spec = Spec {
        name: "zscore",
        arity: 3,
        flags: Flags::READONLY.and(Flags::FAST),
        keys: Keys::ONE,
        group: Group::SortedSet,
        since: "1.2.0",
        complexity: "O(1)",
        summary: "Returns the score of a member of a sorted set.",
        arguments: "key member",
        example: "ZSCORE scores ada",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Members::parse(args).map(ZScore)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        self.0.read(view)?.next().ok_or(Failure::Syntax)
    }
}

impl<'a> ReadCommand<'a> for ZMScore<'a> {
    const SPEC: Spec = Spec {
        name: "zmscore",
        arity: -3,
        flags: Flags::READONLY.and(Flags::FAST),
        keys: Keys::ONE,
        group: Group::SortedSet,
        since: "6.2.0",
        complexity: "O(N) where N is the number of members that are asked for",
        summary: "Returns the scores of several members of a sorted set.",
        arguments: "key member [member ...]",
        example: "ZMSCORE scores ada grace",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Members::parse(args).map(ZMScore)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        Ok(Reply::Array(self.0.read(view)?.collect()))
    }
}
