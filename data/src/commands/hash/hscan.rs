//! `HSCAN key cursor [MATCH pattern] [COUNT count] [NOVALUES]`

use crate::commands::elements::page::Page;
use crate::commands::prelude::*;

/// A page of the fields.
pub struct HScan<'a>(Page<'a>);

impl<'a> ReadCommand<'a> for HScan<'a> {
    const SPEC: Spec = Spec {
        name: "hscan",
        arity: -3,
        flags: Flags::READONLY,
        keys: Keys::ONE,
        group: Group::Hash,
        since: "2.8.0",
        complexity: "O(1) for each call; O(N) for all fields, where N is their number",
        summary: "Walks through the fields of a hash, a page at a time: begin with cursor 0, go on until it comes back as 0.",
        arguments: "key cursor [MATCH pattern] [COUNT count] [NOVALUES]",
        example: "HSCAN user:7 0 MATCH n* COUNT 100",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Page::parse(args, Kind::Hash).map(HScan)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        self.0.read(view)
    }
}
