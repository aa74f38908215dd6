//! `cjson`: JSON for scripts, with the settings and the error texts of the library that Redis carries.

use super::natives::{Answer, Arguments, Call, Limit, Refusal, Shared, type_name};
use super::numbers::general;
use mlua::{Table, Value};

pub(super) const CJSON: &[(&str, Call)] = &[
    ("encode", encode),
    ("decode", decode),
    ("encode_sparse_array", encode_sparse_array),
    ("encode_max_depth", encode_max_depth),
    ("decode_max_depth", decode_max_depth),
    ("encode_number_precision", encode_number_precision),
    ("encode_keep_buffer", encode_keep_buffer),
    ("encode_invalid_numbers", encode_invalid_numbers),
    ("decode_invalid_numbers", decode_invalid_numbers),
];

/// Tables in tables, at most, whatever a script sets: each takes stack.
const DEPTH_MAX: u32 = 1000;

/// What a script may set. Each begins with these anew.
#[derive(Clone, Copy, Debug)]
pub(super) struct JsonSettings {
    /// Sparse arrays become objects, rather than errors.
    sparse_convert: bool,
    /// An array is sparse if it has more than so many places for each element; 0: never.
    sparse_ratio: u32,
    /// Arrays of up to so many places never are.
    sparse_safe: u32,
    encode_depth: u32,
    decode_depth: u32,
    precision: u32,
    keep_buffer: bool,
    /// What is no number is written: as it is, or as `null`.
    encode_invalid: Invalid,
    decode_invalid: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Invalid {
    Refused,
    Written,
    Null,
}

impl Default for JsonSettings {
    fn default() -> JsonSettings {
        JsonSettings {
            sparse_convert: false,
            sparse_ratio: 2,
            sparse_safe: 10,
            encode_depth: 1000,
            decode_depth: 1000,
            precision: 14,
            keep_buffer: true,
            encode_invalid: Invalid::Refused,
            decode_invalid: true,
        }
    }
}

fn one(arguments: &Arguments<'_>) -> Result<(), Refusal> {
    if arguments.values.len() == 1 { Ok(()) } else { Err(arguments.bad_because(0, "expected 1 argument")) }
}

fn encode(shared: &Shared, arguments: &Arguments<'_>) -> Answer {
    one(arguments)?;
    let mut writer = Writer { shared, settings: shared.json.get(), out: Vec::new() };
    writer.value(&arguments.values[0], 0)?;
    shared.spend_bytes(writer.out.len())?;
    Ok(vec![arguments.string(&writer.out)?])
}

struct Writer<'a> {
    shared: &'a Shared,
    settings: JsonSettings,
    out: Vec<u8>,
}

impl Writer<'_> {
    fn value(&mut self, value: &Value, depth: u32) -> Result<(), Refusal> {
        // A table may stand in many places: what it makes is not bounded by what it is.
        if self.out.len() as u64 > super::BYTES_MAX {
            return Err(Refusal::Lua(self.shared.break_limit(Limit::Bytes)));
        }
        self.shared.work(3)?;
        match value {
            Value::Nil => self.out.extend_from_slice(b"null"),
            Value::LightUserData(pointer) if pointer.0.is_null() => self.out.extend_from_slice(b"null"),
            Value::Boolean(yes) => self.out.extend_from_slice(if *yes { b"true" } else { b"false" }),
            Value::Integer(number) => self.number(*number as f64)?,
            Value::Number(number) => self.number(*number)?,
            Value::String(text) => self.string(&text.as_bytes())?,
            Value::Table(table) => self.table(table, depth + 1)?,
            other => return Err(format!("Cannot serialise {}: type not supported", type_name(other)).into()),
        }
        Ok(())
    }

    fn number(&mut self, number: f64) -> Result<(), Refusal> {
        if !number.is_finite() {
            match self.settings.encode_invalid {
                Invalid::Refused => return Err("Cannot serialise number: must not be NaN or Inf".into()),
                Invalid::Null => {
                    self.out.extend_from_slice(b"null");
                    return Ok(());
                }
                Invalid::Written => {}
            }
        }
        self.shared.work(24)?;
        self.out.extend_from_slice(general(number, self.settings.precision as usize).as_bytes());
        Ok(())
    }

    fn string(&mut self, text: &[u8]) -> Result<(), Refusal> {
        self.shared.work(text.len() / 8)?;
        self.out.push(b'"');
        for &byte in text {
            match byte {
                b'"' => self.out.extend_from_slice(b"\\\""),
                b'\\' => self.out.extend_from_slice(b"\\\\"),
                b'/' => self.out.extend_from_slice(b"\\/"),
                0x08 => self.out.extend_from_slice(b"\\b"),
                0x0c => self.out.extend_from_slice(b"\\f"),
                b'\n' => self.out.extend_from_slice(b"\\n"),
                b'\r' => self.out.extend_from_slice(b"\\r"),
                b'\t' => self.out.extend_from_slice(b"\\t"),
                0..=0x1f | 0x7f => self.out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
                plain => self.out.push(plain),
            }
        }
        self.out.push(b'"');
        Ok(())
    }

    fn table(&mut self, table: &Table, depth: u32) -> Result<(), Refusal> {
        if depth > self.settings.encode_depth.min(DEPTH_MAX) {
            return Err(format!("Cannot serialise, excessive depth ({depth})").into());
        }
        match self.array_len(table)? {
            0 => self.object(table, depth),
            len => {
                self.out.push(b'[');
                for index in 1..=len {
                    if index > 1 {
                        self.out.push(b',');
                    }
                    self.value(&table.raw_get::<Value>(index)?, depth)?;
                }
                self.out.push(b']');
                Ok(())
            }
        }
    }

    /// The places of a table that is an array; 0 if it is none.
    fn array_len(&self, table: &Table) -> Result<u64, Refusal> {
        let (mut greatest, mut count) = (0u64, 0u64);
        for pair in table.pairs::<Value, Value>() {
            let (key, _) = pair?;
            match key {
                Value::Integer(place) if place > 0 => {
                    greatest = greatest.max(place as u64);
                    count += 1;
                }
                _ => return Ok(0),
            }
        }
        self.shared.spend(count)?;
        self.shared.work(count as usize * 3)?;
        let settings = self.settings;
        let is_sparse = settings.sparse_ratio > 0
            && greatest > count.saturating_mul(u64::from(settings.sparse_ratio))
            && greatest > u64::from(settings.sparse_safe);
        if !is_sparse {
            return Ok(greatest);
        }
        if settings.sparse_convert { Ok(0) } else { Err("Cannot serialise table: excessively sparse array".into()) }
    }

    fn object(&mut self, table: &Table, depth: u32) -> Result<(), Refusal> {
        self.out.push(b'{');
        let mut is_first = true;
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair?;
            if !is_first {
                self.out.push(b',');
            }
            is_first = false;
            match &key {
                Value::String(text) => self.string(&text.as_bytes())?,
                Value::Integer(number) => self.number_key(*number as f64)?,
                Value::Number(number) => self.number_key(*number)?,
                other => {
                    let name = type_name(other);
                    return Err(format!("Cannot serialise {name}: table key must be a number or string").into());
                }
            }
            self.out.push(b':');
            self.value(&value, depth)?;
            self.shared.spend(1)?;
        }
        self.out.push(b'}');
        Ok(())
    }

    fn number_key(&mut self, number: f64) -> Result<(), Refusal> {
        self.out.push(b'"');
        self.number(number)?;
        self.out.push(b'"');
        Ok(())
    }
}

fn decode(shared: &Shared, arguments: &Arguments<'_>) -> Answer {
    one(arguments)?;
    let text = arguments.text(0)?;
    let text = text.as_bytes();
    if text.len() >= 2 && (text[0] == 0 || text[1] == 0) {
        return Err("JSON parser does not support UTF-16 or UTF-32".into());
    }
    shared.spend(text.len() as u64 / 4)?;
    let mut reader = Reader { arguments, settings: shared.json.get(), text: &text, at: 0 };
    let (token, index) = reader.next();
    let value = reader.value(token, index, 0)?;
    match reader.next() {
        (Token::End, _) => Ok(vec![value]),
        (token, index) => Err(unexpected("the end", &token, index)),
    }
}

enum Token {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    Text(Vec<u8>),
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Error(&'static str),
}

fn unexpected(expected: &str, token: &Token, index: usize) -> Refusal {
    let found = match token {
        Token::ObjectBegin => "T_OBJ_BEGIN",
        Token::ObjectEnd => "T_OBJ_END",
        Token::ArrayBegin => "T_ARR_BEGIN",
        Token::ArrayEnd => "T_ARR_END",
        Token::Text(_) => "T_STRING",
        Token::Number(_) => "T_NUMBER",
        Token::Boolean(_) => "T_BOOLEAN",
        Token::Null => "T_NULL",
        Token::Colon => "T_COLON",
        Token::Comma => "T_COMMA",
        Token::End => "T_END",
        Token::Error(why) => why,
    };
    format!("Expected {expected} but found {found} at character {}", index + 1).into()
}

struct Reader<'a> {
    arguments: &'a Arguments<'a>,
    settings: JsonSettings,
    text: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    /// The next token, and where it begins.
    fn next(&mut self) -> (Token, usize) {
        while self.text.get(self.at).is_some_and(|byte| b" \t\n\r".contains(byte)) {
            self.at += 1;
        }
        let index = self.at;
        let Some(&byte) = self.text.get(index) else { return (Token::End, index) };
        let single = match byte {
            b'{' => Some(Token::ObjectBegin),
            b'}' => Some(Token::ObjectEnd),
            b'[' => Some(Token::ArrayBegin),
            b']' => Some(Token::ArrayEnd),
            b':' => Some(Token::Colon),
            b',' => Some(Token::Comma),
            _ => None,
        };
        if let Some(token) = single {
            self.at += 1;
            return (token, index);
        }
        let rest = &self.text[index..];
        match byte {
            b'"' => self.string(),
            b'-' | b'0'..=b'9' => self.number(index),
            _ if rest.starts_with(b"true") => self.word(4, Token::Boolean(true)),
            _ if rest.starts_with(b"false") => self.word(5, Token::Boolean(false)),
            _ if rest.starts_with(b"null") => self.word(4, Token::Null),
            _ if self.settings.decode_invalid && is_invalid_number(rest) => self.number(index),
            _ => (Token::Error("invalid token"), index),
        }
    }

    fn word(&mut self, len: usize, token: Token) -> (Token, usize) {
        self.at += len;
        (token, self.at - len)
    }

    fn number(&mut self, index: usize) -> (Token, usize) {
        let rest = &self.text[index..];
        if !self.settings.decode_invalid && is_invalid_number(rest) {
            return (Token::Error("invalid number"), index);
        }
        match c_number(rest) {
            Some((number, len)) => self.word(len, Token::Number(number)),
            None => (Token::Error("invalid number"), index),
        }
    }

    fn string(&mut self) -> (Token, usize) {
        let index = self.at;
        self.at += 1;
        let mut out = Vec::new();
        loop {
            let Some(&byte) = self.text.get(self.at) else {
                return (Token::Error("unexpected end of string"), self.at);
            };
            match byte {
                b'"' => {
                    self.at += 1;
                    return (Token::Text(out), index);
                }
                b'\\' => {
                    let plain = match self.text.get(self.at + 1) {
                        Some(b'u') => {
                            if !self.unicode(&mut out) {
                                return (Token::Error("invalid unicode escape code"), self.at);
                            }
                            continue;
                        }
                        Some(b'b') => 0x08,
                        Some(b't') => b'\t',
                        Some(b'n') => b'\n',
                        Some(b'f') => 0x0c,
                        Some(b'r') => b'\r',
                        Some(&same @ (b'"' | b'\\' | b'/')) => same,
                        _ => return (Token::Error("invalid escape code"), self.at),
                    };
                    out.push(plain);
                    self.at += 2;
                }
                plain => {
                    out.push(plain);
                    self.at += 1;
                }
            }
        }
    }

    fn hex4(&self, at: usize) -> Option<u32> {
        let digits = self.text.get(at..at + 4)?;
        digits.iter().try_fold(0, |sum, digit| Some(sum * 16 + char::from(*digit).to_digit(16)?))
    }

    /// `\uXXXX`, perhaps the first of a pair; whether it means something.
    fn unicode(&mut self, out: &mut Vec<u8>) -> bool {
        let Some(first) = self.hex4(self.at + 2) else { return false };
        let mut len = 6;
        let mut code = first;
        if first & 0xF800 == 0xD800 {
            if first & 0x400 != 0 || self.text.get(self.at + 6..self.at + 8) != Some(b"\\u") {
                return false;
            }
            let Some(second) = self.hex4(self.at + 8).filter(|second| second & 0xFC00 == 0xDC00) else { return false };
            code = 0x10000 + ((first & 0x3FF) << 10) + (second & 0x3FF);
            len = 12;
        }
        let Some(character) = char::from_u32(code) else { return false };
        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        self.at += len;
        true
    }

    fn value(&mut self, token: Token, index: usize, depth: u32) -> Result<Value, Refusal> {
        self.arguments.shared.work(4)?;
        match token {
            Token::Text(text) => self.arguments.string(&text),
            Token::Number(number) => Ok(Value::Number(number)),
            Token::Boolean(yes) => Ok(Value::Boolean(yes)),
            Token::Null => Ok(Value::NULL),
            Token::ObjectBegin => self.object(self.deeper(depth)?),
            Token::ArrayBegin => self.array(self.deeper(depth)?),
            other => Err(unexpected("value", &other, index)),
        }
    }

    fn deeper(&self, depth: u32) -> Result<u32, Refusal> {
        if depth < self.settings.decode_depth.min(DEPTH_MAX) {
            return Ok(depth + 1);
        }
        Err(format!("Found too many nested data structures ({})", depth + 1).into())
    }

    fn object(&mut self, depth: u32) -> Result<Value, Refusal> {
        let table = self.arguments.lua.create_table()?;
        let (mut token, mut index) = self.next();
        if matches!(token, Token::ObjectEnd) {
            return Ok(Value::Table(table));
        }
        loop {
            let Token::Text(key) = token else { return Err(unexpected("object key string", &token, index)) };
            let (colon, place) = self.next();
            if !matches!(colon, Token::Colon) {
                return Err(unexpected("colon", &colon, place));
            }
            let (first, place) = self.next();
            let value = self.value(first, place, depth)?;
            table.raw_set(self.arguments.string(&key)?, value)?;
            match self.next() {
                (Token::ObjectEnd, _) => return Ok(Value::Table(table)),
                (Token::Comma, _) => (token, index) = self.next(),
                (other, place) => return Err(unexpected("comma or object end", &other, place)),
            }
        }
    }

    fn array(&mut self, depth: u32) -> Result<Value, Refusal> {
        let table = self.arguments.lua.create_table()?;
        let (mut token, mut index) = self.next();
        if matches!(token, Token::ArrayEnd) {
            return Ok(Value::Table(table));
        }
        for place in 1i64.. {
            let value = self.value(token, index, depth)?;
            table.raw_set(place, value)?;
            match self.next() {
                (Token::ArrayEnd, _) => break,
                (Token::Comma, _) => (token, index) = self.next(),
                (other, place) => return Err(unexpected("comma or array end", &other, place)),
            }
        }
        Ok(Value::Table(table))
    }
}

/// Whether what C reads as a number is none in JSON: hexadecimal, infinite, no number, or with a zero or a plus sign in front.
fn is_invalid_number(text: &[u8]) -> bool {
    let unsigned = text.strip_prefix(b"-").unwrap_or(text);
    match unsigned {
        [b'+', ..] => true,
        [b'0', b'x' | b'X' | b'0'..=b'9', ..] => true,
        _ => {
            let starts = |word: &[u8]| unsigned.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
            starts(b"inf") || starts(b"nan")
        }
    }
}

/// The number at the beginning of a text, as `strtod` reads it, and how long it is.
fn c_number(text: &[u8]) -> Option<(f64, usize)> {
    let signs = usize::from(matches!(text.first(), Some(b'-' | b'+')));
    let sign = if text.first() == Some(&b'-') { -1.0 } else { 1.0 };
    let rest = &text[signs..];
    let starts = |word: &[u8]| rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
    if starts(b"0x") {
        let digits = rest[2..].iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        if digits > 0 {
            let number = rest[2..2 + digits]
                .iter()
                .fold(0.0, |sum, digit| sum * 16.0 + f64::from(char::from(*digit).to_digit(16).unwrap_or(0)));
            return Some((sign * number, signs + 2 + digits));
        }
    }
    for (word, number) in [(&b"infinity"[..], f64::INFINITY), (b"inf", f64::INFINITY), (b"nan", f64::NAN)] {
        if starts(word) {
            return Some((sign * number, signs + word.len()));
        }
    }
    let digits = |from: usize| rest[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let whole = digits(0);
    let mut len = whole;
    if rest.get(len) == Some(&b'.') {
        let decimals = digits(len + 1);
        if whole + decimals == 0 {
            return None;
        }
        len += 1 + decimals;
    } else if whole == 0 {
        return None;
    }
    if matches!(rest.get(len), Some(b'e' | b'E')) {
        let exponent_sign = usize::from(matches!(rest.get(len + 1), Some(b'-' | b'+')));
        let exponent = digits((len + 1 + exponent_sign).min(rest.len()));
        if exponent > 0 {
            len += 1 + exponent_sign + exponent;
        }
    }
    let number: f64 = std::str::from_utf8(&rest[..len]).ok()?.parse().ok()?;
    Some((sign * number, signs + len))
}

/// A whole number among the arguments, in a range; what it was, if there is none.
fn setting(
    arguments: &Arguments<'_>,
    index: usize,
    range: std::ops::RangeInclusive<i64>,
    now: u32,
) -> Result<u32, Refusal> {
    if matches!(arguments.values.get(index), None | Some(Value::Nil)) {
        return Ok(now);
    }
    let number = arguments.number(index)? as i64;
    if range.contains(&number) {
        return Ok(number as u32);
    }
    Err(arguments.bad_because(index, &format!("expected integer between {} and {}", range.start(), range.end())))
}

/// `on`, `off`, or a boolean.
fn switch(arguments: &Arguments<'_>, index: usize, now: bool) -> Result<bool, Refusal> {
    match arguments.values.get(index) {
        None | Some(Value::Nil) => Ok(now),
        Some(Value::Boolean(yes)) => Ok(*yes),
        Some(_) => match &*arguments.text(index)?.as_bytes() {
            b"on" => Ok(true),
            b"off" => Ok(false),
            other => {
                let other = String::from_utf8_lossy(other);
                Err(arguments.bad_because(index, &format!("invalid option '{other}'")))
            }
        },
    }
}

fn encode_sparse_array(shared: &Shared, arguments: &Arguments<'_>) -> Answer {
    let mut settings = shared.json.get();
    settings.sparse_convert = switch(arguments, 0, settings.sparse_convert)?;
    settings.sparse_ratio = setting(arguments, 1, 0..=i64::from(i32::MAX), settings.sparse_ratio)?;
    settings.sparse_safe = setting(arguments, 2, 0..=i64::from(i32::MAX), settings.sparse_safe)?;
    shared.json.set(settings);
    let numbers = [settings.sparse_ratio, settings.sparse_safe].map(|number| Value::Number(f64::from(number)));
    Ok([Value::Boolean(settings.sparse_convert)].into_iter().chain(numbers).collect())
}

fn encode_max_depth(shared: &Shared, arguments: &Arguments<'_>) -> Answer {
    let mut settings = shared.json.get();
    settings.encode_depth = setting(arguments, 0, 1..=i64::from(i32::MAX), settings.encode_depth)?;
    shared.json.set(settings);
    Ok(vec![Value::Number(f64::from(settings.encode_depth))])
}

fn decode_max_depth(shared: &Shared, arguments: &Arguments<'_>) -> Answer {
    let mut settings = shared.json.get();
    settings.decode_depth = setting(arguments, 0, 1..=i64::from(i32::MAX), settings.decode_depth)?;
    shared.json.set(settings);
    Ok(vec![Value::Number(f64::from(settings.decode_depth))])
}

fn encode_number_precision(shared: &Shared, arguments: &Arguments<'_>) -> Answer {
    let mut settings = shared.json.get();
    settings.precision = setting(arguments, 0, 1..=14, settings.precision)?;
    shared.json.set(settings);
    Ok(vec![Value::Number(f64::from(settings.precision))])
}

fn encode_keep_buffer(shared: &Shared, arguments: &Arguments<'_>) -> Answer {
    let mut settings = shared.json.get();
    settings.keep_buffer = switch(arguments, 0, settings.keep_buffer)?;
    shared.json.set(settings);
    Ok(vec![Value::Boolean(settings.keep_buffer)])
}

fn encode_invalid_numbers(shared: &Shared, arguments: &Arguments<'_>) -> Answer {
    let mut settings = shared.json.get();
    settings.encode_invalid = match arguments.values.first() {
        Some(Value::String(text)) if &*text.as_bytes() == b"null" => Invalid::Null,
        _ if switch(arguments, 0, settings.encode_invalid != Invalid::Refused)? => Invalid::Written,
        _ => Invalid::Refused,
    };
    shared.json.set(settings);
    Ok(vec![match settings.encode_invalid {
        Invalid::Null => arguments.string(b"null")?,
        other => Value::Boolean(other == Invalid::Written),
    }])
}

fn decode_invalid_numbers(shared: &Shared, arguments: &Arguments<'_>) -> Answer {
    let mut settings = shared.json.get();
    settings.decode_invalid = switch(arguments, 0, settings.decode_invalid)?;
    shared.json.set(settings);
    Ok(vec![Value::Boolean(settings.decode_invalid)])
}
