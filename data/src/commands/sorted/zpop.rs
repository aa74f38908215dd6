//! `ZPOPMIN key [count]`, `ZPOPMAX key [count]`

use super::bounds::{answer, read_ranks};
use crate::args::parse_integer;
use crate::commands::prelude::*;
use crate::commands::set::spop::AT_ONCE_MAX;

/// Takes out the members with the lowest scores.
pub struct ZPopMin<'a>(Popped<'a>);

/// Takes out the members with the highest scores.
pub struct ZPopMax<'a>(Popped<'a>);

struct Popped<'a> {
    key: KeyRef<'a>,
    /// None: one member, and not a list of them.
    count: Option<i64>,
}

impl<'a> Popped<'a> {
    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let key = args.key(1)?;
        match args.len() {
            2 => Ok(Popped { key, count: None }),
            3 => {
                let count = parse_integer(args.get(2)?).filter(|count| *count >= 0);
                let count = count.ok_or(Failure::Text("ERR value is out of range, must be positive"))?;
                Ok(Popped { key, count: Some(count) })
            }
            _ => Err(Failure::Syntax),
        }
    }

    fn apply(self, tx: &mut Transaction<'_>, highest: bool) -> Result<Reply, Failure> {
        let popped = pop(tx, self.key, highest, self.count.unwrap_or(1) as u64)?.unwrap_or_default();
        Ok(match (self.count, popped.first()) {
            // In RESP3, too, one member and its score are no list of pairs.
            (None, Some((member, score))) => Reply::Array(vec![Reply::Bulk(member.clone()), Reply::Double(*score)]),
            _ => answer(popped, true),
        })
    }
}

/// Takes out up to `count` members from an end of a sorted set; none if there is no such set.
pub(crate) fn pop(
    tx: &mut Transaction<'_>,
    key: KeyRef<'_>,
    highest: bool,
    count: u64,
) -> Result<Option<Vec<(Blob, f64)>>, Failure> {
    let Some(of) = tx.collection(key, Kind::SortedSet)? else { return Ok(None) };
    let count = count.min(of.len());
    let ranks = if highest { (of.len() - count, of.len()) } else { (0, count) };
    let popped = read_ranks(&tx.tree().collections, of, ranks, highest)?;
    if popped.len() as u64 == of.len() && popped.len() > AT_ONCE_MAX {
        tx.remove(key);
    } else {
        tx.edit_sorted(key, |set| {
            for (member, _) in &popped {
                set.remove_scored(member);
            }
            Ok(())
        })?;
    }
    Ok(Some(popped))
}

impl<'a> WriteCommand<'a> for ZPopMin<'a> {
    const SPEC: Spec = Spec {
        name: "zpopmin",
        arity: -2,
        flags: Flags::WRITE.and(Flags::OFTEN_NOTHING).and(Flags::FAST).and(Flags::BOUNDED),
        keys: Keys::ONE,
        group: Group::SortedSet,
        since: "5.0.0",
        complexity: "O(M*log(N)) where N is the size of the sorted set and M how many members are removed",
        summary: "Removes the members with the lowest scores from a sorted set and returns them.",
        arguments: "key [count]",
        example: "ZPOPMIN scores 2",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Popped::parse(args).map(ZPopMin)
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        self.0.apply(tx, false)
    }
}

impl<'a> WriteCommand<'a> for ZPopMax<'a> {
    const SPEC: Spec = Spec {
        name: "zpopmax",
        arity: -2,
        flags: Flags::WRITE.and(Flags::OFTEN_NOTHING).and(Flags::FAST).and(Flags::BOUNDED),
        keys: Keys::ONE,
        group: Group::SortedSet,
        since: "5.0.0",
        complexity: "O(M*log(N)) where N is the size of the sorted set and M how many members are removed",
        summary: "Removes the members with the highest scores from a sorted set and returns them.",
        arguments: "key [count]",
        example: "ZPOPMAX scores 2",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Popped::parse(args).map(ZPopMax)
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        self.0.apply(tx, true)
    }
}
