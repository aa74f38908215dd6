//! The engine against a small server of its own, whose delays and mistakes are known.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::*;
use crate::drive::skim::Skimmer;
use crate::drive::{Answer, Kind};
use crate::workload::{Draft, Draw, Follow, Workload};

/// What the server does with a command: an answer, or none and the connection's end, or none at all.
enum Reply {
    Answer(&'static [u8]),
    Close,
    Nothing,
}

/// A server with a thread for each connection; `reply` gets the number of the command among all, from 0, and its bytes.
fn serve(reply: impl Fn(u64, &[u8]) -> Reply + Send + Sync + 'static) -> (SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let count = Arc::new(AtomicU64::new(0));
    let (reply, counted) = (Arc::new(reply), Arc::clone(&count));
    // It ends with the test's process: nothing of it outlives that.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, reply, counted) = (stream.unwrap(), Arc::clone(&reply), Arc::clone(&counted));
            stream.set_nodelay(true).unwrap();
            std::thread::spawn(move || {
                let (mut skimmer, mut bytes, mut input) = (Skimmer::default(), Vec::new(), [0; 4096]);
                while let Ok(length @ 1..) = stream.read(&mut input) {
                    bytes.extend_from_slice(&input[..length]);
                    while let Some(command) = skimmer.next(&bytes).unwrap() {
                        let taken: Vec<u8> = bytes.drain(..command.length).collect();
                        match reply(counted.fetch_add(1, Ordering::SeqCst), &taken) {
                            Reply::Answer(answer) => stream.write_all(answer).unwrap_or(()),
                            Reply::Close => return,
                            Reply::Nothing => {}
                        }
                    }
                }
            });
        }
    });
    (address, count)
}

/// Reads one key; with `steps`, writes it after that.
struct Simple {
    steps: bool,
}

impl Workload for Simple {
    fn kinds(&self) -> Vec<String> {
        vec!["read".to_owned(), "unused".to_owned()]
    }

    fn records(&self) -> u64 {
        0
    }

    fn load(&self, _number: u64, _draft: &mut Draft) {}

    fn draw(&self, _seed: u64) -> Result<Box<dyn Draw>, String> {
        Ok(Box::new(Simple { steps: self.steps }))
    }
}

impl Draw for Simple {
    fn next(&mut self, _client: u32, draft: &mut Draft) -> bool {
        draft.command(b"GET").word(b"k");
        draft.follow = self.steps;
        draft.token = 7;
        true
    }

    fn follow(&mut self, _client: u32, answer: &Answer<'_>, draft: &mut Draft) -> Follow {
        if draft.token != 7 {
            return Follow::Done;
        }
        assert_eq!((answer.kind, answer.value()), (Kind::Value, Some(wire::Value::ok())));
        draft.token = 8;
        draft.follow = true;
        draft.command(b"SET").word(b"k").word(b"v");
        Follow::Again
    }
}

fn load(addresses: &[SocketAddr]) -> Load {
    let places: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let mut load = Load::new(Target::parse(&places.join(",")).unwrap());
    load.seconds = 1.0;
    load
}

fn measure(load: &Load) -> Measured {
    run(load, &Simple { steps: false }, None, &AtomicBool::new(false), &mut |_| {}).unwrap()
}

const MS: u64 = 1_000_000;

/// A server that answers at once, but for 300 ms in which it answers nobody. It begins `after` its first command.
fn stalling(after: Duration) -> SocketAddr {
    let first: OnceLock<Instant> = OnceLock::new();
    serve(move |_, _| {
        let since = first.get_or_init(Instant::now).elapsed();
        let end = after + Duration::from_millis(300);
        if since > after && since < end {
            std::thread::sleep(end - since);
        }
        Reply::Answer(b"+OK\r\n")
    })
    .0
}

#[test]
fn a_stall_is_seen_by_everyone_who_would_have_waited() {
    let mut load = load(&[stalling(Duration::from_millis(700))]);
    load.clients = 4;
    load.seconds = 2.0;
    load.pacing = Pacing::Open { rate: 500.0, arrivals: Arrivals::Constant };
    let (measured, _) = measure(&load);
    let read = &measured.operations["read"];
    let service = read.service.unwrap();
    // 150 of 1,000 operations were due in the stall and waited 0 to 300 ms; only 4 of them had been sent.
    assert!(read.count.abs_diff(1_000) <= 2, "{read:?}");
    assert!(read.latency.p99 > 200 * MS && read.latency.max >= 290 * MS, "{:?}", read.latency);
    assert!(read.latency.p50 < 50 * MS, "{:?}", read.latency);
    assert!(service.p99 < 100 * MS && service.max >= 250 * MS, "{service:?}");
    let gap = measured.gaps[0];
    assert!(gap.length_ms > 280.0 && gap.length_ms < 600.0 && gap.at_ms > 600.0, "{gap:?}");

    // The same stall, seen by clients that wait with asking: 4 of very many operations.
    load.target = self::load(&[stalling(Duration::from_millis(700))]).target;
    load.pacing = Pacing::Closed;
    let (measured, _) = measure(&load);
    let read = &measured.operations["read"];
    assert!(read.latency.p99 < 100 * MS && read.latency.max >= 290 * MS, "{:?}", read.latency);
    assert!(read.service.is_none());
}

#[test]
fn a_series_adds_up_and_every_second_is_told() {
    let (address, _) = serve(|_, _| Reply::Answer(b"+OK\r\n"));
    let mut load = load(&[address]);
    load.clients = 3;
    load.threads = 2;
    load.warm_up = 1;
    load.seconds = 2.0;
    load.pacing = Pacing::Open { rate: 300.0, arrivals: Arrivals::Constant };
    let mut seconds = Vec::new();
    let stop = AtomicBool::new(false);
    let (measured, notes) = run(&load, &Simple { steps: false }, None, &stop, &mut |snapshot| {
        seconds.push((snapshot.second, snapshot.warming_up, snapshot.connected));
    })
    .unwrap();
    assert_eq!(seconds, [(0, true, 3), (1, false, 3), (2, false, 3)]);
    let counted: u64 = measured.series.iter().map(|second| second.count).sum();
    assert_eq!(counted, measured.operations["read"].count);
    assert!(counted.abs_diff(600) <= 6, "the warming up does not count: {counted}");
    assert!((measured.throughput - 300.0).abs() < 5.0 && (measured.seconds - 2.0).abs() < 0.01, "{measured:?}");
    assert_eq!(measured.generator.threads, 2);
    assert!(notes.iter().all(|note| note.contains("no processor")), "{notes:?}");
    assert!(!measured.operations.contains_key("unused"));
}

#[test]
fn poisson_arrivals_keep_their_rate() {
    let (address, _) = serve(|_, _| Reply::Answer(b"+OK\r\n"));
    let mut load = load(&[address]);
    load.clients = 8;
    load.pacing = Pacing::Open { rate: 2_000.0, arrivals: Arrivals::Poisson };
    let (measured, _) = measure(&load);
    // The number of one second has the standard deviation √2000 ≈ 45.
    assert!((measured.counters["operations_sent"] - 2_000.0).abs() < 4.0 * 45.0, "{:?}", measured.counters);
}

#[test]
fn so_many_operations_and_no_more() {
    let (address, count) = serve(|_, _| Reply::Answer(b"+OK\r\n"));
    let mut load = load(&[address]);
    load.clients = 7;
    load.pipeline = 5;
    load.threads = 2;
    load.seconds = f64::INFINITY;
    load.operations = Some(1_234);
    let (measured, _) = measure(&load);
    assert_eq!(count.load(Ordering::SeqCst), 1_234);
    assert_eq!(measured.operations["read"].count, 1_234);
    assert_eq!(measured.operations["read"].errors, 0);
}

#[test]
fn errors_are_counted_by_what_they_say() {
    let (address, _) =
        serve(|number, _| Reply::Answer(if number % 10 == 3 { b"-ERR no such thing 17\r\n" } else { b"$1\r\nv\r\n" }));
    let mut load = load(&[address]);
    load.operations = Some(200);
    let (measured, _) = measure(&load);
    assert_eq!(measured.errors, BTreeMap::from([("ERR no such thing".to_owned(), 20)]));
    assert_eq!((measured.operations["read"].count, measured.operations["read"].errors), (180, 20));
    assert_eq!(measured.series.iter().map(|second| second.errors).sum::<u64>(), 20);
}

#[test]
fn an_operation_of_two_steps_is_one_operation() {
    let (address, count) = serve(|_, _| {
        std::thread::sleep(Duration::from_millis(2));
        Reply::Answer(b"+OK\r\n")
    });
    let mut load = load(&[address]);
    load.operations = Some(20);
    let stop = AtomicBool::new(false);
    let (measured, _) = run(&load, &Simple { steps: true }, None, &stop, &mut |_| {}).unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 40);
    assert_eq!(measured.operations["read"].count, 20);
    assert!(measured.operations["read"].latency.min >= 4 * MS, "both steps count");
}

/// Keeps what it is given.
#[derive(Default)]
struct Keeper(Mutex<Vec<Observed>>);

impl Observer for Keeper {
    fn observe(&self, batch: Vec<Observed>) {
        self.0.lock().unwrap().extend(batch);
    }
}

#[test]
fn a_lost_connection_goes_on_with_the_next_address_and_nothing_is_unseen() {
    let (first, at_first) = serve(|number, _| if number == 50 { Reply::Close } else { Reply::Answer(b"$1\r\nv\r\n") });
    let (second, at_second) = serve(|_, _| Reply::Answer(b"$1\r\nw\r\n"));
    let mut load = load(&[first, second]);
    load.start = Start::First;
    load.operations = Some(300);
    let keeper = Arc::new(Keeper::default());
    let stop = AtomicBool::new(false);
    let (measured, _) =
        run(&load, &Simple { steps: false }, Some(Arc::clone(&keeper) as _), &stop, &mut |_| {}).unwrap();
    assert_eq!((at_first.load(Ordering::SeqCst), at_second.load(Ordering::SeqCst)), (51, 249));
    assert_eq!(measured.errors, BTreeMap::from([("connection closed by the server".to_owned(), 1)]));

    let seen = keeper.0.lock().unwrap();
    assert_eq!(seen.len(), 300);
    let unknown: Vec<usize> = (0..300).filter(|index| seen[*index].outcome == Outcome::Unknown).collect();
    assert_eq!(unknown, [50]);
    assert_eq!((seen[50].until, seen[50].answer.clone()), (None, None));
    assert_eq!(seen[49].answer, Some(wire::Value::bulk("v")));
    assert_eq!(seen[51].answer, Some(wire::Value::bulk("w")));
    assert!(
        seen.iter().all(|one| one.client == 0 && one.key() == b"k" && one.until.is_none_or(|until| until >= one.from))
    );
    assert!(seen.windows(2).all(|two| two[0].from <= two[1].from), "one client asks one after the other");
}

#[test]
fn clients_that_are_called_back_begin_again_where_they_began() {
    for pacing in [Pacing::Closed, Pacing::Open { rate: 2_000.0, arrivals: Arrivals::Constant }] {
        let (recall, stop) = (Recall::default(), Arc::new(AtomicBool::new(false)));
        let ends = Arc::clone(&stop);
        let (first, at_first) = serve(move |number, _| {
            ends.fetch_or(number > 60, Ordering::Relaxed);
            if number == 50 { Reply::Close } else { Reply::Answer(b"+OK\r\n") }
        });
        let called = recall.clone();
        let (second, at_second) = serve(move |number, _| {
            if number == 20 {
                called.call();
            }
            Reply::Answer(b"+OK\r\n")
        });
        let mut load = load(&[first, second]);
        (load.start, load.recall, load.pacing, load.seconds) = (Start::First, recall, pacing, 60.0);
        let began = Instant::now();
        let (measured, _) = run(&load, &Simple { steps: false }, None, &stop, &mut |_| {}).unwrap();
        assert!(began.elapsed() < Duration::from_secs(30), "{pacing:?}: it never came back");
        assert!(at_first.load(Ordering::SeqCst) > 60 && at_second.load(Ordering::SeqCst) > 20);
        let lost = BTreeMap::from([("connection closed by the server".to_owned(), 1)]);
        assert_eq!(measured.errors, lost, "{pacing:?}: nothing is lost on the way back");
    }
}

#[test]
fn an_answer_that_does_not_come_is_given_up() {
    let (address, _) = serve(|number, _| if number == 5 { Reply::Nothing } else { Reply::Answer(b"+OK\r\n") });
    let mut load = load(&[address]);
    load.operations = Some(20);
    load.timeout = Duration::from_millis(80);
    let (measured, _) = measure(&load);
    assert_eq!(measured.errors, BTreeMap::from([("no answer within the timeout".to_owned(), 1)]));
    assert_eq!((measured.operations["read"].count, measured.operations["read"].errors), (19, 1));
}

#[test]
fn too_many_waiting_operations_are_dropped_and_said() {
    let (address, _) = serve(|_, _| {
        std::thread::sleep(Duration::from_millis(20));
        Reply::Answer(b"+OK\r\n")
    });
    let mut load = load(&[address]);
    load.queue_max = 10;
    load.pacing = Pacing::Open { rate: 1_000.0, arrivals: Arrivals::Constant };
    let (measured, notes) = measure(&load);
    let dropped = measured.errors["never sent: too many operations waited for a"];
    assert!((900..1_000).contains(&dropped), "50 of 1,000 can be served: {dropped}");
    assert!(notes[0].contains("were due while 10 others waited"), "{notes:?}");
    assert!(measured.operations["read"].latency.p50 > 150 * MS, "each waited for the ten before it");
}

#[test]
fn it_can_be_stopped_early() {
    let (address, _) = serve(|_, _| Reply::Answer(b"+OK\r\n"));
    let mut load = load(&[address]);
    load.seconds = 3_600.0;
    let stop = AtomicBool::new(false);
    let (measured, _) = run(&load, &Simple { steps: false }, None, &stop, &mut |snapshot| {
        assert!(snapshot.throughput > 0 && snapshot.latency.p50 > 0);
        stop.store(true, Ordering::Relaxed);
    })
    .unwrap();
    assert!(measured.seconds >= 1.0 && measured.seconds < 10.0, "{}", measured.seconds);
}

#[test]
fn what_cannot_be_done_is_told() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut nobody = load(&[closed]);
    nobody.timeout = Duration::from_millis(200);
    let error =
        |load: &Load| run(load, &Simple { steps: false }, None, &AtomicBool::new(false), &mut |_| {}).unwrap_err();
    assert!(error(&nobody).contains("Is the server running?"), "{}", error(&nobody));
    let (address, _) = serve(|_, _| Reply::Answer(b"-WRONGPASS invalid username-password pair\r\n"));
    let mut refused = load(&[address]);
    refused.target = Target::parse(&format!("redis://:x@{address}")).unwrap();
    assert!(error(&refused).contains("WRONGPASS"), "{}", error(&refused));
    let (address, _) = serve(|_, _| Reply::Answer(b"HTTP/1.1 200\r\n"));
    let mut other = load(&[address]);
    other.operations = Some(3);
    let (measured, _) = measure(&other);
    assert_eq!(measured.operations["read"].count, 0);
    assert!(measured.errors.keys().all(|text| text.contains("begins with")), "{:?}", measured.errors);
}

#[test]
fn a_slot_that_has_moved_is_followed() {
    let (second, at_second) = serve(|_, _| Reply::Answer(b"$1\r\nv\r\n"));
    let port = second.port();
    let told: Arc<OnceLock<&'static [u8]>> = Arc::default();
    let (slots, moved) = (Arc::clone(&told), format!("-MOVED 7629 127.0.0.1:{port}\r\n").into_bytes().leak());
    let moved: &'static [u8] = moved;
    let (first, at_first) = serve(move |_, command| {
        let asks_slots = command.windows(7).any(|word| word == b"CLUSTER");
        Reply::Answer(if asks_slots { slots.get().unwrap() } else { moved })
    });
    let all = format!("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$0\r\n\r\n:{}\r\n", first.port());
    told.set(all.into_bytes().leak()).unwrap();
    let mut load = load(&[first]);
    load.target = Target::parse(&format!("redis-cluster://{first}")).unwrap();
    load.operations = Some(50);
    let (measured, _) = measure(&load);
    // The slot of "k" is 7629 (CLUSTER KEYSLOT k). Once to the first, which sends it on; all after that to the second.
    assert_eq!((at_first.load(Ordering::SeqCst), at_second.load(Ordering::SeqCst)), (2, 50));
    assert!(measured.errors.is_empty() && measured.operations["read"].count == 50, "{measured:?}");
}

#[test]
fn http_is_spoken() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let heard = Arc::clone(&asked);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut input = [0; 4096];
            // A request without a body comes in one piece here: it is short, and the next follows its answer.
            while let Ok(length @ 1..) = stream.read(&mut input) {
                let text = String::from_utf8_lossy(&input[..length]).into_owned();
                heard.lock().unwrap().push(text.lines().next().unwrap_or_default().to_owned());
                let answer: &[u8] = match heard.lock().unwrap().len() % 4 {
                    1 => b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}",
                    2 => b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n",
                    _ => b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nv",
                };
                stream.write_all(answer).unwrap_or(());
            }
        }
    });
    let mut load = load(&[address]);
    load.target = Target::parse(&format!("http://{address}")).unwrap();
    load.operations = Some(40);
    let keeper = Arc::new(Keeper::default());
    let (measured, _) =
        run(&load, &Simple { steps: false }, Some(Arc::clone(&keeper) as _), &AtomicBool::new(false), &mut |_| {})
            .unwrap();
    assert_eq!((measured.operations["read"].count, measured.operations["read"].errors), (30, 10));
    assert_eq!(measured.errors, BTreeMap::from([("HTTP 503 Service Unavailable".to_owned(), 10)]));
    assert!(asked.lock().unwrap().iter().all(|line| line == "GET /v1/keys/k HTTP/1.1"));
    let seen = keeper.0.lock().unwrap();
    assert_eq!(
        (seen[0].answer.clone(), seen[2].answer.clone()),
        (Some(wire::Value::Null), Some(wire::Value::bulk("v")))
    );
    assert_eq!(seen[1].outcome, Outcome::Error);
}

#[test]
fn a_ramp_of_rates_finds_the_knee_and_one_of_clients_holds_each_step() {
    // Two clients at 5 ms an answer: no more than 400 a second.
    let (address, _) = serve(|_, _| {
        std::thread::sleep(Duration::from_millis(5));
        Reply::Answer(b"+OK\r\n")
    });
    let mut load = load(&[address]);
    load.clients = 2;
    load.pacing = Pacing::Open { rate: 1.0, arrivals: Arrivals::Constant };
    let stop = AtomicBool::new(false);
    let workload = Simple { steps: false };
    let rates = ramp::RateRamp { from: 80.0, growth: 10.0, seconds: 1.0, ..ramp::RateRamp::default() };
    let (steps, knee) = rates.run(&load, &workload, &stop, &mut |_, _| {}).unwrap();
    assert_eq!((steps.len(), knee), (2, Some(80.0)));
    assert_eq!(steps[1].0.variables["rate"], "800");
    assert!(steps[1].0.throughput < 405.0, "{}", steps[1].0.throughput);

    let clients = ramp::ClientRamp { from: 1, to: 2, seconds_min: 1, seconds_max: 1, ..ramp::ClientRamp::default() };
    let steps = clients.run(&load, &workload, &stop, &mut |_, _| {}).unwrap();
    let throughputs: Vec<f64> = steps.iter().map(|(measured, _)| measured.throughput).collect();
    assert!(throughputs[1] > throughputs[0] * 1.5, "{throughputs:?}");
    assert_eq!(steps[1].0.variables["clients"], "2");
}
