//! A majority of the nodes is lost for good, and one that is left goes on alone (`dictum unsafe-recover`).
//!
//! 1. All processes end. Of those who are left one is chosen whose folder is whole and which the recovery does not refuse.
//! 2. What clients have seen up to here is judged, and what they will see is judged by what the survivor's disk has ([`Kept`]).
//! 3. The survivor is recovered, now and then with a crash in the middle of it, and started. It is asked to forget the others, and to let new ones join,
//!    under numbers that nobody had.
//! 4. Some of the others come back, with their folders or with empty ones: never so many that they could decide anything by themselves (nobody could keep them
//!    from that). They have to be told, and to end.

use std::collections::{BTreeMap, BTreeSet};

use base::{BucketId, NodeId, PartitionId, Position, Rng};
use node::alone::Plan;
use node::inspect::Digests;
use storage::JournalOptions;

use super::operator::member;
use super::{Cluster, Machine};
use crate::chaos::{Fault, MS, SECOND};
use crate::checkers::alone::{Kept, reconsider};
use crate::checkers::levels::Levels;
use crate::clock::Clock;
use crate::door::Door;
use crate::history::{Command, Op, Operation, Outcome, bucket_of};
use crate::process::{Alone, name_of};
use crate::run::{judge_history, partition_of};
use crate::settings::DEFAULT;
use crate::trace::digest_of;
use crate::workload::DROPPED;

/// Names of what is counted here.
pub(crate) const PROBES: [&str; 6] = [LOST, PARTED, BROKEN_OFF, WITH_FOLDER, WITHOUT_FOLDER, JOINED];
const LOST: &str = "sim: acknowledged operation lost with a majority";
const PARTED: &str = "sim: went on alone with entries that were never decided";
const BROKEN_OFF: &str = "sim: recovery broken off, and done again";
const WITH_FOLDER: &str = "sim: came back with its folder and was told";
const WITHOUT_FOLDER: &str = "sim: came back without a folder and was told";
const JOINED: &str = "sim: joined whoever went on alone";

/// Such evictions are operations of clients that nobody else is.
const EVICTIONS_FROM: u64 = 2 << 32;
/// How often the recovery is tried.
const ATTEMPTS_MAX: u32 = 4;
/// How many nodes are to join afterwards, at most.
const JOIN_MAX: u64 = 3;

/// What is known for the day on which somebody goes on alone, and since.
#[derive(Debug, Default)]
pub(super) struct Recovery {
    /// By partition: when anybody was first seen to know how much to be decided.
    decided: BTreeMap<PartitionId, Vec<(u64, Position)>>,
    /// By the name of each bucket its number, and how many partitions it has: of several of one name, which come and go, the newest.
    buckets: BTreeMap<String, (BucketId, u16)>,
    /// Nodes that were left behind, whose addresses nobody has taken over yet.
    left: Vec<NodeId>,
    /// Who has the address of whom.
    successors: BTreeMap<NodeId, NodeId>,
    /// So many nodes are still to join.
    to_join: u64,
    /// Where the council's log says that somebody goes on alone.
    said_at: Position,
    pub(super) is_done: bool,
}

impl<N: Door> Cluster<N> {
    /// A node has had a turn; nothing of that has left the node yet.
    pub(super) fn note_decided(&mut self, node: NodeId) {
        if self.recovery.is_done || !self.chaos.plan.iter().any(|planned| planned.fault == Fault::UnsafeRecover) {
            return;
        }
        let Some(running) = &self.machines[usize::from(node.0)].running else { return };
        for partition in running.node.partitions() {
            let Some(progress) = running.node.progress(partition) else { continue };
            let steps = self.recovery.decided.entry(partition).or_default();
            if steps.last().is_none_or(|(_, highest)| *highest < progress.decided) {
                steps.push((self.now, progress.decided));
            }
            let Some((name, _)) = running.node.holding(partition) else { continue };
            if self.recovery.buckets.get(name).is_none_or(|known| *known < (partition.bucket, partition.index + 1)) {
                self.recovery.buckets.insert(name.to_owned(), (partition.bucket, partition.index + 1));
            }
        }
    }

    /// Whether a node that has come so far in the council's log still reads what was before somebody went on alone.
    pub(super) fn reads_of_before(&self, followed: Position) -> bool {
        followed < self.recovery.said_at
    }

    /// Whom a client finds at an address.
    pub(super) fn at_address_of(&self, node: NodeId) -> NodeId {
        self.recovery.successors.get(&node).copied().unwrap_or(node)
    }

    /// Somebody has joined: it gets the address of one that was left behind.
    pub(super) fn take_over_address(&mut self, node: NodeId) {
        if let Some(former) = self.recovery.left.pop() {
            self.recovery.successors.insert(former, node);
            *self.probes.entry(JOINED).or_default() += 1;
        }
    }

    /// Whether another node is to join, which has begun then.
    pub(super) fn begins_to_join(&mut self) -> bool {
        let begins = self.recovery.to_join > 0 && !self.healed;
        self.recovery.to_join -= u64::from(begins);
        begins
    }

    /// Whether nodes are still to join.
    pub(super) fn more_join(&self) -> bool {
        self.recovery.to_join > 0 && !self.healed
    }

    /// Whether everybody who was left behind and came back has been told, and has ended.
    #[must_use]
    pub fn is_everybody_told(&self) -> bool {
        !self.machines.iter().any(|machine| machine.returns)
    }

    /// Property: whoever was left behind does not take part.
    #[must_use]
    pub fn judge_left_behind(&self) -> Option<String> {
        let place = self.machines.iter().position(|machine| machine.returns)?;
        Some(format!("{} was left behind, came back, and was not told", name_of(NodeId(place as u16))))
    }

    /// See the file's head. False if there is nobody who could, or it was done before.
    pub(super) fn go_on_alone(&mut self, rng: &mut Rng) -> bool {
        let members: Vec<NodeId> = self.members().collect();
        if !N::HAS_BUCKETS || self.recovery.is_done || !self.founded || self.set_back.is_some() || members.len() < 2 {
            return false;
        }
        let whole: Vec<NodeId> = members
            .iter()
            .copied()
            .filter(|id| {
                let machine = &self.machines[usize::from(id.0)];
                machine.is_whole() && !machine.disk.is_damaged(|_| true)
            })
            .collect();
        if whole.is_empty() {
            return false;
        }
        // Changes of users that were answered may be lost with these nodes.
        self.revocations.forget_all();
        for node in self.nodes() {
            self.die(node, rng.chance(1, 2), "most are lost for good");
        }
        for end in 0..self.client_ends.len() {
            // What was answered and is on its way nobody hears any more.
            self.lose_connection_of(end);
        }
        let mut candidates = whole;
        while !candidates.is_empty() {
            let survivor = candidates.swap_remove(rng.below(candidates.len() as u64) as usize);
            let alone = self.alone(survivor, rng);
            let disk = &self.machines[usize::from(survivor.0)].disk;
            disk.set_full(false);
            let Ok((plan, logs)) = alone.look(disk) else { continue };
            if plan.is_alone || plan.partitions.iter().any(|fate| !fate.damage.is_empty()) {
                continue;
            }
            let left: Vec<NodeId> = members.iter().copied().filter(|node| *node != survivor).collect();
            let returning = self.draw_returning(&left, rng);
            if self.recover(&alone, (&plan, &logs), rng) {
                self.leave_behind(survivor, &left, &returning, rng);
            }
            return true;
        }
        for node in members {
            let delay = rng.between(10 * MS, 500 * MS);
            self.start_in(delay, node);
        }
        false
    }

    /// Who comes back: never a majority of those who have ever voted together.
    fn draw_returning(&self, left: &[NodeId], rng: &mut Rng) -> Vec<NodeId> {
        let mut returning: Vec<NodeId> = Vec::new();
        for node in left.iter().copied() {
            let with = |id: NodeId| id == node || returning.contains(&id);
            if rng.chance(1, 2) && self.groups.are_no_majority(with) {
                returning.push(node);
            }
        }
        returning
    }

    pub(super) fn alone(&self, survivor: NodeId, rng: &mut Rng) -> Alone {
        let machine = &self.machines[usize::from(survivor.0)];
        let journal = JournalOptions {
            first_segment_bytes: 64 << 10,
            segment_bytes: self.chaos.segment_bytes,
            free_segments_max: 2,
        };
        Alone {
            me: survivor,
            founders: self.founders().map(member).collect(),
            joined: machine.told.clone(),
            cluster: rng.next_u64().max(1),
            now: Clock::new(self.now, 0, machine.clock_rate, machine.clock_offset).now(self.now).wall,
            journal,
            uses_store: self.chaos.uses_store,
            planted: self.planted,
        }
    }

    /// Judges what was, recovers the survivor, and says what is from now on. False if something is wrong.
    fn recover(
        &mut self,
        alone: &Alone,
        (plan, logs): (&Plan, &BTreeMap<PartitionId, Digests>),
        rng: &mut Rng,
    ) -> bool {
        self.judge_until_now();
        let kept = self.compare(alone.me, plan, logs);
        self.reconsider(plan, &kept);
        let disk = self.machines[usize::from(alone.me.0)].disk.clone();
        let mut breaks_off = rng.chance(1, 3);
        // A sync may still be about to fail.
        for attempt in 1..=ATTEMPTS_MAX {
            if breaks_off {
                disk.light_fuse(rng.below(8) as u32);
            }
            let done = alone.carry_out(&disk);
            let is_blown = disk.is_blown();
            if is_blown && rng.chance(1, 2) {
                disk.lose_power();
            }
            disk.repair();
            match done {
                Ok(()) if !is_blown => break,
                Err(text) if !is_blown && attempt == ATTEMPTS_MAX => {
                    self.violate("recovery", format!("{}: {text}", name_of(alone.me)));
                    return false;
                }
                _ => {
                    *self.probes.entry(BROKEN_OFF).or_default() += 1;
                    breaks_off = false;
                }
            }
        }
        match alone.look(&disk) {
            Ok((again, _)) if again.is_alone => {}
            again => {
                let text = format!("{}: what was written does not read back: {again:?}", name_of(alone.me));
                self.violate("recovery", text);
            }
        }
        let now = self.now;
        self.trace.event(now, [20, u64::from(alone.me.0), u64::from(plan.below), 0], || {
            format!("{} goes on alone: {:?}", name_of(alone.me), plan.partitions)
        });
        self.number_from(plan.below);
        self.violations.is_empty()
    }

    /// Property: what clients saw up to now holds together.
    fn judge_until_now(&mut self) {
        let history = self.record.operations.clone();
        let settled = self.now;
        let judged = judge_history(self, history, settled);
        self.undecided.extend(judged.undecided);
        for (property, texts) in judged.found {
            texts.into_iter().for_each(|text| self.violate(property, text));
        }
        // What else was seen was seen of what is no more.
        let record = &mut self.record;
        let attempts = std::mem::take(&mut record.levels).attempts;
        record.levels = Levels { attempts, ..Levels::default() };
        record.refusals.clear();
        let scans = [&mut record.scans, &mut record.parted_scans, &mut record.hash_scans, &mut record.set_scans];
        scans.into_iter().chain([&mut record.sorted_scans]).for_each(Vec::clear);
    }

    /// Compares the survivor's logs with what was decided. From now on that is what its disk has, whatever others had known.
    fn compare(
        &mut self,
        survivor: NodeId,
        plan: &Plan,
        logs: &BTreeMap<PartitionId, Digests>,
    ) -> BTreeMap<PartitionId, Kept> {
        let mut kept = BTreeMap::new();
        for fate in &plan.partitions {
            let (partition, name) = (fate.partition, name_of(survivor));
            let log = logs.get(&partition).map_or(&[][..], Vec::as_slice);
            let parting = Kept::parting(log, |at| self.agreement.digest(partition, at));
            let decided = self.recovery.decided.remove(&partition).unwrap_or_default();
            let it = Kept { decided, common: parting.unwrap_or(fate.last), last: fate.last };
            if it.common < fate.decided {
                self.violate("agreement", format!("{name} has other decided entries behind {}: {fate:?}", it.common));
            }
            if fate.voters == [survivor] && it.common < it.highest() {
                let text = format!("{name} votes alone in {partition} and lacks what was decided: {fate:?}");
                self.violate("recovery", text);
            }
            if fate.is_council {
                // Behind the entry that says who votes.
                self.recovery.said_at = it.last.next().next();
            }
            if it.common < it.last && it.common < it.highest() {
                *self.probes.entry(PARTED).or_default() += 1;
            }
            kept.insert(partition, it);
        }
        let common = |partition: PartitionId| kept.get(&partition).map_or(Position(0), |kept: &Kept| kept.common);
        self.agreement.retain(common);
        self.replicas.retain(common);
        self.evictions.retain(common);
        for (partition, log) in logs.iter().filter(|(partition, _)| kept.contains_key(partition)) {
            for (at, digest) in log {
                self.agreement.observe(survivor, *partition, *at, *digest);
            }
        }
        self.groups.begin_anew(survivor, kept.iter().map(|(partition, kept)| (*partition, kept.last)).collect());
        self.maps.begin_anew();
        self.memories.clear();
        self.counted.clear();
        self.begun_anew.clear();
        // What the survivor still has of them might be there again.
        self.dropped.retain(|partition| !kept.contains_key(partition));
        self.recovery.is_done = true;
        kept
    }

    /// Says of every operation of before what is known of it now.
    fn reconsider(&mut self, plan: &Plan, kept: &BTreeMap<PartitionId, Kept>) {
        let buckets = std::mem::take(&mut self.recovery.buckets);
        let fate_of = |key: &str| {
            let bucket = if bucket_of(key).is_empty() { DEFAULT } else { bucket_of(key) };
            let (id, count) = *buckets.get(bucket)?;
            let partition = PartitionId { bucket: id, index: partition_of(key, u32::from(count)) as u16 };
            // Another one may have its number, where the survivor's council does not know it.
            plan.partitions.iter().find(|fate| fate.partition == partition && fate.bucket == bucket)
        };
        let mut evicted = BTreeSet::new();
        let insisted: Vec<usize> = self.clients.iter().filter_map(crate::client::Client::insists_on).collect();
        let mut lost = 0;
        let done = |operation: &Operation| operation.outcome == Outcome::Done;
        for (place, operation) in self.record.operations.iter_mut().enumerate() {
            if !insisted.contains(&place)
                && let Some(command) = operation.commands.first()
                && bucket_of(&command.key) != DROPPED
            {
                let was_done = done(operation);
                let fate = fate_of(&command.key).filter(|fate| fate.undecided.contains_key("eviction"));
                evicted.extend(fate.map(|_| command.key.clone()));
                reconsider(fate_of(&command.key).and_then(|fate| kept.get(&fate.partition)), operation);
                lost += u64::from(was_done && !done(operation));
            }
        }
        // Which keys an eviction names that nobody had known to be decided nobody has seen.
        let from = self.record.operations.len() as u64;
        let (watched, replies, invoke, finish) = (Vec::new(), Vec::new(), self.now, None);
        let maybe =
            Operation { client: 0, commands: Vec::new(), watched, invoke, finish, outcome: Outcome::Maybe, replies };
        let evictions = evicted.into_iter().zip(EVICTIONS_FROM + from..).map(|(key, client)| Operation {
            client,
            commands: vec![Command::new(Op::Del, key)],
            ..maybe.clone()
        });
        self.record.operations.extend(evictions);
        let council = plan.partitions.iter().find(|fate| fate.is_council);
        for operation in &mut self.record.settings.history {
            reconsider(council.and_then(|fate| kept.get(&fate.partition)), operation);
        }
        if lost > 0 {
            *self.probes.entry(LOST).or_default() += lost;
        }
    }

    /// No machine has a number below this that did not have it before.
    fn number_from(&mut self, below: u16) {
        let highest = self.machines.iter().rposition(|machine| machine.is_member).unwrap_or_default();
        if usize::from(below) <= highest {
            self.violate("numbers are given once", format!("{below} is to be the next, and there was {highest}"));
        }
        let count = usize::from(below) + JOIN_MAX as usize;
        while self.machines.len() < count {
            let seed = self.rng.next_u64();
            self.machines.push(Machine::new(seed, 0, 1_000_000));
        }
        for machine in &mut self.machines[..usize::from(below)] {
            machine.is_gone |= !machine.is_member;
            machine.is_member = true;
        }
        self.chaos.nodes = self.machines.len() as u16;
        self.network.grow(self.chaos.nodes);
    }

    /// The survivor starts; the others are gone, or come back to be told.
    fn leave_behind(&mut self, survivor: NodeId, left: &[NodeId], returning: &[NodeId], rng: &mut Rng) {
        for machine in &mut self.machines {
            (machine.damaged_until, machine.earlier, machine.identity_copy) = (None, None, None);
            machine.most_persisted.clear();
        }
        self.operator.begin_anew();
        for node in left.iter().copied() {
            let founds = node.0 < self.chaos.founders;
            let returns = returning.contains(&node);
            let empties = !returns || founds && rng.chance(1, 2);
            let machine = self.machine(node);
            (machine.is_gone, machine.returns) = (true, returns);
            if empties {
                machine.disk.delete(|_| true);
                machine.voted.clear();
            }
            machine.empty = empties;
            let delay = rng.between(10 * MS, 4 * SECOND);
            if returns {
                self.start_in(delay, node);
            }
            self.recovery.left.push(node);
            self.order_of_operator(vec!["REMOVE".to_owned(), name_of(node), "FORCE".to_owned()], rng);
        }
        self.recovery.to_join = rng.between(0, JOIN_MAX);
        self.look_at_operator();
        let delay = rng.between(10 * MS, SECOND);
        self.start_in(delay, survivor);
        let now = self.now;
        self.trace.event(now, [21, u64::from(survivor.0), returning.len() as u64, digest_of(&[])], || {
            format!("{returning:?} come back")
        });
    }

    /// One that was left behind has ended because it was told.
    pub(super) fn note_told(&mut self, node: NodeId) {
        let machine = self.machine(node);
        if std::mem::take(&mut machine.returns) {
            let probe = if machine.empty { WITHOUT_FOLDER } else { WITH_FOLDER };
            *self.probes.entry(probe).or_default() += 1;
        }
    }
}
