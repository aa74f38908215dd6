//! `LPOS key element [RANK rank] [COUNT count] [MAXLEN len]`

use crate::args::parse_integer;
use crate::commands::prelude::*;

/// Where an element is.
pub struct LPos<'a> {
    key: KeyRef<'a>,
    element: &'a [u8],
    /// How many matches are wanted that come after so many others; from the end if that is negative.
    rank: i64,
    /// None: the first match, and not a list. 0: all.
    count: Option<u64>,
    /// Elements that are looked at; 0: all.
    looks: u64,
}

impl<'a> ReadCommand<'a> for LPos<'a> {
    const SPEC: Spec = Spec {
        name: "lpos",
        arity: -3,
        flags: Flags::READONLY,
        keys: Keys::ONE,
        group: Group::List,
        since: "6.0.6",
        complexity: "O(N) where N is the number of elements",
        summary: "Returns the indices at which an element stands in a list.",
        arguments: "key element [RANK rank] [COUNT count] [MAXLEN len]",
        example: "LPOS queue b RANK -1 COUNT 2",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let mut lpos = LPos { key: args.key(1)?, element: args.get(2)?, rank: 1, count: None, looks: 0 };
        let not_negative = |index: usize, refusal: &'static str| {
            let number = parse_integer(args.get(index)?).and_then(|number| u64::try_from(number).ok());
            number.ok_or(Failure::Text(refusal))
        };
        for index in (3..args.len()).step_by(2) {
            if index + 1 == args.len() {
                return Err(Failure::Syntax);
            }
            if args.is(index, "RANK") {
                lpos.rank = args.integer(index + 1)?;
                if lpos.rank == i64::MIN {
                    return Err(Failure::Text(
                        "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
                    ));
                }
                if lpos.rank == 0 {
                    return Err(Failure::Text(
                        "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use \
                         negative to start from the end of the list",
                    ));
                }
            } else if args.is(index, "COUNT") {
                lpos.count = Some(not_negative(index + 1, "ERR COUNT can't be negative")?);
            } else if args.is(index, "MAXLEN") {
                lpos.looks = not_negative(index + 1, "ERR MAXLEN can't be negative")?;
            } else {
                return Err(Failure::Syntax);
            }
        }
        Ok(lpos)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        let found = view.list(self.key)?.map_or_else(Vec::new, |list| self.find(view, list));
        Ok(match self.count {
            Some(_) => Reply::Array(found),
            None => found.into_iter().next().unwrap_or(Reply::Nil),
        })
    }
}

impl LPos<'_> {
    fn find(&self, view: &View<'_>, list: List) -> Vec<Reply> {
        let looks = if self.looks == 0 { list.len() } else { self.looks.min(list.len()) };
        let wanted = match self.count {
            None => 1,
            Some(0) => usize::MAX,
            Some(count) => usize::try_from(count).unwrap_or(usize::MAX),
        };
        let others = usize::try_from(self.rank.unsigned_abs() - 1).unwrap_or(usize::MAX);
        let matches =
            |(index, element): (u64, Blob)| (*element == *self.element).then_some(Reply::Integer(index as i64));
        if self.rank > 0 {
            let elements = (0..).zip(view.list_between(list, 0, looks));
            return elements
                .filter_map(matches)
                .skip(others)
                .take(wanted)
                .take_while(|_| view.meter().put(0))
                .collect();
        }
        let last = (list.len() - looks..list.len()).rev();
        let elements = last.zip(view.collections().list_backwards(list, list.len() - looks, list.len()));
        elements.filter_map(matches).skip(others).take(wanted).take_while(|_| view.meter().put(0)).collect()
    }
}
