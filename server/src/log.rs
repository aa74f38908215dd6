//! Log lines on standard error: as text, or each as a line of JSON with the node, the bucket and the partition. Through `tracing`, whose lines of libraries are left out.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

pub use node::Level;
use node::LogLine;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;

use crate::options::LogFormat;

/// The lowest level that is written, as a number; set once at the start.
static LOWEST: AtomicU8 = AtomicU8::new(1);
/// The node of this process.
static NODE: OnceLock<String> = OnceLock::new();
/// Several nodes write to one place: the name of the node stands before the text of every line.
static IS_NAMED: AtomicBool = AtomicBool::new(false);
/// Set with the first line.
static BEGUN: OnceLock<()> = OnceLock::new();

const SECONDS_PER_DAY: u64 = 24 * 60 * 60;
/// Lines of our own, and no others.
const OURS: &str = "dictum";

/// To be called before the first line: the process writes lines from this level on, in this format, for this node. `is_named`: several nodes write to one place. Without it lines
/// are text, from [`Level::Info`] on.
pub fn begin(lowest: Level, format: LogFormat, node: &str, is_named: bool) {
    LOWEST.store(rank(lowest), Ordering::Relaxed);
    IS_NAMED.store(is_named, Ordering::Relaxed);
    // There is one node in a process, and it is started once.
    let _ = NODE.set(node.to_owned());
    subscribe(format);
}

fn subscribe(format: LogFormat) {
    BEGUN.get_or_init(|| {
        let ours = Targets::new().with_target(OURS, tracing::Level::DEBUG);
        let lines = tracing_subscriber::fmt()
            .with_writer(io::stderr)
            .log_internal_errors(false)
            .with_max_level(tracing::Level::DEBUG);
        // It fails where a program that uses this library has its own way with lines.
        let _ = match format {
            LogFormat::Text => tracing::subscriber::set_global_default(lines.event_format(Text).finish().with(ours)),
            LogFormat::Json => {
                let lines = lines.json().flatten_event(true).with_current_span(false).with_span_list(false);
                tracing::subscriber::set_global_default(lines.with_target(false).finish().with(ours))
            }
        };
    });
}

/// Writes one line, if the level is loud enough. Nothing is reported if standard error is gone.
pub fn line(level: Level, text: &str) {
    write(level, None, text);
}

/// Writes a line of the node.
pub(crate) fn of_node(line: &LogLine) {
    write(line.level, line.partition.as_ref(), &line.text);
}

fn write(level: Level, partition: Option<&(String, u16)>, text: &str) {
    if rank(level) < LOWEST.load(Ordering::Relaxed) {
        return;
    }
    subscribe(LogFormat::Text);
    let text = &*shown(text);
    let node = NODE.get().map(String::as_str);
    let (bucket, partition) = (partition.map(|(bucket, _)| bucket.as_str()), partition.map(|(_, index)| *index));
    macro_rules! say {
        ($level:ident) => {
            tracing::event!(target: OURS, tracing::Level::$level, node, bucket, partition, "{text}")
        };
    }
    match level {
        Level::Debug => say!(DEBUG),
        Level::Info => say!(INFO),
        Level::Warning => say!(WARN),
        Level::Error => say!(ERROR),
    }
}

/// A text as it is written: a line break or a command to the terminal, which somebody may have put into a name, is escaped.
fn shown(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if c.is_control() { out.extend(c.escape_default()) } else { out.push(c) }
    }
    Cow::Owned(out)
}

/// Lines for people.
struct Text;

impl<S, N> FormatEvent<S, N> for Text
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        /// The words of an event.
        #[derive(Default)]
        struct Message(String);
        impl Visit for Message {
            fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
                if field.name() == "message" {
                    self.0 = format!("{value:?}");
                }
            }
        }
        let mut message = Message::default();
        event.record(&mut message);
        let level = match *event.metadata().level() {
            tracing::Level::ERROR => "ERROR",
            tracing::Level::WARN => "WARN ",
            tracing::Level::INFO => "info ",
            _ => "debug",
        };
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let time = timestamp(since_epoch.as_secs(), since_epoch.subsec_millis());
        write!(out, "{time} {level} ")?;
        if let Some(node) = NODE.get().filter(|_| IS_NAMED.load(Ordering::Relaxed)) {
            write!(out, "{node}: ")?;
        }
        writeln!(out, "{}", message.0)
    }
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

/// `2026-11-21T21:33:08.123Z`, from milliseconds since the Unix epoch.
pub(crate) fn shown_time(milliseconds: u64) -> String {
    timestamp(milliseconds / 1000, (milliseconds % 1000) as u32)
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

    #[test]
    fn nobody_writes_a_line_of_his_own_or_a_command_to_the_terminal() {
        assert_eq!(shown("n1 é – plain"), "n1 é – plain");
        assert_eq!(shown("a\x1b[2J\r\nb\u{9b}31m\t"), "a\\u{1b}[2J\\r\\nb\\u{9b}31m\\t");
    }
}
