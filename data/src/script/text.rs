//! `string.find` and the others that know patterns (`patterns.rs`).

use super::natives::{Answer, Arguments, Call, Limit, Refusal, Shared};
use super::patterns::{Caught, Matcher, PatternError};
use mlua::Value;
use std::ops::Range;

pub(super) const STRING: &[(&str, Call)] = &[("find", find), ("match", first_match), ("rep", rep)];
pub(super) const PATTERNS: &[(&str, Call)] = &[("step", step), ("at", at), ("gsub", gsub)];

fn refusal(shared: &Shared, error: PatternError) -> Refusal {
    match error {
        PatternError::Malformed(why) => Refusal::Text(why.to_owned()),
        PatternError::TooLong => Refusal::Lua(shared.break_limit(Limit::Instructions)),
    }
}

/// Looks for a pattern, and spends what that takes.
fn search(
    shared: &Shared,
    matcher: &mut Matcher<'_>,
    from: usize,
    anchored: bool,
) -> Result<Option<Range<usize>>, Refusal> {
    let before = matcher.steps;
    let found = matcher.search(from, anchored);
    shared.spend(before - matcher.steps)?;
    found.map_err(|error| refusal(shared, error))
}

/// Where to begin: counted from 1, or from the end if negative.
fn start(init: i64, len: usize) -> usize {
    let start = if init < 0 { len as i64 + init } else { init - 1 };
    usize::try_from(start).unwrap_or(0).min(len)
}

fn split_anchor(pattern: &[u8]) -> (&[u8], bool) {
    pattern.strip_prefix(b"^").map_or((pattern, false), |rest| (rest, true))
}

fn capture(
    shared: &Shared,
    arguments: &Arguments<'_>,
    matcher: &Matcher<'_>,
    text: &[u8],
    index: usize,
    whole: &Range<usize>,
) -> Result<Value, Refusal> {
    match matcher.capture(index, whole).map_err(|error| refusal(shared, error))? {
        Caught::Text(start, end) => arguments.string(&text[start..end]),
        Caught::Place(place) => Ok(Value::Number(place as f64 + 1.0)),
    }
}

/// All captures; the whole match if there are none and `or_whole`.
fn captures(
    shared: &Shared,
    arguments: &Arguments<'_>,
    matcher: &Matcher<'_>,
    text: &[u8],
    whole: &Range<usize>,
    or_whole: bool,
) -> Answer {
    let count = matcher.captures_len().max(usize::from(or_whole));
    (0..count).map(|index| capture(shared, arguments, matcher, text, index, whole)).collect()
}

fn find(shared: &Shared, arguments: &Arguments<'_>) -> Answer {
    find_or_match(shared, arguments, true)
}

fn first_match(shared: &Shared, arguments: &Arguments<'_>) -> Answer {
    find_or_match(shared, arguments, false)
}

fn find_or_match(shared: &Shared, arguments: &Arguments<'_>, places: bool) -> Answer {
    let (text, pattern) = (arguments.text(0)?, arguments.text(1)?);
    let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
    let init = start(arguments.integer_or(2, 1)?, text.len());
    shared.work(pattern.len() / 4)?;
    let is_plain = places && (arguments.is_true(3) || !pattern.iter().any(|byte| b"^$*+?.([%-".contains(byte)));
    if is_plain {
        shared.spend((text.len() - init) as u64 / 16)?;
        shared.work((text.len() - init) / 16)?;
        let found = memchr::memmem::find(&text[init..], &pattern);
        let place = |place: usize| Value::Number((init + place) as f64);
        return Ok(match found {
            Some(at) => vec![place(at + 1), place(at + pattern.len())],
            None => vec![Value::Nil],
        });
    }
    let (pattern, anchored) = split_anchor(&pattern);
    let mut matcher = Matcher::new(&text, pattern, shared.instructions_left(), shared.is_metered());
    let Some(found) = search(shared, &mut matcher, init, anchored)? else { return Ok(vec![Value::Nil]) };
    let mut values = Vec::new();
    if places {
        values.extend([found.start + 1, found.end].map(|place| Value::Number(place as f64)));
    }
    values.extend(captures(shared, arguments, &matcher, &text, &found, !places)?);
    Ok(values)
}

fn rep(shared: &Shared, arguments: &Arguments<'_>) -> Answer {
    let text = arguments.text(0)?;
    let count = usize::try_from(arguments.number(1)? as i64).unwrap_or(0);
    let text = text.as_bytes();
    shared.spend_bytes(text.len().saturating_mul(count))?;
    Ok(vec![arguments.string(&text.repeat(if text.is_empty() { 0 } else { count }))?])
}

/// For `gmatch`: text, pattern, how far it has come. Answers how far it has come now, and the captures.
fn step(shared: &Shared, arguments: &Arguments<'_>) -> Answer {
    let (text, pattern) = (arguments.text(0)?, arguments.text(1)?);
    let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
    let from = usize::try_from(arguments.integer_or(2, 0)?).unwrap_or(0);
    let mut matcher = Matcher::new(&text, &pattern, shared.instructions_left(), shared.is_metered());
    let Some(found) = search(shared, &mut matcher, from, false)? else { return Ok(vec![Value::Nil]) };
    let next = found.end + usize::from(found.is_empty());
    let mut values = vec![Value::Number(next as f64)];
    values.extend(captures(shared, arguments, &matcher, &text, &found, true)?);
    Ok(values)
}

/// For `gsub` by a table or a function: text, pattern, from where, and whether only there. Answers where the match begins and ends, and the captures.
fn at(shared: &Shared, arguments: &Arguments<'_>) -> Answer {
    let (text, pattern) = (arguments.text(0)?, arguments.text(1)?);
    let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
    let from = start(arguments.integer_or(2, 1)?, text.len());
    let mut matcher = Matcher::new(&text, &pattern, shared.instructions_left(), shared.is_metered());
    let Some(found) = search(shared, &mut matcher, from, arguments.is_true(3))? else { return Ok(vec![Value::Nil]) };
    let mut values: Vec<Value> = [found.start + 1, found.end].map(|place| Value::Number(place as f64)).into();
    values.extend(captures(shared, arguments, &matcher, &text, &found, true)?);
    Ok(values)
}

/// `gsub` by a string.
fn gsub(shared: &Shared, arguments: &Arguments<'_>) -> Answer {
    let (text, pattern) = (arguments.text(0)?, arguments.text(1)?);
    let by = match arguments.values.get(2) {
        Some(Value::String(_) | Value::Integer(_) | Value::Number(_)) => arguments.text(2)?,
        _ => return Err(arguments.bad_because(2, "string/function/table expected")),
    };
    let (text, pattern, by) = (text.as_bytes(), pattern.as_bytes(), by.as_bytes());
    let most = arguments.integer_or(3, i64::MAX)?;
    let (pattern, anchored) = split_anchor(&pattern);
    let mut matcher = Matcher::new(&text, pattern, shared.instructions_left(), shared.is_metered());
    let mut out = Vec::with_capacity(text.len());
    let (mut at, mut count) = (0, 0);
    while count < most {
        let Some(found) = search(shared, &mut matcher, at, anchored)? else { break };
        count += 1;
        // A replacement of captures that caught nothing makes nothing.
        shared.work(2 + by.len() / 4)?;
        out.extend_from_slice(&text[at..found.start]);
        let before = out.len();
        replace(shared, &mut out, &by, &matcher, &text, &found)?;
        shared.spend_bytes(out.len() - before)?;
        at = found.end;
        if found.is_empty() {
            let Some(&byte) = text.get(at) else { break };
            out.push(byte);
            at += 1;
        }
        if anchored {
            break;
        }
    }
    out.extend_from_slice(text.get(at..).unwrap_or_default());
    Ok(vec![arguments.string(&out)?, Value::Number(count as f64)])
}

/// Writes the replacement, in which `%1` stands for a capture.
fn replace(
    shared: &Shared,
    out: &mut Vec<u8>,
    by: &[u8],
    matcher: &Matcher<'_>,
    text: &[u8],
    found: &Range<usize>,
) -> Result<(), Refusal> {
    let mut bytes = by.iter();
    while let Some(&byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        match bytes.next() {
            Some(b'0') => out.extend_from_slice(&text[found.clone()]),
            Some(digit) if digit.is_ascii_digit() => {
                match matcher.capture(usize::from(digit - b'1'), found).map_err(|error| refusal(shared, error))? {
                    Caught::Text(start, end) => out.extend_from_slice(&text[start..end]),
                    Caught::Place(place) => out.extend_from_slice((place + 1).to_string().as_bytes()),
                }
            }
            Some(&other) => out.push(other),
            None => {}
        }
        // A short pattern and a long replacement make more than either.
        if out.len() as u64 > super::BYTES_MAX {
            return Err(Refusal::Lua(shared.break_limit(Limit::Bytes)));
        }
    }
    Ok(())
}
