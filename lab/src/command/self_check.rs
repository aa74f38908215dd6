//! `dictum lab self-check`: what the load generator costs, beside redis-benchmark on the same redis-server in the same run.
//!
//! 1. Throughput: 50 clients, pipeline 16, SET and GET of 3 bytes under one key, one thread against one thread. The lab's must
//!    be at least 0.8 of redis-benchmark's.
//! 2. Latency: one client, SET. The lab's median may be at most 10 µs above redis-benchmark's.
//!
//! Both take turns, so that a disturbance of the machine meets both; the best of the rounds counts for each.

use std::io::Read;
use std::net::TcpListener;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use clap::Args;

use crate::drive::Target;
use crate::drive::blocking::Blocking;
use crate::load::{Load, run as run_load};
use crate::workload::{Draft, Draw, Workload};

/// The lab's throughput is at least this share of redis-benchmark's.
const THROUGHPUT_SHARE_MIN: f64 = 0.8;
/// The lab's median is at most this much above redis-benchmark's.
const ADDED_MAX_US: f64 = 10.0;

/// Arguments of `dictum lab self-check`.
#[derive(Clone, Debug, Args)]
pub struct SelfCheckArguments {
    /// Rounds of each measurement.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Operations of each round with a pipeline.
    #[arg(long, default_value_t = 1_000_000)]
    operations: u64,
}

/// A redis-server in memory, ended when this is dropped.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start() -> Result<Server, String> {
        // The port is free now; should another program take it in between, the server says so and ends.
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .map_err(|error| format!("no free port: {error}"))?
            .port();
        let child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(["--dir", &std::env::temp_dir().to_string_lossy()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| {
                format!(
                    "redis-server cannot be started: {error}. Install it (for example apt-get install redis-server)"
                )
            })?;
        let server = Server { child, port };
        let deadline = Instant::now() + Duration::from_secs(10);
        let address = ([127, 0, 0, 1], port).into();
        while Instant::now() < deadline {
            let opened = Blocking::open(address, &(Vec::new(), 0), Duration::from_secs(1));
            if opened.and_then(|mut connection| connection.ask(&["PING"])).is_ok() {
                return Ok(server);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err("redis-server did not answer within 10 s".to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It holds nothing that is wanted; whether it had ended already does not matter.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The command that redis-benchmark sends: one key, three bytes.
struct Plain {
    set: bool,
}

impl Workload for Plain {
    fn kinds(&self) -> Vec<String> {
        vec![if self.set { "set" } else { "get" }.to_owned()]
    }

    fn records(&self) -> u64 {
        0
    }

    fn load(&self, _number: u64, _draft: &mut Draft) {}

    fn draw(&self, _seed: u64) -> Result<Box<dyn Draw>, String> {
        Ok(Box::new(Plain { set: self.set }))
    }
}

impl Draw for Plain {
    fn next(&mut self, _client: u32, draft: &mut Draft) -> bool {
        if self.set {
            draft.command(b"SET").word(b"key:__rand_int__").word(b"VXK");
        } else {
            draft.command(b"GET").word(b"key:__rand_int__");
        }
        true
    }
}

/// Throughput, and the median in microseconds.
type Figures = (f64, f64);

fn lab(port: u16, set: bool, clients: u32, pipeline: u32, operations: u64) -> Result<(Figures, f64), String> {
    let mut load = Load::new(Target::parse(&format!("redis://127.0.0.1:{port}"))?);
    (load.clients, load.pipeline, load.threads) = (clients, pipeline, 1);
    (load.operations, load.seconds) = (Some(operations), f64::INFINITY);
    let (measured, _) = run_load(&load, &Plain { set }, None, &AtomicBool::new(false), &mut |_| {})?;
    let median = measured.operations.values().next().map_or(0, |operation| operation.latency.p50);
    Ok(((measured.throughput, median as f64 / 1e3), measured.generator.busy))
}

fn redis_benchmark(port: u16, set: bool, clients: u32, pipeline: u32, operations: u64) -> Result<Figures, String> {
    let name = if set { "set" } else { "get" };
    let mut child = Command::new("redis-benchmark")
        .args(["-p", &port.to_string(), "-t", name, "-c", &clients.to_string(), "-P", &pipeline.to_string()])
        .args(["-n", &operations.to_string(), "--csv", "--precision", "3"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| {
            format!("redis-benchmark cannot be started: {error}. Install it (apt-get install redis-tools)")
        })?;
    let mut text = String::new();
    let read = child.stdout.take().map(|mut out| out.read_to_string(&mut text));
    child.wait().map_err(|error| format!("redis-benchmark: {error}"))?;
    read.transpose().map_err(|error| format!("redis-benchmark: {error}"))?;
    benchmark_figures(&text).ok_or_else(|| format!("redis-benchmark said something unexpected: {text}"))
}

/// Reads the last line of `--csv`: "test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms",…
fn benchmark_figures(text: &str) -> Option<Figures> {
    let cells: Vec<&str> = text.lines().last()?.split(',').map(|cell| cell.trim().trim_matches('"')).collect();
    Some((cells.get(1)?.parse().ok()?, cells.get(4)?.parse::<f64>().ok()? * 1e3))
}

/// Carries the check out: 0 if both hold, else 1.
///
/// # Errors
/// A sentence, if redis-server or redis-benchmark is missing.
pub(super) fn run(arguments: &SelfCheckArguments) -> Result<ExitCode, String> {
    let server = Server::start()?;
    let mut holds = true;
    for set in [true, false] {
        let (mut ours, mut theirs, mut busy) = (0.0f64, 0.0f64, 0.0f64);
        for _ in 0..arguments.rounds.max(1) {
            theirs = theirs.max(redis_benchmark(server.port, set, 50, 16, arguments.operations)?.0);
            let (figures, share) = lab(server.port, set, 50, 16, arguments.operations)?;
            if figures.0 > ours {
                (ours, busy) = (figures.0, share);
            }
        }
        let ratio = ours / theirs;
        let good = ratio >= THROUGHPUT_SHARE_MIN;
        holds &= good;
        crate::say_line!(
            "{} pipeline 16, 50 clients: lab {ours:.0}/s (busy {:.0} %), redis-benchmark {theirs:.0}/s, ratio {ratio:.2}: {} \
             (at least {THROUGHPUT_SHARE_MIN})",
            if set { "SET" } else { "GET" },
            busy * 100.0,
            word(good)
        );
    }
    let operations = (arguments.operations / 20).max(1_000);
    let (mut ours, mut theirs) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..arguments.rounds.max(1) {
        theirs = theirs.min(redis_benchmark(server.port, true, 1, 1, operations)?.1);
        ours = ours.min(lab(server.port, true, 1, 1, operations)?.0.1);
    }
    let good = ours - theirs <= ADDED_MAX_US;
    holds &= good;
    crate::say_line!(
        "SET one client: median lab {ours:.1} µs, redis-benchmark {theirs:.1} µs, added {:.1} µs: {} (at most {ADDED_MAX_US})",
        ours - theirs,
        word(good)
    );
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn word(good: bool) -> &'static str {
    if good { "holds" } else { "FAILS" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_benchmarks_line_is_read() {
        let text = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\"\n\
            \"SET\",\"925925.94\",\"0.736\",\"0.208\",\"0.727\",\"0.903\"\n";
        assert_eq!(benchmark_figures(text), Some((925_925.94, 727.0)));
        assert_eq!(benchmark_figures("no"), None);
    }
}
