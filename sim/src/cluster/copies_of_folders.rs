//! Folders that are set back to earlier copies.
//!
//! Nobody can tell a copy from the folder if all that have heard of what it lacks have forgotten it or are out of reach: that is documented
//! (docs/decisions/2026-11-25-restored-folders.md). So a folder is set back only when all others run and have heard of more than the copy has; and as long as its node has not been told,
//! no other one is made to forget that.

use base::{NodeId, Rng};

use super::Cluster;
use crate::chaos::{Fault, MS};
use crate::disk::Copy;
use crate::door::Door;
use crate::events::Event;
use crate::process::name_of;
use crate::trace::digest_of;

/// A copy, the name of the node's memory when it was taken, and the highest number that anything in its journal may have.
#[derive(Debug)]
pub(super) struct Earlier {
    pub(super) copy: Copy,
    memory: u64,
    journal: u64,
}

impl<N: Door> Cluster<N> {
    /// Takes a copy of a node's folder; or sets it back to the one that was taken before, if the others know more by now.
    pub(super) fn set_back(&mut self, node: NodeId) -> bool {
        if self.set_back.is_some() {
            return false;
        }
        let Some(earlier) = self.outdated_copy(node) else { return false };
        if !self.damage(node, MS, |disk| {
            disk.set_back(&earlier.copy);
            true
        }) {
            self.machine(node).earlier = Some(earlier);
            return false;
        }
        self.set_back = Some((node, earlier.memory));
        true
    }

    /// A copy of a running node's folder, if one was taken and all others have heard of what it lacks. If none was taken, one is now.
    pub(super) fn outdated_copy(&mut self, node: NodeId) -> Option<Earlier> {
        let running = self.machine(node).running.as_ref()?;
        let (memory, journal) = running.node.folder();
        // Who was alone when the copy was taken decides with it before anybody can tell it anything.
        let all = running.node.partitions().into_iter().filter_map(|partition| running.node.voters(partition));
        let was_alone = all.flat_map(|voters| [voters.now, voters.before].concat()).any(|list| list == [node]);
        let machine = &mut self.machines[usize::from(node.0)];
        let Some(earlier) = machine.earlier.take_if(|earlier| earlier.memory == memory) else {
            if memory != 0 && !was_alone && !machine.disk.is_damaged(|_| true) {
                machine.earlier = Some(Earlier { copy: machine.disk.copy(), memory, journal });
            }
            return None;
        };
        if self.all_others_know(node, memory, earlier.journal) {
            return Some(earlier);
        }
        self.machine(node).earlier = Some(earlier);
        None
    }

    /// True if all others run and have heard of more of a node's journal than that.
    pub(super) fn all_others_know(&self, node: NodeId, memory: u64, journal: u64) -> bool {
        let knows = |other: NodeId| {
            let machine = &self.machines[usize::from(other.0)];
            // Who is about to end takes with it what it knows.
            let stays = machine.running.as_ref().filter(|it| !it.stopping && !machine.disk.is_about_to_fail());
            stays.is_some_and(|running| running.node.has_heard_of(node, memory) > journal)
        };
        self.members().filter(|member| *member != node).all(knows)
    }

    /// A node's process ends, and begins again with an empty folder. The former one comes back after some time in which the node may have recovered, or not.
    pub(super) fn take_folder_away(&mut self, node: NodeId, rng: &mut Rng) -> bool {
        let Some(running) = &self.machine(node).running else { return false };
        let (memory, journal) = running.node.folder();
        let machine = self.machine(node);
        if memory == 0 || machine.away.is_some() || machine.came_back.is_some() || machine.disk.is_damaged(|_| true) {
            return false;
        }
        let mut folder = None;
        let is_away = self.damage(node, rng.between(10 * MS, 500 * MS), |disk| {
            folder = Some(disk.copy());
            disk.delete(|_| true);
            true
        });
        let Some(copy) = folder.filter(|_| is_away) else { return false };
        self.machine(node).away = Some(Earlier { copy, memory, journal });
        let back = rng.between(200 * MS, 10_000 * MS);
        let at = self.now + back;
        self.queue.push(at, Event::FolderBack(node));
        true
    }

    /// See [`Self::take_folder_away`].
    pub(super) fn bring_folder_back(&mut self, node: NodeId) {
        let others_are_whole = self.members().all(|it| it == node || self.machines[usize::from(it.0)].is_whole());
        let Some(folder) = self.machine(node).away.take() else { return };
        // The node loses all that it has learned meanwhile, and that may be one loss more than the others bear.
        if !others_are_whole
            || !self.damage(node, 100 * MS, |disk| {
                disk.set_back(&folder.copy);
                true
            })
        {
            if self.healed {
                return;
            }
            self.machine(node).away = Some(folder);
            let at = self.now + 500 * MS;
            return self.queue.push(at, Event::FolderBack(node));
        }
        self.machine(node).came_back = Some(folder.memory);
        let now = self.now;
        self.trace.event(now, [18, u64::from(node.0), 1, 0], || format!("the folder of {} is back", name_of(node)));
    }

    /// Whether a node has another memory by now than the folder that came back.
    pub(super) fn watch_folder_that_came_back(&mut self, node: NodeId) {
        let machine = self.machine(node);
        let (Some(memory), Some(running)) = (machine.came_back, &machine.running) else { return };
        let now = running.node.folder().0;
        if now != memory && now != 0 && !running.node.is_outlived() && super::Machine::all_vote(running) {
            machine.came_back = None;
        }
    }

    /// Property: a node whose folder was away while it lived with another one does not go on as if nothing had been, if anybody knows of that life.
    #[must_use]
    pub fn judge_folders_that_came_back(&self) -> Option<String> {
        self.members().find_map(|node| {
            let machine = &self.machines[usize::from(node.0)];
            let memory = machine.came_back?;
            let goes_on = machine.running.as_ref()?.node.folder().0 == memory;
            let knows_more = |other: NodeId| {
                let running = self.machines[usize::from(other.0)].running.as_ref();
                running.is_some_and(|running| running.node.later_life_of(node) > memory)
            };
            let is_known = self.members().filter(|it| *it != node).any(knows_more);
            (goes_on && is_known).then(|| {
                format!("{} goes on with a folder that was away, though others know its life without it", name_of(node))
            })
        })
    }

    /// Whether others may be made to forget things, or to be gone: not while somebody has to be told.
    pub(super) fn is_bearable(&self, fault: Fault) -> bool {
        let is_hard = matches!(
            fault,
            Fault::Kill
                | Fault::PowerCut
                | Fault::PowerCutAll
                | Fault::ZoneLost
                | Fault::CrashAtStart
                | Fault::Stop
                | Fault::Versions
                | Fault::TransferCrash
                | Fault::SyncFailure
                | Fault::BitRot
                | Fault::ReadError
                | Fault::IdentityRot
                | Fault::Wipe
                | Fault::JournalLost
                | Fault::Addresses
                | Fault::Keys
        );
        (self.set_back.is_none() && self.double.is_none()) || !is_hard
    }

    /// A process ends by its own verdict. If its folder was set back its operator does as it has said, and empties it.
    pub(super) fn empty_if_set_back(&mut self, node: NodeId, text: &str) {
        if self.set_back.take_if(|(set_back, _)| *set_back == node).is_none() {
            return;
        }
        let now = self.now;
        let machine = self.machine(node);
        machine.disk.delete(|_| true);
        machine.earlier = None;
        self.trace.event(now, [18, u64::from(node.0), digest_of(text.as_bytes()), 0], || {
            format!("{} has an earlier copy of its folder: its operator empties it", name_of(node))
        });
    }

    /// Property: a node whose folder was set back to an earlier copy does not take part with it.
    #[must_use]
    pub fn judge_copies_of_folders(&self) -> Option<String> {
        let (node, memory) = self.set_back?;
        let running = self.machines[usize::from(node.0)].running.as_ref()?;
        let text = format!("{} takes part with an earlier copy of its folder", name_of(node));
        (running.node.folder().0 == memory).then_some(text)
    }
}
