//! The whole world of a run: processes, links, clients, the queue of what is due, and what is watched on the way.
//!
//! One event at a time: take the earliest from the queue, let it happen, put its consequences into the queue.
//! A node's turn takes everything that has arrived since its last one; when turns happen is drawn.

mod caches;
mod connections;
mod faults;
mod links;
mod processes;
mod watching;

use std::collections::{BTreeMap, BTreeSet};

use base::{NodeId, PartitionId, Position, Rng};
use node::Planted;

use crate::callers::{Caller, Role};
use crate::chaos::{Chaos, Fault, MS, SECOND};
use crate::checkers::agreement::Agreement;
use crate::checkers::copies;
use crate::checkers::eviction::Evictions;
use crate::checkers::messages::{self, Messages};
use crate::checkers::notes;
use crate::checkers::quota::Quota;
use crate::checkers::replicas::Replicas;
use crate::checkers::waiting;
use crate::client::{Client, Record};
use crate::disk::SimDisk;
use crate::door::Door;
use crate::events::{Event, Queue};
use crate::fading::Fading;
use crate::history::Operation;
use crate::network::Network;
use crate::process::Running;
use crate::settings::DEFAULT;
use crate::trace::{Trace, digest_of};
use crate::workload::{BOUNDED, TIMED};
pub(crate) use caches::PROBES;
use connections::{ClientEnd, Connection};
pub(crate) use processes::SPACES_DROPPED;
pub(crate) use watching::QUOTA_REACHED;

/// Tells the drawing of the levels from that of all else.
const LEVELS: u64 = 0x1e7e_1500;

/// One machine: its disk, and the process on it if there is one.
#[derive(Debug)]
struct Machine<N> {
    disk: SimDisk,
    running: Option<Running<N>>,
    /// Counts starts and deaths; events of another life are out of date.
    life: u64,
    /// Snapshots of peers that its process has installed.
    installed: u64,
    /// It stands still until then.
    paused_until: u64,
    /// Its disk does not answer until then.
    stalled_until: u64,
    /// When it last stood still or died: whoever waits for it since then has a reason to.
    disturbed_at: u64,
    /// After a power cut it does not even refuse connections.
    dark: bool,
    clock_offset: i64,
    clock_rate: u64,
    /// It has lost synced data and does not count as whole before it has got back to this position.
    damaged_until: Option<BTreeMap<PartitionId, Position>>,
    /// Up to where its disk has ever had each partition's log.
    most_persisted: BTreeMap<PartitionId, Position>,
    /// Partitions in which it has voted since its disk was last damaged.
    voted: BTreeSet<PartitionId>,
    /// Its next start is broken off after so many operations of its disk.
    fuse_at_start: Option<u32>,
    /// What is unreadable on its disk can be read again after its next start.
    reads_again: bool,
    /// The identity file as it was before it was harmed: the operator has a copy.
    identity_copy: Option<Vec<u8>>,
    /// A start is in the queue.
    start_is_due: bool,
}

/// The world. `N` is what the nodes are made of.
#[derive(Debug)]
pub struct Cluster<N> {
    /// The present, in nanoseconds since the beginning.
    pub now: u64,
    /// What was drawn for this run.
    pub chaos: Chaos,
    /// What clients wrote down.
    pub record: Record,
    /// What happened.
    pub trace: Trace,
    /// Faults that really happened, by kind.
    pub injected: BTreeMap<Fault, u64>,
    /// Probes that nodes reached.
    pub probes: BTreeMap<&'static str, u64>,
    /// Whatever is wrong and was seen on the way: property and text.
    pub violations: Vec<(&'static str, String)>,
    /// Watches what is decided.
    pub agreement: Agreement,
    /// Watches what is applied.
    pub replicas: Replicas,
    /// Watches what is held.
    pub quota: Quota,
    /// Knows what was evicted.
    evictions: Evictions,
    /// Buckets beside the default one, with the settings they are made with.
    buckets: Vec<(&'static str, &'static str)>,
    queue: Queue,
    machines: Vec<Machine<N>>,
    network: Network,
    clients: Vec<Client>,
    /// Those who publish and listen. They are numbered on from the clients.
    callers: Vec<Caller>,
    /// What they wrote down.
    pub messages: Messages,
    client_ends: Vec<ClientEnd>,
    connections: BTreeMap<u64, Connection>,
    next_connection: u64,
    planted: Option<Planted>,
    /// Faults are over.
    healed: bool,
    /// Partitions that some node has given up because their bucket is gone. Another may find what its journal still has of one.
    dropped: BTreeSet<PartitionId>,
    /// Partitions that some node has on its disk.
    durable: BTreeSet<PartitionId>,
    /// Of partitions that are in memory only, by their bucket: who has voted, and in which life (when that began).
    memories: BTreeMap<String, BTreeMap<PartitionId, BTreeMap<NodeId, u64>>>,
    /// Buckets in memory only that were lost with the memories of a majority, and have begun anew.
    pub begun_anew: BTreeSet<String>,
    /// Some node has founded the group, or found it founded.
    founded: bool,
    rng: Rng,
}

impl<N: Door> Cluster<N> {
    /// A world at its beginning: every process is about to start, every client about to connect.
    #[must_use]
    pub fn new(chaos: Chaos, planted: Option<Planted>, dropped: &[u32], trace: Trace) -> Cluster<N> {
        let mut rng = Rng::new(chaos.cluster_seed);
        let mut clients_rng = Rng::new(chaos.workload_seed);
        let mut mix = crate::workload::Mix::draw(&mut clients_rng);
        if let Some(seed) = chaos.terms_seed {
            mix.add_terms(&mut Rng::new(seed));
        }
        mix.buckets.retain(|_| N::HAS_BUCKETS);
        mix.settled = chaos.plan.iter().all(|planned| planned.fault != Fault::SettingsChange);
        if let Some(seed) = chaos.hashes_seed.filter(|_| N::HAS_BUCKETS) {
            mix.add_hashes(&mut Rng::new(seed));
        }
        if let Some(seed) = chaos.sets_seed.filter(|_| N::HAS_BUCKETS) {
            mix.add_sets(&mut Rng::new(seed));
        }
        if let Some(seed) = chaos.sorted_sets_seed.filter(|_| N::HAS_BUCKETS) {
            mix.sorted.often = Rng::new(seed).between(2, 8);
        }
        if let Some(seed) = chaos.documents_seed.filter(|_| N::HAS_BUCKETS) {
            mix.documents.often = Rng::new(seed).between(1, 6);
        }
        if let Some(seed) = chaos.lists_seed.filter(|_| N::HAS_BUCKETS) {
            let mut rng = Rng::new(seed);
            // In some runs clients do little else but wait for each other.
            let waits = rng.chance(1, 3);
            mix.lists.often = if waits { rng.between(8, 14) } else { rng.between(1, 6) };
            mix.lists.waits = if waits { rng.between(2, 4) } else { rng.below(2) };
        }
        if let Some(seed) = chaos.sketches_seed.filter(|_| N::HAS_BUCKETS) {
            mix.sketches.often = Rng::new(seed).between(1, 4);
        }
        if let Some(seed) = chaos.places_seed.filter(|_| N::HAS_BUCKETS) {
            mix.places.often = Rng::new(seed).between(1, 4);
        }
        if let Some(seed) = chaos.fading_seed.filter(|_| N::HAS_BUCKETS) {
            mix.fading = Fading::draw(&mut Rng::new(seed));
        }
        if let Some(seed) = chaos.streams_seed.filter(|_| N::HAS_BUCKETS) {
            let mut rng = Rng::new(seed);
            mix.streams.often = rng.between(1, 6);
            // In some runs clients do little else but wait for what is new to their group.
            mix.streams.waits = rng.chance(1, 3);
            mix.streams.often += if mix.streams.waits { 7 } else { 0 };
        }
        if let Some(seed) = chaos.scripts_seed.filter(|_| N::HAS_BUCKETS) {
            mix.scripts = (seed, Rng::new(seed).between(1, 6));
        }
        if let Some(seed) = chaos.partitions_seed.filter(|_| N::HAS_BUCKETS) {
            mix.add_partitions(&mut Rng::new(seed));
        }
        let mut record = Record::default();
        record.settings.made(DEFAULT, "");
        for (name, settings) in &mix.buckets {
            record.settings.made(name, settings);
        }
        // Drawn apart, so that the rest of a run is what it was without.
        let mut levels_rng = Rng::new(chaos.workload_seed ^ LEVELS);
        if N::HAS_BUCKETS {
            (mix.levels, mix.levels_seed) = (*levels_rng.pick(&[0, 2, 6]), levels_rng.next_u64());
        }
        let machines = (0..usize::from(chaos.nodes))
            .map(|node| Machine {
                disk: SimDisk::new(rng.next_u64()),
                running: None,
                life: 0,
                installed: 0,
                paused_until: 0,
                stalled_until: 0,
                disturbed_at: 0,
                dark: false,
                clock_offset: chaos.clock_offsets[node],
                clock_rate: chaos.clock_rates[node],
                damaged_until: None,
                most_persisted: BTreeMap::new(),
                voted: BTreeSet::new(),
                fuse_at_start: None,
                reads_again: false,
                identity_copy: None,
                start_is_due: false,
            })
            .collect();
        // A client waits somewhat longer than a node may take, whose clock may be slow.
        let timeout = chaos.request_timeout_ms * MS * 13 / 10 + 2 * SECOND;
        let clients =
            (0..mix.clients).map(|id| Client::new(id, clients_rng.fork(), mix.clone(), chaos.nodes, timeout)).collect();
        let mut callers = match chaos.pubsub_seed.filter(|_| N::HAS_BUCKETS) {
            Some(seed) => draw_callers(&mut Rng::new(seed), chaos.nodes, timeout),
            None => Vec::new(),
        };
        if let Some(seed) = chaos.pauses_seed.filter(|_| N::HAS_BUCKETS) {
            callers.extend(draw_pausers(&mut Rng::new(seed), chaos.nodes, callers.len(), timeout));
        }
        if let Some(seed) = chaos.observers_seed.filter(|_| N::HAS_BUCKETS) {
            callers.extend(draw_observers(&mut Rng::new(seed), chaos.nodes, callers.len(), timeout));
        }
        let with_terms = mix.buckets.iter().filter(|(name, _)| [TIMED, BOUNDED].contains(name)).count();
        let with_hashes = u64::from(mix.uses_hashes());
        let with_sets = u64::from(mix.uses_sets());
        let injected = BTreeMap::from([
            (Fault::BucketTerms, with_terms as u64),
            (Fault::Hashes, with_hashes),
            (Fault::Sets, with_sets),
            (Fault::SortedSets, u64::from(mix.sorted.often > 0)),
            (Fault::Documents, u64::from(mix.documents.often > 0)),
            (Fault::Lists, u64::from(mix.lists.often > 0)),
            (Fault::HyperLogLogs, u64::from(mix.sketches.often > 0)),
            (Fault::Places, u64::from(mix.places.often > 0)),
            (Fault::FieldExpiry, u64::from(mix.fading.often > 0)),
            (Fault::Streams, u64::from(mix.streams.often > 0)),
            (Fault::Pauses, u64::from(chaos.pauses_seed.is_some())),
            (Fault::Scripts, u64::from(mix.scripts.1 > 0)),
            (Fault::Partitions, u64::from(mix.parted)),
            (Fault::Observers, u64::from(chaos.observers_seed.is_some())),
        ]);
        let network = Network::new(&chaos, rng.fork());
        let mut cluster = Cluster {
            now: 0,
            record,
            trace,
            injected,
            probes: BTreeMap::new(),
            violations: Vec::new(),
            agreement: Agreement::default(),
            replicas: Replicas::default(),
            quota: Quota::default(),
            evictions: Evictions::default(),
            buckets: mix.buckets.clone(),
            queue: Queue::default(),
            machines,
            network,
            client_ends: vec![ClientEnd::default(); mix.clients as usize + callers.len()],
            clients,
            callers,
            messages: Messages::default(),
            connections: BTreeMap::new(),
            next_connection: 1,
            planted,
            healed: false,
            dropped: BTreeSet::new(),
            durable: BTreeSet::new(),
            memories: BTreeMap::new(),
            begun_anew: BTreeSet::new(),
            founded: false,
            rng,
            chaos,
        };
        for node in 0..cluster.machines.len() {
            let delay = cluster.rng.below(20 * MS);
            cluster.start_in(delay, NodeId(node as u16));
        }
        for client in 0..cluster.clients.len() {
            let delay = cluster.rng.below(100 * MS);
            cluster.queue.push(delay, Event::ClientWake(client, 0));
        }
        for caller in 0..cluster.callers.len() {
            cluster.queue.push(MS * caller as u64, Event::ClientWake(cluster.clients.len() + caller, 0));
        }
        for (number, planned) in cluster.chaos.plan.iter().enumerate() {
            if !dropped.contains(&(number as u32)) {
                cluster.queue.push(planned.at, Event::Fault(number as u32));
            }
        }
        cluster
    }

    /// Judges what was published and heard.
    #[must_use]
    pub fn judge_messages(&mut self) -> Vec<String> {
        let heard = messages::heard_count(&self.messages);
        if heard > 0 {
            self.injected.insert(Fault::PubSub, heard as u64);
        }
        // Two ways, each as long as the slowest message takes; and a listener hears late that its connection is gone.
        let way = self.chaos.delay_min + 12 * self.chaos.jitter;
        let limits =
            messages::Limits { delivered_within: 4 * way + SECOND / 2, settled_after: SECOND / 2, end: self.now };
        messages::check(&self.messages, &self.network.troubles, limits)
    }

    /// Judges those who have waited. Where disks fail or are slow nothing is promised in time.
    #[must_use]
    pub fn judge_waiting(&self, history: &[Operation]) -> Vec<String> {
        let slow = [Fault::DiskFull, Fault::SlowSync, Fault::SyncFailure, Fault::SlowNetwork, Fault::BucketTerms];
        if slow.iter().any(|fault| self.injected.get(fault).is_some_and(|count| *count > 0)) {
            return Vec::new();
        }
        let nodes = self.chaos.nodes;
        let way = self.chaos.delay_min + 12 * self.chaos.jitter;
        let is_calm = |from, until| self.network.troubles.all_is_calm(nodes, from, until);
        // What clients wait for is sent for after the end of a pause.
        let pauses = if self.chaos.pauses_seed.is_some() { SECOND / 4 } else { 0 };
        waiting::check(history, is_calm, 8 * way + SECOND / 4 + pauses)
    }

    /// Judges what clients keep.
    #[must_use]
    pub fn judge_copies(&self) -> Vec<String> {
        let way = self.chaos.delay_min + 12 * self.chaos.jitter;
        copies::check(&self.messages.copies, &self.network.troubles, self.now.saturating_sub(4 * way + SECOND / 2))
    }

    /// Judges what was told of keys; what was acknowledged before `settled` has come to every node.
    #[must_use]
    pub fn judge_notes(&self, settled: u64) -> Vec<String> {
        notes::check(&self.messages.notes, &self.network.troubles, settled, self.now)
    }

    /// Lets everything happen that is due before `until`, or up to the first violation.
    pub fn run_until(&mut self, until: u64) {
        while self.violations.is_empty()
            && self.queue.next_at().is_some_and(|at| at < until)
            && let Some((at, event)) = self.queue.pop()
        {
            self.now = at;
            self.happen(event);
        }
        self.now = self.now.max(until);
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Turn(node, life) => self.on_turn(node, life),
            Event::Wake(node, life) => self.on_wake(node, life),
            Event::Commit(node, life) => self.on_commit(node, life),
            Event::SnapshotPart(node, life) => self.on_snapshot_part(node, life),
            Event::BlockMade(node, life) => self.on_block_made(node, life),
            Event::ReceptionPart(node, life) => self.on_reception_part(node, life),
            Event::Start(node) => self.on_start(node),
            Event::Resume(node) => self.poke(node),
            Event::TryLink(one, other) => self.on_try_link(one, other),
            Event::LinkDown(node, peer) => self.on_link_down(node, peer),
            Event::Message(from, to, generation, payload) => self.on_message(from, to, generation, payload),
            Event::Mend(from, to) => self.on_mend(from, to),
            Event::RoomAgain(node) => self.machine(node).disk.set_full(false),
            Event::Fault(number) => self.on_fault(number),
            Event::ClientWake(client, timer) => self.on_client_wake(client, timer),
            Event::Connect(client, connection, node) => self.on_connect(client, connection, node),
            Event::Connected(client, connection) => self.on_connected(client, connection),
            Event::ConnectionClosed(client, connection) => self.on_connection_closed(client, connection),
            Event::ToNode(connection, bytes) => self.on_bytes_to_node(connection, bytes),
            Event::ToClient(connection, bytes) => self.on_bytes_to_client(connection, bytes),
            Event::ClientGone(connection) => self.on_client_gone(connection),
        }
    }

    fn machine(&mut self, node: NodeId) -> &mut Machine<N> {
        &mut self.machines[usize::from(node.0)]
    }

    fn nodes(&self) -> impl Iterator<Item = NodeId> + use<N> {
        (0..self.machines.len() as u16).map(NodeId)
    }

    /// The process of that life, if it still runs.
    fn process(&mut self, node: NodeId, life: u64) -> Option<&mut Running<N>> {
        let machine = self.machine(node);
        if machine.life == life { machine.running.as_mut() } else { None }
    }

    /// Puts an event off to the end of a standstill. True if there is one.
    fn put_off(&mut self, node: NodeId, event: Event) -> bool {
        let (now, until) = (self.now, self.machine(node).paused_until);
        if until > now {
            self.queue.push(until, event);
        }
        until > now
    }

    fn violate(&mut self, property: &'static str, text: String) {
        let at = self.now;
        self.trace.event(at, [1, digest_of(text.as_bytes()), 0, 0], || format!("VIOLATION of {property}: {text}"));
        self.violations.push((property, text));
    }
}

/// One or two who let others wait, and perhaps one who is shown what these do; behind so many callers.
fn draw_pausers(rng: &mut Rng, nodes: u16, before: usize, timeout: u64) -> Vec<Caller> {
    let mut roles = vec![Role::Pauses; rng.between(1, 2) as usize];
    roles.extend(rng.chance(1, 2).then_some(Role::Monitors));
    let numbered = roles.into_iter().enumerate();
    numbered.map(|(place, role)| Caller::new((before + place) as u64, rng.fork(), role, nodes, timeout)).collect()
}

/// One or two who ask nodes what these have seen; behind so many callers.
fn draw_observers(rng: &mut Rng, nodes: u16, before: usize, timeout: u64) -> Vec<Caller> {
    let count = rng.between(1, 2) as usize;
    (before..before + count).map(|id| Caller::new(id as u64, rng.fork(), Role::Observes, nodes, timeout)).collect()
}

/// One or two who publish, some who listen, and some who watch.
fn draw_callers(rng: &mut Rng, nodes: u16, timeout: u64) -> Vec<Caller> {
    let counts = [
        (Role::Publishes, rng.between(1, 2)),
        (Role::Listens, rng.between(2, 4)),
        (Role::Watches, rng.between(1, 3)),
        (Role::Keeps, rng.between(1, 3)),
    ];
    let roles = counts.into_iter().flat_map(|(role, count)| (0..count).map(move |_| role));
    roles.enumerate().map(|(id, role)| Caller::new(id as u64, rng.fork(), role, nodes, timeout)).collect()
}
