//! `DICTUM.SET key value [IFREVISION revision] [PX milliseconds]`

use super::{parse_revision, revision_of, revision_reply};
use crate::commands::options::Expiry;
use crate::commands::prelude::*;
use base::Revision;

/// Gives a key a string value, unless somebody else was faster, and answers its new revision.
pub struct DictumSet<'a> {
    key: KeyRef<'a>,
    value: &'a [u8],
    if_revision: Option<Revision>,
    expiry: Option<Expiry>,
}

impl<'a> WriteCommand<'a> for DictumSet<'a> {
    const SPEC: Spec = Spec {
        name: "dictum.set",
        arity: -3,
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::BOUNDED),
        keys: Keys::ONE,
        group: Group::String,
        since: "7.4.0",
        complexity: "O(1)",
        summary: "Sets the string value of a key, if its revision is the one named, and returns the new revision.",
        arguments: "key value [IFREVISION revision] [PX milliseconds]",
        example: "DICTUM.SET greeting hello IFREVISION 0",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let mut set = DictumSet { key: args.key(1)?, value: args.get(2)?, if_revision: None, expiry: None };
        let mut index = 3;
        while index < args.len() {
            if args.is(index, "IFREVISION") && set.if_revision.is_none() {
                set.if_revision = Some(parse_revision(args, index + 1)?);
            } else if args.is(index, "PX") && set.expiry.is_none() {
                set.expiry = Some(Expiry::positive(args.get(index + 1)?, 1, false, "dictum.set")?);
            } else {
                return Err(Failure::Syntax);
            }
            index += 2;
        }
        Ok(set)
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let said = self.expiry.map(|expiry| expiry.deadline(tx.time())).transpose()?;
        let deadline = tx.deadline_or_default(said);
        if self.if_revision.is_some_and(|revision| revision != revision_of(tx, self.key)) {
            return Ok(Reply::Nil);
        }
        tx.put(self.key, Value::String(Blob::new(self.value)), deadline);
        Ok(revision_reply(revision_of(tx, self.key)))
    }
}
