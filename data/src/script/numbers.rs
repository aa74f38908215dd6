//! Numbers as C prints them with `%g`, and as Lua's bit library takes them.

/// `%.{digits}g`: so many significant digits at most, without zeros at their end.
pub(super) fn general(number: f64, digits: usize) -> String {
    if number.is_nan() {
        return if number.is_sign_negative() { "-nan" } else { "nan" }.to_owned();
    }
    if number.is_infinite() {
        return if number < 0.0 { "-inf" } else { "inf" }.to_owned();
    }
    let digits = digits.max(1);
    let scientific = format!("{number:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs());
    }
    let decimals = usize::try_from(digits as i32 - 1 - exponent).unwrap_or(0);
    trimmed(&format!("{number:.decimals$}"))
}

/// The lowest 32 bits of a number that is rounded to a whole one, as BitOp does it.
pub(super) fn bits(number: f64) -> i32 {
    (number.round_ties_even() % 4_294_967_296.0) as i64 as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_as_c_does() {
        let of = |number| general(number, 14);
        assert_eq!(
            [1.0, 0.1, 1e15, 1e14, 123.456, -0.0, 1e-5, 0.0001].map(of).join(" "),
            "1 0.1 1e+15 1e+14 123.456 -0 1e-05 0.0001"
        );
        assert_eq!(
            [1e100, 12_345_678_901_234_567_890.0, 2.5e-300].map(of).join(" "),
            "1e+100 1.2345678901235e+19 2.5e-300"
        );
        assert_eq!(general(0.1, 17), "0.10000000000000001");
        assert_eq!(general(1e16, 17), "10000000000000000");
        assert_eq!(general(1e17, 17), "1e+17");
        assert_eq!([f64::INFINITY, f64::NEG_INFINITY].map(of).join(" "), "inf -inf");
    }

    #[test]
    fn bits_wrap_around() {
        assert_eq!([0.0, 1.5, 2.5, -1.0, 4_294_967_296.0, 4_294_967_295.0].map(bits), [0, 2, 2, -1, 0, -1]);
        assert_eq!(bits(f64::NAN), 0);
    }
}
