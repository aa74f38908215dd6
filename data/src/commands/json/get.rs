//! `JSON.GET key [INDENT indent] [NEWLINE newline] [SPACE space] [path ...]`

use super::{Json, document_of};
use crate::commands::prelude::*;
use crate::json::layout::Layout;
use crate::json::path::Path;
use crate::meter::Meter;
use serde::{Serialize, Serializer};
use std::collections::BTreeSet;

/// A document, or what paths find in it, as text.
pub struct JsonGet<'a> {
    key: KeyRef<'a>,
    layout: Layout<'a>,
    paths: Vec<Path<'a>>,
}

impl<'a> ReadCommand<'a> for JsonGet<'a> {
    const SPEC: Spec = Spec {
        name: "json.get",
        arity: -2,
        flags: Flags::READONLY,
        keys: Keys::ONE,
        group: Group::Json,
        since: "1.0.0",
        complexity: "O(N), where N is the size of the document",
        summary: "Returns a document, or what paths find in it, as text.",
        arguments: "key [INDENT indent] [NEWLINE newline] [SPACE space] [path ...]",
        example: "JSON.GET user:7 $.name $.age",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let (mut layout, mut paths, mut index) = (Layout::default(), Vec::new(), 2);
        while index < args.len() {
            let is_option = ["INDENT", "NEWLINE", "SPACE"].iter().any(|option| args.is(index, option));
            if is_option {
                let text = args.items().get(index + 1).copied().ok_or(Self::SPEC.wrong_arity())?;
                match () {
                    () if args.is(index, "INDENT") => layout.indent = text,
                    () if args.is(index, "NEWLINE") => layout.newline = text,
                    () => layout.space = text,
                }
                index += 1;
            } else if args.is(index, "FORMAT") {
                return Err(Failure::Text("ERR FORMAT argument is not supported"));
            } else if !args.is(index, "NOESCAPE") {
                paths.push(Path::parse(args.get(index)?)?);
            }
            index += 1;
        }
        Ok(JsonGet { key: args.key(1)?, layout, paths })
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        let meter = view.meter();
        let record = view.get(self.key);
        let is_whole = self.paths.iter().all(|path| path.is_legacy() && path.is_root()) && self.paths.len() < 2;
        if let Some(Record { value: Value::Json(text), .. }) = &record
            && is_whole
            && self.layout.is_compact()
        {
            // As it is kept.
            meter.spend(text.as_slice().len() as u64);
            meter.check()?;
            return Ok(Reply::bulk(text.as_slice()));
        }
        let Some(document) = document_of(record.as_ref(), meter)? else { return Ok(Reply::Nil) };
        let text = match &self.paths[..] {
            [] => self.layout.answer(&document, meter)?,
            [path] if path.is_legacy() => self.layout.answer(path.first(&document, meter)?, meter)?,
            [path] => self.layout.answer(&path.values(&document, meter)?, meter)?,
            paths => self.layout.answer(&found(&document, paths, meter)?, meter)?,
        };
        Ok(Reply::Bulk(text))
    }
}

/// What each of several paths finds. If one of them is JSONPath, all are taken as such.
fn found<'d>(document: &'d Json, paths: &[Path<'d>], meter: &Meter) -> Result<Found<'d>, Failure> {
    let is_legacy = paths.iter().all(Path::is_legacy);
    let mut all: Vec<(&str, Values<'_>)> = Vec::with_capacity(paths.len());
    let mut named = BTreeSet::new();
    for path in paths {
        meter.visit(path.text().len());
        // What is asked for twice is answered once.
        if named.insert(path.text()) {
            let values = if is_legacy {
                Values::First(path.first(document, meter)?)
            } else {
                Values::All(path.values(document, meter)?)
            };
            all.push((path.text(), values));
        }
    }
    Ok(Found(all))
}

/// Paths and what they found, as an object.
struct Found<'d>(Vec<(&'d str, Values<'d>)>);

enum Values<'d> {
    First(&'d Json),
    All(Vec<&'d Json>),
}

impl Serialize for Found<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(path, values)| (path, values)))
    }
}

impl Serialize for Values<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Values::First(value) => value.serialize(serializer),
            Values::All(values) => values.serialize(serializer),
        }
    }
}
