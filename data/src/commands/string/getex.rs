//! `GETEX key [expiry | PERSIST]`

use crate::commands::options::Expiry;
use crate::commands::prelude::*;

/// The value of a string, while its deadline is changed.
pub struct GetEx<'a> {
    key: KeyRef<'a>,
    action: Action,
}

enum Action {
    Nothing,
    Persist,
    Expire(Expiry),
}

impl<'a> WriteCommand<'a> for GetEx<'a> {
    const SPEC: Spec = Spec {
        name: "getex",
        arity: -2,
        flags: Flags::WRITE.and(Flags::FAST).and(Flags::BOUNDED),
        keys: Keys::ONE,
        group: Group::String,
        since: "6.2.0",
        complexity: "O(1)",
        summary: "Returns the string value of a key after setting its expiration time.",
        arguments: "key [EX seconds | PX milliseconds | \
                    EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST]",
        example: "GETEX greeting EX 60",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let action = if args.len() == 2 {
            Action::Nothing
        } else if args.is(2, "PERSIST") && args.len() == 3 {
            Action::Persist
        } else if let Some((unit_ms, absolute)) = Expiry::keyword(args, 2).filter(|_| args.len() == 4) {
            Action::Expire(Expiry::positive(args.get(3)?, unit_ms, absolute, "getex")?)
        } else {
            return Err(Failure::Syntax);
        };
        Ok(GetEx { key: args.key(1)?, action })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let Some(record) = tx.get(self.key) else { return Ok(Reply::Nil) };
        let had_deadline = record.deadline().is_some();
        let bytes = record.value.into_string()?;
        let deadline = match self.action {
            Action::Expire(expiry) => Some(expiry.deadline(tx.time())?),
            Action::Nothing | Action::Persist => None,
        };
        let changes = match self.action {
            Action::Nothing => false,
            Action::Persist => had_deadline,
            Action::Expire(_) => true,
        };
        if changes {
            tx.set_deadline(self.key, deadline);
        }
        Ok(Reply::Bulk(bytes))
    }
}
