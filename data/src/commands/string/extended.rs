//! The numbers of `INCRBYFLOAT`: those of Redis on x86, which adds with 64 bits of mantissa and 15 of exponent
//! (C's `long double`) and prints up to 17 decimals (`%.17Lf`, zeros trimmed).
//!
//! Eight-byte floats would answer 0.30000000000000004 to 0.1 + 0.2 where Redis answers 0.3, so the wider arithmetic is
//! done here in integers, the same on every machine:
//! 1. a text becomes the fraction of integers that it says, rounded once to 64 bits, ties to even;
//! 2. a sum is taken exactly and rounded once;
//! 3. a number is printed from its exact value.

use num_bigint::BigUint;
use std::cmp::Ordering;

/// Exponents at or above this overflow: the largest number is just below 2^16384.
const EXPONENT_END: i64 = 16384;
/// The smallest step between two numbers is 2 to this power.
const EXPONENT_MIN: i64 = -16445;
/// Longest text that is read as a number: that of Redis.
const TEXT_BYTES_MAX: usize = 5 * 1024 - 1;
/// Decimals printed before trailing zeros are trimmed.
const DECIMALS: usize = 17;

/// A number, `mantissa` × 2^`exponent`, or an infinity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Extended {
    negative: bool,
    mantissa: u64,
    exponent: i64,
    infinite: bool,
}

impl Extended {
    /// Zero.
    pub(crate) const ZERO: Extended = Extended { negative: false, mantissa: 0, exponent: 0, infinite: false };

    /// Reads what `strtold` reads, but neither blanks around it nor a NaN nor what is too large or vanishes.
    pub(crate) fn parse(text: &[u8]) -> Option<Extended> {
        if text.is_empty() || text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let (negative, digits) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        if digits.eq_ignore_ascii_case(b"inf") || digits.eq_ignore_ascii_case(b"infinity") {
            return Some(Extended { negative, infinite: true, ..Extended::ZERO });
        }
        let hexadecimal = digits.len() > 2 && digits[..2].eq_ignore_ascii_case(b"0x");
        let (mantissa, exponent) = if hexadecimal { parse_hexadecimal(&digits[2..])? } else { parse_decimal(digits)? };
        Some(Extended { negative, mantissa, exponent, infinite: false })
    }

    /// Whether it is an infinity.
    pub(crate) fn is_infinite(&self) -> bool {
        self.infinite
    }

    /// The nearest number of 64 bits; what is too large is infinite.
    pub(crate) fn to_f64(&self) -> f64 {
        let mut number = if self.infinite { f64::INFINITY } else { self.mantissa as f64 };
        // In steps, so that what is small on the way is not lost.
        let mut exponent = self.exponent.clamp(-20_000, 20_000) as i32;
        while exponent != 0 && number != 0.0 {
            let step = exponent.clamp(-500, 500);
            number *= 2f64.powi(step);
            exponent -= step;
        }
        if self.negative { -number } else { number }
    }

    /// The sum; `None` if it is no finite number.
    pub(crate) fn add(&self, other: &Extended) -> Option<Extended> {
        if self.infinite || other.infinite {
            return None;
        }
        let exponent = self.exponent.min(other.exponent);
        let aligned = |number: &Extended| BigUint::from(number.mantissa) << (number.exponent - exponent) as usize;
        let (a, b) = (aligned(self), aligned(other));
        let (negative, magnitude) = if self.negative == other.negative {
            (self.negative, a + b)
        } else {
            match a.cmp(&b) {
                Ordering::Less => (other.negative, b - a),
                Ordering::Greater => (self.negative, a - b),
                Ordering::Equal => return Some(Extended::ZERO),
            }
        };
        let (mantissa, exponent) = round(magnitude, exponent, false)?;
        Some(Extended { negative, mantissa, exponent, infinite: false })
    }

    /// The number as Redis prints it, without needless zeros.
    pub(crate) fn to_text(&self) -> String {
        let scaled = BigUint::from(self.mantissa) * BigUint::from(10u64).pow(DECIMALS as u32);
        let units = match usize::try_from(self.exponent) {
            Ok(shift) => scaled << shift,
            Err(_) => shift_right_rounding(&scaled, self.exponent.unsigned_abs(), false),
        };
        let digits = format!("{:0>width$}", units.to_string(), width = DECIMALS + 1);
        let (whole, decimals) = digits.split_at(digits.len() - DECIMALS);
        let decimals = decimals.trim_end_matches('0');
        let sign = if self.negative && (whole != "0" || !decimals.is_empty()) { "-" } else { "" };
        if decimals.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{decimals}") }
    }
}

/// Digits with at most one point among them: the digits alone, and how many came after the point; `None` if there are
/// none. Also what follows them.
fn split_digits(text: &[u8], is_digit: fn(&u8) -> bool) -> Option<(Vec<u8>, i64, &[u8])> {
    let whole = text.iter().take_while(|byte| is_digit(byte)).count();
    let mut digits = text[..whole].to_vec();
    let mut rest = &text[whole..];
    let mut decimals = 0;
    if let [b'.', fraction @ ..] = rest {
        decimals = fraction.iter().take_while(|byte| is_digit(byte)).count();
        digits.extend_from_slice(&fraction[..decimals]);
        rest = &fraction[decimals..];
    }
    (!digits.is_empty()).then_some((digits, decimals as i64, rest))
}

/// What follows the digits: nothing, or a marker and a signed decimal exponent, cut at a million in either direction.
fn parse_exponent(text: &[u8], marker: u8) -> Option<i64> {
    let [first, text @ ..] = text else { return Some(0) };
    if first.to_ascii_lowercase() != marker {
        return None;
    }
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let magnitude = digits.iter().fold(0i64, |sum, digit| (sum * 10 + i64::from(digit - b'0')).min(1_000_000));
    Some(if negative { -magnitude } else { magnitude })
}

fn parse_decimal(text: &[u8]) -> Option<(u64, i64)> {
    let (digits, decimals, rest) = split_digits(text, u8::is_ascii_digit)?;
    let exponent = parse_exponent(rest, b'e')? - decimals;
    let significant = &digits[digits.iter().take_while(|digit| **digit == b'0').count()..];
    if significant.is_empty() {
        return Some((0, 0));
    }
    // Far outside the range of the type: not worth the arithmetic.
    let magnitude = significant.len() as i64 + exponent;
    if !(-5000..=5000).contains(&magnitude) {
        return None;
    }
    let number = BigUint::parse_bytes(significant, 10)?;
    let power = BigUint::from(10u64).pow(exponent.unsigned_abs() as u32);
    if exponent >= 0 {
        return round(number * power, 0, false);
    }
    // Enough bits for the quotient to have more than 64; what is left of the division only breaks ties.
    let shift = (power.bits() + 66).saturating_sub(number.bits());
    let shifted = number << shift as usize;
    let quotient = &shifted / &power;
    let sticky = &quotient * &power != shifted;
    round(quotient, -(shift as i64), sticky).filter(|(mantissa, _)| *mantissa != 0)
}

fn parse_hexadecimal(text: &[u8]) -> Option<(u64, i64)> {
    let (digits, decimals, rest) = split_digits(text, u8::is_ascii_hexdigit)?;
    let exponent = parse_exponent(rest, b'p')? - decimals * 4;
    let number = BigUint::parse_bytes(&digits, 16)?;
    if number.bits() == 0 {
        return Some((0, 0));
    }
    round(number, exponent, false).filter(|(mantissa, _)| *mantissa != 0)
}

/// `number` × 2^`exponent` with at most 64 bits, ties to even; `sticky` if a little more was cut off before.
fn round(number: BigUint, exponent: i64, sticky: bool) -> Option<(u64, i64)> {
    let drop = (number.bits() as i64 - 64).max(EXPONENT_MIN - exponent).max(0);
    let mut exponent = exponent + drop;
    let mut rounded = shift_right_rounding(&number, drop as u64, sticky);
    if rounded.bits() > 64 {
        rounded >>= 1;
        exponent += 1;
    }
    if rounded.bits() as i64 + exponent > EXPONENT_END {
        return None;
    }
    Some((u64::try_from(rounded).ok()?, exponent))
}

/// `number` / 2^`shift`, ties to even.
fn shift_right_rounding(number: &BigUint, shift: u64, sticky: bool) -> BigUint {
    if shift == 0 {
        return number.clone();
    }
    let quotient = number >> shift as usize;
    let half = number.bit(shift - 1);
    let below_half = sticky || number.trailing_zeros().is_some_and(|zeros| zeros < shift - 1);
    if half && (below_half || quotient.bit(0)) { quotient + 1u32 } else { quotient }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(a: &str, b: &str) -> String {
        let number = |text: &str| Extended::parse(text.as_bytes()).expect(text);
        number(a).add(&number(b)).expect("finite").to_text()
    }

    #[test]
    fn sums_are_those_of_redis_on_x86() {
        assert_eq!(sum("0.1", "0.2"), "0.3");
        assert_eq!(sum("10.50", "0.1"), "10.6");
        assert_eq!(sum("5.0e3", "2.0e2"), "5200");
        assert_eq!(sum("3", "-3"), "0");
        assert_eq!(sum("-1.5", "1"), "-0.5");
        assert_eq!(sum("1e-30", "0"), "0");
        assert_eq!(sum("-1e-30", "0"), "0");
        assert_eq!(sum(".5", "1."), "1.5");
        assert_eq!(sum("0x10", "0x.8p1"), "17");
        // 2^64 + 1 has 65 bits; the tie goes to the even neighbour.
        assert_eq!(sum("18446744073709551616", "1"), "18446744073709551616");
        assert_eq!(sum("18446744073709551616", "3"), "18446744073709551620");
        // A third printed to the type's own precision.
        assert_eq!(sum("0.3333333333333333333333", "0"), "0.33333333333333333");
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in ["", " 1", "1 ", "abc", "1e", "e1", "nan", "0x", "--1", ".", "1e5000", "1e-5000", "1_0", "-"] {
            assert_eq!(Extended::parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(Extended::parse(&vec![b'1'; TEXT_BYTES_MAX + 1]), None);
        let infinity = Extended::parse(b"-Inf").expect("is read");
        assert_eq!(infinity.add(&Extended::ZERO), None);
        let largest = Extended::parse(b"1.18e4932").expect("fits");
        assert_eq!(largest.add(&largest), None);
    }
}
