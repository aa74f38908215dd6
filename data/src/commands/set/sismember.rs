//! `SISMEMBER key member`, `SMISMEMBER key member [member ...]`

use crate::commands::prelude::*;

/// Whether a set has a member.
pub struct SIsMember<'a>(Members<'a>);

/// Whether a set has each of several members.
pub struct SMIsMember<'a>(Members<'a>);

struct Members<'a> {
    key: KeyRef<'a>,
    members: &'a [&'a [u8]],
}

impl<'a> Members<'a> {
    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(Members { key: args.key(1)?, members: args.members_from(2)? })
    }

    fn read(self, view: &View<'_>) -> Result<impl Iterator<Item = Reply>, Failure> {
        let set = view.set(self.key)?;
        Ok(self.members.iter().map(move |member| {
            Reply::one_if(set.is_some_and(|set| view.element(set, name_order(member), member).is_some()))
        }))
    }
}

impl<'a> ReadCommand<'a> for SIsMember<'a> {
    const SPEC: Spec = Spec {
        name: "sismember",
        arity: 3,
        flags: Flags::READONLY.and(Flags::FAST),
        keys: Keys::ONE,
        group: Group::Set,
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Says whether a set has a member.",
        arguments: "key member",
        example: "SISMEMBER fruits apple",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Members::parse(args).map(SIsMember)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        self.0.read(view)?.next().ok_or(Failure::Syntax)
    }
}

impl<'a> ReadCommand<'a> for SMIsMember<'a> {
    const SPEC: Spec = Spec {
        name: "smismember",
        arity: -3,
        flags: Flags::READONLY.and(Flags::FAST),
        keys: Keys::ONE,
        group: Group::Set,
        since: "6.2.0",
        complexity: "O(N) where N is the number of members that are asked for",
        summary: "Says of several members whether a set has them.",
        arguments: "key member [member ...]",
        example: "SMISMEMBER fruits apple pear",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Members::parse(args).map(SMIsMember)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        Ok(Reply::Array(self.0.read(view)?.collect()))
    }
}
