//! HyperLogLogs in a history, told to the model as keys with values:
//!
//! | key of a history | stands for | commands |
//! |---|---|---|
//! | `g0` | one that is told of the same few elements whenever it is told of any: it counts all of them or does not exist, so it is one register with one value | PFADD PFCOUNT EXISTS DEL |
//!
//! So few elements are counted exactly. Any other number is no answer at all: [`reply`] has none for it.

use base::Rng;
use wire::Value;

use crate::history::{Command, Op, Reply, bytes_of, raw_key};
use crate::workload::Task;

/// How many elements one is told of.
const ELEMENTS: usize = 8;
/// What one takes beside its key and its record, at most: a few runs for each element.
const BYTES_MAX: u64 = 128;

/// How clients use HyperLogLogs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sketches {
    /// Out of 16: how often a client turns to them.
    pub often: u64,
}

fn is_sketch(key: &str) -> bool {
    raw_key(key).starts_with('g')
}

/// What a command adds to a bucket beside its words and one record, at most.
#[must_use]
pub fn elements_bytes(key: &str) -> u64 {
    if is_sketch(key) { BYTES_MAX } else { 0 }
}

/// The words of a command on a HyperLogLog; `None` of any other key, and where the words are those of any key.
#[must_use]
pub fn words(command: &Command) -> Option<Vec<Vec<u8>>> {
    let key = raw_key(&command.key);
    if !is_sketch(key) {
        return None;
    }
    let line = |words: &[&str]| Some(words.iter().map(|word| bytes_of(word)).collect());
    match (command.op, command.number) {
        (Op::SetNx, _) => {
            let elements = (0..ELEMENTS).map(|number| format!("element{number}").into_bytes());
            Some([bytes_of("PFADD"), bytes_of(key)].into_iter().chain(elements).collect())
        }
        (Op::Get, None) => line(&["PFCOUNT", key]),
        (Op::Get, Some(_)) => line(&["PFCOUNT", key, key, "n-absent"]),
        _ => None,
    }
}

/// What the answer to a command on a HyperLogLog says; the answer itself if the command is on another key.
///
/// # Errors
/// It is no answer to that.
pub fn reply(command: &Command, value: Value) -> Result<Reply, Option<Value>> {
    if !is_sketch(&command.key) {
        return Err(Some(value));
    }
    match (command.op, value) {
        (Op::Get, Value::Integer(0)) => Ok(Reply::Nil),
        (Op::Get, Value::Integer(count)) if count == ELEMENTS as i64 => Ok(Reply::Text(count.to_string())),
        (Op::SetNx | Op::Del | Op::Exists, Value::Integer(count @ 0..=1)) => Ok(Reply::Integer(count)),
        _ => Err(None),
    }
}

impl Sketches {
    /// The next task of a client that reads so often out of 8, and asks by `DICTUM.ONCE` so often.
    pub fn draw_task(&self, rng: &mut Rng, (reads, once): (u64, u64)) -> Task {
        let mut draw = || {
            let key = format!("g{}", rng.below(2));
            match (rng.chance(reads, 8), rng.below(6)) {
                (true, 0) => Command::new(Op::Exists, key),
                (true, 1) => Command::new(Op::Get, key).with_number(1),
                (true, _) => Command::new(Op::Get, key),
                (false, 0..=2) => Command::new(Op::Del, key),
                (false, _) => Command::new(Op::SetNx, key).with_argument(ELEMENTS.to_string()),
            }
        };
        let (command, second, third) = (draw(), draw(), draw());
        match rng.below(4) {
            0 => Task::Transaction { watch: Vec::new(), commands: vec![command, second, third] },
            1 => Task::Plain(vec![command, second, third]),
            _ if matches!(command.op, Op::SetNx | Op::Del) && rng.chance(once, 8) => Task::Once(command),
            _ => Task::Plain(vec![command]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::text_of;

    #[test]
    fn keys_become_words() {
        let of = |op: Op, key: &str| {
            let words = Command::new(op, key).with_argument("8").words();
            words.iter().map(|word| text_of(word)).collect::<Vec<_>>().join(" ")
        };
        assert!(of(Op::SetNx, "p/g0").starts_with("PFADD g0 element0 element1 "));
        assert_eq!(of(Op::Get, "g1"), "PFCOUNT g1");
        assert_eq!(of(Op::Del, "e/g1"), "DEL g1");
    }

    #[test]
    fn all_elements_are_counted_or_there_is_no_answer() {
        let of = |count: i64| reply(&Command::new(Op::Get, "g0"), Value::Integer(count));
        assert_eq!(of(8), Ok(Reply::Text("8".into())));
        assert_eq!(of(0), Ok(Reply::Nil));
        assert_eq!(of(7), Err(None));
        let read = Command::new(Op::Get, "r0");
        assert_eq!(reply(&read, Value::Integer(7)), Err(Some(Value::Integer(7))));
    }
}
