//! Hashes in a history. The model knows keys only, and needs to know no more:
//!
//! | key of a history | stands for | commands |
//! |---|---|---|
//! | `h0#f1` | the field `f1` of the hash `h0`: a register of its own | HMSET HGET HSETNX HDEL HEXISTS HINCRBY HGETDEL, and HSET and HGETALL of several at once |
//! | `w0` | a *wide* hash: all of its fields are written at once, with one value, so it is one register | HMSET HGETALL DEL EXISTS HGETDEL |
//! | `z#…` | a field that is set once and stays | HMSET, HSCAN |
//!
//! A wide hash whose fields do not all have the same value, or of which some are missing, is no answer at all: [`reply`] has none for it.

use wire::Value;

use crate::history::{Command, Op, Reply, bytes_of, raw_key, text_of};

/// How many fields a wide hash has.
pub const WIDE_FIELDS: usize = 8;
/// The fields of a hash that is no wide one.
pub const FIELDS: [&str; 3] = ["f0", "f1", "f2"];
/// The hash that is only added to.
pub const LASTING: &str = "z";
/// What an element takes beside its field and its value, at most.
const ELEMENT_BYTES_MAX: u64 = 160;

/// The hash and the field that a key of a history stands for.
#[must_use]
pub fn field_of(key: &str) -> Option<(&str, &str)> {
    raw_key(key).split_once('#')
}

/// Whether a key of a history is a wide hash.
#[must_use]
pub fn is_wide(key: &str) -> bool {
    raw_key(key).starts_with('w')
}

/// The key that commands name.
#[must_use]
pub fn key_of(key: &str) -> &str {
    let of_types = [
        field_of,
        crate::sets::member_of,
        crate::sorted::member_of,
        crate::documents::member_of,
        crate::places::member_of,
    ];
    of_types.iter().find_map(|part| part(key)).map_or(raw_key(key), |(name, _)| name)
}

/// What a command adds to a bucket beside its words and one record, at most.
#[must_use]
pub fn elements_bytes(key: &str, value: u64) -> u64 {
    match (field_of(key), is_wide(key)) {
        (Some(_), _) => ELEMENT_BYTES_MAX,
        (None, true) => WIDE_FIELDS as u64 * (ELEMENT_BYTES_MAX + value),
        (None, false) => 0,
    }
}

fn wide_fields() -> impl Iterator<Item = Vec<u8>> {
    (0..WIDE_FIELDS).map(|number| format!("wide{number}").into_bytes())
}

/// The words of a command on a field or on a wide hash; `None` of any other key.
#[must_use]
pub fn words(command: &Command) -> Option<Vec<Vec<u8>>> {
    let value = || bytes_of(command.argument.as_deref().unwrap_or(""));
    let begin = |name: &str, rest: Vec<Vec<u8>>| {
        let mut words = vec![name.as_bytes().to_vec(), bytes_of(key_of(&command.key))];
        words.extend(rest);
        words
    };
    let text = |text: &str| text.as_bytes().to_vec();
    if let Some((_, field)) = field_of(&command.key) {
        let field = bytes_of(field);
        return Some(match command.op {
            Op::Get => begin("HGET", vec![field]),
            Op::Set => begin("HMSET", vec![field, value()]),
            Op::SetNx => begin("HSETNX", vec![field, value()]),
            Op::Del => begin("HDEL", vec![field]),
            Op::Exists => begin("HEXISTS", vec![field]),
            Op::Incr => begin("HINCRBY", vec![field, command.number.unwrap_or(1).to_string().into_bytes()]),
            Op::GetDel => begin("HGETDEL", vec![text("FIELDS"), text("1"), field]),
            _ => return None,
        });
    }
    if !is_wide(&command.key) {
        return None;
    }
    Some(match command.op {
        Op::Get => begin("HGETALL", vec![]),
        Op::Set => begin("HMSET", wide_fields().flat_map(|field| [field, value()]).collect()),
        Op::GetDel => {
            let fields = [text("FIELDS"), WIDE_FIELDS.to_string().into_bytes()].into_iter().chain(wide_fields());
            begin("HGETDEL", fields.collect())
        }
        _ => return None,
    })
}

/// The words of commands that are done at once: fields of one hash are all set, or all fields are read.
#[must_use]
pub fn words_together(commands: &[Command]) -> Vec<Vec<u8>> {
    let key = commands.first().map_or("", |command| key_of(&command.key));
    let reads = commands.iter().all(|command| command.op == Op::Get);
    let mut words = vec![if reads { b"HGETALL".to_vec() } else { b"HSET".to_vec() }, bytes_of(key)];
    if !reads {
        for command in commands {
            words.push(bytes_of(field_of(&command.key).map_or("", |(_, field)| field)));
            words.push(bytes_of(command.argument.as_deref().unwrap_or("")));
        }
    }
    words
}

/// A list of bulk strings, or pairs of them.
fn texts(value: Value) -> Option<Vec<Option<String>>> {
    let values = match value {
        Value::Array(values) => values,
        Value::Map(pairs) => pairs.into_iter().flat_map(|(field, value)| [field, value]).collect(),
        _ => return None,
    };
    let text = |value: Value| match value {
        Value::Bulk(bytes) => Some(Some(text_of(&bytes))),
        Value::Null => Some(None),
        _ => None,
    };
    values.into_iter().map(text).collect()
}

/// What the answer to a command on a field or a wide hash says; `None` if it is no answer to that.
#[must_use]
pub fn reply(command: &Command, value: Value) -> Option<Reply> {
    let said = |text: Option<String>| text.map_or(Reply::Nil, Reply::Text);
    if field_of(&command.key).is_some() {
        let [only] = <[Option<String>; 1]>::try_from(texts(value)?).ok()?;
        return Some(said(only));
    }
    let mut list = texts(value)?;
    if command.op == Op::Get {
        let fields: Vec<Option<String>> = list.iter().step_by(2).cloned().collect();
        let mut expected: Vec<Option<String>> = wide_fields().map(|field| Some(text_of(&field))).collect();
        let mut found = fields;
        found.sort_unstable();
        expected.sort_unstable();
        if list.is_empty() {
            return Some(Reply::Nil);
        }
        if found != expected {
            return None;
        }
        list = list.into_iter().skip(1).step_by(2).collect();
    }
    let whole = list.len() == WIDE_FIELDS && list.windows(2).all(|pair| pair[0] == pair[1]);
    if whole { list.pop().map(said) } else { None }
}

/// What the answer to commands that are done at once says to each of them.
#[must_use]
pub fn replies_together(commands: &[Command], value: Value) -> Option<Vec<Reply>> {
    if commands.iter().all(|command| command.op == Op::Get) {
        let list = texts(value)?;
        let of = |command: &Command| {
            let (_, field) = field_of(&command.key)?;
            let pair = list.chunks_exact(2).find(|pair| pair[0].as_deref() == Some(field));
            Some(pair.and_then(|pair| pair[1].clone()).map_or(Reply::Nil, Reply::Text))
        };
        return commands.iter().map(of).collect();
    }
    match value {
        Value::Integer(new) if usize::try_from(new).is_ok_and(|new| new <= commands.len()) => {
            Some(commands.iter().map(|_| Reply::Text("OK".to_owned())).collect())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &[Vec<u8>]) -> String {
        words.iter().map(|word| text_of(word)).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn keys_become_words() {
        let of = |op: Op, key: &str| line(&Command::new(op, key).with_argument("v").words());
        assert_eq!(of(Op::Set, "p/h0#f1"), "HMSET h0 f1 v");
        assert_eq!(of(Op::GetDel, "h0#f1"), "HGETDEL h0 FIELDS 1 f1");
        assert_eq!(of(Op::Get, "e/w0"), "HGETALL w0");
        assert_eq!(of(Op::Del, "w0"), "DEL w0");
        assert_eq!(of(Op::Get, "r0"), "GET r0");
        let set = |key: &str| Command::new(Op::Set, key).with_argument("v");
        assert_eq!(line(&words_together(&[set("h0#f0"), set("h0#f2")])), "HSET h0 f0 v f2 v");
    }

    #[test]
    fn a_wide_hash_has_one_value_or_no_answer() {
        let all = |values: &[&str]| {
            let pairs = wide_fields().zip(values).flat_map(|(field, value)| [Value::Bulk(field), Value::bulk(value)]);
            reply(&Command::new(Op::Get, "w0"), Value::Array(pairs.collect()))
        };
        assert_eq!(all(&["a"; WIDE_FIELDS]), Some(Reply::Text("a".into())));
        assert_eq!(all(&[]), Some(Reply::Nil));
        assert_eq!(all(&["a"; WIDE_FIELDS - 1]), None, "a field is missing");
        assert_eq!(all(&["a", "a", "a", "a", "a", "a", "a", "b"]), None, "torn");
    }
}
