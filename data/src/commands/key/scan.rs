//! `SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]`
//!
//! A cursor stands for a store order (see [`StoreKey`] and [`crate::cursor`]): the page begins with the first key at or behind it. Keys never move
//! in the store, so one that is there all the time is met exactly once, on whichever node each page is answered.

use crate::algorithms::glob::Glob;
use crate::commands::prelude::*;
use crate::cursor::{self, Among};
use crate::reply::ITEM_BYTES;
use crate::store::{StoreKey, first_order};
use base::versions::Feature;
use std::ops::Bound;

/// Keys or fields looked at for one page, unless the client asks for another number: that of Redis.
pub(crate) const COUNT_DEFAULT: usize = 10;
/// Longest pattern, in bytes: matching takes time in proportion to pattern and key, and a compiled pattern takes up to
/// twenty times its length. No pattern that anybody wrote comes near.
const PATTERN_BYTES_MAX: usize = 1024 * 1024;
/// A page ends behind the key with which its answer has so many bytes, whatever `COUNT` says.
const PAGE_BYTES: u64 = 16 * 1024 * 1024;

/// A page of the keys.
pub struct Scan<'a> {
    cursor: u64,
    glob: Option<Glob>,
    count: usize,
    type_name: Option<&'a [u8]>,
}

impl<'a> ReadCommand<'a> for Scan<'a> {
    const SPEC: Spec = Spec {
        name: "scan",
        arity: -2,
        flags: Flags::READONLY,
        keys: Keys::None,
        group: Group::Generic,
        since: "2.8.0",
        complexity: "O(1) for each call; O(N) for all keys, where N is their number",
        summary: "Walks through all keys, a page at a time: begin with cursor 0, go on until it comes back as 0.",
        arguments: "cursor [MATCH pattern] [COUNT count] [TYPE type]",
        example: "SCAN 0 MATCH user:* COUNT 100",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let cursor = cursor::parse(args.get(1)?).ok_or(Failure::Text("ERR invalid cursor"))?;
        let mut scan = Scan { cursor, glob: None, count: COUNT_DEFAULT, type_name: None };
        let mut index = 2;
        while index < args.len() {
            if index + 1 == args.len() {
                return Err(Failure::Syntax);
            }
            if args.is(index, "COUNT") {
                let count = args.integer(index + 1)?;
                scan.count = usize::try_from(count).ok().filter(|count| *count > 0).ok_or(Failure::Syntax)?;
            } else if args.is(index, "MATCH") {
                scan.glob = Some(parse_pattern(args.get(index + 1)?)?);
            } else if args.is(index, "TYPE") {
                scan.type_name = Some(args.get(index + 1)?);
            } else {
                return Err(Failure::Syntax);
            }
            index += 2;
        }
        Ok(scan)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        let glob = self.glob.unwrap_or_else(|| Glob::new(b"*"));
        let mut found = Vec::new();
        let mut next = 0;
        let mut last = None;
        let version = view.version();
        let bytes_max =
            if Feature::Budgets.is_in(version) { PAGE_BYTES.min(view.meter().answer_max()) } else { u64::MAX };
        let mut bytes = 0;
        let start = Among::Keys.place_of(self.cursor, version);
        for (looked_at, (key, record, matches)) in records_matching(view, &glob, start).enumerate() {
            let may_end = last.is_none_or(|last| Among::Keys.parts(last, key.order, version));
            if (looked_at >= self.count || bytes >= bytes_max) && may_end {
                next = Among::Keys.cursor_of(key.order, version);
                break;
            }
            last = Some(key.order);
            let type_fits =
                self.type_name.is_none_or(|name| record.value.type_name().as_bytes().eq_ignore_ascii_case(name));
            if matches && type_fits {
                bytes += key.key.len() as u64 + ITEM_BYTES;
                found.push(Reply::Bulk(key.key));
            }
        }
        Ok(Reply::Array(vec![Reply::bulk(next.to_string()), Reply::Array(found)]))
    }
}

/// A pattern of keys.
pub(crate) fn parse_pattern(pattern: &[u8]) -> Result<Glob, Failure> {
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(Failure::Text("ERR the pattern is longer than 1048576 bytes"));
    }
    Ok(Glob::new(pattern))
}

/// The records from store order `from` on among which matches can be, and whether each one matches.
///
/// A pattern that fixes a hash tag, such as `{user:7}:*`, can match in one hash slot only.
pub(crate) fn records_matching<'v>(
    view: &'v View<'_>,
    glob: &'v Glob,
    from: u64,
) -> impl Iterator<Item = (StoreKey, Record, bool)> {
    let slot = hash_slot_of(glob);
    let from = slot.map_or(from, |slot| from.max(first_order(slot)));
    let end = slot.map_or(u64::MAX, |slot| first_order(slot + 1));
    view.records(Bound::Included(KeyRef { order: from, key: b"" })).take_while(move |(key, _)| key.order < end).map(
        |(key, record)| {
            let matches = glob.matches_within(&key.key, view.meter());
            (key, record, matches)
        },
    )
}

/// The only hash slot in which keys can match, if the pattern begins with a literal that holds a whole hash tag.
fn hash_slot_of(glob: &Glob) -> Option<u16> {
    let prefix = glob.literal_prefix();
    let open = prefix.iter().position(|&byte| byte == b'{')?;
    let close = prefix[open..].iter().position(|&byte| byte == b'}')?;
    (close > 1).then(|| base::slots::hash_slot(&prefix))
}
