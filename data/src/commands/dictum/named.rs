//! `DICTUM.ATTACH`, `DICTUM.ACK`, `DICTUM.NAMED`, `DICTUM.FORGET`, `DICTUM.SUB`, `DICTUM.UNSUB`: named subscriptions ([`crate::named`]).

use crate::commands::prelude::*;
use crate::named::{NamedSubscription, check_attachment, check_keys, parse_place, record_key};
use crate::token::Token;

const NO_SUCH: Failure = Failure::Text("ERR there is no subscription of this name: say of which keys it is to be");

const fn spec(name: &'static str, arity: i32, flags: Flags, texts: [&'static str; 4]) -> Spec {
    let [complexity, summary, arguments, example] = texts;
    let (keys, group) = (Keys::ONE, Group::Dictum);
    Spec { name, arity, flags, keys, group, since: "7.4.0", complexity, summary, arguments, example, subcommands: &[] }
}

/// Reads the record of a name.
fn read(tx: &mut Transaction<'_>, key: &[u8]) -> Result<Option<NamedSubscription>, Failure> {
    let bytes = tx.string(KeyRef::new(key))?;
    bytes.map(|bytes| NamedSubscription::read(&bytes)).transpose()
}

/// Writes it, and keeps a deadline that somebody has given its key. That of the bucket is for data.
fn write(tx: &mut Transaction<'_>, key: &[u8], record: &NamedSubscription) -> Result<(), Failure> {
    let value = record.write();
    check_length(value.len() as u64)?;
    let deadline = tx.get(KeyRef::new(key)).and_then(|record| record.deadline());
    tx.put(KeyRef::new(key), Value::String(value), deadline);
    Ok(())
}

fn words_reply(record: &NamedSubscription) -> Reply {
    Reply::Array(record.words.iter().cloned().map(Reply::Bulk).collect())
}

fn epoch_reply(record: &NamedSubscription) -> Reply {
    Reply::Integer(i64::try_from(record.epoch).unwrap_or(i64::MAX))
}

fn token_reply(record: &NamedSubscription) -> Reply {
    record.token.as_ref().map_or(Reply::Nil, |token| Reply::bulk(token.to_string().as_bytes()))
}

/// Somebody takes a named subscription over, and makes it if there is none.
pub struct DictumAttach<'a> {
    key: Vec<u8>,
    by: &'a [u8],
    words: &'a [&'a [u8]],
}

impl<'a> WriteCommand<'a> for DictumAttach<'a> {
    const SPEC: Spec = spec(
        "dictum.attach",
        -3,
        Flags::WRITE.and(Flags::DENYOOM).and(Flags::BOUNDED),
        [
            "O(N) where N is the number of words",
            "Takes a named subscription over, or makes it; returns its epoch, the place that was acknowledged last, its words, and whether nobody has attached before.",
            "name by [word ...]",
            "DICTUM.ATTACH mail-worker app-1 PREFIX order:",
        ],
    );

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let attach = DictumAttach { key: record_key(args.get(1)?)?, by: args.get(2)?, words: args.from(3) };
        check_attachment(attach.by, attach.words)?;
        Ok(attach)
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let record = read(tx, &self.key)?;
        let mut record = match record {
            Some(record) => record,
            None if self.words.is_empty() => return Err(NO_SUCH),
            None => NamedSubscription::default(),
        };
        let is_new = record.epoch == 0;
        record.attach(self.by, self.words, tx.next_revision())?;
        // All of its keys were taken away.
        if record.words.is_empty() {
            return Err(NO_SUCH);
        }
        write(tx, &self.key, &record)?;
        let parts = [epoch_reply(&record), token_reply(&record), words_reply(&record)];
        Ok(Reply::Array(parts.into_iter().chain([Reply::Integer(i64::from(is_new))]).collect()))
    }
}

/// A place is acknowledged.
pub struct DictumAck<'a> {
    name: &'a [u8],
    key: Vec<u8>,
    epoch: u64,
    token: Token,
}

impl<'a> WriteCommand<'a> for DictumAck<'a> {
    const SPEC: Spec = spec(
        "dictum.ack",
        4,
        // Without room, too: what is done about it may free some.
        Flags::WRITE.and(Flags::OFTEN_NOTHING).and(Flags::BOUNDED),
        [
            "O(N) where N is the number of partitions of the bucket",
            "Acknowledges everything up to a place in a named subscription; returns whether that is further than before.",
            "name epoch token",
            "DICTUM.ACK mail-worker 1 0~00000000000000fe:7",
        ],
    );

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let epoch = u64::try_from(args.integer(2)?).map_err(|_| Failure::NotAnInteger)?;
        Ok(DictumAck { name: args.get(1)?, key: record_key(args.get(1)?)?, epoch, token: parse_place(args.get(3)?)? })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let Some(mut record) = read(tx, &self.key)? else { return Err(NO_SUCH) };
        if record.epoch != self.epoch {
            let (own, other) = (self.epoch.to_string(), record.epoch.to_string());
            let text =
                [b"STALE epoch ", own.as_bytes(), b" of '", self.name, b"' is over: it is ", other.as_bytes(), b" now"];
            return Err(Failure::built(&text.concat()));
        }
        let is_further = record.acknowledge(&self.token)?;
        if is_further {
            write(tx, &self.key, &record)?;
        }
        Ok(Reply::Integer(i64::from(is_further)))
    }
}

/// Tells the record of a name.
pub struct DictumNamed {
    key: Vec<u8>,
}

impl<'a> ReadCommand<'a> for DictumNamed {
    const SPEC: Spec = spec(
        "dictum.named",
        2,
        Flags::READONLY,
        [
            "O(N) where N is the number of words",
            "Returns what is known of a named subscription: its epoch, who has attached last, the place that was acknowledged last, and its words.",
            "name",
            "DICTUM.NAMED mail-worker",
        ],
    );

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(DictumNamed { key: record_key(args.get(1)?)? })
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        let Some(record) = view.get(KeyRef::new(&self.key)) else { return Ok(Reply::Nil) };
        let bytes = record.value.into_string()?;
        view.meter().put(bytes.len() as u64);
        let record = NamedSubscription::read(&bytes)?;
        let pair = |name: &str, value: Reply| (Reply::bulk(name), value);
        Ok(Reply::Map(vec![
            pair("epoch", epoch_reply(&record)),
            pair("by", Reply::Bulk(record.by.clone())),
            pair("token", token_reply(&record)),
            pair("words", words_reply(&record)),
        ]))
    }
}

/// A named subscription is no more.
pub struct DictumForget {
    key: Vec<u8>,
}

impl<'a> WriteCommand<'a> for DictumForget {
    const SPEC: Spec = spec(
        "dictum.forget",
        2,
        Flags::WRITE.and(Flags::BOUNDED),
        ["O(1)", "Removes a named subscription; returns whether there was one.", "name", "DICTUM.FORGET mail-worker"],
    );

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(DictumForget { key: record_key(args.get(1)?)? })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let is_there = read(tx, &self.key)?.is_some();
        Ok(Reply::Integer(i64::from(is_there && tx.remove(KeyRef::new(&self.key)))))
    }
}

/// Keys are added to a named subscription, or taken away.
struct KeysOf<'a> {
    key: Vec<u8>,
    keys: &'a [&'a [u8]],
}

impl<'a> KeysOf<'a> {
    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        check_keys(args.from(2))?;
        Ok(KeysOf { key: record_key(args.get(1)?)?, keys: args.from(2) })
    }

    fn apply(
        self,
        tx: &mut Transaction<'_>,
        change: impl FnOnce(&mut NamedSubscription, &[&[u8]]) -> Result<usize, Failure>,
    ) -> Result<Reply, Failure> {
        let mut record = read(tx, &self.key)?.unwrap_or_default();
        let bytes: usize = self.keys.iter().map(|key| key.len()).sum();
        tx.meter().bytes(bytes);
        let count = change(&mut record, self.keys)?;
        if count > 0 {
            write(tx, &self.key, &record)?;
        }
        Ok(Reply::count(count))
    }
}

/// See [`KeysOf`].
pub struct DictumSub<'a>(KeysOf<'a>);

impl<'a> WriteCommand<'a> for DictumSub<'a> {
    const SPEC: Spec = spec(
        "dictum.sub",
        -3,
        Flags::WRITE.and(Flags::OFTEN_NOTHING).and(Flags::DENYOOM),
        [
            "O(N+M) where N is the number of keys and M that of the keys before",
            "Adds keys to a named subscription, which is made if there is none; returns how many are new.",
            "name key [key ...]",
            "DICTUM.SUB mail-worker cart:1 cart:2",
        ],
    );

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        KeysOf::parse(args).map(DictumSub)
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        self.0.apply(tx, NamedSubscription::add_keys)
    }
}

/// See [`KeysOf`].
pub struct DictumUnsub<'a>(KeysOf<'a>);

impl<'a> WriteCommand<'a> for DictumUnsub<'a> {
    const SPEC: Spec = spec(
        "dictum.unsub",
        -3,
        // Keys that are left may take more words than before.
        Flags::WRITE.and(Flags::OFTEN_NOTHING).and(Flags::DENYOOM),
        [
            "O(N+M) where N is the number of keys and M that of the keys before",
            "Takes keys out of a named subscription; returns how many of them were in it.",
            "name key [key ...]",
            "DICTUM.UNSUB mail-worker cart:1",
        ],
    );

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        KeysOf::parse(args).map(DictumUnsub)
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        self.0.apply(tx, NamedSubscription::remove_keys)
    }
}
