//! The file that a history is kept in.
//!
//! Numbers are LEB128 without a sign: seven bits a byte, the lowest first, the top bit set where more follow. Signed ones are
//! zigzag first (0, −1, 1, −2 … as 0, 1, 2, 3 …).
//!
//! ```text
//! file       "DICTHIS1" | record … | end
//! record     length (above 0) | body of so many bytes
//! end        0 | number of records
//! body       client | from | duration + 1, or 0 where there was no answer | outcome: 0 done, 1 failed, 2 unknown
//!            | number of steps | step …
//! step       key length | key | ask | answer
//! ask        0 get · 1 set VALUE · 2 set if absent VALUE · 3 compare and set, expected and new: MAYBE MAYBE
//!            · 4 add SIGNED · 5 append VALUE · 6 delete · 7 push left VALUE · 8 push right VALUE · 9 pop left · 10 pop right
//!            · 11 all of a list
//! answer     0 none · 1 absent · 2 VALUE · 3 SIGNED · 4 no · 5 yes · 6 done · 7 refused
//! MAYBE      0 none · 1 VALUE
//! VALUE      length | its bytes, if at most 24
//!            length | its first 24 bytes | two hashes of 8 bytes, little-endian, if more
//! ```
//!
//! A file without its end was not finished: operations may be missing, and nothing can be concluded from it.

use std::io::{self, Read, Write};

use super::operation::{Answer, Ask, End, KEY_BYTES_MAX, Operation, Outcome, STEPS_MAX, Step};
use super::value::{START, Value};

/// What a file begins with.
pub const MAGIC: &[u8; 8] = b"DICTHIS1";

/// Operations that are read from a file at most; a million take about 300 MB of memory.
pub const OPERATIONS_MAX: u64 = 50_000_000;

/// Bytes of one record at most.
const RECORD_BYTES_MAX: u64 = 1 << 30;

/// Puts a record behind `into`. Of what is beyond [`STEPS_MAX`] steps and [`KEY_BYTES_MAX`] bytes of a key nothing is written;
/// false then.
pub(super) fn write_record(operation: &Operation, into: &mut Vec<u8>) -> bool {
    let fits = operation.steps.len() <= STEPS_MAX && operation.steps.iter().all(|step| step.key.len() <= KEY_BYTES_MAX);
    if !fits {
        return false;
    }
    let mut body = Vec::with_capacity(64);
    number(u64::from(operation.client), &mut body);
    number(operation.from, &mut body);
    number(operation.until.map_or(0, |until| until.saturating_sub(operation.from).saturating_add(1)), &mut body);
    body.push(match operation.outcome {
        Outcome::Done => 0,
        Outcome::Failed => 1,
        Outcome::Unknown => 2,
    });
    number(operation.steps.len() as u64, &mut body);
    for step in &operation.steps {
        number(step.key.len() as u64, &mut body);
        body.extend_from_slice(&step.key);
        ask(&step.ask, &mut body);
        answer(step.answer.as_ref(), &mut body);
    }
    number(body.len() as u64, into);
    into.extend_from_slice(&body);
    true
}

/// Writes the end of a file of so many records.
pub(super) fn write_end(records: u64, to: &mut impl Write) -> io::Result<()> {
    let mut end = vec![0];
    number(records, &mut end);
    to.write_all(&end)
}

fn ask(ask: &Ask, into: &mut Vec<u8>) {
    match ask {
        Ask::Get => into.push(0),
        Ask::Set(new) => {
            into.push(1);
            value(new, into);
        }
        Ask::SetIfAbsent(new) => {
            into.push(2);
            value(new, into);
        }
        Ask::CompareAndSet { expected, new } => {
            into.push(3);
            maybe(expected.as_ref(), into);
            maybe(new.as_ref(), into);
        }
        Ask::Add(addend) => {
            into.push(4);
            number(zigzag(*addend), into);
        }
        Ask::Append(more) => {
            into.push(5);
            value(more, into);
        }
        Ask::Delete => into.push(6),
        Ask::Push(end, item) => {
            into.push(if *end == End::Left { 7 } else { 8 });
            value(item, into);
        }
        Ask::Pop(End::Left) => into.push(9),
        Ask::Pop(End::Right) => into.push(10),
        Ask::Items => into.push(11),
    }
}

fn maybe(one: Option<&Value>, into: &mut Vec<u8>) {
    into.push(u8::from(one.is_some()));
    if let Some(one) = one {
        value(one, into);
    }
}

fn answer(answer: Option<&Answer>, into: &mut Vec<u8>) {
    match answer {
        None => into.push(0),
        Some(Answer::Absent) => into.push(1),
        Some(Answer::Value(seen)) => {
            into.push(2);
            value(seen, into);
        }
        Some(Answer::Integer(seen)) => {
            into.push(3);
            number(zigzag(*seen), into);
        }
        Some(Answer::Flag(flag)) => into.push(4 + u8::from(*flag)),
        Some(Answer::Done) => into.push(6),
        Some(Answer::Refused) => into.push(7),
    }
}

fn value(value: &Value, into: &mut Vec<u8>) {
    number(u64::from(value.length), into);
    match value.bytes() {
        Some(bytes) => into.extend_from_slice(bytes),
        None => {
            into.extend_from_slice(&value.start);
            value.hash.iter().for_each(|hash| into.extend_from_slice(&hash.to_le_bytes()));
        }
    }
}

fn number(mut number: u64, into: &mut Vec<u8>) {
    while number >= 0x80 {
        into.push(number as u8 | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}

fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

/// Reads a whole history; buffers `from` itself only as the caller does.
///
/// # Errors
/// If the file is no history, is damaged, was not finished, or holds more than [`OPERATIONS_MAX`] operations; the message says
/// where.
pub fn read(mut from: impl Read) -> Result<Vec<Operation>, String> {
    let mut magic = [0; 8];
    from.read_exact(&mut magic).map_err(|error| format!("the history has no beginning: {error}"))?;
    if magic != *MAGIC {
        return Err(format!(
            "the file begins with `{}`: it is no history, or of another version",
            magic.escape_ascii()
        ));
    }
    let mut operations = Vec::new();
    let mut body = Vec::new();
    loop {
        let place = operations.len() as u64 + 1;
        let unfinished = |error: io::Error| {
            format!(
                "the history ends in record {place} ({error}): it was not finished, and nothing can be concluded from it"
            )
        };
        let length = read_number(&mut from).map_err(unfinished)?;
        if length == 0 {
            let records = read_number(&mut from).map_err(unfinished)?;
            if records != operations.len() as u64 {
                return Err(format!("the history should have {records} records and has {}", operations.len()));
            }
            return Ok(operations);
        }
        if length > RECORD_BYTES_MAX {
            return Err(format!("record {place} has {length} bytes: the history is damaged"));
        }
        if place > OPERATIONS_MAX {
            return Err(format!("the history has more than {OPERATIONS_MAX} operations: record a shorter run"));
        }
        body.clear();
        from.by_ref().take(length).read_to_end(&mut body).map_err(unfinished)?;
        if body.len() as u64 != length {
            return Err(unfinished(io::ErrorKind::UnexpectedEof.into()));
        }
        let damaged = || format!("record {place} makes no sense: the history is damaged");
        operations.push(Parts(&body).operation().ok_or_else(damaged)?);
    }
}

fn read_number(from: &mut impl Read) -> io::Result<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let mut byte = [0];
        from.read_exact(&mut byte)?;
        number |= u64::from(byte[0] & 0x7f) << shift;
        if byte[0] & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "a number of more than 64 bits"))
}

/// What is left of a record.
struct Parts<'a>(&'a [u8]);

impl<'a> Parts<'a> {
    fn operation(&mut self) -> Option<Operation> {
        let client = u32::try_from(self.number()?).ok()?;
        let from = self.number()?;
        let until = match self.number()? {
            0 => None,
            duration => Some(from.checked_add(duration - 1)?),
        };
        let outcome = match self.byte()? {
            0 => Outcome::Done,
            1 => Outcome::Failed,
            2 => Outcome::Unknown,
            _ => return None,
        };
        let count = usize::try_from(self.number()?).ok().filter(|&count| count <= STEPS_MAX)?;
        let mut steps = Vec::with_capacity(count);
        for _ in 0..count {
            let length = usize::try_from(self.number()?).ok().filter(|&length| length <= KEY_BYTES_MAX)?;
            let key = self.bytes(length)?.to_vec();
            steps.push(Step { key, ask: self.ask()?, answer: self.answer()? });
        }
        self.0.is_empty().then_some(Operation { client, from, until, outcome, steps })
    }

    fn ask(&mut self) -> Option<Ask> {
        Some(match self.byte()? {
            0 => Ask::Get,
            1 => Ask::Set(self.value()?),
            2 => Ask::SetIfAbsent(self.value()?),
            3 => Ask::CompareAndSet { expected: self.maybe()?, new: self.maybe()? },
            4 => Ask::Add(self.signed()?),
            5 => Ask::Append(self.value()?),
            6 => Ask::Delete,
            7 => Ask::Push(End::Left, self.value()?),
            8 => Ask::Push(End::Right, self.value()?),
            9 => Ask::Pop(End::Left),
            10 => Ask::Pop(End::Right),
            11 => Ask::Items,
            _ => return None,
        })
    }

    fn maybe(&mut self) -> Option<Option<Value>> {
        match self.byte()? {
            0 => Some(None),
            1 => Some(Some(self.value()?)),
            _ => None,
        }
    }

    fn answer(&mut self) -> Option<Option<Answer>> {
        Some(match self.byte()? {
            0 => None,
            1 => Some(Answer::Absent),
            2 => Some(Answer::Value(self.value()?)),
            3 => Some(Answer::Integer(self.signed()?)),
            flag @ (4 | 5) => Some(Answer::Flag(flag == 5)),
            6 => Some(Answer::Done),
            7 => Some(Answer::Refused),
            _ => return None,
        })
    }

    fn value(&mut self) -> Option<Value> {
        let length = u32::try_from(self.number()?).ok()?;
        if length as usize <= START {
            return Some(Value::new(self.bytes(length as usize)?));
        }
        let start = self.bytes(START)?.try_into().ok()?;
        let mut hash = [0; 2];
        for hash in &mut hash {
            *hash = u64::from_le_bytes(self.bytes(8)?.try_into().ok()?);
        }
        // Only what could have come from bytes: the sums rely on it.
        hash.iter().all(|&hash| hash < (1 << 61) - 1).then_some(Value { length, start, hash })
    }

    fn signed(&mut self) -> Option<i64> {
        let number = self.number()?;
        Some((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    fn number(&mut self) -> Option<u64> {
        read_number(&mut self.0).ok()
    }

    fn byte(&mut self) -> Option<u8> {
        self.bytes(1).map(|bytes| bytes[0])
    }

    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }
}
