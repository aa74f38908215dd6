//! A folder that comes back after its node has lived without it.
//!
//! A node starts once on an empty folder, because its disk is not mounted: it recovers under a later incarnation ([`crate::lives`], `paxos/src/recovery.rs`). Then the
//! disk comes back with the former folder. That one has forgotten what was promised meanwhile, and no candidate who knows of the later incarnation counts its
//! promises. Nobody would notice, until the next leader dies and cannot be replaced.
//!
//! 1. Nodes pass on the latest incarnation of every node: what its process claimed, and what their replicas of the council have noted on disk. So it is known even
//!    when all of them have been started again since, and if the node's life without its folder was too short to recover in.
//! 2. A node that hears of a later incarnation than its own has its replicas recover, each as soon as it follows a leader and hears all others that vote: what one
//!    replica has not forgotten alone is never given up, and a majority goes on without it meanwhile. Of two such nodes one waits for the other. The council's comes last: its incarnation is the folder's.
//!
//! It needs no operator, and no folder has to be emptied. An earlier copy of the same life is another matter: there the node ends ([`crate::lives`]).

use std::collections::BTreeSet;

use base::{NodeId, PartitionId};
use paxos::{Input as Step, RoleName};

use crate::bucket::BucketKind;
use crate::council::COUNCIL;
use crate::door::{Level, Planted};
use crate::lives::Claim;
use crate::node::{IS_OUTLIVED, LEADS_OUTLIVED, Node, news_of, place_of, role_number};

/// Which replicas of a node are still to recover.
#[derive(Debug, Default)]
pub(crate) struct Outlived {
    partitions: BTreeSet<PartitionId>,
    /// The latest incarnation that was heard of.
    pub by: u64,
}

impl Outlived {
    /// The role in a partition of which a node tells the others: none of them has to guess from its incarnation which of its replicas have recovered.
    pub fn role_of(&self, id: PartitionId, role: RoleName) -> u8 {
        match role {
            RoleName::Leader if self.partitions.contains(&id) => LEADS_OUTLIVED,
            RoleName::Follower | RoleName::Candidate if self.partitions.contains(&id) => IS_OUTLIVED,
            _ => role_number(role),
        }
    }
}

impl Node {
    /// All that is known of nodes' lives, to be passed on.
    pub(crate) fn all_lives(&self) -> Vec<(NodeId, Claim)> {
        let mut lives = self.lives.all();
        let Some(g) = place_of(&self.groups, COUNCIL) else { return lives };
        let council = &self.groups[g].partition.replica;
        if council.role() == RoleName::Recovering {
            return lives;
        }
        for node in self.roll.iter().map(|(node, _)| node).filter(|node| *node != self.config.me) {
            let noted = council.incarnation_known_of(node);
            let claimed = lives.iter().position(|(it, _)| *it == node);
            // Nothing is known of its process: it may not have come so far as to say anything.
            let claim = Claim { incarnation: noted, ..Claim::default() };
            match claimed {
                Some(place) if lives[place].1.incarnation < noted => lives[place].1 = claim,
                None if noted > 0 => lives.push((node, claim)),
                _ => {}
            }
        }
        lives
    }

    /// The latest incarnation of a node that this one knows of; 0 if it knows none.
    #[must_use]
    pub fn later_life_of(&self, node: NodeId) -> u64 {
        let of_it = self.all_lives().into_iter().find(|(id, _)| *id == node);
        of_it.map_or(0, |(_, claim)| claim.incarnation)
    }

    /// Whether replicas of this node are still to recover.
    #[must_use]
    pub fn is_outlived(&self) -> bool {
        !self.outlived.partitions.is_empty()
    }

    /// Others say that this node had this incarnation, `own` being the one that it has.
    pub(crate) fn hear_of_own_life(&mut self, own: u64, known: u64) {
        let is_news = own != 0 && known > own && known > self.outlived.by;
        if !is_news || self.config.planted == Some(Planted::OutlivedUnheard) {
            return;
        }
        self.probe("node: has the folder of a life before");
        self.event(
            Level::Warning,
            "this folder was away while this node ran with another one (a disk that was not mounted, perhaps): what it promised meanwhile is not in here. Its replicas recover from the other nodes, one by one, and vote again then",
        );
        self.outlived.by = known;
        // That of its memories in RAM ends when the council's replica recovers.
        self.identity = None;
        let buckets = &self.buckets;
        let is_on_disk =
            |id: &PartitionId| buckets.of(id.bucket).is_none_or(|bucket| bucket.settings.kind != BucketKind::Ephemeral);
        self.outlived.partitions = self.groups.partitions().into_iter().filter(is_on_disk).collect();
        // The others are told of their new role.
        let places = self.outlived.partitions.iter().filter_map(|id| place_of(&self.groups, *id));
        places.collect::<Vec<usize>>().into_iter().for_each(|g| self.groups.wake(g));
    }

    /// Whether another node is heard, has all of its memory of a partition, and goes on having it while this one recovers: two that recover at once may wait for each other
    /// for ever. Of two that have been outlived the one with the lower number recovers first.
    fn stays_whole(&self, node: NodeId, id: PartitionId) -> bool {
        let Some(ping) = self.news.get(&node).filter(|_| self.is_up(node)) else { return false };
        let news = news_of(ping, id);
        let recovers = news.is_none_or(|news| news.role == role_number(RoleName::Recovering));
        let leads = news.is_some_and(|news| news.leads.is_some());
        // A leader recovers last, once it has handed over.
        !recovers && ping.claim.incarnation != 0 && (!self.is_outlived_in(node, id) || leads || node > self.config.me)
    }

    /// True if another node's replica is still to recover, so that no candidate counts its promises. A node that has not heard of its later life yet does not say so;
    /// then its incarnation tells, as the replica of the council recovers last.
    fn is_outlived_in(&self, node: NodeId, id: PartitionId) -> bool {
        let Some(ping) = self.news.get(&node) else { return true };
        let says = |id| news_of(ping, id).is_some_and(|news| matches!(news.role, IS_OUTLIVED | LEADS_OUTLIVED));
        let has_later_life = || {
            // Also by the word of one: that this node waits is all that comes of it.
            self.has_later_life(node, &ping.claim) || self.testimony.may_have_later_life(node, ping.claim.incarnation)
        };
        says(id) || has_later_life() && !says(COUNCIL)
    }

    /// Whether a later incarnation of a node is known than its process claims.
    pub(crate) fn has_later_life(&self, node: NodeId, claim: &Claim) -> bool {
        let council = place_of(&self.groups, COUNCIL).map(|g| &self.groups[g].partition.replica);
        let noted = council.map_or(0, |replica| replica.incarnation_known_of(node));
        claim.incarnation < noted.max(self.lives.incarnation_of(node))
    }

    /// Replicas that can recover now begin to.
    pub(crate) fn tick_outlived(&mut self) {
        for id in self.outlived.partitions.clone() {
            if id == COUNCIL && self.outlived.partitions.len() > 1 {
                // By its incarnation the folder is known. Should the process end before, the others are still to be found out after the next start.
                continue;
            }
            let Some(g) = place_of(&self.groups, id).filter(|g| {
                // It recovers for another reason.
                self.groups[*g].partition.replica.role() != RoleName::Recovering
            }) else {
                self.outlived.partitions.remove(&id);
                continue;
            };
            let members = self.groups[g].partition.replica.members();
            if !members.names(self.config.me) {
                // It has no vote. The leader that gives it one asks for its incarnation first.
                self.outlived.partitions.remove(&id);
                continue;
            }
            let voters = members.voters.iter().chain(&members.incoming).map(|member| member.node);
            let mut others = voters.filter(|node| *node != self.config.me);
            if !others.clone().all(|node| self.stays_whole(node, id)) {
                continue;
            }
            let replica = &self.groups[g].partition.replica;
            if replica.leads().is_some() {
                // A leader recovers once it follows, and nobody else would ask it to. Another leader is elected by those who have not been outlived: all others recover first.
                if !replica.handing_over() && !others.any(|node| self.is_outlived_in(node, id)) {
                    self.probe("node: an outlived leader hands over");
                    self.step_replica(g, Step::HandOver);
                }
                continue;
            }
            self.step_replica(g, Step::Outlived);
            if self.groups[g].partition.replica.role() == RoleName::Recovering {
                self.outlived.partitions.remove(&id);
                if id == COUNCIL {
                    // Memories of buckets that have no other are named by it.
                    self.identity = None;
                }
            }
        }
    }
}
