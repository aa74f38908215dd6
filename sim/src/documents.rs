//! JSON documents in a history, told to the model as keys with values:
//!
//! | key of a history | stands for | commands |
//! |---|---|---|
//! | `n0$m1` | the member `m1` of the document `n0`: a register of its own | JSON.MERGE JSON.GET JSON.DEL, and JSON.MERGE and JSON.GET of several at once |
//! | `f0` | a document that is one text | JSON.SET, also NX, JSON.GET JSON.MGET JSON.DEL EXISTS DEL |

use base::Rng;
use wire::Value;

use crate::history::{Command, Op, Reply, bytes_of, raw_key};
use crate::workload::Task;

/// The members of a document that is no single text.
const MEMBERS: [&str; 3] = ["m0", "m1", "m2"];
/// What a member takes beside its value, at most.
const MEMBER_BYTES_MAX: u64 = 64;

/// How clients use documents.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Documents {
    /// Out of 16: how often a client turns to them.
    pub often: u64,
    /// Only such as stand for one register as a whole.
    pub only_whole: bool,
}

/// The document and the member that a key of a history stands for.
#[must_use]
pub fn member_of(key: &str) -> Option<(&str, &str)> {
    raw_key(key).split_once('$')
}

fn is_whole(key: &str) -> bool {
    raw_key(key).starts_with('f')
}

/// What a command adds to a bucket beside its words and one record, at most.
#[must_use]
pub fn elements_bytes(key: &str) -> u64 {
    if member_of(key).is_some() || is_whole(key) { MEMBER_BYTES_MAX } else { 0 }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn line(words: &[&str]) -> Vec<Vec<u8>> {
    words.iter().map(|word| bytes_of(word)).collect()
}

/// The words of a command on a member or on a document that is one text; `None` of any other key.
#[must_use]
pub fn words(command: &Command) -> Option<Vec<Vec<u8>>> {
    let value = quoted(command.argument.as_deref().unwrap_or(""));
    if let Some((document, member)) = member_of(&command.key) {
        return match command.op {
            Op::Get => Some(line(&["JSON.GET", document, &format!("$.{member}")])),
            Op::Set => Some(line(&["JSON.MERGE", document, "$", &format!("{{{}:{value}}}", quoted(member))])),
            Op::Del => Some(line(&["JSON.DEL", document, &format!("$.{member}")])),
            _ => None,
        };
    }
    let key = raw_key(&command.key);
    if !is_whole(key) {
        return None;
    }
    match (command.op, command.number) {
        (Op::Get, None) => Some(line(&["JSON.GET", key, "$"])),
        (Op::Get, Some(_)) => Some(line(&["JSON.MGET", key, "$"])),
        (Op::Set, _) => Some(line(&["JSON.SET", key, "$", &value])),
        (Op::SetNx, _) => Some(line(&["JSON.SET", key, "$", &value, "NX"])),
        (Op::Del, Some(_)) => Some(line(&["JSON.DEL", key])),
        _ => None,
    }
}

/// The texts in an answer of JSON.GET with one JSONPath.
fn texts(bytes: &[u8]) -> Option<Vec<String>> {
    serde_json::from_slice(bytes).ok()
}

/// What the answer to a command on a member or a document of one text says; the answer itself if the command is on another key.
///
/// # Errors
/// It is no answer to that.
pub fn reply(command: &Command, value: Value) -> Result<Reply, Option<Value>> {
    if words(command).is_none() {
        return Err(Some(value));
    }
    match (command.op, value) {
        (Op::Get, Value::Array(list)) => match <[Value; 1]>::try_from(list) {
            Ok([one]) => reply(&Command { number: None, ..command.clone() }, one),
            Err(_) => Err(None),
        },
        (Op::Get, Value::Null) => Ok(Reply::Nil),
        (Op::Get, Value::Bulk(bytes)) => match texts(&bytes).as_deref() {
            Some([]) => Ok(Reply::Nil),
            Some([text]) => Ok(Reply::Text(text.clone())),
            _ => Err(None),
        },
        (Op::Set, Value::Simple(text)) if text == "OK" => Ok(Reply::Text(text)),
        (Op::SetNx, Value::Simple(text)) if text == "OK" => Ok(Reply::Integer(1)),
        (Op::SetNx, Value::Null) => Ok(Reply::Integer(0)),
        (Op::Del, Value::Integer(count @ 0..=1)) => Ok(Reply::Integer(count)),
        _ => Err(None),
    }
}

/// The words of commands that are done at once: members of one document are all written, or all are read.
#[must_use]
pub fn words_together(commands: &[Command]) -> Vec<Vec<u8>> {
    let places: Vec<(&str, &str)> = commands.iter().filter_map(|command| member_of(&command.key)).collect();
    let (document, _) = places.first().copied().unwrap_or_default();
    if commands.iter().all(|command| command.op == Op::Get) {
        let paths = places.iter().map(|(_, member)| bytes_of(&format!("$.{member}")));
        return line(&["JSON.GET", document]).into_iter().chain(paths).collect();
    }
    let members = commands.iter().zip(places).map(|(command, (_, member))| {
        format!("{}:{}", quoted(member), quoted(command.argument.as_deref().unwrap_or("")))
    });
    line(&["JSON.MERGE", document, "$", &format!("{{{}}}", members.collect::<Vec<_>>().join(","))])
}

/// What the answer to commands that are done at once says to each of them.
#[must_use]
pub fn replies_together(commands: &[Command], value: Value) -> Option<Vec<Reply>> {
    match value {
        Value::Simple(text) if text == "OK" => Some(commands.iter().map(|_| Reply::Text("OK".to_owned())).collect()),
        Value::Null => Some(commands.iter().map(|_| Reply::Nil).collect()),
        Value::Bulk(bytes) => {
            let found: std::collections::BTreeMap<String, Vec<String>> = serde_json::from_slice(&bytes).ok()?;
            let of = |command: &Command| {
                let (_, member) = member_of(&command.key)?;
                match &found.get(&format!("$.{member}"))?[..] {
                    [] => Some(Reply::Nil),
                    [text] => Some(Reply::Text(text.clone())),
                    _ => None,
                }
            };
            commands.iter().map(of).collect()
        }
        _ => None,
    }
}

impl Documents {
    /// The next task of a client that reads so often out of 8, and asks by `DICTUM.ONCE` so often.
    pub fn draw_task(&self, rng: &mut Rng, (reads, once): (u64, u64), unique: &mut dyn FnMut() -> String) -> Task {
        let reads = rng.chance(reads, 8);
        let document = format!("n{}", rng.below(2));
        let of = |op: Op, member: &str| Command::new(op, format!("{document}${member}"));
        let member = *rng.pick(&MEMBERS);
        let command = match if self.only_whole { 0 } else { rng.below(8) } {
            0..=2 => {
                let key = format!("f{}", rng.below(2));
                match (reads, rng.below(6)) {
                    (true, 0) => Command::new(Op::Exists, key),
                    (true, 1 | 2) => Command::new(Op::Get, key).with_number(1),
                    (true, _) => Command::new(Op::Get, key),
                    (false, 0) => Command::new(Op::Del, key),
                    (false, 1) => Command::new(Op::Del, key).with_number(1),
                    (false, 2 | 3) => Command::new(Op::SetNx, key).with_argument(unique()),
                    (false, _) => Command::new(Op::Set, key).with_argument(unique()),
                }
            }
            3 | 4 => {
                return Task::Together(if reads {
                    MEMBERS.iter().map(|member| of(Op::Get, member)).collect()
                } else {
                    let several = &MEMBERS[..rng.between(2, MEMBERS.len() as u64) as usize];
                    several.iter().map(|member| of(Op::Set, member).with_argument(unique())).collect()
                });
            }
            5 => {
                let mut commands = Vec::new();
                for _ in 0..rng.between(2, 3) {
                    let member = *rng.pick(&MEMBERS);
                    commands.push(match rng.below(4) {
                        0 => of(Op::Get, member),
                        1 => of(Op::Del, member),
                        _ => of(Op::Set, member).with_argument(unique()),
                    });
                }
                let watch = if rng.chance(1, 2) { vec![format!("{document}${member}")] } else { Vec::new() };
                return Task::Transaction { watch, commands };
            }
            _ => match (reads, rng.below(3)) {
                (true, _) => of(Op::Get, member),
                (false, 0) => of(Op::Del, member),
                (false, _) => of(Op::Set, member).with_argument(unique()),
            },
        };
        let counts = matches!(command.op, Op::SetNx | Op::Del);
        if counts && rng.chance(once, 8) { Task::Once(command) } else { Task::Plain(vec![command]) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::text_of;

    fn text(words: &[Vec<u8>]) -> String {
        words.iter().map(|word| text_of(word)).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn keys_become_words() {
        let of = |op: Op, key: &str| text(&Command::new(op, key).with_argument("v").words());
        assert_eq!(of(Op::Set, "p/n0$m1"), "JSON.MERGE n0 $ {\"m1\":\"v\"}");
        assert_eq!(of(Op::Get, "n0$m1"), "JSON.GET n0 $.m1");
        assert_eq!(of(Op::SetNx, "e/f0"), "JSON.SET f0 $ \"v\" NX");
        assert_eq!(of(Op::Exists, "f0"), "EXISTS f0");
        let set = |key: &str| Command::new(Op::Set, key).with_argument("5");
        let several = words_together(&[set("n0$m0"), set("n0$m2")]);
        assert_eq!(text(&several), "JSON.MERGE n0 $ {\"m0\":\"5\",\"m2\":\"5\"}");
    }

    #[test]
    fn an_answer_says_what_a_member_holds_or_is_none() {
        let get = |answer: &str| reply(&Command::new(Op::Get, "n0$m0"), Value::bulk(answer));
        assert_eq!(get("[\"v\"]"), Ok(Reply::Text("v".into())));
        assert_eq!(get("[]"), Ok(Reply::Nil));
        assert_eq!(get("[\"v\",\"w\"]"), Err(None));
        assert_eq!(get("\"v\""), Err(None));
        let several = [Command::new(Op::Get, "n0$m0"), Command::new(Op::Get, "n0$m1")];
        let answer = Value::bulk("{\"$.m0\":[\"v\"],\"$.m1\":[]}");
        assert_eq!(replies_together(&several, answer), Some(vec![Reply::Text("v".into()), Reply::Nil]));
        assert_eq!(replies_together(&several, Value::bulk("{\"$.m0\":[\"v\"]}")), None);
    }
}
