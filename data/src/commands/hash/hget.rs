//! `HGET key field`, `HMGET key field [field ...]`, `HEXISTS key field`, `HSTRLEN key field`

use super::field_value;
use crate::commands::prelude::*;

/// The value of a field.
pub struct HGet<'a>(Field<'a>);

/// Whether a field exists.
pub struct HExists<'a>(Field<'a>);

/// How long the value of a field is.
pub struct HStrLen<'a>(Field<'a>);

struct Field<'a> {
    key: KeyRef<'a>,
    field: &'a [u8],
}

impl<'a> Field<'a> {
    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(Field { key: args.key(1)?, field: args.field(2)? })
    }

    fn value(&self, view: &View<'_>) -> Result<Option<Blob>, Failure> {
        Ok(view.hash(self.key)?.and_then(|hash| field_value(view, hash, self.field)))
    }
}

impl<'a> ReadCommand<'a> for HGet<'a> {
    const SPEC: Spec = Spec {
        name: "hget",
        arity: 3,
        flags: Flags::READONLY.and(Flags::FAST),
        keys: Keys::ONE,
        group: Group::Hash,
        since: "2.0.0",
        complexity: "O(1)",
        summary: "Returns the value of a field of a hash.",
        arguments: "key field",
        example: "HGET user:7 name",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Field::parse(args).map(HGet)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        Ok(Reply::bulk_or_nil(self.0.value(view)?))
    }
}

impl<'a> ReadCommand<'a> for HExists<'a> {
    const SPEC: Spec = Spec {
        name: "hexists",
        arity: 3,
        flags: Flags::READONLY.and(Flags::FAST),
        keys: Keys::ONE,
        group: Group::Hash,
        since: "2.0.0",
        complexity: "O(1)",
        summary: "Says whether a field exists in a hash.",
        arguments: "key field",
        example: "HEXISTS user:7 name",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Field::parse(args).map(HExists)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        Ok(Reply::one_if(self.0.value(view)?.is_some()))
    }
}

impl<'a> ReadCommand<'a> for HStrLen<'a> {
    const SPEC: Spec = Spec {
        name: "hstrlen",
        arity: 3,
        flags: Flags::READONLY.and(Flags::FAST),
        keys: Keys::ONE,
        group: Group::Hash,
        since: "3.2.0",
        complexity: "O(1)",
        summary: "Returns the length of the value of a field of a hash.",
        arguments: "key field",
        example: "HSTRLEN user:7 name",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Field::parse(args).map(HStrLen)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        Ok(Reply::count(self.0.value(view)?.map_or(0, |value| value.len())))
    }
}

/// The values of several fields; nil where there is no such field.
pub struct HMGet<'a> {
    key: KeyRef<'a>,
    fields: &'a [&'a [u8]],
}

impl<'a> ReadCommand<'a> for HMGet<'a> {
    const SPEC: Spec = Spec {
        name: "hmget",
        arity: -3,
        flags: Flags::READONLY.and(Flags::FAST),
        keys: Keys::ONE,
        group: Group::Hash,
        since: "2.0.0",
        complexity: "O(N) where N is the number of fields",
        summary: "Returns the values of several fields of a hash.",
        arguments: "key field [field ...]",
        example: "HMGET user:7 name age",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(HMGet { key: args.key(1)?, fields: args.fields_from(2)? })
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        let hash = view.hash(self.key)?;
        let value = |field: &&[u8]| {
            let found = hash.and_then(|hash| field_value(view, hash, field));
            // One field may be asked for many times.
            let bytes = found.as_ref().map_or(0, |value| value.len());
            view.meter().bytes(bytes);
            view.meter().put(bytes as u64).then(|| Reply::bulk_or_nil(found))
        };
        Ok(Reply::Array(self.fields.iter().map_while(value).collect()))
    }
}
