//! What commands answer, as scripts see it, and what scripts answer, as clients see it.
//!
//! The rules are Redis's: <https://redis.io/docs/latest/develop/programmability/lua-api/#data-type-conversion>.

use super::natives::{Limit, Shared, as_number};
use super::numbers::general;
use crate::blob::Blob;
use crate::failure::Failure;
use crate::reply::Reply;
use base::number::format_double;
use mlua::{BorrowedBytes, Error, Lua, Table, Value};
use std::ops::Deref;

/// Tables in tables in an answer.
const DEPTH_MAX: u32 = 200;
/// Values in an answer.
const VALUES_MAX: u32 = 4_000_000;

/// A command's answer.
pub(super) fn from_reply(lua: &Lua, reply: &Reply, resp3: bool) -> Result<Value, Error> {
    Ok(match reply {
        Reply::Ok => status(lua, "OK")?,
        Reply::Simple(text) => status(lua, text)?,
        Reply::Status(text) => named(lua, "ok", Value::String(lua.create_string(text.as_slice())?))?,
        Reply::Nil | Reply::NilArray if resp3 => Value::Nil,
        Reply::Nil | Reply::NilArray => Value::Boolean(false),
        Reply::Integer(number) => Value::Number(*number as f64),
        Reply::Bulk(bytes) | Reply::Verbatim(bytes) => Value::String(lua.create_string(bytes.as_slice())?),
        Reply::Error(failure) => error(lua, failure.to_string().as_bytes())?,
        Reply::Array(items) => list(lua, items.iter(), items.len(), resp3)?,
        Reply::Set(items) if resp3 => {
            let set = lua.create_table()?;
            for item in items {
                set.raw_set(from_reply(lua, item, resp3)?, true)?;
            }
            named(lua, "set", Value::Table(set))?
        }
        Reply::Set(items) => list(lua, items.iter(), items.len(), resp3)?,
        Reply::Map(pairs) | Reply::Named(pairs) if resp3 => {
            let map = lua.create_table()?;
            for (key, value) in pairs {
                map.raw_set(from_reply(lua, key, resp3)?, from_reply(lua, value, resp3)?)?;
            }
            named(lua, "map", Value::Table(map))?
        }
        Reply::Pairs(pairs) if resp3 => lists_of_two(lua, pairs, resp3)?,
        Reply::Named(pairs) => lists_of_two(lua, pairs, resp3)?,
        Reply::Map(pairs) | Reply::Pairs(pairs) => {
            let flat = pairs.iter().flat_map(|(key, value)| [key, value]);
            list(lua, flat, pairs.len() * 2, resp3)?
        }
        Reply::Double(number) | Reply::Decimal(number) if resp3 => named(lua, "double", Value::Number(*number))?,
        Reply::Double(number) => {
            let mut text = Vec::new();
            format_double(&mut text, *number);
            Value::String(lua.create_string(&text)?)
        }
        Reply::Decimal(number) => Value::String(lua.create_string(Reply::decimal_text(*number))?),
        Reply::Boolean(yes) if resp3 => Value::Boolean(*yes),
        Reply::Boolean(yes) => Value::Number(f64::from(u8::from(*yes))),
        Reply::ByDialect(replies) => from_reply(lua, &replies[usize::from(resp3)], resp3)?,
    })
}

fn named(lua: &Lua, name: &str, value: Value) -> Result<Value, Error> {
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set(name, value)?;
    Ok(Value::Table(table))
}

fn status(lua: &Lua, text: &str) -> Result<Value, Error> {
    named(lua, "ok", Value::String(lua.create_string(text)?))
}

/// What scripts catch.
pub(super) fn error(lua: &Lua, text: &[u8]) -> Result<Value, Error> {
    let table = lua.create_table_with_capacity(0, 2)?;
    table.raw_set("err", lua.create_string(text)?)?;
    table.raw_set("ignore_error_stats_update", true)?;
    Ok(Value::Table(table))
}

fn list<'a>(lua: &Lua, items: impl Iterator<Item = &'a Reply>, len: usize, resp3: bool) -> Result<Value, Error> {
    let table = lua.create_table_with_capacity(len, 0)?;
    for (index, item) in items.enumerate() {
        table.raw_set(index + 1, from_reply(lua, item, resp3)?)?;
    }
    Ok(Value::Table(table))
}

fn lists_of_two(lua: &Lua, pairs: &[(Reply, Reply)], resp3: bool) -> Result<Value, Error> {
    let table = lua.create_table_with_capacity(pairs.len(), 0)?;
    for (index, (one, other)) in pairs.iter().enumerate() {
        table.raw_set(index + 1, list(lua, [one, other].into_iter(), 2, resp3)?)?;
    }
    Ok(Value::Table(table))
}

/// Turns what a script returned into an answer.
pub(super) struct Answering<'a> {
    pub shared: &'a Shared,
    /// The script has asked for the types of RESP3.
    pub resp3: bool,
    /// Values so far.
    pub count: u32,
}

impl Answering<'_> {
    /// The answer; an error of Lua if a limit is broken.
    pub(super) fn reply(&mut self, value: &Value, depth: u32) -> Result<Reply, Error> {
        self.count += 1;
        if self.count > VALUES_MAX {
            return Err(self.shared.break_limit(Limit::Bytes));
        }
        self.shared.work(4)?;
        Ok(match value {
            Value::String(text) => self.bulk(&text.as_bytes())?,
            Value::Integer(number) => Reply::Integer(*number),
            Value::Number(number) => Reply::Integer(whole(*number)),
            Value::Boolean(yes) if self.resp3 => Reply::Boolean(*yes),
            Value::Boolean(true) => Reply::Integer(1),
            Value::Table(_) if depth >= DEPTH_MAX => Reply::Error(Failure::Text("ERR reached lua stack limit")),
            Value::Table(table) => self.table(table, depth + 1)?,
            _ => Reply::Nil,
        })
    }

    fn bulk(&self, bytes: &[u8]) -> Result<Reply, Error> {
        self.shared.spend_bytes(bytes.len())?;
        self.shared.work(bytes.len() / 16)?;
        Ok(Reply::Bulk(Blob::new(bytes)))
    }

    fn table(&mut self, table: &Table, depth: u32) -> Result<Reply, Error> {
        if let Value::String(text) = table.raw_get("err")? {
            return Ok(Reply::Error(Failure::built(&text.as_bytes())));
        }
        if let Value::String(text) = table.raw_get("ok")? {
            let line: Vec<u8> =
                text.as_bytes().iter().map(|byte| if b"\r\n".contains(byte) { b' ' } else { *byte }).collect();
            self.shared.spend_bytes(line.len())?;
            return Ok(Reply::Status(Blob::from(line)));
        }
        if let Some(number) = as_number(&table.raw_get("double")?) {
            return Ok(Reply::Double(number));
        }
        if let Value::Table(map) = table.raw_get("map")? {
            let mut pairs = Vec::new();
            for pair in map.pairs::<Value, Value>() {
                let (key, value) = pair?;
                self.check_order(&key)?;
                pairs.push((self.reply(&key, depth)?, self.reply(&value, depth)?));
            }
            return Ok(Reply::Map(pairs));
        }
        if let Value::Table(set) = table.raw_get("set")? {
            let mut items = Vec::new();
            for pair in set.pairs::<Value, Value>() {
                let (item, _) = pair?;
                self.check_order(&item)?;
                items.push(self.reply(&item, depth)?);
            }
            return Ok(Reply::Set(items));
        }
        if let Value::String(digits) = table.raw_get("big_number")? {
            return self.bulk(&digits.as_bytes());
        }
        if let Value::Table(verbatim) = table.raw_get("verbatim_string")?
            && let Value::String(text) = verbatim.raw_get("string")?
        {
            return self.bulk(&text.as_bytes());
        }
        let mut items = Vec::new();
        for place in 1i64.. {
            match table.raw_get::<Value>(place)? {
                Value::Nil => break,
                item => items.push(self.reply(&item, depth)?),
            }
        }
        Ok(Reply::Array(items))
    }

    /// Refuses keys whose order is that of their addresses.
    fn check_order(&self, key: &Value) -> Result<(), Error> {
        match key {
            Value::Table(_) | Value::Function(_) | Value::Thread(_) => Err(self.shared.break_limit(Limit::Order)),
            _ => Ok(()),
        }
    }
}

/// A number without its fraction; what does not fit is the smallest there is, as a processor of Redis's most common kind answers.
fn whole(number: f64) -> i64 {
    if (-9.3e18..9.2e18).contains(&number) { number as i64 } else { i64::MIN }
}

/// An argument that a script hands to a command: a string, or a number in seventeen digits.
pub(super) enum Word {
    Text(BorrowedBytes),
    Digits(Vec<u8>),
}

impl Word {
    pub(super) fn of(value: &Value) -> Option<Word> {
        Some(match value {
            Value::String(text) => Word::Text(text.as_bytes()),
            Value::Integer(number) if number.unsigned_abs() < 100_000_000_000_000_000 => {
                Word::Digits(number.to_string().into_bytes())
            }
            Value::Integer(number) => Word::Digits(general(*number as f64, 17).into_bytes()),
            Value::Number(number) => Word::Digits(general(*number, 17).into_bytes()),
            _ => return None,
        })
    }
}

impl Deref for Word {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Word::Text(bytes) => bytes,
            Word::Digits(digits) => digits,
        }
    }
}

/// The text of an error that a script makes: its code first, `ERR` if it has none.
pub(super) fn error_text(text: &[u8]) -> Vec<u8> {
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let mut line = match text.contains(&b' ') {
        true => text.to_vec(),
        false => [b"ERR ", text].concat(),
    };
    while line.last().is_some_and(|byte| b"\r\n".contains(byte)) {
        line.pop();
    }
    line
}
