//! What one thread counts in one second, and how that becomes what people read.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use crate::record::Spread;

/// The greatest time that histograms begin with; they grow if a longer one comes.
const TIME_FIRST_MAX: u64 = 1_000_000_000;
/// Significant decimal digits of a histogram: values within one bucket differ by at most 0.1 %.
const DIGITS: u8 = 3;
/// Texts of errors that are told apart.
const ERRORS_MAX: usize = 64;
/// Where the rest is counted.
const OTHER_ERRORS: &str = "others";

/// A histogram of nanoseconds.
///
/// # Panics
/// Never: its bounds are constants that fit together.
#[must_use]
pub fn times() -> Histogram<u64> {
    let mut histogram =
        Histogram::new_with_bounds(1, TIME_FIRST_MAX, DIGITS).expect("the bounds are constants that fit");
    histogram.auto(true);
    histogram
}

/// Counts one value. The histogram grows for it, which only a value beyond 2^63 could prevent.
#[inline]
pub fn note(histogram: &mut Histogram<u64>, nanoseconds: u64) {
    let _ = histogram.record(nanoseconds);
}

/// One kind of operation in one thread's second.
#[derive(Debug)]
pub struct KindSlice {
    /// From the intended start to the answer.
    pub latency: Histogram<u64>,
    /// From the sending to the answer; none in a closed loop, where it is the same.
    pub service: Option<Histogram<u64>>,
    /// Answered with an error, or not at all.
    pub errors: u64,
}

/// One thread's second, or what was left of it.
#[derive(Debug)]
pub struct Slice {
    /// The second, counted from the beginning of the load with its warming up.
    pub second: u32,
    /// Whether the load was over and the last answers were awaited.
    pub draining: bool,
    /// By the workload's kinds.
    pub kinds: Vec<KindSlice>,
    /// How late operations left although their client was free.
    pub late: Histogram<u64>,
    /// Latencies of all kinds less what each was late: what they would have been with a generator that is never late. Empty in a closed loop.
    pub prompt: Histogram<u64>,
    /// Errors by their first words.
    pub errors: BTreeMap<String, u64>,
    /// Stretches without an answer: from and until, in nanoseconds since the load began.
    pub gaps: Vec<(u64, u64)>,
    /// Share of this stretch in which the thread had work to do, 0 to 1.
    pub busy: f64,
    /// Share of it in which the thread could have run and had no processor, 0 to 1.
    pub kept_waiting: f64,
    /// Operations that were due and waited for a free client, at the end of the stretch.
    pub queued: usize,
    /// Operations that were dropped because too many waited.
    pub dropped: u64,
    /// Operations that still waited when the load was over.
    pub unsent: u64,
    /// Connections that were open at the end of the stretch.
    pub connected: u32,
    /// Operations sent for the first time.
    pub sent: u64,
}

impl Slice {
    /// An empty one for `kinds` kinds; `open` if intended start and sending differ.
    #[must_use]
    pub fn new(second: u32, kinds: usize, open: bool) -> Slice {
        let kind = || KindSlice { latency: times(), service: open.then(times), errors: 0 };
        Slice {
            second,
            draining: false,
            kinds: (0..kinds).map(|_| kind()).collect(),
            late: times(),
            prompt: times(),
            errors: BTreeMap::new(),
            gaps: Vec::new(),
            busy: 0.0,
            kept_waiting: 0.0,
            queued: 0,
            dropped: 0,
            unsent: 0,
            connected: 0,
            sent: 0,
        }
    }

    /// Counts an error by what it says.
    pub fn error(&mut self, text: &str) {
        add_error(&mut self.errors, &first_words(text), 1);
    }

    /// Adds another thread's same second.
    pub fn merge(&mut self, other: &Slice) {
        for (own, others) in self.kinds.iter_mut().zip(&other.kinds) {
            add(&mut own.latency, &others.latency);
            if let (Some(own), Some(others)) = (&mut own.service, &others.service) {
                add(own, others);
            }
            own.errors += others.errors;
        }
        add(&mut self.late, &other.late);
        add(&mut self.prompt, &other.prompt);
        for (text, count) in &other.errors {
            add_error(&mut self.errors, text, *count);
        }
        self.gaps.extend_from_slice(&other.gaps);
        self.busy = self.busy.max(other.busy);
        self.kept_waiting = self.kept_waiting.max(other.kept_waiting);
        self.queued += other.queued;
        self.dropped += other.dropped;
        self.unsent += other.unsent;
        self.connected += other.connected;
        self.sent += other.sent;
    }

    /// Operations answered without an error.
    #[must_use]
    pub fn answered(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.latency.len()).sum()
    }

    /// Operations with an error or without an answer.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.errors).sum()
    }
}

/// Adds `from` to `to`.
pub fn add(to: &mut Histogram<u64>, from: &Histogram<u64>) {
    // It grows by itself, so that it cannot fail.
    let _ = to.add(from);
}

/// Counts `count` more of an error, in a map of bounded size.
pub fn add_error(errors: &mut BTreeMap<String, u64>, text: &str, count: u64) {
    if let Some(known) = errors.get_mut(text) {
        *known += count;
    } else {
        let text = if errors.len() < ERRORS_MAX { text } else { OTHER_ERRORS };
        *errors.entry(text.to_owned()).or_default() += count;
    }
}

/// The first words of an error: up to eight, before the first with a digit (a slot, a port, a time: they would make every
/// error another one).
#[must_use]
pub fn first_words(text: &str) -> String {
    let has_digit = |word: &str| word.bytes().any(|byte| byte.is_ascii_digit());
    let mut words = text.split_ascii_whitespace();
    let mut out: String = words.next().unwrap_or("an error without words").chars().take(40).collect();
    // A status is what an HTTP error is told by.
    let numbers = out == "HTTP";
    for word in words.take(7).take_while(|word| numbers || !has_digit(word)) {
        if out.len() + word.len() > 80 {
            break;
        }
        out.push(' ');
        out.push_str(word);
    }
    out
}

/// The figures of a histogram. All are 0 if it is empty.
#[must_use]
pub fn spread(histogram: &Histogram<u64>) -> Spread {
    if histogram.is_empty() {
        return Spread::default();
    }
    // One pass: a histogram has tens of thousands of buckets, and a pass for each quantile reads most of them.
    let mut values = histogram.value_at_quantiles([0.5, 0.9, 0.95, 0.99, 0.999, 0.9999]);
    let mut next = || values.next().unwrap_or_default().min(histogram.max());
    Spread {
        min: histogram.min(),
        mean: histogram.mean(),
        p50: next(),
        p90: next(),
        p95: next(),
        p99: next(),
        p999: next(),
        p9999: next(),
        max: histogram.max(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_known_values() {
        let mut histogram = times();
        // 1 µs to 10 ms in steps of 1 µs, each once.
        for microseconds in 1..=10_000u64 {
            note(&mut histogram, microseconds * 1_000);
        }
        let spread = spread(&histogram);
        for (value, expected) in [
            (spread.p50, 5_000_000u64),
            (spread.p90, 9_000_000),
            (spread.p95, 9_500_000),
            (spread.p99, 9_900_000),
            (spread.p999, 9_990_000),
            (spread.p9999, 9_999_000),
            (spread.max, 10_000_000),
            (spread.mean as u64, 5_000_500),
        ] {
            assert!(value.abs_diff(expected) * 1_000 <= expected, "{value} is within 0.1 % of {expected}");
        }
        assert_eq!(super::spread(&times()), Spread::default());
    }

    #[test]
    fn histograms_grow_and_add_up() {
        let (mut slice, mut other) = (Slice::new(0, 1, false), Slice::new(0, 1, false));
        note(&mut slice.kinds[0].latency, 5);
        note(&mut other.kinds[0].latency, 7_200_000_000_000);
        other.error("MOVED 3999 127.0.0.1:6381");
        other.error("MOVED 17 127.0.0.1:6381");
        slice.merge(&other);
        assert_eq!(slice.answered(), 2);
        assert!(slice.kinds[0].latency.max() >= 7_200_000_000_000);
        assert_eq!(slice.errors, BTreeMap::from([("MOVED".to_owned(), 2)]));
        let mut total = times();
        add(&mut total, &slice.kinds[0].latency);
        add(&mut total, &slice.kinds[0].latency);
        assert_eq!((total.len(), total.min()), (4, 5));
    }

    #[test]
    fn errors_are_told_by_their_first_words_and_bounded() {
        assert_eq!(first_words("ERR no leader is known at n2 yet"), "ERR no leader is known at");
        assert_eq!(first_words("HTTP 503 Service Unavailable"), "HTTP 503 Service Unavailable");
        assert_eq!(first_words(""), "an error without words");
        let mut errors = BTreeMap::new();
        for number in 0..1_000 {
            add_error(&mut errors, &format!("E{number}"), 1);
        }
        assert_eq!(errors.len(), ERRORS_MAX + 1);
        assert_eq!(errors[OTHER_ERRORS], 1_000 - ERRORS_MAX as u64);
    }
}
