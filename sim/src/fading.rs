//! Fields that expire in a history. The model knows keys that expire, and fields are told to it as such:
//!
//! | key of a history | stands for | commands |
//! |---|---|---|
//! | `e0#f1` | the field `f1` of the hash `e0`: a register with a time to live of its own | HSETEX PX, HPEXPIRE HPERSIST HPTTL, what `hashes.rs` has for fields, HSET and HGETALL of several at once |
//!
//! A hash whose last field expires is gone, and the next field makes it anew: fields must not notice.

use base::Rng;
use wire::Value;

use crate::hashes::{FIELDS, field_of};
use crate::history::{Command, Op, Reply, bytes_of};
use crate::workload::Task;

/// How clients use fields that expire.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Fading {
    /// Out of 16: how often a client turns to them.
    pub often: u64,
    /// Longest time to live that they are given, in milliseconds.
    pub lifetime_ms_max: u64,
}

/// The words of a command on the time to live of a field; `None` of any other command.
#[must_use]
pub fn words(command: &Command) -> Option<Vec<Vec<u8>>> {
    let (hash, field) = field_of(&command.key)?;
    let milliseconds = command.number.unwrap_or(1).to_string();
    let value = command.argument.as_deref().unwrap_or("");
    let words: &[&str] = match command.op {
        Op::SetPx => &["HSETEX", hash, "PX", &milliseconds, "FIELDS", "1", field, value],
        Op::Pexpire => &["HPEXPIRE", hash, &milliseconds, "FIELDS", "1", field],
        Op::Persist => &["HPERSIST", hash, "FIELDS", "1", field],
        Op::Pttl => &["HPTTL", hash, "FIELDS", "1", field],
        _ => return None,
    };
    Some(words.iter().map(|word| bytes_of(word)).collect())
}

/// What the answer to a command on the time to live of a field says; the answer itself if the command is another one.
///
/// # Errors
/// It is no answer to that.
pub fn reply(command: &Command, value: Value) -> Result<Reply, Option<Value>> {
    if words(command).is_none() {
        return Err(Some(value));
    }
    let only = match (command.op, value) {
        (Op::SetPx, Value::Integer(1)) => return Ok(Reply::Text("OK".to_owned())),
        (Op::Pexpire | Op::Persist | Op::Pttl, Value::Array(list)) => match list.as_slice() {
            [Value::Integer(only)] => *only,
            _ => return Err(None),
        },
        _ => return Err(None),
    };
    match (command.op, only) {
        (Op::Pttl, left @ -2..) => Ok(Reply::Integer(left)),
        (Op::Pexpire, -2) | (Op::Persist, -2 | -1) => Ok(Reply::Integer(0)),
        (Op::Pexpire | Op::Persist, 1) => Ok(Reply::Integer(1)),
        _ => Err(None),
    }
}

impl Fading {
    /// Draws how often.
    #[must_use]
    pub fn draw(rng: &mut Rng) -> Fading {
        Fading { often: rng.between(2, 6), lifetime_ms_max: *rng.pick(&[100, 1_000, 4_000]) }
    }

    /// The next task of a client that reads so often out of 8, and asks by `DICTUM.ONCE` so often.
    pub fn draw_task(&self, rng: &mut Rng, (reads, once): (u64, u64), unique: &mut dyn FnMut() -> String) -> Task {
        let hash = format!("e{}", rng.below(2));
        let key = |field: &str| format!("{hash}#{field}");
        let reading = rng.chance(reads, 8);
        match rng.below(6) {
            0 => {
                let fields = &FIELDS[..if reading { FIELDS.len() } else { rng.between(1, 3) as usize }];
                let of = |field: &&str| match reading {
                    true => Command::new(Op::Get, key(field)),
                    false => Command::new(Op::Set, key(field)).with_argument(unique()),
                };
                Task::Together(fields.iter().map(of).collect())
            }
            1 => {
                let mut commands = Vec::new();
                for _ in 0..rng.between(2, 3) {
                    let (field, read) = (*rng.pick(&FIELDS), rng.chance(reads, 8));
                    commands.push(self.command(key(field), read, rng, unique));
                }
                let watched = *rng.pick(&FIELDS);
                let watch = if rng.chance(1, 2) { vec![key(watched)] } else { Vec::new() };
                Task::Transaction { watch, commands }
            }
            _ => {
                let field = *rng.pick(&FIELDS);
                let command = self.command(key(field), reading, rng, unique);
                let counts = matches!(command.op, Op::SetNx | Op::Del | Op::GetDel | Op::Persist);
                if counts && rng.chance(once, 8) { Task::Once(command) } else { Task::Plain(vec![command]) }
            }
        }
    }

    fn command(&self, key: String, reads: bool, rng: &mut Rng, unique: &mut dyn FnMut() -> String) -> Command {
        let lifetime = rng.between(1, self.lifetime_ms_max) as i64;
        match (reads, rng.below(12)) {
            (true, 0 | 1) => Command::new(Op::Pttl, key),
            (true, 2) => Command::new(Op::Exists, key),
            (true, _) => Command::new(Op::Get, key),
            (false, 0) => Command::new(Op::Persist, key),
            (false, 1..4) => Command::new(Op::Pexpire, key).with_number(lifetime),
            (false, 4) => Command::new(Op::Set, key).with_argument(unique()),
            (false, 5) => Command::new(Op::SetNx, key).with_argument(unique()),
            (false, 6) => Command::new(Op::Del, key),
            (false, 7) => Command::new(Op::GetDel, key),
            (false, _) => Command::new(Op::SetPx, key).with_argument(unique()).with_number(lifetime),
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
            let words = Command::new(op, key).with_argument("v").with_number(7).words();
            words.iter().map(|word| text_of(word)).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(of(Op::SetPx, "p/e0#f1"), "HSETEX e0 PX 7 FIELDS 1 f1 v");
        assert_eq!(of(Op::Pexpire, "e0#f1"), "HPEXPIRE e0 7 FIELDS 1 f1");
        assert_eq!(of(Op::Pttl, "e0#f1"), "HPTTL e0 FIELDS 1 f1");
        assert_eq!(of(Op::Set, "e0#f1"), "HMSET e0 f1 v");
        assert_eq!(of(Op::SetPx, "v0"), "SET v0 v PX 7");
    }

    #[test]
    fn answers_are_those_of_keys() {
        let of = |op: Op, value: Value| reply(&Command::new(op, "e0#f1"), value);
        let list = |number: i64| Value::Array(vec![Value::Integer(number)]);
        assert_eq!(of(Op::SetPx, Value::Integer(1)), Ok(Reply::Text("OK".into())));
        assert_eq!(of(Op::SetPx, Value::Integer(0)), Err(None));
        assert_eq!(of(Op::Pexpire, list(-2)), Ok(Reply::Integer(0)));
        assert_eq!(of(Op::Persist, list(-1)), Ok(Reply::Integer(0)));
        assert_eq!(of(Op::Pttl, list(-2)), Ok(Reply::Integer(-2)));
        assert_eq!(of(Op::Pexpire, list(0)), Err(None), "no condition was named");
        assert_eq!(of(Op::Get, list(1)), Err(Some(list(1))));
    }
}
