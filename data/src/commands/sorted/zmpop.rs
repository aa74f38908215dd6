//! `ZMPOP numkeys key [key ...] <MIN | MAX> [COUNT count]`

use super::zpop::pop;
use crate::args::parse_integer;
use crate::commands::prelude::*;

/// Takes members out of the first of several sorted sets that has any.
pub struct ZMPop<'a> {
    keys: &'a [&'a [u8]],
    highest: bool,
    count: u64,
}

impl<'a> WriteCommand<'a> for ZMPop<'a> {
    const SPEC: Spec = Spec {
        name: "zmpop",
        arity: -4,
        flags: Flags::WRITE.and(Flags::OFTEN_NOTHING).and(Flags::MOVABLE_KEYS),
        keys: Keys::Counted { count: 1, first: 2, step: 1 },
        group: Group::SortedSet,
        since: "7.0.0",
        complexity: "O(K) + O(M*log(N)) where K is the number of keys, N the size of the sorted set and M how many members are removed",
        summary: "Removes members with the lowest or highest scores from the first of several sorted sets that has any, and returns them.",
        arguments: "numkeys key [key ...] <MIN | MAX> [COUNT count]",
        example: "ZMPOP 2 urgent later MIN COUNT 10",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Self::parse_from(args, 1)
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        self.run(tx)
    }
}

impl<'a> ZMPop<'a> {
    /// Reads the arguments, of which the number of keys stands at `start`.
    pub(super) fn parse_from(args: Args<'a>, start: usize) -> Result<Self, Failure> {
        let positive =
            |text: &[u8]| parse_integer(text).and_then(|number| u64::try_from(number).ok()).filter(|n| *n > 0);
        let numkeys = positive(args.get(start)?).ok_or(Failure::Text("ERR numkeys should be greater than 0"))?;
        let first = start + 1;
        let place = usize::try_from(numkeys).ok().and_then(|keys| keys.checked_add(first)).ok_or(Failure::Syntax)?;
        let highest = match (args.is(place, "MIN"), args.is(place, "MAX")) {
            (false, false) => return Err(Failure::Syntax),
            (_, highest) => highest,
        };
        let count = match args.from(place + 1) {
            [] => 1,
            [word, count] if word.eq_ignore_ascii_case(b"COUNT") => {
                positive(count).ok_or(Failure::Text("ERR count should be greater than 0"))?
            }
            _ => return Err(Failure::Syntax),
        };
        let keys = args.items().get(first..place).ok_or(Failure::Syntax)?;
        Ok(ZMPop { keys, highest, count })
    }

    pub(super) fn run(&self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        for key in self.keys {
            if let Some(popped) = pop(tx, KeyRef::new(key), self.highest, self.count)? {
                let pair = |(member, score)| Reply::Array(vec![Reply::Bulk(member), Reply::Double(score)]);
                let members = popped.into_iter().map(pair).collect();
                return Ok(Reply::Array(vec![Reply::bulk(*key), Reply::Array(members)]));
            }
        }
        Ok(Reply::NilArray)
    }
}
