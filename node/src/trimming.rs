//! Gives back the memory of logs that no replica needs any more.
//!
//! Behind a snapshot each replica keeps some log for those that are a little behind ([`base::limits::LOG_ENTRIES_KEPT`]): they get entries then, and not the whole state.
//! Where all are there and have all of it on their disks, it is of no use. Without this a node would keep 64 MiB of entries for ever after a burst of writes.
//!
//! 1. Every [`LogTrimSettings::every`] a node marks how far the disks of **all** nodes have the log of a partition, by what they say in their pings. If one of them is away
//!    or recovers, there is no mark.
//! 2. At the next time the log is cut up to the mark of the time before, if it is large enough for that to matter. So what was written in between is kept for a node that goes
//!    away and comes back.
//! 3. The cut is that of [`Node::cut_log`]: never beyond the snapshot that is on this node's own disk, nor before a peer that takes one.

use std::collections::BTreeMap;
use std::time::Duration;

use base::{NodeId, PartitionId, Position, Time};
use paxos::RoleName;

use crate::node::{Node, news_of, place_of, role_number};

/// When logs are looked at, and which of them are cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogTrimSettings {
    /// Between two looks.
    pub every: Duration,
    /// A log of fewer bytes stays as it is.
    pub from_bytes: u64,
}

impl Default for LogTrimSettings {
    fn default() -> LogTrimSettings {
        LogTrimSettings { every: base::limits::LOG_TRIMMED_EVERY, from_bytes: base::limits::LOG_TRIMMED_FROM_BYTES }
    }
}

/// See the file's head.
#[derive(Debug, Default)]
pub(crate) struct Trimming {
    /// Up to here all had the log at the last look.
    marks: BTreeMap<PartitionId, Position>,
    next: Time,
}

/// At every round of pings.
pub(crate) fn tick(node: &mut Node) {
    if node.now.time < node.trimming.next {
        return;
    }
    node.trimming.next = node.now.time + node.config.log_trim.every;
    let mut marks = BTreeMap::new();
    if let Some(others) = all_others(node) {
        for g in 0..node.groups.len() {
            if let Some(mark) = on_all_disks(node, g, &others) {
                marks.insert(node.groups[g].id(), mark);
            }
        }
    }
    let before = std::mem::replace(&mut node.trimming.marks, marks);
    for (id, mark) in before {
        if node.trimming.marks.contains_key(&id)
            && let Some(g) = place_of(&node.groups, id)
        {
            give_back(node, g, mark);
        }
    }
}

/// Has the log cut up to the mark, if it is large enough.
fn give_back(node: &mut Node, g: usize, mark: Position) {
    let partition = &node.groups[g].partition;
    let log = partition.replica.log();
    let base = log.base();
    if log.bytes() < node.config.log_trim.from_bytes || mark <= base || partition.cut_to.is_some() {
        return;
    }
    let saved = if partition.durable { partition.saved_at } else { partition.applied };
    if saved < mark && partition.durable && partition.is_over_store() {
        // Much was written and little has changed: what has is soon in the store.
        node.groups[g].partition.snapshot_wanted = true;
    }
    if saved > base {
        // The group is awake then, and is cut at the end of this turn.
        let partition = &mut node.groups[g].partition;
        (partition.cut_to, partition.all_have) = (Some(saved), Some(mark));
        node.probe("node: log trimmed that all have");
    }
}

/// The other nodes of the cluster; none if one of them is away.
fn all_others(node: &Node) -> Option<Vec<NodeId>> {
    let others = node.roll.ids().filter(|id| *id != node.config.me && !node.registry.left_behind(*id));
    others.map(|id| (node.is_up(id) && node.news.contains_key(&id)).then_some(id)).collect()
}

/// Up to where the disks of all nodes have the log of a partition; none if one of them has lost something.
fn on_all_disks(node: &Node, g: usize, others: &[NodeId]) -> Option<Position> {
    let (id, replica) = (node.groups[g].id(), &node.groups[g].partition.replica);
    let recovers = role_number(RoleName::Recovering);
    if replica.role() == RoleName::Recovering {
        return None;
    }
    let mut least = replica.persisted();
    for other in others {
        match node.news.get(other).and_then(|ping| news_of(ping, id)) {
            Some(news) if news.role == recovers => return None,
            Some(news) if node.holds(*other, id) => least = least.min(news.persisted),
            // It has no copy, and is not to have one.
            _ if !replica.members().names(*other) => {}
            _ => return None,
        }
    }
    Some(least)
}
