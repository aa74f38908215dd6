//! `DICTUM.REVISION key`

use super::revision_reply;
use crate::commands::prelude::*;
use base::Revision;

/// The revision of a key, whatever its type.
pub struct DictumRevision<'a> {
    key: KeyRef<'a>,
}

impl<'a> ReadCommand<'a> for DictumRevision<'a> {
    const SPEC: Spec = Spec {
        name: "dictum.revision",
        arity: 2,
        flags: Flags::READONLY.and(Flags::FAST),
        keys: Keys::ONE,
        group: Group::Generic,
        since: "7.4.0",
        complexity: "O(1)",
        summary: "Returns the revision of a key's last change; 0 if there is no such key.",
        arguments: "key",
        example: "DICTUM.REVISION greeting",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(DictumRevision { key: args.key(1)? })
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        Ok(revision_reply(view.get(self.key).map_or(Revision(0), |record| record.revision)))
    }
}
