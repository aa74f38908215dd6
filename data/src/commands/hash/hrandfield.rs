//! `HRANDFIELD key [count [WITHVALUES]]`

use crate::commands::elements::chance::{Urn, check_repeated, parse_count};
use crate::commands::prelude::*;

/// Fields by chance.
pub struct HRandField<'a> {
    key: KeyRef<'a>,
    /// None: one field, and not a list. Negative: fields may repeat.
    count: Option<i64>,
    with_values: bool,
}

impl<'a> ReadCommand<'a> for HRandField<'a> {
    const SPEC: Spec = Spec {
        name: "hrandfield",
        arity: -2,
        flags: Flags::READONLY,
        keys: Keys::ONE,
        group: Group::Hash,
        since: "6.2.0",
        complexity: "O(N) where N is the number of fields that are returned",
        summary: "Returns fields of a hash by chance.",
        arguments: "key [count [WITHVALUES]]",
        example: "HRANDFIELD user:7 2",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let key = args.key(1)?;
        if args.len() == 2 {
            return Ok(HRandField { key, count: None, with_values: false });
        }
        let count = parse_count(args.get(2)?)?;
        if args.len() > 4 || args.len() == 4 && !args.is(3, "WITHVALUES") {
            return Err(Failure::Syntax);
        }
        let with_values = args.len() == 4;
        if with_values && !(-i64::MAX / 2..=i64::MAX / 2).contains(&count) {
            return Err(Failure::Text("ERR value is out of range"));
        }
        check_repeated(count)?;
        Ok(HRandField { key, count: Some(count), with_values })
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        let Some(of) = view.hash(self.key)? else {
            return Ok(self.count.map_or(Reply::Nil, |_| Reply::Array(Vec::new())));
        };
        let (mut rng, urn) = (view.rng(), Urn { collections: view.collections(), kind: Kind::Hash, of });
        let Some(count) = self.count else {
            return Ok(Reply::bulk_or_nil(urn.one(&mut rng).map(|(field, _)| field)));
        };
        let found = urn.draw(count, &mut rng)?.into_iter();
        Ok(if self.with_values {
            Reply::Pairs(found.map(|(field, value)| (Reply::Bulk(field), Reply::Bulk(value))).collect())
        } else {
            Reply::Array(found.map(|(field, _)| Reply::Bulk(field)).collect())
        })
    }
}
