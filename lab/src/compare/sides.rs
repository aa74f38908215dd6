//! The sides of a comparison: how each is started, filled, driven, and made to lose its leader.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use super::Plan;
use super::follow::Followed;
use super::kinds::SideKind;
use super::rows::{Row, Shape, Work};
use crate::cluster::rivals::{Cassandra, Etcd, Nats, Place, Redis};
use crate::cluster::{Cluster, Options, System};
use crate::drive::Target;
use crate::load::{Load, Measured, Snapshot, run as run_load};
use crate::peers::{self, Request, Task};
use crate::record::Side;
use crate::workload::{Fill, Workload, find};

/// Nodes of a side that has several.
const NODES: usize = 3;
/// Replicas of Redis's primary.
const REPLICAS: usize = 2;
/// Operations under way of each client that fills.
const FILL_PIPELINE: u32 = 16;
/// Clients that fill.
const FILL_CLIENTS: u32 = 32;
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long it may take while records are filled in, which is not measured: a side may have started a moment ago.
const FILL_PATIENCE: Duration = Duration::from_secs(30);
/// How long it may take while a leader is killed: then the client turns to the next node.
const KILL_PATIENCE: Duration = Duration::from_millis(300);
/// What snapshots are of.
const SECOND: Duration = Duration::from_secs(1);
/// Seconds of load before a leader is killed.
const KILL_AFTER: u32 = 4;
/// How long a node may take to come back: a Java machine that starts beside two that work takes half a minute on two cores.
const BACK_PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks at it.
const PAUSE: Duration = Duration::from_millis(20);

/// Seconds that one measurement of the row takes, with its warming up.
#[must_use]
pub fn length(plan: &Plan, kind: SideKind, row: &Row) -> f64 {
    if row.work == Work::Kill { kind.kill_seconds() } else { f64::from(plan.warm_up) + plan.seconds }
}

/// How sides are started.
#[derive(Clone, Debug)]
pub struct Start {
    /// The Dictum that is measured.
    pub dictum: PathBuf,
    /// What rivals need.
    pub place: Place,
}

/// A side that runs. It ends when this is dropped.
pub struct Running {
    kind: SideKind,
    system: Box<dyn System>,
}

impl Running {
    /// Starts it and waits until it serves.
    ///
    /// # Errors
    /// What it said when it did not; how it is installed if it is not there.
    pub fn start(kind: SideKind, plan: &Plan) -> Result<Running, String> {
        let Start { dictum, place } = &plan.start;
        let system: Box<dyn System> = match kind {
            SideKind::Dictum => {
                let options = Options {
                    program: dictum.clone(),
                    parent: place.parent.clone(),
                    nodes: NODES,
                    ..Options::default()
                };
                Box::new(Cluster::start(options)?)
            }
            SideKind::Redis => Box::new(Redis::start(place, 0)?),
            SideKind::RedisWait => Box::new(Redis::start(place, REPLICAS)?),
            SideKind::Etcd => Box::new(Etcd::start(place, NODES)?),
            SideKind::Cassandra => Box::new(Cassandra::start(place)?),
            SideKind::Nats => Box::new(Nats::start(place)?),
        };
        Ok(Running { kind, system })
    }

    /// Who it is.
    #[must_use]
    pub fn kind(&self) -> SideKind {
        self.kind
    }

    /// What it can be asked.
    #[must_use]
    pub fn system(&self) -> &dyn System {
        self.system.as_ref()
    }

    /// What reports say of it, with how it is driven.
    #[must_use]
    pub fn told(&self) -> Side {
        let mut side = self.system.side();
        side.configuration.push(("driven".to_owned(), self.kind.driven().to_owned()));
        side
    }

    /// Writes the records that the load works on.
    ///
    /// # Errors
    /// A sentence, if not all could be written.
    pub fn fill(&self, plan: &Plan, shape: &Shape, stop: &AtomicBool) -> Result<(), String> {
        let addresses = self.load_addresses()?;
        let measured = if self.kind.is_driven_by_peers() {
            let request = self.request(plan, shape, addresses, Task::Load)?;
            self.ask_peers(plan, &request, &mut |_| {})?
        } else {
            let mut load = self.load(plan, &addresses)?;
            (load.clients, load.pipeline, load.seconds) = (FILL_CLIENTS, FILL_PIPELINE, f64::INFINITY);
            run_load(&load, &Fill::new(self.workload(plan, shape)?), None, stop, &mut |_| {})?
        };
        let errors: u64 = measured.0.operations.values().map(|of| of.errors).sum();
        if errors > 0 {
            let said: Vec<&str> = measured.0.errors.keys().map(String::as_str).collect();
            return Err(format!("{errors} records could not be filled in: {}", said.join(", ")));
        }
        Ok(())
    }

    /// Carries a row out once.
    ///
    /// # Errors
    /// A sentence: nobody leads, or the load cannot be carried out.
    pub fn measure(
        &self,
        plan: &Plan,
        row: &Row,
        stop: &AtomicBool,
        on_second: &mut dyn FnMut(&Snapshot),
    ) -> Result<Measured, String> {
        if row.work == Work::Kill {
            return self.kill(plan, row, stop, on_second);
        }
        let shape = row.load();
        let addresses = self.load_addresses()?;
        let before = self.system.counters();
        let mut measured = if self.kind.is_driven_by_peers() {
            let request = self.request(plan, &shape, addresses, Task::Run)?;
            self.ask_peers(plan, &request, on_second)?
        } else {
            let mut load = self.load(plan, &addresses)?;
            (load.clients, load.pipeline) = (shape.clients, shape.pipeline);
            (load.warm_up, load.seconds) = (plan.warm_up, plan.seconds);
            let workload = self.workload(plan, &shape)?;
            match self.system.after_write().filter(|_| shape.writes()) {
                Some(words) => run_load(&load, &Followed::new(workload, words), None, stop, on_second)?,
                None => run_load(&load, workload.as_ref(), None, stop, on_second)?,
            }
        };
        // With its warming up, as the counters have it.
        let counted: u64 = measured.0.operations.values().map(|of| of.count).sum();
        let share = (f64::from(plan.warm_up) + measured.0.seconds) / measured.0.seconds.max(0.001);
        let all = (counted as f64 * share) as u64;
        measured.0.counters.extend(self.system.counters().per_operation(&before, all));
        Ok(measured)
    }

    /// Writes on all nodes while the leader is killed; then starts the node again.
    fn kill(
        &self,
        plan: &Plan,
        row: &Row,
        stop: &AtomicBool,
        on_second: &mut dyn FnMut(&Snapshot),
    ) -> Result<Measured, String> {
        let leader = self.leader()?;
        let mut addresses = self.system.addresses();
        // The others first, so that a client that turns from the leader finds one of them next.
        let of_leader = addresses.remove(leader);
        addresses.push(of_leader);
        let mut killed = Ok(());
        let mut at_ms = None;
        let mut began = Instant::now();
        let mut watch = |snapshot: &Snapshot| {
            on_second(snapshot);
            if snapshot.second == 0 {
                // A load that a program of its own carries out has begun after its connections: its first second ends now.
                began = Instant::now().checked_sub(SECOND).unwrap_or(began);
            }
            if snapshot.second + 1 == KILL_AFTER {
                at_ms = Some(began.elapsed().as_secs_f64() * 1e3);
                killed = self.system.kill(leader);
            }
        };
        let (shape, seconds) = (row.load(), self.kind.kill_seconds());
        let mut measured = if self.kind.is_driven_by_peers() {
            let mut request = self.request(plan, &shape, addresses, Task::Run)?;
            (request.warm_up, request.seconds) = (0, seconds);
            request.timeout_ms = KILL_PATIENCE.as_millis() as u64;
            self.ask_peers(plan, &request, &mut watch)?
        } else {
            let mut load = self.load(plan, &addresses)?;
            (load.clients, load.seconds, load.timeout) = (shape.clients, seconds, KILL_PATIENCE);
            run_load(&load, self.workload(plan, &shape)?.as_ref(), None, stop, &mut watch)?
        };
        killed?;
        let Some(at_ms) = at_ms else { return Err("it was ended before the leader was killed".to_owned()) };
        let role = if self.kind.has_leader() { " (leader)" } else { "" };
        let what = format!("{}{role} killed", self.system.names().get(leader).map_or("a node", String::as_str));
        measured.0.marks.push(crate::record::Mark { at_ms, what });
        self.system.start_again(leader)?;
        Ok(measured)
    }

    /// Waits until every node is there, and up to date.
    ///
    /// # Errors
    /// Which one is not; what it said last if it has ended.
    pub fn wait_until_whole(&self) -> Result<(), String> {
        let end = Instant::now() + BACK_PATIENCE;
        let names = self.system.names();
        loop {
            self.system.check()?;
            let behind = (0..names.len()).find(|node| !self.system.is_current(*node));
            match behind {
                None if self.system.leader().is_ok() => return Ok(()),
                _ if Instant::now() <= end => std::thread::sleep(PAUSE),
                None => return Err(format!("nobody leads within {} s", BACK_PATIENCE.as_secs())),
                Some(node) => return Err(format!("{} is not back within {} s", names[node], BACK_PATIENCE.as_secs())),
            }
        }
    }

    /// Who leads; waits while nobody does.
    fn leader(&self) -> Result<usize, String> {
        let end = Instant::now() + BACK_PATIENCE;
        loop {
            match self.system.leader() {
                Ok(leader) => return Ok(leader),
                Err(reason) if Instant::now() > end => return Err(reason),
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }

    /// Where a load is sent to while nothing is disturbed: the leader, if there is one.
    fn load_addresses(&self) -> Result<Vec<String>, String> {
        if !self.kind.has_leader() {
            return Ok(self.system.addresses());
        }
        let leader = self.leader()?;
        let address = self.system.addresses().get(leader).cloned();
        address.map(|address| vec![address]).ok_or_else(|| "the leader has no address".to_owned())
    }

    fn load(&self, plan: &Plan, addresses: &[String]) -> Result<Load, String> {
        let mut load = Load::new(Target::parse(&format!("redis://{}", addresses.join(",")))?);
        (load.threads, load.timeout) = (plan.threads, PATIENCE);
        Ok(load)
    }

    fn workload(&self, plan: &Plan, shape: &Shape) -> Result<Arc<dyn Workload>, String> {
        let parameters = shape.parameters(plan.keys, plan.records)?;
        Ok(Arc::from((find(shape.workload)?.build)(&parameters)?))
    }

    fn request(&self, plan: &Plan, shape: &Shape, addresses: Vec<String>, task: Task) -> Result<Request, String> {
        let parameters = shape.parameters(plan.keys, plan.records)?;
        let (clients, patience) = match task {
            Task::Load => (FILL_CLIENTS * 4, FILL_PATIENCE),
            Task::Run => (shape.clients, PATIENCE),
        };
        Ok(Request {
            format: peers::FORMAT,
            peer: self.kind.id().to_owned(),
            addresses,
            task,
            workload: shape.workload.to_owned(),
            records: parameters.records,
            // A plain value is one field.
            fields: shape.is_plain().then_some(1),
            field_bytes: parameters.field_bytes,
            mix: (!shape.mix.is_empty()).then(|| shape.mix.to_owned()),
            clients,
            connections: self.kind.connections(clients),
            warm_up: plan.warm_up,
            seconds: plan.seconds,
            timeout_ms: patience.as_millis() as u64,
            seed: 1,
        })
    }

    fn ask_peers(
        &self,
        plan: &Plan,
        request: &Request,
        on_second: &mut dyn FnMut(&Snapshot),
    ) -> Result<Measured, String> {
        let program =
            plan.peers_program.as_deref().ok_or_else(|| format!("{} is missing: {}", peers::PROGRAM, peers::ADVICE))?;
        peers::ask(program, request, on_second)
    }
}
