//! Makes operations of what went over the wire: a command's words and the answer.
//!
//! Understood are GET, SET (also NX and GET), SETNX, GETSET, GETDEL, MGET, MSET, DEL and UNLINK, INCR, INCRBY, DECR, DECRBY,
//! APPEND, LPUSH, RPUSH, LPOP, RPOP, LRANGE of all, and EVAL of [`COMPARE_AND_SET`] and [`COMPARE_AND_DELETE`]; transactions of these by [`transaction`]. Commands that
//! touch no key's value are nothing to the history. Of any other command nothing can be checked, and it says so: what it wrote
//! would make later reads look wrong.

use wire::Value as Reply;

use super::operation::{Answer, Ask, End, Operation, Outcome, Step};
use super::value::Value;

/// A script for `EVAL … 1 key expected new`: puts `new` if the value is `expected`, and answers 1 if it was, 0 if not. An absent
/// key is no value.
pub const COMPARE_AND_SET: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('SET', KEYS[1], ARGV[2]) return 1 end return 0";

/// A script for `EVAL … 1 key expected`: deletes the key if its value is `expected`, and answers 1 if it was, 0 if not.
pub const COMPARE_AND_DELETE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) return 1 end return 0";

/// Codes of errors with which a command surely was not done, of Dictum and Redis. Any other code leaves that open.
const SURELY_NOT: [&str; 24] = [
    "ERR",
    "WRONGTYPE",
    "MOVED",
    "ASK",
    "TRYAGAIN",
    "CROSSSLOT",
    "CLUSTERDOWN",
    "MASTERDOWN",
    "LOADING",
    "READONLY",
    "NOAUTH",
    "NOPERM",
    "WRONGPASS",
    "OOM",
    "BUSY",
    "NOSCRIPT",
    "EXECABORT",
    "NOREPLICAS",
    "MISCONF",
    "DENIED",
    "NOPROTO",
    "NOTLEADER",
    "QUOTA",
    "INPROG",
];

/// Commands that neither read nor change a value.
const NOTHING: [&str; 17] = [
    "PING",
    "ECHO",
    "SELECT",
    "HELLO",
    "AUTH",
    "CLIENT",
    "COMMAND",
    "INFO",
    "TIME",
    "MULTI",
    "WATCH",
    "UNWATCH",
    "DISCARD",
    "READONLY",
    "READWRITE",
    "CLUSTER",
    "WAIT",
];

/// When and by whom something was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The client's number.
    pub client: u32,
    /// When it was sent: nanoseconds since the history began.
    pub from: u64,
    /// When its answer was there; none if it never was.
    pub until: Option<u64>,
}

/// The operation that `words` ask for, with its answer (none: there was none, and it may yet be done). `Ok(None)` for what
/// touches no value.
///
/// # Errors
/// If the command is not among those that can be checked, or its answer makes no sense: a history without it proves nothing.
pub fn operation(asked: Asked, words: &[Vec<u8>], answer: Option<&Reply>) -> Result<Option<Operation>, String> {
    let Some(steps) = steps(words)? else { return Ok(None) };
    let (outcome, steps) = judge(words, steps, answer)?;
    Ok(Some(Operation { client: asked.client, from: asked.from, until: asked.until, outcome, steps }))
}

/// The operation of a transaction: the commands between MULTI and EXEC, and EXEC's answer (none: there was none). An EXEC that
/// answers nothing, because a watched key had changed, did nothing.
///
/// # Errors
/// As [`operation`], and if EXEC has not an answer for every command.
pub fn transaction(
    asked: Asked,
    commands: &[Vec<Vec<u8>>],
    answer: Option<&Reply>,
) -> Result<Option<Operation>, String> {
    let mut all = Vec::new();
    for words in commands {
        if let Some(steps) = steps(words)? {
            all.push((words, steps));
        } else {
            return Err(format!("`{}` within a transaction cannot be checked", shown(words)));
        }
    }
    let made = |outcome, steps| {
        Ok(Some(Operation { client: asked.client, from: asked.from, until: asked.until, outcome, steps }))
    };
    let unlooked = |all: Vec<(_, Vec<Step>)>| all.into_iter().flat_map(|(_, steps)| steps).collect::<Vec<Step>>();
    match answer {
        None => made(Outcome::Unknown, unlooked(all)),
        Some(Reply::Error(text)) => made(outcome_of(text), unlooked(all)),
        Some(reply) if reply.is_null() => made(Outcome::Failed, unlooked(all)),
        Some(Reply::Array(answers)) if answers.len() == all.len() => {
            let mut steps = Vec::new();
            for ((words, asked), answer) in all.into_iter().zip(answers) {
                match judge(words, asked, Some(answer))? {
                    (Outcome::Done, done) => steps.extend(done),
                    // One that failed within a transaction did nothing; the others did.
                    (Outcome::Failed, _) => {}
                    (Outcome::Unknown, _) => return Err(format!("`{}` answered {answer:?} in EXEC", shown(words))),
                }
            }
            made(Outcome::Done, steps)
        }
        Some(other) => Err(format!("EXEC of {} commands answered {other:?}", commands.len())),
    }
}

/// What an error says of the command.
fn outcome_of(error: &str) -> Outcome {
    let code = error.split(' ').next().unwrap_or("");
    if SURELY_NOT.contains(&code) { Outcome::Failed } else { Outcome::Unknown }
}

fn shown(words: &[Vec<u8>]) -> String {
    let first: Vec<String> = words.iter().take(4).map(|word| Value::new(word).to_string()).collect();
    first.join(" ")
}

/// The steps that a command asks for, without answers; none for what touches no value.
fn steps(words: &[Vec<u8>]) -> Result<Option<Vec<Step>>, String> {
    let cannot = || format!("`{}` cannot be checked: it is no command whose effect the checker knows", shown(words));
    let name = words.first().map(|word| word.to_ascii_uppercase()).ok_or("a command without words")?;
    let name = String::from_utf8(name).map_err(|_| cannot())?;
    let step = |key: &[u8], ask| Step { key: key.to_vec(), ask, answer: None };
    let one = |ask| Ok(Some(vec![step(&words[1], ask)]));
    let integer = |word: &[u8]| Value::new(word).integer().ok_or_else(cannot);
    match (name.as_str(), words.len() - 1) {
        (name, _) if NOTHING.contains(&name) => Ok(None),
        ("GET", 1) => one(Ask::Get),
        ("SET", 2) => one(Ask::Set(Value::new(&words[2]))),
        ("SET", 3) if words[3].eq_ignore_ascii_case(b"NX") => one(Ask::SetIfAbsent(Value::new(&words[2]))),
        ("SET", 3) if words[3].eq_ignore_ascii_case(b"GET") => get_and(step, words, Ask::Set(Value::new(&words[2]))),
        ("GETSET", 2) => get_and(step, words, Ask::Set(Value::new(&words[2]))),
        ("GETDEL", 1) => get_and(step, words, Ask::Delete),
        ("SETNX", 2) => one(Ask::SetIfAbsent(Value::new(&words[2]))),
        ("APPEND", 2) => one(Ask::Append(Value::new(&words[2]))),
        ("INCR", 1) => one(Ask::Add(1)),
        ("DECR", 1) => one(Ask::Add(-1)),
        ("INCRBY", 2) => one(Ask::Add(integer(&words[2])?)),
        ("DECRBY", 2) => one(Ask::Add(integer(&words[2])?.checked_neg().ok_or_else(cannot)?)),
        ("DEL" | "UNLINK", 1..) => Ok(Some(words[1..].iter().map(|key| step(key, Ask::Delete)).collect())),
        ("MGET", 1..) => Ok(Some(words[1..].iter().map(|key| step(key, Ask::Get)).collect())),
        ("MSET", count) if count >= 2 && count % 2 == 0 => {
            Ok(Some(words[1..].chunks(2).map(|pair| step(&pair[0], Ask::Set(Value::new(&pair[1])))).collect()))
        }
        ("LPUSH" | "RPUSH", 2..) => {
            let end = if name == "LPUSH" { End::Left } else { End::Right };
            Ok(Some(words[2..].iter().map(|word| step(&words[1], Ask::Push(end, Value::new(word)))).collect()))
        }
        ("LPOP", 1) => one(Ask::Pop(End::Left)),
        ("RPOP", 1) => one(Ask::Pop(End::Right)),
        ("LRANGE", 3) if words[2] == b"0" && words[3] == b"-1" => one(Ask::Items),
        ("EVAL", 4 | 5) if words[2] == b"1" => {
            let expected = Some(Value::new(&words[4]));
            let new = match words.get(5) {
                Some(new) if words[1] == COMPARE_AND_SET.as_bytes() => Some(Value::new(new)),
                None if words[1] == COMPARE_AND_DELETE.as_bytes() => None,
                _ => return Err(cannot()),
            };
            Ok(Some(vec![step(&words[3], Ask::CompareAndSet { expected, new })]))
        }
        _ => Err(cannot()),
    }
}

fn get_and(step: impl Fn(&[u8], Ask) -> Step, words: &[Vec<u8>], ask: Ask) -> Result<Option<Vec<Step>>, String> {
    Ok(Some(vec![step(&words[1], Ask::Get), step(&words[1], ask)]))
}

/// Puts the answers into the steps.
fn judge(words: &[Vec<u8>], mut steps: Vec<Step>, answer: Option<&Reply>) -> Result<(Outcome, Vec<Step>), String> {
    let Some(answer) = answer else { return Ok((Outcome::Unknown, steps)) };
    if let Reply::Error(text) = answer {
        let is_refusal = text.contains("not an integer") || text.contains("overflow");
        if let ([Step { ask: Ask::Add(_), answer, .. }], true) = (steps.as_mut_slice(), is_refusal) {
            *answer = Some(Answer::Refused);
            return Ok((Outcome::Done, steps));
        }
        return Ok((outcome_of(text), steps));
    }
    let nonsense = || format!("`{}` answered {answer:?}", shown(words));
    match (steps.as_mut_slice(), answer) {
        // Each key's value, in their order.
        (many, Reply::Array(values)) if many.len() == values.len() && many.iter().all(|step| step.ask == Ask::Get) => {
            for (step, value) in many.iter_mut().zip(values) {
                step.answer = Some(got(value).ok_or_else(nonsense)?);
            }
        }
        // What was there, and then a change that answers nothing of its own.
        ([first, _], value) if first.ask == Ask::Get => first.answer = Some(got(value).ok_or_else(nonsense)?),
        ([Step { ask: Ask::Items, answer, .. }], Reply::Array(items)) => {
            let items: Option<Vec<Value>> = items.iter().map(|item| item.as_bytes().map(Value::new)).collect();
            let items = items.ok_or_else(nonsense)?;
            *answer = Some(if items.is_empty() { Answer::Absent } else { Answer::Value(Value::list(&items)) });
        }
        // How many there are behind the last one that was pushed.
        ([.., last], Reply::Integer(count)) if matches!(last.ask, Ask::Push(..)) => {
            last.answer = Some(Answer::Integer(*count))
        }
        ([one], answer) => one.answer = Some(answer_of(one.ask, answer).ok_or_else(nonsense)?),
        // How many there were: only all or none tell of each. The same key may stand there twice.
        (many, Reply::Integer(count)) if many.iter().all(|step| step.ask == Ask::Delete) => {
            let flag = [(0, false), (many.len() as i64, true)].into_iter().find(|(all, _)| all == count);
            many.iter_mut().for_each(|step| step.answer = flag.map(|(_, flag)| Answer::Flag(flag)));
        }
        (many, Reply::Simple(_)) if many.iter().all(|step| matches!(step.ask, Ask::Set(_))) => {
            many.iter_mut().for_each(|step| step.answer = Some(Answer::Done));
        }
        _ => return Err(nonsense()),
    }
    Ok((Outcome::Done, steps))
}

fn got(reply: &Reply) -> Option<Answer> {
    if reply.is_null() { Some(Answer::Absent) } else { reply.as_bytes().map(|bytes| Answer::Value(Value::new(bytes))) }
}

fn answer_of(ask: Ask, reply: &Reply) -> Option<Answer> {
    match (ask, reply) {
        (Ask::Get | Ask::Pop(_), reply) => got(reply),
        (Ask::Set(_), Reply::Simple(_)) => Some(Answer::Done),
        (Ask::SetIfAbsent(_), Reply::Simple(_)) => Some(Answer::Flag(true)),
        (Ask::SetIfAbsent(_), reply) if reply.is_null() => Some(Answer::Flag(false)),
        (Ask::SetIfAbsent(_) | Ask::CompareAndSet { .. } | Ask::Delete, Reply::Integer(number @ (0 | 1))) => {
            Some(Answer::Flag(*number == 1))
        }
        (Ask::Add(_) | Ask::Append(_), Reply::Integer(number)) => Some(Answer::Integer(*number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
