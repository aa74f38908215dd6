//! A workload of the user's own, from a TOML file. The file `example.toml` beside this one shows all there is, and is a test.
//!
//! In a word of a command, `{…}` stands for something drawn:
//!
//! | written | is |
//! |---|---|
//! | `{record}` | a record's number: drawn by the distribution; while loading, the one that is loaded. The same in all words of an operation |
//! | `{text}`, `{text:N}` | printable text of `value-bytes` bytes, of N bytes |
//! | `{number:N}` | a number below N |
//! | `{client}` | the client's number |
//! | `{sequence}` | a number that no other operation of the run has |
//! | `{{`, `}}` | `{`, `}` |

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::Rng;
use serde::Deserialize;

use super::{Distribution, Draft, Draw, Keys, Mix, Parameters, Shape, Text, VALUE_BYTES_MAX, Workload, push_decimal};

/// The workload's description.
pub const SHAPE: Shape = Shape {
    name: "custom",
    sentence: "one of your own: give the path of a .toml file instead of a name",
    parameters: &["records", "field-bytes (value-bytes of the file)", "distribution", "mix (the file's operations)"],
    build,
};

/// Bytes of a file.
const FILE_BYTES_MAX: u64 = 1024 * 1024;
/// Words of all commands of one operation.
const WORDS_MAX: usize = 10_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    records: u64,
    #[serde(default)]
    distribution: Option<String>,
    #[serde(default = "value_bytes")]
    value_bytes: usize,
    #[serde(default)]
    load: Vec<Vec<String>>,
    operation: Vec<Operation>,
}

fn value_bytes() -> usize {
    100
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Operation {
    name: String,
    share: f64,
    commands: Vec<Vec<String>>,
}

/// A part of a word.
#[derive(Clone, Debug, PartialEq)]
enum Part {
    Fixed(Vec<u8>),
    Record,
    Text(usize),
    Number(u64),
    Client,
    Sequence,
}

type Command = Vec<Vec<Part>>;

#[derive(Clone)]
struct Custom {
    records: u64,
    distribution: Distribution,
    mix: Mix,
    load: Vec<Command>,
    operations: Vec<Vec<Command>>,
    text: Arc<Text>,
    sequence: Arc<AtomicU64>,
}

fn build(parameters: &Parameters) -> Result<Box<dyn Workload>, String> {
    let path = parameters.file.as_ref().ok_or("give the path of a .toml file instead of the name `custom`")?;
    let said = |error: String| format!("{}: {error}", path.display());
    let length = std::fs::metadata(path).map_err(|error| said(error.to_string()))?.len();
    if length > FILE_BYTES_MAX {
        return Err(said(format!("{length} bytes are more than a workload may have, {FILE_BYTES_MAX}")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| said(error.to_string()))?;
    Ok(Box::new(read(&text, parameters).map_err(said)?))
}

fn read(text: &str, parameters: &Parameters) -> Result<Custom, String> {
    let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
    let value_bytes = parameters.field_bytes_or(file.value_bytes)?;
    let commands = |commands: &[Vec<String>]| -> Result<Vec<Command>, String> {
        let words: usize = commands.iter().map(Vec::len).sum();
        if words > WORDS_MAX || commands.iter().any(Vec::is_empty) {
            return Err(format!("a command has words, and those sent together at most {WORDS_MAX}"));
        }
        commands.iter().map(|words| words.iter().map(|word| parse(word, value_bytes)).collect()).collect()
    };
    let load = commands(&file.load)?;
    let operations: Vec<Vec<Command>> =
        file.operation.iter().map(|operation| commands(&operation.commands)).collect::<Result<_, _>>()?;
    if let Some(empty) = file.operation.iter().find(|operation| operation.commands.is_empty()) {
        return Err(format!("operation `{}` has no commands", empty.name));
    }
    let shares: Vec<(&str, f64)> =
        file.operation.iter().map(|operation| (operation.name.as_str(), operation.share)).collect();
    let longest = load.iter().chain(operations.iter().flatten()).flatten().flatten();
    let longest = longest.map(|part| if let Part::Text(bytes) = part { *bytes } else { 0 }).max().unwrap_or(0);
    let distribution = match (&parameters.distribution, &file.distribution) {
        (Some(given), _) => *given,
        (None, Some(text)) => text.parse()?,
        (None, None) => Distribution::Uniform,
    };
    Ok(Custom {
        records: Parameters { records: parameters.records.or(Some(file.records)), ..Parameters::default() }
            .records_or(1)?,
        distribution,
        mix: Mix::new(&shares, parameters.mix.as_deref())?,
        load,
        operations,
        text: Arc::new(Text::new(longest, parameters.seed)),
        sequence: Arc::default(),
    })
}

/// Takes a word apart.
fn parse(word: &str, value_bytes: usize) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    let mut fixed = Vec::new();
    let mut rest = word;
    while let Some(first) = rest.chars().next() {
        let after = &rest[first.len_utf8()..];
        if (first == '{' || first == '}') && after.starts_with(first) {
            fixed.push(first as u8);
            rest = &after[1..];
        } else if first == '{' {
            let (inside, after) = after.split_once('}').ok_or_else(|| format!("`{word}`: a {{ is not closed"))?;
            if !fixed.is_empty() {
                parts.push(Part::Fixed(std::mem::take(&mut fixed)));
            }
            parts.push(placeholder(inside, value_bytes).ok_or_else(|| {
                format!(
                    "`{word}`: write {{record}}, {{text}}, {{text:BYTES}}, {{number:BELOW}}, {{client}} or {{sequence}}"
                )
            })?);
            rest = after;
        } else if first == '}' {
            return Err(format!("`{word}`: a }} closes nothing; write }}}} for the character"));
        } else {
            fixed.extend_from_slice(&rest.as_bytes()[..first.len_utf8()]);
            rest = after;
        }
    }
    if !fixed.is_empty() || parts.is_empty() {
        parts.push(Part::Fixed(fixed));
    }
    Ok(parts)
}

fn placeholder(inside: &str, value_bytes: usize) -> Option<Part> {
    let (name, number) = match inside.split_once(':') {
        Some((name, number)) => (name, Some(number.parse::<u64>().ok()?)),
        None => (inside, None),
    };
    match (name, number) {
        ("record", None) => Some(Part::Record),
        ("text", None) => Some(Part::Text(value_bytes)),
        ("text", Some(bytes)) if bytes <= VALUE_BYTES_MAX as u64 => Some(Part::Text(bytes as usize)),
        ("number", Some(below @ 1..)) => Some(Part::Number(below)),
        ("client", None) => Some(Part::Client),
        ("sequence", None) => Some(Part::Sequence),
        _ => None,
    }
}

/// What the placeholders of one operation stand for.
struct Filling<'a> {
    record: u64,
    client: u32,
    sequence: u64,
    text: &'a Text,
    rng: &'a mut Rng,
}

impl Filling<'_> {
    fn fill(&mut self, commands: &[Command], draft: &mut Draft) {
        for command in commands {
            for (index, word) in command.iter().enumerate() {
                if index == 0 {
                    // It opens a command; its name is written like any other word after that.
                    draft.open();
                }
                draft.word_with(|out| word.iter().for_each(|part| self.write(part, out)));
            }
        }
    }

    fn write(&mut self, part: &Part, out: &mut Vec<u8>) {
        match part {
            Part::Fixed(bytes) => out.extend_from_slice(bytes),
            Part::Record => push_decimal(out, self.record),
            Part::Text(bytes) => out.extend_from_slice(self.text.cut(*bytes, self.rng)),
            Part::Number(below) => push_decimal(out, self.rng.below(*below)),
            Part::Client => push_decimal(out, u64::from(self.client)),
            Part::Sequence => push_decimal(out, self.sequence),
        }
    }
}

impl Workload for Custom {
    fn kinds(&self) -> Vec<String> {
        self.mix.names()
    }

    fn records(&self) -> u64 {
        if self.load.is_empty() { 0 } else { self.records }
    }

    fn load(&self, number: u64, draft: &mut Draft) {
        let mut rng = Rng::new(number);
        let mut filling = Filling { record: number, client: 0, sequence: number, text: &self.text, rng: &mut rng };
        filling.fill(&self.load, draft);
    }

    fn draw(&self, seed: u64) -> Result<Box<dyn Draw>, String> {
        let mut rng = Rng::new(seed);
        let keys = Keys::new(self.distribution, self.records, rng.next_u64())?;
        Ok(Box::new(Drawer { of: self.clone(), keys, rng }))
    }
}

struct Drawer {
    of: Custom,
    keys: Keys,
    rng: Rng,
}

impl Draw for Drawer {
    fn next(&mut self, client: u32, draft: &mut Draft) -> bool {
        draft.kind = self.of.mix.draw(&mut self.rng);
        let sequence = self.of.records + self.of.sequence.fetch_add(1, Ordering::Relaxed);
        let record = self.keys.next();
        let mut filling = Filling { record, client, sequence, text: &self.of.text, rng: &mut self.rng };
        filling.fill(&self.of.operations[draft.kind], draft);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(draft: &Draft) -> Vec<Vec<String>> {
        draft.commands().map(|words| words.map(|word| String::from_utf8(word.to_vec()).unwrap()).collect()).collect()
    }

    #[test]
    fn the_example_is_read_and_drawn() {
        let custom = read(include_str!("example.toml"), &Parameters::default()).unwrap();
        assert_eq!((custom.kinds(), custom.records()), (vec!["look".to_owned(), "buy".to_owned()], 1_000));
        let mut draft = Draft::default();
        custom.load(17, &mut draft);
        let loaded = words(&draft);
        assert_eq!((loaded[0][0].as_str(), loaded[0][1].as_str(), loaded[0][5].len()), ("HSET", "item:17", 200));
        let mut draw = custom.draw(1).unwrap();
        let (mut looks, mut sequences) = (0, Vec::new());
        for _ in 0..1_000 {
            draft.clear();
            assert!(draw.next(3, &mut draft));
            let commands = words(&draft);
            if draft.kind == 0 {
                looks += 1;
                assert_eq!((commands.len(), commands[0][0].as_str()), (1, "HGETALL"));
            } else {
                assert_eq!(commands.len(), 2);
                assert_eq!((commands[0][0].as_str(), commands[0][3].as_str()), ("HINCRBY", "-1"));
                assert_eq!(commands[1][1], "basket:3");
                sequences.push(commands[1][2].clone());
            }
        }
        // 90 of 100; the standard deviation of 1,000 draws is 9.5.
        assert!((860..940).contains(&looks), "{looks}");
        sequences.dedup();
        assert_eq!(sequences.len(), 1_000 - looks);
    }

    #[test]
    fn words_are_taken_apart() {
        let fixed = |text: &str| Part::Fixed(text.as_bytes().to_vec());
        assert_eq!(parse("a{record}b", 9).unwrap(), [fixed("a"), Part::Record, fixed("b")]);
        assert_eq!(parse("{{x}}é", 9).unwrap(), [fixed("{x}é")]);
        assert_eq!(parse("", 9).unwrap(), [fixed("")]);
        assert_eq!(parse("{text}{text:3}{number:5}", 9).unwrap(), [Part::Text(9), Part::Text(3), Part::Number(5)]);
        for wrong in ["{record", "a}", "{nonsense}", "{number}", "{number:0}", "{text:x}"] {
            assert!(parse(wrong, 9).is_err(), "{wrong}");
        }
    }

    #[test]
    fn mistakes_in_the_file_are_told() {
        let error = |text: &str| read(text, &Parameters::default()).err().unwrap();
        assert!(error("records = 1").contains("operation"));
        let with = |rest: &str| format!("records = 1\n[[operation]]\nname = \"a\"\nshare = 1\n{rest}");
        assert!(error(&with("commands = []")).contains("no commands"));
        assert!(error(&with("commands = [[\"GET\", \"{x}\"]]")).contains("write {record}"));
        assert!(error(&with("commands = [[]]")).contains("has words"));
        assert!(error(&with("commands = [[\"GET\"]]\nextra = 1")).contains("extra"));
    }
}
