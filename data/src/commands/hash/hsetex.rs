//! `HSETEX key [FNX | FXX] [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL] FIELDS numfields field value [field value ...]`

use super::fields::{deadline_of, parse_expiry};
use crate::args::parse_integer;
use crate::commands::options::Expiry;
use crate::commands::prelude::*;

/// Gives fields values and a deadline, if all of them are there or none is.
pub struct HSetEx<'a> {
    key: KeyRef<'a>,
    /// `FXX`: all fields have to be there; `FNX`: none.
    present: Option<bool>,
    expiry: Option<Expiry>,
    keeps_deadlines: bool,
    /// Fields and values in turn.
    words: &'a [&'a [u8]],
}

impl<'a> WriteCommand<'a> for HSetEx<'a> {
    const SPEC: Spec = Spec {
        name: "hsetex",
        arity: -6,
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST).and(Flags::BOUNDED),
        keys: Keys::ONE,
        group: Group::Hash,
        since: "8.0.0",
        complexity: "O(N) where N is the number of fields",
        summary: "Sets fields of a hash with an expiration time, and returns whether it did.",
        arguments: "key [FNX | FXX] [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL] FIELDS numfields field value [field value ...]",
        example: "HSETEX user:7 FNX EX 60 FIELDS 1 token abc",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let (mut present, mut expiry, mut keeps_deadlines) = (None, None, false);
        let mut index = 2;
        let words = loop {
            if args.is(index, "FIELDS") {
                break parse_pairs(args, index)?;
            }
            let is_timed = expiry.is_some() || keeps_deadlines;
            if let Some(unit) = Expiry::keyword(args, index) {
                if is_timed {
                    return Err(TIMED_TWICE);
                }
                if index + 1 == args.len() {
                    return Err(Failure::Text("ERR missing expire time"));
                }
                expiry = Some(parse_expiry(args, index + 1, unit, "hsetex")?);
                index += 1;
            } else if args.is(index, "KEEPTTL") {
                if is_timed {
                    return Err(TIMED_TWICE);
                }
                keeps_deadlines = true;
            } else if args.is(index, "FXX") || args.is(index, "FNX") {
                if present.is_some() {
                    return Err(Failure::Text("ERR Only one of FXX or FNX arguments can be specified"));
                }
                present = Some(args.is(index, "FXX"));
            } else if let Ok(word) = args.get(index) {
                return Err(Failure::built(&[b"ERR unknown argument: ", word].concat()));
            } else {
                return Err(Failure::Syntax);
            }
            index += 1;
        };
        Ok(HSetEx { key: args.key(1)?, present, expiry, keeps_deadlines, words })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let now = tx.time();
        let deadline = self.expiry.map(|expiry| deadline_of(expiry, now)).transpose()?;
        tx.edit_hash(self.key, |hash| {
            let fields = || self.words.iter().step_by(2);
            if let Some(present) = self.present
                && fields().any(|field| hash.get(field).is_some() != present)
            {
                return Ok(Reply::Integer(0));
            }
            hash.check_room(self.words.len() / 2)?;
            for pair in self.words.chunks_exact(2) {
                match deadline {
                    // What is over at once is not put in, but takes the place of what was there.
                    Some(deadline) if deadline <= now => drop(hash.remove(pair[0])),
                    Some(deadline) => {
                        hash.set_keeping_deadline(pair[0], pair[1]);
                        hash.set_deadline(pair[0], Some(deadline));
                    }
                    None if self.keeps_deadlines => drop(hash.set_keeping_deadline(pair[0], pair[1])),
                    None => drop(hash.set(pair[0], pair[1])),
                }
            }
            Ok(Reply::Integer(1))
        })
    }
}

const TIMED_TWICE: Failure = Failure::Text("ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified");

/// `FIELDS numfields field value [field value ...]` at `index`, to the end.
fn parse_pairs<'a>(args: Args<'a>, index: usize) -> Result<&'a [&'a [u8]], Failure> {
    const WRONG_ARITY: Failure = Failure::WrongArity("hsetex");
    if index + 3 >= args.len() {
        return Err(WRONG_ARITY);
    }
    let count = parse_integer(args.get(index + 1)?).and_then(|count| i32::try_from(count).ok());
    let count = count.filter(|count| *count > 0).ok_or(Failure::Text("ERR invalid number of fields"))?;
    let words = args.from(index + 2);
    if !words.len().is_multiple_of(2) || words.len() / 2 != count as usize {
        return Err(WRONG_ARITY);
    }
    for place in (index + 2..args.len()).step_by(2) {
        args.field(place)?;
    }
    Ok(words)
}
