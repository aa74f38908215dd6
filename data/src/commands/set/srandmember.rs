//! `SRANDMEMBER key [count]`

use crate::commands::elements::chance::{Urn, check_repeated, parse_count};
use crate::commands::prelude::*;

/// Members by chance.
pub struct SRandMember<'a> {
    key: KeyRef<'a>,
    /// None: one member, and not a list. Negative: members may repeat.
    count: Option<i64>,
}

impl<'a> ReadCommand<'a> for SRandMember<'a> {
    const SPEC: Spec = Spec {
        name: "srandmember",
        arity: -2,
        flags: Flags::READONLY,
        keys: Keys::ONE,
        group: Group::Set,
        since: "1.0.0",
        complexity: "O(N) where N is the number of members that are returned",
        summary: "Returns members of a set by chance.",
        arguments: "key [count]",
        example: "SRANDMEMBER fruits 2",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let key = args.key(1)?;
        match args.len() {
            2 => Ok(SRandMember { key, count: None }),
            3 => {
                let count = parse_count(args.get(2)?)?;
                check_repeated(count)?;
                Ok(SRandMember { key, count: Some(count) })
            }
            _ => Err(Failure::Syntax),
        }
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        let Some(of) = view.set(self.key)? else {
            return Ok(self.count.map_or(Reply::Nil, |_| Reply::Array(Vec::new())));
        };
        let (mut rng, urn) = (view.rng(), Urn { collections: view.collections(), kind: Kind::Set, of, others: None });
        Ok(match self.count {
            None => Reply::bulk_or_nil(urn.one(&mut rng).map(|(member, _)| member)),
            Some(count) => {
                let drawn = urn.draw(count, &mut rng)?.into_iter();
                Reply::Array(drawn.map(|(member, _)| Reply::Bulk(member)).collect())
            }
        })
    }
}
