//! `LINDEX key index`

use crate::commands::prelude::*;

/// The element of an index.
pub struct LIndex<'a> {
    key: KeyRef<'a>,
    index: i64,
}

impl<'a> ReadCommand<'a> for LIndex<'a> {
    const SPEC: Spec = Spec {
        name: "lindex",
        arity: 3,
        flags: Flags::READONLY,
        keys: Keys::ONE,
        group: Group::List,
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Returns the element of an index of a list; a negative one counts from the end.",
        arguments: "key index",
        example: "LINDEX queue -1",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(LIndex { key: args.key(1)?, index: args.integer(2)? })
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        let Some(list) = view.list(self.key)? else { return Ok(Reply::Nil) };
        let element = list.index(self.index).and_then(|index| view.collections().list_element(list, index));
        Ok(Reply::bulk_or_nil(element))
    }
}
