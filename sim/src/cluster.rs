//! The whole world of a run: processes, links, clients, the queue of what is due, and what is watched on the way.
//!
//! One event at a time: take the earliest from the queue, let it happen, put its consequences into the queue.
//! A node's turn takes everything that has arrived since its last one; when turns happen is drawn.

mod connections;
mod faults;

use std::collections::BTreeMap;

use base::{NodeId, Position, Rng};
use bytes::Bytes;
use node::{Config, Level, Member, Planted};
use storage::JournalOptions;

use crate::chaos::{Chaos, Fault, MS, SECOND};
use crate::checkers::agreement::Agreement;
use crate::checkers::liveness::Ending;
use crate::checkers::replicas::Replicas;
use crate::client::{Client, Record};
use crate::clock::Clock;
use crate::disk::SimDisk;
use crate::door::Door;
use crate::events::{Event, Queue};
use crate::network::Network;
use crate::process::{self, Commit, Death, Happening, Running, name_of};
use crate::trace::{Trace, digest_of};
use connections::{ClientEnd, Connection};

/// One machine: its disk, and the process on it if there is one.
#[derive(Debug)]
struct Machine<N> {
    disk: SimDisk,
    running: Option<Running<N>>,
    /// Counts starts and deaths; events of another life are out of date.
    life: u64,
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
    damaged_until: Option<Position>,
    /// Its next start is broken off after so many operations of its disk.
    fuse_at_start: Option<u32>,
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
    queue: Queue,
    machines: Vec<Machine<N>>,
    network: Network,
    clients: Vec<Client>,
    client_ends: Vec<ClientEnd>,
    connections: BTreeMap<u64, Connection>,
    next_connection: u64,
    planted: Option<Planted>,
    /// Faults are over.
    healed: bool,
    rng: Rng,
}

impl<N: Door> Cluster<N> {
    /// A world at its beginning: every process is about to start, every client about to connect.
    #[must_use]
    pub fn new(chaos: Chaos, planted: Option<Planted>, dropped: &[u32], trace: Trace) -> Cluster<N> {
        let mut rng = Rng::new(chaos.cluster_seed);
        let mut clients_rng = Rng::new(chaos.workload_seed);
        let mix = crate::workload::Mix::draw(&mut clients_rng);
        let machines = (0..usize::from(chaos.nodes))
            .map(|node| Machine {
                disk: SimDisk::new(rng.next_u64()),
                running: None,
                life: 0,
                paused_until: 0,
                stalled_until: 0,
                disturbed_at: 0,
                dark: false,
                clock_offset: chaos.clock_offsets[node],
                clock_rate: chaos.clock_rates[node],
                damaged_until: None,
                fuse_at_start: None,
                start_is_due: false,
            })
            .collect();
        // A client waits somewhat longer than a node may take, whose clock may be slow.
        let timeout = chaos.request_timeout_ms * MS * 13 / 10 + 2 * SECOND;
        let clients =
            (0..mix.clients).map(|id| Client::new(id, clients_rng.fork(), mix.clone(), chaos.nodes, timeout)).collect();
        let network = Network::new(&chaos, rng.fork());
        let mut cluster = Cluster {
            now: 0,
            record: Record::default(),
            trace,
            injected: BTreeMap::new(),
            probes: BTreeMap::new(),
            violations: Vec::new(),
            agreement: Agreement::default(),
            replicas: Replicas::default(),
            queue: Queue::default(),
            machines,
            network,
            client_ends: vec![ClientEnd::default(); mix.clients as usize],
            clients,
            connections: BTreeMap::new(),
            next_connection: 1,
            planted,
            healed: false,
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
        for (number, planned) in cluster.chaos.plan.iter().enumerate() {
            if !dropped.contains(&(number as u32)) {
                cluster.queue.push(planned.at, Event::Fault(number as u32));
            }
        }
        cluster
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

    // --- processes ---------------------------------------------------------------------------------------------

    fn config(&mut self, node: NodeId) -> Config {
        let members = self
            .nodes()
            .map(|member| Member { name: name_of(member), peer_address: format!("127.0.0.1:{}", 9001 + member.0) })
            .collect();
        Config {
            members,
            me: node,
            resp_address: format!("127.0.0.1:{}", 7001 + node.0),
            http_address: format!("127.0.0.1:{}", 8001 + node.0),
            process_id: 1000 + u32::from(node.0),
            value_bytes_max: base::limits::VALUE_BYTES_DEFAULT,
            request_timeout: std::time::Duration::from_millis(self.chaos.request_timeout_ms),
            password: None,
            log_bytes_per_snapshot: self.chaos.log_bytes_per_snapshot,
            log_entries_kept: self.chaos.log_entries_kept,
            seed: self.rng.next_u64(),
            planted: self.planted,
        }
    }

    fn start_in(&mut self, delay: u64, node: NodeId) {
        if !std::mem::replace(&mut self.machine(node).start_is_due, true) {
            let at = self.now + delay;
            self.queue.push(at, Event::Start(node));
        }
    }

    fn on_start(&mut self, node: NodeId) {
        let now = self.now;
        self.machine(node).start_is_due = false;
        if self.machine(node).running.is_some() {
            return;
        }
        let config = self.config(node);
        let segment = self.chaos.segment_bytes;
        let options = JournalOptions { first_segment_bytes: 64 << 10, segment_bytes: segment, free_segments_max: 2 };
        let mut rng = self.rng.fork();
        let origin = rng.below(1000 * SECOND);
        let machine = self.machine(node);
        machine.life += 1;
        machine.dark = false;
        machine.paused_until = now;
        machine.disk.repair();
        if let Some(fuse) = machine.fuse_at_start.take() {
            machine.disk.light_fuse(fuse);
        }
        let clock = Clock::new(now, origin, machine.clock_rate, machine.clock_offset);
        let started = process::start::<N>(&machine.disk, config, options, clock, now, &mut rng);
        let life = machine.life;
        self.trace.event(now, [2, u64::from(node.0), life, u64::from(started.is_ok())], || match &started {
            Ok(running) => format!("{} starts, life {life}: {}", name_of(node), running.found),
            Err(death) => format!("{} fails to start: {death:?}", name_of(node)),
        });
        match started {
            Ok(running) => {
                self.machine(node).running = Some(running);
                self.carry_out(node);
                self.watch(node);
                for peer in self.nodes() {
                    self.want_link(node, peer);
                }
            }
            Err(Death::Arranged(_)) => {
                let power = self.rng.chance(1, 2);
                let delay = self.rng.between(10 * MS, 500 * MS);
                let machine = self.machine(node);
                if machine.disk.is_blown() && power {
                    machine.disk.lose_power();
                }
                machine.disk.repair();
                self.start_in(delay, node);
            }
            Err(Death::Violation(text)) => self.violate("start", format!("{}: {text}", name_of(node))),
        }
    }

    /// Lets a node have a turn soon.
    fn poke(&mut self, node: NodeId) {
        // The time until the loop gets round to it: most of the time at once, sometimes other work is before it.
        let delay = if self.rng.chance(1, 8) { self.rng.below(2 * MS) } else { self.rng.below(60_000) };
        let at = self.now + delay;
        let machine = self.machine(node);
        let life = machine.life;
        if let Some(running) = &mut machine.running
            && running.turn_at.is_none()
        {
            running.turn_at = Some(at);
            self.queue.push(at, Event::Turn(node, life));
        }
    }

    fn give(&mut self, node: NodeId, happening: Happening) {
        if let Some(running) = &mut self.machine(node).running {
            running.inbox.push(happening);
            self.poke(node);
        }
    }

    fn on_wake(&mut self, node: NodeId, life: u64) {
        let now = self.now;
        if let Some(running) = self.process(node, life)
            && running.wake_at.is_some_and(|at| at <= now)
        {
            running.wake_at = None;
            self.poke(node);
        }
    }

    fn on_turn(&mut self, node: NodeId, life: u64) {
        if self.put_off(node, Event::Turn(node, life)) {
            return;
        }
        let now = self.now;
        let Some(running) = self.process(node, life) else { return };
        running.turn_at = None;
        let inputs = running.inbox.len() as u64;
        running.turn(now);
        self.trace
            .event(now, [3, u64::from(node.0), life, inputs], || format!("{} turn, {inputs} inputs", name_of(node)));
        self.carry_out(node);
        self.watch(node);
    }

    /// Does what lies in a node's outbox.
    fn carry_out(&mut self, node: NodeId) {
        let now = self.now;
        let machine = self.machine(node);
        let life = machine.life;
        let Some(running) = &mut machine.running else { return };
        let clients = std::mem::take(&mut running.outbox.clients);
        let close = std::mem::take(&mut running.outbox.close);
        let pause = std::mem::take(&mut running.outbox.pause);
        let peers = std::mem::take(&mut running.outbox.peers);
        let events = std::mem::take(&mut running.outbox.events);
        let stopped = std::mem::take(&mut running.outbox.stopped);
        let fatal = running.outbox.fatal.take();
        let wake = running.outbox.wake_at.take().map(|time| running.clock.when(time).max(now));
        let snapshot = running.take_disk_work();
        if let Some(at) = wake
            && running.wake_at.is_none_or(|known| known > at || known < now)
        {
            running.wake_at = Some(at);
            self.queue.push(at, Event::Wake(node, life));
        }
        for (level, text) in events {
            let number = digest_of(text.as_bytes());
            self.trace.event(now, [4, u64::from(node.0), number, level as u64], || {
                format!("{} {} {text}", name_of(node), level_name(level))
            });
        }
        if let Some(text) = fatal {
            // What a node finds out about its own damaged disk may be a reason to end; otherwise nothing is.
            if self.machine(node).damaged_until.is_none() {
                self.violate("no node breaks", format!("{}: {text}", name_of(node)));
            }
            self.die(node, false, "its own verdict");
            let delay = self.rng.between(100 * MS, SECOND);
            self.start_in(delay, node);
            return;
        }
        for (peer, bytes) in peers {
            self.send_to_peer(node, peer, &bytes);
        }
        self.serve_clients(node, clients, close, pause);
        self.begin_commit(node);
        if snapshot {
            let at = now + self.rng.between(100_000, 5 * MS);
            self.queue.push(at, Event::SnapshotPart(node, life));
        }
        if stopped {
            self.die(node, false, "it stopped as asked");
            let delay = self.rng.between(10 * MS, 2 * SECOND);
            self.start_in(delay, node);
        }
    }

    fn begin_commit(&mut self, node: NodeId) {
        let machine = self.machine(node);
        let life = machine.life;
        let Some(running) = &mut machine.running else { return };
        if running.begin_commit() {
            let bytes = running.commit_bytes();
            let mut time = self.chaos.sync_min + self.rng.below(self.chaos.sync_jitter.max(1)) + 2 * bytes;
            if self.rng.below(1_000_000) < self.chaos.sync_slow && !self.healed {
                time *= self.rng.between(2, 100);
                *self.injected.entry(Fault::SlowSync).or_default() += 1;
            }
            let at = (self.now + time).max(self.machine(node).stalled_until);
            self.queue.push(at, Event::Commit(node, life));
        }
    }

    fn on_commit(&mut self, node: NodeId, life: u64) {
        if self.put_off(node, Event::Commit(node, life)) {
            return;
        }
        let now = self.now;
        let disk = self.machine(node).disk.clone();
        let Some(running) = self.process(node, life) else { return };
        let result = running.commit(&disk);
        self.trace.event(now, [5, u64::from(node.0), life, u64::from(result.is_ok())], || {
            format!("{} commit: {result:?}", name_of(node))
        });
        match result {
            Ok(Commit::Done) => {
                self.poke(node);
                self.begin_commit(node);
            }
            Ok(Commit::Full) => {
                self.poke(node);
                self.queue.push(now + 100 * MS, Event::Commit(node, life));
            }
            Err(death) => self.on_death(node, death),
        }
    }

    fn on_snapshot_part(&mut self, node: NodeId, life: u64) {
        if self.put_off(node, Event::SnapshotPart(node, life)) {
            return;
        }
        let now = self.now;
        let disk = self.machine(node).disk.clone();
        let Some(running) = self.process(node, life) else { return };
        let result = running.write_snapshot(&disk);
        self.trace.event(now, [6, u64::from(node.0), life, u64::from(result == Ok(true))], || {
            format!("{} snapshot: {result:?}", name_of(node))
        });
        match result {
            Ok(true) => {
                let at = now + self.rng.between(100_000, 10 * MS);
                self.queue.push(at, Event::SnapshotPart(node, life));
            }
            Ok(false) => self.poke(node),
            Err(death) => self.on_death(node, death),
        }
    }

    /// A process ends because of what its disk did.
    fn on_death(&mut self, node: NodeId, death: Death) {
        match death {
            Death::Violation(text) => self.violate("journal order", format!("{}: {text}", name_of(node))),
            Death::Arranged(text) => {
                self.die(node, false, &text);
                let delay = self.rng.between(10 * MS, SECOND);
                self.start_in(delay, node);
            }
        }
    }

    /// Ends a process. With `power`, its machine loses what was not synced.
    fn die(&mut self, node: NodeId, power: bool, reason: &str) {
        let now = self.now;
        let fuse = self.rng.below(8) as u32;
        let machine = self.machine(node);
        let Some(mut running) = machine.running.take() else { return };
        if running.is_writing() && !machine.disk.is_blown() {
            machine.disk.light_fuse(fuse);
            running.write_last_words(&machine.disk);
        }
        let probes = running.node.take_probes();
        drop(running);
        if power {
            machine.disk.lose_power();
        }
        machine.disk.repair();
        machine.life += 1;
        machine.disturbed_at = now;
        machine.dark = power;
        for (probe, count) in probes {
            *self.probes.entry(probe).or_default() += count;
        }
        let number = digest_of(reason.as_bytes());
        self.trace.event(now, [7, u64::from(node.0), u64::from(power), number], || {
            format!("{} ends: {reason}{}", name_of(node), if power { ", power lost" } else { "" })
        });
        for peer in self.nodes() {
            if peer != node && self.network.break_link(node, peer) {
                // A killed process's peers hear of it at once, those of a dark machine when they lose patience.
                let delay = if power { self.rng.between(200 * MS, 3 * SECOND) } else { self.rng.below(2 * MS) };
                self.queue.push(now + delay, Event::LinkDown(peer, node));
            }
            self.network.forget(node, peer);
        }
        self.drop_connections_of(node, power);
    }

    // --- links -------------------------------------------------------------------------------------------------

    fn want_link(&mut self, one: NodeId, other: NodeId) {
        if one != other && self.network.claim_trying(one, other) {
            let at = self.now + self.rng.between(MS, 100 * MS);
            self.queue.push(at, Event::TryLink(one, other));
        }
    }

    fn on_try_link(&mut self, one: NodeId, other: NodeId) {
        let now = self.now;
        let ready = |machine: &Machine<N>| machine.running.is_some() && machine.paused_until <= now;
        let both = ready(self.machine(one)) && ready(self.machine(other));
        let Some((generation, unheard)) = (if both { self.network.establish(one, other) } else { None }) else {
            let at = now + self.rng.between(20 * MS, 200 * MS);
            self.queue.push(at, Event::TryLink(one, other));
            return;
        };
        self.network.stop_trying(one, other);
        self.trace.event(now, [8, u64::from(one.0), u64::from(other.0), generation], || {
            format!("link {} - {} is up", name_of(one), name_of(other))
        });
        let (low, high) = (one.min(other), one.max(other));
        for (node, peer, unheard) in [(low, high, unheard[0]), (high, low, unheard[1])] {
            if unheard {
                self.give(node, Happening::PeerDown(peer));
            }
            self.give(node, Happening::PeerUp(peer));
        }
    }

    fn on_link_down(&mut self, node: NodeId, peer: NodeId) {
        if self.machine(node).running.is_some() && self.network.tell_down(node, peer) {
            let now = self.now;
            self.trace.event(now, [9, u64::from(node.0), u64::from(peer.0), 0], || {
                format!("{} has lost {}", name_of(node), name_of(peer))
            });
            self.give(node, Happening::PeerDown(peer));
        }
        self.want_link(node, peer);
    }

    fn send_to_peer(&mut self, from: NodeId, to: NodeId, bytes: &[u8]) {
        let mut frames = wire::FrameReader::new();
        frames.push(bytes);
        let mut deliveries = Vec::new();
        loop {
            match frames.next() {
                Ok(Some(payload)) => self.network.send(from, to, payload, self.now, &mut deliveries),
                Ok(None) => break,
                Err(error) => {
                    self.violate("frames", format!("{} sent no frame: {error:?}", name_of(from)));
                    return;
                }
            }
        }
        if frames.buffered_bytes() > 0 {
            self.violate("frames", format!("{} sent part of a frame", name_of(from)));
        }
        for delivery in deliveries {
            self.queue.push(delivery.at, Event::Message(from, to, delivery.generation, delivery.payload));
        }
    }

    fn on_message(&mut self, from: NodeId, to: NodeId, generation: u64, payload: Bytes) {
        if self.network.is_current(from, to, generation) {
            let now = self.now;
            let route = u64::from(from.0) << 32 | u64::from(to.0);
            let (length, digest) = (payload.len() as u64, digest_of(&payload));
            self.trace.event(now, [10, route, length, digest], || {
                format!("{} -> {}: {length} bytes {digest:016x}", name_of(from), name_of(to))
            });
            self.give(to, Happening::PeerMessage(from, payload));
        }
    }

    fn on_mend(&mut self, from: NodeId, to: NodeId) {
        let (held, breaks) = self.network.mend(from, to);
        let mut deliveries = Vec::new();
        for payload in held {
            self.network.send(from, to, payload, self.now, &mut deliveries);
        }
        for delivery in deliveries {
            self.queue.push(delivery.at, Event::Message(from, to, delivery.generation, delivery.payload));
        }
        if breaks {
            self.reset_link(from, to);
        }
    }

    fn reset_link(&mut self, one: NodeId, other: NodeId) {
        if self.network.break_link(one, other) {
            for (node, peer) in [(one, other), (other, one)] {
                let at = self.now + self.rng.below(50 * MS);
                self.queue.push(at, Event::LinkDown(node, peer));
            }
        }
    }

    // --- watching ----------------------------------------------------------------------------------------------

    /// Compares what a node has decided and applied with what others have.
    fn watch(&mut self, node: NodeId) {
        let healed = self.healed;
        let machine = &mut self.machines[usize::from(node.0)];
        let Some(running) = &mut machine.running else { return };
        let progress = running.node.progress();
        if progress.applied > progress.decided {
            let text = format!("{}: applied {} beyond decided {}", name_of(node), progress.applied, progress.decided);
            self.violations.push(("agreement", text));
        }
        let from = running.seen.max(progress.first.previous());
        let mut position = from.next();
        while position <= progress.decided {
            if let Some(digest) = running.node.decided_entry_digest(position) {
                self.agreement.observe(node, position, digest);
            }
            position = position.next();
        }
        let moved = running.seen < progress.decided;
        running.seen = running.seen.max(progress.decided);
        // The digest costs a walk over the whole state, so not every position is compared; the last ones are.
        if moved && (progress.applied.0.is_multiple_of(4) || healed) && progress.applied.0 > 0 {
            self.replicas.observe(node, progress.applied, running.node.state_digest());
        }
        let caught_up = |until| progress.persisted >= until && progress.applied >= until;
        if machine.damaged_until.is_some_and(caught_up) && progress.votes && !machine.disk.is_rotten() {
            machine.damaged_until = None;
        }
        if let Some(text) = self.agreement.violations().first().cloned() {
            self.violate("agreement", text);
        } else if let Some(text) = self.replicas.violations().first().cloned() {
            self.violate("replicas agree", text);
        }
    }

    /// What every node looks like now.
    #[must_use]
    pub fn endings(&self) -> Vec<Ending> {
        let ending = |(node, machine): (usize, &Machine<N>)| Ending {
            node: NodeId(node as u16),
            state: machine
                .running
                .as_ref()
                .map(|running| (running.node.progress().applied, running.node.state_digest())),
        };
        self.machines.iter().enumerate().map(ending).collect()
    }

    /// Adds up what was never told: probes of nodes that still run, and what disks and links did.
    pub fn close_books(&mut self) {
        for machine in &mut self.machines {
            for (probe, count) in machine.running.iter_mut().flat_map(|running| running.node.take_probes()) {
                *self.probes.entry(probe).or_default() += count;
            }
        }
        let fates = self.network.fates;
        let sums = [(Fault::Loss, fates.lost), (Fault::Duplicate, fates.duplicated), (Fault::Reorder, fates.reordered)];
        for (fault, count) in sums.into_iter().filter(|(_, count)| *count > 0) {
            *self.injected.entry(fault).or_default() += count;
        }
    }
}

fn level_name(level: Level) -> &'static str {
    match level {
        Level::Debug => "debug",
        Level::Info => "info",
        Level::Warning => "warning",
        Level::Error => "error",
    }
}
