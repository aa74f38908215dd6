//! Intersections, unions and differences of sets: `SINTER`, `SUNION`, `SDIFF` and their relatives.
//!
//! Members are met in the order of their hashes, which is the same for all sets. What several sets have in common, or one alone, is found by going through
//! one of them and looking into the others; nothing is kept on the way.

use crate::collections::Collections;
use crate::commands::prelude::*;
use crate::value::COLLECTION_LEN_MAX;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// What becomes of several sets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operation {
    /// What is in all of them.
    Intersection,
    /// What is in any of them.
    Union,
    /// What is in the first and in no other.
    Difference,
}

/// The keys of the sets.
pub(crate) struct Sources<'a>(pub &'a [&'a [u8]]);

impl Sources<'_> {
    /// The sets; none where a key does not exist.
    pub(crate) fn read(&self, view: &View<'_>) -> Result<Vec<Option<Collection>>, Failure> {
        self.0.iter().map(|key| view.set(KeyRef::new(key))).collect()
    }
}

impl Operation {
    /// Meets every member of what comes out, those of a union once for each set that has it.
    pub(crate) fn walk(
        self,
        collections: &Collections,
        sets: &[Option<Collection>],
        meet: &mut dyn FnMut(u64, Blob) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let there: Vec<Collection> = sets.iter().copied().flatten().collect();
        let has = |set: &Collection, order, member: &[u8]| collections.element(*set, order, member).is_some();
        match self {
            Operation::Union => {
                for set in &there {
                    for (order, member, _) in collections.elements_of(*set, 0) {
                        meet(order, member)?;
                    }
                }
            }
            Operation::Intersection => {
                let smallest = there.iter().min_by_key(|set| set.len()).filter(|_| there.len() == sets.len());
                let Some(smallest) = smallest else { return ControlFlow::Continue(()) };
                let others: Vec<&Collection> = there.iter().filter(|set| *set != smallest).collect();
                for (order, member, _) in collections.elements_of(*smallest, 0) {
                    if others.iter().all(|set| has(set, order, &member)) {
                        meet(order, member)?;
                    }
                }
            }
            Operation::Difference => {
                let Some((Some(first), others)) = sets.split_first() else { return ControlFlow::Continue(()) };
                let others: Vec<&Collection> = others.iter().flatten().collect();
                if others.contains(&first) {
                    return ControlFlow::Continue(());
                }
                for (order, member, _) in collections.elements_of(*first, 0) {
                    if !others.iter().any(|set| has(set, order, &member)) {
                        meet(order, member)?;
                    }
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// What comes out, as an answer.
    pub(crate) fn answer(self, view: &View<'_>, sources: &Sources<'_>) -> Result<Reply, Failure> {
        let sets = sources.read(view)?;
        let mut found = BTreeSet::new();
        let mut bytes = 0;
        let walked = self.walk(view.collections(), &sets, &mut |order, member| {
            let length = member.len() as u64;
            if found.insert((order, member)) {
                bytes += length + ELEMENT_BYTES;
            }
            if bytes > view.meter().answer_max() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if walked.is_break() {
            return Err(Failure::Text(
                "ERR what comes out is too large for one answer: store it and go through it with SSCAN",
            ));
        }
        Ok(Reply::Set(found.into_iter().map(|(_, member)| Reply::Bulk(member)).collect()))
    }

    /// Puts what comes out under a key, whatever was there before; how many members it has.
    pub(crate) fn store(
        self,
        tx: &mut Transaction<'_>,
        destination: KeyRef<'_>,
        sources: &Sources<'_>,
    ) -> Result<Reply, Failure> {
        let mut sets = Vec::with_capacity(sources.0.len());
        for key in sources.0 {
            sets.push(tx.collection(KeyRef::new(key), Kind::Set)?);
        }
        if self == Operation::Union && sets.iter().flatten().map(|set| set.len()).sum::<u64>() > COLLECTION_LEN_MAX {
            return Err(Kind::Set.is_full());
        }
        let made = tx.make_set(|collections, add| {
            let _ = self.walk(collections, &sets, &mut |order, member| {
                add(order, member);
                ControlFlow::Continue(())
            });
        });
        let len = made.collection().map_or(0, Collection::len);
        if len == 0 {
            tx.remove(destination);
        } else {
            tx.put(destination, made, tx.deadline_or_default(None));
        }
        Ok(Reply::Integer(len as i64))
    }
}

/// What a member of an answer takes beside its bytes.
const ELEMENT_BYTES: u64 = 64;
