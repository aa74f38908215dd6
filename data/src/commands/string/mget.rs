//! `MGET key [key ...]`

use crate::commands::prelude::*;

/// The values of several keys; nil where a key does not exist or holds no string.
pub struct MGet<'a> {
    keys: &'a [&'a [u8]],
}

impl<'a> ReadCommand<'a> for MGet<'a> {
    const SPEC: Spec = Spec {
        name: "mget",
        arity: -2,
        flags: Flags::READONLY.and(Flags::FAST),
        keys: Keys::ALL,
        group: Group::String,
        since: "1.0.0",
        complexity: "O(N) where N is the number of keys.",
        summary: "Returns the string values of several keys, all at one moment.",
        arguments: "key [key ...]",
        example: "MGET a b c",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(MGet { keys: args.from(1) })
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        let value = |key: &&[u8]| {
            let found = view.string(KeyRef::new(key)).unwrap_or(None);
            // One key may be asked for many times.
            let fits = view.meter().put(found.as_ref().map_or(0, |value| value.len() as u64));
            fits.then(|| Reply::bulk_or_nil(found))
        };
        Ok(Reply::Array(self.keys.iter().map_while(value).collect()))
    }
}
