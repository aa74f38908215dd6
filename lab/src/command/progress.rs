//! The line that tells how a load goes, rewritten each second on a terminal.

use std::io::{IsTerminal, Write};

use crate::load::Snapshot;

/// Where there is no terminal, a line is written each so many seconds.
const SECONDS_BETWEEN_LINES: u32 = 10;

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
        if self.quiet || (!self.terminal && !(snapshot.second + 1).is_multiple_of(SECONDS_BETWEEN_LINES)) {
            return;
        }
        let line = line(what, snapshot, total_seconds);
        let mut out = std::io::stderr().lock();
        // Nobody who cannot read the line would read that it cannot be written.
        let _ = if self.terminal { write!(out, "\r\x1b[K{line}") } else { writeln!(out, "{line}") };
        let _ = out.flush();
        self.shown = true;
    }

    /// Shows what is going on where there is no second of a load; only on a terminal, where the next line replaces it.
    pub(super) fn say(&mut self, what: &str) {
        if !self.quiet && self.terminal {
            let mut out = std::io::stderr().lock();
            let _ = write!(out, "\r\x1b[K{what}").and_then(|()| out.flush());
            self.shown = true;
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

fn line(what: &str, snapshot: &Snapshot, total_seconds: f64) -> String {
    let second = snapshot.second + 1;
    let time = if total_seconds.is_finite() { format!("{second}/{total_seconds:.0} s") } else { format!("{second} s") };
    let mut line = format!(
        "{what}{} {time}  {:>8} ops/s  p50 {} p99 {} max {} ms  {} connected",
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
            "ycsb-a 5/10 s      1234 ops/s  p50 1.23 p99 0.000 max 0.000 ms  8 connected"
        );
        snapshot.errors = 3;
        snapshot.busy = 0.97;
        let told = line("ycsb-a", &snapshot, f64::INFINITY);
        assert!(told.starts_with("ycsb-a 5 s ") && told.ends_with("3 errors  generator 97 % busy"), "{told}");
    }

    #[test]
    fn times_have_three_digits() {
        assert_eq!([5_000, 1_234_567, 45_678_901, 512_000_000].map(milliseconds), ["0.005", "1.23", "45.7", "512"]);
    }
}
