//! `ZADD key [NX | XX] [GT | LT] [CH] [INCR] score member [score member ...]`, `ZINCRBY key increment member`

use super::bounds::parse_score;
use crate::commands::prelude::*;
use crate::transaction::NamedEdit;

/// Gives members scores; answers how many of them are new.
pub struct ZAdd<'a> {
    key: KeyRef<'a>,
    how: How,
    /// Answers how many are new or have another score.
    counts_changes: bool,
    members: Vec<(f64, &'a [u8])>,
}

/// Under which conditions a member gets a score.
#[derive(Clone, Copy, Default)]
struct How {
    only_new: bool,
    only_known: bool,
    only_greater: bool,
    only_less: bool,
    adds: bool,
}

/// What became of a member.
enum Outcome {
    Added(f64),
    Changed(f64),
    Same(f64),
    /// The conditions did not allow it.
    Left,
}

impl How {
    fn apply(self, set: &mut NamedEdit<'_, '_>, member: &[u8], score: f64) -> Result<Outcome, Failure> {
        let found = set.find_member(member);
        let Some(before) = found.score() else {
            if self.only_known {
                return Ok(Outcome::Left);
            }
            set.set_score(found, score);
            return Ok(Outcome::Added(score));
        };
        if self.only_new {
            return Ok(Outcome::Left);
        }
        let score = if self.adds { before + score } else { score };
        if score.is_nan() {
            return Err(Failure::Text("ERR resulting score is not a number (NaN)"));
        }
        if self.only_less && score >= before || self.only_greater && score <= before {
            return Ok(Outcome::Left);
        }
        if score == before {
            return Ok(Outcome::Same(score));
        }
        set.set_score(found, score);
        Ok(Outcome::Changed(score))
    }
}

impl<'a> ZAdd<'a> {
    /// Of scores and members; only new ones or only known ones, and whether changed ones are counted.
    pub(crate) fn of_scores(
        key: KeyRef<'a>,
        (only_new, only_known): (bool, bool),
        counts_changes: bool,
        members: Vec<(f64, &'a [u8])>,
    ) -> ZAdd<'a> {
        ZAdd { key, how: How { only_new, only_known, ..How::default() }, counts_changes, members }
    }
}

impl<'a> WriteCommand<'a> for ZAdd<'a> {
    const SPEC: Spec = Spec {
        name: "zadd",
        arity: -4,
        flags: Flags::WRITE.and(Flags::OFTEN_NOTHING).and(Flags::DENYOOM).and(Flags::FAST).and(Flags::BOUNDED),
        keys: Keys::ONE,
        group: Group::SortedSet,
        since: "1.2.0",
        complexity: "O(log(N)) for each member, where N is the size of the sorted set",
        summary: "Gives members of a sorted set scores and returns how many of them are new.",
        arguments: "key [NX | XX] [GT | LT] [CH] [INCR] score member [score member ...]",
        example: "ZADD scores 31 ada 27 grace",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let mut how = How::default();
        let (mut counts_changes, mut index) = (false, 2);
        while index < args.len() {
            let option = match args.get(index)?.to_ascii_uppercase().as_slice() {
                b"NX" => &mut how.only_new,
                b"XX" => &mut how.only_known,
                b"GT" => &mut how.only_greater,
                b"LT" => &mut how.only_less,
                b"INCR" => &mut how.adds,
                b"CH" => &mut counts_changes,
                _ => break,
            };
            *option = true;
            index += 1;
        }
        let pairs = args.from(index);
        if pairs.is_empty() || !pairs.len().is_multiple_of(2) {
            return Err(Failure::Syntax);
        }
        if how.only_new && how.only_known {
            return Err(Failure::Text("ERR XX and NX options at the same time are not compatible"));
        }
        if [how.only_greater, how.only_less, how.only_new].into_iter().filter(|set| *set).count() > 1 {
            return Err(Failure::Text("ERR GT, LT, and/or NX options at the same time are not compatible"));
        }
        if how.adds && pairs.len() > 2 {
            return Err(Failure::Text("ERR INCR option supports a single increment-element pair"));
        }
        let scores = pairs.iter().step_by(2).map(|text| parse_score(text).ok_or(Failure::NotAFloat));
        let scores = scores.collect::<Result<Vec<f64>, Failure>>()?;
        let members = args.members_from(index)?.iter().skip(1).step_by(2);
        let members = scores.into_iter().zip(members.copied()).collect();
        Ok(ZAdd { key: args.key(1)?, how, counts_changes, members })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        tx.edit_sorted(self.key, |set| {
            set.check_room(self.members.len())?;
            let (mut added, mut changed, mut score) = (0, 0, None);
            for (number, member) in self.members {
                score = match self.how.apply(set, member, number)? {
                    Outcome::Added(score) => {
                        added += 1;
                        Some(score)
                    }
                    Outcome::Changed(score) => {
                        changed += 1;
                        Some(score)
                    }
                    Outcome::Same(score) => Some(score),
                    Outcome::Left => None,
                };
            }
            Ok(if self.how.adds {
                score.map_or(Reply::Nil, Reply::Double)
            } else {
                Reply::Integer(if self.counts_changes { added + changed } else { added })
            })
        })
    }
}

/// Adds to the score of a member.
pub struct ZIncrBy<'a> {
    key: KeyRef<'a>,
    increment: f64,
    member: &'a [u8],
}

impl<'a> WriteCommand<'a> for ZIncrBy<'a> {
    const SPEC: Spec = Spec {
        name: "zincrby",
        arity: 4,
        flags: Flags::WRITE.and(Flags::OFTEN_NOTHING).and(Flags::DENYOOM).and(Flags::FAST).and(Flags::BOUNDED),
        keys: Keys::ONE,
        group: Group::SortedSet,
        since: "1.2.0",
        complexity: "O(log(N)) where N is the size of the sorted set",
        summary: "Increments the score of a member of a sorted set. Uses 0 if there is no such member.",
        arguments: "key increment member",
        example: "ZINCRBY scores 5 ada",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let increment = parse_score(args.get(2)?).ok_or(Failure::NotAFloat)?;
        Ok(ZIncrBy { key: args.key(1)?, increment, member: args.member(3)? })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let how = How { adds: true, ..How::default() };
        tx.edit_sorted(self.key, |set| {
            set.check_room(1)?;
            Ok(match how.apply(set, self.member, self.increment)? {
                Outcome::Added(score) | Outcome::Changed(score) | Outcome::Same(score) => Reply::Double(score),
                Outcome::Left => Reply::Nil,
            })
        })
    }
}
