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

use base::{PartitionId, Position, Time};
use paxos::RoleName;

use crate::node::{Node, news_of, role_number};

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
    let settings = node.config.log_trim;
    node.trimming.next = node.now.time + settings.every;
    let places: Vec<(usize, PartitionId)> = node.groups.iter().map(|group| group.id()).enumerate().collect();
    let mut marks = BTreeMap::new();
    for (g, id) in places {
        let Some(mark) = on_all_disks(node, g, id) else { continue };
        marks.insert(id, mark);
        let Some(before) = node.trimming.marks.get(&id).copied() else { continue };
        let partition = &node.groups[g].partition;
        let log = partition.replica.log();
        let saved = if partition.durable { partition.saved_at } else { partition.applied };
        if log.bytes() < settings.from_bytes || before <= log.base() || partition.cut_to.is_some() {
            continue;
        }
        let (base, goes_to_store) = (log.base(), partition.durable && partition.is_over_store());
        if saved < before && goes_to_store {
            // Much was written and little has changed: what has is soon in the store.
            node.groups[g].partition.snapshot_wanted = true;
        }
        if saved <= base {
            continue;
        }
        // They are awake then, and cut at the end of this turn.
        let partition = &mut node.groups[g].partition;
        partition.cut_to = Some(saved);
        partition.cut_keep = Some(saved.0.saturating_sub(before.0));
        node.probe("node: log trimmed that all have");
    }
    node.trimming.marks = marks;
}

/// Up to where the disks of all nodes have the log of a partition; none if one of them is away, or has lost something.
fn on_all_disks(node: &Node, g: usize, id: PartitionId) -> Option<Position> {
    let replica = &node.groups[g].partition.replica;
    let recovers = role_number(RoleName::Recovering);
    if replica.role() == RoleName::Recovering {
        return None;
    }
    let mut least = replica.persisted();
    for other in node.roll.ids().filter(|id| *id != node.config.me && !node.registry.left_behind(*id)) {
        let ping = node.news.get(&other).filter(|_| node.is_up(other))?;
        match news_of(ping, id) {
            Some(news) if news.role == recovers => return None,
            Some(news) if node.holds(other, id) => least = least.min(news.persisted),
            // It has no copy, and is not to have one.
            _ if !replica.members().names(other) => {}
            _ => return None,
        }
    }
    Some(least)
}
