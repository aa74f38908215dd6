//! Whether the generator measured the server or itself.

use crate::record::{Arrivals, Generator};

/// A thread that is busier than this has no room left.
const BUSY_MAX: f64 = 0.95;
/// One second in so many may be busier.
const BUSY_SECONDS_SHARE: usize = 20;
/// Lateness that nobody notices: what timers of the system are off by.
const LATE_UNNOTICED: u64 = 150_000;
/// Lateness is noticeable where it makes this share of the latency, as 99th percentiles with it and without it.
const LATE_SHARE: f64 = 0.1;

/// What is known at the end.
#[derive(Debug)]
pub(super) struct Evidence<'a> {
    pub threads: u32,
    /// Of each second that counts: the busiest thread's share.
    pub busy: &'a [f64],
    /// Of each second that counts: the share in which a thread could have run and had no processor.
    pub kept_waiting: &'a [f64],
    pub late_p99: u64,
    pub latency_p99: u64,
    /// Of the latencies less what each operation was late.
    pub prompt_p99: u64,
    pub arrivals: Arrivals,
}

/// The generator's word on itself.
pub(super) fn judge(evidence: &Evidence<'_>) -> Generator {
    let busy = evidence.busy.iter().copied().fold(0.0, f64::max);
    let over = evidence.busy.iter().filter(|share| **share > BUSY_MAX).count();
    let waited: f64 = evidence.kept_waiting.iter().sum::<f64>() / evidence.kept_waiting.len().max(1) as f64;
    let mut reasons = Vec::new();
    if over > evidence.busy.len() / BUSY_SECONDS_SHARE {
        reasons.push(format!(
            "its busiest thread worked {:.0} % of a second, more than {:.0} % in {over} of {} seconds",
            busy * 100.0,
            BUSY_MAX * 100.0,
            evidence.busy.len()
        ));
    }
    let late = evidence.late_p99;
    // Not the one figure beside the other: the latest operations are seldom those that are answered last.
    let own = evidence.latency_p99.saturating_sub(evidence.prompt_p99);
    let noticeable = late > LATE_UNNOTICED && own as f64 > evidence.latency_p99 as f64 * LATE_SHARE;
    if evidence.arrivals != Arrivals::Closed && noticeable {
        reasons.push(format!(
            "one operation of 100 left {:.2} ms late although a client was free, which makes {:.2} ms of the {:.2} ms in which 99 of 100 were answered{}",
            late as f64 / 1e6,
            own as f64 / 1e6,
            evidence.latency_p99 as f64 / 1e6,
            if waited > 0.05 {
                format!(" (it was kept waiting for a processor {:.0} % of the time)", waited * 100.0)
            } else {
                String::new()
            }
        ));
    }
    Generator {
        threads: evidence.threads,
        busy,
        late_p99: late,
        saturated: !reasons.is_empty(),
        reason: reasons.join("; "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence(busy: &[f64], late_p99: u64, latency_p99: u64, arrivals: Arrivals) -> Generator {
        let prompt_p99 = latency_p99.saturating_sub(late_p99);
        judge(&Evidence { threads: 1, busy, kept_waiting: &[0.0], late_p99, latency_p99, prompt_p99, arrivals })
    }

    #[test]
    fn a_busy_thread_is_saturated() {
        assert!(!evidence(&[0.94; 10], 0, 1_000_000, Arrivals::Closed).saturated);
        let word = evidence(&[0.5, 0.97], 0, 1_000_000, Arrivals::Closed);
        assert!(word.saturated && word.reason.contains("97 %"), "{word:?}");
        let mut long = vec![0.5; 100];
        long[7] = 1.0;
        assert!(!evidence(&long, 0, 1_000_000, Arrivals::Closed).saturated, "one second in a hundred is a hiccup");
    }

    #[test]
    fn lateness_counts_where_there_is_a_schedule() {
        assert!(evidence(&[0.1], 500_000, 1_000_000, Arrivals::Poisson).saturated);
        assert!(!evidence(&[0.1], 500_000, 1_000_000, Arrivals::Closed).saturated);
        assert!(!evidence(&[0.1], 500_000, 100_000_000, Arrivals::Poisson).saturated, "0.5 ms of 100 ms");
        assert!(!evidence(&[0.1], 100_000, 120_000, Arrivals::Constant).saturated, "a timer is no better than that");
        // Late were those that were answered soon: the others' figure is the server's.
        let word = judge(&Evidence {
            threads: 1,
            busy: &[0.1],
            kept_waiting: &[0.0],
            late_p99: 500_000,
            latency_p99: 1_000_000,
            prompt_p99: 950_000,
            arrivals: Arrivals::Poisson,
        });
        assert!(!word.saturated && word.late_p99 == 500_000, "{word:?}");
    }
}
