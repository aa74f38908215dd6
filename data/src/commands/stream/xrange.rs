//! `XRANGE key start end [COUNT count]`, `XREVRANGE key end start [COUNT count]`

use super::ids;
use crate::commands::prelude::*;
use crate::value::StreamId;

struct Part<'a> {
    key: KeyRef<'a>,
    start: StreamId,
    end: StreamId,
    /// None: all.
    count: Option<usize>,
}

impl<'a> Part<'a> {
    fn parse(args: Args<'a>, is_backwards: bool) -> Result<Self, Failure> {
        let (start, end) = if is_backwards { (3, 2) } else { (2, 3) };
        let (start, end) = (ids::interval_start(args, start)?, ids::interval_end(args, end)?);
        let mut count = None;
        for index in (4..args.len()).step_by(2) {
            if !args.is(index, "COUNT") || index + 1 == args.len() {
                return Err(Failure::Syntax);
            }
            count = Some(usize::try_from(args.integer(index + 1)?).unwrap_or(0));
        }
        Ok(Part { key: args.key(1)?, start, end, count })
    }

    fn read(self, view: &View<'_>, is_backwards: bool) -> Result<Reply, Failure> {
        let Some(stream) = view.stream(self.key)? else { return Ok(Reply::Array(Vec::new())) };
        if self.count == Some(0) {
            return Ok(Reply::NilArray);
        }
        let count = self.count.unwrap_or(usize::MAX);
        let collections = view.collections();
        let found: Box<dyn Iterator<Item = (StreamId, Blob)>> = if self.start > self.end {
            Box::new(std::iter::empty())
        } else if is_backwards {
            Box::new(collections.entries_backwards(&stream, self.end).take_while(|(id, _)| *id >= self.start))
        } else {
            Box::new(collections.entries(&stream, self.start).take_while(|(id, _)| *id <= self.end))
        };
        let (mut entries, mut bytes) = (Vec::new(), 0);
        for (id, value) in found.take(count) {
            bytes += value.len() as u64;
            if bytes > view.meter().answer_max() {
                return Err(Kind::Stream.is_too_large());
            }
            let entry = ids::entry_reply(id, &value);
            if !view.meter().put(entry.bytes()) {
                break;
            }
            entries.push(entry);
        }
        Ok(Reply::Array(entries))
    }
}

/// Entries of an interval.
pub struct XRange<'a>(Part<'a>);

impl<'a> ReadCommand<'a> for XRange<'a> {
    const SPEC: Spec = Spec {
        name: "xrange",
        arity: -4,
        flags: Flags::READONLY,
        keys: Keys::ONE,
        group: Group::Stream,
        since: "5.0.0",
        complexity: "O(N) where N is the number of entries returned",
        summary: "Returns the entries of a stream whose identifiers are in an interval.",
        arguments: "key start end [COUNT count]",
        example: "XRANGE readings - +\nXRANGE readings (1700000000000-0 + COUNT 10",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Part::parse(args, false).map(XRange)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        self.0.read(view, false)
    }
}

/// The same backwards.
pub struct XRevRange<'a>(Part<'a>);

impl<'a> ReadCommand<'a> for XRevRange<'a> {
    const SPEC: Spec = Spec {
        name: "xrevrange",
        arity: -4,
        flags: Flags::READONLY,
        keys: Keys::ONE,
        group: Group::Stream,
        since: "5.0.0",
        complexity: "O(N) where N is the number of entries returned, and up to 100 more",
        summary: "Returns the entries of a stream whose identifiers are in an interval, the last one first.",
        arguments: "key end start [COUNT count]",
        example: "XREVRANGE readings + - COUNT 1",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Part::parse(args, true).map(XRevRange)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        self.0.read(view, true)
    }
}
