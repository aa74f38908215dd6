//! `<MAXLEN | MINID> [= | ~] threshold [LIMIT count]`: of XADD and XTRIM.

use super::ids;
use crate::args::parse_integer;
use crate::commands::prelude::*;
use crate::transaction::{Keep, StreamEdit};

/// Most entries that `~` takes out unless it is said otherwise: that of Redis.
const LIMIT_DEFAULT: u64 = 10_000;

/// What is taken out at the front.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Trimming {
    keep: Keep,
    /// Whole blocks, so many entries at most; 0: any number.
    only_blocks: Option<u64>,
}

/// What stands before an identifier or at the end: a trimming, and what else was said.
#[derive(Default)]
pub(crate) struct Options {
    pub trimming: Option<Trimming>,
    /// `NOMKSTREAM`.
    pub needs_stream: bool,
}

impl Options {
    /// Reads options from argument `index` on; the index of the first that is none, where an entry's identifier may stand.
    pub(crate) fn parse(args: Args<'_>, mut index: usize, is_add: bool) -> Result<(Options, usize), Failure> {
        let (mut keep, mut is_about, mut limit, mut needs_stream) = (None, false, None, false);
        while index < args.len() {
            let has_value = index + 1 < args.len();
            if is_add && args.get(index)? == b"*" {
                break;
            } else if has_value && (args.is(index, "MAXLEN") || args.is(index, "MINID")) {
                if keep.is_some() {
                    return Err(Failure::Text(
                        "ERR syntax error, MAXLEN and MINID options at the same time are not compatible",
                    ));
                }
                let by_length = args.is(index, "MAXLEN");
                let mark = args.get(index + 1)?;
                let is_mark = index + 2 < args.len() && matches!(mark, b"~" | b"=");
                is_about = is_mark && mark == b"~";
                index += 1 + usize::from(is_mark);
                keep = Some(if by_length {
                    Keep::Newest(length(args, index)?)
                } else {
                    Keep::From(ids::parse(args.get(index)?, 0)?)
                });
            } else if has_value && args.is(index, "LIMIT") {
                index += 1;
                let given = args.integer(index)?;
                limit = Some(u64::try_from(given).map_err(|_| Failure::Text("ERR The LIMIT argument must be >= 0."))?);
            } else if is_add && args.is(index, "NOMKSTREAM") {
                needs_stream = true;
            } else if is_add {
                break;
            } else {
                return Err(Failure::Syntax);
            }
            index += 1;
        }
        if is_add && index < args.len() {
            // Whatever is wrong with the identifier is said first.
            ids::parse_wanted(args.get(index)?)?;
        }
        let trimming = match (keep, limit) {
            (None, Some(1..)) => {
                return Err(Failure::Text(
                    "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy",
                ));
            }
            (None, _) if !is_add => {
                return Err(Failure::Text("ERR syntax error, XTRIM must be called with a trimming strategy"));
            }
            (_, Some(_)) if !is_about => {
                return Err(Failure::Text("ERR syntax error, LIMIT cannot be used without the special ~ option"));
            }
            (None, _) => None,
            (Some(keep), limit) => {
                Some(Trimming { keep, only_blocks: is_about.then(|| limit.unwrap_or(LIMIT_DEFAULT)) })
            }
        };
        Ok((Options { trimming, needs_stream }, index))
    }
}

fn length(args: Args<'_>, index: usize) -> Result<u64, Failure> {
    let length = parse_integer(args.get(index)?).ok_or(Failure::NotAnInteger)?;
    u64::try_from(length).map_err(|_| Failure::Text("ERR The MAXLEN argument must be >= 0."))
}

impl Trimming {
    /// Takes entries out; how many.
    pub(crate) fn apply(self, stream: &mut StreamEdit<'_, '_>) -> u64 {
        match self.only_blocks {
            Some(limit) => stream.trim_blocks(self.keep, limit),
            None => stream.trim(self.keep),
        }
    }
}
