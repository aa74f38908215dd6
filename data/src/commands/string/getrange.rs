//! `GETRANGE key start end`, and `SUBSTR`, its older name

use crate::commands::prelude::*;

/// Part of a string.
pub struct GetRange<'a> {
    key: KeyRef<'a>,
    start: i64,
    end: i64,
}

/// The same under its older name.
pub struct SubStr<'a>(GetRange<'a>);

impl<'a> ReadCommand<'a> for GetRange<'a> {
    const SPEC: Spec = Spec {
        name: "getrange",
        arity: 4,
        flags: Flags::READONLY,
        keys: Keys::ONE,
        group: Group::String,
        since: "2.4.0",
        complexity: "O(N) where N is the length of the answer.",
        summary: "Returns the bytes of a string from one offset to another; negative offsets count from its end.",
        arguments: "key start end",
        example: "GETRANGE greeting 0 3",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(GetRange { key: args.key(1)?, start: args.integer(2)?, end: args.integer(3)? })
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        let bytes = view.string(self.key)?.unwrap_or_default();
        let length = bytes.len() as i64;
        if length == 0 || (self.start < 0 && self.end < 0 && self.start > self.end) {
            return Ok(Reply::Bulk(Blob::EMPTY));
        }
        let from_start = |offset: i64| if offset < 0 { offset.saturating_add(length).max(0) } else { offset };
        let (start, end) = (from_start(self.start), from_start(self.end).min(length - 1));
        if start > end {
            return Ok(Reply::Bulk(Blob::EMPTY));
        }
        Ok(Reply::bulk(&bytes[start as usize..=end as usize]))
    }
}

impl<'a> ReadCommand<'a> for SubStr<'a> {
    const SPEC: Spec = Spec {
        name: "substr",
        arity: 4,
        flags: Flags::READONLY,
        keys: Keys::ONE,
        group: Group::String,
        since: "1.0.0",
        complexity: "O(N) where N is the length of the answer.",
        summary: "Returns part of a string: the older name of GETRANGE.",
        arguments: "key start end",
        example: "SUBSTR greeting 0 3",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        GetRange::parse(args).map(SubStr)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        self.0.read(view)
    }
}
