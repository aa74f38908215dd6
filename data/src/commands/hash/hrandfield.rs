//! `HRANDFIELD key [count [WITHVALUES]]`
//!
//! Fields stand in the order of their hashes, so chance points at a place and takes what stands there. Of a hash of a few fields all are
//! looked at, and each is as likely as the others; of a larger one a field is as likely as the gap before it is wide.

use super::whole;
use crate::commands::prelude::*;
use base::Rng;
use base::limits::REPLY_BYTES_MAX;
use std::collections::BTreeMap;

/// Of a hash of so many fields or fewer all are looked at.
const COUNTED_MAX: u64 = 1024;
/// Most fields of one answer that may repeat.
const REPEATED_MAX: i64 = 1024 * 1024;

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
        let count = args.integer(2)?;
        if count == i64::MIN {
            return Err(Failure::Text(
                "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
            ));
        }
        if args.len() > 4 || args.len() == 4 && !args.is(3, "WITHVALUES") {
            return Err(Failure::Syntax);
        }
        let with_values = args.len() == 4;
        if with_values && !(-i64::MAX / 2..=i64::MAX / 2).contains(&count) {
            return Err(Failure::Text("ERR value is out of range"));
        }
        if count < -REPEATED_MAX {
            return Err(Failure::Text("ERR at most 1048576 fields that may repeat are answered at once"));
        }
        Ok(HRandField { key, count: Some(count), with_values })
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        let Some(hash) = view.hash(self.key)? else {
            return Ok(self.count.map_or(Reply::Nil, |_| Reply::Array(Vec::new())));
        };
        let mut rng = view.rng();
        let Some(count) = self.count else {
            let found = self.repeated(view, hash, 1, &mut rng)?.pop();
            return Ok(Reply::bulk_or_nil(found.map(|(field, _)| field)));
        };
        let wanted = count.unsigned_abs();
        let found = if count < 0 {
            self.repeated(view, hash, wanted, &mut rng)?
        } else {
            self.different(view, hash, wanted, &mut rng)?
        };
        Ok(if self.with_values {
            Reply::Pairs(found.into_iter().map(|(field, value)| (Reply::Bulk(field), Reply::Bulk(value))).collect())
        } else {
            Reply::Array(found.into_iter().map(|(field, _)| Reply::Bulk(field)).collect())
        })
    }
}

type Fields = Vec<(Blob, Blob)>;

impl HRandField<'_> {
    fn all(&self, view: &View<'_>) -> Result<Fields, Failure> {
        Ok(whole(view, self.key)?.into_iter().flatten().collect())
    }

    fn repeated(&self, view: &View<'_>, hash: Collection, wanted: u64, rng: &mut Rng) -> Result<Fields, Failure> {
        if hash.len() <= COUNTED_MAX {
            let all = self.all(view)?;
            let draws = 0..if all.is_empty() { 0 } else { wanted };
            return Ok(draws.map(|_| rng.pick(&all).clone()).collect());
        }
        let mut bytes = 0;
        let mut found = Vec::new();
        for _ in 0..wanted {
            let Some((_, field, value)) = at_chance(view, hash, rng) else { break };
            bytes += (field.len() + value.len()) as u64;
            if bytes > REPLY_BYTES_MAX {
                return Err(Failure::Text("ERR so many fields are too large for one answer"));
            }
            found.push((field, value));
        }
        Ok(found)
    }

    fn different(&self, view: &View<'_>, hash: Collection, wanted: u64, rng: &mut Rng) -> Result<Fields, Failure> {
        if wanted == 0 {
            return Ok(Vec::new());
        }
        if hash.len() <= COUNTED_MAX || wanted >= hash.len() / 4 {
            let mut all = self.all(view)?;
            let wanted = wanted.min(all.len() as u64);
            for place in 0..wanted {
                let other = rng.between(place, all.len() as u64 - 1);
                all.swap(place as usize, other as usize);
            }
            if wanted < hash.len() {
                all.truncate(wanted as usize);
            }
            return Ok(all);
        }
        let mut chosen: BTreeMap<Blob, Blob> = BTreeMap::new();
        let mut bytes = 0;
        // At most a quarter is wanted, so a draw is new more often than not, unless the hashes are crowded: then their neighbours do.
        for draw in 0..wanted.saturating_mul(4) {
            if chosen.len() as u64 >= wanted {
                break;
            }
            let Some((order, field, value)) = at_chance(view, hash, rng) else { break };
            let (field, value) = if draw >= wanted * 2 && chosen.contains_key(&field) {
                let near = view.elements(hash, order).find(|(_, field, _)| !chosen.contains_key(field));
                near.map_or((field, value), |(_, field, value)| (field, value))
            } else {
                (field, value)
            };
            bytes += (field.len() + value.len()) as u64;
            if bytes > REPLY_BYTES_MAX {
                return Err(Failure::Text("ERR so many fields are too large for one answer"));
            }
            chosen.insert(field, value);
        }
        if (chosen.len() as u64) < wanted {
            let more: Vec<(Blob, Blob)> = view
                .elements(hash, 0)
                .map(|(_, field, value)| (field, value))
                .filter(|(field, _)| !chosen.contains_key(field))
                .take((wanted - chosen.len() as u64) as usize)
                .collect();
            chosen.extend(more);
        }
        Ok(chosen.into_iter().collect())
    }
}

/// The field at or behind a place by chance; behind the last comes the first.
fn at_chance(view: &View<'_>, hash: Collection, rng: &mut Rng) -> Option<(u64, Blob, Blob)> {
    let place = rng.next_u64();
    view.elements(hash, place).next().or_else(|| view.elements(hash, 0).next())
}
