//! Records made up from a seed, that hold everything a report can show: for the tests, and for the example that a person looks at.

use std::collections::BTreeMap;

use base64::Engine;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use lab::record::*;

/// A small generator of numbers (xorshift64*, Vigna 2016): the same seed, the same records.
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Chance {
        Chance(seed.max(1))
    }

    /// From 0 to below 1.
    pub fn share(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A latency: mostly around `middle` nanoseconds, with a tail.
    pub fn latency(&mut self, middle: f64, tail: f64) -> u64 {
        let even = (self.share() + self.share() + self.share() - 1.5) * 0.5;
        let slow = if self.share() < 0.02 { 1.0 + tail * self.share().powi(4) * 10.0 } else { 1.0 };
        (middle * even.exp() * slow) as u64 + 1
    }
}

fn spread(histogram: &Histogram<u64>) -> Spread {
    let mut values = histogram.value_at_quantiles([0.5, 0.9, 0.95, 0.99, 0.999, 0.9999]);
    let mut next = || values.next().unwrap();
    Spread {
        min: histogram.min(),
        // JSON does not give every last bit of a float back.
        mean: histogram.mean().round(),
        p50: next(),
        p90: next(),
        p95: next(),
        p99: next(),
        p999: next(),
        p9999: next(),
        max: histogram.max(),
    }
}

fn encoded(histogram: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(histogram, &mut bytes).unwrap();
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

fn operation(chance: &mut Chance, count: u64, middle: f64, tail: f64, open: bool) -> Operation {
    let (mut latency, mut service) = (Histogram::<u64>::new(3).unwrap(), Histogram::<u64>::new(3).unwrap());
    for _ in 0..count {
        let sent = chance.latency(middle, tail);
        service.record(sent).unwrap();
        let waited = if open && chance.share() < 0.03 { (middle * 60.0 * chance.share()) as u64 } else { 0 };
        latency.record(sent + waited).unwrap();
    }
    Operation {
        count,
        errors: count / 9_000,
        latency: spread(&latency),
        service: open.then(|| spread(&service)),
        histogram: encoded(&latency),
    }
}

fn series(chance: &mut Chance, seconds: u32, operations: &[(&str, u64, f64)], silent: &[(u32, u32)]) -> Vec<Second> {
    let mut out = Vec::new();
    for second in 0..seconds {
        for (name, count, middle) in operations {
            let stopped = silent.iter().any(|(from, to)| (*from..*to).contains(&second));
            let near = silent.iter().any(|(from, to)| second + 1 == *from || second == *to);
            let slowed = if near { 8.0 } else { 1.0 + 0.4 * (f64::from(second) / 9.0).sin() };
            let count = if stopped { 0 } else { (*count as f64 * (0.9 + 0.2 * chance.share()) / slowed.sqrt()) as u64 };
            let mut histogram = Histogram::<u64>::new(3).unwrap();
            for _ in 0..count.min(200) {
                histogram.record(chance.latency(middle * slowed, 6.0)).unwrap();
            }
            let errors = if near { count / 40 } else { 0 };
            let latency = if count == 0 { Spread::default() } else { spread(&histogram) };
            // As many as were answered, in the shape of those that were drawn.
            let drawn = lab::statistics::steps::steps(&histogram);
            let steps = drawn.into_iter().map(|(step, of)| (step, of * count / count.clamp(1, 200))).collect();
            out.push(Second { second, operation: (*name).to_owned(), count, errors, latency, steps });
        }
    }
    out
}

fn environment() -> Environment {
    Environment {
        cpu: "AMD EPYC 7763 64-Core Processor".into(),
        cores: 2,
        memory_bytes: 8_321_499_136,
        kernel: "Linux 6.1.0-28-amd64".into(),
        disk: "ext4 on /dev/vda".into(),
        fsync_p50: 1_130_000,
        fsync_p99: 3_870_000,
        idle: 0.97,
        stolen: 0.004,
        versions: BTreeMap::from([("dictum".into(), "0.1.0 (4105d66)".into()), ("redis".into(), "7.0.15".into())]),
    }
}

fn dictum() -> Side {
    Side {
        id: "dictum".into(),
        name: "Dictum 0.1.0".into(),
        nodes: 3,
        durability: "fsynced on a majority".into(),
        consistency: "linearizable".into(),
        configuration: vec![
            ("clients-max".into(), "10000".into()),
            ("journal".into(), "O_DIRECT, 64 MiB segments".into()),
        ],
    }
}

fn sides() -> Vec<Side> {
    let side = |id: &str, name: &str, nodes, durability: &str, consistency: &str| Side {
        id: id.into(),
        name: name.into(),
        nodes,
        durability: durability.into(),
        consistency: consistency.into(),
        configuration: vec![("appendonly".into(), "yes".into()), ("appendfsync".into(), "always".into())],
    };
    vec![
        dictum(),
        side("redis", "Redis 7.0.15, one node", 1, "fsynced on one node", "linearizable"),
        side("etcd", "etcd 3.5.17", 3, "fsynced on a majority", "linearizable"),
    ]
}

fn base(experiment: &str, title: &str, question: &str) -> Record {
    Record {
        format: FORMAT,
        experiment: experiment.into(),
        title: title.into(),
        question: question.into(),
        command: format!(
            "dictum lab {experiment} --target redis://127.0.0.1:7001 --clients 64 --rate 5000 --minutes 5 -o report.html"
        ),
        started_ms: 1_795_504_200_000,
        environment: environment(),
        sides: vec![dictum()],
        ..Record::default()
    }
}

fn generator() -> Generator {
    Generator { threads: 2, busy: 0.43, late_p99: 12_000, saturated: false, reason: String::new() }
}

fn saturated() -> Generator {
    let reason =
        "its busiest thread had work to do for 99.8 % of a second, and operations left up to 41 ms late".into();
    Generator { threads: 2, busy: 0.998, late_p99: 41_000_000, saturated: true, reason }
}

fn variables(list: &[(&str, &str)]) -> BTreeMap<String, String> {
    list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// One open-loop run with two operations, series and histograms: percentile curves with their service times, a heat map.
pub fn quick() -> Record {
    let mut chance = Chance::new(7);
    let mut record = base(
        "quick",
        "Sixty seconds on a fresh cluster",
        "How fast does a fresh cluster answer, and how slow are the slowest answers?",
    );
    record.measurements.push(Measurement {
        id: "ycsb-a".into(),
        side: "dictum".into(),
        workload: "ycsb-a".into(),
        clients: 64,
        arrivals: Arrivals::Poisson,
        rate: Some(5_000.0),
        seconds: 60.0,
        throughput: 4_996.2,
        throughput_error: 11.4,
        operations: BTreeMap::from([
            ("read".into(), operation(&mut chance, 150_000, 900_000.0, 9.0, true)),
            ("update".into(), operation(&mut chance, 150_000, 2_300_000.0, 6.0, true)),
        ]),
        errors: BTreeMap::from([("CLUSTERDOWN no leader".into(), 33)]),
        generator: generator(),
        counters: BTreeMap::from([
            ("cpu_us_per_operation".into(), 41.7),
            ("fsyncs_per_operation".into(), 0.0312),
            ("messages_per_operation".into(), 0.214),
        ]),
        series: series(&mut chance, 60, &[("read", 2_500, 900_000.0), ("update", 2_500, 2_300_000.0)], &[]),
        ..Measurement::default()
    });
    record.notes = vec![
        "All three nodes, and the load generator, shared two processors.".into(),
        "The first five seconds are left out.".into(),
    ];
    record
}

/// A node that does not answer for ten seconds, and then catches up within two.
fn lags(at: f64, node: &str) -> Vec<Lag> {
    let mut lags = Vec::new();
    for look in 0..1_200 {
        let at_ms = f64::from(look) * 50.0;
        for other in ["n1", "n2", "n3"] {
            let back = at_ms - at - 10_000.0;
            let entries = match other == node {
                true if at_ms > at && back < 0.0 => None,
                true if (0.0..2_000.0).contains(&back) => Some((29_000.0 * (1.0 - back / 2_000.0)) as u32),
                _ => Some(look % 3),
            };
            lags.push(Lag { at_ms, node: other.to_owned(), entries: entries.map(u64::from) });
        }
    }
    lags
}

/// Repeats of a failover with marks and gaps, and a verdict that holds.
pub fn failover() -> Record {
    let mut chance = Chance::new(11);
    let mut record = base(
        "failover",
        "A leader dies",
        "How long does nobody get an answer when the leader is killed, paused or cut off?",
    );
    for (fault, gap) in [("killed", 480.0), ("paused", 1_150.0), ("terminated cleanly", 45.0)] {
        for repeat in 1..=5 {
            let at = 20_000.0 + 900.0 * chance.share();
            let length = gap * (0.8 + 0.5 * chance.share());
            let silent = if length > 900.0 { vec![(20, 22)] } else { vec![(21, 21)] };
            record.measurements.push(Measurement {
                id: format!("{}-{repeat}", fault.replace(' ', "-")),
                side: "dictum".into(),
                variables: variables(&[("fault", fault), ("repeat", &repeat.to_string())]),
                workload: "half reads, half writes".into(),
                clients: 64,
                arrivals: Arrivals::Constant,
                rate: Some(3_000.0),
                seconds: 60.0,
                throughput: 2_960.0 + 20.0 * chance.share(),
                throughput_error: 41.0,
                operations: BTreeMap::from([
                    ("get".into(), operation(&mut chance, 12_000, 700_000.0, 40.0, true)),
                    ("set".into(), operation(&mut chance, 12_000, 1_800_000.0, 40.0, true)),
                ]),
                errors: BTreeMap::from([("UNKNOWN the outcome is not known".into(), 12 + repeat)]),
                generator: generator(),
                marks: vec![
                    Mark { at_ms: at, what: format!("leader n{} {fault}", repeat % 3 + 1) },
                    Mark { at_ms: at + 10_000.0, what: format!("n{} back", repeat % 3 + 1) },
                ],
                gaps: vec![Gap { at_ms: at - 1.0, length_ms: length }, Gap { at_ms: at + 10_020.0, length_ms: 14.0 }],
                series: series(&mut chance, 60, &[("get", 1_500, 700_000.0), ("set", 1_500, 1_800_000.0)], &silent),
                lags: lags(at, &format!("n{}", repeat % 3 + 1)),
                ..Measurement::default()
            });
        }
    }
    record.verdict = Some(Verdict {
        beside: false,
        holds: true,
        operations: 184_022,
        decided: 184_022,
        keys: 1_000,
        properties: vec![
            Property {
                name: "no acknowledged write was lost".into(),
                holds: true,
                detail: "184,022 operations on 1,000 keys by 64 clients were looked at".into(),
                ..Property::default()
            },
            Property {
                name: "every read sees the last acknowledged write of its key".into(),
                holds: true,
                detail: String::new(),
                ..Property::default()
            },
            Property {
                name: "transactions happen all at once or not at all".into(),
                holds: true,
                detail: "9,114 transactions".into(),
                ..Property::default()
            },
        ],
        offending: vec![],
    });
    record
}

/// Three sides, three rounds, two workloads, closed loop; one side's generator saturated in one workload.
pub fn compare() -> Record {
    let mut chance = Chance::new(13);
    let mut record = base(
        "compare",
        "Dictum, Redis and etcd at the same work",
        "Who answers how fast, and what does each promise for it?",
    );
    record.sides = sides();
    for (workload, base) in [("write-only", 1_900.0), ("read-only", 21_000.0)] {
        for (side, factor) in [("dictum", 1.0), ("redis", 1.9), ("etcd", 0.62)] {
            for round in 1..=3 {
                let throughput = base * factor * (0.93 + 0.14 * chance.share());
                let middle = 64.0 / throughput * 1e9;
                record.measurements.push(Measurement {
                    id: format!("{workload}-{side}-{round}"),
                    side: side.into(),
                    variables: variables(&[("round", &round.to_string())]),
                    workload: workload.into(),
                    clients: 64,
                    seconds: 20.0,
                    throughput,
                    throughput_error: throughput * 0.01,
                    operations: BTreeMap::from([(
                        if workload == "write-only" { "set" } else { "get" }.to_owned(),
                        operation(&mut chance, 12_000, middle, 7.0, false),
                    )]),
                    generator: if side == "redis" && workload == "read-only" { saturated() } else { generator() },
                    ..Measurement::default()
                });
            }
        }
    }
    record.notes = vec!["Redis ran on one node: its replication does not wait for replicas.".into()];
    record
}

/// A sweep of records and distributions: small multiples.
pub fn sweep() -> Record {
    let mut chance = Chance::new(17);
    let mut record = base(
        "tail-latency",
        "Tails against the size of the data",
        "How do the slowest answers grow with the number of records?",
    );
    let mut add = |records: &str, distribution: &str, factor: f64| {
        record.measurements.push(Measurement {
            id: format!("r{records}-{distribution}"),
            side: "dictum".into(),
            variables: variables(&[("records", records), ("distribution", distribution)]),
            workload: "ycsb-a".into(),
            clients: 32,
            arrivals: Arrivals::Poisson,
            rate: Some(2_000.0),
            seconds: 30.0,
            throughput: 1_999.0,
            operations: ["read", "update", "scan", "insert"]
                .iter()
                .enumerate()
                .map(|(index, name)| {
                    let middle = 800_000.0 * factor * (1.0 + index as f64 * 0.6);
                    ((*name).to_owned(), operation(&mut chance, 12_000, middle, 8.0, true))
                })
                .collect(),
            generator: if records == "10000000" { saturated() } else { generator() },
            ..Measurement::default()
        });
    };
    for (index, records) in ["1000", "10000", "100000", "1000000", "10000000"].iter().enumerate() {
        add(records, "zipfian", 1.35f64.powi(index as i32));
    }
    for (index, distribution) in ["uniform", "latest", "hotspot", "exponential", "scrambled"].iter().enumerate() {
        add("100000", distribution, 1.7 + 0.2 * index as f64);
    }
    record
}

/// Fits: one against clients with a peak, one against nodes.
pub fn scaling() -> Record {
    let mut chance = Chance::new(19);
    let mut record = base("scaling", "More clients, more nodes", "Where does throughput stop growing, and why?");
    let limits = |value: f64, by: f64| Limits { value, low: value * (1.0 - by), high: value * (1.0 + by) };
    for (variable, lambda, sigma, kappa, xs, peak) in [
        ("clients", 1_480.0, 0.021, 0.000_25, &[4.0, 6.0, 9.0, 14.0, 21.0, 32.0, 48.0, 72.0, 108.0][..], Some(62.6)),
        ("nodes", 4_100.0, 0.41, 0.02, &[1.0, 3.0, 5.0, 7.0][..], Some(5.4)),
    ] {
        let law = |n: f64| lambda * n / (1.0 + sigma * (n - 1.0) + kappa * n * (n - 1.0));
        let points: Vec<(f64, f64)> = xs.iter().map(|&n| (n, law(n) * (0.96 + 0.08 * chance.share()))).collect();
        for (n, throughput) in &points {
            record.measurements.push(Measurement {
                id: format!("{variable}-{n}"),
                side: "dictum".into(),
                variables: variables(&[(variable, &n.to_string())]),
                workload: "ycsb-b".into(),
                clients: if variable == "clients" { *n as u32 } else { 64 },
                seconds: 20.0,
                throughput: *throughput,
                throughput_error: 20.0,
                operations: BTreeMap::from([(
                    "read".into(),
                    operation(&mut chance, 12_000, n / throughput * 1e9, 5.0, false),
                )]),
                generator: generator(),
                ..Measurement::default()
            });
        }
        record.fits.push(Fit {
            side: "dictum".into(),
            variable: variable.into(),
            points,
            lambda: limits(lambda, 0.05),
            sigma: limits(sigma, 0.3),
            kappa: limits(kappa, 0.3),
            peak_at: peak,
            r_squared: 0.991,
        });
    }
    record
}

/// A verdict that does not hold, with a history that shows it.
pub fn violation() -> Record {
    let mut record =
        base("verify", "Ten minutes of faults", "Does anything that was acknowledged get lost while nodes die?");
    let event = |client, asked: &str, answered: &str, from: u64, until: Option<u64>| Event {
        client,
        asked: asked.into(),
        answered: answered.into(),
        from: 12_000_000_000 + from * 1_000,
        until: until.map(|until| 12_000_000_000 + until * 1_000),
    };
    record.verdict = Some(Verdict {
        beside: false,
        holds: false,
        operations: 52_101,
        decided: 52_101,
        keys: 400,
        properties: vec![
            Property {
                name: "every read sees the last acknowledged write of its key".into(),
                holds: false,
                detail: "client 4 read the value 7 of key account:17 after client 2 had been told that it is 9".into(),
                ..Property::default()
            },
            Property {
                name: "no acknowledged write was lost".into(),
                holds: true,
                detail: "52,101 operations".into(),
                ..Property::default()
            },
        ],
        offending: vec![
            event(1, "set account:17 7", "OK", 0, Some(1_200)),
            event(2, "set account:17 9", "OK", 1_900, Some(4_100)),
            event(3, "set account:17 11", "", 1_500, None),
            event(4, "get account:17", "7", 5_000, Some(5_600)),
            event(2, "get account:17", "9", 5_200, Some(9_900)),
            event(11, "get account:17", "9", 4_300, Some(4_800)),
        ],
    });
    record.measurements.push(Measurement {
        id: "faults".into(),
        side: "dictum".into(),
        workload: "registers".into(),
        clients: 12,
        seconds: 600.0,
        throughput: 86.8,
        operations: BTreeMap::from([("get".into(), operation(&mut Chance::new(23), 52_101, 900_000.0, 5.0, false))]),
        ..Measurement::default()
    });
    record
}

/// Names and sentences that are much too long, and one measurement.
pub fn long_names() -> Record {
    let long = "a-name-that-nobody-would-type-but-that-a-script-made-of-all-its-settings-at-once".to_owned();
    let mut record = quick();
    record.title = format!("The experiment called {long}");
    record.question = format!("Is {long} slower than anything else with a name of {} letters?", long.len());
    record.measurements[0].workload = long.clone();
    record.measurements[0].series.clear();
    let mut other = record.measurements[0].clone();
    other.id = "other".into();
    other.variables = variables(&[("a_rather_long_variable_name", &long)]);
    other.operations.values_mut().for_each(|operation| operation.histogram = String::new());
    record.measurements.push(other);
    record.command =
        format!("dictum lab run {long} --{long}={long} --target redis://[2001:db8:85a3:8d3:1319:8a2e:370:7348]:7001");
    record
}

/// One measurement with one operation and nothing else.
pub fn single() -> Record {
    let mut record = base("run", "One measurement", "");
    record.measurements.push(Measurement {
        id: "only".into(),
        side: "dictum".into(),
        workload: "set".into(),
        clients: 1,
        seconds: 1.0,
        throughput: 812.0,
        operations: BTreeMap::from([("set".into(), operation(&mut Chance::new(29), 812, 1_100_000.0, 3.0, false))]),
        ..Measurement::default()
    });
    record.environment = Environment::default();
    record.sides.clear();
    record
}

/// Every sample with the name of its file.
pub fn all() -> Vec<(&'static str, Vec<Record>)> {
    let rich = vec![failover(), quick(), compare(), sweep(), scaling()];
    vec![
        ("rich", rich),
        ("violation", vec![violation()]),
        ("quick", vec![quick()]),
        ("long", vec![long_names()]),
        ("single", vec![single()]),
        ("empty-record", vec![Record::default()]),
        ("nothing", vec![]),
    ]
}
