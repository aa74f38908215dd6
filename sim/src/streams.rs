//! Streams in a history, told to the model as keys with values:
//!
//! | key of a history | stands for | commands |
//! |---|---|---|
//! | `t0` | a stream, as the text of its entries: APPEND's length is told by the identifier, which counts | XADD XRANGE XREVRANGE DEL; for TAIL, XREAD with an identifier or `$`, which waits |
//! | `m0` | what of a stream a consumer group has still to be given: PUSH, POP, and GETDEL of all | XADD, XREADGROUP with `>`, with and without NOACK, and in a script that removes what it was given with XDELEX and XACKDEL; with an argument, the seconds to wait, POP waits |
//! | `k0~1-1` | whose an entry is that is pending: SET, GET, DEL | XCLAIM with FORCE, XPENDING, XACK, XACKDEL with ACKED, which keeps the entry for a group that is given nothing |
//! | `m0~all`, `k0~all` | nothing: what makes the group (SET) | XGROUP CREATE, RESTORE |
//!
//! So it is checked with everything else that entries are in the order in which they were added and none is lost; that each is delivered once, the oldest first; that one that is
//! pending is with one consumer until another claims it, and that what was acknowledged stays so. A group that is not made yet refuses: that is no failure.

use base::Rng;
use wire::Value;

use crate::history::{Command, Op, Reply, TOKEN_BYTES, bytes_of, raw_key, text_of};
use crate::lists::SECONDS;
use crate::lists::element_of;
use crate::workload::Task;

/// The entries of which it is asked whose they are.
const ENTRIES: [&str; 3] = ["1-1", "1-2", "2-0"];
/// Is given an entry and removes it: not while it is pending, then as acknowledged, and then there is nothing more to remove.
const POP_AND_REMOVE: &str = "local key = KEYS[1] \
     local given = redis.call('XREADGROUP', 'GROUP', 'g', 'carl', 'COUNT', '1', 'STREAMS', key, '>') \
     if not given then return given end \
     local id, count = given[1][2][1][1], redis.call('XLEN', key) \
     local first = redis.call('XDELEX', key, 'ACKED', 'IDS', '1', id)[1] \
     local second = redis.call('XACKDEL', key, 'g', 'DELREF', 'IDS', '1', id)[1] \
     local third = redis.call('XDELEX', key, 'DELREF', 'IDS', '1', id)[1] \
     if first ~= 2 or second ~= 1 or third ~= -1 or redis.call('XLEN', key) ~= count - 1 then \
     return redis.error_reply('WRONG entry ' .. id .. ' was removed as ' .. first .. second .. third) end \
     return given";
/// The number of a POP that does so.
const REMOVES: i64 = 2;
/// What is made with its group.
const ALL: &str = "all";
/// What an entry, and what it takes to be pending, take beside their bytes, at most; and the same of all that is made with a group.
const ENTRY_BYTES_MAX: u64 = 1200;
const ALL_BYTES_MAX: u64 = 4000;

/// How clients use streams.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Streams {
    /// Out of 16: how often a client turns to them.
    pub often: u64,
    /// It mostly waits for what is new to a group.
    pub waits: bool,
}

/// The stream and the entry that a key of a history stands for.
#[must_use]
pub fn entry_of(key: &str) -> Option<(&str, &str)> {
    raw_key(key).split_once('~')
}

fn is_log(key: &str) -> bool {
    raw_key(key).starts_with('t')
}

fn is_queue(key: &str) -> bool {
    raw_key(key).starts_with('m') && entry_of(key).is_none()
}

/// What a command adds to a bucket beside its words and one record, at most.
#[must_use]
pub fn elements_bytes(key: &str) -> u64 {
    match entry_of(key) {
        Some((_, ALL)) => ALL_BYTES_MAX,
        Some(_) => ENTRY_BYTES_MAX,
        None if is_log(key) || is_queue(key) => ENTRY_BYTES_MAX,
        None => 0,
    }
}

/// Whether an error says that a group is not there yet, or is there already.
#[must_use]
pub fn is_absent(error: &str) -> bool {
    ["NOGROUP", "BUSYGROUP", "BUSYKEY"].iter().any(|code| error.starts_with(code))
}

/// Whether a key of a history can be read without changing it.
#[must_use]
pub fn is_readable(key: &str) -> bool {
    !is_queue(key) && entry_of(key).is_none_or(|(_, entry)| entry != ALL)
}

/// Seconds to wait, as these commands have them.
fn milliseconds(seconds: &str) -> String {
    ((seconds.parse::<f64>().unwrap_or(0.0) * 1000.0) as u64).to_string()
}

fn line(words: &[&str]) -> Vec<Vec<u8>> {
    words.iter().map(|word| bytes_of(word)).collect()
}

/// What DUMP says of a stream with the entries and two groups that have been given none.
fn payload() -> Vec<u8> {
    let mut tree = data::Tree::new();
    let mut run = |words: &[&str]| {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        data::apply(&mut tree, &data::EntryContext::default(), &words).reply
    };
    for id in ENTRIES {
        run(&["XADD", "k", id, "f", "v"]);
    }
    run(&["XGROUP", "CREATE", "k", "g", "0"]);
    run(&["XGROUP", "CREATE", "k", "never", "0"]);
    match run(&["DUMP", "k"]) {
        data::Reply::Bulk(payload) => payload.to_vec(),
        _ => Vec::new(),
    }
}

/// The words of a command on a stream; `None` of any other key.
#[must_use]
pub fn words(command: &Command) -> Option<Vec<Vec<u8>>> {
    let key = raw_key(&command.key);
    let value = command.argument.as_deref().unwrap_or("");
    if let Some((stream, entry)) = entry_of(&command.key) {
        return match (command.op, entry) {
            (Op::Set, ALL) if stream.starts_with('m') => {
                Some(line(&["XGROUP", "CREATE", stream, "g", "0", "MKSTREAM"]))
            }
            (Op::Set, ALL) => Some([line(&["RESTORE", stream, "0"]), vec![payload()]].concat()),
            (Op::Set, _) => Some(line(&["XCLAIM", stream, "g", value, "0", entry, "FORCE", "JUSTID"])),
            (Op::Get, _) => Some(line(&["XPENDING", stream, "g", entry, entry, "1"])),
            (Op::Del, _) if command.number.is_some() => {
                Some(line(&["XACKDEL", stream, "g", "ACKED", "IDS", "1", entry]))
            }
            (Op::Del, _) => Some(line(&["XACK", stream, "g", entry])),
            _ => None,
        };
    }
    let consumer = if command.number.is_some() { "anna" } else { "bert" };
    match command.op {
        Op::Append if is_log(key) => Some(line(&["XADD", key, "1-*", "f", value])),
        Op::Get if is_log(key) && command.number.is_some() => Some(line(&["XREVRANGE", key, "+", "-"])),
        Op::Get if is_log(key) => Some(line(&["XRANGE", key, "-", "+"])),
        Op::Tail if is_log(key) => {
            let after = match command.number.unwrap_or(0) {
                -1 => "$".to_owned(),
                0 => "0".to_owned(),
                // The first one is 1-0.
                tokens => format!("1-{}", tokens - 1),
            };
            Some(line(&["XREAD", "BLOCK", &milliseconds(value), "STREAMS", key, &after]))
        }
        Op::Push if is_queue(key) => Some(line(&["XADD", key, "*", "f", value])),
        Op::Pop if is_queue(key) && command.argument.is_some() => {
            let (group, block) = (["XREADGROUP", "GROUP", "g", consumer, "COUNT", "1"], milliseconds(value));
            Some(line(&[&group[..], &["BLOCK", &block, "STREAMS", key, ">"]].concat()))
        }
        Op::Pop if is_queue(key) && command.number == Some(REMOVES) => Some(line(&["EVAL", POP_AND_REMOVE, "1", key])),
        Op::Pop if is_queue(key) => {
            Some(line(&["XREADGROUP", "GROUP", "g", consumer, "COUNT", "1", "STREAMS", key, ">"]))
        }
        Op::GetDel if is_queue(key) => {
            Some(line(&["XREADGROUP", "GROUP", "g", consumer, "NOACK", "STREAMS", key, ">"]))
        }
        _ => None,
    }
}

/// The tokens of entries, each of one field, and whether their identifiers ascend.
fn tokens(entries: &[Value]) -> Option<(Vec<String>, bool)> {
    let (mut tokens, mut ids) = (Vec::new(), Vec::new());
    for entry in entries {
        let Value::Array(parts) = entry else { return None };
        let [Value::Bulk(id), Value::Array(words)] = parts.as_slice() else { return None };
        let token = words.get(1).filter(|_| words.len() == 2)?.as_bytes().filter(|token| token.len() == TOKEN_BYTES)?;
        let id = text_of(id);
        let (ms, seq) = id.split_once('-')?;
        ids.push((ms.parse::<u64>().ok()?, seq.parse::<u64>().ok()?));
        tokens.push(text_of(token));
    }
    let ascend = ids.windows(2).all(|pair| pair[0] < pair[1]);
    Some((tokens, ascend))
}

fn all_of(tokens: &[String]) -> Reply {
    if tokens.is_empty() { Reply::Nil } else { Reply::Text(tokens.concat()) }
}

/// What the answer to a command on a stream says; the answer itself if the command is on another key.
///
/// # Errors
/// It is no answer to that.
pub fn reply(command: &Command, value: Value) -> Result<Reply, Option<Value>> {
    if words(command).is_none() {
        return Err(Some(value));
    }
    let ok = || Reply::Text("OK".to_owned());
    let said = match (command.op, value) {
        (Op::Set, Value::Simple(text)) if text == "OK" => Some(ok()),
        (Op::Set, Value::Array(claimed)) => (claimed.len() == 1).then(ok),
        (Op::Get, Value::Array(pending)) if entry_of(&command.key).is_some() => match pending.as_slice() {
            [] => Some(Reply::Nil),
            [Value::Array(parts)] => parts.get(1).and_then(Value::as_bytes).map(|name| Reply::Text(text_of(name))),
            _ => None,
        },
        (Op::Get, Value::Array(mut entries)) => {
            if command.number.is_some() {
                entries.reverse();
            }
            tokens(&entries).filter(|(_, ascend)| *ascend).map(|(tokens, _)| all_of(&tokens))
        }
        (Op::Del, Value::Integer(count @ 0..=1)) => Some(Reply::Integer(count)),
        // That another group needs it is what has to be said of each that was acknowledged.
        (Op::Del, Value::Array(said)) => match said.as_slice() {
            [Value::Integer(-1)] => Some(Reply::Integer(0)),
            [Value::Integer(2)] => Some(Reply::Integer(1)),
            _ => None,
        },
        (Op::Append, Value::Bulk(id)) => {
            let before = text_of(&id).strip_prefix("1-").and_then(|count| count.parse::<i64>().ok());
            before.map(|before| Reply::Integer((before + 1) * TOKEN_BYTES as i64))
        }
        (Op::Push, Value::Bulk(_)) => Some(ok()),
        (Op::Pop | Op::GetDel | Op::Tail, Value::Null | Value::NullArray) => Some(Reply::Nil),
        (Op::Pop | Op::GetDel | Op::Tail, Value::Array(streams)) => match streams.as_slice() {
            [Value::Array(parts)] => delivered(parts.get(1)),
            _ => None,
        },
        (Op::Pop | Op::GetDel | Op::Tail, Value::Map(streams)) => match streams.as_slice() {
            [(_, entries)] => delivered(Some(entries)),
            _ => None,
        },
        _ => None,
    };
    said.ok_or(None)
}

fn delivered(entries: Option<&Value>) -> Option<Reply> {
    let Some(Value::Array(entries)) = entries else { return None };
    tokens(entries).filter(|(tokens, ascend)| *ascend && !tokens.is_empty()).map(|(tokens, _)| all_of(&tokens))
}

impl Streams {
    /// The next task of a client that reads so often out of 8, and asks by `DICTUM.ONCE` so often.
    pub fn draw_task(&self, rng: &mut Rng, (reads, once): (u64, u64), unique: &mut dyn FnMut() -> String) -> Task {
        let either = |rng: &mut Rng, command: Command| if rng.chance(1, 2) { command.with_number(1) } else { command };
        let kind = if self.waits { *rng.pick(&[0, 1, 1, 1]) } else { rng.below(3) };
        let command = match kind {
            0 => {
                let key = format!("t{}", rng.below(2));
                match (rng.chance(reads, 16), rng.below(12)) {
                    (true, 0..4) => {
                        let from = if rng.chance(1, 2) { -1 } else { rng.below(40) as i64 };
                        Command::new(Op::Tail, key).with_number(from).with_argument(*rng.pick(&SECONDS))
                    }
                    (true, _) => either(rng, Command::new(Op::Get, key)),
                    (false, 0) => Command::new(Op::Del, key),
                    (false, _) => Command::new(Op::Append, key).with_argument(element_of(&unique())),
                }
            }
            1 => {
                let key = format!("m{}", rng.below(2));
                match rng.below(16) {
                    0 => Command::new(Op::Set, format!("{key}~{ALL}")).with_argument(unique()),
                    1 => either(rng, Command::new(Op::GetDel, key)),
                    2..=10 if self.waits => either(rng, Command::new(Op::Pop, key)).with_argument(*rng.pick(&SECONDS)),
                    2 => Command::new(Op::Pop, key).with_number(REMOVES),
                    3 | 4 => either(rng, Command::new(Op::Pop, key)),
                    5..=7 => either(rng, Command::new(Op::Pop, key)).with_argument(*rng.pick(&SECONDS)),
                    _ => Command::new(Op::Push, key).with_argument(element_of(&unique())),
                }
            }
            _ => {
                let stream = format!("k{}", rng.below(2));
                let key = format!("{stream}~{}", rng.pick(&ENTRIES));
                match (rng.chance(reads, 12), rng.below(10)) {
                    (true, _) => Command::new(Op::Get, key),
                    (false, 0 | 1) => Command::new(Op::Set, format!("{stream}~{ALL}")).with_argument(unique()),
                    (false, 2..=4) => either(rng, Command::new(Op::Del, key)),
                    (false, _) => Command::new(Op::Set, key).with_argument(unique()),
                }
            }
        };
        // By an identifier that is asked again and again nobody waits for a group that is not made.
        let is_certain = is_log(&command.key) || command.op == Op::Push;
        if !matches!(command.op, Op::Get | Op::Tail) && is_certain && rng.chance(once, 8) {
            Task::Once(command)
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
        assert_eq!(of(Command::new(Op::Append, "p/t0").with_argument("v")), "XADD t0 1-* f v");
        assert_eq!(of(Command::new(Op::Push, "m0").with_argument("v")), "XADD m0 * f v");
        assert_eq!(of(Command::new(Op::Pop, "m1")), "XREADGROUP GROUP g bert COUNT 1 STREAMS m1 >");
        let waits = |op: Op, key: &str| Command::new(op, key).with_argument("0.05");
        assert_eq!(of(waits(Op::Pop, "m1")), "XREADGROUP GROUP g bert COUNT 1 BLOCK 50 STREAMS m1 >");
        assert_eq!(of(waits(Op::Tail, "t1").with_number(-1)), "XREAD BLOCK 50 STREAMS t1 $");
        assert_eq!(of(waits(Op::Tail, "t1").with_number(2)), "XREAD BLOCK 50 STREAMS t1 1-1");
        assert_eq!(of(Command::new(Op::Set, "k0~1-2").with_argument("c")), "XCLAIM k0 g c 0 1-2 FORCE JUSTID");
        assert_eq!(of(Command::new(Op::Del, "e/k0~1-2")), "XACK k0 g 1-2");
        assert_eq!(of(Command::new(Op::Del, "k0~1-2").with_number(1)), "XACKDEL k0 g ACKED IDS 1 1-2");
        assert!(of(Command::new(Op::Pop, "m1").with_number(REMOVES)).ends_with(" 1 m1"));
        assert_eq!(of(Command::new(Op::Del, "t0")), "DEL t0");
        assert!(of(Command::new(Op::Set, "k0~all").with_argument("c")).starts_with("RESTORE k0 0 "));
        assert!(payload().len() > 50);
    }

    #[test]
    fn entries_out_of_order_are_no_answer() {
        let token = element_of("a");
        let entry =
            |id: &str| Value::Array(vec![Value::bulk(id), Value::Array(vec![Value::bulk("f"), Value::bulk(&token)])]);
        let get = Command::new(Op::Get, "t0");
        assert_eq!(reply(&get, Value::Array(vec![entry("1-9"), entry("1-10")])), Ok(Reply::Text(token.repeat(2))));
        assert_eq!(reply(&get, Value::Array(vec![entry("1-10"), entry("1-9")])), Err(None));
        assert_eq!(reply(&get, Value::Array(Vec::new())), Ok(Reply::Nil));
        let backwards = get.with_number(1);
        assert!(reply(&backwards, Value::Array(vec![entry("1-10"), entry("1-9")])).is_ok());
        let append = Command::new(Op::Append, "t0").with_argument(&token);
        assert_eq!(reply(&append, Value::bulk("1-3")), Ok(Reply::Integer(40)));
        assert_eq!(reply(&append, Value::bulk("2-3")), Err(None));
    }
}
