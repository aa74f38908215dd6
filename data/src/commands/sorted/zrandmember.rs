//! `ZRANDMEMBER key [count [WITHSCORES]]`

use crate::collections::ranked::Standing;
use crate::commands::elements::chance::{Asked, Urn};
use crate::commands::prelude::*;

/// Members by chance.
pub struct ZRandMember<'a>(Asked<'a>);

impl<'a> ReadCommand<'a> for ZRandMember<'a> {
    const SPEC: Spec = Spec {
        name: "zrandmember",
        arity: -2,
        flags: Flags::READONLY,
        keys: Keys::ONE,
        group: Group::SortedSet,
        since: "6.2.0",
        complexity: "O(N) where N is the number of members that are returned",
        summary: "Returns members of a sorted set by chance.",
        arguments: "key [count [WITHSCORES]]",
        example: "ZRANDMEMBER scores 2 WITHSCORES",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Asked::parse(args, "WITHSCORES").map(ZRandMember)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        let score = |value: Blob| Standing::read(&value).map_or(Reply::Nil, |standing| Reply::Double(standing.score));
        let of = view.sorted(self.0.key)?;
        let urn = of.map(|of| Urn { collections: view.collections(), kind: Kind::SortedSet, of, others: None });
        self.0.answer(urn, &mut view.rng(), score)
    }
}
