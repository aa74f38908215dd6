//! The door that the simulator knocks at: that of the shipping node. A trait only so that the simulator's own tests
//! can put something smaller behind it.

use base::ordered::Space;
use base::{Ballot, NodeId, Now, PartitionId, Position, Revision, WallTime};
use node::{CacheNews, Config, Input, Outbox, Placement, Progress, Recorded, Recovered, StoredKey, TrailMark, Voters};

/// See [`node::Node`], whose functions these are.
pub trait Door: Sized {
    /// Whether it knows `DICTUM.BUCKET`.
    const HAS_BUCKETS: bool = true;
    /// A node that remembers what `recovered` says.
    ///
    /// # Errors
    /// Why it cannot start.
    fn start(config: Config, recovered: Recovered, now: Now, out: &mut Outbox) -> Result<Self, String>;
    /// Takes one input.
    fn step(&mut self, now: Now, input: Input<'_>, out: &mut Outbox);
    /// Of what it has replicas.
    fn partitions(&self) -> Vec<PartitionId>;
    /// Whether it has nothing of one of them.
    fn is_without(&self, partition: PartitionId) -> bool {
        let _ = partition;
        false
    }
    /// What its replicas are about.
    fn portrait(&self) -> Vec<String> {
        Vec::new()
    }
    /// The words by which a member would tell this node that it was removed.
    fn farewell(&self) -> bytes::Bytes {
        bytes::Bytes::new()
    }
    /// Lies that somebody could tell this node in the name of a member that no longer runs.
    fn lies_of(&self, member: NodeId, seed: u64) -> Vec<bytes::Bytes> {
        let _ = (member, seed);
        Vec::new()
    }
    /// Whether it speaks with a node of that number.
    fn knows(&self, peer: NodeId) -> bool {
        let _ = peer;
        true
    }
    /// Who leads a partition, as far as this node knows.
    fn leader(&self, partition: PartitionId) -> Option<(NodeId, Ballot)>;
    /// Its memory's name, and the highest number that anything in its journal may have.
    fn folder(&self) -> (u64, u64) {
        (0, 0)
    }
    /// Up to where it knows the journal of another to have come, in a memory of this name.
    fn has_heard_of(&self, node: NodeId, memory: u64) -> u64 {
        let _ = (node, memory);
        0
    }
    /// The name of the latest memory of another that this node knows of; 0 if it knows none.
    fn later_life_of(&self, node: NodeId) -> u64 {
        let _ = node;
        0
    }
    /// Whether replicas of a folder that was away are still to recover.
    fn is_outlived(&self) -> bool {
        false
    }
    /// The cluster's time as this node has it from a majority, if it does; and the latest to which a log of its partitions has come.
    fn times(&self) -> (Option<WallTime>, WallTime) {
        (None, WallTime::default())
    }
    /// How far a log is.
    fn progress(&self, partition: PartitionId) -> Option<Progress>;
    /// Who votes, and who shall.
    fn voters(&self, partition: PartitionId) -> Option<Voters> {
        let _ = partition;
        None
    }
    /// Up to where it follows the council's log.
    fn council_followed(&self) -> Position {
        Position(0)
    }
    /// What the council says of nodes and votes, as far as it follows its log.
    fn placement(&self) -> Option<Placement> {
        None
    }
    /// The version of the cluster, as far as it follows the council's log.
    fn cluster_version(&self) -> u16 {
        base::versions::OLDEST
    }
    /// The entries that were stepped over, as the council's registry has it.
    fn stepped_over(&self) -> Vec<(PartitionId, Position)> {
        Vec::new()
    }
    /// Of each node its zone, and whether it serves, as the council's registry has it.
    fn zones(&self) -> Vec<(NodeId, String, bool)> {
        Vec::new()
    }
    /// A digest of a whole state.
    fn state_digest(&self, partition: PartitionId) -> Option<u64>;
    /// The bucket of a partition, and how many bytes its state counts.
    fn holding(&self, partition: PartitionId) -> Option<(&str, u64)> {
        let _ = partition;
        None
    }
    /// Whose memories of a partition in memory the council counts.
    fn remembered_by(&self, partition: PartitionId) -> Vec<Vec<NodeId>> {
        let _ = partition;
        Vec::new()
    }
    /// What there is to know of buckets that evict, and what the last turn has evicted.
    fn caches(&self) -> Vec<CacheNews> {
        Vec::new()
    }
    /// How far audit trails are signed, as the council's registry has it, if the cluster's version has that.
    fn trail_marks(&self) -> Option<Vec<(NodeId, TrailMark)>> {
        None
    }
    /// The users that it knows, with their rules.
    fn users(&self) -> Vec<String> {
        Vec::new()
    }
    /// A connection that has other rights than its user has, if there is one.
    fn stale_rights(&self) -> Option<String> {
        None
    }
    /// Whether any state has elements of collections that are gone.
    fn has_garbage(&self) -> bool {
        false
    }
    /// How many answers a replica keeps for the clients of each node, and how many bytes these have.
    fn kept_answers(&self, partition: PartitionId) -> Vec<(NodeId, usize, u64)> {
        let _ = partition;
        Vec::new()
    }
    /// Digests of states that it has compared, and replicas that it has seen to differ.
    fn comparisons(&self) -> (u64, u64) {
        (0, 0)
    }
    /// How many snapshots of peers it has installed.
    fn snapshots_installed(&self) -> u64 {
        0
    }
    /// How often clients may have been told in part only what changes.
    fn untold(&self) -> u64 {
        0
    }
    /// Changes of a partition that it keeps for subscribers, those behind a revision; none if it records none.
    fn recorded(&self, partition: PartitionId, after: Revision) -> Option<Recorded> {
        let _ = (partition, after);
        None
    }
    /// The keys of a partition, and its revision; none if it has none.
    fn stored_keys(&self, partition: PartitionId) -> Option<(Revision, Vec<StoredKey>)> {
        let _ = partition;
        None
    }
    /// The same of one key.
    fn stored_key(&self, partition: PartitionId, key: &[u8]) -> Option<StoredKey> {
        let _ = (partition, key);
        None
    }
    /// The checksum of a decided entry.
    fn decided_entry_digest(&self, partition: PartitionId, position: Position) -> Option<u64>;
    /// The spaces of the store below that it needs.
    fn spaces(&self) -> Vec<Space>;
    /// The same with the partitions that they belong to.
    fn spaces_of_partitions(&self) -> Vec<(PartitionId, Space)> {
        Vec::new()
    }
    /// Rare branches reached since the last call.
    fn take_probes(&mut self) -> Vec<(&'static str, u64)>;
}

impl Door for node::Node {
    fn start(config: Config, recovered: Recovered, now: Now, out: &mut Outbox) -> Result<Self, String> {
        node::Node::start(config, recovered, now, out).map_err(|error| error.0)
    }

    fn step(&mut self, now: Now, input: Input<'_>, out: &mut Outbox) {
        node::Node::step(self, now, input, out);
    }

    fn partitions(&self) -> Vec<PartitionId> {
        node::Node::partitions(self)
    }

    fn is_without(&self, partition: PartitionId) -> bool {
        node::Node::is_without(self, partition)
    }

    fn voters(&self, partition: PartitionId) -> Option<Voters> {
        node::Node::voters(self, partition)
    }

    fn council_followed(&self) -> Position {
        node::Node::council_followed(self)
    }

    fn placement(&self) -> Option<Placement> {
        Some(node::Node::placement(self))
    }

    fn zones(&self) -> Vec<(NodeId, String, bool)> {
        node::Node::zones(self)
    }

    fn cluster_version(&self) -> u16 {
        node::Node::cluster_version(self)
    }

    fn stepped_over(&self) -> Vec<(PartitionId, Position)> {
        node::Node::stepped_over(self)
    }

    fn portrait(&self) -> Vec<String> {
        node::Node::portrait(self)
    }

    fn folder(&self) -> (u64, u64) {
        node::Node::folder(self)
    }

    fn has_heard_of(&self, node: NodeId, memory: u64) -> u64 {
        node::Node::has_heard_of(self, node, memory)
    }

    fn later_life_of(&self, node: NodeId) -> u64 {
        node::Node::later_life_of(self, node)
    }

    fn trail_marks(&self) -> Option<Vec<(NodeId, TrailMark)>> {
        node::Node::trail_marks(self)
    }

    fn users(&self) -> Vec<String> {
        node::Node::users(self)
    }

    fn stale_rights(&self) -> Option<String> {
        node::Node::stale_rights(self)
    }

    fn is_outlived(&self) -> bool {
        node::Node::is_outlived(self)
    }

    fn times(&self) -> (Option<WallTime>, WallTime) {
        node::Node::times(self)
    }

    fn farewell(&self) -> bytes::Bytes {
        node::farewell(self)
    }

    fn lies_of(&self, member: NodeId, seed: u64) -> Vec<bytes::Bytes> {
        node::lies_of(self, member, seed)
    }

    fn knows(&self, peer: NodeId) -> bool {
        node::Node::knows(self, peer)
    }

    fn leader(&self, partition: PartitionId) -> Option<(NodeId, Ballot)> {
        node::Node::leader(self, partition)
    }

    fn progress(&self, partition: PartitionId) -> Option<Progress> {
        node::Node::progress(self, partition)
    }

    fn state_digest(&self, partition: PartitionId) -> Option<u64> {
        node::Node::state_digest(self, partition)
    }

    fn holding(&self, partition: PartitionId) -> Option<(&str, u64)> {
        node::Node::holding(self, partition)
    }

    fn remembered_by(&self, partition: PartitionId) -> Vec<Vec<NodeId>> {
        node::Node::remembered_by(self, partition)
    }

    fn decided_entry_digest(&self, partition: PartitionId, position: Position) -> Option<u64> {
        node::Node::decided_entry_digest(self, partition, position)
    }

    fn has_garbage(&self) -> bool {
        node::Node::has_garbage(self)
    }

    fn caches(&self) -> Vec<CacheNews> {
        node::Node::caches(self)
    }

    fn kept_answers(&self, partition: PartitionId) -> Vec<(NodeId, usize, u64)> {
        node::Node::kept_answers(self, partition)
    }

    fn comparisons(&self) -> (u64, u64) {
        node::Node::comparisons(self)
    }

    fn snapshots_installed(&self) -> u64 {
        node::Node::snapshots_installed(self)
    }

    fn untold(&self) -> u64 {
        node::Node::untold(self)
    }

    fn recorded(&self, partition: PartitionId, after: Revision) -> Option<Recorded> {
        node::recorded(self, partition, after)
    }

    fn stored_keys(&self, partition: PartitionId) -> Option<(Revision, Vec<StoredKey>)> {
        node::stored_keys(self, partition)
    }

    fn stored_key(&self, partition: PartitionId, key: &[u8]) -> Option<StoredKey> {
        node::stored_key(self, partition, key)
    }

    fn spaces(&self) -> Vec<Space> {
        node::Node::spaces(self)
    }

    fn spaces_of_partitions(&self) -> Vec<(PartitionId, Space)> {
        node::Node::spaces_of_partitions(self)
    }

    fn take_probes(&mut self) -> Vec<(&'static str, u64)> {
        node::Node::take_probes(self)
    }
}
