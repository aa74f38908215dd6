//! Sorted sets in a history, told to the model as keys with values:
//!
//! | key of a history | stands for | commands |
//! |---|---|---|
//! | `o0%m1` | the score of the member `m1` of the sorted set `o0`: a register of its own | ZADD, also NX, ZSCORE ZREM ZINCRBY, and ZADD and ZRANGE of several at once |
//! | `i0` | a *wide* sorted set: all of its members come and go at once with one score, so it is one register | ZADD ZRANGE ZPOPMIN ZPOPMAX ZREMRANGEBYRANK EXISTS DEL |
//! | `j%…` | a member that is added once and stays | ZADD, ZSCAN |
//!
//! Members that are out of order, or a wide sorted set of which some are missing or have another score, are no answer at all: [`reply`] has none
//! for them.

use base::Rng;
use wire::Value;

use crate::history::{Command, Op, Reply, bytes_of, raw_key, text_of};
use crate::workload::Task;

/// How many members a wide sorted set has.
const WIDE_MEMBERS: usize = 8;
/// The members of a sorted set that is no wide one.
const MEMBERS: [&str; 3] = ["m0", "m1", "m2"];
/// The sorted set that is only added to.
pub const LASTING: &str = "j";
/// What a member takes beside its name, at most: it stands in two places, and perhaps in a third.
const ELEMENT_BYTES_MAX: u64 = 320;

/// How clients use sorted sets.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SortedSets {
    /// Out of 16: how often a client turns to them.
    pub often: u64,
    /// Members are added that stay, and ZSCAN looks for them.
    pub lasting: bool,
    /// Only such as stand for one register as a whole.
    pub only_wide: bool,
}

/// The sorted set and the member that a key of a history stands for.
#[must_use]
pub fn member_of(key: &str) -> Option<(&str, &str)> {
    raw_key(key).split_once('%')
}

fn is_wide(key: &str) -> bool {
    raw_key(key).starts_with('i')
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

fn wide_members() -> impl DoubleEndedIterator<Item = String> {
    (0..WIDE_MEMBERS).map(|number| format!("wide{number}"))
}

/// The words of a command on a member or on a wide sorted set; `None` of any other key.
#[must_use]
pub fn words(command: &Command) -> Option<Vec<Vec<u8>>> {
    let score = command.argument.as_deref().unwrap_or("0");
    let number = command.number.unwrap_or(1).to_string();
    let line = |words: &[&str]| Some(words.iter().map(|word| bytes_of(word)).collect());
    if let Some((set, member)) = member_of(&command.key) {
        return match command.op {
            Op::Get => line(&["ZSCORE", set, member]),
            Op::Set => line(&["ZADD", set, score, member]),
            Op::SetNx => line(&["ZADD", set, "NX", score, member]),
            Op::Incr => line(&["ZINCRBY", set, &number, member]),
            Op::Del => line(&["ZREM", set, member]),
            _ => None,
        };
    }
    let key = raw_key(&command.key);
    if !is_wide(key) {
        return None;
    }
    match (command.op, command.number) {
        (Op::Get, None) => line(&["ZRANGE", key, "0", "-1", "WITHSCORES"]),
        (Op::Get, Some(_)) => line(&["ZREVRANGEBYSCORE", key, "+inf", "-inf", "WITHSCORES"]),
        (Op::Set, _) => {
            let pairs = wide_members().flat_map(|member| [bytes_of(score), bytes_of(&member)]);
            Some([bytes_of("ZADD"), bytes_of(key)].into_iter().chain(pairs).collect())
        }
        (Op::Del, None) => line(&["ZREMRANGEBYRANK", key, "0", "-1"]),
        (Op::GetDel, None) => line(&["ZPOPMIN", key, "8"]),
        (Op::GetDel, Some(_)) => line(&["ZPOPMAX", key, "8"]),
        _ => None,
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Bulk(bytes) => Some(text_of(bytes)),
        Value::Double(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Members with their scores, as an answer of either protocol has them.
fn pairs(list: &[Value]) -> Option<Vec<(String, String)>> {
    let flat: Vec<&Value> = list
        .iter()
        .flat_map(|value| match value {
            Value::Array(pair) => pair.iter().collect(),
            value => vec![value],
        })
        .collect();
    flat.chunks(2).map(|pair| Some((text(pair[0])?, text(pair.get(1)?)?))).collect()
}

/// What the answer to a command on a member or a wide sorted set says; the answer itself if the command is on another key.
///
/// # Errors
/// It is no answer to that.
pub fn reply(command: &Command, value: Value) -> Result<Reply, Option<Value>> {
    let is_wide = is_wide(&command.key);
    if member_of(&command.key).is_none() && !is_wide {
        return Err(Some(value));
    }
    match (command.op, value) {
        (Op::Get | Op::GetDel, Value::Array(list)) if is_wide => {
            let Some(found) = pairs(&list) else { return Err(None) };
            let Some((_, score)) = found.first().cloned() else { return Ok(Reply::Nil) };
            let backwards = command.number.is_some();
            let expected: Vec<String> =
                if backwards { wide_members().rev().collect() } else { wide_members().collect() };
            let whole = found.iter().map(|(member, _)| member).eq(&expected);
            if whole && found.iter().all(|(_, other)| *other == score) { Ok(Reply::Text(score)) } else { Err(None) }
        }
        (Op::Set, Value::Integer(added)) if is_wide => {
            let whole = added == 0 || added == WIDE_MEMBERS as i64;
            if whole { Ok(Reply::Text("OK".to_owned())) } else { Err(None) }
        }
        (Op::Del, Value::Integer(count)) if is_wide && command.number.is_none() => match count {
            0 => Ok(Reply::Integer(0)),
            all if all == WIDE_MEMBERS as i64 => Ok(Reply::Integer(1)),
            _ => Err(None),
        },
        (Op::Set, Value::Integer(0..=1)) => Ok(Reply::Text("OK".to_owned())),
        (Op::SetNx | Op::Del | Op::Exists, Value::Integer(count @ 0..=1)) => Ok(Reply::Integer(count)),
        (Op::Get, Value::Null) => Ok(Reply::Nil),
        (Op::Get, value) => text(&value).map(Reply::Text).ok_or(None),
        (Op::Incr, value) => {
            let sum = text(&value).and_then(|text| text.parse().ok());
            sum.map(Reply::Integer).ok_or(None)
        }
        _ => Err(None),
    }
}

/// The words of commands that are done at once: members of one sorted set are all given scores, or all are read.
#[must_use]
pub fn words_together(commands: &[Command]) -> Vec<Vec<u8>> {
    let places: Vec<(&str, &str)> = commands.iter().filter_map(|command| member_of(&command.key)).collect();
    let (set, _) = places.first().copied().unwrap_or_default();
    if commands.iter().all(|command| command.op == Op::Get) {
        return ["ZRANGE", set, "0", "-1", "WITHSCORES"].iter().map(|word| bytes_of(word)).collect();
    }
    let mut words = vec![bytes_of("ZADD"), bytes_of(set)];
    for (command, (_, member)) in commands.iter().zip(places) {
        words.push(bytes_of(command.argument.as_deref().unwrap_or("0")));
        words.push(bytes_of(member));
    }
    words
}

/// What the answer to commands that are done at once says to each of them.
#[must_use]
pub fn replies_together(commands: &[Command], value: Value) -> Option<Vec<Reply>> {
    match value {
        Value::Integer(new) if usize::try_from(new).is_ok_and(|new| new <= commands.len()) => {
            Some(commands.iter().map(|_| Reply::Text("OK".to_owned())).collect())
        }
        Value::Array(list) => {
            let found = pairs(&list)?;
            let scores = found.iter().map(|(_, score)| score.parse().ok()).collect::<Option<Vec<i64>>>()?;
            if !scores.is_sorted() {
                return None;
            }
            let of = |command: &Command| {
                let (_, member) = member_of(&command.key)?;
                let score = found.iter().find(|(name, _)| name == member);
                Some(score.map_or(Reply::Nil, |(_, score)| Reply::Text(score.clone())))
            };
            commands.iter().map(of).collect()
        }
        _ => None,
    }
}

/// A number that no other value of a run is: the digits of what is unique.
fn score_of(unique: &str) -> String {
    let (client, value) = unique.trim_start_matches('c').split_once('n').unwrap_or(("0", "0"));
    let number = |text: &str| text.parse().unwrap_or(0u64);
    (number(client) * 1_000_000_000 + number(value) * 1_000).to_string()
}

impl SortedSets {
    /// The next task of a client that reads so often out of 8, and asks by `DICTUM.ONCE` so often.
    pub fn draw_task(&self, rng: &mut Rng, (reads, once): (u64, u64), unique: &mut dyn FnMut() -> String) -> Task {
        let reads = rng.chance(reads, 8);
        let set = format!("o{}", rng.below(2));
        let mut scored = |op: Op, set: &str, member: &str| {
            Command::new(op, format!("{set}%{member}")).with_argument(score_of(&unique()))
        };
        let on = |op: Op, set: &str, member: &str| Command::new(op, format!("{set}%{member}"));
        let member = *rng.pick(&MEMBERS);
        let command = match if self.only_wide { 0 } else { rng.below(8) } {
            0..=2 => {
                let key = format!("i{}", rng.below(2));
                match (reads, rng.below(6)) {
                    (true, 0) => Command::new(Op::Exists, key),
                    (true, 1) => Command::new(Op::Get, key).with_number(1),
                    (true, _) => Command::new(Op::Get, key),
                    (false, 0) => Command::new(Op::GetDel, key),
                    (false, 1) => Command::new(Op::GetDel, key).with_number(1),
                    (false, 2) => Command::new(Op::Del, key),
                    (false, _) => Command::new(Op::Set, key).with_argument(score_of(&unique())),
                }
            }
            3 if self.lasting => {
                if rng.chance(1, 8) {
                    return Task::SortedScan;
                }
                let name = unique();
                let added = Command::new(Op::Set, format!("{LASTING}%{name}")).with_argument(score_of(&name));
                return Task::Plain(vec![added]);
            }
            4 => {
                let key = format!("oc%{member}");
                let added = Command::new(Op::Incr, key.clone()).with_number(rng.between(1, 9) as i64);
                if reads { Command::new(Op::Get, key) } else { added }
            }
            5 => {
                return Task::Together(if reads {
                    MEMBERS.iter().map(|member| on(Op::Get, &set, member)).collect()
                } else {
                    let several = &MEMBERS[..rng.between(2, MEMBERS.len() as u64) as usize];
                    several.iter().map(|member| scored(Op::Set, &set, member)).collect()
                });
            }
            6 => {
                let mut commands = Vec::new();
                for _ in 0..rng.between(2, 3) {
                    let member = *rng.pick(&MEMBERS);
                    commands.push(match rng.below(4) {
                        0 => on(Op::Get, &set, member),
                        1 => on(Op::Del, &set, member),
                        2 => scored(Op::SetNx, &set, member),
                        _ => scored(Op::Set, &set, member),
                    });
                }
                let watch = if rng.chance(1, 2) { vec![format!("{set}%{member}")] } else { Vec::new() };
                return Task::Transaction { watch, commands };
            }
            _ => match (reads, rng.below(4)) {
                (true, _) => on(Op::Get, &set, member),
                (false, 0) => on(Op::Del, &set, member),
                (false, 1) => scored(Op::SetNx, &set, member),
                (false, _) => scored(Op::Set, &set, member),
            },
        };
        let counts = matches!(command.op, Op::SetNx | Op::Del | Op::GetDel | Op::Incr);
        if counts && rng.chance(once, 8) { Task::Once(command) } else { Task::Plain(vec![command]) }
    }
}

/// The member that a page of ZSCAN names, as a key of a history.
#[must_use]
pub fn scanned(member: &[u8]) -> String {
    format!("{LASTING}%{}", text_of(member))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &[Vec<u8>]) -> String {
        words.iter().map(|word| text_of(word)).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn keys_become_words() {
        let of = |op: Op, key: &str| line(&Command::new(op, key).with_argument("7").words());
        assert_eq!(of(Op::SetNx, "p/o0%m1"), "ZADD o0 NX 7 m1");
        assert_eq!(of(Op::Get, "o0%m1"), "ZSCORE o0 m1");
        assert_eq!(of(Op::GetDel, "e/i0"), "ZPOPMIN i0 8");
        assert_eq!(of(Op::Exists, "i0"), "EXISTS i0");
        let set = |key: &str| Command::new(Op::Set, key).with_argument("5");
        assert_eq!(line(&words_together(&[set("o0%m0"), set("o0%m2")])), "ZADD o0 5 m0 5 m2");
        assert_eq!(score_of("c3n17"), "3000017000");
    }

    #[test]
    fn a_wide_sorted_set_is_in_order_with_one_score_or_there_is_no_answer() {
        let of = |members: Vec<String>, score: &str| {
            let list = members.iter().flat_map(|member| [Value::bulk(member), Value::bulk(score)]);
            reply(&Command::new(Op::Get, "i0"), Value::Array(list.collect()))
        };
        assert_eq!(of(wide_members().collect(), "7"), Ok(Reply::Text("7".into())));
        assert_eq!(of(vec![], "7"), Ok(Reply::Nil));
        assert_eq!(of(wide_members().skip(1).collect(), "7"), Err(None), "torn");
        assert_eq!(of(wide_members().rev().collect(), "7"), Err(None), "out of order");
    }
}
