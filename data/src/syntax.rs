//! A command's arguments as a tree, read from the notation in its description: what `COMMAND DOCS` lists and what
//! redis-cli shows as a hint.
//!
//! ```text
//! key value [NX | XX] [EX seconds | PERSIST] [key value ...]
//! ```
//! Words in capitals are tokens; a name after a token is the token's argument; brackets make optional; bars separate
//! choices; `...` before a closing bracket repeats: `key [key ...]` is one argument that may be given several times. `<A | B>` is a choice that must be made.

/// One argument, or a group of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Argument {
    /// Lower case; of a token alone the token's name.
    pub name: String,
    /// What it is.
    pub kind: ArgumentKind,
    /// The word that stands before it, or that it is.
    pub token: Option<String>,
    /// It may be left out.
    pub optional: bool,
    /// It may be given more than once.
    pub multiple: bool,
}

/// What an argument is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ArgumentKind {
    /// Any bytes.
    String,
    /// A key.
    Key,
    /// A whole number.
    Integer,
    /// A number.
    Double,
    /// A date, in seconds or milliseconds since 1970.
    UnixTime,
    /// A pattern of keys.
    Pattern,
    /// The token itself and nothing else.
    PureToken,
    /// One of these.
    OneOf(Vec<Argument>),
    /// All of these in this order.
    Block(Vec<Argument>),
}

impl ArgumentKind {
    /// The name that `COMMAND DOCS` uses.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            ArgumentKind::String => "string",
            ArgumentKind::Key => "key",
            ArgumentKind::Integer => "integer",
            ArgumentKind::Double => "double",
            ArgumentKind::UnixTime => "unix-time",
            ArgumentKind::Pattern => "pattern",
            ArgumentKind::PureToken => "pure-token",
            ArgumentKind::OneOf(_) => "oneof",
            ArgumentKind::Block(_) => "block",
        }
    }

    /// The arguments that a group is made of.
    #[must_use]
    pub fn arguments(&self) -> &[Argument] {
        match self {
            ArgumentKind::OneOf(arguments) | ArgumentKind::Block(arguments) => arguments,
            _ => &[],
        }
    }
}

/// Reads the notation. Descriptions are our own, so there are no errors: what is odd becomes a plain argument.
#[must_use]
pub fn arguments(notation: &str) -> Vec<Argument> {
    let mut spaced = notation.to_owned();
    for sign in ["[", "]", "|", "<", ">"] {
        spaced = spaced.replace(sign, &format!(" {sign} "));
    }
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    sequence(&words, &mut at)
}

/// Arguments up to a bar, a closing bracket or the end.
fn sequence(words: &[&str], at: &mut usize) -> Vec<Argument> {
    let mut arguments: Vec<Argument> = Vec::new();
    while let Some(&word) = words.get(*at) {
        match word {
            "|" | "]" | ">" => break,
            "[" => {
                *at += 1;
                let group = bracket(words, at);
                push_group(&mut arguments, group);
            }
            "<" => arguments.push(choice(words, at)),
            _ => {
                *at += 1;
                arguments.push(plain(word, words, at));
            }
        }
    }
    arguments
}

/// A choice that must be made, from its opening sign on.
fn choice(words: &[&str], at: &mut usize) -> Argument {
    *at += 1;
    let (mut choices, _) = bracket(words, at);
    if choices.len() == 1 {
        return block(choices.pop().unwrap_or_default());
    }
    Argument { kind: ArgumentKind::OneOf(choices.into_iter().map(block).collect()), ..named("option") }
}

/// Choices up to the closing bracket, each a sequence; and whether they may be repeated.
fn bracket(words: &[&str], at: &mut usize) -> (Vec<Vec<Argument>>, bool) {
    let mut choices = vec![sequence(words, at)];
    while words.get(*at) == Some(&"|") {
        *at += 1;
        choices.push(sequence(words, at));
    }
    *at += 1;
    let last = choices.last_mut().expect("there is at least one choice");
    let repeats = last.last().is_some_and(|argument| argument.name == "...");
    if repeats {
        last.pop();
    }
    (choices, repeats)
}

fn push_group(arguments: &mut Vec<Argument>, (mut choices, repeats): (Vec<Vec<Argument>>, bool)) {
    let one_choice = choices.len() == 1;
    if repeats && one_choice {
        // `key [key ...]`: the arguments before the bracket may be repeated.
        let count = choices[0].len();
        if arguments.len() >= count && arguments[arguments.len() - count..] == choices[0][..] {
            let mut repeated = block(arguments.split_off(arguments.len() - count));
            repeated.multiple = true;
            arguments.push(repeated);
            return;
        }
    }
    let mut group = if one_choice {
        block(choices.pop().unwrap_or_default())
    } else {
        let choices: Vec<Argument> = choices.into_iter().map(block).collect();
        Argument { kind: ArgumentKind::OneOf(choices), ..named("option") }
    };
    group.optional = true;
    group.multiple = repeats;
    arguments.push(group);
}

/// One argument stands for itself, several become a block named after the first.
fn block(mut arguments: Vec<Argument>) -> Argument {
    if arguments.len() == 1 {
        return arguments.remove(0);
    }
    let name = arguments.first().map_or_else(String::new, |first| first.name.clone());
    Argument { kind: ArgumentKind::Block(arguments), ..named(&name) }
}

fn named(name: &str) -> Argument {
    Argument { name: name.to_owned(), kind: kind_of(name), token: None, optional: false, multiple: false }
}

fn is_token(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_')
        && word.bytes().any(|byte| byte.is_ascii_uppercase())
}

/// A token with its argument, a token alone, or a name.
fn plain(word: &str, words: &[&str], at: &mut usize) -> Argument {
    if !is_token(word) {
        return named(word);
    }
    match words.get(*at) {
        Some(&"<") => Argument { token: Some(word.to_owned()), ..choice(words, at) },
        Some(next) if !is_token(next) && !["[", "]", "|", ">", "..."].contains(next) => {
            *at += 1;
            Argument { token: Some(word.to_owned()), ..named(next) }
        }
        _ => Argument {
            token: Some(word.to_owned()),
            kind: ArgumentKind::PureToken,
            ..named(&word.to_ascii_lowercase())
        },
    }
}

fn kind_of(name: &str) -> ArgumentKind {
    const INTEGERS: &[&str] = &[
        "numkeys",
        "start",
        "end",
        "offset",
        "bit",
        "decrement",
        "seconds",
        "milliseconds",
        "destination-db",
        "cursor",
        "count",
        "ttl",
        "len",
        "min-match-len",
        "frequency",
    ];
    match name {
        "key" | "newkey" | "source" | "destination" | "destkey" | "key1" | "key2" => ArgumentKind::Key,
        "unix-time-seconds" | "unix-time-milliseconds" => ArgumentKind::UnixTime,
        "pattern" => ArgumentKind::Pattern,
        "longitude" | "latitude" | "radius" | "width" | "height" => ArgumentKind::Double,
        _ if INTEGERS.contains(&name) => ArgumentKind::Integer,
        _ => ArgumentKind::String,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tree in a line: `name`, `TOKEN:name`, `?` optional, `+` repeated, `(a b)` block, `(a/b)` choice.
    fn shown(arguments: &[Argument], between: &str) -> String {
        let one = |argument: &Argument| {
            let inner = match &argument.kind {
                ArgumentKind::OneOf(choices) => format!("({})", shown(choices, "/")),
                ArgumentKind::Block(items) => format!("({})", shown(items, " ")),
                ArgumentKind::PureToken => argument.token.clone().unwrap_or_default(),
                _ => match &argument.token {
                    Some(token) => format!("{token}:{}", argument.name),
                    None => argument.name.clone(),
                },
            };
            let marks = [(argument.optional, "?"), (argument.multiple, "+")];
            marks.iter().filter(|(set, _)| *set).fold(inner, |text, (_, mark)| text + mark)
        };
        arguments.iter().map(one).collect::<Vec<_>>().join(between)
    }

    #[test]
    fn notations_become_trees() {
        for (notation, tree) in [
            ("", ""),
            ("key", "key"),
            ("key [key ...]", "key+"),
            ("key value [key value ...]", "(key value)+"),
            ("numkeys key value [key value ...] [NX | XX]", "numkeys (key value)+ (NX/XX)?"),
            ("key [EX seconds | PERSIST] [GET]", "key (EX:seconds/PERSIST)? GET?"),
            ("source destination [DB destination-db]", "source destination DB:destination-db?"),
            ("key [start end [BYTE | BIT]]", "key (start end (BYTE/BIT)?)?"),
            ("key <A a | B b <M | KM>> [C <D | E>]", "key (A:a/(B:b (M/KM))) (D/E)?"),
        ] {
            assert_eq!(shown(&arguments(notation), " "), tree, "{notation}");
        }
    }

    #[test]
    fn every_description_is_read_whole() {
        for entry in crate::commands::COMMANDS {
            fn check(arguments: &[Argument], name: &str) {
                for argument in arguments {
                    assert!(!argument.name.is_empty() && argument.name != "...", "{name}: {argument:?}");
                    check(argument.kind.arguments(), name);
                }
            }
            check(&arguments(entry.spec.arguments), entry.spec.name);
        }
    }
}
