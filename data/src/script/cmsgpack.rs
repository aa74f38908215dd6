//! `cmsgpack`: MessagePack for scripts, as the library that Redis carries packs and unpacks it.
//!
//! The format: <https://github.com/msgpack/msgpack/blob/master/spec.md>.

use super::natives::{Answer, Arguments, Call, Limit, Refusal, Shared};
use mlua::{Table, Value};

pub(super) const CMSGPACK: &[(&str, Call)] =
    &[("pack", pack), ("unpack", unpack), ("unpack_one", unpack_one), ("unpack_limit", unpack_limit)];

/// Tables in tables that are packed; what is deeper becomes nil.
const PACK_DEPTH_MAX: u32 = 16;
/// The same when unpacking: each level takes stack.
const UNPACK_DEPTH_MAX: u32 = 1000;

fn pack(shared: &Shared, arguments: &Arguments<'_>) -> Answer {
    if arguments.values.is_empty() {
        return Err("bad argument #0 to 'pack' (MessagePack pack needs input.)".into());
    }
    let mut out = Vec::new();
    for value in arguments.values {
        put(shared, &mut out, value, 0)?;
    }
    shared.spend_bytes(out.len())?;
    Ok(vec![arguments.string(&out)?])
}

fn put(shared: &Shared, out: &mut Vec<u8>, value: &Value, depth: u32) -> Result<(), Refusal> {
    if out.len() as u64 > super::BYTES_MAX {
        return Err(Refusal::Lua(shared.break_limit(Limit::Bytes)));
    }
    shared.spend(1)?;
    shared.work(3)?;
    match value {
        Value::Boolean(yes) => out.push(if *yes { 0xc3 } else { 0xc2 }),
        Value::Integer(number) => put_integer(out, *number),
        Value::Number(number) => put_double(out, *number),
        Value::String(text) => {
            let bytes = text.as_bytes();
            shared.work(bytes.len() / 16)?;
            put_len(out, bytes.len(), (0xa0, 31), Some(0xd9), 0xda, 0xdb);
            out.extend_from_slice(&bytes);
        }
        Value::Table(table) if depth < PACK_DEPTH_MAX => put_table(shared, out, table, depth + 1)?,
        _ => out.push(0xc0),
    }
    Ok(())
}

fn put_integer(out: &mut Vec<u8>, number: i64) {
    match number {
        0..=0x7f => out.push(number as u8),
        0x80..=0xff => out.extend([0xcc, number as u8]),
        0x100..=0xffff => {
            out.push(0xcd);
            out.extend((number as u16).to_be_bytes());
        }
        0x1_0000..=0xffff_ffff => {
            out.push(0xce);
            out.extend((number as u32).to_be_bytes());
        }
        0x1_0000_0000.. => {
            out.push(0xcf);
            out.extend(number.to_be_bytes());
        }
        -32..=-1 => out.push(number as u8),
        -128..=-33 => out.extend([0xd0, number as u8]),
        -0x8000..=-129 => {
            out.push(0xd1);
            out.extend((number as i16).to_be_bytes());
        }
        -0x8000_0000..=-0x8001 => {
            out.push(0xd2);
            out.extend((number as i32).to_be_bytes());
        }
        _ => {
            out.push(0xd3);
            out.extend(number.to_be_bytes());
        }
    }
}

fn put_double(out: &mut Vec<u8>, number: f64) {
    // A zero with a sign is a whole number as well.
    if number == 0.0 {
        out.push(0);
    } else if f64::from(number as f32) == number {
        out.push(0xca);
        out.extend((number as f32).to_be_bytes());
    } else {
        out.push(0xcb);
        out.extend(number.to_be_bytes());
    }
}

/// A length: in the tag itself if it is at most `short.1`, or behind another tag.
fn put_len(out: &mut Vec<u8>, len: usize, short: (u8, usize), eight: Option<u8>, sixteen: u8, more: u8) {
    match (len, eight) {
        _ if len <= short.1 => out.push(short.0 | len as u8),
        (..=0xff, Some(eight)) => out.extend([eight, len as u8]),
        (..=0xffff, _) => {
            out.push(sixteen);
            out.extend((len as u16).to_be_bytes());
        }
        _ => {
            out.push(more);
            out.extend((len as u32).to_be_bytes());
        }
    }
}

fn put_table(shared: &Shared, out: &mut Vec<u8>, table: &Table, depth: u32) -> Result<(), Refusal> {
    let (mut count, mut greatest, mut is_array) = (0usize, 0i64, true);
    for pair in table.pairs::<Value, Value>() {
        let (key, _) = pair?;
        match key {
            Value::Integer(place) if place > 0 => greatest = greatest.max(place),
            Value::Table(_) | Value::Function(_) | Value::Thread(_) => {
                return Err(Refusal::Lua(shared.break_limit(Limit::Order)));
            }
            _ => is_array = false,
        }
        count += 1;
    }
    shared.spend(count as u64)?;
    shared.work(count * 3)?;
    if is_array && greatest == count as i64 {
        put_len(out, count, (0x90, 15), None, 0xdc, 0xdd);
        for place in 1..=greatest {
            put(shared, out, &table.raw_get::<Value>(place)?, depth)?;
        }
        return Ok(());
    }
    put_len(out, count, (0x80, 15), None, 0xde, 0xdf);
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair?;
        put(shared, out, &key, depth)?;
        put(shared, out, &value, depth)?;
    }
    Ok(())
}

fn unpack(shared: &Shared, arguments: &Arguments<'_>) -> Answer {
    unpack_some(shared, arguments, None, 0)
}

fn unpack_one(shared: &Shared, arguments: &Arguments<'_>) -> Answer {
    let offset = arguments.integer_or(1, 0)?;
    unpack_some(shared, arguments, Some(1), offset)
}

fn unpack_limit(shared: &Shared, arguments: &Arguments<'_>) -> Answer {
    let limit = arguments.number(1)? as i64;
    let offset = arguments.integer_or(2, 0)?;
    unpack_some(shared, arguments, Some(limit), offset)
}

fn unpack_some(shared: &Shared, arguments: &Arguments<'_>, limit: Option<i64>, offset: i64) -> Answer {
    /// More than Lua's stack takes.
    const VALUES_MAX: usize = 7000;
    let text = arguments.text(0)?;
    let bytes = text.as_bytes();
    let len = bytes.len();
    if offset < 0 || limit.is_some_and(|limit| limit < 0) {
        return Err(format!("Invalid request to unpack with offset of {offset} and limit of {len}.").into());
    }
    let Some(rest) = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)) else {
        return Err(format!("Start offset {offset} greater than input length {len}.").into());
    };
    let mut cursor = Cursor { shared, arguments, rest };
    let mut values = Vec::new();
    while !cursor.rest.is_empty() && limit.is_none_or(|limit| (values.len() as i64) < limit) {
        if values.len() >= VALUES_MAX {
            return Err("too many results to unpack".into());
        }
        values.push(cursor.value(0)?);
    }
    if limit.is_some() {
        let next = if cursor.rest.is_empty() { -1.0 } else { (len - cursor.rest.len()) as f64 };
        values.insert(0, Value::Number(next));
    }
    Ok(values)
}

struct Cursor<'a> {
    shared: &'a Shared,
    arguments: &'a Arguments<'a>,
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], Refusal> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or("Missing bytes in input.")?;
        self.rest = rest;
        Ok(taken)
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], Refusal> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or("Missing bytes in input.")?;
        self.rest = rest;
        Ok(*taken)
    }

    fn value(&mut self, depth: u32) -> Result<Value, Refusal> {
        self.shared.spend(1)?;
        self.shared.work(3)?;
        let number = |number: f64| Ok(Value::Number(number));
        let [tag] = self.fixed::<1>()?;
        match tag {
            0x00..=0x7f => number(f64::from(tag)),
            0xe0..=0xff => number(f64::from(tag as i8)),
            0x80..=0x8f => self.map(usize::from(tag & 15), depth),
            0x90..=0x9f => self.array(usize::from(tag & 15), depth),
            0xa0..=0xbf => self.string(usize::from(tag & 31)),
            0xc0 => Ok(Value::Nil),
            0xc2 => Ok(Value::Boolean(false)),
            0xc3 => Ok(Value::Boolean(true)),
            0xca => number(f64::from(f32::from_be_bytes(self.fixed()?))),
            0xcb => number(f64::from_be_bytes(self.fixed()?)),
            0xcc => number(f64::from(self.fixed::<1>()?[0])),
            0xcd => number(f64::from(u16::from_be_bytes(self.fixed()?))),
            0xce => number(f64::from(u32::from_be_bytes(self.fixed()?))),
            0xcf => number(u64::from_be_bytes(self.fixed()?) as f64),
            0xd0 => number(f64::from(self.fixed::<1>()?[0] as i8)),
            0xd1 => number(f64::from(i16::from_be_bytes(self.fixed()?))),
            0xd2 => number(f64::from(i32::from_be_bytes(self.fixed()?))),
            0xd3 => number(i64::from_be_bytes(self.fixed()?) as f64),
            0xc4 | 0xd9 => {
                let len = usize::from(self.fixed::<1>()?[0]);
                self.string(len)
            }
            0xc5 | 0xda => {
                let len = usize::from(u16::from_be_bytes(self.fixed()?));
                self.string(len)
            }
            0xc6 | 0xdb => {
                let len = u32::from_be_bytes(self.fixed()?) as usize;
                self.string(len)
            }
            0xdc => {
                let len = usize::from(u16::from_be_bytes(self.fixed()?));
                self.array(len, depth)
            }
            0xdd => {
                let len = u32::from_be_bytes(self.fixed()?) as usize;
                self.array(len, depth)
            }
            0xde => {
                let len = usize::from(u16::from_be_bytes(self.fixed()?));
                self.map(len, depth)
            }
            0xdf => {
                let len = u32::from_be_bytes(self.fixed()?) as usize;
                self.map(len, depth)
            }
            _ => Err("Bad data format in input.".into()),
        }
    }

    fn string(&mut self, len: usize) -> Result<Value, Refusal> {
        let bytes = self.take(len)?;
        self.arguments.string(bytes)
    }

    fn array(&mut self, len: usize, depth: u32) -> Result<Value, Refusal> {
        let table = self.table(depth)?;
        for place in 1..=len {
            table.raw_set(place, self.value(depth + 1)?)?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, len: usize, depth: u32) -> Result<Value, Refusal> {
        let table = self.table(depth)?;
        for _ in 0..len {
            let (key, value) = (self.value(depth + 1)?, self.value(depth + 1)?);
            match key {
                Value::Nil => return Err("table index is nil".into()),
                Value::Number(key) if key.is_nan() => return Err("table index is NaN".into()),
                key => table.raw_set(key, value)?,
            }
        }
        Ok(Value::Table(table))
    }

    fn table(&self, depth: u32) -> Result<Table, Refusal> {
        if depth >= UNPACK_DEPTH_MAX {
            return Err("Bad data format in input.".into());
        }
        Ok(self.arguments.lua.create_table()?)
    }
}
