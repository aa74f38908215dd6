//! `LPUSH key element [element ...]`, `RPUSH`, `LPUSHX`, `RPUSHX`

use crate::commands::prelude::*;
use crate::transaction::End;

struct Elements<'a> {
    key: KeyRef<'a>,
    elements: &'a [&'a [u8]],
}

impl<'a> Elements<'a> {
    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(Elements { key: args.key(1)?, elements: args.from(2) })
    }

    /// Adds them one by one at an end; answers how many the list has then.
    fn push(self, tx: &mut Transaction<'_>, end: End) -> Result<Reply, Failure> {
        tx.edit_list(self.key, |list| {
            list.check_room(self.elements.len())?;
            self.elements.iter().for_each(|element| list.push(end, *element));
            Ok(Reply::Integer(list.len() as i64))
        })
    }

    /// The same, if there is a list.
    fn push_to_list(self, tx: &mut Transaction<'_>, end: End) -> Result<Reply, Failure> {
        if tx.list(self.key)?.is_some() { self.push(tx, end) } else { Ok(Reply::Integer(0)) }
    }
}

/// Adds elements at the beginning, one by one: the last one comes to stand first.
pub struct LPush<'a>(Elements<'a>);

impl<'a> WriteCommand<'a> for LPush<'a> {
    const SPEC: Spec = Spec {
        name: "lpush",
        arity: -3,
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST).and(Flags::BOUNDED),
        keys: Keys::ONE,
        group: Group::List,
        since: "1.0.0",
        complexity: "O(1) for each element",
        summary: "Adds elements at the beginning of a list, one by one, and returns how many it has. Creates the list if it does not exist.",
        arguments: "key element [element ...]",
        example: "LPUSH queue a b c",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Elements::parse(args).map(LPush)
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        self.0.push(tx, End::Left)
    }
}

/// Adds elements at the end.
pub struct RPush<'a>(Elements<'a>);

impl<'a> WriteCommand<'a> for RPush<'a> {
    const SPEC: Spec = Spec {
        name: "rpush",
        arity: -3,
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST).and(Flags::BOUNDED),
        keys: Keys::ONE,
        group: Group::List,
        since: "1.0.0",
        complexity: "O(1) for each element",
        summary: "Adds elements at the end of a list and returns how many it has. Creates the list if it does not exist.",
        arguments: "key element [element ...]",
        example: "RPUSH queue a b c",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Elements::parse(args).map(RPush)
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        self.0.push(tx, End::Right)
    }
}

/// As LPUSH, if there is a list.
pub struct LPushX<'a>(Elements<'a>);

impl<'a> WriteCommand<'a> for LPushX<'a> {
    const SPEC: Spec = Spec {
        name: "lpushx",
        arity: -3,
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST).and(Flags::BOUNDED),
        keys: Keys::ONE,
        group: Group::List,
        since: "2.2.0",
        complexity: "O(1) for each element",
        summary: "Adds elements at the beginning of a list that exists, and returns how many it has.",
        arguments: "key element [element ...]",
        example: "LPUSHX queue a b c",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Elements::parse(args).map(LPushX)
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        self.0.push_to_list(tx, End::Left)
    }
}

/// As RPUSH, if there is a list.
pub struct RPushX<'a>(Elements<'a>);

impl<'a> WriteCommand<'a> for RPushX<'a> {
    const SPEC: Spec = Spec {
        name: "rpushx",
        arity: -3,
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST).and(Flags::BOUNDED),
        keys: Keys::ONE,
        group: Group::List,
        since: "2.2.0",
        complexity: "O(1) for each element",
        summary: "Adds elements at the end of a list that exists, and returns how many it has.",
        arguments: "key element [element ...]",
        example: "RPUSHX queue a b c",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Elements::parse(args).map(RPushX)
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        self.0.push_to_list(tx, End::Right)
    }
}
