//! `ycsb-a` … `ycsb-f`: the core workloads of the Yahoo! Cloud Serving Benchmark (Cooper et al., SoCC 2010; the shares and
//! distributions of `workloads/workloada` … `workloadf` in brianfrankcooper/YCSB). What YCSB calls zipfian is `scrambled` here.

use super::records::{Defaults, build};
use super::{Distribution, Shape};

const PARAMETERS: &[&str] =
    &["records", "fields", "field-bytes", "distribution", "mix (read, update, insert, scan, read-modify-write)"];

const POPULAR: Distribution = Distribution::Scrambled { theta: 0.99 };
const NEWEST: Distribution = Distribution::Latest { theta: 0.99 };

/// Update heavy.
pub const A: Shape = Shape {
    name: "ycsb-a",
    sentence: "half reads, half updates of records, as a store of sessions (YCSB A)",
    parameters: PARAMETERS,
    build: |parameters| build(Defaults { shares: [50.0, 50.0, 0.0, 0.0, 0.0], distribution: POPULAR }, parameters),
};

/// Read mostly.
pub const B: Shape = Shape {
    name: "ycsb-b",
    sentence: "95 % reads, 5 % updates, as tags of pictures (YCSB B)",
    parameters: PARAMETERS,
    build: |parameters| build(Defaults { shares: [95.0, 5.0, 0.0, 0.0, 0.0], distribution: POPULAR }, parameters),
};

/// Read only.
pub const C: Shape = Shape {
    name: "ycsb-c",
    sentence: "reads only, as a cache of profiles (YCSB C)",
    parameters: PARAMETERS,
    build: |parameters| build(Defaults { shares: [100.0, 0.0, 0.0, 0.0, 0.0], distribution: POPULAR }, parameters),
};

/// Read latest.
pub const D: Shape = Shape {
    name: "ycsb-d",
    sentence: "95 % reads of the newest records, 5 % inserts, as status updates (YCSB D)",
    parameters: PARAMETERS,
    build: |parameters| build(Defaults { shares: [95.0, 0.0, 5.0, 0.0, 0.0], distribution: NEWEST }, parameters),
};

/// Short ranges.
pub const E: Shape = Shape {
    name: "ycsb-e",
    sentence: "95 % scans of 1 to 100 records, 5 % inserts, as threads of a conversation (YCSB E)",
    parameters: PARAMETERS,
    build: |parameters| build(Defaults { shares: [0.0, 0.0, 5.0, 95.0, 0.0], distribution: POPULAR }, parameters),
};

/// Read-modify-write.
pub const F: Shape = Shape {
    name: "ycsb-f",
    sentence: "half reads, half read-modify-writes, as a database of users (YCSB F)",
    parameters: PARAMETERS,
    build: |parameters| build(Defaults { shares: [50.0, 0.0, 0.0, 0.0, 50.0], distribution: POPULAR }, parameters),
};
