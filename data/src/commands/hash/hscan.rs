//! `HSCAN key cursor [MATCH pattern] [COUNT count] [NOVALUES]`
//!
//! A cursor is the hash of a field: the page begins with the first field at or behind it. Fields never move, so one that is there all the
//! time is met exactly once, on whichever node each page is answered. Fields of one hash are always in one page.

use crate::algorithms::glob::Glob;
use crate::commands::key::scan::{COUNT_DEFAULT, parse_cursor, parse_pattern};
use crate::commands::prelude::*;

/// A page ends behind the field with which its answer has so many bytes, whatever `COUNT` says.
const PAGE_BYTES: usize = 1024 * 1024;

/// A page of the fields.
pub struct HScan<'a> {
    key: KeyRef<'a>,
    cursor: u64,
    glob: Option<Glob>,
    count: usize,
    with_values: bool,
}

impl<'a> ReadCommand<'a> for HScan<'a> {
    const SPEC: Spec = Spec {
        name: "hscan",
        arity: -3,
        flags: Flags::READONLY,
        keys: Keys::ONE,
        group: Group::Hash,
        since: "2.8.0",
        complexity: "O(1) for each call; O(N) for all fields, where N is their number",
        summary: "Walks through the fields of a hash, a page at a time: begin with cursor 0, go on until it comes back as 0.",
        arguments: "key cursor [MATCH pattern] [COUNT count] [NOVALUES]",
        example: "HSCAN user:7 0 MATCH n* COUNT 100",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let cursor = parse_cursor(args.get(2)?).ok_or(Failure::Text("ERR invalid cursor"))?;
        let mut scan = HScan { key: args.key(1)?, cursor, glob: None, count: COUNT_DEFAULT, with_values: true };
        let mut index = 3;
        while index < args.len() {
            if args.is(index, "NOVALUES") {
                scan.with_values = false;
                index += 1;
                continue;
            }
            if index + 1 == args.len() {
                return Err(Failure::Syntax);
            }
            if args.is(index, "COUNT") {
                let count = args.integer(index + 1)?;
                scan.count = usize::try_from(count).ok().filter(|count| *count > 0).ok_or(Failure::Syntax)?;
            } else if args.is(index, "MATCH") {
                scan.glob = Some(parse_pattern(args.get(index + 1)?)?);
            } else {
                return Err(Failure::Syntax);
            }
            index += 2;
        }
        Ok(scan)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        let mut found = Vec::new();
        let mut next = 0;
        let mut last = None;
        let mut bytes = 0;
        let elements = view.hash(self.key)?.map(|hash| view.elements(hash, self.cursor));
        for (looked_at, (order, field, value)) in elements.into_iter().flatten().enumerate() {
            if (looked_at >= self.count || bytes >= PAGE_BYTES) && last != Some(order) {
                next = order;
                break;
            }
            last = Some(order);
            if self.glob.as_ref().is_none_or(|glob| glob.matches(&field)) {
                bytes += field.len();
                found.push(Reply::Bulk(field));
                if self.with_values {
                    bytes += value.len();
                    found.push(Reply::Bulk(value));
                }
            }
        }
        Ok(Reply::Array(vec![Reply::bulk(next.to_string()), Reply::Array(found)]))
    }
}
