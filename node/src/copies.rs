//! Which replicas have how much of a partition's log on their disks, as the leader counts it; and the replies that wait for that: those
//! to writes of the durability `all`.
//!
//! The leader knows it from the replicas' acknowledgements. Another node that has to know asks the leader, which then tells it of every
//! change until all replicas have come so far. Pings say it too, only later.

use std::collections::VecDeque;
use std::time::Duration;

use base::{Ballot, NodeId, Position, Time};
use data::{Failure, Reply};

use crate::router::Waiter;

/// After this time without what it wants a node asks again.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(200);

/// What `WAIT` and `WAITAOF` wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wanted {
    /// Whether the leader's disk counts, and 1 if it must have the writes: of `WAITAOF`.
    leader: Option<i64>,
    /// How many other replicas must have them on their disks.
    others: i64,
}

/// Who has something on disk, as far as that is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct OnDisk {
    pub leader: bool,
    pub others: i64,
}

impl Wanted {
    /// What `WAIT numreplicas timeout` or `WAITAOF numlocal numreplicas timeout` asks for, and for how long at most: milliseconds, 0 for ever.
    pub(crate) fn parse(words: &[&[u8]]) -> Result<(Wanted, u64), Failure> {
        let integer = |word: &&[u8]| data::args::parse_integer(word).ok_or(Failure::NotAnInteger);
        let numbers = words.iter().skip(1).map(integer).collect::<Result<Vec<i64>, _>>()?;
        let (wanted, timeout) = match numbers[..] {
            [others, timeout] => (Wanted { leader: None, others }, timeout),
            [leader, others, timeout] => {
                if !(0..=1).contains(&leader) {
                    return Err(Failure::Text("ERR value is out of range, value must between 0 and 1"));
                }
                if others < 0 {
                    return Err(Failure::Text("ERR value is out of range, must be positive"));
                }
                (Wanted { leader: Some(leader), others }, timeout)
            }
            _ => return Err(Failure::Syntax),
        };
        let timeout = u64::try_from(timeout).map_err(|_| Failure::Text("ERR timeout is negative"))?;
        Ok((wanted, timeout))
    }

    /// Whether that is enough.
    pub(crate) fn is_met(self, by: OnDisk) -> bool {
        by.others >= self.others && i64::from(by.leader) >= self.leader.unwrap_or(0)
    }

    /// How it is answered, enough or not.
    pub(crate) fn reply(self, by: OnDisk) -> Reply {
        match self.leader {
            None => Reply::Integer(by.others),
            Some(_) => Reply::Array(vec![Reply::Integer(i64::from(by.leader)), Reply::Integer(by.others)]),
        }
    }
}

/// A reply that waits until every replica has the write.
#[derive(Debug)]
pub(crate) struct Held {
    pub position: Position,
    pub waiter: Waiter,
    pub reply: Reply,
    /// Bytes of the write that it answers.
    pub bytes: usize,
    pub deadline: Time,
}

/// A node that wants to be told.
#[derive(Debug)]
struct Asker {
    node: NodeId,
    until: Position,
    told: Vec<(NodeId, Position)>,
}

/// See the file's head.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    /// What the leader of this ballot has said.
    heard: Option<(Ballot, Vec<(NodeId, Position)>)>,
    /// As the leader: who has asked.
    askers: Vec<Asker>,
    /// Somebody here waits for copies up to this position.
    wanted: Position,
    asked: Option<(Ballot, Position, Time)>,
    /// In the order of their positions.
    pub held: VecDeque<Held>,
    /// Bytes of the writes that `held` answers.
    pub held_bytes: usize,
    /// The last write that was answered as being on all disks, and whose these are: for checkers.
    pub answered: Position,
    pub all: Vec<NodeId>,
}

impl Copies {
    /// A leader has said it of its log.
    pub(crate) fn hear(&mut self, ballot: Ballot, copies: Vec<(NodeId, Position)>) {
        // A ping and an answer may overtake each other only between leaderships: one link keeps its order.
        if self.heard.as_ref().is_none_or(|(heard, _)| *heard <= ballot) {
            self.heard = Some((ballot, copies));
        }
    }

    /// What the leader of `ballot` has said; nothing if it has not said anything yet.
    pub(crate) fn heard(&self, ballot: Ballot) -> &[(NodeId, Position)] {
        match &self.heard {
            // Another leader's log may have been another one.
            Some((heard, copies)) if *heard == ballot => copies,
            _ => &[],
        }
    }

    /// A node wants to be told.
    pub(crate) fn ask(&mut self, node: NodeId, until: Position) {
        self.askers.retain(|asker| asker.node != node);
        self.askers.push(Asker { node, until, told: Vec::new() });
    }

    /// Whom to tell of `copies` now.
    pub(crate) fn take_news(&mut self, copies: &[(NodeId, Position)]) -> Vec<NodeId> {
        let mut nodes = Vec::new();
        self.askers.retain_mut(|asker| {
            if asker.told != copies {
                asker.told.clear();
                asker.told.extend_from_slice(copies);
                nodes.push(asker.node);
            }
            !all_have(copies, asker.until)
        });
        nodes
    }

    /// Whether anybody has asked.
    pub(crate) fn has_askers(&self) -> bool {
        !self.askers.is_empty()
    }

    /// This node leads no more.
    pub(crate) fn forget_askers(&mut self) {
        self.askers.clear();
    }

    /// Nobody waits for copies, here or elsewhere.
    pub(crate) fn is_idle(&self) -> bool {
        self.held.is_empty() && self.askers.is_empty() && self.wanted == Position(0)
    }

    /// Somebody here waits for copies up to `position`.
    pub(crate) fn want(&mut self, position: Position) {
        self.wanted = self.wanted.max(position);
    }

    /// What is to be asked of the leader of `ballot` now, if anything.
    pub(crate) fn question(&mut self, now: Time, ballot: Ballot) -> Option<Position> {
        if self.wanted == Position(0) || all_have(self.heard(ballot), self.wanted) {
            self.wanted = Position(0);
            return None;
        }
        let is_asked = self.asked.is_some_and(|(under, position, at)| {
            under == ballot && position >= self.wanted && now.since(at) < ASK_AGAIN_AFTER
        });
        if is_asked {
            return None;
        }
        self.asked = Some((ballot, self.wanted, now));
        Some(self.wanted)
    }

    /// A reply waits.
    pub(crate) fn hold(&mut self, held: Held) {
        self.want(held.position);
        self.held_bytes += held.bytes;
        self.held.push_back(held);
    }

    /// The next reply that need not wait any longer: every replica has its write.
    pub(crate) fn release(&mut self, copies: &[(NodeId, Position)]) -> Option<Held> {
        self.held.front().filter(|held| all_have(copies, held.position))?;
        let held = self.held.pop_front()?;
        self.held_bytes -= held.bytes;
        self.answered = self.answered.max(held.position);
        Some(held)
    }

    /// The next reply whose time is up.
    pub(crate) fn give_up(&mut self, now: Time) -> Option<Held> {
        let place = self.held.iter().position(|held| held.deadline <= now)?;
        let held = self.held.remove(place)?;
        self.held_bytes -= held.bytes;
        Some(held)
    }
}

/// Whether every replica has the log up to `position`.
fn all_have(copies: &[(NodeId, Position)], position: Position) -> bool {
    !copies.is_empty() && copies.iter().all(|(_, last)| *last >= position)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: NodeId = NodeId(0);
    const OTHER: NodeId = NodeId(1);

    fn held(position: u64, deadline: u64) -> Held {
        let (position, deadline) = (Position(position), Time(deadline));
        Held { position, waiter: Waiter::Nobody, reply: Reply::Ok, bytes: 10, deadline }
    }

    #[test]
    fn a_reply_waits_for_the_last_replica() {
        let mut copies = Copies::default();
        copies.hold(held(5, 100));
        copies.hold(held(7, 90));
        assert!(copies.release(&[]).is_none(), "nothing known is nothing had");
        assert!(copies.release(&[(ME, Position(9)), (OTHER, Position(4))]).is_none());
        assert_eq!(copies.release(&[(ME, Position(9)), (OTHER, Position(5))]).unwrap().position, Position(5));
        assert!(copies.give_up(Time(89)).is_none());
        assert_eq!(copies.give_up(Time(90)).unwrap().position, Position(7));
        assert_eq!((copies.held_bytes, copies.answered), (0, Position(5)));
    }

    #[test]
    fn the_leader_is_asked_once_and_tells_until_all_have_it() {
        let (old, new) = (Ballot { round: 1, node: ME }, Ballot { round: 2, node: ME });
        let mut asking = Copies::default();
        assert_eq!(asking.question(Time(0), new), None);
        asking.want(Position(5));
        assert_eq!(asking.question(Time(0), new), Some(Position(5)));
        assert_eq!(asking.question(Time(1), new), None);
        asking.want(Position(6));
        assert_eq!(asking.question(Time(2), new), Some(Position(6)));
        assert_eq!(asking.question(Time(2) + ASK_AGAIN_AFTER, new), Some(Position(6)), "lost, perhaps");
        asking.hear(old, vec![(ME, Position(9))]);
        assert!(asking.heard(new).is_empty(), "of another log");

        let mut leading = Copies::default();
        leading.ask(OTHER, Position(6));
        let behind = [(ME, Position(6)), (OTHER, Position(5))];
        assert_eq!(leading.take_news(&behind), [OTHER]);
        assert!(leading.take_news(&behind).is_empty(), "told already");
        let there = [(ME, Position(6)), (OTHER, Position(6))];
        assert_eq!(leading.take_news(&there), [OTHER]);
        assert!(!leading.has_askers());

        asking.hear(new, there.to_vec());
        assert_eq!(asking.question(Time(3) + ASK_AGAIN_AFTER, new), None);
        asking.hear(old, Vec::new());
        assert_eq!(asking.heard(new), there, "an older leader is not believed any more");
    }
}
