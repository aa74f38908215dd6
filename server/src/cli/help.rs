//! Help from the server itself: what `COMMAND DOCS` says, so that it fits the server and not this client.

use std::collections::BTreeMap;
use std::fmt::Write;

use wire::Value;

/// What `help` alone says.
pub(super) const GENERAL: &str = "\
Type a command as the server takes it: set greeting \"hello world\"
  Words are separated by spaces. \"…\" knows \\n \\r \\t \\a \\b \\\\ \\\" and \\xff for any byte; '…' only \\'.

  help COMMAND   what a command does, its arguments and since when it is there: help set
  help @GROUP    the commands of a group: help @string, @generic, @bitmap, @server, …
  clear          an empty screen
  quit, exit     leave; so does Ctrl-D

  Tab completes names of commands. The history is kept from one time to the next, but not lines with passwords.
";

/// What is known of every command.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Documentation {
    /// By name in lower case; subcommands as `client list`.
    commands: BTreeMap<String, Description>,
}

/// One command.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Description {
    summary: String,
    since: String,
    group: String,
    /// One text for each argument on the top level.
    arguments: Vec<String>,
}

impl Documentation {
    /// Reads the reply to `COMMAND DOCS`, of RESP2 or RESP3.
    pub(super) fn read(reply: &Value) -> Option<Documentation> {
        let mut documentation = Documentation::default();
        for (name, description) in pairs(reply)? {
            documentation.add(&text(name), description);
        }
        Some(documentation)
    }

    fn add(&mut self, name: &str, description: &Value) {
        let mut read = Description::default();
        for (field, value) in pairs(description).unwrap_or_default() {
            match text(field).as_str() {
                "summary" => read.summary = text(value),
                "since" => read.since = text(value),
                "group" => read.group = text(value),
                "arguments" => {
                    read.arguments = value.as_array().unwrap_or_default().iter().map(argument).collect();
                }
                "subcommands" => {
                    for (subcommand, description) in pairs(value).unwrap_or_default() {
                        self.add(&text(subcommand), description);
                    }
                }
                _ => {}
            }
        }
        self.commands.insert(name.to_lowercase().replace('|', " "), read);
    }

    /// Names of all commands, in upper case.
    pub(super) fn names(&self) -> impl Iterator<Item = String> {
        self.commands.keys().map(|name| name.to_uppercase())
    }

    /// What is still to be typed after `line`, which ends with a space.
    pub(super) fn hint(&self, line: &str) -> Option<String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (description, typed) = (1..=2.min(words.len())).rev().find_map(|count| {
            let description = self.commands.get(&words[..count].join(" ").to_lowercase())?;
            Some((description, words.len() - count))
        })?;
        let rest = description.arguments.get(typed..)?;
        (!rest.is_empty()).then(|| rest.join(" "))
    }

    /// Help on a command, on a group (`@string`), or on all commands whose name begins so.
    pub(super) fn help(&self, topic: &str) -> Option<String> {
        let topic = topic.to_lowercase();
        let mut out = String::new();
        match topic.strip_prefix('@') {
            Some(group) => {
                self.commands
                    .iter()
                    .filter(|(_, of)| of.group == group)
                    .for_each(|(name, of)| of.write(name, &mut out));
            }
            None => match self.commands.get(&topic) {
                Some(description) => {
                    description.write(&topic, &mut out);
                    let inner = format!("{topic} ");
                    let subcommands = self.commands.iter().filter(|(name, _)| name.starts_with(&inner));
                    subcommands.for_each(|(name, of)| of.write(name, &mut out));
                }
                None => {
                    let alike = self.commands.iter().filter(|(name, _)| name.starts_with(&topic));
                    alike.for_each(|(name, of)| of.write(name, &mut out));
                }
            },
        }
        (!out.is_empty()).then_some(out)
    }
}

impl Description {
    fn write(&self, name: &str, out: &mut String) {
        let arguments = self.arguments.join(" ");
        let space = if arguments.is_empty() { "" } else { " " };
        write!(
            out,
            "\n  {}{space}{arguments}\n  summary: {}\n  since: {}\n  group: {}\n",
            name.to_uppercase(),
            self.summary,
            self.since,
            self.group
        )
        .expect("a string takes all text");
    }
}

/// One argument in Redis's notation: `[EX seconds | PX milliseconds]`, `key [key ...]`.
fn argument(value: &Value) -> String {
    let fields: BTreeMap<String, &Value> =
        pairs(value).unwrap_or_default().into_iter().map(|(name, value)| (text(name), value)).collect();
    let field = |name: &str| fields.get(name).map(|value| text(value)).unwrap_or_default();
    let inner = || fields.get("arguments").and_then(|value| value.as_array()).unwrap_or_default().iter().map(argument);
    let flags: Vec<String> =
        fields.get("flags").and_then(|value| value.as_array()).unwrap_or_default().iter().map(text).collect();
    let has = |flag: &str| flags.iter().any(|have| have == flag);
    let kind = field("type");
    let token = field("token");
    let body = match kind.as_str() {
        "oneof" => inner().collect::<Vec<_>>().join(" | "),
        "block" => inner().collect::<Vec<_>>().join(" "),
        "pure-token" => String::new(),
        _ => match field("display_text") {
            shown if !shown.is_empty() => shown,
            _ => field("name"),
        },
    };
    // Alternatives need brackets wherever something stands beside them.
    let body = if kind == "oneof" && (!has("optional") || !token.is_empty()) { format!("<{body}>") } else { body };
    let with_token = match (token.as_str(), body.as_str()) {
        ("", body) => body.to_owned(),
        (token, "") => token.to_owned(),
        (token, body) => format!("{token} {body}"),
    };
    let repeated = match (has("multiple"), has("multiple_token")) {
        (_, true) => format!("{with_token} [{with_token} ...]"),
        (true, false) => format!("{with_token} [{body} ...]"),
        (false, false) => with_token,
    };
    if has("optional") { format!("[{repeated}]") } else { repeated }
}

/// A map, or RESP2's flat list in its place.
fn pairs(value: &Value) -> Option<Vec<(&Value, &Value)>> {
    match value {
        Value::Map(pairs) => Some(pairs.iter().map(|(key, value)| (key, value)).collect()),
        Value::Array(flat) => Some(flat.chunks_exact(2).map(|pair| (&pair[0], &pair[1])).collect()),
        _ => None,
    }
}

fn text(value: &Value) -> String {
    value.as_bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{Protocol, ReplyParser};

    fn map(pairs: &[(&str, Value)]) -> Value {
        Value::Map(pairs.iter().map(|(name, value)| (Value::bulk(name), value.clone())).collect())
    }

    fn one(name: &str, kind: &str, more: &[(&str, Value)]) -> Value {
        let mut fields = vec![("name", Value::bulk(name)), ("type", Value::bulk(kind))];
        fields.extend(more.iter().cloned());
        map(&fields)
    }

    fn flags(list: &[&str]) -> (&'static str, Value) {
        ("flags", Value::Array(list.iter().map(Value::bulk).collect()))
    }

    fn documents() -> Value {
        let token = |token: &str| ("token", Value::bulk(token));
        let inner = |list: &[Value]| ("arguments", Value::Array(list.to_vec()));
        let set = [
            one("key", "key", &[]),
            one("value", "string", &[]),
            one(
                "condition",
                "oneof",
                &[
                    flags(&["optional"]),
                    inner(&[one("nx", "pure-token", &[token("NX")]), one("xx", "pure-token", &[token("XX")])]),
                ],
            ),
            one("seconds", "integer", &[token("EX"), flags(&["optional"])]),
        ];
        let bitop = [
            one(
                "operation",
                "oneof",
                &[inner(&[one("and", "pure-token", &[token("AND")]), one("or", "pure-token", &[token("OR")])])],
            ),
            one("key", "key", &[flags(&["multiple"])]),
            one(
                "get",
                "block",
                &[
                    token("GET"),
                    flags(&["optional", "multiple_token", "multiple"]),
                    inner(&[one("encoding", "string", &[]), one("offset", "integer", &[])]),
                ],
            ),
        ];
        map(&[
            (
                "set",
                map(&[
                    ("summary", Value::bulk("Sets.")),
                    ("since", Value::bulk("1.0.0")),
                    ("group", Value::bulk("string")),
                    inner(&set),
                ]),
            ),
            ("bitop", map(&[("summary", Value::bulk("Combines.")), ("group", Value::bulk("bitmap")), inner(&bitop)])),
            (
                "client",
                map(&[
                    ("summary", Value::bulk("Holds.")),
                    ("group", Value::bulk("connection")),
                    (
                        "subcommands",
                        map(&[(
                            "client|id",
                            map(&[("summary", Value::bulk("Tells.")), ("group", Value::bulk("connection"))]),
                        )]),
                    ),
                ]),
            ),
        ])
    }

    #[test]
    fn help_in_both_dialects() {
        for protocol in [Protocol::Resp2, Protocol::Resp3] {
            let mut bytes = Vec::new();
            documents().encode(&mut bytes, protocol);
            let mut parser = ReplyParser::default();
            parser.push(&bytes);
            let reply = parser.next().expect("RESP").expect("whole");
            let read = Documentation::read(&reply).expect("documents");
            assert_eq!(
                read.help("SET").as_deref(),
                Some("\n  SET key value [NX | XX] [EX seconds]\n  summary: Sets.\n  since: 1.0.0\n  group: string\n")
            );
            let bitop = read.help("@bitmap").expect("a group");
            assert!(
                bitop.starts_with(
                    "\n  BITOP <AND | OR> key [key ...] [GET encoding offset [GET encoding offset ...]]\n"
                ),
                "{bitop}"
            );
            let client = read.help("client").expect("a container");
            assert!(client.contains("CLIENT ID\n  summary: Tells."), "{client}");
            assert_eq!(read.help("nothing"), None);
        }
    }

    #[test]
    fn hints_shrink_as_arguments_are_typed() {
        let read = Documentation::read(&documents()).expect("documents");
        assert_eq!(read.hint("set ").as_deref(), Some("key value [NX | XX] [EX seconds]"));
        assert_eq!(read.hint("SET a b ").as_deref(), Some("[NX | XX] [EX seconds]"));
        assert_eq!(read.hint("set a b c d e f "), None);
        assert_eq!(read.hint("client id "), None);
        assert_eq!(read.hint("what "), None);
        assert!(read.names().any(|name| name == "CLIENT ID"));
    }
}
