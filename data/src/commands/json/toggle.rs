//! `JSON.TOGGLE key path`

use super::{Json, Others, all_or_last, change_all};
use crate::commands::prelude::*;
use crate::json::path::Path;

/// Turns booleans round.
pub struct JsonToggle<'a> {
    key: KeyRef<'a>,
    path: Path<'a>,
}

impl<'a> WriteCommand<'a> for JsonToggle<'a> {
    const SPEC: Spec = Spec {
        name: "json.toggle",
        arity: 3,
        flags: Flags::WRITE,
        keys: Keys::ONE,
        group: Group::Json,
        since: "2.0.0",
        complexity: "O(N), where N is the size of the document",
        summary: "Turns the booleans round that a path finds in a document.",
        arguments: "key path",
        example: "JSON.TOGGLE user:7 $.active",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(JsonToggle { key: args.key(1)?, path: Path::parse(args.get(2)?)? })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let is_legacy = self.path.is_legacy();
        let answers = change_all(tx, self.key, &self.path, Others::Stay, Json::is_boolean, |value, _| {
            let is_true = value == &Json::Bool(false);
            *value = Json::Bool(is_true);
            // A path of the older kind is answered by the word.
            Ok(if is_legacy { Reply::bulk(if is_true { "true" } else { "false" }) } else { Reply::one_if(is_true) })
        })?;
        all_or_last(&self.path, answers, "not a bool")
    }
}
