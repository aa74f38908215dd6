//! `[KEEPREF | DELREF | ACKED] IDS count id [id ...]`: of XDELEX and XACKDEL.

use super::ids;
use crate::args::parse_integer;
use crate::blob::Blob;
use crate::collections::streams::Group;
use crate::commands::prelude::*;
use crate::transaction::StreamEdit;
use crate::value::StreamId;

/// What is answered of an identifier: there is nothing to do about it.
pub(crate) const NOTHING: i64 = -1;
/// The entry is in the stream no more.
pub(crate) const REMOVED: i64 = 1;
/// It stays, because a group may still need it.
pub(crate) const NEEDED: i64 = 2;

/// What is done about groups that have an entry pending.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum References {
    /// `KEEPREF`: nothing.
    Keep,
    /// `DELREF`: in no group is it pending any more.
    Remove,
    /// `ACKED`: the entry stays until every group has been given it and none has it pending.
    Respect,
}

/// What stands behind the key, or the group.
pub(crate) struct Wanted {
    pub references: References,
    pub ids: Vec<StreamId>,
}

impl Wanted {
    /// Reads arguments from `index` on. The identifiers may stand before the word that says what is done about groups.
    pub(crate) fn parse(args: Args<'_>, mut index: usize) -> Result<Wanted, Failure> {
        let (mut references, mut ids) = (None, None);
        while index < args.len() {
            let said = [("KEEPREF", References::Keep), ("DELREF", References::Remove), ("ACKED", References::Respect)];
            let said = said.into_iter().find(|(word, _)| args.is(index, word)).map(|(_, said)| said);
            if let (Some(said), None) = (said, references) {
                references = Some(said);
                index += 1;
            } else if ids.is_none() && args.is(index, "IDS") && index + 1 < args.len() {
                let count = parse_integer(args.get(index + 1)?).filter(|count| *count > 0);
                let count = count.ok_or(Failure::Text("ERR Number of IDs must be a positive integer"))?;
                index += 2;
                let count = usize::try_from(count).ok().filter(|count| *count <= args.len() - index);
                let count =
                    count.ok_or(Failure::Text("ERR The `numids` parameter must match the number of arguments"))?;
                ids = Some(&args.from(index)[..count]);
                index += count;
            } else {
                return Err(Failure::Syntax);
            }
        }
        let ids = ids.ok_or(Failure::Syntax)?.iter().map(|text| ids::parse(text, 0)).collect::<Result<_, _>>()?;
        Ok(Wanted { references: references.unwrap_or(References::Keep), ids })
    }

    /// Nothing is to be done about any of them.
    pub(crate) fn nothing(&self) -> Reply {
        Reply::Array(vec![Reply::Integer(NOTHING); self.ids.len()])
    }

    /// Removes the entries of those identifiers that are `chosen`, as far as the groups allow; for each of these whether a group needs its entry, and whether there was one.
    pub(crate) fn remove(&self, stream: &mut StreamEdit<'_, '_>, chosen: impl Fn(usize) -> bool) -> Vec<Removal> {
        let head = *stream.stream();
        let groups: Vec<(Blob, Group)> = match self.references {
            References::Keep => Vec::new(),
            References::Remove | References::Respect => stream.collections().groups(head.number()).collect(),
        };
        let chosen_ids = || self.ids.iter().enumerate().filter(|(at, _)| chosen(*at)).map(|(_, id)| *id);
        if self.references == References::Remove {
            for (name, group) in &groups {
                // A group of which nothing is pending is not written.
                if chosen_ids().any(|id| is_pending(stream, group, id)) {
                    stream.edit_group(name, |group| chosen_ids().filter(|id| group.forget(*id)).count());
                }
            }
        }
        let respects = self.references == References::Respect;
        let least = groups.iter().map(|(_, group)| group.last).min();
        let mut remove = |id: StreamId| {
            let not_given = least.is_some_and(|least| id > least);
            if respects && (not_given || groups.iter().any(|(_, group)| is_pending(stream, group, id))) {
                return Removal::Needed;
            }
            if stream.remove(id) { Removal::Removed } else { Removal::Absent }
        };
        let each = self.ids.iter().enumerate();
        each.map(|(at, id)| if chosen(at) { remove(*id) } else { Removal::Absent }).collect()
    }
}

/// What became of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Removal {
    /// It was there, and is no more.
    Removed,
    /// It was not there, or not chosen.
    Absent,
    /// A group has it pending, or has not been given it yet.
    Needed,
}

fn is_pending(stream: &StreamEdit<'_, '_>, group: &Group, id: StreamId) -> bool {
    // Nothing before the front is pending; most groups are asked no further.
    group.pending > 0 && id >= group.front && stream.collections().pending(group, id).is_some()
}
