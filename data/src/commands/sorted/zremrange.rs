//! `ZREMRANGEBYRANK key start stop`, `ZREMRANGEBYSCORE key min max`, `ZREMRANGEBYLEX key min max`

use super::bounds::{LexBound, ScoreBound, Span};
use crate::commands::prelude::*;
use crate::commands::set::spop::AT_ONCE_MAX;

/// Removes the members of some ranks.
pub struct ZRemRangeByRank<'a>(Removed<'a>);

/// Removes the members with some scores.
pub struct ZRemRangeByScore<'a>(Removed<'a>);

/// Removes the members between two, all scores being equal.
pub struct ZRemRangeByLex<'a>(Removed<'a>);

struct Removed<'a> {
    key: KeyRef<'a>,
    span: Span<'a>,
}

impl Removed<'_> {
    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let Some(of) = tx.collection(self.key, Kind::SortedSet)? else { return Ok(Reply::Integer(0)) };
        let collections = &tx.tree().collections;
        let (from, end) = self.span.ranks(collections, of, false);
        if end - from == of.len() && of.len() > AT_ONCE_MAX as u64 {
            // Elements that nobody reaches are reclaimed little by little.
            tx.remove(self.key);
            return Ok(Reply::Integer((end - from) as i64));
        }
        let room = usize::try_from(end - from).unwrap_or(usize::MAX);
        let gone: Vec<Blob> = collections.ranked_from(of, from).take(room).map(|(member, _)| member).collect();
        tx.edit_sorted(self.key, |set| {
            Ok(Reply::count(gone.iter().filter(|member| set.remove_scored(member).is_some()).count()))
        })
    }
}

impl<'a> WriteCommand<'a> for ZRemRangeByRank<'a> {
    const SPEC: Spec = Spec {
        name: "zremrangebyrank",
        arity: 4,
        flags: Flags::WRITE.and(Flags::OFTEN_NOTHING),
        keys: Keys::ONE,
        group: Group::SortedSet,
        since: "2.0.0",
        complexity: "O(log(N)+M) where N is the size of the sorted set and M how many members are removed",
        summary: "Removes the members of a range of ranks from a sorted set and returns how many these were.",
        arguments: "key start stop",
        example: "ZREMRANGEBYRANK scores 0 -11",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let span = Span::Ranks(args.integer(2)?, args.integer(3)?);
        Ok(ZRemRangeByRank(Removed { key: args.key(1)?, span }))
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        self.0.apply(tx)
    }
}

impl<'a> WriteCommand<'a> for ZRemRangeByScore<'a> {
    const SPEC: Spec = Spec {
        name: "zremrangebyscore",
        arity: 4,
        flags: Flags::WRITE.and(Flags::OFTEN_NOTHING),
        keys: Keys::ONE,
        group: Group::SortedSet,
        since: "1.2.0",
        complexity: "O(log(N)+M) where N is the size of the sorted set and M how many members are removed",
        summary: "Removes the members with a range of scores from a sorted set and returns how many these were.",
        arguments: "key min max",
        example: "ZREMRANGEBYSCORE scores -inf (10",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let span = Span::Scores(ScoreBound::parse(args.get(2)?)?, ScoreBound::parse(args.get(3)?)?);
        Ok(ZRemRangeByScore(Removed { key: args.key(1)?, span }))
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        self.0.apply(tx)
    }
}

impl<'a> WriteCommand<'a> for ZRemRangeByLex<'a> {
    const SPEC: Spec = Spec {
        name: "zremrangebylex",
        arity: 4,
        flags: Flags::WRITE.and(Flags::OFTEN_NOTHING),
        keys: Keys::ONE,
        group: Group::SortedSet,
        since: "2.8.9",
        complexity: "O(log(N)+M) where N is the size of the sorted set and M how many members are removed",
        summary: "Removes a range of members from a sorted set and returns how many these were.",
        arguments: "key min max",
        example: "ZREMRANGEBYLEX words [a (c",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let span = Span::Members(LexBound::parse(args.get(2)?)?, LexBound::parse(args.get(3)?)?);
        Ok(ZRemRangeByLex(Removed { key: args.key(1)?, span }))
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        self.0.apply(tx)
    }
}
