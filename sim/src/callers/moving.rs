//! A caller that moves keys of its own between the databases 0 and 15.
//!
//! Nobody else uses these keys. One that was written is in one of the databases, or for the time of a move in both, and never in none. As soon as nobody knows what became of a move the key
//! is only looked at: a move that was in doubt may be carried out later. The caller looks first at the database that the key came from, and then at the other one: if the key is not in the first it must be in the second.

use std::collections::VecDeque;

use base::Rng;
use wire::{ReplyLimits, ReplyParser, Value, encode_command};

/// In clusters that have not come to databases yet, named buckets have the first numbers, and one of them evicts keys.
const DATABASES: [&str; 2] = ["0", "15"];
/// Keys whose moves were in doubt, which are looked at.
const DOUBTS_MAX: usize = 8;

/// A key, its value, and the database that it is in; in doubt: that it was in before.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Moved {
    key: String,
    value: String,
    place: usize,
}

/// The question of an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Asked {
    /// A database, for what comes next.
    Select(usize),
    Write,
    Move,
    /// Of a key of which all is known: whether it must be there.
    Look {
        is_there: bool,
    },
    /// Of one in doubt: where it came from, and then where it went to.
    From,
    To,
}

/// See the file's head.
#[derive(Debug)]
pub(super) struct Mover {
    id: u64,
    parser: Option<ReplyParser>,
    asked: Option<Asked>,
    pub(super) asked_at: u64,
    /// The next questions, each for when the one before is answered.
    plan: VecDeque<Asked>,
    /// The key that is moved.
    held: Option<Moved>,
    /// It is written, as far as this caller was told.
    is_written: bool,
    made: u64,
    doubts: VecDeque<Moved>,
    looks_at_doubt: bool,
}

impl Mover {
    pub(super) fn new(id: u64) -> Mover {
        Mover {
            id,
            parser: None,
            asked: None,
            asked_at: 0,
            plan: VecDeque::new(),
            held: None,
            is_written: false,
            made: 0,
            doubts: VecDeque::new(),
            looks_at_doubt: false,
        }
    }

    pub(super) fn is_connected(&self) -> bool {
        self.parser.is_some()
    }

    pub(super) fn connected(&mut self) {
        self.parser = Some(ReplyParser::new(ReplyLimits::default()));
    }

    /// The commands on their way are in doubt.
    pub(super) fn disconnected(&mut self) {
        self.parser = None;
        match self.asked.take() {
            Some(Asked::Move) => self.doubt(),
            Some(Asked::Write) => self.held = None,
            _ => {}
        }
        self.plan.clear();
    }

    /// Something is awaited.
    pub(super) fn waits(&self) -> bool {
        self.asked.is_some()
    }

    fn doubt(&mut self) {
        self.doubts.extend(self.held.take());
        if self.doubts.len() > DOUBTS_MAX {
            self.doubts.pop_front();
        }
    }

    /// Asks what comes next, or thinks of something.
    pub(super) fn act(&mut self, now: u64, rng: &mut Rng, send: &mut Vec<u8>) {
        if self.waits() {
            return;
        }
        if self.plan.is_empty() {
            self.think(rng);
        }
        let subject = if self.looks_at_doubt { self.doubts.front() } else { self.held.as_ref() };
        let (Some(subject), Some(asked)) = (subject, self.plan.pop_front()) else { return };
        match &asked {
            Asked::Select(place) => encode_command(send, ["SELECT", DATABASES[*place]]),
            Asked::Write => encode_command(send, ["SET", &subject.key, &subject.value]),
            Asked::Move => encode_command(send, ["MOVE", &subject.key, DATABASES[1 - subject.place]]),
            Asked::Look { .. } | Asked::From | Asked::To => encode_command(send, ["GET", &subject.key]),
        }
        (self.asked, self.asked_at) = (Some(asked), now);
    }

    fn think(&mut self, rng: &mut Rng) {
        self.looks_at_doubt = !self.doubts.is_empty() && (self.held.is_none() || rng.chance(1, 4)) && rng.chance(2, 3);
        if self.looks_at_doubt {
            // Another one each time.
            self.doubts.rotate_left(1);
            let place = self.doubts.front().map_or(0, |moved| moved.place);
            self.plan.extend([Asked::Select(place), Asked::From, Asked::Select(1 - place), Asked::To]);
            return;
        }
        if self.held.as_ref().is_none_or(|_| !self.is_written) {
            self.made += 1;
            let key = format!("moved:{}-{}", self.id, self.made);
            self.held = Some(Moved { key, value: self.made.to_string(), place: rng.below(2) as usize });
            self.is_written = false;
        }
        let place = self.held.as_ref().map_or(0, |moved| moved.place);
        if !self.is_written {
            return self.plan.extend([Asked::Select(place), Asked::Write]);
        }
        if rng.chance(1, 3) {
            let look = |is_there| Asked::Look { is_there };
            self.plan.extend([Asked::Select(place), look(true), Asked::Select(1 - place), look(false)]);
        } else {
            self.plan.extend([Asked::Select(place), Asked::Move]);
        }
    }

    /// Bytes have come.
    pub(super) fn on_bytes(&mut self, bytes: &[u8], now: u64) -> Result<(), String> {
        let Some(parser) = &mut self.parser else { return Ok(()) };
        parser.push(bytes);
        while let Some(value) = self
            .parser
            .as_mut()
            .and_then(|it| it.next().transpose())
            .transpose()
            .map_err(|error| format!("not RESP: {error}"))?
        {
            let asked = self.asked.take().ok_or_else(|| format!("{value:?} is an answer to nothing"))?;
            self.asked_at = now;
            self.on_answer(&asked, &value)?;
        }
        Ok(())
    }

    fn on_answer(&mut self, asked: &Asked, value: &Value) -> Result<(), String> {
        if let Value::Error(text) = value {
            if text.starts_with("ERR") {
                return Err(format!("{asked:?} is refused: {text}"));
            }
            self.plan.clear();
            match asked {
                Asked::Move => self.doubt(),
                Asked::Write => self.held = None,
                _ => {}
            }
            return Ok(());
        }
        let subject = if self.looks_at_doubt { self.doubts.front() } else { self.held.as_ref() };
        let Some(subject) = subject.cloned() else { return Ok(()) };
        let is_value = value.as_bytes() == Some(subject.value.as_bytes());
        match asked {
            Asked::Select(_) => {}
            Asked::Write => self.is_written = true,
            Asked::Move if *value == Value::Integer(1) => {
                self.held = Some(Moved { place: 1 - subject.place, ..subject });
            }
            Asked::Look { is_there: true } | Asked::To if is_value => {}
            Asked::Look { is_there: false } if value.is_null() => {}
            // It is there: that is enough.
            Asked::From if is_value => self.plan.clear(),
            Asked::From if value.is_null() => {}
            _ => return Err(format!("{subject:?}: {asked:?} was answered {value:?}")),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mover that has written a key and is asked what comes of these.
    fn answered(asked: Asked, in_doubt: bool, answer: &[u8]) -> Result<(), String> {
        let mut mover = Mover::new(1);
        mover.connected();
        let moved = Moved { key: "k".to_owned(), value: "7".to_owned(), place: 0 };
        if in_doubt {
            mover.doubts.push_back(moved);
            mover.looks_at_doubt = true;
        } else {
            (mover.held, mover.is_written) = (Some(moved), true);
        }
        mover.asked = Some(asked);
        mover.on_bytes(answer, 0)
    }

    #[test]
    fn a_key_that_is_lost_or_there_twice_is_seen() {
        let look = |is_there| Asked::Look { is_there };
        assert_eq!(answered(look(true), false, b"$1\r\n7\r\n"), Ok(()));
        assert_eq!(answered(look(false), false, b"$-1\r\n"), Ok(()));
        assert!(answered(look(true), false, b"$-1\r\n").is_err());
        assert!(answered(look(false), false, b"$1\r\n7\r\n").is_err());
        assert!(answered(look(true), false, b"$1\r\n6\r\n").is_err());
        assert_eq!(answered(Asked::From, true, b"$-1\r\n"), Ok(()));
        assert_eq!(answered(Asked::To, true, b"$1\r\n7\r\n"), Ok(()));
        assert!(answered(Asked::To, true, b"$-1\r\n").is_err());
        assert_eq!(answered(Asked::Move, false, b":1\r\n"), Ok(()));
        assert!(answered(Asked::Move, false, b":0\r\n").is_err());
        assert_eq!(answered(Asked::Move, false, b"-UNKNOWN what\r\n"), Ok(()));
        assert!(answered(Asked::Move, false, b"-ERR what\r\n").is_err());
    }
}
