//! How rivals are driven that do not speak RESP: by a program of its own, `lab-peers`, which a plain build does not compile, and which
//! is asked in JSON, one document on each line.
//!
//! ```text
//! dictum lab compare ── stdin ──▶  {"format":1,"peer":"etcd","addresses":["127.0.0.1:2379"],"task":"run","workload":"ycsb-a", …}
//!                    ◀─ stdout ──  {"second":{"second":0,"warming_up":true,"throughput":4011,"errors":0,"total":4011}}
//!                    ◀─ stdout ──  {"measured":{"measurement":{…},"histograms":{"read":"…"},"series":[…],"notes":[…]}}
//!                    ◀─ stdout ──  or {"error":"what went wrong and what to do"}
//! ```
//!
//! One process does one [`Request`]: it fills records in, or carries a closed loop out. It ends when it has answered, and at once when
//! its standard input closes, so that it does not outlive who asked. What it says on standard error goes to people.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde::{Deserialize, Serialize};

use crate::load::{Measured, Snapshot};
use crate::record::{Measurement, Second};
use crate::workload::{Parameters, Workload, find, parse_mix};

/// The version of this form.
pub const FORMAT: u32 = 1;
/// The program's name.
pub const PROGRAM: &str = "lab-peers";
/// How it is built.
pub const ADVICE: &str = "build it with `cargo build --release --manifest-path lab-peers/Cargo.toml` in Dictum's sources (bench/peers \
                          does so itself), name it with --peers-program, or leave this side out";
/// Bytes of one line at most: a measurement of hours, second by second, is less.
const LINE_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// What is to be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// Every record of the workload is written once.
    Load,
    /// The workload's operations, in a closed loop.
    #[default]
    Run,
}

/// What the program is asked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// [`FORMAT`] of who asks.
    pub format: u32,
    /// The rival: `etcd`, `cassandra` or `nats`.
    pub peer: String,
    /// Its nodes, `IP:PORT`, at least one. Clients begin with one after the other; after an answer that does not come they go on with
    /// the next one.
    pub addresses: Vec<String>,
    /// What is to be done.
    pub task: Task,
    /// One of [`crate::workload::SHAPES`] whose operations are on single keys.
    pub workload: String,
    /// [`Parameters::records`].
    #[serde(default)]
    pub records: Option<u64>,
    /// [`Parameters::fields`].
    #[serde(default)]
    pub fields: Option<u32>,
    /// [`Parameters::field_bytes`].
    #[serde(default)]
    pub field_bytes: Option<usize>,
    /// [`Parameters::mix`], as [`parse_mix`] reads it.
    #[serde(default)]
    pub mix: Option<String>,
    /// Clients, each with one operation under way.
    pub clients: u32,
    /// Connections that they share.
    pub connections: u32,
    /// Seconds at the beginning that do not count.
    pub warm_up: u32,
    /// Seconds that count. Not looked at by [`Task::Load`].
    pub seconds: f64,
    /// Milliseconds after which an answer is given up.
    pub timeout_ms: u64,
    /// Where chance begins.
    pub seed: u64,
}

impl Request {
    /// The workload that is asked for.
    ///
    /// # Errors
    /// A sentence that says what cannot be so.
    pub fn workload(&self) -> Result<Box<dyn Workload>, String> {
        let parameters = Parameters {
            records: self.records,
            fields: self.fields,
            field_bytes: self.field_bytes,
            mix: self.mix.as_deref().map(parse_mix).transpose()?,
            seed: self.seed,
            ..Parameters::default()
        };
        (find(&self.workload)?.build)(&parameters)
    }
}

/// A line of what it answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Line {
    /// How the load goes; at the end of each second.
    Second(Progress),
    /// The end: what the load came to.
    Measured(Box<Outcome>),
    /// The end: why there is nothing.
    Error(String),
}

/// One second of the load; the fields are those of [`Snapshot`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Seconds since the load began, with its warming up.
    pub second: u32,
    /// Whether it does not count.
    pub warming_up: bool,
    /// Answered without an error in this second.
    pub throughput: u64,
    /// Errors in this second.
    pub errors: u64,
    /// Answered since the load began.
    pub total: u64,
}

impl Progress {
    /// What of a snapshot is told.
    #[must_use]
    pub fn of(snapshot: &Snapshot) -> Progress {
        let Snapshot { second, warming_up, throughput, errors, total, .. } = *snapshot;
        Progress { second, warming_up, throughput, errors, total }
    }

    fn snapshot(&self) -> Snapshot {
        let Progress { second, warming_up, throughput, errors, total } = *self;
        Snapshot { second, warming_up, throughput, errors, total, ..Snapshot::default() }
    }
}

/// A measurement with what its own form leaves to other files.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The figures, without the names that only the one who asks knows.
    pub measurement: Measurement,
    /// [`crate::record::Operation::histogram`] by the operation's name.
    pub histograms: BTreeMap<String, String>,
    /// [`Measurement::series`].
    pub series: Vec<Second>,
    /// Sentences for the record's notes.
    pub notes: Vec<String>,
}

impl Outcome {
    /// Takes a measurement apart.
    #[must_use]
    pub fn of((mut measurement, notes): Measured) -> Outcome {
        let series = std::mem::take(&mut measurement.series);
        let take =
            |(name, of): (&String, &mut crate::record::Operation)| (name.clone(), std::mem::take(&mut of.histogram));
        let histograms = measurement.operations.iter_mut().map(take).collect();
        Outcome { measurement, histograms, series, notes }
    }

    /// Puts it together again.
    #[must_use]
    pub fn measured(mut self) -> Measured {
        for (name, operation) in &mut self.measurement.operations {
            operation.histogram = self.histograms.remove(name).unwrap_or_default();
        }
        self.measurement.series = self.series;
        (self.measurement, self.notes)
    }
}

/// Where the program is: as `given`; or beside this program, in the sources' `lab-peers/target/release` below the current folder, or in a
/// folder of `PATH`.
///
/// # Errors
/// When it is nowhere; the text says how to build it.
pub fn locate(given: Option<&Path>) -> Result<PathBuf, String> {
    if let Some(given) = given {
        return if given.is_file() {
            Ok(given.to_owned())
        } else {
            Err(format!("{} is no program: {ADVICE}", given.display()))
        };
    }
    let beside = std::env::current_exe().ok().and_then(|program| program.parent().map(Path::to_owned));
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let folders = beside.into_iter().chain(["lab-peers/target/release".into()]).chain(std::env::split_paths(&paths));
    let found = folders.map(|folder| folder.join(PROGRAM)).find(|path| path.is_file());
    found.ok_or_else(|| format!("{PROGRAM} is not on this machine: {ADVICE}"))
}

/// Ends the child when it is dropped.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // Whether it has ended by itself does not matter.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Lets the program do it. `on_second` is called with each second that it tells.
///
/// # Errors
/// What it says went wrong; or that it cannot be started, or does not keep to the form.
pub fn ask(program: &Path, request: &Request, on_second: &mut dyn FnMut(&Snapshot)) -> Result<Measured, String> {
    let failed = |reason: &dyn std::fmt::Display| format!("{}: {reason}", program.display());
    let child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{} cannot be started: {error}; {ADVICE}", program.display()))?;
    let mut child = Ended(child);
    let (Some(mut stdin), Some(stdout)) = (child.0.stdin.take(), child.0.stdout.take()) else {
        return Err(failed(&"it has no standard input or output"));
    };
    let text = serde_json::to_string(request).map_err(|error| failed(&error))?;
    writeln!(stdin, "{text}").and_then(|()| stdin.flush()).map_err(|error| failed(&error))?;
    let mut lines = BufReader::new(stdout);
    let outcome = read_answer(&mut lines, on_second).map_err(|error| failed(&error));
    // Held until here: when it closes, the program ends.
    drop(stdin);
    outcome
}

fn read_answer(lines: &mut impl BufRead, on_second: &mut dyn FnMut(&Snapshot)) -> Result<Measured, String> {
    loop {
        let mut line = String::new();
        let count = lines.take(LINE_BYTES_MAX).read_line(&mut line).map_err(|error| error.to_string())?;
        if count == 0 {
            return Err("it ended without an answer; what it said is above".to_owned());
        }
        match serde_json::from_str(&line) {
            Ok(Line::Second(progress)) => on_second(&progress.snapshot()),
            Ok(Line::Measured(outcome)) => return Ok(outcome.measured()),
            Ok(Line::Error(error)) => return Err(error),
            Err(error) => {
                return Err(format!("its answer is not understood ({error}): is it of this version? {ADVICE}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Operation;

    #[test]
    fn a_measurement_survives_the_way() {
        let mut measurement =
            Measurement { throughput: 7.5, series: vec![Second::default()], ..Measurement::default() };
        let operation = Operation { count: 3, histogram: "HISTFAAA".to_owned(), ..Operation::default() };
        measurement.operations.insert("read".to_owned(), operation);
        let told = Line::Measured(Box::new(Outcome::of((measurement.clone(), vec!["a note".to_owned()]))));
        let second = Line::Second(Progress { second: 4, throughput: 9, ..Progress::default() });
        let text = [second, told].map(|line| serde_json::to_string(&line).unwrap()).join("\n");
        let mut seen = Vec::new();
        let answer =
            read_answer(&mut text.as_bytes(), &mut |snapshot| seen.push((snapshot.second, snapshot.throughput)));
        assert_eq!(answer.unwrap(), (measurement, vec!["a note".to_owned()]));
        assert_eq!(seen, [(4, 9)]);
    }

    #[test]
    fn what_is_no_answer_is_told() {
        let answer = |text: &str| read_answer(&mut text.as_bytes(), &mut |_| {}).unwrap_err();
        assert_eq!(answer("{\"error\":\"no etcd there\"}\n"), "no etcd there");
        assert!(answer("").contains("without an answer"));
        assert!(answer("hello\n").contains("not understood"));
    }

    #[test]
    fn a_program_that_is_not_there_is_told_with_the_way_to_build_it() {
        let told = locate(Some(Path::new("/nowhere/lab-peers"))).unwrap_err();
        assert!(told.contains("cargo build --release"), "{told}");
    }

    #[test]
    fn requests_name_their_workload() {
        let mut request =
            Request { workload: "puts-gets".to_owned(), mix: Some("put=1".to_owned()), ..Request::default() };
        request.records = Some(7);
        assert_eq!(request.workload().unwrap().records(), 7);
        request.mix = Some("throw=1".to_owned());
        assert!(request.workload().err().unwrap().contains("no kind"));
    }
}
