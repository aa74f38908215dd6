//! `LPOP key [count]`, `RPOP key [count]`

use super::ELEMENT_BYTES;
use crate::args::parse_integer;
use crate::commands::prelude::*;
use crate::commands::set::spop::AT_ONCE_MAX;
use crate::transaction::End;
use base::limits::REPLY_BYTES_MAX;

struct Popped<'a> {
    key: KeyRef<'a>,
    /// None: one element, and not a list of them.
    count: Option<u64>,
}

impl<'a> Popped<'a> {
    fn parse(args: Args<'a>, spec: &'static Spec) -> Result<Self, Failure> {
        let count = match args.len() {
            2 => None,
            3 => {
                let count = parse_integer(args.get(2)?).and_then(|count| u64::try_from(count).ok());
                Some(count.ok_or(Failure::Text("ERR value is out of range, must be positive"))?)
            }
            _ => return Err(spec.wrong_arity()),
        };
        Ok(Popped { key: args.key(1)?, count })
    }

    fn apply(self, tx: &mut Transaction<'_>, end: End) -> Result<Reply, Failure> {
        let popped = pop(tx, self.key, end, self.count.unwrap_or(1))?;
        Ok(match (self.count, popped) {
            (None, popped) => Reply::bulk_or_nil(popped.and_then(|elements| elements.into_iter().next())),
            (Some(_), None) => Reply::NilArray,
            (Some(_), Some(elements)) => Reply::Array(elements.into_iter().map(Reply::Bulk).collect()),
        })
    }
}

/// Takes out up to `count` elements from an end of a list; none if there is no such list.
pub(crate) fn pop(
    tx: &mut Transaction<'_>,
    key: KeyRef<'_>,
    end: End,
    count: u64,
) -> Result<Option<Vec<Blob>>, Failure> {
    let Some(list) = tx.list(key)? else { return Ok(None) };
    if count.min(list.len()).saturating_mul(ELEMENT_BYTES) > REPLY_BYTES_MAX {
        return Err(Kind::List.is_too_large());
    }
    if count >= list.len() && list.len() > AT_ONCE_MAX as u64 {
        // All of it goes: as any key does, bit by bit.
        let mut all = Vec::new();
        let collections = &tx.tree().collections;
        all.extend(collections.list_between(list, 0, list.len()));
        if end == End::Right {
            all.reverse();
        }
        tx.remove(key);
        return Ok(Some(all));
    }
    let pop = |list: &mut crate::transaction::ListEdit<'_, '_>| Ok((0..count).map_while(|_| list.pop(end)).collect());
    tx.edit_list(key, pop).map(Some)
}

/// Takes elements out at the beginning.
pub struct LPop<'a>(Popped<'a>);

impl<'a> WriteCommand<'a> for LPop<'a> {
    const SPEC: Spec = Spec {
        name: "lpop",
        arity: -2,
        flags: Flags::WRITE.and(Flags::OFTEN_NOTHING).and(Flags::FAST).and(Flags::BOUNDED),
        keys: Keys::ONE,
        group: Group::List,
        since: "1.0.0",
        complexity: "O(N) where N is the number of elements returned",
        summary: "Removes elements at the beginning of a list and returns them.",
        arguments: "key [count]",
        example: "LPOP queue 2",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Popped::parse(args, &Self::SPEC).map(LPop)
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        self.0.apply(tx, End::Left)
    }
}

/// Takes elements out at the end.
pub struct RPop<'a>(Popped<'a>);

impl<'a> WriteCommand<'a> for RPop<'a> {
    const SPEC: Spec = Spec {
        name: "rpop",
        arity: -2,
        flags: Flags::WRITE.and(Flags::OFTEN_NOTHING).and(Flags::FAST).and(Flags::BOUNDED),
        keys: Keys::ONE,
        group: Group::List,
        since: "1.0.0",
        complexity: "O(N) where N is the number of elements returned",
        summary: "Removes elements at the end of a list and returns them.",
        arguments: "key [count]",
        example: "RPOP queue 2",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Popped::parse(args, &Self::SPEC).map(RPop)
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        self.0.apply(tx, End::Right)
    }
}
