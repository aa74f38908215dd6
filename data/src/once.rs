//! Remembered outcomes of `DICTUM.ONCE`, so that a command may be sent again and still happens once.
//!
//! A digest of the command stands beside its outcome, so that an identifier that is used again for another command is refused:
//! whoever sent that must not be told that it is done.

use crate::blob::Blob;
use crate::reply::Reply;
use base::checksum::xxh3;
use base::limits::ONCE_OUTCOMES_MAX;
use imbl::OrdMap;

/// Most bytes of identifiers and replies that are remembered; beyond, the oldest are forgotten, but never the last.
const OUTCOME_BYTES_MAX: usize = 64 * 1024 * 1024;

/// What is remembered under an identifier.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// The identifier.
    pub id: Blob,
    /// [`command_digest`] of the command; `None` if the outcome comes from a snapshot of version 1, which had none.
    pub command: Option<u64>,
    /// What was answered.
    pub reply: Reply,
}

impl Outcome {
    /// Whether this is the outcome of the command with that digest, as far as is known.
    #[must_use]
    pub fn is_of(&self, command: u64) -> bool {
        self.command.is_none_or(|known| known == command)
    }
}

/// A digest of a command's words; the name counts in any case.
#[must_use]
pub fn command_digest(words: &[&[u8]]) -> u64 {
    let (name, rest) = words.split_first().map_or((&b""[..], words), |(name, rest)| (*name, rest));
    let first = xxh3(&name.to_ascii_lowercase());
    rest.iter().fold(first, |digest, word| {
        let parts = [digest, word.len() as u64, xxh3(word)].map(u64::to_le_bytes);
        xxh3(parts.as_flattened())
    })
}

/// Outcomes by identifier, the oldest forgotten first. Copies share what they have in common.
#[derive(Clone, Debug, Default)]
pub struct OnceTable {
    /// Number of each identifier's outcome.
    numbers: OrdMap<Blob, u64>,
    /// Outcomes by number, which grows: the first is the oldest.
    outcomes: OrdMap<u64, Outcome>,
    next_number: u64,
    bytes: usize,
}

impl OnceTable {
    /// The recorded outcome of `id`.
    #[must_use]
    pub fn get(&self, id: &[u8]) -> Option<&Outcome> {
        let number = self.numbers.get(&Blob::new(id))?;
        self.outcomes.get(number)
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
    pub fn iter_from(&self, skipped: usize) -> impl Iterator<Item = &Outcome> {
        // Numbers follow each other without gaps, so the oldest kept one leads to all others.
        let oldest = self.outcomes.get_min().map_or(0, |(number, _)| *number);
        self.outcomes.range(oldest + skipped as u64..).map(|(_, outcome)| outcome)
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
    pub(crate) fn numbered_from(&self, number: u64) -> impl Iterator<Item = (u64, &Outcome)> {
        self.outcomes.range(number..).map(|(number, outcome)| (*number, outcome))
    }

    /// Remembers an outcome that is not recorded yet, and forgets the oldest ones beyond the limits.
    pub fn insert(&mut self, outcome: Outcome) {
        self.bytes += outcome_bytes(&outcome);
        self.numbers.insert(outcome.id.clone(), self.next_number);
        self.outcomes.insert(self.next_number, outcome);
        self.next_number += 1;
        while self.outcomes.len() > ONCE_OUTCOMES_MAX || (self.bytes > OUTCOME_BYTES_MAX && self.outcomes.len() > 1) {
            let Some((&oldest, outcome)) = self.outcomes.get_min().map(|(number, outcome)| (number, outcome)) else {
                break;
            };
            self.bytes -= outcome_bytes(outcome);
            self.numbers.remove(&outcome.id);
            self.outcomes.remove(&oldest);
        }
    }
}

/// Approximate bytes of an outcome.
fn outcome_bytes(outcome: &Outcome) -> usize {
    fn of(reply: &Reply) -> usize {
        size_of::<Reply>()
            + match reply {
                Reply::Bulk(bytes) | Reply::Verbatim(bytes) | Reply::Status(bytes) => bytes.len(),
                Reply::Array(items) | Reply::Set(items) => items.iter().map(of).sum(),
                Reply::Map(pairs) | Reply::Pairs(pairs) | Reply::Named(pairs) => {
                    pairs.iter().map(|(key, value)| of(key) + of(value)).sum()
                }
                Reply::ByDialect(replies) => replies.iter().map(of).sum(),
                _ => 0,
            }
    }
    outcome.id.len() + of(&outcome.reply)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(id: &str, reply: &Reply) -> Outcome {
        Outcome { id: Blob::from(id), command: Some(7), reply: reply.clone() }
    }

    fn remembered(table: &OnceTable, number: usize) -> bool {
        table.get(number.to_string().as_bytes()).is_some()
    }

    #[test]
    fn the_oldest_outcomes_are_forgotten_first() {
        let mut table = OnceTable::default();
        for number in 0..ONCE_OUTCOMES_MAX + 2 {
            table.insert(outcome(&number.to_string(), &Reply::Ok));
        }
        assert_eq!(table.len(), ONCE_OUTCOMES_MAX);
        assert!(!remembered(&table, 0) && !remembered(&table, 1) && remembered(&table, 2));
        assert_eq!(table.iter_from(1).next().map(|outcome| outcome.id.clone()), Some(Blob::from("3")));
    }

    #[test]
    fn large_outcomes_push_out_others_but_never_themselves() {
        let mut table = OnceTable::default();
        let large = Reply::Bulk(Blob::from(vec![0; OUTCOME_BYTES_MAX * 2 / 3]));
        for number in 0..3 {
            table.insert(outcome(&number.to_string(), &large));
        }
        assert_eq!(table.len(), 1);
        table.insert(outcome("huge", &Reply::Array(vec![large.clone(), large])));
        assert!(table.get(b"huge").is_some());
        table.insert(outcome("small", &Reply::Ok));
        assert!(table.get(b"huge").is_none() && table.get(b"small").is_some());
        assert_eq!(table.bytes, outcome_bytes(&outcome("small", &Reply::Ok)));
    }

    #[test]
    fn commands_are_told_apart() {
        let digest = |line: &str| command_digest(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        assert_eq!(digest("SET a 1"), digest("set a 1"));
        let others =
            ["SET a 2", "SET A 1", "SET a", "SET a 1 1", "SETNX a 1", "SET 1 a", "SET a1 ", "SET  a1", "SET a  1"];
        for other in others {
            assert_ne!(digest("SET a 1"), digest(other), "{other}");
        }
        let known = outcome("id", &Reply::Ok);
        assert!(known.is_of(7) && !known.is_of(8));
        assert!(
            Outcome { command: None, ..known }.is_of(8),
            "an outcome of an old snapshot is taken for any command's"
        );
    }
}
