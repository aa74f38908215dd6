//! `struct`: numbers and strings to bytes and back, by a format, as the library that Redis carries does it.
//!
//! The formats: `>` `<` byte order, `!n` alignment, `x` a byte of nothing, `b B h H l L T` and `i I` with a size: whole numbers, `f d`: floating
//! point, `s` a string that ends with a zero, `cn` one of n bytes (`c0`: all, or as many as the number before says).

use super::natives::{Answer, Arguments, Call, Refusal, Shared, as_number};
use mlua::Value;

pub(super) const STRUCT: &[(&str, Call)] = &[("pack", pack), ("unpack", unpack), ("size", size)];

/// The largest whole number, in bytes.
const INTEGER_BYTES_MAX: usize = 32;

struct Format<'a> {
    rest: &'a [u8],
    is_little: bool,
    align: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Item {
    Padding,
    Integer { size: usize, is_signed: bool },
    Float,
    Double,
    Terminated,
    Bytes(usize),
}

impl Item {
    fn size(self) -> usize {
        match self {
            Item::Padding => 1,
            Item::Integer { size, .. } | Item::Bytes(size) => size,
            Item::Float => 4,
            Item::Double => 8,
            Item::Terminated => 0,
        }
    }
}

impl<'a> Format<'a> {
    fn new(text: &'a [u8]) -> Format<'a> {
        Format { rest: text, is_little: true, align: 1 }
    }

    /// Digits that follow; what stands for them if there are none.
    fn number(&mut self, absent: usize) -> Result<usize, Refusal> {
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return Ok(absent);
        }
        let mut number = 0usize;
        for digit in &self.rest[..digits] {
            number = number * 10 + usize::from(digit - b'0');
            if number > i32::MAX as usize {
                return Err("integral size overflow".into());
            }
        }
        self.rest = &self.rest[digits..];
        Ok(number)
    }

    /// The next item that stands for bytes.
    fn next(&mut self, arguments: &Arguments<'_>) -> Result<Option<Item>, Refusal> {
        while let Some((&letter, rest)) = self.rest.split_first() {
            self.rest = rest;
            let integer = |size, is_signed| Ok(Some(Item::Integer { size, is_signed }));
            match letter {
                b' ' => {}
                b'<' => self.is_little = true,
                b'>' => self.is_little = false,
                b'!' => {
                    let align = self.number(8)?;
                    if align == 0 || !align.is_power_of_two() {
                        return Err("alignment is not a power of 2".into());
                    }
                    self.align = align;
                }
                b'x' => return Ok(Some(Item::Padding)),
                b'b' => return integer(1, true),
                b'B' => return integer(1, false),
                b'h' => return integer(2, true),
                b'H' => return integer(2, false),
                b'l' => return integer(8, true),
                b'L' | b'T' => return integer(8, false),
                b'i' | b'I' => {
                    let size = self.number(4)?;
                    if size > INTEGER_BYTES_MAX {
                        return Err(format!("integral size {size} is larger than limit of {INTEGER_BYTES_MAX}").into());
                    }
                    return integer(size, letter == b'i');
                }
                b'f' => return Ok(Some(Item::Float)),
                b'd' => return Ok(Some(Item::Double)),
                b's' => return Ok(Some(Item::Terminated)),
                b'c' => return Ok(Some(Item::Bytes(self.number(1)?))),
                other => {
                    return Err(arguments.bad_because(0, &format!("invalid format option '{}'", char::from(other))));
                }
            }
        }
        Ok(None)
    }

    /// Bytes before an item that begins at `at`, so that it is aligned.
    fn padding(&self, item: Item, at: usize) -> usize {
        let size = item.size();
        let is_aligned = matches!(item, Item::Integer { .. } | Item::Float | Item::Double);
        let align = size.min(self.align);
        if !is_aligned || align <= 1 || !align.is_power_of_two() {
            0
        } else {
            (align - (at & (align - 1))) & (align - 1)
        }
    }

    fn ordered(&self, mut little: Vec<u8>) -> Vec<u8> {
        if !self.is_little {
            little.reverse();
        }
        little
    }
}

fn pack(shared: &Shared, arguments: &Arguments<'_>) -> Answer {
    let text = arguments.text(0)?;
    let text = text.as_bytes();
    shared.work(text.len() / 4)?;
    let mut format = Format::new(&text);
    let mut out = Vec::new();
    let mut index = 1;
    while let Some(item) = format.next(arguments)? {
        let padding = format.padding(item, out.len());
        out.resize(out.len() + padding, 0);
        match item {
            Item::Padding => out.push(0),
            Item::Integer { size, .. } => {
                let number = arguments.number(index)?;
                // As C: a negative number wraps, one that is too large as well.
                let number = if number < 0.0 { number as i64 as u64 } else { number as u64 };
                let sign = if number >> 63 == 1 { 0xff } else { 0 };
                let mut bytes = number.to_le_bytes().to_vec();
                bytes.resize(size.max(8), sign);
                bytes.truncate(size);
                out.extend(format.ordered(bytes));
                index += 1;
            }
            Item::Float => {
                out.extend(format.ordered((arguments.number(index)? as f32).to_le_bytes().to_vec()));
                index += 1;
            }
            Item::Double => {
                out.extend(format.ordered(arguments.number(index)?.to_le_bytes().to_vec()));
                index += 1;
            }
            Item::Terminated | Item::Bytes(_) => {
                let text = arguments.text(index)?;
                let bytes = text.as_bytes();
                let len = if let Item::Bytes(len @ 1..) = item { len } else { bytes.len() };
                let taken = bytes.get(..len).ok_or_else(|| arguments.bad_because(index, "string too short"))?;
                out.extend_from_slice(taken);
                if item == Item::Terminated {
                    out.push(0);
                }
                index += 1;
            }
        }
        shared.spend(1)?;
        shared.work(3)?;
        if out.len() as u64 > super::BYTES_MAX {
            return Err(Refusal::Lua(shared.break_limit(super::natives::Limit::Bytes)));
        }
    }
    shared.spend_bytes(out.len())?;
    Ok(vec![arguments.string(&out)?])
}

fn unpack(shared: &Shared, arguments: &Arguments<'_>) -> Answer {
    let (text, data) = (arguments.text(0)?, arguments.text(1)?);
    let (text, data) = (text.as_bytes(), data.as_bytes());
    shared.work(text.len() / 4)?;
    let mut format = Format::new(&text);
    let start = arguments.integer_or(2, 1)?;
    let mut at = usize::try_from(start - 1).map_err(|_| arguments.bad_because(2, "offset must be 1 or greater"))?;
    let mut values: Vec<Value> = Vec::new();
    let short = || arguments.bad_because(1, "data string too short");
    while let Some(item) = format.next(arguments)? {
        shared.spend(1)?;
        shared.work(3)?;
        at = at.saturating_add(format.padding(item, at));
        let mut size = item.size();
        if item == Item::Bytes(0) {
            let Some(len) = values.pop().as_ref().and_then(as_number) else {
                return Err("format 'c0' needs a previous size".into());
            };
            size = len as usize;
        }
        let bytes = at.checked_add(size).and_then(|end| data.get(at..end)).ok_or_else(short)?;
        at += size;
        let little = || if format.is_little { bytes.to_vec() } else { bytes.iter().rev().copied().collect() };
        match item {
            Item::Padding => {}
            Item::Integer { is_signed, .. } => {
                let mut wide = little();
                let sign = if is_signed && wide.last().is_some_and(|byte| byte >> 7 == 1) { 0xff } else { 0 };
                wide.resize(wide.len().max(8), sign);
                let number = u64::from_le_bytes(wide[..8].try_into().unwrap_or_default());
                values.push(Value::Number(if is_signed { number as i64 as f64 } else { number as f64 }));
            }
            Item::Float => {
                values.push(Value::Number(f64::from(f32::from_le_bytes(little().try_into().unwrap_or_default()))));
            }
            Item::Double => values.push(Value::Number(f64::from_le_bytes(little().try_into().unwrap_or_default()))),
            Item::Bytes(_) => values.push(arguments.string(bytes)?),
            Item::Terminated => {
                let rest = &data[at..];
                let len = memchr::memchr(0, rest);
                shared.work(len.unwrap_or(rest.len()) / 16)?;
                let len = len.ok_or("unfinished string in data")?;
                values.push(arguments.string(&rest[..len])?);
                at += len + 1;
            }
        }
        if values.len() > 7000 {
            return Err("too many results to unpack".into());
        }
    }
    values.push(Value::Number(at as f64 + 1.0));
    Ok(values)
}

fn size(shared: &Shared, arguments: &Arguments<'_>) -> Answer {
    let text = arguments.text(0)?;
    let text = text.as_bytes();
    shared.work(text.len() / 2)?;
    let mut format = Format::new(&text);
    let mut at = 0usize;
    while let Some(item) = format.next(arguments)? {
        at = at.saturating_add(format.padding(item, at));
        match item {
            Item::Terminated => return Err(arguments.bad_because(0, "variable-size format in 'struct.size'")),
            Item::Bytes(0) => return Err(arguments.bad_because(0, "variable-length format in 'struct.size'")),
            item => at = at.saturating_add(item.size()),
        }
    }
    Ok(vec![Value::Number(at as f64)])
}
