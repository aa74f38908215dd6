//! What a run leaves behind: one folder with `record.json` in it, which reports, trends and `bench/` read.
//!
//! ```text
//! dictum-lab/2026-11-24T07-10-00-quick/
//!   record.json                     a Record, without what the other files hold
//!   series/MEASUREMENT.csv          a row for each second and operation (Second); the last column, which older
//!                                   records lack, are the steps of its histogram: `STEP:COUNT STEP:COUNT …`
//!   lags/MEASUREMENT.csv            a row for each look at a node (Lag), if it was looked how far nodes are behind
//!   history                         what the clients saw, if it was recorded (crate::history::format)
//!   history-NAME                    what witnesses beside a load saw, if there were any (crate::beside)
//!   histograms/MEASUREMENT.OPERATION.hdr    the raw histogram: HdrHistogram V2, deflated, base64, one line
//! ```
//!
//! Times are nanoseconds unless a name says otherwise. A field that is added later has a default, so that older records stay
//! readable; one that changes its meaning gets another name, and `FORMAT` grows.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The version of this form that is written.
pub const FORMAT: u32 = 1;

/// What stands in a note between the name of a setting and the reason why the record lacks it.
pub const NOT_MEASURED: &str = " was not measured: ";

/// How the note begins of a run that somebody ended.
pub const ENDED_EARLY: &str = "It was ended early";

/// One experiment, carried out once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`FORMAT`] of its writer.
    pub format: u32,
    /// The experiment's name as a word: `run`, `quick`, `tail-latency`, `failover`, `scaling` …
    pub experiment: String,
    /// Its headline for people.
    pub title: String,
    /// What it asks, as a question in one sentence.
    pub question: String,
    /// The command line, word for word, that carries it out again.
    pub command: String,
    /// When it began: milliseconds since 1970, UTC.
    pub started_ms: u64,
    /// Where it ran.
    pub environment: Environment,
    /// The systems that were measured.
    pub sides: Vec<Side>,
    /// What was measured, in the order in which it was.
    pub measurements: Vec<Measurement>,
    /// A law fitted to the measurements, if the experiment fits one.
    #[serde(default)]
    pub fits: Vec<Fit>,
    /// What checking the clients' history came to, if it was recorded.
    #[serde(default)]
    pub verdict: Option<Verdict>,
    /// What came out, in sentences that stand before the pictures.
    #[serde(default)]
    pub findings: Vec<String>,
    /// Sentences a reader must know: what was left out and why, what limits the figures.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// The machine, measured and asked when the run began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// The processor's name as its maker has it.
    pub cpu: String,
    /// How many processors may be used.
    pub cores: u32,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// The kernel's name and version.
    pub kernel: String,
    /// The file system that held the data, and its device.
    pub disk: String,
    /// Time for a write of 4 KiB and `fdatasync`, measured before the run: median.
    pub fsync_p50: u64,
    /// The same: 99th percentile.
    pub fsync_p99: u64,
    /// Share of the processors that was idle before the run, 0 to 1.
    pub idle: f64,
    /// Share of the processors that the hypervisor kept from this machine during the run, 0 to 1.
    pub stolen: f64,
    /// Versions of the programs that took part, by their name.
    pub versions: BTreeMap<String, String>,
}

/// One system under test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// A word that measurements refer to: `dictum`, `redis`, `etcd` …
    pub id: String,
    /// Its name and version for people.
    pub name: String,
    /// How many processes serve it.
    pub nodes: u32,
    /// When it answers a write, in words: `fsynced on a majority`.
    pub durability: String,
    /// What a read may miss, in words: `linearizable`.
    pub consistency: String,
    /// What was set, name and value.
    pub configuration: Vec<(String, String)>,
}

/// How operations are started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// Each client sends its next operation when the last one is answered.
    #[default]
    Closed,
    /// At a set rate, in equal steps, whatever the answers do.
    Constant,
    /// At a set rate on average, each independent of the others.
    Poisson,
}

/// One stretch of load on one side.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Unique in the record, and a file's name: letters, digits, `-`, `.`.
    pub id: String,
    /// [`Side::id`].
    pub side: String,
    /// What the experiment varied, and the value here: `records` → `100000`, `clients` → `64`.
    pub variables: BTreeMap<String, String>,
    /// The workload's name.
    pub workload: String,
    /// Connections that sent operations.
    pub clients: u32,
    /// How operations were started.
    pub arrivals: Arrivals,
    /// Operations asked for per second, all clients together; none in a closed loop.
    #[serde(default)]
    pub rate: Option<f64>,
    /// Length of the measured stretch in seconds.
    pub seconds: f64,
    /// Operations answered (without errors) per second.
    pub throughput: f64,
    /// Standard error of the throughput, from its per-second values; 0 if there are too few.
    #[serde(default)]
    pub throughput_error: f64,
    /// Each kind of operation, by its name: `read`, `update`, `insert`, `scan`, `read-modify-write` …
    pub operations: BTreeMap<String, Operation>,
    /// Errors by what they said, cut to the first words.
    #[serde(default)]
    pub errors: BTreeMap<String, u64>,
    /// What the load generator says of itself.
    pub generator: Generator,
    /// What happened on the way: a leader killed, a node back.
    #[serde(default)]
    pub marks: Vec<Mark>,
    /// Stretches in which nothing was answered, the longest first, a thousand at most.
    #[serde(default)]
    pub gaps: Vec<Gap>,
    /// Further figures by name, with the unit last in the name: `cpu_us_per_operation`, `fsyncs_per_operation`.
    #[serde(default)]
    pub counters: BTreeMap<String, f64>,
    /// Second by second; in `series/` on disk.
    #[serde(skip)]
    pub series: Vec<Second>,
    /// How far nodes were behind, in order of time; in `lags/` on disk; empty where nobody looked.
    #[serde(skip)]
    pub lags: Vec<Lag>,
}

/// One kind of operation in one measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// Answered without an error.
    pub count: u64,
    /// Answered with an error, or not at all.
    pub errors: u64,
    /// From the intended start to the answer: what a user waits. In a closed loop the intended start is the sending.
    pub latency: Spread,
    /// From the sending to the answer: what a generator without a schedule would tell. Beside `latency` it shows what coordinated
    /// omission would have hidden.
    #[serde(default)]
    pub service: Option<Spread>,
    /// The raw histogram of `latency`: HdrHistogram V2, deflated, base64; in `histograms/` on disk.
    #[serde(skip)]
    pub histogram: String,
}

/// How values are spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Least.
    pub min: u64,
    /// Mean.
    pub mean: f64,
    /// Half are at most so much.
    pub p50: u64,
    /// 90 of 100.
    pub p90: u64,
    /// 95 of 100.
    pub p95: u64,
    /// 99 of 100.
    pub p99: u64,
    /// 999 of 1,000.
    pub p999: u64,
    /// 9,999 of 10,000.
    pub p9999: u64,
    /// Greatest.
    pub max: u64,
}

/// What the generator says of itself. A saturated one measured itself: its figures are not shown as the server's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Generator {
    /// Threads that sent.
    pub threads: u32,
    /// Greatest share of a second that its busiest thread had work to do (any second of the run), 0 to 1.
    pub busy: f64,
    /// How late operations left, after their intended start although their client was free: 99th percentile.
    pub late_p99: u64,
    /// Whether it, and not the server, may have set the figures.
    pub saturated: bool,
    /// Why it says so, in a sentence; empty if it is not saturated.
    #[serde(default)]
    pub reason: String,
}

/// Something that happened during a measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Mark {
    /// Milliseconds since the measurement began.
    pub at_ms: f64,
    /// In few words: `n1 killed`.
    pub what: String,
}

/// A stretch without an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Gap {
    /// Milliseconds since the measurement began.
    pub at_ms: f64,
    /// Milliseconds.
    pub length_ms: f64,
}

/// One second of one operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// Seconds since the measurement began.
    pub second: u32,
    /// The operation's name.
    pub operation: String,
    /// Answered without an error in this second.
    pub count: u64,
    /// Errors in this second.
    pub errors: u64,
    /// Latencies of what was answered in this second.
    pub latency: Spread,
    /// The same as a coarse histogram: how many fell into which step, in order of the steps, of which step s holds times from 2^(s/8) to
    /// below 2^((s+1)/8) nanoseconds ([`crate::statistics::steps`]). Empty in older records.
    #[serde(default)]
    pub steps: Vec<(u16, u64)>,
}

/// How far one node was behind the others at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lag {
    /// Milliseconds since the measurement began.
    pub at_ms: f64,
    /// The node's name.
    pub node: String,
    /// Entries of the log that another node had applied and this one had not; none if it did not answer.
    pub entries: Option<u64>,
}

/// A law fitted to throughput against a variable.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// The side it is of.
    pub side: String,
    /// The variable along the axis: `clients`, `nodes`, `partitions`.
    pub variable: String,
    /// The points: variable, operations per second.
    pub points: Vec<(f64, f64)>,
    /// λ: throughput of one, with its 95 % limits.
    pub lambda: Limits,
    /// σ: contention, with its 95 % limits.
    pub sigma: Limits,
    /// κ: coherence, with its 95 % limits.
    pub kappa: Limits,
    /// Where the throughput is greatest, if there is such a place.
    pub peak_at: Option<f64>,
    /// Share of the variance that the law explains, at most 1.
    pub r_squared: f64,
}

/// A value between its confidence limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// The estimate.
    pub value: f64,
    /// 95 % limit below.
    pub low: f64,
    /// 95 % limit above.
    pub high: f64,
}

/// What checking a history came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Whether every property held, surely.
    pub holds: bool,
    /// Operations of the history, without those that surely were not done, which no order needs; 0 in older records, which do not tell.
    #[serde(default)]
    pub operations: u64,
    /// How many of them are on keys whose history was decided: an order of it was found, or that there is none.
    #[serde(default)]
    pub decided: u64,
    /// Keys that the operations are on.
    #[serde(default)]
    pub keys: u64,
    /// Whether they are of witnesses beside the load ([`crate::beside`]), and not the load's own.
    #[serde(default)]
    pub beside: bool,
    /// One line for each property: its name, whether it held, and what was looked at.
    pub properties: Vec<Property>,
    /// The smallest part of the history that breaks one, if one is broken.
    #[serde(default)]
    pub offending: Vec<Event>,
}

/// One property and what became of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Property {
    /// In English: `every read sees the last acknowledged write of its key`.
    pub name: String,
    /// Whether it held.
    pub holds: bool,
    /// Whether it was not decided within the limits: then `holds` is false, and nothing is known to break it.
    #[serde(default)]
    pub undecided: bool,
    /// What was looked at, or what breaks it, in a sentence.
    pub detail: String,
}

/// One operation of a client, for the drawing of a violation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The client's number.
    pub client: u32,
    /// What it asked, in words: `set k 7`.
    pub asked: String,
    /// What it was answered, in words; empty if it never was.
    pub answered: String,
    /// When it asked: since the history began.
    pub from: u64,
    /// When it was answered; none if it never was.
    pub until: Option<u64>,
}
