//! Elements by chance, of a hash or a set.
//!
//! They stand in the order of their hashes, so chance points at a place and takes one of those that stand behind it. Of a collection of a few elements
//! all are looked at, and each is as likely as the others; of a larger one an element is as likely as the gap before its neighbours is wide.

use crate::collections::Collections;
use crate::commands::prelude::*;
use base::Rng;
use std::collections::BTreeMap;

/// Of a collection of so many elements or fewer all are looked at.
const COUNTED_MAX: u64 = 256;
/// Of a larger one it is one of so many: gaps differ less when several are taken together.
const NEIGHBOURS: u64 = 16;
/// Most elements of one answer that may repeat.
const REPEATED_MAX: i64 = 1024 * 1024;

const TOO_LARGE: Failure = Failure::Text("ERR so many elements are too large for one answer");

/// A collection to draw from.
pub(crate) struct Urn<'c> {
    pub collections: &'c Collections,
    pub kind: Kind,
    pub of: Collection,
    /// Where some of the elements do not count any more: the others.
    pub others: Option<Drawn>,
}

/// Names and values.
pub(crate) type Drawn = Vec<(Blob, Blob)>;

/// How many are wanted; if they may repeat, a negative number.
pub(crate) fn parse_count(text: &[u8]) -> Result<i64, Failure> {
    let count = crate::args::parse_integer(text).ok_or(Failure::NotAnInteger)?;
    if count == i64::MIN {
        return Err(Failure::Text(
            "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
        ));
    }
    Ok(count)
}

/// Refuses to answer more than so many that may repeat.
pub(crate) fn check_repeated(count: i64) -> Result<(), Failure> {
    if count < -REPEATED_MAX {
        return Err(Failure::Text("ERR at most 1048576 elements that may repeat are answered at once"));
    }
    Ok(())
}

/// A question for some elements: `key [count [WITH…]]`.
pub(crate) struct Asked<'a> {
    pub key: KeyRef<'a>,
    /// None: one element, and not a list. Negative: elements may repeat.
    count: Option<i64>,
    with_values: bool,
}

impl<'a> Asked<'a> {
    /// `values` is the word that asks for values, too.
    pub(crate) fn parse(args: Args<'a>, values: &str) -> Result<Self, Failure> {
        let key = args.key(1)?;
        if args.len() == 2 {
            return Ok(Asked { key, count: None, with_values: false });
        }
        let count = parse_count(args.get(2)?)?;
        if args.len() > 4 || args.len() == 4 && !args.is(3, values) {
            return Err(Failure::Syntax);
        }
        let with_values = args.len() == 4;
        if with_values && !(-i64::MAX / 2..=i64::MAX / 2).contains(&count) {
            return Err(Failure::Text("ERR value is out of range"));
        }
        check_repeated(count)?;
        Ok(Asked { key, count: Some(count), with_values })
    }

    /// What is drawn from the urn, if there is one; `show` says how a value is answered.
    pub(crate) fn answer(
        self,
        urn: Option<Urn<'_>>,
        rng: &mut Rng,
        show: impl Fn(Blob) -> Reply,
    ) -> Result<Reply, Failure> {
        let Some(urn) = urn else { return Ok(self.count.map_or(Reply::Nil, |_| Reply::Array(Vec::new()))) };
        let Some(count) = self.count else {
            return Ok(Reply::bulk_or_nil(urn.one(rng).map(|(name, _)| name)));
        };
        let found = urn.draw(count, rng)?.into_iter();
        Ok(if self.with_values {
            Reply::Pairs(found.map(|(name, value)| (Reply::Bulk(name), show(value))).collect())
        } else {
            Reply::Array(found.map(|(name, _)| Reply::Bulk(name)).collect())
        })
    }
}

impl Urn<'_> {
    /// One element; none only if the store below is in trouble.
    pub(crate) fn one(&self, rng: &mut Rng) -> Option<(Blob, Blob)> {
        if let Some(others) = &self.others {
            return (!others.is_empty()).then(|| rng.pick(others).clone());
        }
        if self.of.len() > COUNTED_MAX {
            return self.near(rng).map(|(_, name, value)| (name, value));
        }
        let place = rng.below(self.of.len().max(1));
        let mut all = self.collections.drawn_from(self.of, 0);
        all.nth(place as usize).map(|(_, name, value)| (name, value))
    }

    /// As many as are wanted: if that is a negative number, some may be equal.
    pub(crate) fn draw(&self, count: i64, rng: &mut Rng) -> Result<Drawn, Failure> {
        let wanted = count.unsigned_abs();
        if count < 0 { self.repeated(wanted, rng) } else { self.different(wanted, rng) }
    }

    fn all(&self) -> Result<Drawn, Failure> {
        if let Some(others) = &self.others {
            return Ok(others.clone());
        }
        if self.of.bytes() > self.collections.meter.answer_max() {
            return Err(self.kind.is_too_large());
        }
        Ok(self.collections.drawn_from(self.of, 0).map(|(_, name, value)| (name, value)).collect())
    }

    fn repeated(&self, wanted: u64, rng: &mut Rng) -> Result<Drawn, Failure> {
        let all = if self.of.len() <= COUNTED_MAX && self.others.is_none() { self.all()? } else { Vec::new() };
        let mut bytes = 0;
        let mut found = Vec::new();
        for _ in 0..wanted {
            let drawn = if all.is_empty() { self.one(rng) } else { Some(rng.pick(&all).clone()) };
            let Some((name, value)) = drawn else { break };
            if !self.collections.meter.visit(name.len() + value.len()) {
                break;
            }
            bytes += (name.len() + value.len()) as u64;
            if bytes > self.collections.meter.answer_max() {
                return Err(TOO_LARGE);
            }
            found.push((name, value));
        }
        Ok(found)
    }

    fn different(&self, wanted: u64, rng: &mut Rng) -> Result<Drawn, Failure> {
        if wanted == 0 {
            return Ok(Vec::new());
        }
        if self.of.len() <= COUNTED_MAX || self.others.is_some() || wanted >= self.of.len() / 4 {
            let mut all = self.all()?;
            let wanted = wanted.min(all.len() as u64);
            for place in 0..wanted {
                let other = rng.between(place, all.len() as u64 - 1);
                all.swap(place as usize, other as usize);
            }
            all.truncate(wanted as usize);
            return Ok(all);
        }
        let mut chosen: BTreeMap<Blob, Blob> = BTreeMap::new();
        let mut bytes = 0;
        // At most a quarter is wanted, so a draw is new more often than not, unless the hashes are crowded: then their neighbours do.
        for draw in 0..wanted.saturating_mul(4) {
            if chosen.len() as u64 >= wanted {
                break;
            }
            let Some((order, name, value)) = self.near(rng) else { break };
            let (name, value) = if draw >= wanted * 2 && chosen.contains_key(&name) {
                let mut behind = self.collections.drawn_from(self.of, order);
                let near = behind.find(|(_, name, _)| !chosen.contains_key(name));
                near.map_or((name, value), |(_, name, value)| (name, value))
            } else {
                (name, value)
            };
            bytes += (name.len() + value.len()) as u64;
            if bytes > self.collections.meter.answer_max() {
                return Err(TOO_LARGE);
            }
            chosen.insert(name, value);
        }
        if (chosen.len() as u64) < wanted {
            let all = self.collections.drawn_from(self.of, 0).map(|(_, name, value)| (name, value));
            let more: Drawn = all
                .filter(|(name, _)| !chosen.contains_key(name))
                .take((wanted - chosen.len() as u64) as usize)
                .collect();
            chosen.extend(more);
        }
        Ok(chosen.into_iter().collect())
    }

    /// One of the elements at or behind a place by chance; behind the last comes the first.
    fn near(&self, rng: &mut Rng) -> Option<(u64, Blob, Blob)> {
        let (place, further) = (rng.next_u64(), rng.below(NEIGHBOURS) as usize);
        let behind = self.collections.drawn_from(self.of, place);
        behind.chain(self.collections.drawn_from(self.of, 0)).nth(further)
    }
}
