//! `ZRANK key member [WITHSCORE]`, `ZREVRANK key member [WITHSCORE]`

use crate::collections::ranked::order_of;
use crate::commands::prelude::*;

/// The rank of a member, from the lowest score on.
pub struct ZRank<'a>(Rank<'a>);

/// The rank of a member, from the highest score on.
pub struct ZRevRank<'a>(Rank<'a>);

struct Rank<'a> {
    key: KeyRef<'a>,
    member: &'a [u8],
    with_score: bool,
}

impl<'a> Rank<'a> {
    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        if args.len() > 4 || args.len() == 4 && !args.is(3, "WITHSCORE") {
            return Err(Failure::Syntax);
        }
        Ok(Rank { key: args.key(1)?, member: args.member(2)?, with_score: args.len() == 4 })
    }

    fn read(self, view: &View<'_>, reverse: bool) -> Result<Reply, Failure> {
        let nothing = if self.with_score { Reply::NilArray } else { Reply::Nil };
        let Some(of) = view.sorted(self.key)? else { return Ok(nothing) };
        let collections = view.collections();
        let Some(standing) = collections.standing(of, name_order(self.member), self.member) else { return Ok(nothing) };
        let order = order_of(standing.score);
        let rank = collections.rank_of(of, &|at, member| (at, member) < (order, self.member));
        let rank = if reverse { of.len().saturating_sub(1 + rank) } else { rank };
        let rank = Reply::Integer(rank as i64);
        Ok(if self.with_score { Reply::Array(vec![rank, Reply::Double(standing.score)]) } else { rank })
    }
}

impl<'a> ReadCommand<'a> for ZRank<'a> {
    const SPEC: Spec = Spec {
        name: "zrank",
        arity: -3,
        flags: Flags::READONLY.and(Flags::FAST),
        keys: Keys::ONE,
        group: Group::SortedSet,
        since: "2.0.0",
        complexity: "O(log(N)) where N is the size of the sorted set",
        summary: "Returns the rank of a member of a sorted set, from the lowest score on.",
        arguments: "key member [WITHSCORE]",
        example: "ZRANK scores ada",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Rank::parse(args).map(ZRank)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        self.0.read(view, false)
    }
}

impl<'a> ReadCommand<'a> for ZRevRank<'a> {
    const SPEC: Spec = Spec {
        name: "zrevrank",
        arity: -3,
        flags: Flags::READONLY.and(Flags::FAST),
        keys: Keys::ONE,
        group: Group::SortedSet,
        since: "2.0.0",
        complexity: "O(log(N)) where N is the size of the sorted set",
        summary: "Returns the rank of a member of a sorted set, from the highest score on.",
        arguments: "key member [WITHSCORE]",
        example: "ZREVRANK scores ada",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Rank::parse(args).map(ZRevRank)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        self.0.read(view, true)
    }
}
