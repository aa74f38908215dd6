//! What is looked at on the way and at the end: decided entries, states, probes, counts.

use std::collections::BTreeMap;

use base::limits::KEPT_REPLIES_BYTES_MAX;
use base::versions::Feature;
use base::{BucketId, NodeId, PartitionId, Position};
use node::{Planted, Progress, Voters};

use super::{Cluster, Machine};
use crate::chaos::Fault;
use crate::checkers::answers;
use crate::checkers::liveness::Ending;
use crate::checkers::quota::with_one_command;
use crate::checkers::subscriptions::Change;
use crate::checkers::voters;
use crate::door::Door;
use crate::process::{Running, name_of};
use crate::workload::BOUNDED;
use wire::{ReplyLimits, ReplyParser, Value};

/// A replica of a bucket that refuses at its quota has reached the least that this may be.
pub(crate) const QUOTA_REACHED: &str = "sim: replica with as much as its quota";
/// With so much memory for changes none is dropped in a run.
const KEEPS_ALL_BYTES: usize = 64 << 20;
/// Of so many positions, the states of one are compared.
const COMPARED_EVERY: u64 = 4;

impl<N: Door> Machine<N> {
    /// Nothing that its disk has lost is missing any more, as far as can be seen.
    pub(super) fn is_whole(&self) -> bool {
        let is_here = self.away.is_none() && self.came_back.is_none();
        is_here && self.damaged_until.is_none() && self.running.as_ref().is_none_or(Self::all_vote)
    }

    /// The process votes wherever its memory is on disk.
    pub(super) fn all_vote(running: &Running<N>) -> bool {
        let progress = running.node.partitions().into_iter().filter_map(|partition| running.node.progress(partition));
        progress.filter(|it| it.durable).all(|it| it.votes)
    }
}

impl<N: Door> Cluster<N> {
    /// A node that has no replica of a partition any more knows that its bucket was dropped.
    pub(super) fn note_dropped(&mut self, node: NodeId) {
        let Some(running) = &self.machines[usize::from(node.0)].running else { return };
        let partitions = running.node.partitions();
        self.dropped.extend(running.seen.keys().filter(|partition| !partitions.contains(partition)));
    }

    /// Compares what a node has decided and applied with what others have.
    pub(super) fn watch(&mut self, node: NodeId) {
        // What those know who were left behind is of no meaning any more.
        let machine = &self.machines[usize::from(node.0)];
        let Some(running) = machine.running.as_ref().filter(|_| !machine.returns) else { return };
        let partitions = running.node.partitions();
        let (installed, now) = (running.node.snapshots_installed() + running.node.untold(), self.now);
        if std::mem::replace(&mut self.machines[usize::from(node.0)].installed, installed) < installed {
            self.network.troubles.installed(node.0, now);
        }
        for partition in &partitions {
            let Some(running) = &self.machines[usize::from(node.0)].running else { break };
            let (progress, voters) = (running.node.progress(*partition), running.node.voters(*partition));
            if running.node.is_without(*partition) {
                // The node has given up its votes there with everything else. If it comes back, it does so as a replica that has never voted.
                self.machines[usize::from(node.0)].voted.remove(partition);
            }
            if let Some(progress) = &progress {
                self.watch_partition(node, *partition, progress, voters.as_ref());
                self.watch_quota(node, *partition, progress);
                self.watch_all(node, *partition, progress);
            }
            if let Some(voters) = &voters {
                self.watch_voters(node, *partition, voters);
            }
        }
        self.strike_between_rounds(node);
        self.watch_seats(node);
        self.watch_version(node);
        self.watch_time(node);
        self.watch_memories(node, &partitions);
        self.watch_changes(node, &partitions);
        let machine = &mut self.machines[usize::from(node.0)];
        let Some(running) = &machine.running else { return };
        // It does without those in which it has no vote. One that has lost its memory of a vote has nothing either, until a leader tells it.
        let (groups, is_without) = (&self.groups, |id: PartitionId| running.node.is_without(id));
        let does_without = |id: PartitionId| is_without(id) && !groups.names(id, node);
        let is_whole = |(partition, until): (&PartitionId, &Position)| {
            let progress = running.node.progress(*partition);
            does_without(*partition)
                || progress.is_some_and(|it| it.votes && it.persisted >= *until && it.applied >= *until)
        };
        // A bucket that was made since it was harmed has one voter less until it has heard of that.
        let votes_in = |partition: &PartitionId| {
            does_without(*partition) || running.node.progress(*partition).is_some_and(|it| it.votes)
        };
        let begun = self.agreement.highest();
        let mut begun = begun.keys().filter(|it| self.durable.contains(it) && !self.dropped.contains(it));
        let over_quota = running.cache_over_quota();
        let differing = running.node.comparisons().1;
        // It is the nodes that are to find this one.
        let nodes_shall_see = self.planted == Some(Planted::StateDrifts);
        if machine.damaged_until.as_ref().is_some_and(|until| until.iter().all(is_whole))
            && Machine::all_vote(running)
            && begun.all(votes_in)
            && !machine.disk.is_damaged(|_| true)
        {
            machine.damaged_until = None;
        }
        self.watch_folder_that_came_back(node);
        if let Some(text) = self.agreement.violations().first().cloned() {
            self.violate("agreement", text);
        } else if let Some(text) = self.replicas.violations().first().cloned().filter(|_| !nodes_shall_see) {
            self.violate("replicas agree", text);
        } else if differing > 0 {
            self.violate("comparison", format!("{}: a replica's state is not that of the majority", name_of(node)));
        } else if let Some(text) = self.quota.violations().first().cloned() {
            self.violate("quota", text);
        } else if let Some(text) = over_quota {
            self.violate("cache quota", format!("{}: {text}", name_of(node)));
        }
    }

    /// What a node has recorded of the changes of the default bucket is the truth by which subscribers are judged.
    fn watch_changes(&mut self, node: NodeId, partitions: &[PartitionId]) {
        if self.chaos.subscriptions_seed.is_none() {
            return;
        }
        let now = self.now;
        // Recording lapses where a clock jumps far ahead.
        let lapses = |planned: &crate::chaos::Planned| matches!(planned.fault, Fault::ClockJump | Fault::WildClock);
        let keeps_all = self.chaos.subscriptions.memory_bytes >= KEEPS_ALL_BYTES && !self.chaos.plan.iter().any(lapses);
        let Some(running) = &mut self.machines[usize::from(node.0)].running else { return };
        let states = running.node.snapshots_installed() + running.node.untold();
        for partition in partitions.iter().filter(|partition| partition.bucket == BucketId(0)) {
            let seen = running.changes_seen.get(partition).copied().unwrap_or_default();
            let Some(recorded) = running.node.recorded(*partition, seen) else { continue };
            let (changes, place) = (&mut self.messages.changes, usize::from(partition.index));
            changes.note_floor((node.0, place), recorded.floor.0, now);
            let before = running.changes_kept.insert(*partition, (recorded.floor, states));
            if let Some((floor, _)) = before.filter(|(_, before)| keeps_all && *before == states)
                && recorded.floor > floor
            {
                let (name, to) = (name_of(node), recorded.floor);
                let text = format!("{name} has lost the changes of {partition} from {floor} to {to}, for no reason");
                self.violations.push(("subscriptions", text));
            }
            let parts = |message: &[u8]| -> Vec<Value> {
                let mut parser = ReplyParser::new(ReplyLimits::default());
                parser.push(message);
                [parser.next(), parser.next()].into_iter().filter_map(|part| part.ok().flatten()).collect()
            };
            let of = (recorded.history, place);
            for change in recorded.changes {
                running.changes_seen.insert(*partition, change.revision);
                // What the change has left behind, as those are told who begin with what is there; unless it was changed again since.
                if let Some(key) = running.node.stored_key(*partition, &change.key)
                    && key.revision == change.revision
                {
                    changes.note_key((of.clone(), key.revision.0), parts(&key.message));
                }
                let (key, is_of_all_keys, parts) = (change.key, change.is_of_all_keys, parts(&change.message));
                changes.note(of.clone(), change.revision.0, Change { key, is_of_all_keys, parts, at: now });
            }
            let head = running.changes_seen.get(partition).copied().unwrap_or_default().max(recorded.floor);
            if changes.lacks_state(&of, head.0)
                && let Some((revision, keys)) = running.node.stored_keys(*partition).filter(|(it, _)| *it == head)
            {
                let keys = keys.into_iter().map(|it| (it.key, (it.revision.0, parts(&it.message))));
                changes.note_state(of, revision.0, keys.collect());
            }
        }
    }

    /// What was answered as being on all disks is there, or was until the disk was harmed.
    fn watch_all(&mut self, node: NodeId, partition: PartitionId, progress: &Progress) {
        let most = |node: &NodeId| self.machines[usize::from(node.0)].most_persisted.get(&partition).copied();
        // A node that recovers may write and forget within one turn, and the simulator looks behind turns.
        let forgets = |node: &NodeId| self.machines[usize::from(node.0)].came_back.is_some();
        let lacks = |node: &&NodeId| most(node).unwrap_or_default() < progress.on_all && !forgets(node);
        if let Some(lacking) = progress.all.iter().find(lacks) {
            let lacks = name_of(*lacking);
            let text = format!(
                "{}: a write at {} of {partition} was answered as being on all disks, and {lacks} has never had it",
                name_of(node),
                progress.on_all
            );
            self.violations.push(("on all disks", text));
        }
    }

    /// Those who vote change by steps between which any two majorities meet.
    fn watch_voters(&mut self, node: NodeId, partition: PartitionId, voters: &Voters) {
        if self.dropped.contains(&partition) {
            // A journal that lacks the news of it may have the partition still.
            return;
        }
        let most = |id: NodeId| self.machines[usize::from(id.0)].most_persisted.get(&partition).copied();
        if let Some(text) = self.groups.observe(partition, voters) {
            self.violations.push(("majorities meet", format!("{}: {partition}: {text}", name_of(node))));
        } else if let Some(text) = voters::too_soon(voters, |id| most(id).unwrap_or_default()) {
            self.violations.push(("voters have the log", format!("{}: {partition}: {text}", name_of(node))));
        }
    }

    /// What the council says of nodes and votes holds together, and with what these do.
    fn watch_seats(&mut self, node: NodeId) {
        let Some(running) = &mut self.machines[usize::from(node.0)].running else { return };
        let followed = running.node.council_followed();
        let is_known = std::mem::replace(&mut running.council_seen, followed) == followed;
        if is_known || self.reads_of_before(followed) {
            return;
        }
        let Some(running) = &self.machines[usize::from(node.0)].running else { return };
        let Some(told) = running.node.placement() else { return };
        if let Some(text) = self.maps.observe(&told) {
            self.violations.push(("seats", format!("{}: {text}", name_of(node))));
        }
        let partitions: Vec<PartitionId> = told.partitions.iter().map(|placed| placed.partition).collect();
        if let Some(text) = told.removed.iter().find_map(|id| self.groups.remove(*id, &partitions)) {
            self.violations.push(("removed nodes have no vote", format!("{}: {text}", name_of(node))));
        }
    }

    /// A bucket that is in memory only may begin anew when a majority has lost its memory of it, and never before; while its voters move, a majority of the former ones or of
    /// the next.
    fn watch_memories(&mut self, node: NodeId, partitions: &[PartitionId]) {
        let Some(running) = &self.machines[usize::from(node.0)].running else { return };
        // By a bucket's name the newest of its numbers.
        let mut newest: BTreeMap<&str, BucketId> = BTreeMap::new();
        for partition in partitions {
            let Some(progress) = running.node.progress(*partition).filter(|progress| !progress.durable) else {
                continue;
            };
            let Some((bucket, _)) = running.node.holding(*partition) else { continue };
            newest.insert(bucket, partition.bucket);
            let (followed, lists) = (running.node.council_followed(), running.node.remembered_by(*partition));
            // By what it knows itself: it may have been given a vote before it hears that the council has listed the memory of an earlier life, and so counts as one that forgot.
            // And it counts before it votes, from the move on that shall give it a vote.
            let is_counted = lists.iter().any(|list| list.contains(&node));
            let counted = self.counted.entry(partition.bucket).or_default();
            if counted.0 < followed || counted.1.is_empty() {
                *counted = (followed, lists);
            }
            // A second process of its name was taken for it: it recovers, and has no memory of its own meanwhile.
            let is_outlived = self.machines[usize::from(node.0)].came_back.is_some() && !progress.votes;
            if (progress.votes && is_counted) || is_outlived {
                let memories = self.memories.entry(bucket.to_owned()).or_default().entry(*partition).or_default();
                if is_outlived {
                    memories.remove(&node);
                } else {
                    memories.insert(node, running.started_at);
                }
            }
        }
        // The workload never drops one: a bucket of that name with a higher number is the same one, begun anew.
        for (bucket, newest) in newest {
            let Some(memories) = self.memories.get_mut(bucket) else { continue };
            while let Some((older, voted)) = memories.first_key_value().filter(|(older, _)| older.bucket < newest) {
                let remembers = |(node, life): (&NodeId, &u64)| {
                    let running = &self.machines[usize::from(node.0)].running;
                    running.as_ref().is_some_and(|running| running.started_at == *life)
                };
                let remembering: Vec<NodeId> =
                    voted.iter().filter(|pair| remembers(*pair)).map(|(node, _)| *node).collect();
                let lists = |id: &BucketId| self.counted.get(id).map(|(_, lists)| &lists[..]).unwrap_or_default();
                // Those who founded the new one may have come to the vote by a move that nobody has seen.
                let is_lost =
                    |list: &Vec<NodeId>| 2 * list.iter().filter(|id| remembering.contains(id)).count() <= list.len();
                if !lists(&older.bucket).iter().chain(lists(&newest).first()).any(is_lost) {
                    let text = format!("{older} was given up while {remembering:?} had its memory");
                    self.violations.push(("memory is kept", text));
                }
                self.begun_anew.insert(bucket.to_owned());
                memories.pop_first();
            }
        }
    }

    /// No replica of a bucket that refuses at its quota holds more than that and what one command adds.
    fn watch_quota(&mut self, node: NodeId, partition: PartitionId, progress: &Progress) {
        let Some(running) = &self.machines[usize::from(node.0)].running else { return };
        let Some((bucket, bytes)) = running.node.holding(partition).filter(|(name, _)| *name == BOUNDED) else {
            return;
        };
        let (least, greatest) = self.record.settings.quota(bucket, (0, self.now));
        let longest = self.record.longest.get(bucket).copied().unwrap_or_default();
        let elements = self.record.elements.get(bucket).copied().unwrap_or_default();
        let bound = greatest.map_or(u64::MAX, |quota| with_one_command(quota, longest, elements));
        if least.is_some_and(|quota| bytes >= quota) {
            *self.probes.entry(QUOTA_REACHED).or_default() += 1;
        }
        self.quota.observe(node, (partition, progress.applied), bytes, bound);
    }

    fn watch_partition(&mut self, node: NodeId, partition: PartitionId, progress: &Progress, voters: Option<&Voters>) {
        let healed = self.healed;
        let machine = &mut self.machines[usize::from(node.0)];
        let Some(running) = &mut machine.running else { return };
        if progress.applied > progress.decided {
            let (name, Progress { applied, decided, .. }) = (name_of(node), progress);
            let text = format!("{name}: applied {applied} of {partition} beyond decided {decided}");
            self.violations.push(("agreement", text));
        }
        let most = machine.most_persisted.entry(partition).or_default();
        *most = progress.persisted.max(*most);
        self.founded |= progress.votes;
        if progress.durable {
            self.durable.insert(partition);
        }
        // Whoever only learns has nothing that it could forget.
        let has_vote = |voters: &Voters| voters.now.iter().flatten().any(|id| *id == node);
        if progress.votes && voters.is_none_or(has_vote) {
            machine.voted.insert(partition);
        }
        if progress.lost
            && progress.durable
            && machine.damaged_until.is_none()
            && machine.came_back.is_none()
            && machine.voted.contains(&partition)
            && !self.dropped.contains(&partition)
        {
            // Crashes and power cuts take nothing from a node that has synced before it spoke.
            let text = format!("{} has lost memory of {partition}, and nothing has harmed its disk", name_of(node));
            self.violations.push(("memory is kept", text));
        }
        let seen = running.seen.entry(partition).or_default();
        let mut position = (*seen).max(progress.first.previous()).next();
        while position <= progress.decided {
            if let Some(digest) = running.node.decided_entry_digest(partition, position) {
                self.agreement.observe(node, partition, position, digest);
            }
            position = position.next();
        }
        let moved = *seen < progress.decided;
        *seen = (*seen).max(progress.decided);
        // The digest costs a walk over the whole state, so not every position is compared. What differs goes on to
        // differ, and the last states of all are compared at the end.
        let often = if healed { 1 } else { COMPARED_EVERY };
        if moved
            && progress.applied.0.is_multiple_of(often)
            && progress.applied.0 > 0
            && let Some(digest) = running.node.state_digest(partition)
        {
            self.replicas.observe(node, partition, progress.applied, digest);
        }
    }

    /// Lets the trace tell what every replica is about.
    pub fn draw_portraits(&mut self) {
        let now = self.now;
        for (node, machine) in self.machines.iter().enumerate() {
            let lines = machine.running.as_ref().map(|running| running.node.portrait()).unwrap_or_default();
            for line in lines {
                self.trace.event(now, [19, node as u64, 0, 0], || format!("{} {line}", name_of(NodeId(node as u16))));
            }
        }
    }

    /// An error if some replica keeps too many answers, in the calm at the end.
    #[must_use]
    pub fn judge_kept_answers(&self) -> Option<String> {
        let running = self.machines.iter().enumerate().filter_map(|(node, it)| Some((node, it.running.as_ref()?)));
        running.into_iter().find_map(|(node, running)| {
            // Answers to entries of earlier versions have no bound in bytes.
            let is_bounded =
                Feature::Budgets.is_in(running.node.cluster_version()) && self.chaos.versions_seed.is_none();
            running.node.partitions().into_iter().find_map(|partition| {
                let kept = running.node.kept_answers(partition);
                let bytes_max = is_bounded.then_some(KEPT_REPLIES_BYTES_MAX);
                answers::judge(NodeId(node as u16), partition, &kept, bytes_max)
            })
        })
    }

    /// What every node looks like now.
    #[must_use]
    pub fn endings(&self) -> Vec<Ending> {
        let states = |running: &Running<N>| {
            let state = |partition| {
                let (progress, digest) = (running.node.progress(partition)?, running.node.state_digest(partition)?);
                Some((partition, progress.applied, digest))
            };
            running.node.partitions().into_iter().filter_map(state).collect()
        };
        let unsettled = |running: &Running<N>| {
            let voters = running.node.partitions().into_iter().filter_map(|it| Some((it, running.node.voters(it)?)));
            voters.filter(|(_, voters)| !voters::settled(voters)).collect()
        };
        let misplaced = self.misplaced();
        let ending = |(node, machine): (usize, &Machine<N>)| Ending {
            node: NodeId(node as u16),
            state: machine.running.as_ref().map(states),
            unsettled: machine.running.as_ref().map_or_else(Vec::new, unsettled),
            misplaced: misplaced.get(&NodeId(node as u16)).cloned().unwrap_or_default(),
        };
        let counts = |(_, machine): &(usize, &Machine<N>)| machine.is_member && !machine.is_gone;
        self.machines.iter().enumerate().filter(counts).map(ending).collect()
    }

    /// Adds up what was never told: probes of nodes that still run, and what disks and links did.
    pub fn close_books(&mut self) {
        self.count_refused_for_room();
        for machine in &mut self.machines {
            let Some(mut running) = machine.running.take() else { continue };
            let probes = running.node.take_probes();
            for (probe, count) in probes.into_iter().chain(running.close()) {
                *self.probes.entry(probe).or_default() += count;
            }
        }
        for (probe, count) in std::mem::take(&mut self.record.probes) {
            *self.probes.entry(probe).or_default() += count;
        }
        let fates = self.network.fates;
        let failed_reads = self.machines.iter().map(|machine| machine.disk.counts().failed_reads).sum();
        let torn = self.machines.iter().map(|machine| machine.disk.counts().blocks_torn).sum();
        let sums = [
            (Fault::TornSectors, torn),
            (Fault::Loss, fates.lost),
            (Fault::Duplicate, fates.duplicated),
            (Fault::Reorder, fates.reordered),
            (Fault::ReadError, failed_reads),
        ];
        for (fault, count) in sums.into_iter().filter(|(_, count)| *count > 0) {
            *self.injected.entry(fault).or_default() += count;
        }
    }
}
