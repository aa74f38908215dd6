//! A second process with the name of a node: on an empty folder, or on a copy of the node's folder, which was made while the node ran or after it was killed.
//!
//! The others refuse it as long as they have a link with the node, as servers do (`server/src/event_loop/peers/greeting.rs`); where that link is lost, the first of the two that calls is linked.
//! A copy may also have gone on alone before it is started, as in a rehearsal of the loss of all others (`rehearsal.rs`).
//! After some seconds the operator looks, and ends what nobody listens to. Where the others have taken the second process for the node, its folder is the node's from then on.
//!
//! Nobody can tell a copy from the folder as long as nothing was heard of that only one of them has (docs/decisions/2026-11-25-restored-folders.md, "What remains"). So
//! a copy is started when all others have heard of what it lacks, and a node whose folder was moved comes back when all others have heard of what has come to
//! that since. Meanwhile no node dies, stands still or is cut off: it would forget what it has heard, or not hear it.

mod links;
mod rehearsal;
mod verdict;

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{NodeId, Rng};
use bytes::Bytes;
use node::{Config, Level, NodeKey, PlainSigner};

use super::Cluster;
use crate::chaos::{Fault, MS, SECOND};
use crate::clock::Clock;
use crate::disk::SimDisk;
use crate::door::Door;
use crate::events::Event;
use crate::process::{self, Commit, Happening, Running, name_of};
use crate::trace::digest_of;

/// Names of what is counted here.
pub(crate) const PROBES: [&str; 11] =
    [EMPTY, COPIED, ALONE, MOVED, LINKED, REFUSED, ENDED, NODE_ENDED, TAKEN_OVER, BOTH_ENDED, rehearsal::LIED];
const EMPTY: &str = "sim: a second process began with an empty folder";
const COPIED: &str = "sim: a second process began with an earlier copy of the node's folder";
const MOVED: &str = "sim: a second process began with the node's folder";
const ALONE: &str = "sim: a second process began with a copy that has gone on alone";
const LINKED: &str = "sim: a second process of a node's name was linked";
const REFUSED: &str = "sim: a second process of a node's name was linked with nobody";
const ENDED: &str = "sim: a second process of a node's name has ended by itself";
const NODE_ENDED: &str = "sim: a node has ended because of a second process of its name";
const TAKEN_OVER: &str = "sim: the folder of a second process has become the node's";
const BOTH_ENDED: &str = "sim: a node and a second process of its name have both ended";
const PROPERTY: &str = "second processes";

/// How long after the last new link it must be clear who is listened to: pings come twenty times a second, and bring what others know.
const SETTLED_AFTER: u64 = 2 * SECOND;
const LOOK_EVERY: u64 = 500 * MS;

/// An event of the second process or of one of its links.
#[derive(Clone, Debug)]
pub enum DoubleEvent {
    /// It takes what has arrived.
    Turn,
    /// It wanted to be woken.
    Wake,
    /// Its disk has synced its writes, and the rest of its work with the disk is done.
    Commit,
    /// It calls a node.
    Call(NodeId),
    /// A message on the link with that number reaches a node.
    ToNode(NodeId, u64, Bytes),
    /// A message on the link with that number reaches it.
    FromNode(NodeId, u64, Bytes),
    /// The node, which was killed, is started again, on its own folder.
    NodeBack,
    /// The operator looks who is listened to.
    Look,
}

/// The folder on which it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Folder {
    Empty,
    /// An earlier copy of the folder of a node that goes on.
    Copied,
    /// A copy of the folder of a node that was killed, and comes back.
    Moved,
    /// A copy of the folder of a node that goes on, which says that the cluster has gone on without the others.
    Alone,
}

impl Folder {
    fn probe(self) -> &'static str {
        match self {
            Folder::Empty => EMPTY,
            Folder::Copied => COPIED,
            Folder::Moved => MOVED,
            Folder::Alone => ALONE,
        }
    }
}

/// Its link with one node.
#[derive(Clone, Copy, Debug, Default)]
struct Link {
    number: u64,
    last_arrival: [u64; 2],
}

/// A second process. It is there until its operator has looked.
#[derive(Debug)]
pub(super) struct Double<N> {
    of: NodeId,
    folder: Folder,
    /// The key that it shows.
    key: NodeKey,
    disk: SimDisk,
    running: Option<Running<N>>,
    links: BTreeMap<NodeId, Link>,
    links_made: u64,
    /// When it was linked last, or a node with the node.
    last_linked: u64,
    /// The name of the memory in the folder that was moved, and the highest number that anything in its journal may have.
    moved: (u64, u64),
    /// The node has ended by its own verdict: its folder is an earlier copy. It is not started before the operator has looked.
    node_has_ended: bool,
    /// It has ended, and it is seen whether the node does.
    is_over: bool,
}

impl<N: Door> Cluster<N> {
    /// Starts one. False if that is not possible now.
    pub(super) fn start_second_process(&mut self, node: NodeId, duration: u64, rng: &mut Rng) -> bool {
        let (drawn, copies) = (*rng.pick(&[Folder::Empty, Folder::Moved, Folder::Alone]), rng.chance(2, 3));
        // The first time one is taken.
        let copy = if copies { self.outdated_copy(node) } else { None };
        if !self.may_have_double(node) {
            let machine = self.machine(node);
            machine.earlier = copy.or(machine.earlier.take());
            return false;
        }
        let mut disk = SimDisk::new(rng.next_u64());
        let moved = self.machine(node).running.as_ref().map(|running| running.node.folder()).unwrap_or_default();
        let folder = if copy.is_some() { Folder::Copied } else { drawn };
        if let Some(earlier) = copy {
            disk.set_back(&earlier.copy);
        } else if folder == Folder::Moved {
            self.die(node, false, "killed, and its folder moved");
            disk.set_back(&self.machine(node).disk.copy());
        } else if folder == Folder::Alone {
            let Some(copy) = self.copy_gone_on_alone(node, rng) else { return false };
            disk = copy;
        } else {
            // If others hear of that life the node's folder is one that was away.
            self.machine(node).came_back = Some(moved.0);
        }
        // A copy of the folder has the node's key in it.
        let key = if folder == Folder::Empty { self.key_of_double(node, rng) } else { self.keys.of(node) };
        let Some(running) = self.begin_double(node, key, &disk, rng) else {
            self.violate(PROPERTY, format!("a second {} cannot be started on a folder that is whole", name_of(node)));
            return false;
        };
        let now = self.now;
        *self.probes.entry(folder.probe()).or_default() += 1;
        self.doubles += 1;
        self.double = Some(Double {
            of: node,
            folder,
            key,
            disk,
            running: Some(running),
            links: BTreeMap::new(),
            links_made: 0,
            last_linked: now,
            moved,
            node_has_ended: false,
            is_over: false,
        });
        self.trace.event(now, [26, u64::from(node.0), folder as u64, 0], || {
            format!("a second process of the name {} begins, folder: {folder:?}", name_of(node))
        });
        for peer in self.members().filter(|peer| *peer != node).collect::<Vec<_>>() {
            if rng.chance(1, 2) {
                self.reset_link(node, peer);
            }
            self.double_in(rng.below(50 * MS), DoubleEvent::Call(peer));
        }
        if folder == Folder::Moved {
            self.double_in(rng.between(10 * MS, 2 * SECOND), DoubleEvent::NodeBack);
        }
        // A node ends by such a word only after some seconds without a majority.
        let lasts = if folder == Folder::Alone { 5 * SECOND } else { 2 * SECOND };
        self.double_in(lasts + duration, DoubleEvent::Look);
        self.carry_out_double();
        true
    }

    /// True if all nodes are so well that the acts of a second process can be judged.
    fn may_have_double(&mut self, node: NodeId) -> bool {
        let now = self.now;
        let is_quiet = self.nodes().all(|one| self.nodes().all(|other| !self.network.is_cut(one, other)));
        let is_well = |machine: &super::Machine<N>| {
            let runs = machine.running.as_ref().is_some_and(|it| !it.stopping && it.node.folder().0 != 0);
            runs && machine.is_whole()
                && machine.paused_until <= now
                && machine.cut_in_write.is_none()
                && !machine.disk.is_about_to_fail()
        };
        let all_are_well = self.members().all(|id| is_well(&self.machines[usize::from(id.0)]));
        let is_founder = node.0 < self.chaos.founders && self.members().any(|id| id == node);
        let goes_alone = self.chaos.plan.iter().any(|planned| planned.fault == Fault::UnsafeRecover);
        let is_needed = self.members().count() < 3 || !self.groups.bear(|id| id == node);
        let other_versions = self.machines.iter().any(|it| it.newest != base::versions::NEWEST || it.upgrade_is_due);
        let waits = self.healed || self.double.is_some() || self.spares_steps(Fault::SetBack);
        // A node under a key that the others do not know hears nobody but the second process.
        let waits = waits || self.keys.are_changing();
        let is_bad = !is_quiet || !all_are_well || !is_founder || !self.founded;
        !waits && !is_bad && !goes_alone && !is_needed && !other_versions
    }

    fn begin_double(&mut self, node: NodeId, key: NodeKey, disk: &SimDisk, rng: &mut Rng) -> Option<Running<N>> {
        // Its operator gives it the label of the process that it is a second one of; that one's stays as it is.
        let zone = self.machine(node).zone.clone();
        let config = self.config(node);
        let config = Config { key: Some(key), signer: Some(Arc::new(PlainSigner(key))), zone: zone.clone(), ..config };
        self.machine(node).zone = zone;
        let clock = Clock::new(self.now, rng.below(1000 * SECOND), 1_000_000, 0);
        process::start::<N>(disk, self.start_with(config, clock), &mut rng.fork()).ok()
    }

    fn double_in(&mut self, delay: u64, event: DoubleEvent) {
        self.queue.push(self.now + delay, Event::Double(self.doubles, event));
    }

    /// True if a fault has to wait as long as there is one.
    pub(super) fn waits_for_double(&self, fault: Fault) -> bool {
        let may_be = matches!(
            fault,
            Fault::LinkReset | Fault::ClockJump | Fault::SlowDisk | Fault::SlowReaders | Fault::SettingsChange
        );
        self.double.is_some() && !may_be
    }

    pub(super) fn on_double(&mut self, number: u64, event: DoubleEvent) {
        if number != self.doubles || self.double.is_none() {
            return;
        }
        match event {
            DoubleEvent::Turn => self.take_turn_of_double(),
            DoubleEvent::Wake => {
                let now = self.now;
                let running = self.double.as_mut().and_then(|double| double.running.as_mut());
                if let Some(running) = running
                    && running.wake_at.is_some_and(|at| at <= now)
                {
                    running.wake_at = None;
                    self.poke_double();
                }
            }
            DoubleEvent::Commit => self.commit_double(),
            DoubleEvent::Call(peer) => self.call_by_double(peer),
            DoubleEvent::ToNode(peer, link, payload) => {
                if let Some(of) = self.linked_double(peer, link) {
                    self.give(peer, Happening::PeerMessage(of, payload));
                    self.lie(peer, of);
                }
            }
            DoubleEvent::FromNode(peer, link, payload) => {
                if self.linked_double(peer, link).is_some() {
                    self.give_double(Happening::PeerMessage(peer, payload));
                }
            }
            DoubleEvent::NodeBack => {
                let Some(double) = self.double.as_ref().filter(|double| !double.is_over) else { return };
                let (of, (memory, journal)) = (double.of, double.moved);
                if self.all_others_know(of, memory, journal) {
                    self.start_in(0, of);
                } else {
                    self.double_in(LOOK_EVERY, DoubleEvent::NodeBack);
                }
            }
            DoubleEvent::Look => self.look_at_double(),
        }
    }
    fn give_double(&mut self, happening: Happening) {
        if let Some(running) = self.double.as_mut().and_then(|double| double.running.as_mut()) {
            running.inbox.push(happening);
            self.poke_double();
        }
    }

    fn poke_double(&mut self) {
        let at = self.now + 50_000;
        let Some(running) = self.double.as_mut().and_then(|double| double.running.as_mut()) else { return };
        if running.turn_at.is_none() {
            running.turn_at = Some(at);
            self.queue.push(at, Event::Double(self.doubles, DoubleEvent::Turn));
        }
    }

    fn take_turn_of_double(&mut self) {
        let now = self.now;
        let Some(double) = &mut self.double else { return };
        let (of, Some(running)) = (double.of, &mut double.running) else { return };
        running.turn_at = None;
        let inputs = running.inbox.len() as u64;
        running.turn(now);
        self.trace
            .event(now, [27, u64::from(of.0), inputs, 0], || format!("second {} turn, {inputs} inputs", name_of(of)));
        self.note_persisted_by_double();
        self.carry_out_double();
    }

    /// A leader that takes it for the node may answer that its copy of a write is one of those on all disks.
    fn note_persisted_by_double(&mut self) {
        let Some(double) = self.double.as_ref().filter(|double| double.folder != Folder::Alone) else { return };
        let (of, Some(running)) = (double.of, &double.running) else { return };
        let of_partition = |id| running.node.progress(id).map(|progress| (id, progress.persisted));
        let persisted: Vec<_> = running.node.partitions().into_iter().filter_map(of_partition).collect();
        for (partition, position) in persisted {
            let most = self.machine(of).most_persisted.entry(partition).or_default();
            *most = position.max(*most);
        }
    }

    fn carry_out_double(&mut self) {
        let now = self.now;
        let Some(double) = &mut self.double else { return };
        let (of, Some(running)) = (double.of, &mut double.running) else { return };
        let peers = std::mem::take(&mut running.outbox.peers);
        let events = std::mem::take(&mut running.outbox.events);
        running.outbox.roll = None;
        running.outbox.audit.clear();
        let fatal = running.outbox.fatal.take();
        let stopped = std::mem::take(&mut running.outbox.stopped);
        let wake = running.outbox.wake_at.take().map(|time| running.clock.when(time).max(now));
        let _ = running.take_disk_work();
        let may_wake = wake.filter(|at| running.wake_at.is_none_or(|known| known > *at || known < now));
        if let Some(at) = may_wake {
            running.wake_at = Some(at);
        }
        let begins = running.begin_commit(now) || running.is_writing();
        for line in events.iter().filter(|line| line.level != Level::Debug) {
            self.trace.event(now, [28, u64::from(of.0), digest_of(line.text.as_bytes()), 0], || {
                format!("second {}: {}", name_of(of), line.text)
            });
        }
        if let Some(text) = fatal.or_else(|| stopped.then(|| "it was told to stop".to_owned())) {
            *self.probes.entry(ENDED).or_default() += 1;
            return self.end_double(&text);
        }
        if let Some(at) = may_wake {
            self.queue.push(at, Event::Double(self.doubles, DoubleEvent::Wake));
        }
        if begins {
            let time = self.chaos.sync_min + self.rng.below(self.chaos.sync_jitter.max(1));
            self.double_in(time, DoubleEvent::Commit);
        }
        for (peer, bytes) in peers {
            self.send_by_double(peer, &bytes, true);
        }
    }

    /// Does all its work with the disk at once. The steps in between are the business of [`super::processes`].
    fn commit_double(&mut self) {
        let now = self.now;
        let Some(double) = &mut self.double else { return };
        let disk = double.disk.clone();
        let (of, Some(running)) = (double.of, &mut double.running) else { return };
        if running.is_committing {
            match running.commit(&disk, now) {
                Ok(Commit::Done) => {}
                other => {
                    let text = format!("second {}: commit: {other:?}", name_of(of));
                    return self.violate("journal order", text);
                }
            }
        }
        while running.has_blocks() {
            running.make_block(false);
        }
        // Nobody harms its disk.
        let finished = loop {
            match running.write_snapshot(&disk).and_then(|more| Ok(running.take_blocks(&disk, None)? || more)) {
                Ok(true) => {}
                other => break other,
            }
        };
        if let Err(death) = finished {
            return self.violate(PROPERTY, format!("second {}: {death:?}", name_of(of)));
        }
        let Some(running) = self.double.as_mut().and_then(|double| double.running.as_mut()) else { return };
        if !running.inbox.is_empty() {
            self.poke_double();
        }
    }

    /// The process ends. Its folder stays until the operator has looked.
    fn end_double(&mut self, text: &str) {
        let now = self.now;
        let Some(double) = &mut self.double else { return };
        let of = double.of;
        let Some(running) = double.running.take() else { return };
        let _ = running.close();
        let peers: Vec<NodeId> = double.links.keys().copied().collect();
        self.trace.event(now, [26, u64::from(of.0), digest_of(text.as_bytes()), 1], || {
            format!("the second process of the name {} ends: {text}", name_of(of))
        });
        for peer in peers {
            self.unlink_double(of, peer);
        }
    }
}
