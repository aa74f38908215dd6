//! Log lines on standard error: time, level, text. Small on purpose.

use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

pub use node::Level;

/// The lowest level that is written, as a number; set once at the start.
static LOWEST: AtomicU8 = AtomicU8::new(1);

/// Stands before the text of every line, where several nodes write to one place.
static NAME: OnceLock<String> = OnceLock::new();

const SECONDS_PER_DAY: u64 = 24 * 60 * 60;

/// From which level on lines are written; [`Level::Info`] at first.
pub fn set_lowest(level: Level) {
    LOWEST.store(rank(level), Ordering::Relaxed);
}

/// From now on the lines of this process say which node they are of.
pub(crate) fn set_name(name: &str) {
    // There is one node in a process.
    let _ = NAME.set(format!("{name}: "));
}

/// Writes one line, if the level is loud enough. Nothing is reported if standard error is gone.
pub fn line(level: Level, text: &str) {
    if rank(level) < LOWEST.load(Ordering::Relaxed) {
        return;
    }
    let name = ["debug", "info ", "WARN ", "ERROR"][usize::from(rank(level))];
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let of = NAME.get().map_or("", String::as_str);
    let text = format!("{} {name} {of}{text}\n", timestamp(since_epoch.as_secs(), since_epoch.subsec_millis()));
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// Writes a line of [`Level::Debug`].
pub fn debug(text: &str) {
    line(Level::Debug, text);
}

/// Writes a line of [`Level::Info`].
pub fn info(text: &str) {
    line(Level::Info, text);
}

/// Writes a line of [`Level::Warning`].
pub fn warning(text: &str) {
    line(Level::Warning, text);
}

/// Writes a line of [`Level::Error`].
pub fn error(text: &str) {
    line(Level::Error, text);
}

fn rank(level: Level) -> u8 {
    match level {
        Level::Debug => 0,
        Level::Info => 1,
        Level::Warning => 2,
        Level::Error => 3,
    }
}

/// `2026-11-21T21:33:08.123Z`, from seconds since the Unix epoch and milliseconds.
fn timestamp(seconds: u64, milliseconds: u32) -> String {
    let (year, month, day) = date(seconds / SECONDS_PER_DAY);
    let second_of_day = seconds % SECONDS_PER_DAY;
    let (hour, minute, second) = (second_of_day / 3600, second_of_day / 60 % 60, second_of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milliseconds:03}Z")
}

/// Year, month and day of a count of days since 1970-01-01. Years are counted from March, so that the leap day
/// comes last, and 400-year cycles are all alike (H. Hinnant, "chrono-compatible low-level date algorithms").
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let cycle = days / 146_097;
    let day_of_cycle = days % 146_097;
    let year_of_cycle = (day_of_cycle - day_of_cycle / 1460 + day_of_cycle / 36_524 - day_of_cycle / 146_096) / 365;
    let day_of_year = day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = cycle * 400 + year_of_cycle + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right_around_leap_days_and_centuries() {
        assert_eq!(timestamp(0, 0), "1970-01-01T00:00:00.000Z");
        assert_eq!(timestamp(951_782_399, 999), "2000-02-28T23:59:59.999Z");
        assert_eq!(timestamp(951_782_400, 1), "2000-02-29T00:00:00.001Z");
        assert_eq!(timestamp(1_795_296_788, 5), "2026-11-21T21:33:08.005Z");
        assert_eq!(timestamp(4_107_542_400, 0), "2100-03-01T00:00:00.000Z");
    }
}
