//! What follows on this node from the council's list of buckets: replicas are made and removed.

use base::{BucketId, NodeId, PartitionId, Position};
use data::spec::Flags;
use data::{Failure, Reply, Spec};
use paxos::{HardState, Input as Step, Restored, RoleName};

use super::memories::{identity_in_memory, make_odd};
use super::{Node, place_of};
use crate::access;
use crate::audit;
use crate::below::{FlushJob, Retired};
use crate::bucket::{Bucket, BucketKind, Named, Policy};
use crate::commands::config;
use crate::council::{Buckets, COUNCIL};
use crate::door::{CacheWish, Level, Rubbish};
use crate::eviction::ceiling;
use crate::journal::Rebuilt;
use crate::registry::{Map, Registry};
use crate::router::Waiter;
use crate::settings::ClusterSettings;
use crate::subscriptions;
use crate::words::Terms;

const DROPPED: Failure = Failure::Text("ERR the bucket was dropped; whether the command was done makes no difference");

const FORGOTTEN: Failure =
    Failure::Text("UNKNOWN the bucket has lost its memory on a majority of the nodes and begins anew, empty");
impl Node {
    /// Brings the groups in line with the council's list, if that may have changed.
    pub(crate) fn follow_council(&mut self) {
        let Some(council) = place_of(&self.groups, COUNCIL) else { return };
        let group = &self.groups[council];
        if group.partition.applied == self.council_followed && !self.buckets_wait {
            return;
        }
        self.council_followed = group.partition.applied;
        let tree = &group.partition.tree;
        let settings = ClusterSettings::read(tree);
        let users = self.access.news(tree);
        match (Registry::read(tree), Map::read(tree)) {
            (Ok(registry), Ok(map)) => {
                audit::followed_registry(self, &registry);
                (self.registry, self.map) = (registry, map);
            }
            _ => {
                let text = "the council's registry of nodes is not one of this version";
                self.fatal.get_or_insert_with(|| text.to_owned());
                return;
            }
        }
        match settings {
            Ok(settings) => config::follow(self, settings),
            Err(_) => {
                let text = "the council's settings are not those of this version";
                self.fatal.get_or_insert_with(|| text.to_owned());
                return;
            }
        }
        match users {
            Ok(news) => access::follow(self, news),
            Err(_) => {
                let text = "the council's users are not those of this version";
                self.fatal.get_or_insert_with(|| text.to_owned());
                return;
            }
        }
        self.follow_version();
        self.follow_stepped_over();
        let Some(council) = self.follow_roll() else { return };
        let group = &self.groups[council];
        let buckets = match Buckets::read(&group.partition.tree) {
            Ok(buckets) => buckets,
            Err(_) => {
                let text = "the council's list of buckets is not one of this version";
                self.fatal.get_or_insert_with(|| text.to_owned());
                return;
            }
        };
        for bucket in buckets.list.iter().filter(|bucket| bucket.born != bucket.id) {
            // It has begun anew. Whoever had selected it is in it still.
            let older: Vec<BucketId> =
                self.buckets.list.iter().filter(|old| old.born == bucket.born).map(|old| old.id).collect();
            for session in self.sessions.values_mut().flatten().filter(|session| older.contains(&session.bucket)) {
                session.bucket = bucket.id;
            }
            for session in self.sessions.values_mut().flatten().filter(|it| older.contains(&it.choice.named)) {
                session.choice.named = bucket.id;
            }
        }
        self.caches_told &= self.buckets == buckets;
        audit::followed_buckets(self, &buckets);
        self.buckets = buckets;
        self.buckets_wait = false;
        let gone: Vec<usize> = (0..self.groups.len())
            .filter(|g| self.buckets.has_dropped(self.groups[*g].id().bucket) && self.groups[*g].id() != COUNCIL)
            .collect();
        for g in gone.into_iter().rev() {
            self.remove_group(g);
        }
        for bucket in self.buckets.list.clone() {
            if bucket.settings.kind == BucketKind::Ephemeral {
                self.follow_ephemeral(&bucket);
            } else if self.lacks_any(&bucket) {
                self.add_persistent(&bucket);
            }
            for partition in bucket.partitions() {
                if let Some(g) = place_of(&self.groups, partition) {
                    self.groups[g].bucket = bucket.clone();
                    self.groups[g].partition.name_founders(&bucket.founders);
                    self.follow_policy(g);
                }
            }
        }
        self.tell_rosters();
    }

    /// Tells each replica who shall vote and lead, where that has changed.
    pub(crate) fn tell_rosters(&mut self) {
        (0..self.groups.len()).for_each(|g| self.tell_roster(g));
    }

    /// The same for one of them.
    pub(super) fn tell_roster(&mut self, g: usize) {
        let group = &self.groups[g];
        let id = group.id();
        let in_memory = !group.partition.durable;
        let founders = if in_memory { group.bucket.wanted_voters() } else { group.founders(&self.config) };
        let moves = in_memory.then_some(group.bucket.voting.moves);
        let nodes = self.roll.ids().filter(|id| !self.registry.left_behind(*id));
        // Of the council everybody has a copy; of all else whoever has a seat, also if it does not vote while votes stay where they are, and whoever has not
        // given up yet what it had.
        let learns = |node: &NodeId, seats: &[NodeId]| {
            id == COUNCIL || seats.contains(node) || group.bucket.is_remembered_by(*node) || self.holds(*node, id)
        };
        let mut roster = self.registry.roster(&self.map, id, &founders, nodes, learns, moves);
        self.spare_slow(g, &mut roster);
        if self.groups[g].roster.as_ref() != Some(&roster) {
            self.groups[g].roster = Some(roster.clone());
            self.step_replica(g, Step::Roster(roster));
        }
    }

    /// Whether this node shall lead nothing.
    pub(crate) fn is_drained(&self) -> bool {
        !self.registry.serves(self.config.me)
    }

    /// Whether this node has not a replica of every partition of a bucket.
    pub(super) fn lacks_any(&self, bucket: &Bucket) -> bool {
        bucket.partitions().any(|partition| place_of(&self.groups, partition).is_none())
    }

    /// A replica of a bucket of which this disk has nothing.
    fn add_persistent(&mut self, bucket: &Bucket) {
        let Some(council) = place_of(&self.groups, COUNCIL) else { return };
        let replica = &self.groups[council].partition.replica;
        let (incarnation, forgotten_until) = (replica.incarnation(), replica.forgotten_until());
        let founders = bucket.founded_by(self.config.members.len());
        if !founders.contains(&self.config.me) {
            // It learns. Where the journal has a hole it may have had a vote, and forgotten what it promised.
            self.probe("node: replica made that learns");
            return self.add_groups(bucket, incarnation, false, bucket.made_at <= self.doubtful_until);
        }
        let listed = bucket.identities.get(usize::from(self.config.me.0)).copied().unwrap_or_default();
        // A folder that was away says nothing of what its node did without it.
        let outlived = self.outlived.by > incarnation;
        let same_memory = listed == incarnation && !outlived;
        if listed < incarnation && forgotten_until.is_none() {
            self.buckets_wait = true;
            return;
        }
        // The order that made it may be older than this memory: it was written before the council had heard of that. Was it decided
        // after the loss of the former one, then nobody has promised anything in the name of that.
        let after_loss = listed < incarnation && forgotten_until.is_some_and(|position| bucket.made_at > position);
        let later = after_loss && !outlived;
        // Otherwise it has had a replica, perhaps, and has lost what that promised: it has to find out. What a replica promises is in the
        // journal behind the order that made it. So of a bucket that was made behind what the council's log holds of an earlier
        // life there never was a replica then; of any other there may have been, where the journal has a hole.
        let unprovable = (same_memory || later) && bucket.made_at <= self.doubtful_until;
        let whole = (same_memory || later) && !unprovable;
        self.probe(match (whole, later) {
            (true, true) => "node: replica made whole under an older memory's name",
            (true, false) => "node: replica made",
            (false, _) => "node: replica made without its memory",
        });
        self.add_groups(bucket, incarnation, whole, unprovable);
    }

    /// New replicas of those partitions of a bucket that have none here. They have nothing; and may vote at once, if they have never had anything.
    pub(super) fn add_groups(&mut self, bucket: &Bucket, identity: u64, is_whole: bool, unprovable: bool) {
        for partition in bucket.partitions() {
            if place_of(&self.groups, partition).is_none() {
                self.add_group(bucket, partition, identity, is_whole, unprovable);
            }
        }
        self.tell_all();
    }

    fn add_group(&mut self, bucket: &Bucket, id: PartitionId, identity: u64, is_whole: bool, unprovable: bool) {
        let durable = bucket.settings.kind != BucketKind::Ephemeral;
        let mut incarnations = bucket.identities.clone();
        let place = usize::from(self.config.me.0);
        if incarnations.len() <= place && is_whole {
            incarnations.resize(place + 1, 0);
        }
        if let Some(own) = incarnations.get_mut(usize::from(self.config.me.0)) {
            *own = identity;
        }
        let state = is_whole.then(|| HardState { incarnation: identity, incarnations, ..HardState::default() });
        let restored = Restored { state, unprovable, incarnation: identity, ..Restored::default() };
        let rebuilt = Rebuilt { restored, ..Rebuilt::default() };
        self.bring_back(id, bucket.clone(), durable, rebuilt, None);
        let Some(g) = place_of(&self.groups, id).filter(|_| durable) else { return };
        let group = &mut self.groups[g];
        group.partition.begun_in = self.next_number;
        if is_whole {
            group.partition.store_beginning();
            group.partition.settle(&mut self.batch, &mut group.wishes);
        }
    }

    /// Stores that the council's log is decided as far as this node has followed it, and in which payload of the journal.
    fn store_decision(&mut self) -> u64 {
        if let Some(council) = place_of(&self.groups, COUNCIL) {
            let group = &mut self.groups[council];
            group.partition.store_state();
            group.partition.settle(&mut self.batch, &mut group.wishes);
        }
        self.next_number
    }

    /// A bucket is gone: nobody gets an answer from it any more, and what it had on disk is given back.
    fn remove_group(&mut self, g: usize) {
        self.tracking.forget_everything();
        self.probe("node: replica of a dropped bucket removed");
        let mut group = self.groups.remove(g);
        self.saved_last = 0;
        let id = group.id();
        self.pings.on_removed(id);
        self.forget_comparison(id);
        let begins_anew = self.buckets.list.iter().any(|bucket| bucket.born == group.bucket.born);
        subscriptions::glue::removed(self, id, begins_anew);
        if begins_anew {
            self.probe("node: ephemeral bucket begins anew");
            let text =
                format!("bucket {}: a majority has lost its memory of it; it begins anew, empty", group.bucket.name);
            self.event(Level::Error, text);
        }
        let told = if begins_anew { FORGOTTEN } else { DROPPED };
        for write in std::mem::take(&mut group.router.writes) {
            if let Waiter::Client { connection, slot } = write.waiter {
                self.deliver(connection, slot, &Reply::Error(told.clone()));
            }
        }
        for held in std::mem::take(&mut group.copies.held) {
            if let Waiter::Client { connection, slot } = held.waiter {
                self.deliver(connection, slot, &Reply::Error(told.clone()));
            }
        }
        self.end_waits_of(id, &told);
        for session in self.sessions.values_mut().flatten() {
            session.forget(id);
        }
        let sessions = self.sessions.values().flatten();
        let reading = sessions.filter(|session| session.lane(id).is_some_and(|lane| !lane.reads.is_empty()));
        for connection in reading.map(|session| session.id).collect::<Vec<_>>() {
            while let Some(session) = self.sessions.get_mut(&connection).and_then(Option::as_mut)
                && let Some(read) = session.lane_mut(id).and_then(|lane| lane.pop_read_if(|_| true))
            {
                self.deliver(connection, read.slot, &Reply::Error(told.clone()));
            }
        }
        self.backups.forget_partition(id, "the bucket is not there any more");
        if group.partition.durable && self.below.is_some() {
            group.transfers.drop_overtaken(Position(u64::MAX));
            let mut spaces = group.partition.tree.spaces();
            spaces.extend(group.transfers.take_given_up());
            let retired = Retired { partition: id, job: FlushJob::retire(id, spaces), after: self.store_decision() };
            self.retired.push(retired);
        }
        self.rubbish.push(Rubbish::new(group));
    }

    /// Who founds a new bucket of this kind: those who vote in the council, since who they are and which memory each has stands in its log. And which
    /// memories these are, as far as this node knows, by number; an error if these are too few to serve it.
    pub(crate) fn founding(&self, kind: BucketKind) -> Result<(Vec<u64>, Vec<NodeId>), Failure> {
        const TOO_FEW: Failure = Failure::Text(
            "CLUSTERDOWN a bucket can be created when a majority of the nodes is up; the command was not done, try again",
        );
        let Some(council) = place_of(&self.groups, COUNCIL) else { return Err(TOO_FEW) };
        let replica = &self.groups[council].partition.replica;
        if replica.role() == RoleName::Recovering {
            return Err(TOO_FEW);
        }
        let voters = replica.members().last_list();
        let mut founders: Vec<NodeId> = voters.iter().map(|voter| voter.node).collect();
        let known = replica.hard_state().incarnations;
        let mut identities = vec![0; founders.last().map_or(0, |last| usize::from(last.0) + 1)];
        for voter in voters {
            let place = usize::from(voter.node.0);
            identities[place] = known.get(place).copied().unwrap_or_default().max(voter.incarnation);
        }
        // It may not name itself.
        if founders.contains(&self.config.me) {
            identities[usize::from(self.config.me.0)] = replica.incarnation();
        }
        if kind == BucketKind::Ephemeral {
            for (place, identity) in identities.iter_mut().enumerate() {
                let node = NodeId(place as u16);
                if *identity == 0 {
                    continue;
                }
                let boot = if node == self.config.me {
                    Some(self.boot)
                } else {
                    let up = self.detectors.iter().any(|it| it.peer == node && it.is_up(self.now.time));
                    self.news.get(&node).filter(|_| up).map(|ping| ping.boot)
                };
                *identity = boot.map_or(0, |boot| identity_in_memory(*identity, boot));
            }
            make_odd(&mut founders, &mut identities, self.config.me);
        }
        let known = identities.iter().filter(|identity| **identity != 0).count();
        if known <= founders.len() / 2 {
            return Err(TOO_FEW);
        }
        let all = (0..self.config.members.len() as u16).map(NodeId);
        let founders = if founders.iter().copied().eq(all) { Vec::new() } else { founders };
        Ok((identities, founders))
    }

    /// What goes with each write to a bucket.
    pub(crate) fn terms(&self, partition: PartitionId) -> Terms {
        let node_max = self.config.value_bytes_max;
        let Some(bucket) = self.buckets.of(partition.bucket) else {
            return Terms { value_bytes_max: node_max, ..Terms::NONE };
        };
        let it = &bucket.settings;
        let (quota_max, full_at_bytes) = match it.kind {
            BucketKind::Persistent => (0, 0),
            BucketKind::Ephemeral => (0, it.quota_of_partition()),
            BucketKind::Cache => (it.quota_of_partition(), ceiling(it.quota_of_partition())),
        };
        let limit = |own: u64| if own > 0 { usize::try_from(own).unwrap_or(usize::MAX) } else { usize::MAX };
        let value_bytes_max = node_max.min(limit(it.value_bytes_max)).min(limit(quota_max));
        let slots = bucket.slots_of(partition);
        let work_max = it.work_max();
        Terms { value_bytes_max, ttl_ms: it.ttl_ms, full_at_bytes, slots, work_max }
    }

    /// What buckets may keep in memory of what is in the store, if the owner does not know it.
    pub(crate) fn tell_caches(&mut self) -> Option<Vec<CacheWish>> {
        let in_store = |bucket: &&Bucket| bucket.settings.kind != BucketKind::Ephemeral;
        let wish = |bucket: &Bucket| CacheWish {
            bucket: bucket.id,
            quota_bytes: Some(bucket.settings.quota_bytes).filter(|bytes| *bytes > 0),
            policy: bucket.settings.policy.map(Policy::name),
        };
        let tells = !std::mem::replace(&mut self.caches_told, true);
        tells.then(|| self.buckets.list.iter().filter(in_store).map(wish).collect())
    }

    /// Refuses values that are longer than a bucket takes, and commands that are more than all of a cache may have. (The node's own limit
    /// the parser knows; what makes values grow looks again when it is applied.)
    pub(crate) fn check_values(&self, bucket: BucketId, spec: &Spec, words: &[&[u8]]) -> Result<(), Failure> {
        if !spec.flags.has(Flags::DENYOOM) {
            return Ok(());
        }
        let settings = self.buckets.of(bucket).map(|bucket| &bucket.settings);
        if let Some(settings) = settings.filter(|settings| settings.kind == BucketKind::Cache)
            && words.iter().map(|word| word.len() as u64).sum::<u64>() > settings.quota_of_partition()
        {
            return Err(data::OUT_OF_MEMORY);
        }
        let limit = self.terms(PartitionId { bucket, index: 0 }).value_bytes_max;
        if words.iter().all(|word| word.len() <= limit) {
            return Ok(());
        }
        let keys = spec.keys_of(words);
        let is_key = |word: &&[u8]| keys.iter().any(|key| std::ptr::eq(*key, *word));
        if words.iter().all(|word| word.len() <= limit || is_key(word)) { Ok(()) } else { Err(Failure::ValueTooLong) }
    }

    /// The bucket that `SELECT` means by a number or a name, as far as this node knows.
    pub(crate) fn find_bucket(&self, word: &[u8]) -> Result<&Bucket, Failure> {
        self.buckets.find(word)
    }
}
