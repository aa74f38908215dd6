//! `DIGEST key`

use crate::commands::prelude::*;
use base::checksum::xxh3;

/// The hash of a string, for conditions such as `SET … IFDEQ`.
pub struct Digest<'a> {
    key: KeyRef<'a>,
}

impl<'a> ReadCommand<'a> for Digest<'a> {
    const SPEC: Spec = Spec {
        name: "digest",
        arity: 2,
        flags: Flags::READONLY.and(Flags::FAST),
        keys: Keys::ONE,
        group: Group::String,
        since: "8.4.0",
        complexity: "O(N) where N is the length of the string",
        summary: "Answers the XXH3-64 hash of a string in hexadecimal digits.",
        arguments: "key",
        example: "DIGEST greeting",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(Digest { key: args.key(1)? })
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        let digest = view.string(self.key)?.map(|bytes| format!("{:016x}", xxh3(&bytes)));
        Ok(Reply::bulk_or_nil(digest.map(Blob::from)))
    }
}
