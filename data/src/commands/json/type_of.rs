//! `JSON.TYPE key [path]`

use super::{Json, ask_all, path_or_root, read};
use crate::commands::prelude::*;
use crate::json::path::Path;
use crate::json::type_name;

/// The types of what a path finds.
pub struct JsonType<'a> {
    key: KeyRef<'a>,
    path: Path<'a>,
}

impl<'a> ReadCommand<'a> for JsonType<'a> {
    const SPEC: Spec = Spec {
        name: "json.type",
        arity: -2,
        flags: Flags::READONLY,
        keys: Keys::ONE,
        group: Group::Json,
        since: "1.0.0",
        complexity: "O(N), where N is the size of the document",
        summary: "Returns the types of what a path finds in a document.",
        arguments: "key [path]",
        example: "JSON.TYPE user:7 $.name",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(JsonType { key: args.key(1)?, path: path_or_root(args, 2)? })
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        let answer = match read(view, self.key)? {
            None => Reply::Nil,
            Some(document) => {
                let name = |value: &Json| Reply::bulk(type_name(value));
                if self.path.is_legacy() {
                    self.path.find(&document, view.meter())?.map_or(Reply::Nil, name)
                } else {
                    let names = ask_all(&document, &self.path, view.meter(), |value| Some(name(value)))?;
                    Reply::Array(names.into_iter().flatten().collect())
                }
            }
        };
        // Clients of RESP3 get a list around it: so has RedisJSON done since it speaks it.
        Ok(Reply::by_dialect(answer.clone(), Reply::Array(vec![answer])))
    }
}
