//! Nodes that have greeted this one and of which the council's registry says nothing here (yet).
//!
//! A node that follows the council's leader reads the list of nodes from the log. It takes nobody's own word for being one: a holder of a member's key could make up nodes, and
//! have any address called. A node that has followed no leader for a while may have been away for so long that it knows none of today's voters. It listens to every node
//! that calls it, for only they can tell.

use std::collections::BTreeMap;
use std::time::Duration;

use base::limits::NODES_EVER_MAX;
use base::{NodeId, Time};

use crate::council::COUNCIL;
use crate::door::Member;
use crate::node::{Node, place_of};
use crate::roll::Changes;

/// A node believes a newcomer after it has known of no leader for so long. Elections are over sooner.
const BELIEVED_AFTER: Duration = Duration::from_secs(3);

/// See the file's head.
#[derive(Debug, Default)]
pub(crate) struct Newcomers {
    /// Those that are linked, and not believed yet. There is one for each number at the most.
    linked: BTreeMap<NodeId, Member>,
    /// Since when this node knows of no leader, if anybody is linked.
    leaderless: Option<Time>,
}

impl Newcomers {
    /// Those that are to be believed now.
    fn take(&mut self, has_leader: bool, now: Time) -> BTreeMap<NodeId, Member> {
        if has_leader || self.linked.is_empty() {
            self.leaderless = None;
            return BTreeMap::new();
        }
        let since = *self.leaderless.get_or_insert(now);
        if now.since(since) < BELIEVED_AFTER { BTreeMap::new() } else { std::mem::take(&mut self.linked) }
    }
}

/// A node with an unknown number has greeted this one.
pub(crate) fn on_met(node: &mut Node, id: NodeId, member: Member) {
    let is_out = node.registry.removed.contains(&id) || node.registry.left_behind(id);
    if id.0 < NODES_EVER_MAX && !is_out {
        node.probe("node: an unknown node not taken at its word");
        node.newcomers.linked.insert(id, member);
    }
}

/// Its link has ended.
pub(crate) fn on_down(node: &mut Node, id: NodeId) {
    node.newcomers.linked.remove(&id);
}

/// Takes newcomers for nodes of the cluster, if this node has followed no leader for long. In each turn.
pub(crate) fn tick(node: &mut Node) {
    if node.newcomers.linked.is_empty() {
        return;
    }
    let has_leader = place_of(&node.groups, COUNCIL).is_some_and(|g| node.leader_of(g).is_some());
    for (id, member) in node.newcomers.take(has_leader, node.now.time) {
        if node.roll.meet(id, member) {
            node.probe("node: met an unknown node");
            node.roll_told = false;
            node.carry_out_changes(Changes { came: vec![id], ..Changes::default() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newcomers_are_believed_where_no_leader_is_known_for_long() {
        let mut newcomers = Newcomers::default();
        let member = Member { name: "n9".to_owned(), peer_address: "n9:9001".to_owned() };
        newcomers.linked.insert(NodeId(8), member);
        let at = |ms: u64| Time::default() + Duration::from_millis(ms);
        assert!(newcomers.take(false, at(0)).is_empty() && newcomers.take(false, at(2999)).is_empty());
        // A leader has come, and gone.
        assert!(newcomers.take(true, at(3000)).is_empty());
        assert!(newcomers.take(false, at(4000)).is_empty() && newcomers.take(false, at(6999)).is_empty());
        assert!(newcomers.take(false, at(7000)).contains_key(&NodeId(8)));
        assert!(newcomers.take(false, at(20_000)).is_empty(), "once");
        assert_eq!(newcomers.leaderless, None);
    }
}
