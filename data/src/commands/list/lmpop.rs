//! `LMPOP numkeys key [key ...] <LEFT | RIGHT> [COUNT count]`

use super::lpop::pop;
use crate::args::parse_integer;
use crate::commands::prelude::*;
use crate::transaction::End;

/// Takes elements out of the first of several lists that has any.
pub struct LMPop<'a> {
    keys: &'a [&'a [u8]],
    end: End,
    count: u64,
}

impl<'a> WriteCommand<'a> for LMPop<'a> {
    const SPEC: Spec = Spec {
        name: "lmpop",
        arity: -4,
        flags: Flags::WRITE.and(Flags::OFTEN_NOTHING).and(Flags::MOVABLE_KEYS),
        keys: Keys::Counted { count: 1, first: 2, step: 1 },
        group: Group::List,
        since: "7.0.0",
        complexity: "O(N+M) where N is the number of keys and M the number of elements returned",
        summary: "Removes elements at an end of the first of several lists that has any, and returns them.",
        arguments: "numkeys key [key ...] <LEFT | RIGHT> [COUNT count]",
        example: "LMPOP 2 urgent later LEFT COUNT 10",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Self::parse_from(args, 1)
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        self.run(tx)
    }
}

impl<'a> LMPop<'a> {
    /// Reads the arguments, of which the number of keys stands at `start`.
    pub(super) fn parse_from(args: Args<'a>, start: usize) -> Result<Self, Failure> {
        let positive =
            |text: &[u8]| parse_integer(text).and_then(|number| u64::try_from(number).ok()).filter(|n| *n > 0);
        let numkeys = positive(args.get(start)?).ok_or(Failure::Text("ERR numkeys should be greater than 0"))?;
        let first = start + 1;
        let place = usize::try_from(numkeys).ok().and_then(|keys| keys.checked_add(first)).ok_or(Failure::Syntax)?;
        let end = super::lmove::end(args, place)?;
        let count = match args.from(place + 1) {
            [] => 1,
            [word, count] if word.eq_ignore_ascii_case(b"COUNT") => {
                positive(count).ok_or(Failure::Text("ERR count should be greater than 0"))?
            }
            _ => return Err(Failure::Syntax),
        };
        let keys = args.items().get(first..place).ok_or(Failure::Syntax)?;
        Ok(LMPop { keys, end, count })
    }

    pub(super) fn run(&self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        for key in self.keys {
            if let Some(popped) = pop(tx, KeyRef::new(key), self.end, self.count)? {
                let elements = popped.into_iter().map(Reply::Bulk).collect();
                return Ok(Reply::Array(vec![Reply::bulk(*key), Reply::Array(elements)]));
            }
        }
        Ok(Reply::NilArray)
    }
}
