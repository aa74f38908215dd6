//! `DICTUM.DEL key [IFREVISION revision]`

use super::{parse_revision, revision_of};
use crate::commands::prelude::*;
use base::Revision;

/// Removes a key, unless somebody else was faster.
pub struct DictumDel<'a> {
    key: KeyRef<'a>,
    if_revision: Option<Revision>,
}

impl<'a> WriteCommand<'a> for DictumDel<'a> {
    const SPEC: Spec = Spec {
        name: "dictum.del",
        arity: -2,
        flags: Flags::WRITE.and(Flags::BOUNDED),
        keys: Keys::ONE,
        group: Group::Generic,
        since: "7.4.0",
        complexity: "O(1)",
        summary: "Removes a key if its revision is the one named; nil if it is another, 0 if there is no key.",
        arguments: "key [IFREVISION revision]",
        example: "DICTUM.DEL greeting IFREVISION 7",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let key = args.key(1)?;
        match args.len() {
            2 => Ok(DictumDel { key, if_revision: None }),
            4 if args.is(2, "IFREVISION") => Ok(DictumDel { key, if_revision: Some(parse_revision(args, 3)?) }),
            _ => Err(Failure::Syntax),
        }
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let present = revision_of(tx, self.key);
        if present == Revision(0) {
            return Ok(Reply::Integer(0));
        }
        if self.if_revision.is_some_and(|revision| revision != present) {
            return Ok(Reply::Nil);
        }
        Ok(Reply::one_if(tx.remove(self.key)))
    }
}
