//! `LMOVE source destination <LEFT | RIGHT> <LEFT | RIGHT>`, `RPOPLPUSH source destination`

use crate::commands::prelude::*;
use crate::transaction::End;

/// Takes an element out at an end of a list and adds it at an end of another one, or of the same.
pub struct LMove<'a> {
    source: KeyRef<'a>,
    destination: KeyRef<'a>,
    from: End,
    to: End,
}

/// From the end of a list to the beginning of another one.
pub struct RPopLPush<'a>(LMove<'a>);

/// Argument `index` as an end.
pub(crate) fn end(args: Args<'_>, index: usize) -> Result<End, Failure> {
    match (args.is(index, "LEFT"), args.is(index, "RIGHT")) {
        (true, _) => Ok(End::Left),
        (_, true) => Ok(End::Right),
        _ => Err(Failure::Syntax),
    }
}

impl<'a> LMove<'a> {
    /// From the end of `source` to the beginning of `destination`.
    pub(super) fn back_to_front(source: KeyRef<'a>, destination: KeyRef<'a>) -> LMove<'a> {
        LMove { source, destination, from: End::Right, to: End::Left }
    }

    /// Answers nil if there is nothing to move.
    pub(super) fn run(&self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        if tx.list(self.source)?.is_none() {
            return Ok(Reply::Nil);
        }
        if self.source == self.destination {
            return tx.edit_list(self.source, |list| {
                let moved = list.pop(self.from);
                moved.iter().for_each(|element| list.push(self.to, element.clone()));
                Ok(Reply::bulk_or_nil(moved))
            });
        }
        if let Some(list) = tx.list(self.destination)? {
            list.check_room()?;
        }
        // It is there before it is gone: those who are told of changes are told in this order.
        let Some(element) = tx.edit_list(self.source, |list| Ok(list.at(self.from)))? else { return Ok(Reply::Nil) };
        tx.edit_list(self.destination, |list| {
            list.push(self.to, element.clone());
            Ok(())
        })?;
        tx.edit_list(self.source, |list| Ok(list.pop(self.from)))?;
        Ok(Reply::Bulk(element))
    }
}

impl<'a> WriteCommand<'a> for LMove<'a> {
    const SPEC: Spec = Spec {
        name: "lmove",
        arity: 5,
        flags: Flags::WRITE.and(Flags::OFTEN_NOTHING).and(Flags::DENYOOM).and(Flags::BOUNDED),
        keys: Keys::TWO,
        group: Group::List,
        since: "6.2.0",
        complexity: "O(1)",
        summary: "Moves an element from an end of a list to an end of another one and returns it.",
        arguments: "source destination <LEFT | RIGHT> <LEFT | RIGHT>",
        example: "LMOVE waiting working LEFT RIGHT",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(LMove { source: args.key(1)?, destination: args.key(2)?, from: end(args, 3)?, to: end(args, 4)? })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        self.run(tx)
    }
}

impl<'a> WriteCommand<'a> for RPopLPush<'a> {
    const SPEC: Spec = Spec {
        name: "rpoplpush",
        arity: 3,
        flags: Flags::WRITE.and(Flags::OFTEN_NOTHING).and(Flags::DENYOOM).and(Flags::BOUNDED),
        keys: Keys::TWO,
        group: Group::List,
        since: "1.2.0",
        complexity: "O(1)",
        summary: "Moves the last element of a list to the beginning of another one and returns it.",
        arguments: "source destination",
        example: "RPOPLPUSH waiting working",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(RPopLPush(LMove::back_to_front(args.key(1)?, args.key(2)?)))
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        self.0.run(tx)
    }
}
