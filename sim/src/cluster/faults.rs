//! The single misfortunes of a run's plan, and their end.

use base::{Ballot, NodeId, PartitionId, Position, Rng};

use super::Cluster;
use crate::chaos::{Fault, MS, Planned, SECOND, Target};
use crate::door::Door;
use crate::events::Event;
use crate::process::{Happening, name_of};
use crate::trace::digest_of;

/// The identity file: the folder's name tag. A node with an unreadable one says so and does not start.
const IDENTITY: &str = "identity";

impl<N: Door> Cluster<N> {
    /// Whoever leads under the highest ballot that a leader knows to be its own.
    #[must_use]
    pub fn leader(&self) -> Option<NodeId> {
        let mut best: Option<(Ballot, NodeId)> = None;
        for (node, machine) in self.machines.iter().enumerate() {
            let node = NodeId(node as u16);
            if let Some((leader, ballot)) =
                machine.running.as_ref().and_then(|running| running.node.leader(PartitionId::default()))
                && leader == node
                && best.is_none_or(|(highest, _)| highest < ballot)
            {
                best = Some((ballot, node));
            }
        }
        best.map(|(_, node)| node)
    }

    pub(super) fn on_fault(&mut self, number: u32) {
        let planned = self.chaos.plan[number as usize].clone();
        let node = match planned.target {
            Target::Node(node) => NodeId(node),
            Target::LeaderOr(node) => self.leader().unwrap_or(NodeId(node)),
        };
        let node = self.at_address_of(node);
        // Whatever the fault still draws comes from its own number: leaving one out shifts no other.
        let mut rng = Rng::new(planned.draw);
        let happened = self.inflict(planned.fault, node, planned.duration, &mut rng);
        let now = self.now;
        let fault = planned.fault;
        self.trace.event(now, [13, u64::from(number), u64::from(node.0), u64::from(happened)], || {
            let fate = if happened { "" } else { " (not possible now)" };
            format!(
                "fault {number}: {} at {}, {:.3} s{fate}",
                fault.name(),
                name_of(node),
                planned.duration as f64 / 1e9
            )
        });
        if happened && !fault.is_counted_by_effect() {
            *self.injected.entry(fault).or_default() += 1;
        }
    }

    fn inflict(&mut self, fault: Fault, node: NodeId, duration: u64, rng: &mut Rng) -> bool {
        let now = self.now;
        // One that has joined is its folder: without that it is another node, which has to join anew under another number.
        let takes_identity =
            matches!(fault, Fault::Wipe | Fault::IdentityRot | Fault::ReadError | Fault::SetBack | Fault::FolderAway);
        if self.waits_for_double(fault) {
            return false;
        }
        if takes_identity && node.0 >= self.chaos.founders || !self.is_bearable(fault) || self.spares_steps(fault) {
            return false;
        }
        match fault {
            Fault::OneWayCut => {
                let Some(peer) = self.other_node(node, rng) else { return false };
                let (from, to) = if rng.chance(1, 2) { (node, peer) } else { (peer, node) };
                self.cut(from, to, rng.chance(1, 2), duration);
                true
            }
            Fault::Partition => self.partition(node, duration, rng),
            Fault::LinkReset => {
                let Some(peer) = self.other_node(node, rng) else { return false };
                self.reset_link(node, peer);
                true
            }
            Fault::Kill | Fault::PowerCut | Fault::CrashAtStart => {
                if self.machine(node).running.is_none() {
                    return false;
                }
                if fault == Fault::PowerCut && self.chaos.torn_sectors {
                    self.machine(node).cut_in_write = Some((duration, false));
                    return true;
                }
                if fault == Fault::CrashAtStart {
                    self.machine(node).fuse_at_start = Some(rng.below(12) as u32);
                }
                let power = fault == Fault::PowerCut || (fault == Fault::CrashAtStart && rng.chance(1, 2));
                self.die(node, power, "killed");
                self.start_in(duration, node);
                true
            }
            Fault::PowerCutAll if self.chaos.torn_sectors => {
                self.machine(node).cut_in_write = Some((duration, true));
                true
            }
            Fault::PowerCutAll => {
                for node in self.nodes() {
                    self.die(node, true, "all lost power");
                    let delay = rng.below(duration.max(1));
                    self.start_in(delay, node);
                }
                true
            }
            Fault::ZoneLost => self.lose_zone(node, duration, rng),
            Fault::Pause => {
                let machine = self.machine(node);
                machine.paused_until = machine.paused_until.max(now + duration);
                machine.disturbed_at = machine.paused_until;
                let until = machine.paused_until;
                self.network.troubles.paused(node.0, now, until);
                self.queue.push(until, Event::Resume(node));
                true
            }
            Fault::LongWork => self.work_long(node, duration),
            Fault::SlowReaders => self.stop_reading(node, duration, rng),
            Fault::Stop => {
                if let Some(running) = &mut self.machine(node).running
                    && !running.stopping
                {
                    running.stopping = true;
                    self.machine(node).disturbed_at = now + 60 * SECOND;
                    self.give(node, Happening::Stop);
                    return true;
                }
                false
            }
            Fault::ClockJump => {
                let error = self.chaos.clock_error;
                let offset = rng.between(0, 2 * error) as i64 - error as i64;
                let machine = self.machine(node);
                if !machine.is_wild(error) {
                    machine.set_clock(offset, None);
                }
                true
            }
            Fault::BitRot => self.damage(node, duration, |disk| {
                // The identity has a kind of its own.
                (0..=rng.below(3)).filter(|_| disk.rot(|name| name != IDENTITY).is_some()).count() > 0
            }),
            Fault::IdentityRot => {
                self.copy_identity(node);
                self.damage(node, duration, |disk| disk.rot(|name| name == IDENTITY).is_some())
            }
            Fault::ReadError => {
                self.copy_identity(node);
                self.machine(node).reads_again |= rng.chance(1, 2);
                self.damage(node, duration, |disk| {
                    let spared = if rng.chance(3, 4) { IDENTITY } else { "" };
                    let (whole, count) = (rng.chance(1, 4), rng.between(1, 3));
                    (0..count).filter(|_| disk.make_unreadable(whole, |name| name != spared).is_some()).count() > 0
                })
            }
            Fault::Wipe => self.damage(node, duration, |disk| {
                disk.delete(|_| true);
                true
            }),
            Fault::JournalLost => self.damage(node, duration, |disk| {
                disk.delete(|name| name.starts_with("journal-"));
                true
            }),
            Fault::SyncFailure => {
                self.machine(node).disk.fail_next_sync();
                true
            }
            Fault::SlowSync => {
                // The disk does not answer for a while: a standstill of everything that waits for it.
                let machine = self.machine(node);
                machine.stalled_until = machine.stalled_until.max(now + duration);
                true
            }
            Fault::SlowDisk => {
                self.slow_disk(node, rng.between(5 * MS, 60 * MS), 2 * duration);
                true
            }
            Fault::SetBack => self.set_back(node),
            Fault::FolderAway => self.take_folder_away(node, rng),
            Fault::WildClock => self.set_clock_wild(node, rng),
            Fault::SecondProcess => self.start_second_process(node, duration, rng),
            Fault::Impostor => self.speak_as(node, duration, rng),
            Fault::Keys => self.change_key(node, duration, rng),
            Fault::Addresses => self.give_addresses(node, duration, rng),
            Fault::Users => self.change_users(node, rng),
            Fault::DiskLow => self.take_room(node, duration, rng),
            Fault::UnsafeRecover => self.go_on_alone(rng),
            Fault::SettingsChange => self.change_settings(rng),
            Fault::VotersChange => self.change_voters(rng),
            Fault::MembersChange => self.change_members(rng),
            Fault::Versions => self.upgrade(node, duration, rng),
            Fault::StepOver => self.step_over(duration, rng),
            Fault::DiskFull => {
                self.machine(node).disk.set_full(true);
                self.queue.push(now + duration, Event::RoomAgain(node));
                true
            }
            Fault::Loss
            | Fault::Duplicate
            | Fault::Reorder
            | Fault::SlowNetwork
            | Fault::ClientReset
            | Fault::ClockOffset
            | Fault::ClockRate
            | Fault::TornSectors
            | Fault::CommitHere
            | Fault::TransferCrash
            | Fault::ValueCache
            | Fault::BucketTerms
            | Fault::Hashes
            | Fault::Sets
            | Fault::SortedSets
            | Fault::Documents
            | Fault::Lists
            | Fault::PubSub
            | Fault::HyperLogLogs
            | Fault::Places
            | Fault::FieldExpiry
            | Fault::Streams
            | Fault::Pauses
            | Fault::Scripts
            | Fault::Partitions
            | Fault::Routers
            | Fault::Restless
            | Fault::Observers
            | Fault::CostlyCommands
            | Fault::Moves
            | Fault::Backups
            | Fault::Subscriptions => false,
        }
    }

    fn other_node(&self, node: NodeId, rng: &mut Rng) -> Option<NodeId> {
        let others: Vec<NodeId> = self.nodes().filter(|&other| other != node).collect();
        if others.is_empty() { None } else { Some(*rng.pick(&others)) }
    }

    pub(super) fn cut(&mut self, from: NodeId, to: NodeId, holds: bool, duration: u64) {
        self.network.cut(from, to, holds);
        let at = self.now + duration;
        self.queue.push(at, Event::Mend(from, to));
    }

    /// Splits the nodes into two parts, or cuts a single pair off from each other.
    fn partition(&mut self, node: NodeId, duration: u64, rng: &mut Rng) -> bool {
        let holds = rng.chance(1, 2);
        let Some(peer) = self.other_node(node, rng) else { return false };
        let whole = rng.chance(2, 3);
        let side: Vec<bool> = self.nodes().map(|other| other == node || rng.chance(1, 3)).collect();
        for one in self.nodes() {
            for other in self.nodes() {
                let apart = if whole {
                    side[usize::from(one.0)] != side[usize::from(other.0)]
                } else {
                    (one, other) == (node, peer) || (one, other) == (peer, node)
                };
                if apart {
                    self.cut(one, other, holds, duration);
                }
            }
        }
        true
    }

    /// Takes synced data away from a node that is down, or that is cut down for it; only as long as fewer than half of
    /// all nodes are damaged and not whole again, because no more than that can be survived.
    pub(super) fn damage(
        &mut self,
        node: NodeId,
        duration: u64,
        harm: impl FnOnce(&crate::disk::SimDisk) -> bool,
    ) -> bool {
        let damaged = self
            .machines
            .iter()
            .enumerate()
            .filter(|(index, machine)| *index != usize::from(node.0) && !machine.is_whole())
            .count();
        // Before anybody has founded the group nobody can vouch that it is new: whoever loses memory then stops it for good, and
        // an operator begins anew with empty folders (docs/traps.md). Nothing was ever stored.
        // Where voters change, perhaps only three vote.
        let changes = |planned: &Planned| matches!(planned.fault, Fault::VotersChange | Fault::MembersChange);
        let three = self.chaos.plan.iter().any(changes) && damaged > 0;
        let members = self.members().count();
        let is_member = self.members().any(|member| member == node);
        // As many vote as have founded it, unless that is changed.
        let voters = members.min(usize::from(self.chaos.founders));
        // And perhaps fewer for a while, where others have left.
        let is_lost = |id: NodeId| id == node || !self.machines[usize::from(id.0)].is_whole();
        let bears = self.groups.bear(is_lost);
        if !bears || three || !is_member || 2 * (damaged + 1) >= voters || !self.founded {
            return false;
        }
        // What it has acknowledged may have been decided by that alone, known to nobody yet.
        let mut until = self.agreement.highest().clone();
        until.entry(PartitionId::default()).or_default();
        if let Some(running) = &self.machine(node).running {
            for partition in running.node.partitions() {
                let held = running.node.progress(partition).map_or(Position(0), |progress| progress.persisted);
                let highest = until.entry(partition).or_default();
                *highest = (*highest).max(held);
            }
        }
        self.die(node, true, "killed, to be damaged");
        let machine = self.machine(node);
        if harm(&machine.disk) {
            // One that dies again before it is whole keeps the higher aim.
            machine.voted.clear();
            let aims = machine.damaged_until.get_or_insert_default();
            for (partition, highest) in until {
                let aim = aims.entry(partition).or_default();
                *aim = (*aim).max(highest).max(Position(1));
            }
        }
        self.start_in(duration, node);
        true
    }

    /// The operator keeps a copy of what names the folder's owner, if it is there and whole.
    fn copy_identity(&mut self, node: NodeId) {
        let machine = self.machine(node);
        if !machine.disk.is_damaged(|name| name == IDENTITY) {
            machine.identity_copy = machine.disk.copy_of(IDENTITY);
        }
    }

    /// A process says that it cannot use its folder. Its operator finds the cable, puts the identity back from a copy,
    /// or deletes the folder, as the process's own message advises; and starts it again.
    pub(super) fn on_refusal(&mut self, node: NodeId, text: &str) {
        let now = self.now;
        let deletes = self.rng.chance(1, 2);
        let delay = self.rng.between(10 * MS, SECOND);
        let machine = self.machine(node);
        let (is_rotten, reads_again) = (machine.disk.is_rotten(IDENTITY), machine.reads_again);
        if !machine.disk.is_damaged(|name| name == IDENTITY) {
            self.violate("start", format!("{}: {text}", name_of(node)));
            return;
        }
        let copy = machine.identity_copy.take();
        // Whose folder may be deleted was decided when it was harmed: nobody counts on this one.
        let deletes = deletes && machine.damaged_until.is_some();
        let act = match copy {
            _ if reads_again && !is_rotten => "mends the cable",
            Some(copy) if !deletes => {
                machine.disk.restore(IDENTITY, &copy);
                "puts the identity back"
            }
            _ => {
                machine.disk.delete(|_| true);
                "deletes the folder"
            }
        };
        if is_rotten {
            *self.injected.entry(Fault::IdentityRot).or_default() += 1;
        }
        self.trace.event(now, [15, u64::from(node.0), digest_of(act.as_bytes()), u64::from(is_rotten)], || {
            format!("{} refuses to start: {text}; its operator {act}", name_of(node))
        });
        self.start_in(delay, node);
    }

    /// Ends all faults: everything is mended, restarted and right again.
    pub fn heal(&mut self) {
        let now = self.now;
        self.healed = true;
        self.trace.event(now, [14, 0, 0, 0], || "all faults end".to_string());
        self.network.heal();
        self.keep_one_slow();
        self.upgrade_the_rest();
        self.give_stepping_up();
        let error = i64::try_from(self.chaos.clock_error).unwrap_or(0);
        for node in self.nodes() {
            let machine = self.machine(node);
            machine.disk.set_full(false);
            machine.low_until = machine.low_until.min(now);
            machine.disk.fail_no_sync();
            machine.fuse_at_start = None;
            machine.paused_until = machine.paused_until.min(now);
            machine.stalled_until = machine.stalled_until.min(now);
            machine.set_clock(machine.clock_offset.clamp(-error, error), None);
            machine.cut_in_write = None;
            self.empty_disk(node);
            self.tell_room(node);
            self.poke(node);
            if self.machine(node).running.is_none() {
                // A start that is due far in the future is not waited for.
                self.queue.push(now + MS, Event::Start(node));
            }
            for peer in self.nodes() {
                if peer != node {
                    self.mend_all(node, peer);
                    self.want_link(node, peer);
                }
            }
        }
        self.hold_more_log();
    }

    fn mend_all(&mut self, from: NodeId, to: NodeId) {
        while self.network.is_cut(from, to) {
            self.on_mend(from, to);
        }
    }
}
