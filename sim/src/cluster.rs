//! The whole world of a run: processes, links, clients, the queue of what is due, and what is watched on the way.
//!
//! One event at a time: take the earliest from the queue, let it happen, put its consequences into the queue.
//! A node's turn takes everything that has arrived since its last one; when turns happen is drawn.

mod addresses;
mod alone;
mod caches;
mod casting;
mod clients;
mod connections;
mod copies_of_folders;
pub(crate) mod doubles;
pub(crate) mod errands;
mod faults;
pub(crate) mod guests;
mod impostors;
mod keys;
mod links;
mod long_work;
mod low_disks;
pub(crate) mod operator;
mod processes;
mod reading;
mod restless;
mod slowness;
mod stepping;
mod trails;
mod versions;
mod watching;
mod wild_clocks;
mod zones;

use std::collections::{BTreeMap, BTreeSet};

use base::limits::UNDECIDED_BYTES_MAX;
use base::{BucketId, NodeId, PartitionId, Position, Rng};
use node::Planted;

use crate::callers::Caller;
use crate::chaos::{Chaos, Fault, MS, SECOND};
use crate::checkers::agreement::Agreement;
use crate::checkers::copies;
use crate::checkers::eviction::Evictions;
use crate::checkers::messages::{self, Messages};
use crate::checkers::notes;
use crate::checkers::quota::Quota;
use crate::checkers::replicas::Replicas;
use crate::checkers::seats::Maps;
use crate::checkers::subscriptions::{self, Promised};
use crate::checkers::{gone, voters, waiting};
use crate::client::{Client, Record};
use crate::disk::SimDisk;
use crate::door::Door;
use crate::events::{Event, Queue};
use crate::history::Operation;
use crate::network::Network;
use crate::process::Running;
use crate::restless::Restless;
use crate::routers::{Cast, Router};
use crate::settings::DEFAULT;
use crate::trace::{Trace, digest_of};
pub(crate) use addresses::PROBES as ADDRESS_PROBES;
pub(crate) use alone::PROBES as ALONE_PROBES;
pub(crate) use caches::PROBES;
use connections::{ClientEnd, Connection};
pub use doubles::DoubleEvent;
pub(crate) use doubles::PROBES as DOUBLE_PROBES;
pub(crate) use guests::PROBES as GUEST_PROBES;
pub(crate) use impostors::LIED as IMPOSTOR_LIED;
pub(crate) use keys::PROBES as KEY_PROBES;
pub(crate) use low_disks::PROBES as LOW_PROBES;
pub(crate) use processes::SPACES_DROPPED;
pub(crate) use stepping::PROBES as STEPPING_PROBES;
pub use stepping::Stage;
pub(crate) use trails::NOTED as TRAIL_NOTED;
pub(crate) use watching::QUOTA_REACHED;
/// Callers have made anew, in another database, what a backup had of their keys.
pub(crate) const RESTORED: &str = "sim: keys restored from a backup beside the living";

/// Tells the drawing of torn sectors from that of all else.
const TEARS_DRAWN: u64 = 0x7ea2_5ec7;
/// Tells the drawing of the levels from that of all else.
const LEVELS: u64 = 0x1e7e_1500;

/// One machine: its disk, and the process on it if there is one.
#[derive(Debug)]
struct Machine<N> {
    disk: SimDisk,
    running: Option<Running<N>>,
    /// Counts starts and deaths; events of another life are out of date.
    life: u64,
    /// Snapshots of peers that its process has installed, and other gaps in what its clients are told.
    installed: u64,
    /// It stands still until then.
    paused_until: u64,
    /// Until then it stands still because its loop works, which its owner tells the others.
    busy_until: u64,
    /// Its power goes in the middle of its next write to the journal, and comes back after so long; that of all nodes with it.
    cut_in_write: Option<(u64, bool)>,
    /// The process of which life has worked long, since when, and for how long; until that process has been told.
    worked: Option<(u64, u64, u64)>,
    /// Its disk does not answer until then.
    stalled_until: u64,
    /// Its disk is below the low mark until then.
    low_until: u64,
    /// Each sync of its disk takes so much longer until then.
    slow_until: u64,
    slow_by: u64,
    /// When it last stood still or died: whoever waits for it since then has a reason to.
    disturbed_at: u64,
    /// After a power cut it does not even refuse connections.
    dark: bool,
    clock_offset: i64,
    /// Its wall clock stands still since then.
    clock_stopped: Option<u64>,
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
    /// A copy of its folder that was taken earlier.
    earlier: Option<copies_of_folders::Earlier>,
    /// Its folder is away.
    away: Option<copies_of_folders::Earlier>,
    /// The name of the memory in a folder that came back, until it has another one.
    came_back: Option<u64>,
    /// A start is in the queue.
    start_is_due: bool,
    /// Its node is in the cluster, or was: it has founded it or has joined.
    is_member: bool,
    /// Its node was removed, and knows it; or was lost for good; or never had this number.
    is_gone: bool,
    /// It is gone, and comes back all the same until it is told.
    returns: bool,
    /// It comes back without its folder.
    empty: bool,
    /// Who had joined when its node did, that one among them.
    told: Vec<(NodeId, node::Member)>,
    /// The label that its process was last started with.
    zone: String,
    /// The newest version of Dictum's that is installed on it; a process that runs was started with this one.
    newest: u16,
    /// The next one will be of a newer version.
    upgrade_is_due: bool,
}

impl<N> Machine<N> {
    /// One with an empty disk, switched off.
    fn new(seed: u64, clock_offset: i64, clock_rate: u64) -> Machine<N> {
        Machine {
            disk: SimDisk::new(seed),
            running: None,
            life: 0,
            installed: 0,
            paused_until: 0,
            busy_until: 0,
            worked: None,
            stalled_until: 0,
            low_until: 0,
            slow_until: 0,
            slow_by: 0,
            disturbed_at: 0,
            dark: false,
            clock_offset,
            clock_stopped: None,
            clock_rate,
            cut_in_write: None,
            damaged_until: None,
            most_persisted: BTreeMap::new(),
            voted: BTreeSet::new(),
            fuse_at_start: None,
            reads_again: false,
            identity_copy: None,
            earlier: None,
            away: None,
            came_back: None,
            start_is_due: false,
            is_member: false,
            is_gone: false,
            returns: false,
            empty: false,
            told: Vec::new(),
            zone: String::new(),
            newest: base::versions::NEWEST,
            upgrade_is_due: false,
        }
    }
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
    /// Groups of keys whose histories were too hard to judge on the way.
    pub undecided: Vec<String>,
    /// Watches what is decided.
    pub agreement: Agreement,
    /// Watches what is applied.
    pub replicas: Replicas,
    /// Watches what is held.
    pub quota: Quota,
    /// Watches who votes.
    groups: voters::Groups,
    /// Watches who shall.
    maps: Maps,
    /// Knows what was evicted.
    evictions: Evictions,
    /// Buckets beside the default one, with the settings they are made with.
    pub buckets: Vec<(&'static str, &'static str)>,
    queue: Queue,
    machines: Vec<Machine<N>>,
    /// Whose folder was set back, with the name of its memory then: it has not been told yet.
    set_back: Option<(NodeId, u64)>,
    recovery: alone::Recovery,
    /// A second process with the name of a node, if there is one; and how many there were.
    double: Option<doubles::Double<N>>,
    doubles: u64,
    addresses: addresses::Addresses,
    network: Network,
    clients: Vec<Client>,
    /// Those who publish and listen. They are numbered on from the clients.
    callers: Vec<Caller>,
    /// Those who route by themselves. Behind the callers each has an end for each node.
    routers: Vec<Router>,
    /// Those without think time. Their ends are behind those of the routers.
    restless: Vec<Restless>,
    /// Which nodes have a listener for them, and for which bucket.
    cast: Cast,
    /// What they wrote down.
    pub messages: Messages,
    client_ends: Vec<ClientEnd>,
    connections: BTreeMap<u64, Connection>,
    next_connection: u64,
    planted: Option<Planted>,
    keys: keys::Keys,
    /// The node in whose name somebody speaks.
    impostor: Option<NodeId>,
    /// The audit trails of the machines.
    trails: BTreeMap<NodeId, trails::Trail>,
    operator: operator::Operator,
    revocations: guests::Revocations,
    stepping: stepping::Stepping,
    /// Faults are over.
    healed: bool,
    /// The node whose disk is slow still when all other faults are over.
    slow_in_calm: Option<NodeId>,
    /// Partitions that some node has given up because their bucket is gone. Another may find what its journal still has of one.
    dropped: BTreeSet<PartitionId>,
    /// Partitions that some node has on its disk.
    durable: BTreeSet<PartitionId>,
    /// Of partitions that are in memory only, by their bucket: who has voted, and in which life (when that began).
    memories: BTreeMap<String, BTreeMap<PartitionId, BTreeMap<NodeId, u64>>>,
    /// Whose memories of a bucket the council counts, by whoever has followed it furthest: see [`node::Node::remembered_by`].
    counted: BTreeMap<BucketId, (Position, Vec<Vec<NodeId>>)>,
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
        let mut mix = casting::draw_mix::<N>(&chaos, &mut clients_rng);
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
            .map(|node| {
                let (offset, rate) = (chaos.clock_offsets[node], chaos.clock_rates[node]);
                let is_member = node < usize::from(chaos.founders);
                let seed = rng.next_u64();
                let machine = Machine {
                    is_member,
                    newest: versions::first(&chaos, node as u16),
                    ..Machine::new(seed, offset, rate)
                };
                if chaos.torn_sectors {
                    machine.disk.tear_sectors(seed ^ TEARS_DRAWN);
                }
                machine
            })
            .collect();
        // A client waits somewhat longer than a node may take, whose clock may be slow.
        let timeout = chaos.request_timeout_ms * MS * 13 / 10 + 2 * SECOND;
        let clients =
            (0..mix.clients).map(|id| Client::new(id, clients_rng.fork(), mix.clone(), chaos.nodes, timeout)).collect();
        let callers = casting::draw_callers::<N>(&chaos, timeout);
        let cast = if N::HAS_BUCKETS { Cast::draw(&chaos, &mix) } else { Cast::default() };
        let routers = cast.routers(&mix, timeout);
        record.redirections.listeners.clone_from(&cast.listeners);
        record.is_crowded = chaos.restless_seed.is_some() && chaos.undecided_bytes_max < UNDECIDED_BYTES_MAX;
        record.rooms.is_watched = chaos.low_disks;
        let restless = if N::HAS_BUCKETS { Restless::cast(&chaos, timeout) } else { Vec::new() };
        let ends = mix.clients as usize + callers.len() + routers.len() * usize::from(chaos.nodes) + restless.len();
        let injected = casting::injected(&chaos, &mix);
        let network = Network::new(&chaos, rng.fork());
        let mut cluster = Cluster {
            now: 0,
            record,
            trace,
            injected,
            probes: BTreeMap::new(),
            violations: Vec::new(),
            undecided: Vec::new(),
            agreement: Agreement::default(),
            replicas: Replicas::default(),
            quota: Quota::default(),
            groups: voters::Groups::default(),
            maps: Maps::default(),
            evictions: Evictions::default(),
            buckets: mix.buckets.clone(),
            queue: Queue::default(),
            machines,
            set_back: None,
            recovery: alone::Recovery::default(),
            double: None,
            doubles: 0,
            addresses: addresses::Addresses::default(),
            network,
            client_ends: vec![ClientEnd::default(); ends],
            clients,
            callers,
            routers,
            restless,
            cast,
            messages: Messages::default(),
            connections: BTreeMap::new(),
            next_connection: 1,
            planted,
            keys: keys::Keys::default(),
            impostor: None,
            trails: BTreeMap::new(),
            operator: operator::Operator::default(),
            revocations: guests::Revocations::default(),
            stepping: stepping::Stepping::default(),
            healed: false,
            slow_in_calm: None,
            dropped: BTreeSet::new(),
            durable: BTreeSet::new(),
            memories: BTreeMap::new(),
            counted: BTreeMap::new(),
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
        for router in 0..cluster.routers.len() {
            let first = Event::ClientWake(cluster.end_of_router(router, 0), 0);
            cluster.queue.push(MS * router as u64, first);
        }
        for place in 0..cluster.restless.len() {
            let first = Event::ClientWake(cluster.end_of_restless(place), 0);
            cluster.queue.push(cluster.restless[place].first_wake(), first);
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
        *self.probes.entry(RESTORED).or_default() += self.messages.restored;
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
        let slow = [
            Fault::DiskFull,
            Fault::SlowSync,
            Fault::SlowDisk,
            Fault::SyncFailure,
            Fault::SlowNetwork,
            Fault::BucketTerms,
        ];
        if slow.iter().any(|fault| self.injected.get(fault).is_some_and(|count| *count > 0)) {
            return Vec::new();
        }
        let nodes = self.chaos.nodes;
        let way = self.chaos.delay_min + 12 * self.chaos.jitter;
        let is_calm = |from, until| self.network.troubles.all_is_calm(nodes, from, until);
        // What clients wait for is sent for after the end of a pause.
        let pauses = if self.chaos.pauses_seed.is_some() { SECOND / 4 } else { 0 };
        let within = 8 * way + SECOND / 4 + pauses;
        let mut found = waiting::check(history, is_calm, within);
        found.extend(gone::check(history, &self.record.gone, is_calm, within));
        found
    }

    /// Judges what clients keep.
    #[must_use]
    pub fn judge_copies(&self) -> Vec<String> {
        let way = self.chaos.delay_min + 12 * self.chaos.jitter;
        copies::check(&self.messages.copies, &self.network.troubles, self.now.saturating_sub(4 * way + SECOND / 2))
    }

    /// Whether all subscribers from before the calm at the end are live.
    #[must_use]
    pub fn subscribers_are_live(&self) -> bool {
        self.messages.changes.are_all_live(self.chaos.ends_at)
    }

    /// Judges what subscribers were told; what was acknowledged before `settled` has come to every node.
    #[must_use]
    pub fn judge_subscriptions(&mut self, settled: u64) -> Vec<String> {
        let told = subscriptions::told_count(&self.messages.changes);
        if told > 0 {
            self.injected.insert(Fault::Subscriptions, told as u64);
        }
        let has = |kinds: &[Fault]| self.chaos.plan.iter().any(|planned| kinds.contains(&planned.fault));
        let promised = Promised {
            settled,
            is_one_history: !has(&[Fault::UnsafeRecover]),
            nodes_stay: !has(&[Fault::UnsafeRecover, Fault::MembersChange, Fault::Addresses]),
        };
        subscriptions::check(&self.messages.changes, promised)
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
            if !self.record.heard.is_empty() {
                self.hear_for_operator();
            }
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
            Event::PasswordTried(node, life) => self.on_password_tried(node, life),
            Event::ReceptionPart(node, life) => self.on_reception_part(node, life),
            Event::Start(node) => self.on_start(node),
            Event::Operator => self.on_operator(),
            Event::Keys => self.on_keys(),
            Event::Stepping(number, stage) => self.on_stepping(number, stage),
            Event::Resume(node) => self.poke(node),
            Event::SignOfLife(node) => self.on_sign_of_life(node),
            Event::TryLink(one, other) => self.on_try_link(one, other),
            Event::LinkDown(node, peer) => self.on_link_down(node, peer),
            Event::Message(from, to, generation, payload) => self.on_message(from, to, generation, payload),
            Event::Mend(from, to) => self.on_mend(from, to),
            Event::Double(number, event) => self.on_double(number, event),
            Event::FolderBack(node) => self.bring_folder_back(node),
            Event::RoomAgain(node) => self.empty_disk(node),
            Event::DiskFills(node) => self.fill_disk(node),
            Event::Room(node) => self.tell_room(node),
            Event::Fault(number) => self.on_fault(number),
            Event::ClientWake(client, timer) => self.on_client_wake(client, timer),
            Event::Connect(client, connection, node) => self.on_connect(client, connection, node),
            Event::Connected(client, connection) => self.on_connected(client, connection),
            Event::ConnectionClosed(client, connection) => self.on_connection_closed(client, connection),
            Event::ToNode(connection, bytes) => self.on_bytes_to_node(connection, bytes),
            Event::ToClient(connection, bytes) => self.on_bytes_to_client(connection, bytes),
            Event::ClientGone(connection) => self.on_client_gone(connection),
            Event::ReadsAgain(connection) => self.read_again(connection),
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
