//! `DICTUM.GET key`

use super::revision_reply;
use crate::commands::prelude::*;

/// The value of a string together with its revision.
pub struct DictumGet<'a> {
    key: KeyRef<'a>,
}

impl<'a> ReadCommand<'a> for DictumGet<'a> {
    const SPEC: Spec = Spec {
        name: "dictum.get",
        arity: 2,
        flags: Flags::READONLY.and(Flags::FAST),
        keys: Keys::ONE,
        group: Group::String,
        since: "7.4.0",
        complexity: "O(1)",
        summary: "Returns the string value of a key and the revision of its last change.",
        arguments: "key",
        example: "DICTUM.GET greeting",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(DictumGet { key: args.key(1)? })
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        let Some(record) = view.get(self.key) else { return Ok(Reply::Nil) };
        let revision = revision_reply(record.revision);
        let bytes = record.value.into_string()?;
        view.meter().put(bytes.len() as u64);
        Ok(Reply::Array(vec![Reply::Bulk(bytes), revision]))
    }
}
