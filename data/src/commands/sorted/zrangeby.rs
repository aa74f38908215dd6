//! `ZREVRANGE`, `ZRANGEBYSCORE`, `ZREVRANGEBYSCORE`, `ZRANGEBYLEX`, `ZREVRANGEBYLEX`: older names for what `ZRANGE` does

use super::zrange::{Asked, By};
use crate::commands::prelude::*;

/// Returns a range of members of a sorted set, from the highest score on.
pub struct ZRevRange<'a>(Asked<'a>);

impl<'a> ReadCommand<'a> for ZRevRange<'a> {
    const SPEC: Spec = Spec {
        name: "zrevrange",
        arity: -4,
        flags: Flags::READONLY,
        keys: Keys::ONE,
        group: Group::SortedSet,
        since: "1.2.0",
        complexity: "O(log(N)+M) where N is the size of the sorted set and M how many members are returned",
        summary: "Returns a range of members of a sorted set, from the highest score on.",
        arguments: "key start stop [WITHSCORES]",
        example: "ZREVRANGE scores 0 9 WITHSCORES",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Asked::parse(args, 1, (Some(By::Rank), Some(true)), false).map(ZRevRange)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        self.0.read(view)
    }
}

/// Returns the members of a sorted set with a range of scores.
pub struct ZRangeByScore<'a>(Asked<'a>);

impl<'a> ReadCommand<'a> for ZRangeByScore<'a> {
    const SPEC: Spec = Spec {
        name: "zrangebyscore",
        arity: -4,
        flags: Flags::READONLY,
        keys: Keys::ONE,
        group: Group::SortedSet,
        since: "1.0.5",
        complexity: "O(log(N)+M) where N is the size of the sorted set and M how many members are returned",
        summary: "Returns the members of a sorted set with a range of scores.",
        arguments: "key min max [WITHSCORES] [LIMIT offset count]",
        example: "ZRANGEBYSCORE scores (10 +inf LIMIT 0 5",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Asked::parse(args, 1, (Some(By::Score), Some(false)), false).map(ZRangeByScore)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        self.0.read(view)
    }
}

/// Returns the members of a sorted set with a range of scores, from the highest on.
pub struct ZRevRangeByScore<'a>(Asked<'a>);

impl<'a> ReadCommand<'a> for ZRevRangeByScore<'a> {
    const SPEC: Spec = Spec {
        name: "zrevrangebyscore",
        arity: -4,
        flags: Flags::READONLY,
        keys: Keys::ONE,
        group: Group::SortedSet,
        since: "2.2.0",
        complexity: "O(log(N)+M) where N is the size of the sorted set and M how many members are returned",
        summary: "Returns the members of a sorted set with a range of scores, from the highest on.",
        arguments: "key max min [WITHSCORES] [LIMIT offset count]",
        example: "ZREVRANGEBYSCORE scores +inf (10",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Asked::parse(args, 1, (Some(By::Score), Some(true)), false).map(ZRevRangeByScore)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        self.0.read(view)
    }
}

/// Returns a range of members of a sorted set in which all scores are equal.
pub struct ZRangeByLex<'a>(Asked<'a>);

impl<'a> ReadCommand<'a> for ZRangeByLex<'a> {
    const SPEC: Spec = Spec {
        name: "zrangebylex",
        arity: -4,
        flags: Flags::READONLY,
        keys: Keys::ONE,
        group: Group::SortedSet,
        since: "2.8.9",
        complexity: "O(log(N)+M) where N is the size of the sorted set and M how many members are returned",
        summary: "Returns a range of members of a sorted set in which all scores are equal.",
        arguments: "key min max [LIMIT offset count]",
        example: "ZRANGEBYLEX words [a (c",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Asked::parse(args, 1, (Some(By::Member), Some(false)), false).map(ZRangeByLex)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        self.0.read(view)
    }
}

/// Returns a range of members of a sorted set in which all scores are equal, from the last on.
pub struct ZRevRangeByLex<'a>(Asked<'a>);

impl<'a> ReadCommand<'a> for ZRevRangeByLex<'a> {
    const SPEC: Spec = Spec {
        name: "zrevrangebylex",
        arity: -4,
        flags: Flags::READONLY,
        keys: Keys::ONE,
        group: Group::SortedSet,
        since: "2.8.9",
        complexity: "O(log(N)+M) where N is the size of the sorted set and M how many members are returned",
        summary: "Returns a range of members of a sorted set in which all scores are equal, from the last on.",
        arguments: "key max min [LIMIT offset count]",
        example: "ZREVRANGEBYLEX words (c [a",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Asked::parse(args, 1, (Some(By::Member), Some(true)), false).map(ZRevRangeByLex)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        self.0.read(view)
    }
}
