//! `JSON.MSET key path value [key path value ...]`

use super::set::{Condition, put};
use super::{Json, document_of, save};
use crate::commands::prelude::*;
use crate::json::path::Path;
use crate::json::{parse, to_text};
use std::collections::BTreeMap;

/// Puts values into several documents, all or none.
pub struct JsonMSet<'a> {
    puts: Vec<(KeyRef<'a>, Path<'a>, Json)>,
}

impl<'a> WriteCommand<'a> for JsonMSet<'a> {
    const SPEC: Spec = Spec {
        name: "json.mset",
        arity: -4,
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::GROWS),
        keys: Keys::Range { first: 1, last: -1, step: 3 },
        group: Group::Json,
        since: "2.6.0",
        complexity: "O(N), where N is the size of all documents",
        summary: "Puts values where paths lead in one or more documents, all or none.",
        arguments: "key path value [key path value ...]",
        example: "JSON.MSET user:7 $ '{}' user:8 $ '{}'",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let words = args.from(1);
        if !words.len().is_multiple_of(3) {
            return Err(Self::SPEC.wrong_arity());
        }
        let puts = words
            .chunks_exact(3)
            .enumerate()
            .map(|(index, put)| Ok((args.key(1 + 3 * index)?, Path::parse(put[1])?, parse(put[2])?)));
        Ok(JsonMSet { puts: puts.collect::<Result<_, Failure>>()? })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        // A key may be named several times: the later ones see what the earlier ones did.
        let mut documents: BTreeMap<&[u8], (KeyRef<'_>, Option<Record>, Json)> = BTreeMap::new();
        for (key, path, value) in self.puts {
            let (record, before) = match documents.remove(key.key) {
                Some((_, record, document)) => (record, Some(document)),
                None => {
                    let record = tx.get(key);
                    let document = document_of(record.as_ref())?;
                    (record, document)
                }
            };
            let is_there = before.clone();
            let after = put(before, &path, value, Condition::None)?;
            if let Some(document) = after.or(is_there) {
                documents.insert(key.key, (key, record, document));
            }
        }
        for (.., document) in documents.values() {
            tx.check_length(to_text(document)?.as_slice().len() as u64)?;
        }
        for (key, record, document) in documents.values() {
            save(tx, *key, record.as_ref(), document)?;
        }
        Ok(Reply::Ok)
    }
}
