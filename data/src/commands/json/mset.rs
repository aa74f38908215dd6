//! `JSON.MSET key path value [key path value ...]`

use super::set::{Condition, put};
use super::{Json, document_of, keep};
use crate::commands::prelude::*;
use crate::json::path::Path;
use crate::json::read::Given;
use crate::json::to_text;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Puts values into several documents, all or none.
pub struct JsonMSet<'a> {
    puts: Vec<(KeyRef<'a>, Path<'a>, Given<'a>)>,
}

/// A key, what stood there, and its document as it is so far.
type Found<'a> = (KeyRef<'a>, Option<Record>, Option<Json>);

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
            .map(|(index, put)| Ok((args.key(1 + 3 * index)?, Path::parse(put[1])?, Given::parse(put[2])?)));
        Ok(JsonMSet { puts: puts.collect::<Result<_, Failure>>()? })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        // A key may be named several times: the later ones see what the earlier ones did.
        let mut documents: BTreeMap<&[u8], Found<'_>> = BTreeMap::new();
        for (key, path, value) in self.puts {
            let (_, _, document) = match documents.entry(key.key) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => {
                    let record = tx.get(key);
                    let document = document_of(record.as_ref(), tx.meter())?;
                    entry.insert((key, record, document))
                }
            };
            put(document, &path, value, Condition::None, tx.value_bytes_max(), tx.meter())?;
        }
        let texts = documents.into_values().filter_map(|(key, record, document)| Some((key, record, document?)));
        let texts = texts
            .map(|(key, record, document)| Ok((key, record, to_text(&document, tx.value_bytes_max(), tx.meter())?)));
        for (key, record, text) in texts.collect::<Result<Vec<_>, Failure>>()? {
            keep(tx, key, record.as_ref(), text);
        }
        Ok(Reply::Ok)
    }
}
