//! `SINTERCARD numkeys key [key ...] [LIMIT limit]`

use super::algebra::Operation;
use crate::args::parse_integer;
use crate::commands::prelude::*;
use std::ops::ControlFlow;

/// How many members several sets have in common.
pub struct SInterCard<'a>(Counted<'a>);

/// The keys of several sets, and how far what they have in common is counted.
pub(crate) struct Counted<'a> {
    keys: &'a [&'a [u8]],
    /// Counted no further than this; 0 for as far as it goes.
    limit: u64,
}

impl<'a> Counted<'a> {
    pub(crate) fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let count =
            parse_integer(args.get(1)?).and_then(|count| usize::try_from(count).ok()).filter(|count| *count > 0);
        let count = count.ok_or(Failure::Text("ERR numkeys should be greater than 0"))?;
        let Some((keys, options)) = args.from(2).split_at_checked(count) else {
            return Err(Failure::Text("ERR Number of keys can't be greater than number of args"));
        };
        Counted::new(keys, options)
    }

    /// These keys, and perhaps a limit.
    pub(crate) fn new(keys: &'a [&'a [u8]], options: &[&[u8]]) -> Result<Self, Failure> {
        let mut limit = 0;
        for option in options.chunks(2) {
            let [name, text] = option else { return Err(Failure::Syntax) };
            if !name.eq_ignore_ascii_case(b"LIMIT") {
                return Err(Failure::Syntax);
            }
            let given = parse_integer(text).and_then(|limit| u64::try_from(limit).ok());
            limit = given.ok_or(Failure::Text("ERR LIMIT can't be negative"))?;
        }
        Ok(Counted { keys, limit })
    }

    /// `find` says what stands under a key.
    pub(crate) fn read(
        self,
        view: &View<'_>,
        find: impl Fn(KeyRef<'_>) -> Result<Option<Collection>, Failure>,
    ) -> Result<Reply, Failure> {
        let sets = self.keys.iter().map(|key| find(KeyRef::new(key))).collect::<Result<Vec<_>, _>>()?;
        let mut found = 0;
        let _ = Operation::Intersection.walk(view.collections(), &sets, &mut |_, _| {
            found += 1;
            if found == self.limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        Ok(Reply::Integer(found as i64))
    }
}

impl<'a> ReadCommand<'a> for SInterCard<'a> {
    const SPEC: Spec = Spec {
        name: "sintercard",
        arity: -3,
        flags: Flags::READONLY.and(Flags::MOVABLE_KEYS),
        keys: Keys::Counted { count: 1, first: 2, step: 1 },
        group: Group::Set,
        since: "7.0.0",
        complexity: "O(N*M) where N is the size of the smallest set and M the number of sets",
        summary: "Returns how many members several sets have in common.",
        arguments: "numkeys key [key ...] [LIMIT limit]",
        example: "SINTERCARD 2 fruits vegetables LIMIT 10",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Counted::parse(args).map(SInterCard)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        self.0.read(view, |key| view.set(key))
    }
}
