//! Synthetic records of machines that were never built.

use super::*;
use crate::record::{Arrivals, Operation, Spread};

fn run(cores: u32, measured: &[(&str, f64, u64)]) -> Record {
    let measurement = |(repeat, (workload, throughput, p99_ms)): (usize, &(&str, f64, u64))| {
        let latency = Spread { p99: p99_ms * 1_000_000, ..Spread::default() };
        let operation = Operation { count: 1_000, latency, ..Operation::default() };
        Measurement {
            id: format!("run-{repeat}"),
            side: "target".to_owned(),
            workload: (*workload).to_owned(),
            clients: 64,
            throughput: *throughput,
            operations: [("read".to_owned(), operation)].into(),
            variables: [("repeat".to_owned(), repeat.to_string())].into(),
            ..Measurement::default()
        }
    };
    let environment = Environment { cores, memory_bytes: u64::from(cores) * (4 << 30), ..Environment::default() };
    Record { environment, measurements: measured.iter().enumerate().map(measurement).collect(), ..Record::default() }
}

fn cost(runs: &[&str], price: &[&str]) -> Cost {
    let own = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    let output = Output { out: "out".into(), output: "report.html".into(), quiet: true };
    Cost { runs: own(runs), price: own(price), output }
}

/// Four sizes, each twice as dear: the tail falls steeply up to the second one.
fn read(folder: &Path) -> Result<Record, String> {
    match folder.to_str() {
        Some("one") => Ok(run(1, &[("ycsb-a", 1_000.0, 100)])),
        Some("two") => {
            Ok(run(2, &[("ycsb-a", 2_400.0, 18), ("ycsb-a", 2_500.0, 20), ("ycsb-a", 2_600.0, 90), ("ycsb-b", 9.0, 1)]))
        }
        Some("four") => Ok(run(4, &[("ycsb-a", 4_000.0, 15)])),
        Some("eight") => Ok(run(8, &[("ycsb-a", 5_000.0, 12)])),
        Some("other") => Ok(run(16, &[("ycsb-c", 5_000.0, 12)])),
        _ => Err(format!("{}: there is no record", folder.display())),
    }
}

#[test]
fn machines_are_put_in_order_and_compared() {
    let cost = cost(
        &["large=four", "small=one", "huge=eight", "medium=two"],
        &["small=0.1", "medium=0.2", "large=0.4", "huge=0.8"],
    );
    let machines = cost.machines(read).expect("all can be read");
    let mut record = Record::default();
    put_together(&machines, &mut record).expect("they have one setting in common");
    let names: Vec<&str> = record.measurements.iter().map(|m| m.variables["machine"].as_str()).collect();
    assert_eq!(names, ["small", "medium", "medium", "medium", "large", "huge"], "and ycsb-b is left out");
    let counters = &record.measurements[0].counters;
    // 0.1 buys 3,600 s × 1,000 operations.
    assert!((counters["price_per_million_operations"] - 0.1 / 3.6).abs() < 1e-12, "{counters:?}");
    assert_eq!((counters["cores"], counters["memory_gib"]), (1.0, 4.0));
    let all = record.findings.join("\n");
    assert!(
        all.contains("medium: 2 500 operations/s, p99 20.0\u{a0}ms, 0.022")
            || all.contains("medium: 2\u{202f}500 operations/s, p99 20.0\u{a0}ms, 0.022"),
        "{all}"
    );
    assert!(all.contains("The cheapest operation is that of medium."), "{all}");
    assert!(all.contains("The inflection of p99 against price is at medium"), "{all}");
}

#[test]
fn without_prices_the_size_counts() {
    let machines = cost(&["one", "two", "four"], &[]).machines(read).expect("all can be read");
    assert_eq!(machines[1].name, "2 cores, 8 GiB");
    let mut record = Record::default();
    put_together(&machines, &mut record).expect("they have one setting in common");
    let all = record.findings.join("\n");
    assert!(all.contains("against cores is at 2 cores, 8 GiB") && !all.contains("million"), "{all}");
    assert!(!record.measurements[0].counters.contains_key("price_per_hour"));
}

#[test]
fn what_cannot_be_compared_is_told() {
    let told = |runs: &[&str], price: &[&str]| {
        let machines = cost(runs, price).machines(read)?;
        put_together(&machines, &mut Record::default())
    };
    assert!(told(&["one", "other"], &[]).unwrap_err().contains("the same command on each"));
    assert!(told(&["one", "none"], &[]).unwrap_err().contains("there is no record"));
    assert!(told(&["a=one", "a=two"], &[]).unwrap_err().contains("two machines are called a"));
    assert!(told(&["a=one", "b=two"], &["c=1"]).unwrap_err().contains("write one of a, b"));
    assert!(told(&["a=one", "b=two"], &["a=cheap"]).unwrap_err().contains("NAME=PRICE"));
    assert!(told(&["a=one", "b=two"], &["a=-1"]).is_err());
    let mut saturated = run(2, &[("ycsb-a", 1.0, 1)]);
    saturated.measurements[0].generator.saturated = true;
    let machine = Machine { name: "a".to_owned(), price: None, record: saturated };
    assert!(put_together(&[machine], &mut Record::default()).unwrap_err().contains("saturated"));
}

#[test]
fn a_setting_is_what_must_be_alike() {
    let mut one = run(1, &[("ycsb-a", 1.0, 1)]).measurements.remove(0);
    let closed = setting(&one);
    one.variables.insert("repeat".to_owned(), "7".to_owned());
    assert_eq!(setting(&one), closed);
    (one.arrivals, one.rate) = (Arrivals::Poisson, Some(500.0));
    assert_ne!(setting(&one), closed);
}

#[test]
fn knees_of_known_curves() {
    // y = 1/x at 1, 2, 4, 8: below the line by 0, 0.43, 0.43 − …: the deepest is x = 2 (0.8571 − 0.4286 = 0.4286) before x = 4
    // (0.5714 − 0.1429 = 0.4286); the tie goes to neither by chance: 3 settles it.
    let hyperbola: Vec<(f64, f64)> = [1.0, 2.0, 3.0, 4.0, 8.0].map(|x| (x, 1.0 / x)).to_vec();
    assert_eq!(knee(&hyperbola), Ok(Some(2)));
    assert_eq!(knee(&[(1.0, 3.0), (2.0, 2.0), (3.0, 1.0)]), Ok(None), "a straight line bends nowhere");
    assert_eq!(knee(&[(1.0, 3.0), (2.0, 2.9), (3.0, 1.0)]), Ok(None), "it bends the other way");
    assert!(knee(&[(1.0, 3.0), (2.0, 1.0)]).is_err() && knee(&[]).is_err());
    assert!(knee(&[(2.0, 3.0), (2.0, 2.0), (2.0, 1.0)]).is_err());
    assert!(knee(&[(1.0, 1.0), (2.0, 0.5), (3.0, 2.0)]).is_err());
}
