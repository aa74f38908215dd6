//! Remembered outcomes of `DICTUM.ONCE`, so that a command may be sent again and still happens once.

use crate::blob::Blob;
use crate::reply::Reply;
use base::limits::ONCE_OUTCOMES_MAX;
use imbl::OrdMap;

/// Most bytes of identifiers and replies that are remembered; beyond, the oldest are forgotten, but never the last.
const OUTCOME_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Outcomes by identifier, the oldest forgotten first. Copies share what they have in common.
#[derive(Clone, Debug, Default)]
pub struct OnceTable {
    /// Number of each identifier's outcome.
    numbers: OrdMap<Blob, u64>,
    /// Outcomes by number, which grows: the first is the oldest.
    outcomes: OrdMap<u64, (Blob, Reply)>,
    next_number: u64,
    bytes: usize,
}

impl OnceTable {
    /// The recorded outcome of `id`.
    #[must_use]
    pub fn get(&self, id: &[u8]) -> Option<&Reply> {
        let number = self.numbers.get(&Blob::new(id))?;
        self.outcomes.get(number).map(|(_, reply)| reply)
    }

    /// How many outcomes are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.outcomes.len()
    }

    /// Whether nothing is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.outcomes.is_empty()
    }

    /// Outcomes, the oldest first, without the first `skipped` of them.
    pub fn iter_from(&self, skipped: usize) -> impl Iterator<Item = (&Blob, &Reply)> {
        // Numbers follow each other without gaps, so the oldest kept one leads to all others.
        let oldest = self.outcomes.get_min().map_or(0, |(number, _)| *number);
        self.outcomes.range(oldest + skipped as u64..).map(|(_, (id, reply))| (id, reply))
    }

    /// A table without outcomes whose next one gets `number`.
    pub(crate) fn starting_at(number: u64) -> OnceTable {
        OnceTable { next_number: number, ..OnceTable::default() }
    }

    /// The numbers of what is remembered.
    pub(crate) fn numbers(&self) -> std::ops::Range<u64> {
        self.outcomes.get_min().map_or(self.next_number, |(number, _)| *number)..self.next_number
    }

    /// Outcomes from `number` on, with their numbers.
    pub(crate) fn numbered_from(&self, number: u64) -> impl Iterator<Item = (u64, &Blob, &Reply)> {
        self.outcomes.range(number..).map(|(number, (id, reply))| (*number, id, reply))
    }

    /// Remembers an outcome that is not recorded yet, and forgets the oldest ones beyond the limits.
    pub fn insert(&mut self, id: Blob, reply: Reply) {
        self.bytes += outcome_bytes(&id, &reply);
        self.numbers.insert(id.clone(), self.next_number);
        self.outcomes.insert(self.next_number, (id, reply));
        self.next_number += 1;
        while self.outcomes.len() > ONCE_OUTCOMES_MAX || (self.bytes > OUTCOME_BYTES_MAX && self.outcomes.len() > 1) {
            let Some((&oldest, (id, reply))) = self.outcomes.get_min().map(|(number, outcome)| (number, outcome))
            else {
                break;
            };
            self.bytes -= outcome_bytes(id, reply);
            self.numbers.remove(id);
            self.outcomes.remove(&oldest);
        }
    }
}

/// Approximate bytes of an outcome.
fn outcome_bytes(id: &Blob, reply: &Reply) -> usize {
    fn of(reply: &Reply) -> usize {
        size_of::<Reply>()
            + match reply {
                Reply::Bulk(bytes) => bytes.len(),
                Reply::Array(items) | Reply::Set(items) => items.iter().map(of).sum(),
                Reply::Map(pairs) => pairs.iter().map(|(key, value)| of(key) + of(value)).sum(),
                _ => 0,
            }
    }
    id.len() + of(reply)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remembered(table: &OnceTable, number: usize) -> bool {
        table.get(number.to_string().as_bytes()).is_some()
    }

    #[test]
    fn the_oldest_outcomes_are_forgotten_first() {
        let mut table = OnceTable::default();
        for number in 0..ONCE_OUTCOMES_MAX + 2 {
            table.insert(Blob::from(number.to_string()), Reply::Ok);
        }
        assert_eq!(table.len(), ONCE_OUTCOMES_MAX);
        assert!(!remembered(&table, 0) && !remembered(&table, 1) && remembered(&table, 2));
        assert_eq!(table.iter_from(1).next().map(|(id, _)| id.clone()), Some(Blob::from("3")));
    }

    #[test]
    fn large_outcomes_push_out_others_but_never_themselves() {
        let mut table = OnceTable::default();
        let large = Reply::Bulk(Blob::from(vec![0; OUTCOME_BYTES_MAX * 2 / 3]));
        for number in 0..3 {
            table.insert(Blob::from(number.to_string()), large.clone());
        }
        assert_eq!(table.len(), 1);
        table.insert(Blob::from("huge"), Reply::Array(vec![large.clone(), large]));
        assert!(table.get(b"huge").is_some());
        table.insert(Blob::from("small"), Reply::Ok);
        assert!(table.get(b"huge").is_none() && table.get(b"small").is_some());
        assert_eq!(table.bytes, outcome_bytes(&Blob::from("small"), &Reply::Ok));
    }
}
