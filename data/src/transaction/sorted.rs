//! How a write changes a sorted set: member by member, and its record once at the end.

use super::{NamedEdit, Transaction, name_order};
use crate::blob::Blob;
use crate::collections::ranked::Standing;
use crate::failure::Failure;
use crate::reply::Reply;
use crate::store::KeyRef;
use crate::value::{Kind, Value};

/// What was found of a member, so that it is looked for once only: in a sorted set that has not been changed since.
#[derive(Debug)]
pub struct FoundMember {
    name: Blob,
    value: Option<Blob>,
    standing: Option<Standing>,
}

impl FoundMember {
    /// The member's score, if it is one.
    #[must_use]
    pub fn score(&self) -> Option<f64> {
        self.standing.map(|standing| standing.score)
    }
}

impl NamedEdit<'_, '_> {
    /// Looks for a member.
    #[must_use]
    pub fn find_member(&self, member: &[u8]) -> FoundMember {
        let value = self.get(member);
        let standing = value.as_deref().and_then(Standing::read);
        FoundMember { name: Blob::new(member), value, standing }
    }

    /// Gives a member that was looked for just now a score, which is a number.
    pub fn set_score(&mut self, found: FoundMember, score: f64) {
        let FoundMember { name, value, standing: before } = found;
        if before.is_some_and(|before| before.score == score) {
            return;
        }
        let standing = match before {
            Some(before) => Standing { score, ..before },
            None => Standing::draw(score, self.tx.rng().next_u64()),
        };
        // The number is given with the first element.
        self.set_over(value.as_ref(), name.clone(), standing.value());
        let number = self.collection.number();
        let collections = &mut self.tx.tree.collections;
        if let Some(before) = before {
            collections.leave_score(number, before, &name);
        }
        collections.enter_score(number, standing, &name);
    }

    /// Takes a member out; its score.
    pub fn remove_scored(&mut self, member: &[u8]) -> Option<f64> {
        let before = Standing::read(&self.remove(member)?)?;
        let number = self.collection.number();
        self.tx.tree.collections.leave_score(number, before, &Blob::new(member));
        Some(before.score)
    }
}

impl<'a> Transaction<'a> {
    /// As [`Transaction::edit_hash`], of a sorted set.
    pub fn edit_sorted<R>(
        &mut self,
        key: KeyRef<'_>,
        edit: impl FnOnce(&mut NamedEdit<'_, 'a>) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        self.edit_named(key, Kind::SortedSet, edit)
    }

    /// Puts a sorted set of these members, each named once, under a key, whatever was there before; answers how many they are.
    pub fn store_sorted(&mut self, key: KeyRef<'_>, members: Vec<(Blob, f64)>) -> Reply {
        let len = members.len();
        if len == 0 {
            self.remove(key);
        } else {
            let made = self.make_sorted(members.into_iter());
            self.put(key, made, self.deadline_or_default(None));
        }
        Reply::count(len)
    }

    /// A sorted set that stands under no key yet: of these members, each named once.
    pub fn make_sorted(&mut self, members: impl Iterator<Item = (Blob, f64)>) -> Value {
        let mut set = self.tree.collections.new_collection();
        for (member, score) in members {
            let standing = Standing::draw(score, self.rng.next_u64());
            let collections = &mut self.tree.collections;
            let key =
                crate::kept::ElementKey { collection: set.number(), order: name_order(&member), name: member.clone() };
            let value = standing.value();
            set.grow(key.bytes_with(&value));
            collections.insert_new(key, value);
            collections.enter_score(set.number(), standing, &member);
        }
        Value::SortedSet(set)
    }
}
