//! What follows on this node from the council's list of buckets: replicas are made and removed.

use base::{BucketId, PartitionId};
use data::{Failure, Reply};
use paxos::{HardState, Restored, RoleName};

use super::{Node, place_of};
use crate::below::FlushJob;
use crate::bucket::{Bucket, BucketKind};
use crate::council::{Buckets, COUNCIL};
use crate::door::Planted;
use crate::journal::Rebuilt;
use crate::router::Waiter;
use crate::words::Terms;

const DROPPED: Failure = Failure::Text("ERR the bucket was dropped; whether the command was done makes no difference");

/// The one partition that a bucket has so far.
pub(crate) fn partition_of(bucket: BucketId) -> PartitionId {
    PartitionId { bucket, index: 0 }
}

/// Stands for a memory that ends with the process.
fn identity_in_memory(incarnation: u64, boot: u64) -> u64 {
    let bytes = [incarnation.to_le_bytes(), boot.to_le_bytes()].concat();
    base::checksum::xxh3(&bytes).max(1)
}

impl Node {
    /// Brings the groups in line with the council's list, if that may have changed.
    pub(crate) fn follow_council(&mut self) {
        let Some(council) = place_of(&self.groups, COUNCIL) else { return };
        let group = &self.groups[council];
        if group.partition.applied == self.council_followed && !self.buckets_wait {
            return;
        }
        self.council_followed = group.partition.applied;
        let buckets = match Buckets::read(&group.partition.tree) {
            Ok(buckets) => buckets,
            Err(_) => {
                let text = "the council's list of buckets is not one of this version";
                self.fatal.get_or_insert_with(|| text.to_owned());
                return;
            }
        };
        self.buckets = buckets;
        self.buckets_wait = false;
        let gone: Vec<usize> = (0..self.groups.len())
            .filter(|g| self.buckets.has_dropped(self.groups[*g].id().bucket) && self.groups[*g].id() != COUNCIL)
            .collect();
        for g in gone.into_iter().rev() {
            self.remove_group(g);
        }
        for bucket in self.buckets.list.clone() {
            match place_of(&self.groups, partition_of(bucket.id)) {
                Some(g) => self.groups[g].bucket = bucket,
                // Before its start is on disk a life may have to share its number with the next one.
                None if bucket.settings.kind == BucketKind::Ephemeral && !self.start_is_on_disk => {
                    self.buckets_wait = true;
                }
                None => self.add_group(bucket),
            }
        }
    }

    /// A replica of a bucket of which this node has nothing.
    fn add_group(&mut self, bucket: Bucket) {
        let Some(council) = place_of(&self.groups, COUNCIL) else { return };
        let council = &self.groups[council].partition.replica;
        let durable = bucket.settings.kind != BucketKind::Ephemeral;
        let incarnation = council.hard_state().incarnation;
        let identity = if durable { incarnation } else { identity_in_memory(incarnation, self.boot) };
        let is_whole = bucket.identities.get(usize::from(self.config.me.0)) == Some(&identity);
        // Otherwise it has had a replica, perhaps, and has lost what that promised: it has to find out.
        let forgets = self.config.planted == Some(Planted::VoteWithAmnesia);
        let state = (is_whole || forgets).then(|| HardState {
            incarnation: identity,
            incarnations: bucket.identities.clone(),
            ..HardState::default()
        });
        if !is_whole {
            self.probe("node: replica made without its memory");
        }
        let restored = Restored { state, incarnation: identity, ..Restored::default() };
        let rebuilt = Rebuilt { restored, ..Rebuilt::default() };
        self.bring_back(partition_of(bucket.id), bucket, durable, rebuilt, None);
        self.tell_all();
    }

    /// A bucket is gone: nobody gets an answer from it any more, and what it had on disk is given back.
    fn remove_group(&mut self, g: usize) {
        self.probe("node: replica of a dropped bucket removed");
        let mut group = self.groups.remove(g);
        self.saved_last = 0;
        let id = group.id();
        for write in std::mem::take(&mut group.router.writes) {
            if let Waiter::Client { connection, slot } = write.waiter {
                self.deliver(connection, slot, &Reply::Error(DROPPED));
            }
        }
        let aiming = self.sessions.values().flatten().filter(|session| session.aim == id);
        let reading: Vec<_> = aiming.filter(|session| !session.reads.is_empty()).map(|session| session.id).collect();
        for connection in reading {
            while let Some(read) =
                self.sessions.get_mut(&connection).and_then(Option::as_mut).and_then(|it| it.pop_read_if(|_| true))
            {
                self.deliver(connection, read.slot, &Reply::Error(DROPPED));
            }
        }
        if group.partition.durable && self.below.is_some() {
            let mut spaces = group.partition.tree.spaces();
            spaces.extend(group.saving.and_then(|it| it.install).into_iter().flat_map(|state| state.tree.spaces()));
            self.retired.push((id, FlushJob::retire(id, spaces)));
        }
    }

    /// Which memory each voter has that this node knows of, for a new bucket of this kind; an error if these are too few to serve it.
    pub(crate) fn identities(&self, kind: BucketKind) -> Result<Vec<u64>, Failure> {
        const TOO_FEW: Failure = Failure::Text(
            "CLUSTERDOWN a bucket can be created when a majority of the nodes is up; the command was not done, try again",
        );
        let Some(council) = place_of(&self.groups, COUNCIL) else { return Err(TOO_FEW) };
        let replica = &self.groups[council].partition.replica;
        let mut identities = replica.hard_state().incarnations;
        if replica.role() == RoleName::Recovering || identities.len() != self.config.members.len() {
            return Err(TOO_FEW);
        }
        if kind == BucketKind::Ephemeral {
            for (place, identity) in identities.iter_mut().enumerate() {
                let node = base::NodeId(place as u16);
                let boot = if node == self.config.me {
                    Some(self.boot)
                } else {
                    let up = self.detectors.iter().any(|it| it.peer == node && it.is_up(self.now.time));
                    self.news.get(&node).filter(|_| up).map(|ping| ping.boot)
                };
                *identity = boot.map_or(0, |boot| identity_in_memory(*identity, boot));
            }
        }
        let known = identities.iter().filter(|identity| **identity != 0).count();
        if known > self.config.members.len() / 2 { Ok(identities) } else { Err(TOO_FEW) }
    }

    /// What goes with each write to a bucket.
    pub(crate) fn terms(&self, partition: PartitionId) -> Terms {
        let node_max = self.config.value_bytes_max;
        let bucket = place_of(&self.groups, partition).map(|g| &self.groups[g].bucket.settings);
        let Some(it) = bucket else { return Terms { value_bytes_max: node_max, ttl_ms: 0, full_at_bytes: 0 } };
        let own_max = usize::try_from(it.value_bytes_max).ok().filter(|own| *own > 0);
        Terms {
            value_bytes_max: own_max.map_or(node_max, |own| own.min(node_max)),
            ttl_ms: it.ttl_ms,
            full_at_bytes: if it.kind == BucketKind::Ephemeral { it.quota_bytes } else { 0 },
        }
    }

    /// The bucket that `SELECT` means by a number or a name, as far as this node knows.
    pub(crate) fn find_bucket(&self, word: &[u8]) -> Result<&Bucket, Failure> {
        self.buckets.find(word)
    }

    fn tell_all(&mut self) {
        for g in 0..self.groups.len() {
            self.tell_replica(g);
        }
    }
}
