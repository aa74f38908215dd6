//! `HRANDFIELD key [count [WITHVALUES]]`

use crate::commands::elements::chance::{Asked, Urn};
use crate::commands::prelude::*;

/// Fields by chance.
pub struct HRandField<'a>(Asked<'a>);

impl<'a> ReadCommand<'a> for HRandField<'a> {
    const SPEC: Spec = Spec {
        name: "hrandfield",
        arity: -2,
        flags: Flags::READONLY,
        keys: Keys::ONE,
        group: Group::Hash,
        since: "6.2.0",
        complexity: "O(N) where N is the number of fields that are returned",
        summary: "Returns fields of a hash by chance.",
        arguments: "key [count [WITHVALUES]]",
        example: "HRANDFIELD user:7 2",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Asked::parse(args, "WITHVALUES").map(HRandField)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        let of = view.hash(self.0.key)?;
        let others = match of.filter(|of| view.has_due_fields(*of)) {
            Some(of) => Some(super::elements::whole(view, Kind::Hash, of)?.collect()),
            None => None,
        };
        let urn = of.map(|of| Urn { collections: view.collections(), kind: Kind::Hash, of, others });
        self.0.answer(urn, &mut view.rng(), Reply::Bulk)
    }
}
