//! `HSET key field value [field value ...]`, `HMSET`, `HSETNX key field value`

use crate::commands::prelude::*;

/// Gives fields values; answers how many of them are new.
pub struct HSet<'a>(Pairs<'a>);

/// The same with another answer.
pub struct HMSet<'a>(Pairs<'a>);

struct Pairs<'a> {
    key: KeyRef<'a>,
    /// Fields and values in turn.
    words: &'a [&'a [u8]],
}

impl<'a> Pairs<'a> {
    fn parse(args: Args<'a>, name: &'static str) -> Result<Self, Failure> {
        let words = args.from(2);
        if !words.len().is_multiple_of(2) {
            return Err(Failure::WrongArity(name));
        }
        for place in (2..args.len()).step_by(2) {
            args.field(place)?;
        }
        Ok(Pairs { key: args.key(1)?, words })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<usize, Failure> {
        tx.edit_hash(self.key, |hash| {
            hash.check_room(self.words.len() / 2)?;
            let pairs = self.words.chunks_exact(2);
            Ok(pairs.filter(|pair| hash.set(pair[0], pair[1])).count())
        })
    }
}

impl<'a> WriteCommand<'a> for HSet<'a> {
    const SPEC: Spec = Spec {
        name: "hset",
        arity: -4,
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST).and(Flags::BOUNDED),
        keys: Keys::ONE,
        group: Group::Hash,
        since: "2.0.0",
        complexity: "O(N) where N is the number of fields",
        summary: "Sets fields of a hash and returns how many of them are new.",
        arguments: "key field value [field value ...]",
        example: "HSET user:7 name Ada age 36",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Pairs::parse(args, "hset").map(HSet)
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        self.0.apply(tx).map(Reply::count)
    }
}

impl<'a> WriteCommand<'a> for HMSet<'a> {
    const SPEC: Spec = Spec {
        name: "hmset",
        arity: -4,
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST).and(Flags::BOUNDED),
        keys: Keys::ONE,
        group: Group::Hash,
        since: "2.0.0",
        complexity: "O(N) where N is the number of fields",
        summary: "Sets fields of a hash.",
        arguments: "key field value [field value ...]",
        example: "HMSET user:7 name Ada age 36",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Pairs::parse(args, "hmset").map(HMSet)
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        self.0.apply(tx).map(|_| Reply::Ok)
    }
}

/// Gives a field a value unless it has one.
pub struct HSetNx<'a> {
    key: KeyRef<'a>,
    field: &'a [u8],
    value: &'a [u8],
}

impl<'a> WriteCommand<'a> for HSetNx<'a> {
    const SPEC: Spec = Spec {
        name: "hsetnx",
        arity: 4,
        flags: Flags::WRITE.and(Flags::OFTEN_NOTHING).and(Flags::DENYOOM).and(Flags::FAST).and(Flags::BOUNDED),
        keys: Keys::ONE,
        group: Group::Hash,
        since: "2.0.0",
        complexity: "O(1)",
        summary: "Sets a field of a hash only when the field does not exist.",
        arguments: "key field value",
        example: "HSETNX user:7 name Ada",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(HSetNx { key: args.key(1)?, field: args.field(2)?, value: args.get(3)? })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        tx.edit_hash(self.key, |hash| {
            if hash.get(self.field).is_some() {
                return Ok(Reply::Integer(0));
            }
            hash.check_room(1)?;
            hash.set(self.field, self.value);
            Ok(Reply::Integer(1))
        })
    }
}
