//! `SMOVE source destination member`

use crate::commands::prelude::*;

/// Takes a member out of one set and puts it into another.
pub struct SMove<'a> {
    source: KeyRef<'a>,
    destination: KeyRef<'a>,
    member: &'a [u8],
}

impl<'a> WriteCommand<'a> for SMove<'a> {
    const SPEC: Spec = Spec {
        name: "smove",
        arity: 4,
        flags: Flags::WRITE.and(Flags::OFTEN_NOTHING).and(Flags::FAST).and(Flags::BOUNDED),
        keys: Keys::TWO,
        group: Group::Set,
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Moves a member from one set to another.",
        arguments: "source destination member",
        example: "SMOVE fruits vegetables tomato",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(SMove { source: args.key(1)?, destination: args.key(2)?, member: args.member(3)? })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        if !tx.exists(self.source) {
            return Ok(Reply::Integer(0));
        }
        tx.collection(self.source, Kind::Set)?;
        tx.collection(self.destination, Kind::Set)?;
        if self.source == self.destination {
            return tx.edit_set(self.source, |set| Ok(Reply::one_if(set.get(self.member).is_some())));
        }
        // There is room for it, or it is not taken out.
        tx.edit_set(self.destination, |set| set.check_room(1))?;
        if !tx.edit_set(self.source, |set| Ok(set.remove(self.member).is_some()))? {
            return Ok(Reply::Integer(0));
        }
        tx.edit_set(self.destination, |set| Ok(set.add(self.member)))?;
        Ok(Reply::Integer(1))
    }
}
