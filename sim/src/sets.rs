//! Sets in a history, told to the model as keys that have the value `1` or none:
//!
//! | key of a history | stands for | commands |
//! |---|---|---|
//! | `u0@m1` | whether the set `u0` has the member `m1`: a register of its own | SADD SREM SISMEMBER SMISMEMBER, SMOVE from set to set, and SADD and SMISMEMBER of several at once |
//! | `x0` | a *wide* set: all of its members come and go at once, so it is one register | SADD SREM SPOP SMEMBERS EXISTS SUNION |
//! | `y@…` | a member that is added once and stays | SADD, SSCAN |
//!
//! A wide set of which some members are missing is no answer at all: [`reply`] has none for it.

use base::Rng;
use wire::Value;

use crate::history::{Command, Op, Reply, bytes_of, raw_key, text_of};
use crate::workload::Task;

/// How many members a wide set has.
const WIDE_MEMBERS: usize = 8;
/// The members of a set that is no wide one.
const MEMBERS: [&str; 3] = ["m0", "m1", "m2"];
/// The set that is only added to.
pub const LASTING: &str = "y";
/// What an element takes beside its member, at most.
const ELEMENT_BYTES_MAX: u64 = 160;
/// The value of what is there.
const THERE: &str = "1";

/// How clients use sets.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sets {
    /// Out of 16: how often a client turns to them.
    pub often: u64,
    /// Members are added that stay, and SSCAN looks for them.
    pub lasting: bool,
    /// Only such as stand for one register as a whole.
    pub only_wide: bool,
    /// Members are moved. That makes keys, and is not refused where there is no room.
    pub moves: bool,
}

/// The set and the member that a key of a history stands for.
#[must_use]
pub fn member_of(key: &str) -> Option<(&str, &str)> {
    raw_key(key).split_once('@')
}

fn is_wide(key: &str) -> bool {
    raw_key(key).starts_with('x')
}

/// What a command adds to a bucket beside its words and one record, at most.
#[must_use]
pub fn elements_bytes(key: &str) -> u64 {
    match (member_of(key), is_wide(key)) {
        (Some(_), _) => ELEMENT_BYTES_MAX,
        (None, true) => WIDE_MEMBERS as u64 * ELEMENT_BYTES_MAX,
        (None, false) => 0,
    }
}

fn wide_members() -> impl Iterator<Item = Vec<u8>> {
    (0..WIDE_MEMBERS).map(|number| format!("wide{number}").into_bytes())
}

/// The words of a command on a member or on a wide set; `None` of any other key.
#[must_use]
pub fn words(command: &Command) -> Option<Vec<Vec<u8>>> {
    let begin =
        |name: &str, key: &str, rest: Vec<Vec<u8>>| [vec![name.as_bytes().to_vec(), bytes_of(key)], rest].concat();
    if let Some((set, member)) = member_of(&command.key) {
        let name = match command.op {
            Op::Get => "SISMEMBER",
            Op::Exists => "SMISMEMBER",
            Op::Set | Op::SetNx => "SADD",
            Op::Del => "SREM",
            _ => return None,
        };
        return Some(begin(name, set, vec![bytes_of(member)]));
    }
    let key = raw_key(&command.key);
    if !is_wide(key) {
        return None;
    }
    Some(match (command.op, command.number) {
        (Op::Get, None) => begin("SMEMBERS", key, vec![]),
        (Op::Get, Some(_)) => begin("SUNION", key, vec![bytes_of(key)]),
        (Op::SetNx, _) => begin("SADD", key, wide_members().collect()),
        (Op::Del, None) => begin("SREM", key, wide_members().collect()),
        (Op::GetDel, _) => begin("SPOP", key, vec![WIDE_MEMBERS.to_string().into_bytes()]),
        _ => return None,
    })
}

/// What the answer to a command on a member or a wide set says; the answer itself if the command is on another key.
///
/// # Errors
/// It is no answer to that.
pub fn reply(command: &Command, value: Value) -> Result<Reply, Option<Value>> {
    let there = |is: bool| if is { Reply::Text(THERE.to_owned()) } else { Reply::Nil };
    let is_wide = is_wide(&command.key);
    if member_of(&command.key).is_none() && !is_wide {
        return Err(Some(value));
    }
    match (command.op, value) {
        (Op::Get, Value::Integer(is @ 0..=1)) if !is_wide => Ok(there(is == 1)),
        (Op::Set, Value::Integer(0..=1)) if !is_wide => Ok(Reply::Text("OK".to_owned())),
        (Op::Exists, Value::Array(list)) if !is_wide => match list.as_slice() {
            [Value::Integer(is @ 0..=1)] => Ok(Reply::Integer(*is)),
            _ => Err(None),
        },
        (Op::Get | Op::GetDel, Value::Array(list) | Value::Set(list)) if is_wide => {
            let mut found: Vec<Vec<u8>> = list.iter().filter_map(Value::as_bytes).map(<[u8]>::to_vec).collect();
            found.sort_unstable();
            let whole = list.len() == WIDE_MEMBERS && found.into_iter().eq(wide_members());
            if whole || list.is_empty() { Ok(there(whole)) } else { Err(None) }
        }
        (Op::SetNx | Op::Del, Value::Integer(count)) if is_wide && command.number.is_none() => match count {
            0 => Ok(Reply::Integer(0)),
            all if all == WIDE_MEMBERS as i64 => Ok(Reply::Integer(1)),
            _ => Err(None),
        },
        (Op::SetNx | Op::Del | Op::Exists, Value::Integer(count @ 0..=1)) => Ok(Reply::Integer(count)),
        _ => Err(None),
    }
}

/// The words of commands that are done at once: a member is moved, members of one set are all added, or all are asked for.
#[must_use]
pub fn words_together(commands: &[Command]) -> Vec<Vec<u8>> {
    let places: Vec<(&str, &str)> = commands.iter().filter_map(|command| member_of(&command.key)).collect();
    let (set, member) = places.first().copied().unwrap_or_default();
    match commands {
        [Command { op: Op::Del, .. }, ..] => {
            let to = places.last().map_or(set, |(set, _)| set);
            ["SMOVE", set, to, member].iter().map(|word| bytes_of(word)).collect()
        }
        _ => {
            let name = if commands.iter().all(|command| command.op == Op::Exists) { "SMISMEMBER" } else { "SADD" };
            let members = places.iter().map(|(_, member)| *member);
            [name, set].into_iter().chain(members).map(bytes_of).collect()
        }
    }
}

/// What the answer to commands that are done at once says to each of them. A member that was not there has not been moved: then nothing was
/// done but to find that out.
#[must_use]
pub fn replies_together(commands: &mut Vec<Command>, value: Value) -> Option<Vec<Reply>> {
    let moves = commands.first().is_some_and(|command| command.op == Op::Del);
    match value {
        Value::Integer(1) if moves => Some(vec![Reply::Integer(1), Reply::Text("OK".to_owned())]),
        Value::Integer(0) if moves => {
            commands.truncate(1);
            commands[0].op = Op::Exists;
            Some(vec![Reply::Integer(0)])
        }
        Value::Integer(new) if usize::try_from(new).is_ok_and(|new| new <= commands.len()) => {
            Some(commands.iter().map(|_| Reply::Text("OK".to_owned())).collect())
        }
        Value::Array(list) if list.len() == commands.len() => {
            let one = |value: Value| match value {
                Value::Integer(is @ 0..=1) => Some(Reply::Integer(is)),
                _ => None,
            };
            list.into_iter().map(one).collect()
        }
        _ => None,
    }
}

impl Sets {
    /// The next task of a client that reads so often out of 8, and asks by `DICTUM.ONCE` so often.
    pub fn draw_task(&self, rng: &mut Rng, (reads, once): (u64, u64), unique: &mut dyn FnMut() -> String) -> Task {
        let reads = rng.chance(reads, 8);
        let set = format!("u{}", rng.below(2));
        let on = |op: Op, set: &str, member: &str| Command::new(op, format!("{set}@{member}")).with_argument(THERE);
        let member = *rng.pick(&MEMBERS);
        let command = match if self.only_wide { 0 } else { rng.below(8) } {
            0..=2 => {
                let key = format!("x{}", rng.below(2));
                match (reads, rng.below(6)) {
                    (true, 0) => Command::new(Op::Exists, key),
                    (true, 1) => Command::new(Op::Get, key).with_number(2),
                    (true, _) => Command::new(Op::Get, key),
                    (false, 0) => Command::new(Op::GetDel, key),
                    (false, 1) => Command::new(Op::Del, key),
                    // As a key, whatever it holds.
                    (false, 2) => Command::new(Op::Del, key).with_number(0),
                    (false, _) => Command::new(Op::SetNx, key).with_argument(THERE),
                }
            }
            3 if self.lasting => {
                if rng.chance(1, 8) {
                    return Task::SetScan;
                }
                let added = on(Op::Set, LASTING, &unique());
                return Task::Plain(vec![added]);
            }
            4 if self.moves => {
                let other = format!("u{}", rng.below(2));
                let moved = vec![on(Op::Del, &set, member), on(Op::Set, &other, member)];
                if set != other {
                    return Task::Together(moved);
                }
                on(Op::Get, &set, member)
            }
            5 => {
                let op = if reads { Op::Exists } else { Op::Set };
                let several = &MEMBERS[..rng.between(2, MEMBERS.len() as u64) as usize];
                return Task::Together(several.iter().map(|member| on(op, &set, member)).collect());
            }
            6 => {
                let mut commands = Vec::new();
                for _ in 0..rng.between(2, 3) {
                    let op = *rng.pick(&[Op::Get, Op::SetNx, Op::SetNx, Op::Del]);
                    let member = *rng.pick(&MEMBERS);
                    commands.push(on(op, &set, member));
                }
                let watch = if rng.chance(1, 2) { vec![format!("{set}@{member}")] } else { Vec::new() };
                return Task::Transaction { watch, commands };
            }
            _ => match (reads, rng.below(3)) {
                (true, 0) => on(Op::Exists, &set, member),
                (true, _) => on(Op::Get, &set, member),
                (false, 0) => on(Op::Del, &set, member),
                (false, _) => on(Op::SetNx, &set, member),
            },
        };
        let counts = matches!(command.op, Op::SetNx | Op::Del | Op::GetDel);
        if counts && rng.chance(once, 8) { Task::Once(command) } else { Task::Plain(vec![command]) }
    }
}

/// The member that an element of a page of SSCAN names, as a key of a history.
#[must_use]
pub fn scanned(member: &[u8]) -> String {
    format!("{LASTING}@{}", text_of(member))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &[Vec<u8>]) -> String {
        words.iter().map(|word| text_of(word)).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn keys_become_words() {
        let of = |op: Op, key: &str| line(&Command::new(op, key).with_argument("1").words());
        assert_eq!(of(Op::SetNx, "p/u0@m1"), "SADD u0 m1");
        assert_eq!(of(Op::Get, "u0@m1"), "SISMEMBER u0 m1");
        assert_eq!(of(Op::GetDel, "e/x0"), "SPOP x0 8");
        assert_eq!(of(Op::Exists, "x0"), "EXISTS x0");
        let on = |op: Op, key: &str| Command::new(op, key);
        assert_eq!(line(&words_together(&[on(Op::Del, "u0@m0"), on(Op::Set, "u1@m0")])), "SMOVE u0 u1 m0");
        assert_eq!(line(&words_together(&[on(Op::Set, "u0@m0"), on(Op::Set, "u0@m2")])), "SADD u0 m0 m2");
    }

    #[test]
    fn a_wide_set_is_there_or_not_or_there_is_no_answer() {
        let of = |members: Vec<Vec<u8>>| {
            let list = members.into_iter().map(Value::Bulk).collect();
            reply(&Command::new(Op::Get, "x0"), Value::Array(list))
        };
        assert_eq!(of(wide_members().collect()), Ok(Reply::Text("1".into())));
        assert_eq!(of(vec![]), Ok(Reply::Nil));
        assert_eq!(of(wide_members().skip(1).collect()), Err(None), "torn");
        let added = |count| reply(&Command::new(Op::SetNx, "x0"), Value::Integer(count));
        assert_eq!((added(8), added(0), added(3)), (Ok(Reply::Integer(1)), Ok(Reply::Integer(0)), Err(None)));
    }

    #[test]
    fn what_was_not_moved_was_only_looked_for() {
        let mut commands = vec![Command::new(Op::Del, "u0@m0"), Command::new(Op::Set, "u1@m0")];
        let moved = replies_together(&mut commands, Value::Integer(1));
        assert_eq!((moved.map(|replies| replies.len()), commands.len()), (Some(2), 2));
        assert_eq!(replies_together(&mut commands, Value::Integer(0)), Some(vec![Reply::Integer(0)]));
        assert_eq!((commands.len(), commands[0].op), (1, Op::Exists));
    }
}
