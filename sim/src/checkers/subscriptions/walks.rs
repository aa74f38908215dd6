//! Subscribers who are told what is there: by the changes and keys that they were told they have, when they are live, what the nodes had at that revision.
//!
//! Until then a change may be left out, because its key is told later. So nothing is demanded of each single change but that it is true, and in order; and of each key that it is told
//! once.

use std::collections::BTreeMap;

use wire::Value;

use super::{Changes, Keys, Place, Wanted};

/// What a subscriber has been told of a partition since the first key.
#[derive(Debug, Default)]
struct Walk {
    keys: Keys,
    /// The changes, which are compared with those of the nodes at the end.
    changes: Vec<(u64, Vec<Value>)>,
}

/// The partitions of a subscription of which it is told what is there.
#[derive(Debug, Default)]
pub(super) struct Walks {
    /// All of them, however many there are.
    all: bool,
    of: BTreeMap<usize, Walk>,
}

/// A word of the second array of a change's message, or of a key's.
fn word(parts: &[Value], place: usize) -> &[u8] {
    let Some(Value::Array(words)) = parts.get(1) else { return &[] };
    words.get(place).and_then(Value::as_bytes).unwrap_or_default()
}

/// What a change makes of the keys of a state.
pub(super) fn apply(keys: &mut Keys, parts: &[Value], revision: u64) {
    let key = word(parts, 2);
    match word(parts, 0) {
        b"flush" => keys.clear(),
        b"del" | b"expire" | b"evict" => drop(keys.remove(key)),
        _ => drop(keys.insert(key.to_vec(), (revision, parts.to_vec()))),
    }
}

/// Value and deadline, if they are told; of a change they stand one place further than of a key that is there.
fn left(parts: &[Value]) -> Option<[&Value; 2]> {
    let Some(Value::Array(words)) = parts.get(1) else { return None };
    let [.., value, deadline, Value::Array(flags)] = words.as_slice() else { return None };
    let is_told = |flag: &Value| !matches!(flag.as_bytes(), Some(b"omitted" | b"effect"));
    flags.iter().all(is_told).then_some([value, deadline])
}

/// Whether a message tells a key that is there, and not a change: it has no stamp.
fn is_key(parts: &[Value]) -> bool {
    matches!(parts.first(), Some(Value::Array(numbers)) if numbers.len() == 2)
}

impl Walks {
    /// `all`: of a subscription that begins with what is there.
    pub(super) fn new(all: bool) -> Walks {
        Walks { all, of: BTreeMap::new() }
    }

    pub(super) fn is_walking(&self, partition: usize) -> bool {
        self.all || self.of.contains_key(&partition)
    }

    /// From here on the subscriber is told what is there in a partition.
    pub(super) fn begin(&mut self, partition: usize) {
        self.of.insert(partition, Walk::default());
    }

    /// A change was told.
    pub(super) fn change(&mut self, partition: usize, revision: u64, parts: &[Value]) -> Result<(), String> {
        let walk = self.of.entry(partition).or_default();
        if walk.changes.last().is_some_and(|(last, _)| *last >= revision) {
            return Err(format!("told revision {revision} of {partition} behind {:?}", walk.changes.last()));
        }
        if walk.keys.get(word(parts, 2)).is_some_and(|(known, _)| *known >= revision) {
            return Err(format!("told revision {revision} of {partition} again, which it had with its key: {parts:?}"));
        }
        walk.changes.push((revision, parts.to_vec()));
        apply(&mut walk.keys, parts, revision);
        Ok(())
    }

    /// A key was told.
    pub(super) fn state(
        &mut self,
        partition: usize,
        (key, revision): (&[u8], u64),
        parts: &[Value],
    ) -> Result<(), String> {
        if !self.is_walking(partition) {
            return Err(format!("told of {partition} what is there, and was not to be: {parts:?}"));
        }
        let walk = self.of.entry(partition).or_default();
        match walk.keys.insert(key.to_vec(), (revision, parts.to_vec())) {
            None => Ok(()),
            Some((known, _)) => {
                Err(format!("told a key of {partition} twice, at {known} and at {revision}: {parts:?}"))
            }
        }
    }

    /// The subscriber is live at this place.
    pub(super) fn end(&mut self, changes: &Changes, place: &Place, wanted: &Wanted) -> Result<(), String> {
        if std::mem::take(&mut self.all) {
            // Also where nothing was told.
            let places = place.revisions.iter().enumerate().filter(|(_, revision)| revision.is_some());
            for (partition, _) in places {
                self.of.entry(partition).or_default();
            }
        }
        for (partition, walk) in std::mem::take(&mut self.of) {
            let Some(Some(revision)) = place.revisions.get(partition).copied() else {
                return Err(format!("told of partition {partition}, of which it wants nothing"));
            };
            let of = (place.history.clone(), partition);
            for (revision, parts) in &walk.changes {
                match changes.truth.get(&of).and_then(|truth| truth.get(revision)) {
                    Some(change) if change.parts != *parts => {
                        return Err(format!("told {parts:?}, and it was {:?}", change.parts));
                    }
                    Some(change) if !wanted.wants(change) => {
                        return Err(format!("told {parts:?}, which it does not want"));
                    }
                    Some(_) => {}
                    None => return Err(format!("told revision {revision} of {partition}, which no node has recorded")),
                }
            }
            if let Some(expected) = changes.state_at(&of, revision) {
                compare(&walk.keys, &expected, wanted)
                    .map_err(|text| format!("live at {revision} of {partition}: {text}"))?;
            }
        }
        Ok(())
    }
}

fn compare(told: &Keys, expected: &Keys, wanted: &Wanted) -> Result<(), String> {
    let text = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
    if let Some(key) = told.keys().find(|key| !expected.contains_key(*key)) {
        return Err(format!("has {}, which is not there", text(key)));
    }
    for (key, (revision, parts)) in expected.iter().filter(|(key, _)| wanted.has(key)) {
        let Some((at, seen)) = told.get(key) else { return Err(format!("lacks {}, changed at {revision}", text(key))) };
        if at != revision {
            return Err(format!("has {} as it was at {at}, and it was changed at {revision}", text(key)));
        }
        let is_same = match (left(parts), left(seen)) {
            (Some(expected), Some(seen)) => expected == seen,
            // Two changes, or two keys that are there, are the same message. Of a change it may not be known what it has left.
            _ => parts == seen || is_key(parts) != is_key(seen),
        };
        if !is_same {
            return Err(format!("has {} as {seen:?}, and it is {parts:?}", text(key)));
        }
    }
    Ok(())
}
