//! How a bucket looks to clients that know Redis Clusters: which node is the master of which hash slots, and who replicates it.
//!
//! There a node is a master or a replica, never both, and clients rely on it. Here every node leads some partitions and follows in others. So it is shown
//! like this:
//! - Who leads any partition of the bucket is a master, of the slots of those that it leads.
//! - Who leads none is a replica. It follows all of them; it is shown as the replica of one, the same at every node that sees the same leaders.
//! - A partition without a leader is shown where it was led last, as Redis shows slots whose master has died. (Who asks there finds nobody, and asks again.)
//! - A partition whose leader has no address for such clients is shown at the node that is asked, which forwards.
//! - So is one of which this node knows no leader yet, nor had one: never is there a hole. (It begins, or has lost what it knew. Who asks it finds nobody, and asks again.)

use std::collections::BTreeMap;

use base::{NodeId, PartitionId, Position};
use paxos::RoleName;

use crate::bucket::Bucket;
use crate::door::Planted;
use crate::node::{Node, place_of, role_number};
use crate::peer::PartitionNews;

/// A bucket as it is shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Topology {
    /// Ranges of slots with who has them, first and last, in their order; neighbours of one node are one range.
    pub ranges: Vec<(u16, u16, NodeId)>,
    /// By member; without those of whom no address is known.
    pub nodes: Vec<Shown>,
}

/// One node of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Shown {
    pub node: NodeId,
    pub host: String,
    pub port: u16,
    /// Whom it replicates; none of a master.
    pub master: Option<NodeId>,
    /// The highest round in which it was elected, of a replica its master's: the newest word on who has a slot.
    pub epoch: u64,
    /// It is heard.
    pub up: bool,
    /// It has lost what it held, and is recovering.
    pub recovering: bool,
    /// Entries that it has on disk, over all partitions.
    pub offset: u64,
}

impl Topology {
    /// A node, if it is shown.
    pub(crate) fn get(&self, node: NodeId) -> Option<&Shown> {
        self.nodes.iter().find(|shown| shown.node == node)
    }

    pub(crate) fn is_replica(&self, node: NodeId) -> bool {
        self.get(node).is_some_and(|shown| shown.master.is_some())
    }

    /// Who is shown as having what a node holds: itself, or its master.
    pub(crate) fn master_of(&self, node: NodeId) -> NodeId {
        self.get(node).and_then(|shown| shown.master).unwrap_or(node)
    }

    /// The replicas of a master.
    pub(crate) fn replicas_of(&self, master: NodeId) -> impl Iterator<Item = &Shown> {
        self.nodes.iter().filter(move |shown| shown.master == Some(master))
    }

    /// Nodes with slots, in their order.
    pub(crate) fn masters(&self) -> impl Iterator<Item = &Shown> {
        self.nodes.iter().filter(|shown| self.ranges.iter().any(|(.., owner)| *owner == shown.node))
    }

    /// The ranges of one node.
    pub(crate) fn ranges_of(&self, node: NodeId) -> impl Iterator<Item = (u16, u16)> + '_ {
        self.ranges.iter().filter(move |(.., owner)| *owner == node).map(|(first, last, _)| (*first, *last))
    }
}

/// Host and port of `host:port`, without the brackets of an IPv6 address.
pub(crate) fn parts(address: &str) -> (&str, u16) {
    let (host, port) = address.rsplit_once(':').unwrap_or((address, "0"));
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    (bare.unwrap_or(host), port.parse().unwrap_or(0))
}

impl Node {
    /// Where clients of the Redis Cluster protocol reach a node; empty if that is not known.
    pub(crate) fn cluster_address_of(&self, node: NodeId) -> &str {
        if node == self.config.me {
            return &self.config.cluster_address;
        }
        self.news.get(&node).map_or("", |ping| &ping.cluster_address)
    }

    /// The node at which a partition is shown, and the round in which it was elected; this node and 0 if none is known to have been.
    fn shown_at(&self, partition: PartitionId) -> (NodeId, u64) {
        let me = self.config.me;
        let Some(g) = place_of(&self.groups, partition) else { return (me, 0) };
        let replica = &self.groups[g].partition.replica;
        let last = replica.promised();
        let known = self.leader_of(g).or((last.round > 0).then_some((last.node, last)));
        let (leader, round) = known.map_or((me, 0), |(leader, ballot)| (leader, ballot.round));
        (if self.cluster_address_of(leader).is_empty() { me } else { leader }, round)
    }

    /// How a bucket is shown.
    pub(crate) fn topology(&self, bucket: &Bucket) -> Topology {
        let mut ranges: Vec<(u16, u16, NodeId)> = Vec::new();
        let mut epochs: BTreeMap<NodeId, u64> = BTreeMap::new();
        let leaves_out = self.config.planted == Some(Planted::SlotsWithAHole);
        for partition in bucket.partitions().filter(|it| !leaves_out || self.leader(*it).is_some()) {
            let (node, round) = self.shown_at(partition);
            let epoch = epochs.entry(node).or_default();
            *epoch = round.max(*epoch);
            let slots = bucket.slots_of(partition);
            match ranges.last_mut() {
                Some((_, last, owner)) if *owner == node && *last + 1 == slots.first => *last = slots.end - 1,
                _ => ranges.push((slots.first, slots.end - 1, node)),
            }
        }
        let masters: Vec<(NodeId, u64)> = epochs.iter().map(|(node, epoch)| (*node, *epoch)).collect();
        let mut replicas = 0;
        let mut nodes = Vec::new();
        for node in self.roll.ids() {
            let led = epochs.get(&node);
            // Counted before it is known whether it is shown: other nodes may know more addresses, and must come to the same.
            let follows = (led.is_none() && !masters.is_empty()).then(|| {
                replicas += 1;
                masters[(replicas - 1) % masters.len()]
            });
            let address = self.cluster_address_of(node);
            if address.is_empty() {
                continue;
            }
            let (host, port) = parts(address);
            nodes.push(Shown {
                node,
                host: host.to_owned(),
                port,
                master: follows.map(|(master, _)| master),
                epoch: led.copied().or(follows.map(|(_, epoch)| epoch)).unwrap_or_default(),
                up: self.is_up(node),
                recovering: self.news_in(bucket, node).any(|(role, _)| role == role_number(RoleName::Recovering)),
                offset: self.news_in(bucket, node).map(|(_, persisted)| persisted.0).sum(),
            });
        }
        Topology { ranges, nodes }
    }

    /// Whether a node is heard.
    pub(crate) fn is_up(&self, node: NodeId) -> bool {
        let time = self.now.time;
        node == self.config.me || self.detectors.iter().any(|it| it.peer == node && it.is_up(time))
    }

    /// The role and how much is on disk of each partition of a bucket at a node, as far as it has said so.
    fn news_in<'a>(&'a self, bucket: &Bucket, node: NodeId) -> impl Iterator<Item = (u8, Position)> + use<'a> {
        let (id, is_me) = (bucket.id, node == self.config.me);
        let own = self.groups.iter().filter(move |group| is_me && group.id().bucket == id).map(|group| {
            let replica = &group.partition.replica;
            (role_number(replica.role()), replica.persisted())
        });
        let told = self.news.get(&node).filter(|_| !is_me).into_iter().flat_map(|ping| &ping.partitions);
        let told = told.filter(move |news: &&PartitionNews| news.partition.bucket == id);
        own.chain(told.map(|news| (news.role, news.persisted)))
    }

    /// The partitions that are shown as this node's, or its master's if it is shown as a replica.
    pub(crate) fn partitions_shown_here(&self, bucket: &Bucket) -> Vec<PartitionId> {
        let master = self.topology(bucket).master_of(self.config.me);
        bucket.partitions().filter(|partition| self.shown_at(*partition).0 == master).collect()
    }
}
