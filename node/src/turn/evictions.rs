//! Buckets that evict: the leader proposes what has to go, followers tell it what they have read. See [`crate::eviction`].

use base::{Position, Revision};
use data::{Applied, Blob, ChangeKind, EntryContext};

use crate::bucket::{Bucket, BucketKind, Named, Policy};
use crate::door::Planted;
use crate::entry::Kind;
use crate::eviction::{Evicting, Eviction, TELL_EVERY, room_at};
use crate::group::Group;
use crate::node::Node;
use crate::partition::{Partition, Wishes};
use crate::peer::PeerMessage;
use crate::router::Waiter;

impl Node {
    /// Watches what is asked of a bucket, if it is one that evicts, under the policy that it has now.
    pub(crate) fn follow_policy(&mut self, g: usize) {
        let Group { partition, bucket, wishes, .. } = &mut self.groups[g];
        let Bucket { settings, .. } = bucket;
        if settings.kind != BucketKind::Cache {
            return;
        }
        let of_node = || Policy::from_name(self.config.cache_policy.as_bytes());
        let policy = settings.policy.or_else(of_node).unwrap_or(Policy::S3Fifo);
        match &mut partition.evicting {
            Some(evicting) => wishes.rubbish.extend(evicting.set_policy(policy)),
            None => partition.evicting = Some(Box::new(Evicting::new(policy))),
        }
    }

    /// The leader of a bucket that is above its quota proposes what has to go, unless an eviction is under way.
    pub(super) fn evict(&mut self, g: usize) {
        let Group { partition, bucket, router, wishes, .. } = &mut self.groups[g];
        let quota = bucket.settings.quota_of_partition();
        let Some(evicting) = &mut partition.evicting else { return };
        if partition.tree.bytes() <= quota || router.evicting.is_some() || self.disk.is_full() {
            return;
        }
        let down_to = room_at(quota);
        let victims = evicting.choose(&partition.tree, down_to);
        if victims.is_empty() {
            return;
        }
        let probe = match evicting.policy() {
            Policy::Fifo => "node: key evicted by fifo",
            Policy::Lru => "node: key evicted by lru",
            Policy::Lfu => "node: key evicted by lfu",
            Policy::S3Fifo => "node: key evicted by s3-fifo",
        };
        if self.config.planted == Some(Planted::EvictionOutsideTheLog) {
            partition.evict_here(&victims, down_to, wishes);
            return;
        }
        let body = Eviction::encode(down_to, &victims);
        let deadline = self.now.time + self.config.request_timeout;
        router.evicting = Some(router.write(Kind::Evict, body, Waiter::Nobody, self.now.time, deadline));
        self.probe(probe);
    }

    /// A follower tells the leader what its clients have read.
    pub(super) fn tell_read(&mut self, g: usize) {
        let Group { partition, .. } = &mut self.groups[g];
        let (id, leader) = (partition.id, partition.replica.leader());
        let Some(evicting) = &mut partition.evicting else { return };
        if self.now.time < evicting.next_told {
            return;
        }
        evicting.next_told = self.now.time + TELL_EVERY;
        let orders = evicting.take_read();
        if let Some((leader, _)) = leader.filter(|(leader, _)| *leader != self.config.me && !orders.is_empty()) {
            self.send(leader, &PeerMessage::Touched { partition: id, orders });
        }
    }

    /// A follower says what it has read.
    pub(crate) fn on_touched(&mut self, g: usize, orders: &[u64]) {
        let partition = &mut self.groups[g].partition;
        if let Some(evicting) = &mut partition.evicting {
            evicting.touch_orders(orders, &partition.tree);
            self.probe("node: told what a follower has read");
        }
    }
}

impl Partition {
    /// A bucket that evicts is told what happens to its keys.
    pub(crate) fn watch_changes(&mut self, position: Position, applied: &Applied, wishes: &mut Wishes) {
        if let Some(evicting) = &mut self.evicting {
            wishes.rubbish.extend(evicting.follow(&applied.changes, self.tree.bytes()));
            let evicted = applied.changes.iter().filter(|change| change.kind == ChangeKind::Evicted);
            wishes.evicted.extend(evicted.map(|change| (position, change.key.clone())));
        }
    }

    /// The planted bug: keys go here, and nobody else hears of it.
    fn evict_here(&mut self, victims: &[(Blob, Revision)], down_to: u64, wishes: &mut Wishes) {
        let victims: Vec<(&[u8], Revision)> = victims.iter().map(|(key, revision)| (&**key, *revision)).collect();
        let context = EntryContext { time: self.tree.time(), ..EntryContext::default() };
        let applied = data::evict(&mut self.tree, &context, &victims, down_to);
        let mut ignored = Wishes::default();
        self.watch_changes(self.applied, &applied, &mut ignored);
        wishes.rubbish.append(&mut ignored.rubbish);
    }
}
