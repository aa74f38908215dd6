//! `JSON.RESP key [path]`

use super::{Json, path_or_root, read};
use crate::commands::prelude::*;
use crate::json::path::Path;
use crate::json::read::VALUE;
use crate::meter::Meter;

/// A document as replies inside replies.
pub struct JsonResp<'a> {
    key: KeyRef<'a>,
    path: Path<'a>,
}

impl<'a> ReadCommand<'a> for JsonResp<'a> {
    const SPEC: Spec = Spec {
        name: "json.resp",
        arity: -2,
        flags: Flags::READONLY,
        keys: Keys::ONE,
        group: Group::Json,
        since: "1.0.0",
        complexity: "O(N), where N is the size of the document",
        summary: "Returns what a path finds in a document as arrays, strings and numbers of the protocol.",
        arguments: "key [path]",
        example: "JSON.RESP user:7",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(JsonResp { key: args.key(1)?, path: path_or_root(args, 2)? })
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        let Some(document) = read(view, self.key)? else { return Ok(Reply::Nil) };
        let meter = view.meter();
        if self.path.is_legacy() {
            return Ok(as_reply(self.path.first(&document, meter)?, meter));
        }
        let values = self.path.values(&document, meter)?.into_iter();
        Ok(Reply::Array(values.map_while(|value| (!meter.is_over()).then(|| as_reply(value, meter))).collect()))
    }
}

/// An array begins with `[`, an object with `{`, so that one can tell them apart. Documents are not nested more deeply than replies may be.
fn as_reply(value: &Json, meter: &Meter) -> Reply {
    // A value may be meant several times, by itself and with others around it.
    if !(meter.put(0) && meter.spend(VALUE)) {
        return Reply::Nil;
    }
    match value {
        Json::Null => Reply::Nil,
        Json::Bool(true) => Reply::Simple("true"),
        Json::Bool(false) => Reply::Simple("false"),
        Json::Number(number) => match number.as_i64() {
            Some(number) => Reply::Integer(number),
            None => Reply::bulk(number.to_string().into_bytes()),
        },
        Json::String(text) => bulk(text, meter),
        Json::Array(items) => Reply::Array(
            [Reply::Simple("[")].into_iter().chain(items.iter().map(|item| as_reply(item, meter))).collect(),
        ),
        Json::Object(members) => {
            let pairs = members.iter().flat_map(|(name, value)| [bulk(name, meter), as_reply(value, meter)]);
            Reply::Array([Reply::Simple("{")].into_iter().chain(pairs).collect())
        }
    }
}

/// Each byte pays.
fn bulk(text: &str, meter: &Meter) -> Reply {
    if meter.put(text.len() as u64) && meter.spend(text.len() as u64) {
        Reply::bulk(text.as_bytes())
    } else {
        Reply::Nil
    }
}
