//! Lists in a history: a key that begins with `q` (a queue) is a list, told to the model as the text of its elements, which are of one length.
//!
//! | command of a history | commands |
//! |---|---|
//! | APPEND, PREPEND | RPUSH, LPUSH |
//! | POP, from the left or (−1) from the right | LPOP, RPOP |
//! | the same with an argument, the seconds to wait | BLPOP, BRPOP |
//! | GET | LRANGE of all |
//! | GETDEL | LPOP of all |
//!
//! One element in three is stored with bytes behind it that the model is not told of: a list has short and long elements in another way (`data/src/collections/listed.rs`).
//!
//! So the order of all elements is checked with everything else: that each is taken out once, that none is lost, and that who waited longest goes first.

use base::Rng;
use wire::Value;

use crate::history::{Command, Op, Reply, TOKEN_BYTES, bytes_of, raw_key, text_of};
use crate::workload::Task;

/// What an element takes beside the bytes of its token, at most.
const ELEMENT_BYTES_MAX: u64 = 160 + LONG_BYTES as u64;
/// Bytes behind the token of a long element.
const LONG_BYTES: usize = 150;

/// How long clients wait for an element.
pub(crate) const SECONDS: [&str; 3] = ["0.05", "0.4", "1.5"];

/// How clients use lists.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Lists {
    /// Out of 16: how often a client turns to them.
    pub often: u64,
    /// Out of 8: how often it waits for an element then.
    pub waits: u64,
}

fn is_list(key: &str) -> bool {
    raw_key(key).starts_with('q')
}

/// What a command adds to a bucket beside its words and one record, at most.
#[must_use]
pub fn elements_bytes(key: &str) -> u64 {
    if is_list(key) { ELEMENT_BYTES_MAX } else { 0 }
}

/// The words of a command on a list; `None` of any other key.
#[must_use]
pub fn words(command: &Command) -> Option<Vec<Vec<u8>>> {
    let key = raw_key(&command.key);
    let value = command.argument.as_deref().unwrap_or("");
    let line = |words: &[&str]| Some(words.iter().map(|word| bytes_of(word)).collect());
    if !is_list(key) {
        return None;
    }
    if let (Op::Pop, Some(seconds)) = (command.op, &command.argument) {
        return line(&[if command.number == Some(-1) { "BRPOP" } else { "BLPOP" }, key, seconds]);
    }
    match (command.op, command.number) {
        (Op::Append, _) => line(&["RPUSH", key, &stored(value)]),
        (Op::Prepend, _) => line(&["LPUSH", key, &stored(value)]),
        (Op::Pop, Some(-1)) => line(&["RPOP", key]),
        (Op::Pop, _) => line(&["LPOP", key]),
        (Op::Get, _) => line(&["LRANGE", key, "0", "-1"]),
        (Op::GetDel, _) => line(&["LPOP", key, "1000000"]),
        _ => None,
    }
}

/// What the answer to a command on a list says; the answer itself if the command is on another key.
///
/// # Errors
/// It is no answer to that.
pub fn reply(command: &Command, value: Value) -> Result<Reply, Option<Value>> {
    if words(command).is_none() {
        return Err(Some(value));
    }
    match (command.op, value) {
        (Op::Append | Op::Prepend, Value::Integer(len)) if len > 0 => Ok(Reply::Integer(len * TOKEN_BYTES as i64)),
        (Op::Pop, Value::NullArray) if command.argument.is_some() => Ok(Reply::Nil),
        (Op::Pop, Value::Array(pair)) if command.argument.is_some() => match &pair[..] {
            [key, element] if key.as_bytes() == Some(raw_key(&command.key).as_bytes()) => {
                element.as_bytes().and_then(told).map(Reply::Text).ok_or(None)
            }
            _ => Err(None),
        },
        (Op::Pop, Value::Null) => Ok(Reply::Nil),
        (Op::Pop, Value::Bulk(element)) => told(&element).map(Reply::Text).ok_or(None),
        (Op::GetDel, Value::NullArray | Value::Null) => Ok(Reply::Nil),
        (Op::Get | Op::GetDel, Value::Array(elements)) => {
            let texts = elements.iter().map(|element| element.as_bytes().and_then(told));
            let all = texts.collect::<Option<Vec<_>>>().ok_or(None)?.concat();
            Ok(if all.is_empty() { Reply::Nil } else { Reply::Text(all) })
        }
        _ => Err(None),
    }
}

fn is_long(token: &str) -> bool {
    token.bytes().last().is_some_and(|last| last % 3 == 0)
}

/// What stands in a list for a token.
fn stored(token: &str) -> String {
    if is_long(token) { format!("{token}{}", "-".repeat(LONG_BYTES)) } else { token.to_owned() }
}

/// The token of what stands in a list; none if it is not all of it.
fn told(element: &[u8]) -> Option<String> {
    let token = text_of(element.get(..TOKEN_BYTES)?);
    (bytes_of(&stored(&token)) == element).then_some(token)
}

/// An element that no other one of a run is: what is unique, as long as all are.
pub(crate) fn element_of(unique: &str) -> String {
    format!("{unique:.>TOKEN_BYTES$}")
}

impl Lists {
    /// The next task of a client that reads so often out of 8, and asks by `DICTUM.ONCE` so often.
    pub fn draw_task(&self, rng: &mut Rng, (reads, once): (u64, u64), unique: &mut dyn FnMut() -> String) -> Task {
        let key = format!("q{}", rng.below(3));
        let mut command = |rng: &mut Rng, key: String| match (rng.chance(reads, 16), rng.below(16)) {
            (true, 0..4) => Command::new(Op::Exists, key),
            (true, _) => Command::new(Op::Get, key),
            (false, 0) => Command::new(Op::Del, key),
            (false, 1) => Command::new(Op::GetDel, key),
            (false, 2..=4) => Command::new(Op::Pop, key),
            (false, 5) => Command::new(Op::Pop, key).with_number(-1),
            // In a transaction, and where it must be done once, it does not wait.
            (false, 6) => Command::new(Op::Pop, key).with_argument(*rng.pick(&SECONDS)),
            (false, 7) => Command::new(Op::Pop, key).with_number(-1).with_argument(*rng.pick(&SECONDS)),
            (false, 8 | 9) => Command::new(Op::Prepend, key).with_argument(element_of(&unique())),
            (false, _) => Command::new(Op::Append, key).with_argument(element_of(&unique())),
        };
        if rng.chance(self.waits, 8) {
            let pop = Command::new(Op::Pop, key).with_argument(*rng.pick(&SECONDS));
            return Task::Plain(vec![if rng.chance(1, 3) { pop.with_number(-1) } else { pop }]);
        }
        if rng.chance(1, 6) {
            let keys = [key.clone(), format!("q{}", rng.below(3))];
            let commands = (0..rng.between(2, 3)).map(|_| {
                let key = rng.pick(&keys).clone();
                command(rng, key)
            });
            return Task::Transaction { commands: commands.collect(), watch: Vec::new() };
        }
        let command = command(rng, key);
        if command.op.may_grow() || matches!(command.op, Op::Pop | Op::GetDel | Op::Del) {
            if rng.chance(once, 8) { Task::Once(command) } else { Task::Plain(vec![command]) }
        } else {
            Task::Plain(vec![command])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_become_words() {
        let of = |command: Command| command.words().iter().map(|word| text_of(word)).collect::<Vec<_>>().join(" ");
        assert_eq!(of(Command::new(Op::Append, "p/q0").with_argument("v")), "RPUSH q0 v");
        assert_eq!(of(Command::new(Op::Pop, "q1").with_number(-1)), "RPOP q1");
        assert_eq!(of(Command::new(Op::Pop, "q1").with_number(-1).with_argument("0.4")), "BRPOP q1 0.4");
        assert_eq!(of(Command::new(Op::Get, "e/q1")), "LRANGE q1 0 -1");
        assert_eq!(of(Command::new(Op::Del, "q1")), "DEL q1");
        assert_eq!(element_of("c3n17").len(), TOKEN_BYTES);
        let long = of(Command::new(Op::Prepend, "q1").with_argument("c3n19"));
        assert_eq!(long.len(), "LPUSH q1 c3n19".len() + LONG_BYTES);
    }

    #[test]
    fn elements_of_another_length_are_no_answer() {
        let (a, b) = (element_of("a"), element_of("b"));
        let long = element_of("c");
        assert_eq!(told(stored(&long).as_bytes()), Some(long.clone()));
        assert_eq!(told(&stored(&long).as_bytes()[1..]), None);
        assert_eq!(told(long.as_bytes()), None, "without what stands behind it");
        let get = Command::new(Op::Get, "q0");
        let list = |texts: &[&str]| Value::Array(texts.iter().map(Value::bulk).collect());
        assert_eq!(reply(&get, list(&[&a, &b])), Ok(Reply::Text(format!("{a}{b}"))));
        assert_eq!(reply(&get, list(&[])), Ok(Reply::Nil));
        assert_eq!(reply(&get, list(&[&a, "b"])), Err(None));
        let pop = Command::new(Op::Pop, "q0").with_argument("0.4");
        assert_eq!(reply(&pop, list(&["q0", &a])), Ok(Reply::Text(a.clone())));
        assert_eq!(reply(&pop, list(&["q1", &a])), Err(None), "another list");
        assert_eq!(reply(&pop, Value::NullArray), Ok(Reply::Nil));
        let push = Command::new(Op::Prepend, "q0").with_argument(a);
        assert_eq!(reply(&push, Value::Integer(2)), Ok(Reply::Integer(2 * TOKEN_BYTES as i64)));
    }
}
