//! `SPOP key [count]`

use crate::args::parse_integer;
use crate::commands::elements::chance::Urn;
use crate::commands::prelude::*;

/// If all members go and are more than this, the set is given up as a whole.
pub(crate) const AT_ONCE_MAX: usize = 100;

/// Takes members out by chance: that of the entry, so that all replicas take the same.
pub struct SPop<'a> {
    key: KeyRef<'a>,
    /// None: one member, and not a list.
    count: Option<i64>,
}

impl<'a> WriteCommand<'a> for SPop<'a> {
    const SPEC: Spec = Spec {
        name: "spop",
        arity: -2,
        flags: Flags::WRITE.and(Flags::OFTEN_NOTHING).and(Flags::FAST).and(Flags::BOUNDED),
        keys: Keys::ONE,
        group: Group::Set,
        since: "1.0.0",
        complexity: "O(N) where N is the number of members that are removed",
        summary: "Removes members of a set by chance and returns them.",
        arguments: "key [count]",
        example: "SPOP fruits 2",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let key = args.key(1)?;
        match args.len() {
            2 => Ok(SPop { key, count: None }),
            3 => {
                let count = parse_integer(args.get(2)?).filter(|count| *count >= 0);
                let count = count.ok_or(Failure::Text("ERR value is out of range, must be positive"))?;
                Ok(SPop { key, count: Some(count) })
            }
            _ => Err(Failure::Syntax),
        }
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let Some(of) = tx.collection(self.key, Kind::Set)? else {
            return Ok(self.count.map_or(Reply::Nil, |_| Reply::Set(Vec::new())));
        };
        tx.tree_mut().collections.learn_few(of);
        let mut rng = tx.rng().clone();
        let urn = Urn { collections: &tx.tree().collections, kind: Kind::Set, of, others: None };
        let drawn = match self.count {
            Some(count) => urn.draw(count, &mut rng)?,
            None => urn.one(&mut rng).into_iter().collect(),
        };
        *tx.rng() = rng;
        if drawn.len() as u64 == of.len() && drawn.len() > AT_ONCE_MAX {
            // Then they are reclaimed little by little.
            tx.remove(self.key);
        } else {
            tx.edit_set(self.key, |set| {
                drawn.iter().for_each(|(member, _)| drop(set.remove(member)));
                Ok(())
            })?;
        }
        let mut members = drawn.into_iter().map(|(member, _)| member);
        Ok(match self.count {
            Some(_) => Reply::Set(members.map(Reply::Bulk).collect()),
            None => Reply::bulk_or_nil(members.next()),
        })
    }
}
