//! `bit`, and what of `math` differs from machine to machine in the C library: here it is alike everywhere. Chance comes from the entry.

use super::natives::{Answer, Arguments, Call, Refusal, Shared};
use super::numbers::bits;
use base::Rng;
use mlua::Value;

pub(super) const MATH: &[(&str, Call)] = &[
    ("random", random),
    ("randomseed", randomseed),
    ("sin", |_, of| one(of, libm::sin)),
    ("cos", |_, of| one(of, libm::cos)),
    ("tan", |_, of| one(of, libm::tan)),
    ("asin", |_, of| one(of, libm::asin)),
    ("acos", |_, of| one(of, libm::acos)),
    ("atan", |_, of| one(of, libm::atan)),
    ("sinh", |_, of| one(of, libm::sinh)),
    ("cosh", |_, of| one(of, libm::cosh)),
    ("tanh", |_, of| one(of, libm::tanh)),
    ("exp", |_, of| one(of, libm::exp)),
    ("log", |_, of| one(of, libm::log)),
    ("log10", |_, of| one(of, libm::log10)),
    ("atan2", |_, of| two(of, libm::atan2)),
    ("pow", |_, of| two(of, libm::pow)),
];

pub(super) const BIT: &[(&str, Call)] = &[
    ("tobit", |_, of| Ok(answer(bits(of.number(0)?)))),
    ("bnot", |_, of| Ok(answer(!bits(of.number(0)?)))),
    ("bswap", |_, of| Ok(answer(bits(of.number(0)?).swap_bytes()))),
    ("band", |_, of| all(of, |a, b| a & b)),
    ("bor", |_, of| all(of, |a, b| a | b)),
    ("bxor", |_, of| all(of, |a, b| a ^ b)),
    ("lshift", |_, of| shift(of, |number, by| number.wrapping_shl(by))),
    ("rshift", |_, of| shift(of, |number, by| (number as u32).wrapping_shr(by) as i32)),
    ("arshift", |_, of| shift(of, |number, by| number.wrapping_shr(by))),
    ("rol", |_, of| shift(of, |number, by| number.rotate_left(by))),
    ("ror", |_, of| shift(of, |number, by| number.rotate_right(by))),
    ("tohex", tohex),
];

fn one(arguments: &Arguments<'_>, of: fn(f64) -> f64) -> Answer {
    Ok(vec![Value::Number(of(arguments.number(0)?))])
}

fn two(arguments: &Arguments<'_>, of: fn(f64, f64) -> f64) -> Answer {
    Ok(vec![Value::Number(of(arguments.number(0)?, arguments.number(1)?))])
}

/// A number from 0 up to 1, or a whole one from 1 to m, or from m to n.
fn random(shared: &Shared, arguments: &Arguments<'_>) -> Answer {
    let chance = (shared.rng.borrow_mut().next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    let whole = |index: usize| -> Result<f64, Refusal> { Ok(arguments.number(index)?.trunc()) };
    let (low, high) = match arguments.values.len() {
        0 => return Ok(vec![Value::Number(chance)]),
        1 => (1.0, whole(0)?),
        2 => (whole(0)?, whole(1)?),
        _ => return Err("wrong number of arguments".into()),
    };
    // Also if either is no number.
    if !matches!(low.partial_cmp(&high), Some(std::cmp::Ordering::Less | std::cmp::Ordering::Equal)) {
        return Err(arguments.bad_because(arguments.values.len() - 1, "interval is empty"));
    }
    Ok(vec![Value::Number((chance * (high - low + 1.0)).floor() + low)])
}

fn randomseed(shared: &Shared, arguments: &Arguments<'_>) -> Answer {
    let seed = arguments.number(0)?;
    *shared.rng.borrow_mut() = Rng::new(seed.to_bits());
    Ok(Vec::new())
}

fn answer(bits: i32) -> Vec<Value> {
    vec![Value::Number(f64::from(bits))]
}

fn all(arguments: &Arguments<'_>, of: fn(i32, i32) -> i32) -> Answer {
    let mut sum = bits(arguments.number(0)?);
    for index in 1..arguments.values.len() {
        sum = of(sum, bits(arguments.number(index)?));
    }
    Ok(answer(sum))
}

fn shift(arguments: &Arguments<'_>, of: fn(i32, u32) -> i32) -> Answer {
    let (number, by) = (bits(arguments.number(0)?), bits(arguments.number(1)?));
    Ok(answer(of(number, by as u32 & 31)))
}

/// So many hexadecimal digits, eight if none are said; in upper case if negative.
fn tohex(_: &Shared, arguments: &Arguments<'_>) -> Answer {
    let number = bits(arguments.number(0)?) as u32;
    let digits = if arguments.values.len() > 1 { bits(arguments.number(1)?) } else { 8 };
    let text = if digits < 0 { format!("{number:08X}") } else { format!("{number:08x}") };
    let shown = (digits.unsigned_abs() as usize).min(8);
    Ok(vec![arguments.string(&text.as_bytes()[8 - shown..])?])
}
