//! `JSON.MGET key [key ...] path`

use super::document_of;
use crate::commands::prelude::*;
use crate::json::layout::Layout;
use crate::json::path::Path;

/// What a path finds in several documents.
pub struct JsonMGet<'a> {
    keys: &'a [&'a [u8]],
    path: Path<'a>,
}

impl<'a> ReadCommand<'a> for JsonMGet<'a> {
    const SPEC: Spec = Spec {
        name: "json.mget",
        arity: -3,
        flags: Flags::READONLY,
        keys: Keys::Range { first: 1, last: -2, step: 1 },
        group: Group::Json,
        since: "1.0.0",
        complexity: "O(N), where N is the size of all documents",
        summary: "Returns what a path finds in one or more documents.",
        arguments: "key [key ...] path",
        example: "JSON.MGET user:7 user:8 $.name",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let (path, keys) = args.from(1).split_last().ok_or(Failure::Syntax)?;
        for index in 0..keys.len() {
            args.key(1 + index)?;
        }
        Ok(JsonMGet { keys, path: Path::parse(path)? })
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        let (meter, mut bytes_left) = (view.meter(), view.meter().answer_max());
        let answers = self.keys.iter().map(|key| {
            meter.put(0);
            meter.check()?;
            // A key that holds something else is as good as absent, as for MGET.
            let Ok(Some(document)) = document_of(view.get(KeyRef::new(key)).as_ref(), meter) else {
                return Ok(Reply::Nil);
            };
            let text = if self.path.is_legacy() {
                match self.path.find(&document, meter)? {
                    Some(value) => Layout::default().write(value, bytes_left, meter)?,
                    None => return Ok(Reply::Nil),
                }
            } else {
                Layout::default().write(&self.path.values(&document, meter)?, bytes_left, meter)?
            };
            bytes_left -= text.len() as u64;
            Ok(Reply::Bulk(text))
        });
        answers.collect::<Result<_, Failure>>().map(Reply::Array)
    }
}
