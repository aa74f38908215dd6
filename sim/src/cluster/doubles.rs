//! A second process with the name of a node: on an empty folder, or on a copy of the node's folder, which was made while the node ran or after it was killed.
//!
//! The others refuse it as long as they have a link with the node, as servers do (`server/src/event_loop/peers/greeting.rs`); where that link is lost, whoever calls first is linked.
//! After some seconds the operator looks, and ends what nobody listens to. Where the others have taken the second process for the node, its folder is the node's from then on.
//!
//! Nobody can tell a copy from the folder as long as nothing was heard of that only one of them has (docs/decisions/2026-11-25-restored-folders.md, "What remains"). So
//! a copy is started when all others have heard of what it lacks, and a node whose folder was moved comes back when all others have heard of what has come to
//! that since. Meanwhile no node dies, stands still or is cut off: it would forget what it has heard, or not hear it.

use std::collections::BTreeMap;

use base::{NodeId, Rng};
use bytes::Bytes;
use node::{Level, LinkTerms};
use storage::JournalOptions;

use super::Cluster;
use crate::chaos::{Fault, MS, SECOND};
use crate::clock::Clock;
use crate::disk::SimDisk;
use crate::door::Door;
use crate::events::Event;
use crate::process::{self, Commit, Happening, Running, name_of};
use crate::trace::digest_of;

/// Names of what is counted here.
pub(crate) const PROBES: [&str; 9] = [EMPTY, COPIED, MOVED, LINKED, REFUSED, ENDED, NODE_ENDED, TAKEN_OVER, BOTH_ENDED];
const EMPTY: &str = "sim: a second process began with an empty folder";
const COPIED: &str = "sim: a second process began with an earlier copy of the node's folder";
const MOVED: &str = "sim: a second process began with the node's folder";
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

/// What happens to the second process or to one of its links.
#[derive(Clone, Debug)]
pub enum DoubleEvent {
    /// It takes what has arrived.
    Turn,
    /// It wanted to be woken.
    Wake,
    /// What it has written is synced, and the rest of its work with the disk done.
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

/// What its folder is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Folder {
    Empty,
    /// An earlier copy of the folder of a node that goes on.
    Copied,
    /// A copy of the folder of a node that was killed, and comes back.
    Moved,
}

impl Folder {
    fn probe(self) -> &'static str {
        match self {
            Folder::Empty => EMPTY,
            Folder::Copied => COPIED,
            Folder::Moved => MOVED,
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
        let (drawn, copies) = (*rng.pick(&[Folder::Empty, Folder::Moved]), rng.chance(2, 3));
        // The first time one is taken.
        let copy = if copies { self.outdated_copy(node) } else { None };
        if !self.may_have_double(node) {
            let machine = self.machine(node);
            machine.earlier = copy.or(machine.earlier.take());
            return false;
        }
        let disk = SimDisk::new(rng.next_u64());
        let moved = self.machine(node).running.as_ref().map(|running| running.node.folder()).unwrap_or_default();
        let folder = if copy.is_some() { Folder::Copied } else { drawn };
        if let Some(earlier) = copy {
            disk.set_back(&earlier.copy);
        } else if folder == Folder::Moved {
            self.die(node, false, "killed, and its folder moved");
            disk.set_back(&self.machine(node).disk.copy());
        } else {
            // If others hear of that life the node's folder is one that was away.
            self.machine(node).came_back = Some(moved.0);
        }
        let Some(running) = self.begin_double(node, &disk, rng) else {
            self.violate(PROPERTY, format!("a second {} cannot be started on a folder that is whole", name_of(node)));
            return false;
        };
        let now = self.now;
        *self.probes.entry(folder.probe()).or_default() += 1;
        self.doubles += 1;
        self.double = Some(Double {
            of: node,
            folder,
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
        self.double_in(2 * SECOND + duration, DoubleEvent::Look);
        self.carry_out_double();
        true
    }

    /// Whether all is so well that what a second process does can be judged.
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
        let is_bad = !is_quiet || !all_are_well || !is_founder || !self.founded;
        !waits && !is_bad && !goes_alone && !is_needed && !other_versions
    }

    fn begin_double(&mut self, node: NodeId, disk: &SimDisk, rng: &mut Rng) -> Option<Running<N>> {
        let now = self.now;
        let config = self.config(node);
        let (segment, uses_store) = (self.chaos.segment_bytes, self.chaos.uses_store);
        let cache = self.chaos.cache.filter(|_| uses_store);
        let journal = JournalOptions { first_segment_bytes: 64 << 10, segment_bytes: segment, free_segments_max: 2 };
        let clock = Clock::new(now, rng.below(1000 * SECOND), 1_000_000, 0);
        let start = process::Start { config, journal, uses_store, cache, clock, now };
        process::start::<N>(disk, start, &mut rng.fork()).ok()
    }

    fn double_in(&mut self, delay: u64, event: DoubleEvent) {
        self.queue.push(self.now + delay, Event::Double(self.doubles, event));
    }

    /// Whether a node has a link with a second process instead of with `node`.
    pub(super) fn is_linked_with_double(&self, node: NodeId, peer: NodeId) -> bool {
        self.double.as_ref().is_some_and(|double| double.of == node && double.links.contains_key(&peer))
    }

    /// Whether a fault has to wait as long as there is one.
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

    fn linked_double(&self, peer: NodeId, link: u64) -> Option<NodeId> {
        let double = self.double.as_ref()?;
        double.links.get(&peer).filter(|it| it.number == link).map(|_| double.of)
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

    /// Whoever takes it for the node may say that what it has on its disk is on all disks.
    fn note_persisted_by_double(&mut self) {
        let Some(double) = &self.double else { return };
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

    /// What it has to do with its disk is done at once. The steps in between are the business of [`super::processes`].
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
        while running.write_snapshot(&disk) == Ok(true) {}
        while running.has_blocks() {
            running.make_block(false);
        }
        while running.take_blocks(&disk, None) == Ok(true) {}
        if !running.inbox.is_empty() {
            self.poke_double();
        }
    }

    /// Sends what a process has for the other end of one of its links.
    pub(super) fn send_by_double(&mut self, peer: NodeId, bytes: &[u8], to_node: bool) {
        let mut frames = wire::FrameReader::new();
        frames.push(bytes);
        while let Ok(Some(payload)) = frames.next() {
            let at = self.now + self.network.delay() + payload.len() as u64;
            let Some(link) = self.double.as_mut().and_then(|double| double.links.get_mut(&peer)) else { return };
            let last = &mut link.last_arrival[usize::from(to_node)];
            *last = at.max(*last);
            let (at, number) = (*last, link.number);
            let event = if to_node {
                DoubleEvent::ToNode(peer, number, payload)
            } else {
                DoubleEvent::FromNode(peer, number, payload)
            };
            self.queue.push(at, Event::Double(self.doubles, event));
        }
    }

    /// It calls a node, which refuses it if it has a link with the node of that name.
    fn call_by_double(&mut self, peer: NodeId) {
        let again = self.rng.between(MS, 40 * MS);
        let Some(double) = &self.double else { return };
        let of = double.of;
        if double.running.is_none() {
            return;
        }
        let may = self.machine(peer).running.is_some() && self.machine(peer).paused_until <= self.now;
        if may && !self.is_linked_with_double(of, peer) && !self.network.is_up(of, peer) {
            self.link_double(of, peer);
        }
        self.double_in(again, DoubleEvent::Call(peer));
    }

    fn link_double(&mut self, of: NodeId, peer: NodeId) {
        let now = self.now;
        if self.network.tell_down(peer, of) {
            self.give(peer, Happening::PeerDown(of));
        }
        self.network.troubles.link(of.0, peer.0, now, false);
        let newest = self.machine(peer).newest;
        let terms = LinkTerms { spoken: newest, newest, is_secured: false };
        let Some(double) = &mut self.double else { return };
        double.links_made += 1;
        double.last_linked = now;
        double.links.insert(peer, Link { number: double.links_made, last_arrival: [0; 2] });
        *self.probes.entry(LINKED).or_default() += 1;
        self.trace.event(now, [29, u64::from(of.0), u64::from(peer.0), 1], || {
            format!("the second {} is linked with {}", name_of(of), name_of(peer))
        });
        self.give(peer, Happening::PeerUp(of, terms));
        self.give_double(Happening::PeerUp(peer, terms));
    }

    /// A link of the second process is gone, if there was one.
    pub(super) fn unlink_double(&mut self, one: NodeId, other: NodeId) {
        let Some(double) = &mut self.double else { return };
        let of = double.of;
        let peer = if one == of { other } else { one };
        if (one != of && other != of) || double.links.remove(&peer).is_none() {
            return;
        }
        let now = self.now;
        self.trace.event(now, [29, u64::from(of.0), u64::from(peer.0), 0], || {
            format!("the link of the second {} with {} is gone", name_of(of), name_of(peer))
        });
        self.give(peer, Happening::PeerDown(of));
        self.give_double(Happening::PeerDown(peer));
        self.want_link(of, peer);
    }

    /// The node has been linked with somebody.
    pub(super) fn note_link_of_node(&mut self, one: NodeId, other: NodeId) {
        let now = self.now;
        if let Some(double) = &mut self.double
            && (double.of == one || double.of == other)
        {
            double.last_linked = now;
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

    /// A node ends by its own verdict. True if that is because of a second process: its operator starts it again when it is clear what becomes of that.
    pub(super) fn ends_for_double(&mut self, node: NodeId) -> bool {
        let Some(double) = self.double.as_mut().filter(|double| double.of == node && double.folder != Folder::Empty)
        else {
            return false;
        };
        double.node_has_ended = true;
        *self.probes.entry(NODE_ENDED).or_default() += 1;
        true
    }

    /// The operator ends what nobody listens to.
    ///
    /// Property: of two processes with copies of one folder not both are listened to.
    fn look_at_double(&mut self) {
        let Some(double) = &self.double else { return };
        let (of, folder, is_over, node_has_ended) = (double.of, double.folder, double.is_over, double.node_has_ended);
        let (runs, is_linked, never) = (double.running.is_some(), !double.links.is_empty(), double.links_made == 0);
        let is_settled = self.now >= double.last_linked + SETTLED_AFTER;
        if is_over {
            if !node_has_ended {
                self.double = None;
                return;
            }
            return self.empty_spoiled();
        }
        let peers: Vec<NodeId> = self.members().filter(|peer| *peer != of).collect();
        let node_is_linked = peers.into_iter().any(|peer| self.network.is_up(of, peer));
        let both = runs && is_linked && node_is_linked;
        if both && !is_settled {
            return self.double_in(LOOK_EVERY, DoubleEvent::Look);
        }
        if both && folder != Folder::Empty {
            let text = format!("two processes with the folder of {} are both listened to", name_of(of));
            return self.violate(PROPERTY, text);
        }
        if never {
            *self.probes.entry(REFUSED).or_default() += 1;
            if folder == Folder::Empty {
                self.machine(of).came_back = None;
            }
        }
        if folder == Folder::Moved && runs {
            return self.take_over_folder(of);
        }
        self.end_double("its operator ends it");
        if node_has_ended {
            *self.probes.entry(BOTH_ENDED).or_default() += 1;
            return self.empty_spoiled();
        }
        self.start_in(MS, of);
        self.is_over();
    }

    /// What others know of the second process may reach the node still.
    fn is_over(&mut self) {
        if let Some(double) = &mut self.double {
            (double.is_over, double.node_has_ended) = (true, false);
        }
        self.double_in(SETTLED_AFTER, DoubleEvent::Look);
    }

    /// The node has ended, as others have heard what its folder lacks; nobody has that any more. Its operator does as it has said, and empties the folder.
    fn empty_spoiled(&mut self) {
        let Some(of) = self.double.as_ref().map(|double| double.of) else { return };
        let is_done = self.damage(of, 10 * MS, |disk| {
            disk.delete(|_| true);
            true
        });
        if !is_done {
            return self.double_in(LOOK_EVERY, DoubleEvent::Look);
        }
        self.machine(of).earlier = None;
        self.is_over();
    }

    /// What the others take for the node goes on as that, in its place.
    fn take_over_folder(&mut self, of: NodeId) {
        let Some(disk) = self.double.as_ref().map(|double| double.disk.clone()) else { return };
        *self.probes.entry(TAKEN_OVER).or_default() += 1;
        self.end_double("it is started again in the node's place");
        self.die(of, false, "ended, as another process has taken its place");
        let machine = self.machine(of);
        machine.disk.set_back(&disk.copy());
        machine.earlier = None;
        self.is_over();
        self.start_in(10 * MS, of);
    }

    /// Whether a node that has ended because of a second process is not to be started yet.
    pub(super) fn waits_for_operator(&self, node: NodeId) -> bool {
        self.double.as_ref().is_some_and(|double| double.of == node && double.node_has_ended)
    }
}
