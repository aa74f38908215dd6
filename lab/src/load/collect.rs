//! Merges the threads' seconds into a measurement, and tells each second as it ends.

use std::collections::BTreeMap;
use std::sync::mpsc::Receiver;
use std::time::Instant;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};

use super::judge::{Evidence, judge};
use super::tally::{Slice, add, add_error, spread, times};
use super::{Load, Measured, Pacing, Snapshot};
use crate::record::{Arrivals, Gap, Measurement, Operation, Second};
use crate::statistics::steps::steps;

/// Gaps that are kept.
const GAPS_MAX: usize = 1_000;
/// A gap is so many times longer than the mean distance between answers.
const GAP_TIMES_MEAN: f64 = 20.0;

/// Share of the time without a processor from which on it is said.
const KEPT_WAITING_TOLD: f64 = 0.1;

/// One kind, over the seconds that count.
struct Total {
    latency: Histogram<u64>,
    service: Option<Histogram<u64>>,
    errors: u64,
}

/// What adds up over the seconds.
struct Collector<'a> {
    load: &'a Load,
    began: Instant,
    names: &'a [String],
    totals: Vec<Total>,
    late: Histogram<u64>,
    prompt: Histogram<u64>,
    errors: BTreeMap<String, u64>,
    gaps: Vec<(u64, u64)>,
    /// Of each whole second that counts.
    throughputs: Vec<f64>,
    busy: Vec<f64>,
    kept_waiting: Vec<f64>,
    series: Vec<Second>,
    /// Answered within the stretch that counts, without what was awaited at its end.
    answered: u64,
    sent: u64,
    dropped: u64,
    unsent: u64,
    total: u64,
}

/// Receives slices, each with the seconds since the load began at its end, until all `threads` are done and have dropped their senders.
/// `names` are the kinds of operation; `on_second` is called at the end of each whole second. Public for those who send otherwise than
/// [`super::run`] does, so that what they count becomes a measurement by the same rules.
#[must_use]
pub fn collect(
    load: &Load,
    names: &[String],
    threads: u32,
    began: Instant,
    slices: &Receiver<(Slice, f64)>,
    on_second: &mut dyn FnMut(&Snapshot),
) -> Measured {
    let open = load.pacing != Pacing::Closed;
    let mut collector = Collector {
        load,
        began,
        names,
        totals: names.iter().map(|_| Total { latency: times(), service: open.then(times), errors: 0 }).collect(),
        late: times(),
        prompt: times(),
        errors: BTreeMap::new(),
        gaps: Vec::new(),
        throughputs: Vec::new(),
        busy: Vec::new(),
        kept_waiting: Vec::new(),
        series: Vec::new(),
        answered: 0,
        sent: 0,
        dropped: 0,
        unsent: 0,
        total: 0,
    };
    // Seconds that not all threads have reported, and how many have; and the length of each.
    let mut waiting: BTreeMap<(u32, bool), (Slice, u32, f64)> = BTreeMap::new();
    let mut length = 0.0f64;
    while let Ok((slice, until)) = slices.recv() {
        if !slice.draining {
            length = length.max(until);
        }
        let place = (slice.second, slice.draining);
        match waiting.get_mut(&place) {
            None => {
                waiting.insert(place, (slice, 1, until));
            }
            Some((merged, reported, latest)) => {
                merged.merge(&slice);
                *reported += 1;
                *latest = latest.max(until);
            }
        }
        while let Some(first) = waiting.first_entry().filter(|entry| entry.get().1 == threads) {
            let (slice, _, until) = first.remove();
            collector.second(&slice, until, on_second);
        }
    }
    for (slice, _, until) in std::mem::take(&mut waiting).into_values() {
        collector.second(&slice, until, on_second);
    }
    collector.finish(length)
}

impl Collector<'_> {
    fn second(&mut self, slice: &Slice, until: f64, on_second: &mut dyn FnMut(&Snapshot)) {
        let warming_up = slice.second < self.load.warm_up;
        let whole = until - f64::from(slice.second) > 0.999;
        self.total += slice.answered();
        let mut all = times();
        for kind in &slice.kinds {
            add(&mut all, &kind.latency);
        }
        if !warming_up {
            self.count(slice);
            if !slice.draining {
                self.answered += slice.answered();
                if whole {
                    self.throughputs.push(slice.answered() as f64);
                }
                // A piece of a second is no measure of how busy a second was, unless there is nothing else.
                if whole || self.busy.is_empty() {
                    self.busy.push(slice.busy);
                    self.kept_waiting.push(slice.kept_waiting);
                }
            }
        }
        if !slice.draining && whole {
            let (mean, error) = mean_and_error(&self.throughputs);
            on_second(&Snapshot {
                began: Some(self.began),
                second: slice.second,
                warming_up,
                throughput: slice.answered(),
                errors: slice.failed() + slice.dropped,
                latency: spread(&all),
                throughput_mean: mean,
                throughput_error: error,
                queued: slice.queued,
                connected: slice.connected,
                busy: slice.busy,
                total: self.total,
            });
        }
    }

    fn count(&mut self, slice: &Slice) {
        let second = slice.second - self.load.warm_up;
        for ((total, kind), name) in self.totals.iter_mut().zip(&slice.kinds).zip(self.names) {
            add(&mut total.latency, &kind.latency);
            if let (Some(total), Some(service)) = (&mut total.service, &kind.service) {
                add(total, service);
            }
            total.errors += kind.errors;
            if !kind.latency.is_empty() || kind.errors > 0 {
                self.series.push(Second {
                    second,
                    operation: name.clone(),
                    count: kind.latency.len(),
                    errors: kind.errors,
                    latency: spread(&kind.latency),
                    steps: steps(&kind.latency),
                });
            }
        }
        add(&mut self.late, &slice.late);
        add(&mut self.prompt, &slice.prompt);
        for (text, count) in &slice.errors {
            add_error(&mut self.errors, text, *count);
        }
        self.gaps.extend_from_slice(&slice.gaps);
        if self.gaps.len() > 64 * GAPS_MAX {
            keep_longest(&mut self.gaps);
        }
        self.sent += slice.sent;
        self.dropped += slice.dropped;
        self.unsent += slice.unsent;
    }

    fn finish(mut self, length: f64) -> Measured {
        let warm_up = f64::from(self.load.warm_up);
        let seconds = (length - warm_up).max(0.0);
        let (_, throughput_error) = mean_and_error(&self.throughputs);
        let mut all = times();
        let mut operations = BTreeMap::new();
        for (total, name) in self.totals.iter().zip(self.names) {
            add(&mut all, &total.latency);
            if total.latency.is_empty() && total.errors == 0 {
                continue;
            }
            operations.insert(
                name.clone(),
                Operation {
                    count: total.latency.len(),
                    errors: total.errors,
                    latency: spread(&total.latency),
                    service: total.service.as_ref().map(spread),
                    histogram: encode(&total.latency),
                },
            );
        }
        let (arrivals, rate) = match self.load.pacing {
            Pacing::Closed => (Arrivals::Closed, None),
            Pacing::Open { rate, arrivals } => (arrivals, Some(rate)),
        };
        let generator = judge(&Evidence {
            threads: self.load.threads.min(self.load.clients),
            busy: &self.busy,
            kept_waiting: &self.kept_waiting,
            late_p99: spread(&self.late).p99,
            latency_p99: spread(&all).p99,
            prompt_p99: spread(&self.prompt).p99,
            arrivals,
        });
        let mut notes = Vec::new();
        if self.dropped > 0 {
            notes.push(format!(
                "{} operations were due while {} others waited for a free client; they were not sent, and count as errors. The \
                 rate is more than the target or its clients can take.",
                self.dropped, self.load.queue_max
            ));
        }
        if self.unsent > 0 {
            notes.push(format!(
                "{} operations were due and had found no free client a while after the load's end; their latencies, longer than \
                 any shown, are missing.",
                self.unsent
            ));
        }
        let waited = self.kept_waiting.iter().sum::<f64>() / self.kept_waiting.len().max(1) as f64;
        if waited > KEPT_WAITING_TOLD {
            notes.push(format!(
                "The generator could have run and was given no processor {:.0} % of the time: it shares this machine with the \
                 target or with others, and part of each latency is its own.",
                waited * 100.0
            ));
        }
        let throughput = if seconds > 0.0 { self.answered as f64 / seconds } else { 0.0 };
        let mean_distance_ms = if self.answered > 0 { seconds * 1e3 / self.answered as f64 } else { 0.0 };
        let warm_up_ns = (warm_up * 1e9) as u64;
        let end_ns = (length * 1e9) as u64;
        self.gaps.retain_mut(|(from, until)| {
            *from = (*from).max(warm_up_ns);
            *until = (*until).min(end_ns);
            *until > *from && (*until - *from) as f64 / 1e6 > mean_distance_ms * GAP_TIMES_MEAN
        });
        keep_longest(&mut self.gaps);
        let gaps = self.gaps.iter().map(|(from, until)| Gap {
            at_ms: (from - warm_up_ns) as f64 / 1e6,
            length_ms: (until - from) as f64 / 1e6,
        });
        let mean = |shares: &[f64]| shares.iter().sum::<f64>() / shares.len().max(1) as f64;
        let measurement = Measurement {
            clients: self.load.clients,
            arrivals,
            rate,
            seconds,
            throughput,
            throughput_error,
            operations,
            errors: self.errors,
            generator,
            gaps: gaps.collect(),
            counters: BTreeMap::from([
                ("generator_busy_mean_share".to_owned(), mean(&self.busy)),
                ("generator_kept_waiting_mean_share".to_owned(), mean(&self.kept_waiting)),
                ("operations_sent".to_owned(), self.sent as f64),
            ]),
            series: self.series,
            ..Measurement::default()
        };
        (measurement, notes)
    }
}

fn keep_longest(gaps: &mut Vec<(u64, u64)>) {
    gaps.sort_by_key(|(from, until)| std::cmp::Reverse(until - from));
    gaps.truncate(GAPS_MAX);
}

/// The mean, and its standard error: s/√n; 0 for fewer than two values.
fn mean_and_error(values: &[f64]) -> (f64, f64) {
    if values.is_empty() {
        return (0.0, 0.0);
    }
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    if values.len() < 2 {
        return (mean, 0.0);
    }
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (squares / (count - 1.0) / count).sqrt())
}

/// HdrHistogram V2, deflated, base64.
fn encode(histogram: &Histogram<u64>) -> String {
    use base64::Engine as _;
    let mut bytes = Vec::new();
    match V2DeflateSerializer::new().serialize(histogram, &mut bytes) {
        Ok(_) => base64::engine::general_purpose::STANDARD.encode(bytes),
        // Writing to memory does not fail; an empty text is read as "none".
        Err(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standard_error_of_known_values() {
        // Mean 5, variance 32/7 (the textbook example 2 4 4 4 5 5 7 9), of 8 values.
        let (mean, error) = mean_and_error(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
        assert!((mean - 5.0).abs() < 1e-12 && (error - (32.0f64 / 7.0 / 8.0).sqrt()).abs() < 1e-12);
        assert_eq!(mean_and_error(&[3.0]), (3.0, 0.0));
    }

    #[test]
    fn histograms_are_written_as_others_read_them() {
        use base64::Engine as _;
        let mut histogram = times();
        crate::load::tally::note(&mut histogram, 1_234_567);
        let bytes = base64::engine::general_purpose::STANDARD.decode(encode(&histogram)).unwrap();
        let read: Histogram<u64> =
            hdrhistogram::serialization::Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
        assert_eq!((read.len(), read.max()), (1, histogram.max()));
    }
}
