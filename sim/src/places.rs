//! Sorted sets of places in a history, told to the model as keys with values:
//!
//! | key of a history | stands for | commands |
//! |---|---|---|
//! | `d0^m1` | where the member `m1` of `d0` is, as a score: a register of its own | GEOADD, also NX, GEOPOS ZSCORE ZREM, and GEOADD and GEOSEARCH of several at once |
//!
//! A score is turned into degrees and back by halving the map, bit by bit: not the way of the code that is looked at. What is nearer than what is answered
//! before it, or a place that is none, is no answer at all: [`reply`] has none for it.

use base::Rng;
use wire::Value;

use crate::history::{Command, Op, Reply, bytes_of, raw_key, text_of};
use crate::workload::Task;

/// The members of a sorted set.
const MEMBERS: [&str; 3] = ["m0", "m1", "m2"];
/// What a member takes beside its name, at most: it stands in two places, and perhaps in a third.
const ELEMENT_BYTES_MAX: u64 = 320;
/// Bits of a score.
const BITS: u32 = 52;
/// Degrees that are divided: longitudes, and latitudes.
const MAP: [(f64, f64); 2] = [(-180.0, 180.0), (-85.05112878, 85.05112878)];

/// How clients use places.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Places {
    /// Out of 16: how often a client turns to them.
    pub often: u64,
}

/// The sorted set and the member that a key of a history stands for.
#[must_use]
pub fn member_of(key: &str) -> Option<(&str, &str)> {
    raw_key(key).split_once('^')
}

/// What a command adds to a bucket beside its words and one record, at most.
#[must_use]
pub fn elements_bytes(key: &str) -> u64 {
    if member_of(key).is_some() { ELEMENT_BYTES_MAX } else { 0 }
}

/// The middle of the cell of a score.
fn degrees_of(score: u64) -> [f64; 2] {
    let mut ranges = MAP;
    for bit in 0..BITS {
        let (low, high) = &mut ranges[bit as usize % 2];
        let middle = (*low + *high) / 2.0;
        *(if score >> (BITS - 1 - bit) & 1 == 1 { low } else { high }) = middle;
    }
    ranges.map(|(low, high)| (low + high) / 2.0)
}

/// The score of the cell of a place.
fn score_of(degrees: [f64; 2]) -> u64 {
    let mut ranges = MAP;
    let mut score = 0;
    for bit in 0..BITS {
        let axis = bit as usize % 2;
        let (low, high) = &mut ranges[axis];
        let middle = (*low + *high) / 2.0;
        let is_upper = degrees[axis] >= middle;
        *(if is_upper { low } else { high }) = middle;
        score = score << 1 | u64::from(is_upper);
    }
    score
}

/// A score that no other value of a run has: what is unique, scattered over the map.
fn scattered(unique: &str) -> String {
    let (client, value) = unique.trim_start_matches('c').split_once('n').unwrap_or(("0", "0"));
    let number = |text: &str| text.parse().unwrap_or(0u64);
    let number = number(client) << 32 | number(value);
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (1 << BITS)).to_string()
}

/// Longitude, latitude and the member, as GEOADD takes them.
fn placed(command: &Command, member: &str) -> Vec<Vec<u8>> {
    let score = command.argument.as_deref().and_then(|score| score.parse().ok()).unwrap_or(0);
    degrees_of(score).iter().map(|degrees| degrees.to_string().into_bytes()).chain([bytes_of(member)]).collect()
}

/// The words of a command on the place of a member; `None` of any other key.
#[must_use]
pub fn words(command: &Command) -> Option<Vec<Vec<u8>>> {
    let (set, member) = member_of(&command.key)?;
    let line = |words: &[&str]| words.iter().map(|word| bytes_of(word)).collect::<Vec<_>>();
    Some(match (command.op, command.number) {
        (Op::Get, None) => line(&["GEOPOS", set, member]),
        (Op::Get, Some(_)) => line(&["ZSCORE", set, member]),
        (Op::Set, _) => [line(&["GEOADD", set]), placed(command, member)].concat(),
        (Op::SetNx, _) => [line(&["GEOADD", set, "NX"]), placed(command, member)].concat(),
        (Op::Del, _) => line(&["ZREM", set, member]),
        _ => return None,
    })
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Bulk(bytes) => text_of(bytes).parse().ok(),
        Value::Double(number) => Some(*number),
        _ => None,
    }
}

/// What GEOPOS answers of one member.
fn position(list: &[Value]) -> Option<Reply> {
    match list {
        [Value::Null | Value::NullArray] => Some(Reply::Nil),
        [Value::Array(degrees)] => match degrees.as_slice() {
            [longitude, latitude] => Some(Reply::Text(score_of([number(longitude)?, number(latitude)?]).to_string())),
            _ => None,
        },
        _ => None,
    }
}

/// What the answer to a command on the place of a member says; the answer itself if the command is on another key.
///
/// # Errors
/// It is no answer to that.
pub fn reply(command: &Command, value: Value) -> Result<Reply, Option<Value>> {
    if member_of(&command.key).is_none() {
        return Err(Some(value));
    }
    match (command.op, value) {
        (Op::Get, Value::Array(list)) => position(&list).ok_or(None),
        (Op::Get, Value::Null) => Ok(Reply::Nil),
        (Op::Get, value) => number(&value).map(|score| Reply::Text(score.to_string())).ok_or(None),
        (Op::Set, Value::Integer(0..=1)) => Ok(Reply::Text("OK".to_owned())),
        (Op::SetNx | Op::Del, Value::Integer(count @ 0..=1)) => Ok(Reply::Integer(count)),
        _ => Err(None),
    }
}

/// The words of commands that are done at once: members of one sorted set are all given places, or all are read.
#[must_use]
pub fn words_together(commands: &[Command]) -> Vec<Vec<u8>> {
    let set = commands.first().and_then(|command| member_of(&command.key)).map_or("", |(set, _)| set);
    if commands.iter().all(|command| command.op == Op::Get) {
        // All of the map.
        let line = format!("GEOSEARCH {set} FROMLONLAT 0 0 BYBOX 50000 50000 KM ASC WITHDIST WITHHASH");
        return line.split(' ').map(bytes_of).collect();
    }
    let added = commands.iter().flat_map(|command| member_of(&command.key).map(|(_, member)| placed(command, member)));
    [bytes_of("GEOADD"), bytes_of(set)].into_iter().chain(added.flatten()).collect()
}

/// What the answer to commands that are done at once says to each of them.
#[must_use]
pub fn replies_together(commands: &[Command], value: Value) -> Option<Vec<Reply>> {
    match value {
        Value::Integer(new) if usize::try_from(new).is_ok_and(|new| new <= commands.len()) => {
            Some(commands.iter().map(|_| Reply::Text("OK".to_owned())).collect())
        }
        Value::Array(list) => {
            let item = |value: &Value| match value {
                Value::Array(parts) => match parts.as_slice() {
                    [Value::Bulk(member), distance, Value::Integer(score)] => {
                        Some((text_of(member), number(distance)?, *score))
                    }
                    _ => None,
                },
                _ => None,
            };
            let found = list.iter().map(item).collect::<Option<Vec<_>>>()?;
            if !found.is_sorted_by(|one, other| one.1 <= other.1) {
                return None;
            }
            let of = |command: &Command| {
                let (_, member) = member_of(&command.key)?;
                let place = found.iter().find(|(name, ..)| name == member);
                Some(place.map_or(Reply::Nil, |(.., score)| Reply::Text(score.to_string())))
            };
            commands.iter().map(of).collect()
        }
        _ => None,
    }
}

impl Places {
    /// The next task of a client that reads so often out of 8, and asks by `DICTUM.ONCE` so often.
    pub fn draw_task(&self, rng: &mut Rng, (reads, once): (u64, u64), unique: &mut dyn FnMut() -> String) -> Task {
        let reads = rng.chance(reads, 8);
        let set = format!("d{}", rng.below(2));
        let on = |op: Op, member: &str| Command::new(op, format!("{set}^{member}"));
        let mut at = |op: Op, member: &str| on(op, member).with_argument(scattered(&unique()));
        let member = *rng.pick(&MEMBERS);
        let command = match rng.below(6) {
            0 | 1 => {
                return Task::Together(if reads {
                    MEMBERS.iter().map(|member| on(Op::Get, member)).collect()
                } else {
                    let several = &MEMBERS[..rng.between(2, MEMBERS.len() as u64) as usize];
                    several.iter().map(|member| at(Op::Set, member)).collect()
                });
            }
            2 => {
                let mut commands = Vec::new();
                for _ in 0..rng.between(2, 3) {
                    let member = *rng.pick(&MEMBERS);
                    commands.push(match rng.below(4) {
                        0 => on(Op::Get, member),
                        1 => on(Op::Del, member),
                        2 => at(Op::SetNx, member),
                        _ => at(Op::Set, member),
                    });
                }
                let watch = if rng.chance(1, 2) { vec![format!("{set}^{member}")] } else { Vec::new() };
                return Task::Transaction { watch, commands };
            }
            _ => match (reads, rng.below(4)) {
                (true, 0) => on(Op::Get, member).with_number(1),
                (true, _) => on(Op::Get, member),
                (false, 0) => on(Op::Del, member),
                (false, 1) => at(Op::SetNx, member),
                (false, _) => at(Op::Set, member),
            },
        };
        let counts = matches!(command.op, Op::SetNx | Op::Del);
        if counts && rng.chance(once, 8) { Task::Once(command) } else { Task::Plain(vec![command]) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &[Vec<u8>]) -> String {
        words.iter().map(|word| text_of(word)).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_score_is_its_place_again() {
        for number in 0..1000 {
            let score: u64 = scattered(&format!("c{}n{number}", number % 7)).parse().expect("a number");
            assert_eq!(score_of(degrees_of(score)), score);
        }
        // Palermo, as a Redis keeps it.
        assert_eq!(score_of([13.361389, 38.115556]), 3_479_099_956_230_698);
    }

    #[test]
    fn keys_become_words() {
        let of = |op: Op, key: &str| line(&Command::new(op, key).with_argument("0").words());
        assert_eq!(of(Op::Get, "p/d0^m1"), "GEOPOS d0 m1");
        assert_eq!(of(Op::Del, "d0^m1"), "ZREM d0 m1");
        assert!(of(Op::SetNx, "d0^m1").starts_with("GEOADD d0 NX -179.99"));
    }

    #[test]
    fn what_is_out_of_order_is_no_answer() {
        let commands = [Command::new(Op::Get, "d0^m0"), Command::new(Op::Get, "d0^m1")];
        let item = |member: &str, distance: &str, score: i64| {
            Value::Array(vec![Value::bulk(member), Value::bulk(distance), Value::Integer(score)])
        };
        let of = |items: Vec<Value>| replies_together(&commands, Value::Array(items));
        let text = |score: &str| Reply::Text(score.to_owned());
        assert_eq!(of(vec![item("m1", "1.5", 7), item("m0", "20.0", 8)]), Some(vec![text("8"), text("7")]));
        assert_eq!(of(vec![item("m1", "1.5", 7)]), Some(vec![Reply::Nil, text("7")]));
        assert_eq!(of(vec![item("m1", "20.0", 7), item("m0", "1.5", 8)]), None);
    }
}
