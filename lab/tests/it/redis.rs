//! The drivers and every workload against a real redis-server, where one is installed.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use clap::Parser;
use lab::command::LabArguments;
use lab::drive::Target;
use lab::drive::blocking::Blocking;
use lab::history::{Ask, Limits, Recorder, check, format};
use lab::load::{Historian, Load, Measured, run};
use lab::workload::{Fill, Parameters, SHAPES, Workload, find};

/// A redis-server of its own, ended with the test.
struct Server {
    child: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Server {
    /// None, and a message, if there is no redis-server here.
    fn start(options: &[&str]) -> Option<Server> {
        if Command::new("redis-server").arg("--version").stdout(Stdio::null()).status().is_err() {
            eprintln!("skipped: redis-server is not installed");
            return None;
        }
        // In cluster mode the port above by 10,000 is taken too, so that both must be there.
        for _ in 0..20 {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            if port > 55_000 {
                continue;
            }
            let folder = tempfile::tempdir().unwrap();
            let child = Command::new("redis-server")
                .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
                .args(options)
                .current_dir(folder.path())
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            let mut server = Server { child, port, _folder: folder };
            if server.answers() {
                return Some(server);
            }
        }
        panic!("no redis-server would start");
    }

    fn answers(&mut self) -> bool {
        let deadline = Instant::now() + Duration::from_secs(10);
        while Instant::now() < deadline && self.child.try_wait().unwrap().is_none() {
            if self.ask(&["PING"]).is_ok() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }

    fn ask(&self, words: &[&str]) -> Result<wire::Value, String> {
        let address = ([127, 0, 0, 1], self.port).into();
        Blocking::open(address, &(Vec::new(), 0), Duration::from_secs(5))?.ask(words)
    }

    fn load(&self, scheme: &str) -> Load {
        let mut load = Load::new(Target::parse(&format!("{scheme}://127.0.0.1:{}", self.port)).unwrap());
        load.clients = 8;
        load.seconds = f64::INFINITY;
        load
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn built(name: &str, records: u64) -> Arc<dyn Workload> {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/workload/example.toml");
    let small = (name == "large").then_some(100_000);
    let parameters =
        Parameters { records: Some(records), field_bytes: small, file: Some(file), ..Parameters::default() };
    Arc::from((find(name).unwrap().build)(&parameters).unwrap())
}

fn fill_and_run(load: &Load, name: &str, records: u64) -> Measured {
    let workload = built(name, records);
    let stop = AtomicBool::new(false);
    let (filled, _) = run(load, &Fill::new(Arc::clone(&workload)), None, &stop, &mut |_| {}).unwrap();
    assert!(filled.errors.is_empty(), "{name}: {:?}", filled.errors);
    if workload.records() > 0 {
        assert_eq!(filled.operations["load"].count, workload.records(), "{name}");
    }
    let mut load = load.clone();
    load.operations = Some(1_500);
    run(&load, workload.as_ref(), None, &stop, &mut |_| {}).unwrap()
}

#[test]
fn every_workload_runs_without_an_error() {
    let Some(server) = Server::start(&[]) else { return };
    for shape in SHAPES {
        server.ask(&["FLUSHALL"]).unwrap();
        let (measured, _) = fill_and_run(&server.load("redis"), shape.name, 50);
        assert!(measured.errors.is_empty(), "{}: {:?}", shape.name, measured.errors);
        let answered: u64 = measured.operations.values().map(|operation| operation.count).sum();
        assert_eq!(answered, 1_500, "{}", shape.name);
    }
}

#[test]
fn records_and_inserts_are_where_they_should_be() {
    let Some(server) = Server::start(&[]) else { return };
    let (measured, _) = fill_and_run(&server.load("redis"), "ycsb-d", 100);
    let inserted = measured.operations["insert"].count;
    // 5 of 100; the standard deviation of 1,500 draws is 8.4.
    assert!((40..115).contains(&inserted), "{inserted}");
    // Every record, and the index of them.
    assert_eq!(server.ask(&["DBSIZE"]).unwrap().as_integer(), Some((100 + inserted + 1) as i64));
    assert_eq!(server.ask(&["ZCARD", "_indices"]).unwrap().as_integer(), Some((100 + inserted) as i64));
}

#[test]
fn a_password_is_given() {
    let Some(server) = Server::start(&["--requirepass", "secret"]) else { return };
    let mut load = server.load("redis");
    load.operations = Some(100);
    let workload = built("counter", 5);
    let stop = AtomicBool::new(false);
    load.target = Target::parse(&format!("redis://:secret@127.0.0.1:{}", server.port)).unwrap();
    let (measured, _) = run(&load, workload.as_ref(), None, &stop, &mut |_| {}).unwrap();
    assert_eq!(measured.operations["increment"].count, 100);
    load.target = Target::parse(&format!("redis://:wrong@127.0.0.1:{}", server.port)).unwrap();
    let error = run(&load, workload.as_ref(), None, &stop, &mut |_| {}).unwrap_err();
    assert!(error.contains("refused the password"), "{error}");
}

#[test]
fn a_redis_cluster_is_spoken_to() {
    let Some(server) = Server::start(&["--cluster-enabled", "yes"]) else { return };
    let error =
        run(&server.load("redis-cluster"), built("counter", 1).as_ref(), None, &AtomicBool::new(false), &mut |_| {});
    assert!(error.unwrap_err().contains("16384 slots"), "before it has slots");
    server.ask(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]).unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let info = server.ask(&["CLUSTER", "INFO"]).unwrap();
        if info.as_bytes().is_some_and(|text| text.starts_with(b"cluster_state:ok")) {
            break;
        }
        assert!(Instant::now() < deadline, "the cluster does not come up");
        std::thread::sleep(Duration::from_millis(10));
    }
    for name in ["ycsb-a", "ycsb-e", "social", "lock"] {
        let (measured, _) = fill_and_run(&server.load("redis-cluster"), name, 50);
        assert!(measured.errors.is_empty(), "{name}: {:?}", measured.errors);
    }
}

#[test]
fn what_the_clients_saw_is_recorded_and_has_an_order() {
    let Some(server) = Server::start(&[]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history");
    let workload = built("puts-gets", 20);
    let observer = Arc::new(Historian::new(Recorder::create(&path, 1 << 26).unwrap()));
    let mut load = server.load("redis");
    load.pipeline = 4;
    let stop = AtomicBool::new(false);
    run(&load, &Fill::new(Arc::clone(&workload)), Some(Arc::clone(&observer) as _), &stop, &mut |_| {}).unwrap();
    load.operations = Some(4_000);
    run(&load, workload.as_ref(), Some(Arc::clone(&observer) as _), &stop, &mut |_| {}).unwrap();
    let (recorder, problem) = Arc::into_inner(observer).unwrap().finish();
    assert_eq!(problem, None);
    assert_eq!(recorder.finish().unwrap().operations, 4_020);
    let mut history = format::read(std::fs::File::open(&path).unwrap()).unwrap();
    let checked = check(&history, &[], Limits::default());
    assert!(checked.verdict.holds && checked.undecided.is_empty(), "{:?}", checked.verdict);
    assert_eq!((checked.operations, checked.keys), (4_020, 20));

    // The same with one answer that nobody can have seen.
    let forged = history.iter_mut().rev().find(|operation| operation.steps[0].ask == Ask::Get).unwrap();
    forged.steps[0].answer = Some(lab::history::Answer::Absent);
    assert!(!check(&history, &[], Limits::default()).verdict.holds);
}

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    lab: LabArguments,
}

#[test]
fn a_run_leaves_its_folder_and_the_same_in_one_file() {
    let Some(server) = Server::start(&[]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (out, file) = (folder.path().join("out"), folder.path().join("run.json"));
    let target = format!("redis://127.0.0.1:{}", server.port);
    let line = ["lab", "run", "ycsb-a", "--target", &target, "--seconds", "1.5", "--warm-up", "0", "--clients", "4"];
    let drawn = folder.path().join("run.html");
    let paths = [("--out", &out), ("--export", &file), ("--output", &drawn)];
    let paths = paths.into_iter().flat_map(|(option, path)| [option.to_owned(), path.to_string_lossy().into_owned()]);
    let paths = paths.chain(["--quiet", "--allow-saturated"].map(str::to_owned));
    let words = line.iter().map(|word| (*word).to_owned()).chain(paths);
    let code = lab::command::run(Line::try_parse_from(words).unwrap().lab);
    assert_eq!(format!("{code:?}"), format!("{:?}", std::process::ExitCode::SUCCESS));

    let folders: Vec<PathBuf> = std::fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().path()).collect();
    let record = lab::store::read(&folders[0]).unwrap();
    assert_eq!((folders.len(), record.measurements.len(), record.measurements[0].id.as_str()), (1, 1, "run-1"));
    let measured = &record.measurements[0];
    assert!(measured.operations["read"].count > 100 && measured.operations["update"].count > 100);
    assert!((measured.seconds - 1.5).abs() < 0.1 && measured.throughput > 100.0, "{}", measured.seconds);
    assert!(measured.series.iter().any(|second| second.second == 1 && second.operation == "update"));
    assert!(measured.operations["read"].histogram.starts_with("HISTFAAA"), "HdrHistogram V2, deflated, base64");
    assert!(record.sides[0].name.starts_with("Redis "), "{}", record.sides[0].name);
    assert_eq!(lab::store::read(&file).unwrap(), record);
    assert!(std::fs::read_to_string(drawn).unwrap().contains("ycsb-a"));
}
