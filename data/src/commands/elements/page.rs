//! Pages of a collection whose elements are found by their names: `HSCAN`, `SSCAN`, `ZSCAN`.
//!
//! A cursor stands for the hash of a name (see [`crate::cursor`]): the page begins with the first element at or behind it. Elements never move, so one
//! that is there all the time is met exactly once, on whichever node each page is answered.

use crate::algorithms::glob::Glob;
use crate::collections::ranked::Standing;
use crate::commands::key::scan::{COUNT_DEFAULT, parse_pattern};
use crate::commands::prelude::*;
use crate::cursor::{self, Among};
use crate::kept::long_name_bytes;
use base::versions::Feature;

/// A page ends behind the element with which its answer has so many bytes, whatever `COUNT` says.
const PAGE_BYTES: usize = 1024 * 1024;

/// What was asked for.
pub(crate) struct Page<'a> {
    key: KeyRef<'a>,
    kind: Kind,
    cursor: u64,
    glob: Option<Glob>,
    count: usize,
    with_values: bool,
}

impl<'a> Page<'a> {
    /// `key cursor [MATCH pattern] [COUNT count]`, and of a hash `[NOVALUES]`.
    pub(crate) fn parse(args: Args<'a>, kind: Kind) -> Result<Self, Failure> {
        let cursor = cursor::parse(args.get(2)?).ok_or(Failure::Text("ERR invalid cursor"))?;
        let has_values = kind != Kind::Set;
        let key = args.key(1)?;
        let mut page = Page { key, kind, cursor, glob: None, count: COUNT_DEFAULT, with_values: has_values };
        let mut index = 3;
        while index < args.len() {
            if kind == Kind::Hash && args.is(index, "NOVALUES") {
                page.with_values = false;
                index += 1;
                continue;
            }
            if index + 1 == args.len() {
                return Err(Failure::Syntax);
            }
            if args.is(index, "COUNT") {
                let count = args.integer(index + 1)?;
                page.count = usize::try_from(count).ok().filter(|count| *count > 0).ok_or(Failure::Syntax)?;
            } else if args.is(index, "MATCH") {
                page.glob = Some(parse_pattern(args.get(index + 1)?)?);
            } else {
                return Err(Failure::Syntax);
            }
            index += 2;
        }
        Ok(page)
    }

    pub(crate) fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        let mut found = Vec::new();
        let mut next = 0;
        let mut last = None;
        let (mut bytes, mut looked_at_bytes) = (0, 0);
        let bytes_max = PAGE_BYTES.min(usize::try_from(view.meter().answer_max()).unwrap_or(usize::MAX));
        let version = view.version();
        let start = Among::Elements.place_of(self.cursor, version);
        let elements = view.collection(self.key, self.kind)?.map(|of| view.elements(of, start));
        for (looked_at, (order, name, value)) in elements.into_iter().flatten().enumerate() {
            let may_end = last.is_none_or(|last| Among::Elements.parts(last, order, version));
            if (looked_at >= self.count || bytes.max(looked_at_bytes) >= bytes_max) && may_end {
                next = Among::Elements.cursor_of(order, version);
                break;
            }
            last = Some(order);
            // What is not answered is looked at all the same.
            looked_at_bytes += long_name_bytes(&name);
            if self.glob.as_ref().is_none_or(|glob| glob.matches_within(&name, view.meter())) {
                bytes += name.len();
                found.push(Reply::Bulk(name));
                if self.with_values {
                    bytes += value.len();
                    found.push(match self.kind {
                        Kind::SortedSet => Standing::read(&value).map_or(Reply::Nil, |at| score(at.score, version)),
                        _ => Reply::Bulk(value),
                    });
                }
            }
        }
        Ok(Reply::Array(vec![Reply::bulk(next.to_string()), Reply::Array(found)]))
    }
}

/// A score is a string here in RESP3, too.
fn score(score: f64, version: u16) -> Reply {
    if !Feature::AsRedis.is_in(version) {
        return Reply::Double(score);
    }
    let mut text = Vec::new();
    base::number::format_double(&mut text, score);
    Reply::bulk(text)
}
