//! Property: what was acknowledged and stands on the disk of the node that goes on alone is there afterwards, and nothing of what it lacks.
//!
//! A run in which that happens has two histories. What clients saw up to that moment is judged as any other. What they see from then on is explained
//! by what was there before as far as the survivor's disk has it: so each operation of before stays what it was, or may have happened, or has not.
//!
//! ```text
//!  decided before   1 2 3 4 5 6 7 8         an operation whose answer was there before anybody knew 5 to be decided: stays
//!  on the disk      1 2 3 4 x               later ones: lost, but for those that may be x
//! ```
//! `x` was never decided, and is taken for decided: that is the promise (docs/decisions/2026-11-25-unsafe-recover.md). How it reads for a partition is
//! known exactly, entry by entry; which operation stands at which position is known by when it was asked and answered.

use base::Position;

use crate::history::{Operation, Outcome};

/// One partition at the moment at which its survivor goes on.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    /// When anybody was first seen to know how much to be decided, ascending.
    pub decided: Vec<(u64, Position)>,
    /// Up to here the survivor's log is what was decided.
    pub common: Position,
    /// The end of it.
    pub last: Position,
}

impl Kept {
    /// What anybody had known to be decided by then.
    fn decided_at(&self, at: u64) -> Position {
        let known = self.decided.partition_point(|(since, _)| *since <= at);
        known.checked_sub(1).map_or(Position(0), |place| self.decided[place].1)
    }

    /// Everything that was known to be decided.
    #[must_use]
    pub fn highest(&self) -> Position {
        self.decided.last().map_or(Position(0), |(_, highest)| *highest)
    }

    /// Where the survivor's log and what was decided part, if they do: entries of the one by position, and what is known of the other.
    #[must_use]
    pub fn parting(log: &[(Position, u64)], decided: impl Fn(Position) -> Option<u64>) -> Option<Position> {
        let differs = |(at, digest): &&(Position, u64)| decided(*at).is_some_and(|other| other != *digest);
        log.iter().find(differs).map(|(at, _)| at.previous())
    }

    /// Whether an operation certainly stands where the survivor's log is what was decided.
    fn has(&self, operation: &Operation) -> bool {
        let finish = operation.finish.filter(|_| operation.outcome == Outcome::Done);
        finish.is_some_and(|finish| self.decided_at(finish) <= self.common)
    }

    /// Whether an operation may stand anywhere in the survivor's log: it stands behind all that was decided before it was asked.
    fn may_have(&self, operation: &Operation) -> bool {
        self.common < self.last || self.decided_at(operation.invoke) < self.last
    }
}

/// What is known of an operation from before, now that the survivor goes on with what it has of the operation's partition, if anything. Whatever was on its
/// way to that is lost.
pub fn reconsider(kept: Option<&Kept>, operation: &mut Operation) {
    if operation.outcome == Outcome::Failed || kept.is_some_and(|kept| kept.has(operation)) {
        return;
    }
    let may_be_there = kept.is_some_and(|kept| kept.may_have(operation));
    operation.outcome = if may_be_there { Outcome::Maybe } else { Outcome::Failed };
    operation.finish = None;
    operation.replies.clear();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::linearizability::{Limits, check};
    use crate::history::{Command, Op, Reply, answered};

    /// Entries 1 to 4 were known to be decided at 10, 20, 30 and 40.
    fn kept(common: u64, last: u64) -> Kept {
        let decided = (1..=4).map(|at| (10 * at, Position(at))).collect();
        Kept { decided, common: Position(common), last: Position(last) }
    }

    fn set(value: &str, invoke: u64) -> Operation {
        answered(Command::new(Op::Set, "k").with_argument(value), invoke, Reply::Text("OK".into()))
    }

    fn get(value: &str, invoke: u64) -> Operation {
        answered(Command::new(Op::Get, "k"), invoke, Reply::Text(value.into()))
    }

    /// Whether somebody who reads `value` at 100 is explained by what the survivor has of four writes.
    fn explains(kept: &Kept, value: &str) -> bool {
        let mut history: Vec<Operation> = (1..=4u64).map(|at| set(&format!("v{at}"), 10 * at - 1)).collect();
        history.insert(3, get("v3", 32));
        history.iter_mut().for_each(|operation| reconsider(Some(kept), operation));
        history.push(get(value, 100));
        check(&history, Limits::default()).violations.is_empty()
    }

    #[test]
    fn what_the_disk_has_stays_and_nothing_else_comes() {
        let whole = kept(4, 4);
        assert!(explains(&whole, "v4") && !explains(&whole, "v3"), "an acknowledged write that the disk had");
        let behind = kept(2, 2);
        assert!(explains(&behind, "v2"), "what others knew is lost, and what was read of it");
        assert!(!explains(&behind, "v1"), "that was on the disk");
        assert!(!explains(&behind, "v4"), "that was not on the disk");
        let parted = kept(2, 3);
        assert!(explains(&parted, "v2") && explains(&parted, "v4"), "something stands there that was not decided");
        assert!(!explains(&parted, "v1"));
        let mut acknowledged = set("v", 5);
        reconsider(None, &mut acknowledged);
        assert_eq!(acknowledged.outcome, Outcome::Failed, "a bucket in memory begins empty");
    }

    #[test]
    fn what_was_never_answered_may_be_on_the_disk() {
        let asked = |invoke: u64, kept: &Kept| {
            let mut operation =
                Operation { outcome: Outcome::Maybe, finish: None, replies: vec![], ..set("v", invoke) };
            reconsider(Some(kept), &mut operation);
            operation.outcome
        };
        assert_eq!(asked(35, &kept(4, 4)), Outcome::Maybe);
        assert_eq!(asked(35, &kept(3, 3)), Outcome::Failed, "it stands behind the third");
        assert_eq!(asked(35, &kept(2, 3)), Outcome::Maybe);
    }

    #[test]
    fn logs_part_at_the_first_entry_that_differs() {
        let log =
            |digests: &[u64]| digests.iter().zip(3..).map(|(digest, at)| (Position(at), *digest)).collect::<Vec<_>>();
        let decided = |at: Position| [0, 1, 2, 33, 44].get(at.0 as usize).copied();
        assert_eq!(Kept::parting(&log(&[33, 44, 55]), decided), None);
        assert_eq!(Kept::parting(&log(&[33, 45, 55]), decided), Some(Position(3)));
    }
}
