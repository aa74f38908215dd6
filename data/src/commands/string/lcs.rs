//! `LCS key1 key2 [LEN] [IDX] [MINMATCHLEN length] [WITHMATCHLEN]`

use crate::algorithms::lcs::{self, Run};
use crate::commands::prelude::*;
use crate::reply::ITEM_BYTES;

/// What two strings have in common.
pub struct Lcs<'a> {
    first: KeyRef<'a>,
    second: KeyRef<'a>,
    answer: Answer,
}

enum Answer {
    Text,
    Length,
    Runs { bytes_min: i64, with_length: bool },
}

impl<'a> ReadCommand<'a> for Lcs<'a> {
    const SPEC: Spec = Spec {
        name: "lcs",
        arity: -3,
        flags: Flags::READONLY,
        keys: Keys::TWO,
        group: Group::String,
        since: "7.0.0",
        complexity: "O(N*M) where N and M are the lengths of the strings",
        summary: "Finds the longest common subsequence of two strings.",
        arguments: "key1 key2 [LEN] [IDX] [MINMATCHLEN min-match-len] [WITHMATCHLEN]",
        example: "LCS draft final IDX",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let (mut length, mut runs, mut with_length, mut bytes_min) = (false, false, false, 0);
        let mut index = 3;
        while index < args.len() {
            if args.is(index, "IDX") {
                runs = true;
            } else if args.is(index, "LEN") {
                length = true;
            } else if args.is(index, "WITHMATCHLEN") {
                with_length = true;
            } else if args.is(index, "MINMATCHLEN") && index + 1 < args.len() {
                index += 1;
                bytes_min = args.integer(index)?.max(0);
            } else {
                return Err(Failure::Syntax);
            }
            index += 1;
        }
        let answer = match (length, runs) {
            (true, true) => {
                return Err(Failure::Text("ERR If you want both the length and indexes, please just use IDX."));
            }
            (true, false) => Answer::Length,
            (false, true) => Answer::Runs { bytes_min, with_length },
            (false, false) => Answer::Text,
        };
        Ok(Lcs { first: args.key(1)?, second: args.key(2)?, answer })
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        let not_strings = |_| Failure::Text("ERR The specified keys must contain string values");
        let first = view.string(self.first).map_err(not_strings)?.unwrap_or_default();
        let second = view.string(self.second).map_err(not_strings)?.unwrap_or_default();
        if !lcs::is_affordable(first.len(), second.len()) {
            return Err(Failure::Text("ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len"));
        }
        // Four pairs of bytes cost about a unit.
        let pairs = (first.len() as u64).saturating_mul(second.len() as u64);
        if !view.meter().spend(pairs / 4) {
            return Err(view.meter().refusal());
        }
        Ok(match self.answer {
            Answer::Length => Reply::count(lcs::length(&first, &second)),
            Answer::Text => Reply::bulk(lcs::common(&first, &second).text),
            Answer::Runs { bytes_min, with_length } => {
                let common = lcs::common(&first, &second);
                let long_enough = common.runs.iter().filter(|run| run.bytes() as i64 >= bytes_min);
                // Each is of up to eight parts.
                let matches = long_enough.take_while(|_| view.meter().put(7 * ITEM_BYTES));
                let matches = matches.map(|run| reply_of(run, with_length)).collect();
                Reply::Map(vec![
                    (Reply::bulk("matches"), Reply::Array(matches)),
                    (Reply::bulk("len"), Reply::count(common.text.len())),
                ])
            }
        })
    }
}

fn reply_of(run: &Run, with_length: bool) -> Reply {
    let range = |(start, end)| Reply::Array(vec![Reply::count(start), Reply::count(end)]);
    let mut parts = vec![range(run.first), range(run.second)];
    if with_length {
        parts.push(Reply::count(run.bytes()));
    }
    Reply::Array(parts)
}
