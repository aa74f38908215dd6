//! Numbers as Redis reads and writes them.

use std::fmt::Write;

/// Reads a decimal integer as strictly as Redis does for lengths and for `INCR`: an optional `-`, no `+`, no
/// leading zeros, no `-0`, no spaces, within 64 bits.
#[must_use]
pub fn parse_integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.len() > 19 {
        return None;
    }
    match digits {
        [b'0'] => return (!negative).then_some(0),
        [b'1'..=b'9', ..] => {}
        _ => return None,
    }
    let mut magnitude = 0u64;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        // 19 digits always fit 64 bits without a sign.
        magnitude = magnitude * 10 + u64::from(digit - b'0');
    }
    if negative { 0i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

/// Text of at most this many bytes stands for any double.
const DOUBLE_BYTES_MAX: usize = 32;

/// Whole numbers up to this size are written in full.
const WHOLE_MAX: f64 = (1u64 << 62) as f64;

/// A short text on the stack.
struct Text {
    bytes: [u8; DOUBLE_BYTES_MAX],
    length: usize,
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.length + text.len();
        let target = self.bytes.get_mut(self.length..end).ok_or(std::fmt::Error)?;
        target.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

/// Appends `number` as Redis 7.2 and later write it in replies: whole numbers below 2^62 in full, others in the
/// fewest digits that read back as the same number, plain where that is short (`0.001`), with an exponent elsewhere
/// (`1e+21`, `1.5e-9`); and `inf`, `-inf`, `nan`.
pub fn format_double(out: &mut Vec<u8>, number: f64) {
    if number.is_nan() {
        return out.extend_from_slice(b"nan");
    }
    if number != 0.0 && number.abs() <= WHOLE_MAX && number.trunc() == number {
        return out.extend_from_slice(itoa::Buffer::new().format(number as i64).as_bytes());
    }
    if number.is_sign_negative() {
        out.push(b'-');
    }
    if number.is_infinite() {
        return out.extend_from_slice(b"inf");
    }
    if number == 0.0 {
        return out.push(b'0');
    }
    // The standard library finds the digits ("1.25e-7"); where the point goes is Redis's choice.
    let mut text = Text { bytes: [0; DOUBLE_BYTES_MAX], length: 0 };
    write!(text, "{:e}", number.abs()).expect("17 digits and an exponent fit");
    let scientific = &text.bytes[..text.length];
    let mark = memchr::memchr(b'e', scientific).expect("the format has an exponent");
    let exponent = parse_integer(&scientific[mark + 1..]).expect("the exponent is a number");
    let mut digits = [0; DOUBLE_BYTES_MAX];
    let mut count = 0;
    for &byte in scientific[..mark].iter().filter(|&&byte| byte != b'.') {
        digits[count] = byte;
        count += 1;
    }
    place_point(out, &digits[..count], exponent);
}

/// Appends the digits `d.ddd × 10^exponent` in the layout of Redis's fpconv.
fn place_point(out: &mut Vec<u8>, digits: &[u8], exponent: i64) {
    let count = digits.len() as i64;
    // The power of ten that the last digit counts.
    let last = exponent - count + 1;
    if last >= 0 && exponent < count + 7 {
        out.extend_from_slice(digits);
        out.resize(out.len() + last as usize, b'0');
    } else if last < 0 && (last > -7 || exponent.abs() < 4) {
        if exponent < 0 {
            out.extend_from_slice(b"0.");
            out.resize(out.len() + (-exponent - 1) as usize, b'0');
            out.extend_from_slice(digits);
        } else {
            let (whole, fraction) = digits.split_at(exponent as usize + 1);
            out.extend_from_slice(whole);
            out.push(b'.');
            out.extend_from_slice(fraction);
        }
    } else {
        out.push(digits[0]);
        if digits.len() > 1 {
            out.push(b'.');
            out.extend_from_slice(&digits[1..]);
        }
        out.push(b'e');
        out.push(if exponent < 0 { b'-' } else { b'+' });
        out.extend_from_slice(itoa::Buffer::new().format(exponent.unsigned_abs()).as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_strictly() {
        for (text, expected) in [
            ("0", Some(0)),
            ("7", Some(7)),
            ("-1", Some(-1)),
            ("9223372036854775807", Some(i64::MAX)),
            ("9223372036854775808", None),
            ("-9223372036854775808", Some(i64::MIN)),
            ("-9223372036854775809", None),
            ("99999999999999999999", None),
            ("", None),
            ("-", None),
            ("-0", None),
            ("+1", None),
            ("01", None),
            ("00", None),
            (" 1", None),
            ("1 ", None),
            ("1a", None),
        ] {
            assert_eq!(parse_integer(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn doubles_are_written_as_redis_writes_them() {
        for (number, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (3.1, "3.1"),
            (0.1, "0.1"),
            (0.3333333333333333, "0.3333333333333333"),
            (100.0, "100"),
            (1e7, "10000000"),
            (1e8, "100000000"),
            (-123e8, "-12300000000"),
            (4611686018427387904.0, "4611686018427387904"),
            (4611686018427388928.0, "4611686018427389000"),
            (5e18, "5e+18"),
            (-5e18, "-5e+18"),
            (1e21, "1e+21"),
            (1e100, "1e+100"),
            (1e-6, "0.000001"),
            (1e-7, "1e-7"),
            (1.5e-9, "1.5e-9"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::MIN_POSITIVE, "2.2250738585072014e-308"),
            (5e-324, "5e-324"),
            (1234567.891, "1234567.891"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ] {
            let mut out = Vec::new();
            format_double(&mut out, number);
            assert_eq!(String::from_utf8_lossy(&out), expected);
        }
    }

    #[test]
    fn doubles_read_back_as_themselves() {
        let mut rng = crate::Rng::new(1);
        for _ in 0..20_000 {
            let number = f64::from_bits(rng.next_u64());
            let mut out = Vec::new();
            format_double(&mut out, number);
            let read: f64 = std::str::from_utf8(&out).expect("digits").parse().expect("a number");
            assert!(read == number || (read.is_nan() && number.is_nan()), "{number:e}");
        }
    }
}
