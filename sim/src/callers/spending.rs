//! A caller that sends costly commands and asks for large answers: sorts, unions, whole lists many times over, transactions and scripts that visit much.
//!
//! Each connection has keys of its own, written by one command each. So every answer about them is whole, or empty, or an error: a command that is stopped has done
//! nothing, and no answer comes in part.

use std::collections::VecDeque;

use base::Rng;
use wire::{ReplyLimits, ReplyParser, Value, encode_command};

/// Elements of each key.
const ELEMENTS: [u64; 3] = [20, 60, 200];
/// A script that visits a list many times, and writes at its end.
const SCRIPT: &str = "local sum = 0 for i = 1, ARGV[1] do sum = sum + #redis.call('LRANGE', KEYS[1], 0, -1) end \
                      redis.call('SET', KEYS[2], sum) return sum";

/// What an answer is to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Asked {
    /// How many there are by then, or nothing.
    Count,
    /// All elements, or none.
    Elements,
    /// So many times all elements, or none.
    Times(u64),
    /// So many answers with all elements, or none, each.
    Answers(usize),
    /// Whatever is no error of the protocol.
    Anything,
}

/// Its connection.
#[derive(Debug)]
pub(super) struct Spender {
    parser: ReplyParser,
    asked: VecDeque<Asked>,
    /// When the oldest of them was sent.
    pub(super) asked_at: u64,
    list: String,
    set: String,
    elements: u64,
    is_written: bool,
}

impl Spender {
    /// Begins on a new connection, the caller's `number`th. The keys are in one slot, as a transaction has to be.
    pub(super) fn new(caller: u64, number: u64, now: u64, rng: &mut Rng) -> Spender {
        let [list, set] = ["list", "set"].map(|kind| format!("{{costly:{caller}:{number}}}:{kind}"));
        let (elements, parser) = (*rng.pick(&ELEMENTS), ReplyParser::new(ReplyLimits::default()));
        Spender { parser, asked: VecDeque::new(), asked_at: now, list, set, elements, is_written: false }
    }

    /// Something is awaited.
    pub(super) fn waits(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Sends something that costs much.
    pub(super) fn act(&mut self, now: u64, rng: &mut Rng, send: &mut Vec<u8>) {
        if self.waits() {
            return;
        }
        self.asked_at = now;
        let (list, set) = (self.list.as_str(), self.set.as_str());
        let mut say = |words: &[&str], asked: Asked| {
            encode_command(send, words);
            self.asked.push_back(asked);
        };
        if !std::mem::replace(&mut self.is_written, true) {
            let elements: Vec<String> = (0..self.elements).map(|number| format!("element {number}")).collect();
            let elements: Vec<&str> = elements.iter().map(String::as_str).collect();
            say(&[&["RPUSH", list][..], &elements].concat(), Asked::Count);
            say(&[&["SADD", set][..], &elements].concat(), Asked::Count);
            return;
        }
        match rng.below(7) {
            // Much that waits for the client at once.
            0 => (0..rng.between(2, 10)).for_each(|_| say(&["LRANGE", list, "0", "-1"], Asked::Elements)),
            1 => say(&["SORT", list, "ALPHA", "DESC"], Asked::Elements),
            2 => say(&["SORT_RO", set, "ALPHA", "BY", "nothing:*"], Asked::Elements),
            3 => say(&["SUNION", set, set, set], Asked::Elements),
            4 => {
                let times = rng.between(1, 10);
                let sum = format!("{set}:sum");
                say(&["EVAL", SCRIPT, "2", list, &sum, &times.to_string()], Asked::Times(times));
            }
            5 => {
                let count = rng.between(2, 8) as usize;
                say(&["MULTI"], Asked::Anything);
                (0..count).for_each(|_| say(&["LRANGE", list, "0", "-1"], Asked::Anything));
                if rng.chance(1, 2) {
                    say(&["SORT", list, "ALPHA", "STORE", list], Asked::Anything);
                }
                // The last answer of a transaction that stores is a count.
                say(&["EXEC"], Asked::Answers(count));
            }
            _ => say(&["SUNIONSTORE", set, set, set], Asked::Count),
        }
    }

    /// Bytes have come.
    pub(super) fn on_bytes(&mut self, bytes: &[u8], now: u64) -> Result<(), String> {
        self.parser.push(bytes);
        while let Some(value) = self.parser.next().map_err(|error| format!("not RESP: {error}"))? {
            let asked = self.asked.pop_front().ok_or_else(|| format!("{value:?} is an answer to nothing"))?;
            self.asked_at = now;
            let is_whole = |value: &Value| match value {
                Value::Array(elements) | Value::Set(elements) => [0, self.elements].contains(&(elements.len() as u64)),
                _ => false,
            };
            let is_right = match (asked, &value) {
                (_, Value::Error(_)) | (Asked::Anything, _) => true,
                (Asked::Count, Value::Integer(count)) => [0, self.elements as i64].contains(count),
                (Asked::Elements, elements) => is_whole(elements),
                (Asked::Times(times), Value::Integer(sum)) => [0, (times * self.elements) as i64].contains(sum),
                (Asked::Answers(_), Value::Null) => true,
                (Asked::Answers(count), Value::Array(answers)) => answers.iter().take(count).all(is_whole),
                _ => false,
            };
            if !is_right {
                let text: String = format!("{value:?}").chars().take(200).collect();
                return Err(format!("an answer in part, to {asked:?} of {} elements: {text}", self.elements));
            }
        }
        Ok(())
    }
}
