//! `KEYS pattern`

use crate::algorithms::glob::Glob;
use crate::commands::prelude::*;

/// All keys that match a pattern.
pub struct KeysMatching {
    glob: Glob,
}

impl<'a> ReadCommand<'a> for KeysMatching {
    const SPEC: Spec = Spec {
        name: "keys",
        arity: 2,
        flags: Flags::READONLY.and(Flags::DANGEROUS),
        keys: Keys::None,
        group: Group::Generic,
        since: "1.0.0",
        complexity: "O(N) where N is the number of keys",
        summary: "Answers every key that matches a pattern. Use SCAN where there are many keys.",
        arguments: "pattern",
        example: "KEYS user:*",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(KeysMatching { glob: super::scan::parse_pattern(args.get(1)?)? })
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        if let Some(key) = self.glob.literal() {
            let found = view.exists(KeyRef::new(&key)).then(|| Reply::bulk(key));
            return Ok(Reply::Array(found.into_iter().collect()));
        }
        let keys = super::scan::records_matching(view, &self.glob, 0).filter(|(_, _, matches)| *matches);
        let fits = |key: &Blob| view.meter().put(key.len() as u64);
        Ok(Reply::Array(keys.map_while(|(key, ..)| fits(&key.key).then_some(Reply::Bulk(key.key))).collect()))
    }
}
