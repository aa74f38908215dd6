//! Figures under construction: gathered family by family, and written in the text format of OpenMetrics (1.0.0) by `prometheus-client`.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use crate::status::{ClusterStatus, NodeStatus};

/// The format adds it to the name of a counter.
const TOTAL: &str = "_total";

/// See the file's head.
#[derive(Debug, Default)]
pub(super) struct Exposition {
    families: Vec<Family>,
}

#[derive(Debug)]
struct Family {
    name: String,
    kind: MetricType,
    help: String,
    samples: Vec<(Vec<(String, String)>, Sample)>,
}

#[derive(Debug)]
enum Sample {
    Number(Number),
    Histogram {
        /// How many are within each bound and not within the one before; behind the last bound those that are within none.
        buckets: Vec<(f64, u64)>,
        sum: f64,
        count: u64,
    },
}

/// A figure.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Number {
    Whole(i64),
    Real(f64),
}

impl From<f64> for Number {
    fn from(value: f64) -> Number {
        const EXACT: f64 = (1u64 << 53) as f64;
        if value.fract() == 0.0 && value.abs() < EXACT { Number::Whole(value as i64) } else { Number::Real(value) }
    }
}

impl From<u64> for Number {
    fn from(value: u64) -> Number {
        i64::try_from(value).map_or(Number::Real(value as f64), Number::Whole)
    }
}

impl From<usize> for Number {
    fn from(value: usize) -> Number {
        Number::from(value as u64)
    }
}

impl From<i32> for Number {
    fn from(value: i32) -> Number {
        Number::Whole(i64::from(value))
    }
}

impl From<u8> for Number {
    fn from(value: u8) -> Number {
        Number::Whole(i64::from(value))
    }
}

impl Exposition {
    /// Begins a family: a `counter`, whose name ends with `_total`, a `gauge` or a `histogram`.
    pub(super) fn family(&mut self, name: &str, kind: &str, help: &str) {
        let (kind, name) = match kind {
            "counter" => (MetricType::Counter, name.strip_suffix(TOTAL).unwrap_or(name)),
            "histogram" => (MetricType::Histogram, name),
            _ => (MetricType::Gauge, name),
        };
        self.families.push(Family { name: name.to_owned(), kind, help: help.to_owned(), samples: Vec::new() });
    }

    fn push(&mut self, labels: &[(&str, &str)], sample: Sample) {
        let labels = labels.iter().map(|(label, text)| ((*label).to_owned(), (*text).to_owned())).collect();
        if let Some(family) = self.families.last_mut() {
            family.samples.push((labels, sample));
        }
    }

    /// A figure of the family that was begun last.
    pub(super) fn sample(&mut self, labels: &[(&str, &str)], value: impl Into<Number>) {
        self.push(labels, Sample::Number(value.into()));
    }

    /// A family of one figure.
    pub(super) fn one(&mut self, name: &str, kind: &str, help: &str, value: impl Into<Number>) {
        self.family(name, kind, help);
        self.sample(&[], value);
    }

    /// A histogram of the family that was begun last: for each bound how many were within it, their sum, and how many there were.
    pub(super) fn histogram(
        &mut self,
        labels: &[(&str, &str)],
        within: impl IntoIterator<Item = (f64, u64)>,
        (sum, count): (f64, u64),
    ) {
        let mut before = 0;
        let all = within.into_iter().chain([(f64::INFINITY, count)]);
        let buckets = all.map(|(bound, within)| {
            // Counted at different moments, they may contradict each other a little.
            let more = within.saturating_sub(before);
            before += more;
            (bound, more)
        });
        let buckets = buckets.collect();
        self.push(labels, Sample::Histogram { buckets, sum, count });
    }

    /// A family with one figure for each node that has it.
    pub(super) fn nodes<V: Into<Number>>(
        &mut self,
        status: &ClusterStatus,
        name: &str,
        help: &str,
        value: impl Fn(&NodeStatus) -> Option<V>,
    ) {
        self.family(name, "gauge", help);
        for node in &status.nodes {
            if let Some(value) = value(node) {
                self.sample(&[("node", &node.name)], value);
            }
        }
    }

    /// The text.
    pub(super) fn into_text(self) -> Result<String, fmt::Error> {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut out = String::new();
        text::encode(&mut out, &registry)?;
        Ok(out)
    }
}

impl Collector for Exposition {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for Family { name, kind, help, samples } in self.families.iter().filter(|family| !family.samples.is_empty()) {
            let mut metric = encoder.encode_descriptor(name, help, None, *kind)?;
            for (labels, sample) in samples {
                if labels.is_empty() {
                    sample.encode(*kind, &mut metric)?;
                } else {
                    sample.encode(*kind, &mut metric.encode_family(labels)?)?;
                }
            }
        }
        Ok(())
    }
}

impl Sample {
    fn encode(&self, kind: MetricType, encoder: &mut MetricEncoder<'_>) -> fmt::Result {
        match (self, kind) {
            (Sample::Histogram { buckets, sum, count }, _) => {
                encoder.encode_histogram::<NoLabelSet>(*sum, *count, buckets, None)
            }
            (Sample::Number(Number::Whole(whole)), MetricType::Counter) => {
                encoder.encode_counter::<NoLabelSet, _, u64>(&u64::try_from(*whole).unwrap_or(0), None)
            }
            (Sample::Number(Number::Real(real)), MetricType::Counter) => {
                encoder.encode_counter::<NoLabelSet, _, u64>(real, None)
            }
            (Sample::Number(Number::Whole(whole)), _) => encoder.encode_gauge(whole),
            (Sample::Number(Number::Real(real)), _) => encoder.encode_gauge(real),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_written_as_the_format_wants_them() {
        let mut out = Exposition::default();
        out.one("a_total", "counter", "Some.", 3u64);
        out.family("b", "gauge", "Others.");
        out.sample(&[("l", "a\"b\\c\nd")], 0.5);
        out.sample(&[("l", "x")], 7.0);
        out.family("nothing", "gauge", "None.");
        out.family("h", "histogram", "Times.");
        out.histogram(&[("c", "get")], [(0.5, 2), (1.0, 2), (2.0, 5)], (6.25, 6));
        assert_eq!(
            out.into_text().expect("it is written"),
            "# HELP a Some.\n# TYPE a counter\na_total 3\n\
             # HELP b Others.\n# TYPE b gauge\nb{l=\"a\\\"b\\\\c\\nd\"} 0.5\nb{l=\"x\"} 7\n\
             # HELP h Times.\n# TYPE h histogram\n\
             h_sum{c=\"get\"} 6.25\nh_count{c=\"get\"} 6\n\
             h_bucket{le=\"0.5\",c=\"get\"} 2\nh_bucket{le=\"1.0\",c=\"get\"} 2\nh_bucket{le=\"2.0\",c=\"get\"} 5\nh_bucket{le=\"+Inf\",c=\"get\"} 6\n\
             # EOF\n"
        );
    }
}
