//! `XADD key [NOMKSTREAM] [<MAXLEN | MINID> [= | ~] threshold [LIMIT count]] <* | id> field value [field value ...]`

use super::ids::{self, Wanted};
use super::trimming::{Options, Trimming};
use crate::collections::streams::entry_value;
use crate::commands::prelude::*;
use crate::value::{Stream, StreamId};

/// Adds an entry to a stream.
pub struct XAdd<'a> {
    key: KeyRef<'a>,
    needs_stream: bool,
    trimming: Option<Trimming>,
    id: Wanted,
    words: &'a [&'a [u8]],
}

impl<'a> WriteCommand<'a> for XAdd<'a> {
    const SPEC: Spec = Spec {
        name: "xadd",
        arity: -5,
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST).and(Flags::BOUNDED),
        keys: Keys::ONE,
        group: Group::Stream,
        since: "5.0.0",
        complexity: "O(1); O(N) when trimming, where N is the number of entries that go, or that stay if those are fewer",
        summary: "Adds an entry to a stream and returns its identifier. Creates the stream if it does not exist.",
        arguments: "key [NOMKSTREAM] [<MAXLEN | MINID> [= | ~] threshold [LIMIT count]] <* | id> field value [field value ...]",
        example: "XADD readings * sensor 7 temperature 21.5\nXADD readings MAXLEN ~ 1000 * sensor 7 temperature 21.6",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let (options, index) = Options::parse(args, 2, true)?;
        let words = args.from(index + 1);
        if words.is_empty() || !words.len().is_multiple_of(2) {
            return Err(Self::SPEC.wrong_arity());
        }
        let id = ids::parse_wanted(args.get(index)?)?;
        if id == Wanted::This(StreamId::MIN) {
            return Err(Failure::Text("ERR The ID specified in XADD must be greater than 0-0"));
        }
        check_length(words.iter().map(|word| word.len() as u64).sum())?;
        let Options { trimming, needs_stream } = options;
        Ok(XAdd { key: args.key(1)?, needs_stream, trimming, id, words })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        if self.needs_stream && tx.stream(self.key)?.is_none() {
            return Ok(Reply::Nil);
        }
        let now = tx.time().0;
        tx.edit_stream(self.key, |stream| {
            stream.check_room()?;
            let id = given(stream.stream(), self.id, now)?;
            stream.append(id, entry_value(self.words));
            if let Some(trimming) = self.trimming {
                trimming.apply(stream);
            }
            Ok(ids::reply(id))
        })
    }
}

/// The identifier that an entry gets: higher than all that were given before, whatever clocks say.
fn given(stream: &Stream, wanted: Wanted, now: u64) -> Result<StreamId, Failure> {
    const TOO_LOW: Failure =
        Failure::Text("ERR The ID specified in XADD is equal or smaller than the target stream top item");
    let next = stream
        .last
        .next()
        .ok_or(Failure::Text("ERR The stream has exhausted the last possible ID, unable to add more items"))?;
    let id = match wanted {
        Wanted::Any => next.max(StreamId { ms: now, seq: 0 }),
        Wanted::OfMillisecond(ms) if ms == stream.last.ms => next,
        Wanted::OfMillisecond(ms) => StreamId { ms, seq: 0 },
        Wanted::This(id) => id,
    };
    let fits = id > stream.last && !matches!(wanted, Wanted::OfMillisecond(ms) if ms != id.ms);
    if fits { Ok(id) } else { Err(TOO_LOW) }
}
