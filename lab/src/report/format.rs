//! How figures are written for people: three significant digits, units that fit, thin separators. One function for each kind, so that the
//! same figure looks the same in a sentence, a table and a picture.

/// Between groups of three digits: a narrow space at which no line breaks.
pub const THIN: char = '\u{202f}';

/// A count, in groups of three digits: `18 400`.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3 * THIN.len_utf8());
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(THIN);
        }
        out.push(digit);
    }
    out
}

/// A figure without a unit: whole and in groups from 1,000 on, with three significant digits below. What is no number is a dash.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let size = value.abs();
    let text = if size >= 999.5 {
        // A count beyond 2^64 is shown as the greatest one: no figure of a report comes near it.
        count(size.round() as u64)
    } else {
        significant(size)
    };
    if value < 0.0 && text.chars().any(|c| ('1'..='9').contains(&c)) { format!("−{text}") } else { text }
}

/// Three significant digits of a value from 0 to below 1,000; a value below 0.0005 keeps three as `1.23e-5`.
fn significant(size: f64) -> String {
    if size == 0.0 {
        return "0".to_owned();
    }
    if size < 0.000_5 {
        return format!("{size:.2e}");
    }
    // Rounding comes first: 9.996 is 10.0, and not 10.00.
    let digits = (0..=6).rev().find(|&digits| {
        let text = format!("{size:.digits$}");
        text.chars().filter(char::is_ascii_digit).skip_while(|&c| c == '0').count() <= 3
    });
    format!("{size:.*}", digits.unwrap_or(0))
}

/// A duration in nanoseconds with three significant digits, as ns, µs, ms or s: `1.23 ms`. What is no number is a dash.
pub fn duration(nanoseconds: f64) -> String {
    if !nanoseconds.is_finite() {
        return "–".to_owned();
    }
    let size = nanoseconds.max(0.0);
    if size == 0.0 {
        return "0\u{a0}s".to_owned();
    }
    if size < 999.5 {
        let text = if size < 1.0 { significant(size) } else { format!("{size:.0}") };
        return format!("{text}\u{a0}ns");
    }
    for (unit, name) in [(1e3, "µs"), (1e6, "ms")] {
        if size / unit < 999.5 {
            return format!("{}\u{a0}{name}", significant(size / unit));
        }
    }
    format!("{}\u{a0}s", number(size / 1e9))
}

/// A duration on an axis: as [`duration`], without zeros that say nothing: `1 ms`.
pub fn duration_tick(nanoseconds: f64) -> String {
    trimmed(&duration(nanoseconds))
}

/// A figure on an axis: as [`number`], without zeros that say nothing, and from 10,000 on with `k`, `M` or `G`.
pub fn number_tick(value: f64) -> String {
    for (unit, name) in [(1e9, "G"), (1e6, "M"), (1e3, "k")] {
        if value.abs() >= unit && value.abs() >= 1e4 {
            return format!("{}{name}", trimmed(&number(value / unit)));
        }
    }
    trimmed(&number(value))
}

fn trimmed(text: &str) -> String {
    let (figure, unit) = text.split_once('\u{a0}').unwrap_or((text, ""));
    let short = if figure.contains('.') && !figure.contains('e') {
        figure.trim_end_matches('0').trim_end_matches('.')
    } else {
        figure
    };
    if unit.is_empty() { short.to_owned() } else { format!("{short}\u{a0}{unit}") }
}

/// How many times as much: `1.42×`.
pub fn ratio(value: f64) -> String {
    format!("{}×", number(value))
}

/// A share from 0 to 1 in hundredths: `12.3 %`.
pub fn share(value: f64) -> String {
    format!("{}\u{a0}%", number(value * 100.0))
}

/// A number of bytes in the unit of 1,024s that fits: `7.75 GiB`.
pub fn bytes(value: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if value < 1024 {
        return format!("{value}\u{a0}bytes");
    }
    let mut size = value as f64 / 1024.0;
    let mut unit = 0;
    while size >= 1023.5 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{}\u{a0}{}", trimmed(&number(size)), UNITS[unit])
}

/// A percentile from 0 to 1 as a word: `50 %`, `99.9 %`.
pub fn percentile(quantile: f64) -> String {
    let text = format!("{:.6}", quantile * 100.0);
    format!("{}\u{a0}%", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Date and time of day in UTC, to the minute: `2026-11-24 07:10 UTC`. Takes milliseconds since 1970.
///
/// The Gregorian calendar from a count of days: years are taken to begin in March, so that the leap day is a year's last.
pub fn date(milliseconds: u64) -> String {
    const DAYS_OF_400_YEARS: u64 = 146_097;
    let minutes = milliseconds / 60_000;
    // Days since 1 March of the year 0.
    let days = minutes / 1440 + 719_468;
    let (era, day) = (days / DAYS_OF_400_YEARS, days % DAYS_OF_400_YEARS);
    let year_of_era = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day_of_month:02} {:02}:{:02}\u{a0}UTC", minutes / 60 % 24, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: String) -> String {
        text.replace(['\u{a0}', THIN], " ")
    }

    #[test]
    fn durations_have_three_digits_and_a_unit_that_fits() {
        for (nanoseconds, expected) in [
            (0.0, "0 s"),
            (0.25, "0.250 ns"),
            (1.0, "1 ns"),
            (999.0, "999 ns"),
            (999.6, "1.00 µs"),
            (1_000.0, "1.00 µs"),
            (12_345.0, "12.3 µs"),
            (123_456.0, "123 µs"),
            (999_400.0, "999 µs"),
            (999_600.0, "1.00 ms"),
            (6_100_000.0, "6.10 ms"),
            (9_996_000.0, "10.0 ms"),
            (512_000_000.0, "512 ms"),
            (2_000_000_000.0, "2.00 s"),
            (75_000_000_000.0, "75.0 s"),
            (1_234_000_000_000.0, "1 234 s"),
            (f64::NAN, "–"),
            (f64::INFINITY, "–"),
            (-5.0, "0 s"),
        ] {
            assert_eq!(plain(duration(nanoseconds)), expected, "{nanoseconds}");
        }
        assert_eq!(plain(duration_tick(1e6)), "1 ms");
        assert_eq!(plain(duration_tick(2.5e6)), "2.5 ms");
        assert_eq!(plain(duration_tick(1e8)), "100 ms");
    }

    #[test]
    fn counts_and_numbers_are_grouped() {
        for (value, expected) in
            [(0, "0"), (999, "999"), (1_000, "1 000"), (18_400, "18 400"), (1_234_567, "1 234 567")]
        {
            assert_eq!(plain(count(value)), expected);
        }
        assert_eq!(plain(count(u64::MAX)), "18 446 744 073 709 551 615");
        for (value, expected) in [
            (0.0, "0"),
            (1.0, "1.00"),
            (9.996, "10.0"),
            (99.96, "100"),
            (999.7, "1 000"),
            (18_400.4, "18 400"),
            (0.0123, "0.0123"),
            (0.000_012_3, "1.23e-5"),
            (-4.5, "−4.50"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(plain(number(value)), expected, "{value}");
        }
        for (value, expected) in
            [(1.0, "1"), (2_500.0, "2 500"), (20_000.0, "20k"), (2_500_000.0, "2.5M"), (0.5, "0.5")]
        {
            assert_eq!(plain(number_tick(value)), expected, "{value}");
        }
    }

    #[test]
    fn other_units() {
        assert_eq!(plain(ratio(1.4167)), "1.42×");
        assert_eq!(plain(share(0.123)), "12.3 %");
        assert_eq!(plain(bytes(512)), "512 bytes");
        assert_eq!(plain(bytes(8_321_499_136)), "7.75 GiB");
        assert_eq!(plain(bytes(u64::MAX)), "16 EiB");
        assert_eq!(plain(percentile(0.999)), "99.9 %");
        assert_eq!(plain(percentile(0.5)), "50 %");
    }

    #[test]
    fn dates_follow_the_calendar() {
        for (milliseconds, expected) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_400_000, "2000-02-29 00:00 UTC"),
            (1_709_251_199_999, "2024-02-29 23:59 UTC"),
            (1_795_504_200_000, "2026-11-24 07:10 UTC"),
            (4_107_542_400_000, "2100-03-01 00:00 UTC"),
        ] {
            assert_eq!(plain(date(milliseconds)), expected);
        }
        assert!(date(u64::MAX).ends_with("UTC"));
    }
}
