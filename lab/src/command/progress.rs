//! The line that tells how a load goes, rewritten each second on a terminal.

use std::io::{IsTerminal, Write};

use crate::load::Snapshot;

/// Where there is no terminal, a line is written each so many seconds.
const SECONDS_BETWEEN_LINES: u32 = 10;

/// Letters of the bar between its brackets; half as many on a narrow terminal.
const BAR_LETTERS: usize = 20;

/// From so many columns on a terminal is wide.
const WIDE_COLUMNS: usize = 110;

/// Columns of a terminal that does not say how many it has.
const COLUMNS: usize = 80;

/// How far a run of several points is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Points {
    /// Points that are over.
    pub done: usize,
    /// All of them.
    pub all: usize,
    /// Share of the present one that is over, as far as is known: 0 to below 1.
    pub share: f64,
}

impl Points {
    /// A bar, and how many are over: `[########------------] 5/12`; as long as `columns` leave room for.
    pub(super) fn bar(&self, columns: usize) -> String {
        let letters = if columns < WIDE_COLUMNS { BAR_LETTERS / 2 } else { BAR_LETTERS };
        let all = self.all.max(1);
        let share = ((self.done as f64 + self.share.clamp(0.0, 0.99)) / all as f64).clamp(0.0, 1.0);
        let full = (share * letters as f64) as usize;
        format!("[{}{}] {}/{}", "#".repeat(full), "-".repeat(letters - full), self.done.min(all), all)
    }
}

/// The line, on standard error.
#[derive(Debug)]
pub(crate) struct Progress {
    terminal: bool,
    quiet: bool,
    shown: bool,
}

impl Progress {
    pub(crate) fn new(quiet: bool) -> Progress {
        Progress { terminal: std::io::stderr().is_terminal(), quiet, shown: false }
    }

    /// Shows a second; `what` is what is going on, `total_seconds` how long it will go on.
    pub(crate) fn show(&mut self, what: &str, snapshot: &Snapshot, total_seconds: f64) {
        self.show_before("", what, snapshot, total_seconds);
    }

    /// As [`Progress::show`], with words at the end, which are cut off first.
    pub(super) fn show_before(&mut self, after: &str, what: &str, snapshot: &Snapshot, total_seconds: f64) {
        if self.quiet || (!self.terminal && !(snapshot.second + 1).is_multiple_of(SECONDS_BETWEEN_LINES)) {
            return;
        }
        let line = line(what, snapshot, total_seconds);
        self.write(&if after.is_empty() { line } else { format!("{line}  {after}") });
    }

    /// How many letters a line may have.
    pub(super) fn columns(&self) -> usize {
        if self.terminal { columns() } else { usize::MAX }
    }

    /// Nobody who cannot read the line would read that it cannot be written.
    fn write(&mut self, line: &str) {
        let mut out = std::io::stderr().lock();
        let _ = if self.terminal { write!(out, "\r\x1b[K{}", cut(line, columns())) } else { writeln!(out, "{line}") };
        let _ = out.flush();
        self.shown = true;
    }

    /// Shows what is going on where there is no second of a load; only on a terminal, where the next line replaces it.
    pub(super) fn say(&mut self, what: &str) {
        if !self.quiet && self.terminal {
            self.write(what);
        }
    }

    /// Shows that a point begins: as [`Progress::say`] on a terminal, and as a line of its own where there is none.
    pub(super) fn begin(&mut self, what: &str) {
        if !self.quiet {
            self.write(what);
        }
    }

    /// Takes the line away, so that what comes next stands in its place.
    pub(super) fn clear(&mut self) {
        if self.terminal && self.shown {
            let mut out = std::io::stderr().lock();
            let _ = write!(out, "\r\x1b[K").and_then(|()| out.flush());
            self.shown = false;
        }
    }

    /// Ends the line, so that what comes next begins on its own.
    pub(crate) fn end(&mut self) {
        if self.terminal && self.shown {
            eprintln!();
            self.shown = false;
        }
    }
}

/// How wide the terminal is; what does not say it, such as a recorded one, is taken for one of `COLUMNS` of the environment, or of 80.
fn columns() -> usize {
    let told = rustix::termios::tcgetwinsize(std::io::stderr()).map_or(0, |size| size.ws_col);
    width(told, std::env::var("COLUMNS").ok().as_deref())
}

fn width(told: u16, environment: Option<&str>) -> usize {
    match told {
        0 => environment.and_then(|text| text.parse().ok()).filter(|&columns| columns > 0).unwrap_or(COLUMNS),
        told => usize::from(told),
    }
}

/// The beginning of a line that fits into so many columns: a longer one would be broken, and only its last part replaced by the next.
fn cut(line: &str, columns: usize) -> &str {
    line.char_indices().nth(columns.saturating_sub(1)).map_or(line, |(end, _)| &line[..end])
}

fn line(what: &str, snapshot: &Snapshot, total_seconds: f64) -> String {
    let second = snapshot.second + 1;
    let time = if total_seconds.is_finite() { format!("{second}/{total_seconds:.0} s") } else { format!("{second} s") };
    let mut line = format!(
        "{what}{} {time}  {:>6} ops/s  p50 {} p99 {} max {} ms  {} connected",
        if snapshot.warming_up { " (warming up)" } else { "" },
        snapshot.throughput,
        milliseconds(snapshot.latency.p50),
        milliseconds(snapshot.latency.p99),
        milliseconds(snapshot.latency.max),
        snapshot.connected,
    );
    if snapshot.queued > 0 {
        line.push_str(&format!("  {} waiting", snapshot.queued));
    }
    if snapshot.errors > 0 {
        line.push_str(&format!("  {} errors", snapshot.errors));
    }
    if snapshot.busy > 0.9 {
        line.push_str(&format!("  generator {:.0} % busy", snapshot.busy * 100.0));
    }
    line
}

/// Nanoseconds in milliseconds, with three significant digits.
pub(crate) fn milliseconds(nanoseconds: u64) -> String {
    let value = nanoseconds as f64 / 1e6;
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v if v >= 1.0 => format!("{v:.2}"),
        v => format!("{v:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_what_matters() {
        let mut snapshot = Snapshot { second: 4, throughput: 1_234, connected: 8, ..Snapshot::default() };
        snapshot.latency.p50 = 1_234_567;
        assert_eq!(
            line("ycsb-a", &snapshot, 10.0),
            "ycsb-a 5/10 s    1234 ops/s  p50 1.23 p99 0.000 max 0.000 ms  8 connected"
        );
        snapshot.errors = 3;
        snapshot.busy = 0.97;
        let told = line("ycsb-a", &snapshot, f64::INFINITY);
        assert!(told.starts_with("ycsb-a 5 s ") && told.ends_with("3 errors  generator 97 % busy"), "{told}");
    }

    #[test]
    fn the_bar_grows_with_what_is_over() {
        let bar = |done, share| Points { done, all: 12, share }.bar(200);
        assert_eq!(bar(0, 0.0), "[--------------------] 0/12");
        assert_eq!(bar(5, 0.5), "[#########-----------] 5/12");
        assert_eq!(bar(11, 7.0), "[###################-] 11/12");
        assert_eq!(bar(12, 0.0), "[####################] 12/12");
        assert_eq!(Points { done: 0, all: 0, share: f64::NAN }.bar(80), "[----------] 0/1");
    }

    #[test]
    fn in_80_columns_the_time_left_and_the_percentiles_are_seen() {
        let mut snapshot = Snapshot { second: 2, throughput: 1_497, connected: 16, ..Snapshot::default() };
        (snapshot.latency.p50, snapshot.latency.p99) = (374_000, 66_100_000);
        let bar = Points { done: 10, all: 12, share: 0.5 }.bar(80);
        let line = line(&format!("{bar} 119 s left"), &snapshot, 6.0);
        assert!(cut(&line, 80).contains(" 119 s left 3/6 s    1497 ops/s  p50 0.374 p99 66.1 max"), "{line}");
    }

    #[test]
    fn a_line_stays_within_the_terminal() {
        assert_eq!(
            [width(132, Some("90")), width(0, Some("90")), width(0, Some("wide")), width(0, None)],
            [132, 90, 80, 80]
        );
        assert_eq!((cut("p50 1 µs", 8), cut("p50 1 µs", 80), cut("abc", 0)), ("p50 1 µ", "p50 1 µs", ""));
    }

    #[test]
    fn times_have_three_digits() {
        assert_eq!([5_000, 1_234_567, 45_678_901, 512_000_000].map(milliseconds), ["0.005", "1.23", "45.7", "512"]);
    }
}
