//! A closed loop on any store of single keys: tasks that each send an operation, wait for its answer, and count it.
//!
//! Operations are drawn by the laboratory's own workloads, so that every side gets the same, and what is counted becomes a measurement
//! by the laboratory's own rules. A record is one value here (see [`crate::calls`]).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use lab::drive::{Answer, Kind, Target};
use lab::load::tally::{Slice, note};
use lab::load::{Load, Measured, Snapshot, collect, default_threads};
use lab::peers::{Request, Task};
use lab::workload::{Draft, Draw, Fill, Follow, Workload};
use tokio::task::JoinSet;

use crate::calls::{Call, call_of};
use crate::store::Store;

/// Clients of one load.
const CLIENTS_MAX: u32 = 10_000;
/// Connections to each node.
const CONNECTIONS_MAX: u32 = 1_000;
/// Bytes of one value.
const VALUE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// A client whose operation failed pauses so long: a node that refuses at once is not asked a million times.
const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(5);
/// A silence that is worth keeping, in nanoseconds.
const SILENCE_MIN: u64 = 10_000_000;
/// Places that count, so that threads seldom wait for each other.
const SHARDS: usize = 8;
/// What the threads that send are called, at most 15 letters.
const THREADS_NAME: &str = "peers-sending";

/// What all clients share.
struct Shared {
    origin: Instant,
    shards: Vec<Mutex<Slice>>,
    kinds: usize,
    last_answer: AtomicU64,
    over: AtomicBool,
    failure: Mutex<Option<String>>,
}

impl Shared {
    fn now(&self) -> u64 {
        self.origin.elapsed().as_nanos() as u64
    }

    fn shard(&self, client: u32) -> MutexGuard<'_, Slice> {
        self.shards[client as usize % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, client: u32, kind: usize, begun: u64, outcome: &Result<(), String>) {
        let now = self.now();
        let mut slice = self.shard(client);
        slice.sent += 1;
        match outcome {
            Ok(()) => {
                note(&mut slice.kinds[kind].latency, (now - begun).max(1));
                let before = self.last_answer.fetch_max(now, Ordering::Relaxed);
                if now.saturating_sub(before) >= SILENCE_MIN {
                    slice.gaps.push((before, now));
                }
            }
            Err(said) => {
                slice.kinds[kind].errors += 1;
                slice.error(said);
            }
        }
    }

    /// Takes what was counted since it was called last.
    fn take(&self, second: u32) -> Slice {
        let mut all = Slice::new(second, self.kinds, false);
        for shard in &self.shards {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            all.merge(&std::mem::replace(&mut *shard, Slice::new(second, self.kinds, false)));
        }
        all
    }

    /// What cannot be done at all ends the load.
    fn fail(&self, reason: String) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason);
        self.over.store(true, Ordering::Relaxed);
    }
}

/// One client of one load.
struct Client<S> {
    number: u32,
    nodes: Arc<Vec<Vec<S>>>,
    shared: Arc<Shared>,
    draw: Box<dyn Draw>,
    record_bytes: usize,
    timeout: Duration,
    /// The next value that is written is read again: a side that only seems to store is not to be measured.
    to_look: bool,
}

impl<S: Store> Client<S> {
    async fn run(mut self) {
        let connection = self.number as usize % self.nodes[0].len();
        let mut node = self.number as usize % self.nodes.len();
        let mut draft = Draft::default();
        while !self.shared.over.load(Ordering::Relaxed) {
            draft.clear();
            if !self.draw.next(self.number, &mut draft) {
                return;
            }
            let begun = self.shared.now();
            let store = self.nodes[node][connection].clone();
            let timeout = self.timeout;
            let outcome = tokio::time::timeout(timeout, self.operation(&store, &mut draft)).await;
            let outcome = outcome.unwrap_or_else(|_| Err("not answered in time".to_owned()));
            self.shared.count(self.number, draft.kind, begun, &outcome);
            if outcome.is_err() {
                node = (node + 1) % self.nodes.len();
                tokio::time::sleep(PAUSE_AFTER_ERROR).await;
            }
        }
    }

    /// All steps of the operation that was drawn.
    async fn operation(&mut self, store: &S, draft: &mut Draft) -> Result<(), String> {
        loop {
            let mut calls = Vec::with_capacity(draft.len());
            for words in draft.commands() {
                match call_of(&words, self.record_bytes) {
                    Ok(call) => calls.extend(call),
                    Err(reason) => {
                        self.shared.fail(reason.clone());
                        return Err(reason);
                    }
                }
            }
            for call in calls {
                match call {
                    Call::Put(key, value) if self.to_look => {
                        store.put(key.clone(), value.clone()).await?;
                        if store.get(key).await? != Some(value) {
                            let reason =
                                "what was written is not what is read: this side cannot be measured".to_owned();
                            self.shared.fail(reason.clone());
                            return Err(reason);
                        }
                        self.to_look = false;
                    }
                    Call::Put(key, value) => store.put(key, value).await?,
                    Call::Get(key) => store.get(key).await.map(|_| ())?,
                }
            }
            if !draft.follow {
                return Ok(());
            }
            let (kind, token) = (draft.kind, draft.token);
            draft.clear();
            (draft.kind, draft.token) = (kind, token);
            let answer = Answer::resp(b"+OK\r\n", Kind::Value);
            if self.draw.follow(self.number, &answer, draft) == Follow::Done {
                return Ok(());
            }
        }
    }
}

/// Does what is asked.
///
/// # Errors
/// A sentence: a setting outside its limits, or an operation that the store does not have.
pub fn work<S: Store>(request: &Request, on_second: &mut dyn FnMut(&Snapshot)) -> Result<Measured, String> {
    let mut workload: Arc<dyn Workload> = Arc::from(request.workload()?);
    let record_bytes = request.fields.unwrap_or(10) as usize * request.field_bytes.unwrap_or(100);
    let load = load_of(request, record_bytes)?;
    if request.task == Task::Load {
        workload = Arc::new(Fill::new(workload));
    }
    let kinds = workload.kinds();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(load.threads as usize)
        .thread_name(THREADS_NAME)
        .enable_all()
        .build()
        .map_err(|error| format!("threads cannot be started: {error}"))?;
    // Connections are opened in the runtime's context.
    let guard = runtime.enter();
    let nodes = Arc::new(S::open_all(&request.addresses, request.connections)?);
    drop(guard);
    runtime.block_on(async {
        // One after the other: the first makes what is lacking, and the others find it.
        for store in nodes.iter().flatten() {
            store.prepare(request.task).await?;
        }
        Ok::<(), String>(())
    })?;
    let shards = (0..SHARDS).map(|_| Mutex::new(Slice::new(0, kinds.len(), false))).collect();
    let shared = Arc::new(Shared {
        origin: Instant::now(),
        shards,
        kinds: kinds.len(),
        last_answer: AtomicU64::new(0),
        over: AtomicBool::new(false),
        failure: Mutex::new(None),
    });
    let mut clients = Vec::new();
    for number in 0..load.clients {
        let draw = workload.draw(load.seed.wrapping_mul(0x9e37_79b9).wrapping_add(u64::from(number)))?;
        let (nodes, shared) = (Arc::clone(&nodes), Arc::clone(&shared));
        let (timeout, to_look) = (load.timeout, request.task == Task::Load);
        clients.push(Client { number, nodes, shared, draw, record_bytes, timeout, to_look });
    }
    let (sender, slices) = mpsc::channel();
    let measured = std::thread::scope(|scope| {
        let (shared, load) = (&shared, &load);
        scope.spawn(move || runtime.block_on(drive(clients, shared, load, &sender)));
        collect(load, &kinds, 1, shared.origin, &slices, on_second)
    });
    match shared.failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(failure) => Err(failure),
        None => Ok(measured),
    }
}

/// The load as the laboratory's rules know it.
fn load_of(request: &Request, record_bytes: usize) -> Result<Load, String> {
    let first = request.addresses.first().ok_or("no address: name the nodes that are to be asked")?;
    if !(1..=CLIENTS_MAX).contains(&request.clients) || !(1..=CONNECTIONS_MAX).contains(&request.connections) {
        return Err(format!("clients must be 1 to {CLIENTS_MAX}, and their connections 1 to {CONNECTIONS_MAX}"));
    }
    if record_bytes > VALUE_BYTES_MAX {
        return Err(format!("a record of {record_bytes} bytes: here one value, which may have {VALUE_BYTES_MAX}"));
    }
    let mut load = Load::new(Target::parse(first)?);
    (load.clients, load.threads, load.seed) = (request.clients, default_threads(), request.seed);
    load.timeout = Duration::from_millis(request.timeout_ms);
    match request.task {
        Task::Load => load.seconds = f64::INFINITY,
        Task::Run => (load.seconds, load.warm_up) = (request.seconds, request.warm_up),
    }
    load.check()?;
    Ok(load)
}

/// How long each thread that sends has waited for a processor, by its number, as the kernel counts it (Linux,
/// Documentation/scheduler/sched-stats.rst); nothing where it does not.
fn times_waited() -> BTreeMap<String, Duration> {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten().map(|entry| entry.path());
    let waited = |path: std::path::PathBuf| {
        let name = std::fs::read_to_string(path.join("comm")).ok()?;
        let text = std::fs::read_to_string(path.join("schedstat")).ok().filter(|_| name.trim() == THREADS_NAME)?;
        let nanoseconds = text.split_ascii_whitespace().nth(1)?.parse().ok()?;
        Some((path.file_name()?.to_string_lossy().into_owned(), Duration::from_nanos(nanoseconds)))
    };
    tasks.filter_map(waited).collect()
}

/// Starts the clients, hands on what they count each second, and ends them when the time is up.
async fn drive<S: Store>(
    clients: Vec<Client<S>>,
    shared: &Arc<Shared>,
    load: &Load,
    slices: &mpsc::Sender<(Slice, f64)>,
) {
    let total = f64::from(load.warm_up) + load.seconds;
    let connected = load.clients;
    let mut tasks = JoinSet::new();
    for client in clients {
        tasks.spawn(client.run());
    }
    let metrics = tokio::runtime::Handle::current().metrics();
    let workers = metrics.num_workers();
    let busy_times =
        || (0..workers).map(|worker| metrics.worker_total_busy_duration(worker)).collect::<Vec<Duration>>();
    let (mut busy_before, mut waited_before) = (busy_times(), times_waited());
    let (mut second, mut from) = (0u32, 0.0f64);
    loop {
        let until = f64::from(second + 1).min(total);
        let turn = tokio::time::Instant::from_std(shared.origin + Duration::from_secs_f64(until));
        let mut all_done = false;
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(turn) => break,
                ended = tasks.join_next() => if ended.is_none() { all_done = true; break },
            }
        }
        let now = shared.now() as f64 / 1e9;
        let mut slice = shared.take(second);
        let busy = busy_times();
        let most =
            busy.iter().zip(&busy_before).map(|(now, before)| now.saturating_sub(*before)).max().unwrap_or_default();
        slice.busy = (most.as_secs_f64() / (now - from).max(1e-6)).min(1.0);
        let waited = times_waited();
        let since = |(thread, now): (&String, &Duration)| now.saturating_sub(*waited_before.get(thread).unwrap_or(now));
        let most = waited.iter().map(since).max().unwrap_or_default();
        slice.kept_waiting = (most.as_secs_f64() / (now - from).max(1e-6)).min(1.0);
        slice.connected = connected;
        let over = all_done || now >= total || shared.over.load(Ordering::Relaxed);
        if over {
            let (before, end) = (shared.last_answer.load(Ordering::Relaxed), (now * 1e9) as u64);
            if end.saturating_sub(before) >= SILENCE_MIN {
                slice.gaps.push((before, end));
            }
        }
        // Who collects is there as long as this sends.
        let _ = slices.send((slice, now));
        (busy_before, waited_before, from) = (busy, waited, now);
        if over {
            break;
        }
        second += 1;
    }
    shared.over.store(true, Ordering::Relaxed);
    let rest = async { while tasks.join_next().await.is_some() {} };
    // Each operation ends by its own timeout.
    let _ = tokio::time::timeout(load.timeout + Duration::from_secs(1), rest).await;
    let mut slice = shared.take(second);
    slice.draining = true;
    let _ = slices.send((slice, shared.now() as f64 / 1e9));
}

#[cfg(test)]
mod tests;
