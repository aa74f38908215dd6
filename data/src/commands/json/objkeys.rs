//! `JSON.OBJKEYS key [path]`

use super::{Json, absent, all_or_last, ask_all, path_or_root, read};
use crate::commands::prelude::*;
use crate::json::path::Path;
use crate::json::read::VALUE;

/// The names of the members of objects.
pub struct JsonObjKeys<'a> {
    key: KeyRef<'a>,
    path: Path<'a>,
}

impl<'a> ReadCommand<'a> for JsonObjKeys<'a> {
    const SPEC: Spec = Spec {
        name: "json.objkeys",
        arity: -2,
        flags: Flags::READONLY,
        keys: Keys::ONE,
        group: Group::Json,
        since: "1.0.0",
        complexity: "O(N), where N is the size of the document",
        summary: "Returns the names of the members of the objects that a path finds in a document.",
        arguments: "key [path]",
        example: "JSON.OBJKEYS user:7 $",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(JsonObjKeys { key: args.key(1)?, path: path_or_root(args, 2)? })
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        let Some(document) = read(view, self.key)? else { return absent(&self.path) };
        let ask = |value: &Json| {
            // An object may be meant several times.
            let fits = |name: &&String| view.meter().put(name.len() as u64) && view.meter().spend(VALUE);
            let names = value.as_object()?.keys().take_while(fits);
            Some(Reply::Array(names.map(|name| Reply::bulk(name.as_bytes())).collect()))
        };
        if self.path.is_legacy() {
            let Ok(first) = self.path.first(&document, view.meter()) else { return Ok(Reply::Nil) };
            return ask(first).ok_or_else(|| self.path.is_absent_or("not an object"));
        }
        all_or_last(&self.path, ask_all(&document, &self.path, view.meter(), ask)?, "not an object")
    }
}
