//! `ZSCAN key cursor [MATCH pattern] [COUNT count]`

use crate::commands::elements::page::Page;
use crate::commands::prelude::*;

/// A page of the members with their scores.
pub struct ZScan<'a>(Page<'a>);

impl<'a> ReadCommand<'a> for ZScan<'a> {
    const SPEC: Spec = Spec {
        name: "zscan",
        arity: -3,
        flags: Flags::READONLY,
        keys: Keys::ONE,
        group: Group::SortedSet,
        since: "2.8.0",
        complexity: "O(1) for each call; O(N) for all members, where N is their number",
        summary: "Walks through the members of a sorted set, a page at a time: begin with cursor 0, go on until it comes back as 0.",
        arguments: "key cursor [MATCH pattern] [COUNT count]",
        example: "ZSCAN scores 0 MATCH a* COUNT 100",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Page::parse(args, Kind::SortedSet).map(ZScan)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        self.0.read(view)
    }
}
